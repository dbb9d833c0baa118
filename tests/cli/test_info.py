"""`structlearn info`: what is in a pipeline, and what its components have learned."""

import re

import pytest
import spacy
from cli.toys import ATTACHED, fitted_on_trees
from encoder.tiny import PIECES, tiny

import spacy_structlearn
from spacy_structlearn.encoder.scorer import Potentials, SiteScorer
from spacy_structlearn.grammar.latent.describe import subcategories


def test_info_shows_the_templates_and_features_of_a_log_linear_model(run, tmp_path):
    templates = [["p"], ["p", "v"]]
    model = trained(tmp_path, "LogLinear", factory="pp_attacher", templates=templates)
    code, out, err = run("info", model, "--component", "pp_attacher", "--label", "N")
    assert (code, err) == (0, "")
    parameters = spacy.load(model).get_pipe("pp_attacher").parameters
    assert out.startswith(parameters.describe() + "\n")
    assert "p=of" in out
    assert "v=ate" not in out  # in conjunctions alone, and those have no names


def test_info_describes_a_chain(run, model):
    out = run("info", model, "--component", "np_chunker")[1]
    assert out.startswith("linear chain of 3 labels and ")


# --- grammars -------------------------------------------------------------------------------------
def trained(path, architecture, times=4, factory="constituency_parser", **settings):
    """A component that has learned two sentences, so many times: the directory of a pipeline."""
    model = {"@architectures": f"spacy_structlearn.{architecture}.v1", **settings}
    return fitted_on_trees(spacy.blank("en"), path, ATTACHED * times, **{factory: model})


@pytest.fixture(scope="module")
def split_model(tmp_path_factory):
    """A parser whose grammar was split once: its directory."""
    return trained(tmp_path_factory.mktemp("cli_split"), "LatentGrammar", rounds=1)


def test_info_shows_the_subcategories_of_tags_with_their_words(run, split_model):
    code, out, err = run("info", split_model, "--component", "constituency_parser")
    assert (code, err) == (0, "")
    head, sizes, tags, phrases, *lines = out.splitlines()
    assert head == "latent grammar of 6 tags and 4 phrases, 1 rounds of splitting"
    grammar = spacy.load(split_model).get_pipe("constituency_parser").parameters
    substates = dict(zip(grammar.symbols.names, grammar.levels[1].substates.tolist(), strict=True))
    assert f"NN {substates['NN']}" in tags
    assert f"NP {substates['NP']}" in phrases
    assert sizes.startswith(f"{grammar.levels[1].size} subcategories")
    names = [line.split()[0] for line in lines]
    wanted = [f"{tag}-{i}" for tag in grammar.symbols.tags for i in range(substates[tag])]
    assert names == wanted
    (verb,) = [line for line in lines if line.startswith("VBD-0")]
    assert verb.startswith("VBD-0    ate 0.99, ")


def test_info_shows_the_productions_of_a_phrase(run, split_model):
    arguments = ["--component", "constituency_parser", "--label", "PP", "--top", "1"]
    lines = run("info", split_model, *arguments)[1].splitlines()[4:]
    assert all(re.fullmatch(r"PP-\d +IN-\d NP-\d \d(\.\d+)?", line) for line in lines), lines
    grammar = spacy.load(split_model).get_pipe("constituency_parser").parameters
    # The probabilities of all productions of a subcategory sum to 1.
    for _, pairs in subcategories(grammar, "NP", 1000):
        assert sum(prob for prob, _ in pairs) == pytest.approx(1, abs=1e-4)
        assert [prob for prob, _ in pairs] == sorted((p for p, _ in pairs), reverse=True)


@pytest.fixture(scope="module")
def network_model(tmp_path_factory):
    """A parser with a sigmoid belief network: its directory."""
    settings = {"state_size": 8, "min_word_count": 1, "max_iterations": 10}
    settings |= {"min_chain_count": 10, "min_unknown": 0}
    return trained(tmp_path_factory.mktemp("cli_network"), "ISBN", times=10, **settings)


def test_info_shows_the_sizes_of_a_network(run, network_model):
    code, out, err = run("info", network_model, "--component", "constituency_parser")
    assert (code, err) == (0, "")
    head, sizes, words, tags = out.splitlines()
    assert head == "sigmoid belief network of 6 tags and 4 phrases, 0 of them collapsed chains"
    assert sizes.startswith("8 units a state, feed_forward means, ")
    assert sizes.endswith(" weights; beam 10")
    assert re.fullmatch(r"8 words with their tags, unknown words of \d classes \(shape\)", words)
    assert tags == "  tags: IN 2, NNS 2, . 1, NN 1, PRP 1, VBD 1"


def test_info_shows_the_encoder_and_what_reads_it(run, model, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("token_encoder").parameters = tiny()
    nlp.add_pipe("np_chunker", source=spacy.load(model))
    chunker = nlp.get_pipe("np_chunker")
    chunker.encoder = True
    chunker.potentials = Potentials({"chunks": SiteScorer.untrained(["B", "O"], 16, 1)})
    nlp.to_disk(tmp_path)
    # As when it is added with this setting.
    text = (tmp_path / "config.cfg").read_text(encoding="utf8")
    text = text.replace("encoder = false", "encoder = true")
    (tmp_path / "config.cfg").write_text(text, encoding="utf8")
    code, out, err = run("info", tmp_path, "--component", "token_encoder")
    assert (code, err) == (0, "")
    assert out == f"encoder of 2 layers of 16, {len(PIECES)} word pieces, int8\n"
    out = run("info", tmp_path, "--component", "np_chunker")[1]
    line = "site scorer chunks: 2 labels from vectors of 16, pooled with weights 1.00 : 1.00"
    assert line in out.splitlines()


# --- the whole pipeline ---------------------------------------------------------------------------
def test_info_of_the_built_in_pipeline_has_scores_and_licence(run):
    out = run("info")[1]
    assert out.startswith("en_structlearn_sm ")
    assert "license: CC BY-SA 4.0" in out
    nlp = spacy_structlearn.load(exclude=["tok2vec", "tagger", "senter"])
    for name in nlp.pipe_names:
        assert name in out
    assert f"{nlp.meta['performance']['np_chunk_f']:.4f}" in out


def test_info_of_a_pipeline(run, attaching_model):
    code, out, err = run("info", attaching_model)
    assert (code, err) == (0, "")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line}
    assert rows["sentencizer"] == ["sentencizer", "0.0", "-"]
    assert rows["pp_attacher"] == ["pp_attacher", "0.0", "2", "N", "V"]
    assert attaching_model in out


def test_a_label_belongs_to_a_component(run):
    code, _, err = run("info", "--label", "NN")
    assert code == 2
    assert "--component" in err
