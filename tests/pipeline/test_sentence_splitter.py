"""Sentences from words and layout."""

import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

from spacy_structlearn.pipeline.readers.renderings import RENDERINGS, rendered

MODEL = {
    "@architectures": "spacy_structlearn.CRF.v1",
    "encoding": "none",
    "l2": 0.1,
    "templates": [
        *("bias", "GAP[0]", "KIND[-1]|GAP[0]|KIND[0]", "BREAK[0]|KIND[0]", "LOWER[0]|KIND[-1]"),
        *("QUOTE[0]|KIND[-1]|KIND[0]", "KIND[-2]|KIND[-1]|KIND[0]", "LISTED[-2]|KIND[-1]|KIND[0]"),
    ],
}
TEXTS = [
    ["The harbor opens in May.", "Boats may enter from the north.", "Is it deep?", "Nobody knows!"],
    ["Dear Anna,", "we thank you for the letter.", "See Bldg. 7 or Bldg. 12.", "Yours, Tom"],
    ["Shopping list", "- six eggs", "- a loaf of bread", "- butter", "Please hurry."],
    ["We left at noon.", "It was cold on the way to the old mill.", "Then the rain began."],
    ["News of the week", "The school has a new roof.", "It cost less than the old one did."],
]


def gold_doc(nlp, sentences):
    """Sentences of which headings, items and the like are paragraphs of their own."""
    words, spaces, starts = [], [], []
    for sentence in sentences:
        own = nlp.make_doc(sentence)
        words += map(str, own)
        spaces += [bool(token.whitespace_) for token in own]
        starts += [True] + [False] * (len(own) - 1)
        spaces[-1] = sentence[-1] in ".?!"
        if not spaces[-1]:
            words, spaces, starts = [*words, "\n\n"], [*spaces, False], [*starts, False]
    return Doc(nlp.vocab, words=words, spaces=spaces, sent_starts=starts)


def examples_of(nlp):
    docs = [rendered(gold_doc(nlp, text), kind) for text in TEXTS for kind in RENDERINGS]
    return [Example(nlp.make_doc(doc.text), doc) for doc in docs]


def trained(**changed):
    nlp = spacy.blank("en")
    config, examples = {"model": MODEL | changed, "abbreviations": ["Bldg. #"]}, examples_of(nlp)
    splitter = nlp.add_pipe("sentence_splitter", config=config)
    nlp.initialize(lambda: examples)
    splitter.fit(examples)
    return nlp


@pytest.fixture(scope="module")
def nlp():
    return trained()


def sentences(doc):
    return [sentence.text.strip() for sentence in doc.sents]


def test_a_blank_line_always_ends_a_sentence(nlp):
    for text in ("Quarterly report\n\nThe company earned more.", "of the\n\nof the", "a\n \nb"):
        assert len(sentences(nlp(text))) == 2


def test_white_space_belongs_to_the_sentence_before(nlp):
    doc = nlp(" We left.\n\n\nThen it rained. \n")
    assert [s.text for s in doc.sents] == [" We left.\n\n\n", "Then it rained. \n"]
    assert all(not token.is_space or token.i == 0 for token in doc if token.is_sent_start)


def test_a_boundary_is_where_one_is_likelier_than_not(nlp):
    doc = nlp("We left at noon. It was cold on the way to the mill, said Anna. Then the rain")
    for token in doc:
        assert bool(token.is_sent_start) == (token._.sent_start_prob > 0.5)
    assert doc[0]._.sent_start_prob == 1
    assert 0 in {token._.sent_start_prob for token in doc}


def test_boundaries_that_are_set_stay(nlp):
    plain = nlp("We left at noon. It was cold")
    assert [t.i for t in plain if t.is_sent_start] == [0, 5]
    doc = nlp.make_doc("We left at noon. It was cold")
    doc[2].is_sent_start = True
    doc[5].is_sent_start = False
    nlp.get_pipe("sentence_splitter")(doc)
    assert [token.i for token in doc if token.is_sent_start] == [0, 2]
    assert (doc[2]._.sent_start_prob, doc[5]._.sent_start_prob) == (1, 0)


def test_a_start_at_white_space_is_one_at_the_word_behind_it(nlp):
    doc = nlp.make_doc("We left \n with Anna")
    doc[2].is_sent_start = True
    nlp.get_pipe("sentence_splitter")(doc)
    assert sentences(doc) == ["We left", "with Anna"]


def test_n_best(nlp):
    doc = nlp.make_doc("We left at noon. It was cold \n\n on the way")
    found = nlp.get_pipe("sentence_splitter").n_best(doc, 4)
    scores = [score for score, _ in found]
    assert scores == sorted(scores, reverse=True)
    assert len({tuple(span.start for span in spans) for _, spans in found}) == 4
    assert all(any(span.text == "on the way" for span in spans) for _, spans in found[:1])
    assert all(spans[0].start == 0 and spans[-1].end == len(doc) for _, spans in found)
    assert nlp.get_pipe("sentence_splitter").n_best(nlp.make_doc(" ")) == []


def test_gold_that_begins_inside_a_token_is_no_boundary(nlp):
    predicted = Doc(nlp.vocab, words=["left.It", "rained"])
    words, starts = ["left", ".", "It", "rained"], [True, False, True, False]
    reference = Doc(nlp.vocab, words, spaces=[False, False, True, False], sent_starts=starts)
    data = nlp.get_pipe("sentence_splitter").gold_data(Example(predicted, reference))
    assert data.tags == ("B", "I")


def test_abbreviations_of_the_user(nlp):
    splitter = nlp.get_pipe("sentence_splitter")
    unlisted = nlp("the qtr. 4 was good")[3]._.sent_start_prob
    splitter.abbreviations += ("Qtr. #",)
    assert nlp("the qtr. 4 was good")[3]._.sent_start_prob < 0.5 * unlisted
