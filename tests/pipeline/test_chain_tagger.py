"""The tagger: the chunker's learners with one label a token."""

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.sequence.classes import learn

CRF = {
    "@architectures": "spacy_structlearn.CRF.v1",
    "encoding": "none",
    "templates": ["ORTH[0]", "ORTH[-1]", "SUFFIX[0]", "bias"],
    "l2": 0.1,
}


@pytest.fixture(params=["perceptron", "crf"])
def tagger(request, make_examples):
    nlp = spacy.blank("en")
    nlp.add_pipe("chain_tagger", config={"model": CRF} if request.param == "crf" else {})
    examples = [Example(untagged(nlp, eg.reference), eg.reference) for eg in make_examples(nlp)]
    nlp.initialize(lambda: examples)
    nlp.get_pipe("chain_tagger").fit(examples)
    return nlp, examples


def untagged(nlp, doc):
    starts = [token.is_sent_start for token in doc]
    return Doc(nlp.vocab, words=[token.text for token in doc], sent_starts=starts)


def test_learns_its_training_data(tagger):
    nlp, examples = tagger
    assert nlp.evaluate(examples)["tag_acc"] > 0.95


def test_labels_are_the_tags(tagger):
    nlp, examples = tagger
    tags = {token.tag_ for example in examples for token in example.reference}
    assert set(nlp.get_pipe("chain_tagger").labels) == tags


def test_round_trip_through_disk(tagger, tmp_path):
    nlp, _ = tagger
    nlp.to_disk(tmp_path / "model")
    text = "The girl saw my red apples."
    tags = [[token.tag_ for token in each(text)] for each in (nlp, spacy.load(tmp_path / "model"))]
    assert tags[0] == tags[1]
    assert tags[0][0] == "DT"


def test_docs_of_another_vocab(tagger):
    nlp, _ = tagger
    words = ["The", "zorkish", "girl", "saw", "apples", "."]
    known, unknown = (Doc(each.vocab, words=words) for each in (nlp, spacy.blank("en")))
    tags = [[t.tag_ for t in nlp.get_pipe("chain_tagger")(doc)] for doc in (known, unknown)]
    assert tags[0] == tags[1]


def test_white_space_and_empty_docs(tagger):
    nlp, _ = tagger
    assert [token.tag_ for token in nlp(" \n")] == [""]
    assert len(nlp("")) == 0
    assert nlp("The \n dog")[1].tag_ == ""


def test_sentences_with_an_unknown_gold_tag_are_left_out(tagger):
    nlp, _ = tagger
    component = nlp.get_pipe("chain_tagger")
    words = ["Run", "!", "Wug", "!"]
    gold = Doc(
        nlp.vocab, words=words, tags=["VB", ".", "XYZ", "."], sent_starts=[True, False, True, False]
    )
    starts = [True, False, True, False]
    predicted = Doc(nlp.vocab, words=words, sent_starts=starts)
    assert component.gold_data(Example(predicted, gold)).tags == ("VB", ".")


def test_without_tags_there_is_nothing_to_learn():
    nlp = spacy.blank("en")
    nlp.add_pipe("chain_tagger")
    example = Example(nlp.make_doc("A dog"), nlp.make_doc("A dog"))
    with pytest.raises(StructlearnError, match=r"token.tag_"):
        nlp.initialize(lambda: [example])


def test_a_tagger_holds_its_word_classes(make_examples, tmp_path):
    nlp = spacy.blank("en")
    examples = [Example(untagged(nlp, eg.reference), eg.reference) for eg in make_examples(nlp)]
    docs = [example.predicted for example in examples]
    ids, shapes = (
        np.concatenate([doc.to_array(name) for doc in docs]) for name in ("ORTH", "SHAPE")
    )
    classes = learn(ids, np.cumsum([0, *map(len, docs)]), 6, backoff=shapes, min_frequency=1)
    path = tmp_path / "classes"
    path.write_bytes(classes.to_bytes())
    model = {**CRF, "templates": ["CLASS[0]", "bias"], "classes": str(path)}
    component = nlp.add_pipe("chain_tagger", config={"model": model})
    nlp.initialize(lambda: examples)
    component.fit(examples)
    other = spacy.blank("en").add_pipe("chain_tagger", config={"model": {**model, "classes": None}})
    assert other.from_bytes(component.to_bytes()).predict(docs) == component.predict(docs)
