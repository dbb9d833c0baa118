"""`structlearn init-config`: configs that both `structlearn train` and `spacy train` take."""

from itertools import product
from pathlib import Path

import pytest
import spacy
from cli.toys import ATTACHED, TREES, one_line_error
from spacy.tokens import Doc, DocBin
from spacy.util import load_config, load_config_from_str
from spacy.vocab import Vocab

from spacy_structlearn.cli._configs import SUITABLE, config_text
from spacy_structlearn.cli._corpora import Reader
from spacy_structlearn.cli.init_config import ARCHITECTURES
from spacy_structlearn.learning.settings import signature
from spacy_structlearn.pipeline.extensions import frame_spans, set_spans
from spacy_structlearn.trees.brackets import parse_tree

SAMPLE = Path(__file__).resolve().parents[2] / "corpora" / "sample"
CHOICES = [(name, reader) for name, readers in SUITABLE.items() for reader in readers]


@pytest.mark.parametrize("component", list(SUITABLE))
def test_every_setting_is_there_and_explained(run, component):
    code, out, err = run("init-config", component)
    assert (code, err) == (0, "")
    assert out == config_text(component)
    section = load_config_from_str(out)["components"][component]
    factory = spacy.blank("en").get_factory_meta(component).default_config
    assert {*section, "scorer"} == {*factory, "factory"}
    settings = spacy.registry.architectures.get(section["model"]["@architectures"]).settings
    assert set(section["model"]) == {"@architectures", *signature(settings).parameters}
    for name in set(section["model"]) - {"@architectures", "stages"}:
        assert f"\n# {name}: " in out
    assert "${system.seed}" in out


@pytest.mark.parametrize(("component", "reader"), CHOICES)
def test_a_reader_is_all_that_differs(component, reader):
    before, after = (
        load_config_from_str(config_text(component, x)) for x in (Reader.docbin, reader)
    )
    for name in ("train", "dev"):
        corpus, usual = after["corpora"].pop(name), before["corpora"].pop(name)
        assert corpus["path"] == usual["path"] == f"${{paths.{name}}}"
        assert ("spaces" in corpus) == (reader is Reader.treebank)
        assert callable(spacy.registry.readers.get(corpus["@readers"]))
    if component == "srl_labeler" and reader is Reader.treebank:
        assert (after["paths"].pop("train_props"), after["paths"].pop("dev_props")) == (None, None)
    assert after == before


def test_other_languages_have_nothing_of_english():
    for component, reader in CHOICES:
        text = config_text(component, reader, "de")
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        assert 'lang = "de"' in lines
        assert not [line for line in lines if "english" in line or "collins" in line]


def test_a_component_in_another_language_can_be_made():
    for component in SUITABLE:
        config = load_config_from_str(config_text(component, Reader.docbin, "de")).interpolate()
        nlp = spacy.blank("de")
        settings = {**config["components"][component]}
        nlp.add_pipe(settings.pop("factory"), config=settings)
        assert nlp.pipe_names == [component]


def test_a_file_is_named_on_standard_output(run, tmp_path):
    path = tmp_path / "new" / "config.cfg"
    assert run("init-config", "np_chunker", "-o", path) == (0, f"{path}\n", "")
    assert path.read_text(encoding="utf8") == config_text("np_chunker")


def test_readers_that_do_not_suit_are_one_line(run):
    for component, reader in product(SUITABLE, Reader):
        if (component, reader) not in CHOICES:
            result = run("init-config", component, "--reader", reader.value)
            assert "SL062" in one_line_error(result)


