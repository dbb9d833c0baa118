"""`structlearn adapt`: what learns on, what stays, and what is refused before it begins."""

import pytest
import spacy
import srsly
from cli.toys import GOLD, TREES, left, one_line_error
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_structlearn.pipeline.annotation.gold import Gold
from spacy_structlearn.pipeline.extensions import set_spans
from spacy_structlearn.pipeline.np_chunker import NPChunker
from spacy_structlearn.pipeline.readers import to_example
from spacy_structlearn.pipeline.training import batch_trainable
from spacy_structlearn.sequence.settings import LikelihoodSettings
from spacy_structlearn.serve.annotate import learning
from spacy_structlearn.trees.brackets import parse_tree


@pytest.fixture
def bare(tmp_path):
    """Documents with chunks that have no determiners, in contrast to those of the old pipeline."""
    docs = []
    for words, tags, _ in GOLD * 4:
        doc = Doc(Vocab(), words=words.split(), tags=tags.split())
        nouns = [i for i, tag in enumerate(tags.split()) if tag.startswith("NN")]
        set_spans(doc, "np_chunks", [("NP", i, i + 1) for i in nouns])
        docs.append(doc)
    path = tmp_path / "bare.spacy"
    DocBin(docs=docs).to_disk(path)
    return path


def score(path, data):
    nlp = spacy.load(path)
    examples = [to_example(doc) for doc in DocBin().from_disk(data).get_docs(nlp.vocab)]
    return nlp.evaluate(examples)["np_chunk_f"]


def test_the_score_on_the_new_data_rises(run, model, bare, tmp_path, monkeypatch):
    monkeypatch.setattr(LikelihoodSettings, "strengths", (0.1, 10.0))
    output = tmp_path / "new"
    before = score(model, bare)
    meta = srsly.read_json(f"{model}/meta.json")
    code, out, err = run("adapt", model, bare, "--output", output)
    assert (code, err) == (0, "")
    assert before < score(output, bare) == 1.0
    assert score(model, bare) == before  # the old pipeline is as it was
    (row,) = (line.split() for line in out.splitlines() if line.startswith("np_chunker"))
    assert row[1:4] == ["16", "0.1", "np_chunk_f"]
    assert float(row[4]) < 0.5 < 0.6 < float(row[5])
    assert "Unchanged: sentencizer, attribute_ruler" in out
    assert str(output) in " ".join(out.split())
    new = srsly.read_json(output / "meta.json")
    assert new["performance"] == {}
    assert new["notes"] == f"Adapted from en_{meta['name']} {meta['version']}: np_chunker."


def test_a_component_that_gets_worse_is_named(run, model, gold, bare, tmp_path, monkeypatch):
    """The folds contradict each other, so what is learned on one is wrong on the other."""
    monkeypatch.setattr(LikelihoodSettings, "strengths", (0.1,))
    monkeypatch.setattr(batch_trainable, "FOLDS", 2)
    docs = [list(DocBin().from_disk(path).get_docs(Vocab())) for path in (gold, bare)]
    mixed = [doc for pair in zip(docs[0] * 4, docs[1], strict=True) for doc in pair]
    DocBin(docs=mixed).to_disk(tmp_path / "mixed.spacy")
    code, out, _ = run("adapt", model, tmp_path / "mixed.spacy", "-o", tmp_path / "new")
    assert code == 0
    assert "np_chunker got worse on held-out data" in out


def test_few_documents_are_all_learned_from(run, model, gold, tmp_path):
    code, out, _ = run("adapt", model, gold, "-o", tmp_path / "new", "--components", "np_chunker")
    (row,) = (line.split() for line in out.splitlines() if line.startswith("np_chunker"))
    assert (code, row[1:]) == (0, ["4", "30", "np_chunk_f", "-", "-"])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ([], ["SL096", "gold.spacy", "constituency_parser, pp_attacher"]),
        (["--components", "pp_attacher"], ["SL096", "gold.spacy", "for pp_attacher"]),
        (["--reinitialise", "pp_attacher"], ["SL096", "gold.spacy", "for pp_attacher"]),
        (["--components", "pp_attacher,ner"], ["SL097", "'ner'", "constituency_parser, pp_att"]),
        (["--reinitialise", "sentencizer"], ["SL097", "'sentencizer'"]),
    ],
)
def test_what_cannot_be_learned_from_the_data_is_one_line(
    run, attaching_model, gold, tmp_path, options, named
):
    """The parser and the attacher learn nothing from chunks."""
    before = left(tmp_path)
    one_line_error(run("adapt", attaching_model, gold, "-o", tmp_path / "new", *options), *named)
    assert left(tmp_path) == before


def test_a_pipeline_of_others_is_refused(run, gold, tmp_path):
    spacy.blank("en").to_disk(tmp_path / "model")
    result = run("adapt", tmp_path / "model", gold, "-o", tmp_path / "new")
    one_line_error(result, "SL096", "any component of this pipeline")


def test_what_is_no_pipeline_is_not_replaced(run, model, gold, tmp_path, monkeypatch):
    monkeypatch.setattr(NPChunker, "fit", lambda *a, **k: pytest.fail("learning has begun"))
    before = left(tmp_path)
    one_line_error(run("adapt", model, gold, "-o", tmp_path), "SL014", str(tmp_path))
    assert left(tmp_path) == before


def test_a_learner_that_cannot_learn_on_is_trained_from_scratch_on_request(
    run, gold, bare, tmp_path
):
    nlp = spacy.blank("en")
    config = {"model": {"@architectures": "spacy_structlearn.HMM.v1"}}
    chunker = nlp.add_pipe("np_chunker", config=config)
    examples = [to_example(doc) for doc in DocBin().from_disk(gold).get_docs(nlp.vocab)]
    chunker.initialize(lambda: examples)
    chunker.fit(examples)
    nlp.to_disk(tmp_path / "model")
    before = left(tmp_path)
    arguments = ["adapt", tmp_path / "model", bare, "-o", tmp_path / "new"]
    one_line_error(run(*arguments), "SL094", "--reinitialise np_chunker")
    assert left(tmp_path) == before
    code, out, _ = run(*arguments, "--reinitialise", "np_chunker")
    assert code == 0
    assert "from scratch" in out
    assert score(tmp_path / "model", bare) < 0.5 < score(tmp_path / "new", bare)
    assert not spacy.load(tmp_path / "new").get_pipe("np_chunker").reinitialise


def test_learning_of_annotators_is_the_same(run, parsing_model, tmp_path, monkeypatch):
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: None)
    monkeypatch.setattr("os.nice", lambda n: n)
    trees = [parse_tree(text) for text in TREES * 5]
    golds = [Gold(t.words(), [True] * len(t.words()), t.tags(), t.spans()) for t in trees]
    nlp = spacy.load(parsing_model)
    learning.Learning(nlp, [[own] for own in golds], {3: golds[0]}, tmp_path, ("errors", 0))
    made = tmp_path / "learned" / "1"
    learning.main(made)
    assert run("adapt", made / "base", made / "accepted.spacy", "-o", tmp_path / "new")[0] == 0
    folders = (tmp_path / "new", made / "model", made / "base")
    new, same, old = ((of / "constituency_parser" / "model").read_bytes() for of in folders)
    assert new == same != old
