"""Dependencies in Docs, by the component that has learned the sample."""

import numpy as np
import pytest
from contracts import components
from spacy.tokens import Doc, DocBin
from spacy.training import Example

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.storage.alternatives import set_alternatives, several_trees
from training.benchmarks.dependencies import is_tree

LISTED = components.COMPONENTS["tree_dependencies Stages"]
TEXT = "The old man took a key.\n\n He opened the door with the key. Go !"


@pytest.fixture
def nlp():
    return components.own(LISTED)


@pytest.fixture
def component(nlp):
    return components.part(LISTED, nlp)


def arcs(doc):
    return [(token.head.i, token.dep_) for token in doc]


@pytest.mark.parametrize("n_trees", [0, 1, 5])
@pytest.mark.parametrize("text", [TEXT, " \n\n " + TEXT, "dog", "\n", "a ( , " * 120])
def test_every_sentence_is_a_tree(nlp, text, n_trees):
    parser = nlp.get_pipe("constituency_parser")
    parser.probable_trees = n_trees
    with nlp.select_pipes(disable=["tree_dependencies"]):
        before = [token.is_sent_start for token in nlp(text)]
    doc = nlp(text)
    assert [token.is_sent_start for token in doc] == before
    for sentence in doc.sents:
        assert is_tree([token.head.i - sentence.start for token in sentence])
        assert sentence.root.dep_ == "ROOT"
    assert doc.has_annotation("DEP")
    for token in doc:
        assert (token._.dep_prob is None) == token.is_space
        assert token.is_space or 0 <= token._.dep_prob <= 1


def test_probable_trees_change_the_probabilities(nlp, monkeypatch):
    monkeypatch.setattr("spacy_structlearn.grammar.chart.reading.FAR", 100.0)
    monkeypatch.setattr("spacy_structlearn.grammar.chart.reading.USED", 5.0)
    parser = nlp.get_pipe("constituency_parser")
    alone = nlp(TEXT)
    parser.probable_trees = 8
    doc = nlp(TEXT)
    trees = several_trees([doc])
    n = len(trees.rows.offsets) - 1
    assert len(trees.weights) > n
    assert trees.weights.max() == 1
    assert np.bincount(trees.origins).min() >= 1
    # They are not stored with the Doc, whose own trees are then read.
    stored = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert len(several_trees([stored]).weights) == n
    assert [t._.dep_prob for t in doc] != [t._.dep_prob for t in alone]


def test_docs_are_read_as_if_alone(nlp, component, monkeypatch):
    nlp.get_pipe("constituency_parser").probable_trees = 5
    docs = [nlp(text) for text in (TEXT, "", "\n", "dog", TEXT, TEXT.lower())]
    set_alternatives(docs[4], {})
    wanted = [arcs(component(doc)) for doc in docs]
    monkeypatch.setattr(f"{type(component).__module__}.TOGETHER", 20)
    assert [*map(arcs, component.pipe(docs))] == wanted


def test_predictions_are_stored(nlp):
    doc = nlp(TEXT)
    binned = DocBin(docs=[doc], store_user_data=False).to_bytes()
    (stored,) = DocBin().from_bytes(binned).get_docs(nlp.vocab)
    joined = Doc.from_docs([doc, nlp("A dog.")])
    for other in (stored, Doc(nlp.vocab).from_bytes(doc.to_bytes()), joined):
        assert arcs(other)[: len(doc)] == arcs(doc)
    assert [t._.dep_prob for t in stored] == [t._.dep_prob for t in doc]


def test_docs_without_trees(nlp, component):
    with pytest.raises(StructlearnError, match=r"SL026.*tree_dependencies.*constituents"):
        component(nlp.make_doc("A dog"))
    assert component(nlp.make_doc(" \n"))[0].dep_ == "ROOT"
    assert nlp.make_doc("A dog")[0]._.dep_prob is None


def test_calibration(nlp, component):
    gold = [example.reference for example in components.examples(LISTED, nlp)]
    examples = [
        Example(doc, own)
        for doc, own in zip(nlp.pipe([doc.text for doc in gold]), gold, strict=True)
        if [token.text for token in doc] == [token.text for token in own]
    ]
    before = [arcs(example.predicted) for example in examples]
    weights = component.calibrate(examples)
    assert [arcs(component(example.predicted)) for example in examples] == before
    with pytest.raises(StructlearnError, match="SL049"):
        component.calibrate([])
    assert component.cfg["calibration"] == list(weights)


def test_stages(nlp):
    other = components.COMPONENTS["srl_labeler Stages"].model
    with pytest.raises(StructlearnError, match=r"SL047.*heads, sisters, labels"):
        nlp.create_pipe("tree_dependencies", config={"model": other})