# --- several components ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("names", "annotating", "tags"),
    [
        (["np_chunker", "chain_tagger"], ["chain_tagger"], None),
        (["constituency_parser", "np_chunker"], ["constituency_parser"], ("ignore", True)),
        (["constituency_parser", "srl_labeler"], ["constituency_parser"], ("ignore", False)),
        (
            ["srl_labeler", "constituency_parser", "chain_tagger"],
            ["chain_tagger", "constituency_parser"],
            ("prior", True),
        ),
        (["chain_tagger", "constituency_parser", "pp_attacher"], None, ("prior", True)),
        (["np_chunker", "srl_labeler"], None, None),
    ],
)
@pytest.mark.parametrize("reader", [Reader.docbin, Reader.treebank])
def test_several_components_are_trained_on_predictions(run, names, annotating, tags, reader):
    code, out, err = run("init-config", *names, "--reader", reader.value)
    assert (code, err) == (0, "")
    config = load_config_from_str(out)
    assert config["nlp"]["pipeline"] == [name for name in SUITABLE if name in names]
    assert set(config["components"]) == set(names)
    train, dev = (config["corpora"][name] for name in ("train", "dev"))
    if annotating is not None:
        assert train["@readers"] == "spacy_structlearn.CrossPredicted.v1"
        assert train["annotating"] == annotating
        train = train["corpus"]
    for name, corpus in (("train", train), ("dev", dev)):
        predicted = {"chain_tagger", "constituency_parser"}.intersection(names)
        assert corpus["path"] == f"${{paths.{name}}}"
        assert corpus["tags"] == (not predicted)
        assert bool(corpus["spans"]) == ("constituency_parser" not in names and not annotating)
    if tags is not None:
        parser = config["components"]["constituency_parser"]
        assert (parser["tags"], parser["set_tags"]) == tags
    assert sum(filter(None, config["training"]["score_weights"].values())) == pytest.approx(
        1, abs=0.02
    )


def test_an_architecture_of_one_of_several(run):
    names = ["np_chunker", "constituency_parser"]
    code, out, err = run("init-config", *names, "--architecture", "SpanGrammar")
    assert (code, err) == (0, "")
    models = [load_config_from_str(out)["components"][name]["model"] for name in names]
    kinds = [model["@architectures"] for model in models]
    assert kinds == ["spacy_structlearn.CRF.v1", "spacy_structlearn.SpanGrammar.v1"]


def test_a_splitter_is_trained_alone(run):
    code, _, err = run("init-config", "sentence_splitter", "chain_tagger")
    assert code == 2
    assert "sentence_splitter is trained alone" in err


# --- other architectures --------------------------------------------------------------------------
def test_every_config_of_an_architecture_names_it():
    expected = ["ConditionalGrammar", "ISBN", "MEstimatedGrammar", "SpanGrammar"]
    assert ARCHITECTURES["constituency_parser"] == expected
    for component, names in ARCHITECTURES.items():
        for name in names:
            config, default = (
                load_config_from_str(config_text(component, architecture=x)) for x in (name, None)
            )
            model = config["components"][component].pop("model")
            assert model["@architectures"].startswith(f"spacy_structlearn.{name}.")
            assert default["components"][component].pop("model") != model
            # All else is the same, but for the number of steps, and how to look for a tree.
            assert config["training"].pop("max_steps") != default["training"].pop("max_steps")
            for own in (config, default):
                own["components"][component].pop("thresholds", None)
                own["components"][component].pop("decoder")
            assert config == default


@pytest.mark.parametrize(
    ("architecture", "said"),
    [("ISBN", "sigmoid belief network"), ("SpanGrammar", "features of the words")],
)
def test_a_config_with_another_architecture(run, architecture, said):
    arguments = ["constituency_parser", "--architecture", architecture]
    code, out, err = run("init-config", *arguments)
    assert (code, err) == (0, "")
    assert out == config_text("constituency_parser", architecture=architecture)
    german = run("init-config", *arguments, "--lang", "de", "--reader", "treebank")[1]
    comment, _, rest = german.partition("[paths]")
    assert said in " ".join(comment.replace("#", "").split())
    assert "DocBins" not in comment
    assert 'signature = "shape"' in rest
    assert "spacy_structlearn.Treebank.v1" in rest


@pytest.mark.parametrize(
    ("component", "architecture", "known"),
    [("constituency_parser", "CRF", "ConditionalGrammar"), ("np_chunker", "HMM", "none")],
)
def test_an_architecture_without_a_config_is_a_wrong_use(run, component, architecture, known):
    code, _, err = run("init-config", component, "--architecture", architecture)
    assert code == 2
    assert known in err


def test_an_unknown_component_is_a_wrong_use(run):
    code, _, err = run("init-config", "parser")
    assert code == 2
    assert "constituency_parser" in err


# --- predicates of a treebank with other labels ---------------------------------------------------
# The verb comes last, and a particle says which phrase is which; one predicate is a noun.
OTHER = [
    ("(R (P (L (N tora) (A ga)) (L (N inu) (A o)) (W mita)) (X .))", 4, {"ga": 0, "o": 2}),
    ("(R (P (L (N inu) (A o)) (L (N neko) (A ga)) (W mita)) (X .))", 4, {"o": 0, "ga": 2}),
    ("(R (P (L (N neko) (A ga)) (W naita)) (X .))", 2, {"ga": 0}),
    ("(R (P (L (N kage) (A o)) (L (N tora) (A ga)) (W mita)) (X .))", 4, {"o": 0, "ga": 2}),
    ("(R (P (L (N inu) (A ga)) (U ookii)) (X .))", 2, {"ga": 0}),
]
ROLES = {"ga": "ARG0", "o": "ARG1"}


def other_doc(vocab, text, predicate, phrases, gold=True):
    tree = parse_tree(text)
    doc = Doc(vocab, words=tree.words(), tags=tree.tags())
    set_spans(doc, "constituents", tree.spans())
    if gold:
        arguments = [(ROLES[word], start, start + 2) for word, start in phrases.items()]
        set_spans(doc, "srl", frame_spans([(predicate, None, arguments)]))
    return doc


@pytest.fixture
def other(tmp_path):
    path = tmp_path / "other.spacy"
    DocBin(docs=[other_doc(Vocab(), *sentence) for sentence in OTHER * 4]).to_disk(path)
    return path


def test_the_tags_of_predicates_are_those_of_a_corpus(run, other, tmp_path):
    config = tmp_path / "config.cfg"
    arguments = ["srl_labeler", "--lang", "xx", "--corpus", other, "-o", config]
    assert run("init-config", *arguments) == (0, f"{config}\n", "")
    text = config.read_text(encoding="utf8")
    assert "W 16, U 4." in text
    assert "filled in" not in text
    assert load_config(config)["components"]["srl_labeler"]["predicate_tags"] == ["W", "U"]
    model = tmp_path / "model"
    paths = [f"--paths.{name}={other}" for name in ("train", "dev")]
    assert run("train", config, "-o", model, *paths)[0] == 0
    nlp = spacy.load(model)
    text = "(R (P (L (N neko) (A ga)) (L (N kage) (A o)) (W mita)) (X .))"
    (frame,) = nlp(other_doc(nlp.vocab, text, 4, {}, gold=False))._.frames
    assert frame.predicate.text == "mita"
    found = [(argument.label, argument.span.text) for argument in frame.arguments]
    assert found == [("ARG0", "neko ga"), ("ARG1", "kage o")]


def test_tags_that_are_not_filled_in_are_asked_for(run, other, tmp_path):
    config = tmp_path / "config.cfg"
    run("init-config", "srl_labeler", "--lang", "xx", "-o", config)
    before, setting, _ = config.read_text(encoding="utf8").partition("predicate_tags = null\n")
    assert setting
    first, second = before.splitlines()[-2:]
    assert first.startswith("# To be filled in")
    assert second.startswith("# with --corpus")
    paths = [f"--paths.{name}={other}" for name in ("train", "dev")]
    result = run("train", config, "-o", tmp_path / "model", *paths)
    assert "see predicate_tags" in one_line_error(result)


def test_tags_that_a_config_cannot_hold_are_named():
    counts = {"V": 4, "$,": 3, "VB${x}": 2, "${paths.train}": 1, "#V%": 1, 'V"q\\': 1, "動": 1}
    text = config_text("srl_labeler", Reader.docbin, "de", counts)
    assert "Omitted, because a config cannot contain tags with $: $,, VB${x}, ${paths.train}." in (
        " ".join(line.lstrip("# ") for line in text.splitlines())
    )
    # As it is read, and as it is stored with a pipeline and read again.
    config = load_config_from_str(text)
    for again in (config, load_config_from_str(config.to_str()), config.interpolate()):
        kept = again["components"]["srl_labeler"]["predicate_tags"]
        assert kept == ["V", "#V%", 'V"q\\', "動"]


def test_a_corpus_is_for_roles(run, other):
    code, _, err = run("init-config", "np_chunker", "--corpus", other)
    assert code == 2
    assert "srl_labeler" in err


# --- both doors to training take them -------------------------------------------------------------
@pytest.fixture
def corpora(tmp_path):
    """For each reader the options that name a small corpus."""
    (tmp_path / "trees").write_text("\n".join((TREES + ATTACHED) * 3), encoding="utf8")
    chunks = "The DT B-NP\ndog NN I-NP\nslept VBD O\n\nRun VB O\n"
    (tmp_path / "chunks").write_text(chunks, encoding="utf8")
    items = "0 ate soup with spoons V\n1 ate bowls of soup N\n" * 10
    (tmp_path / "items").write_text(items, encoding="utf8")
    files = {Reader.treebank: "trees", Reader.conll2000: "chunks", Reader.quadruples: "items"}
    return {
        reader: {"paths.train": str(tmp_path / name), "paths.dev": str(tmp_path / name)}
        for reader, name in files.items()
    }


FAST = {"constituency_parser": {"components.constituency_parser.model.rounds": 0}}
SCORES = {"chain_tagger": "tag_acc", "constituency_parser": "constituents_f"}
SCORES |= {"np_chunker": "np_chunk_f"}
SCORES |= {"pp_attacher": "pp_attachment_acc"}


@pytest.mark.parametrize(
    ("component", "reader"),
    [pair for pair in CHOICES if pair[1] is not Reader.docbin and pair[0] != "srl_labeler"],
)
def test_training_from_the_files_themselves(run, corpora, tmp_path, component, reader):
    config = tmp_path / "config.cfg"
    run("init-config", component, "--reader", reader.value, "-o", config)
    overrides = corpora[reader] | FAST.get(component, {})
    options = [f"--{name}={value}" for name, value in overrides.items()]
    code, _, err = run("train", config, "-o", tmp_path / "model", *options)
    assert (code, err) == (0, "")
    assert spacy.load(tmp_path / "model").meta["performance"][SCORES[component]] > 0.7


def test_the_columns_of_propbank_are_named_in_training(run, tmp_path):
    config, trees, props = (tmp_path / name for name in ("config.cfg", "trees", "props"))
    run("init-config", "srl_labeler", "--reader", "treebank", "-o", config)
    lines = (SAMPLE / "sample.trees").read_text(encoding="utf8").splitlines(keepends=True)
    blocks = (SAMPLE / "sample.props").read_text(encoding="utf8").split("\n\n")
    trees.write_text("".join(lines[:20]), encoding="utf8")
    props.write_text("\n\n".join(blocks[:20]) + "\n\n", encoding="utf8")
    options = [f"--paths.{name}={trees}" for name in ("train", "dev")]
    options += [f"--paths.{name}_props={props}" for name in ("train", "dev")]
    code, _, err = run("train", config, "-o", tmp_path / "model", *options)
    assert (code, err) == (0, "")
    assert spacy.load(tmp_path / "model").meta["performance"]["srl_f"] > 0.9
