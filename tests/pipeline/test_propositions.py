"""Who did what, from trees and frames."""

import json
from importlib.util import find_spec

import pytest
from pipeline.parsed import parsed_doc
from pipeline.test_phrases import doc_of
from spacy.lang.en import English
from spacy.tokens import Doc

import spacy_structlearn
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.extensions import set_spans, to_frame

VOCAB = English().vocab
GIVE_UP = (
    "(S (NP (NNP Ben) (CC and) (NNP Ann)) (VP (VBD did) (RB n't) (VP (VB give) (PRT (RP up))"
    " (NP (PRP$ their) (NN boat)) (PP (IN in) (NP (NNP May))))) (. .))"
)
SENT = (
    "(S (NP (PRP It)) (VP (VBD was) (VP (VBN sent) (PP (TO to) (NP (PRP us)))"
    " (PP (IN by) (NP (DT the) (NN team))))))"
)
WANTS = "(S (NP (PRP She)) (VP (VBZ wants) (S (VP (TO to) (VP (VB sell) (NP (PRP it)))))))"
BIT = (
    "(S (NP (NP (DT The) (NN dog)) (SBAR (WHNP (WDT that)) (S (VP (VBD bit) (NP (PRP me))))))"
    " (VP (VBD slept)))"
)
SANDWICH = "(S (VP (VB Eat) (NP (DT the) (NN ham) (CC and) (NN cheese) (NN sandwich))) (. !))"
THERE = "(S (NP (EX There)) (VP (VBZ is) (NP (DT a) (NN problem))))"
WINDOW = "(S (NP (DT The) (VBN broken) (NN window)) (VP (VBZ is) (ADJP (JJ old))))"
SIGNED = "(FRAG (NP (NP (NNS papers)) (VP (VBN signed) (PP (IN by) (NP (NNP Ann))))))"


def rows(doc, **options):
    found = (p.as_row() for p in spacy_structlearn.pipeline.extensions.propositions(doc, **options))
    return [{key: text for key, text in row.items() if text} for row in found]


@pytest.mark.parametrize(
    ("tree", "frames", "expected"),
    [
        (
            GIVE_UP,
            [
                (
                    5,
                    [("ARG0", 0, 3), ("ARGM-NEG", 4, 5), ("ARG1", 7, 9), ("ARGM-TMP", 9, 11)],
                )
            ],
            [{"who": "Ben; Ann", "did": "not give up", "what": "their boat", "when": "in May"}],
        ),
        # The same without frames: the role of "in May" is not known.
        (GIVE_UP, [], [{"who": "Ben; Ann", "did": "not give up", "what": "their boat"}]),
        (
            SENT,
            [(2, [("ARG1", 0, 1), ("ARG2", 3, 5), ("ARG0", 5, 8)])],
            [{"who": "the team", "did": "send", "what": "It", "whom": "us"}],
        ),
        (
            WANTS,
            [(1, [("ARG0", 0, 1), ("ARG1", 2, 5)]), (3, [("ARG0", 0, 1), ("ARG1", 4, 5)])],
            [
                {"who": "She", "did": "want", "what": "to sell it"},
                {"who": "She", "did": "sell", "what": "it"},
            ],
        ),
        (
            BIT,
            [(3, [("ARG0", 0, 2), ("R-ARG0", 2, 3), ("ARG1", 4, 5)]), (5, [("ARG0", 0, 5)])],
            [
                {"who": "The dog", "did": "bite", "what": "me"},
                {"who": "The dog that bit me", "did": "sleep"},
            ],
        ),
        # An object whose role was not found is not lost.
        (WANTS, [(3, [("ARG0", 0, 1)])], None),
        (SANDWICH, [], [{"did": "eat", "what": "the ham and cheese sandwich"}]),
        (THERE, [(1, [("ARG1", 2, 4)])], [{"did": "be", "what": "a problem"}]),
        (
            WINDOW,
            [(1, [("ARG1", 2, 3)]), (3, [("ARG1", 0, 3), ("ARG2", 4, 5)])],
            [{"who": "The broken window", "did": "be", "what": "old"}],
        ),
        (
            SIGNED,
            [(1, [("ARG1", 0, 1), ("ARG0", 2, 4)])],
            [{"who": "Ann", "did": "sign", "what": "papers"}],
        ),
    ],
)
def test_rows(tree, frames, expected):
    found = rows(doc_of(tree, frames=frames))
    if expected is None:
        assert found[-1] == {"who": "She", "did": "sell", "what": "it"}
    else:
        assert found == expected


def test_those_of_nouns_only_on_request():
    doc = doc_of(
        "(S (NP (DT The) (NN sale) (PP (IN of) (NP (NNS boats)))) (VP (VBD ended)))",
        frames=[(1, [("ARG1", 2, 4)]), (4, [("ARG1", 0, 4)])],
    )
    assert [row["did"] for row in rows(doc)] == ["end"]
    assert rows(doc, nouns=True)[0] == {"did": "sale", "what": "boats"}


def test_the_parts_of_a_span_are_those_whose_predicate_is_in_it():
    doc = doc_of(WANTS, frames=[(3, [("ARG0", 0, 1), ("ARG1", 4, 5)])])
    assert [p.lemma for p in doc._.propositions] == ["want", "sell"]
    assert [p.lemma for p in doc[2:]._.propositions] == ["sell"]
    assert doc[2:]._.propositions == doc._.propositions[1:]
    assert doc[2:2]._.propositions == Doc(VOCAB)._.propositions == ()
    with pytest.raises(AttributeError):
        doc._.propositions[0].lemma = "like"


def test_probabilities_are_those_of_the_head():
    tree = "(S (NP (PRP I)) (VP (VBD ate) (NP (NP (NNS pieces)) (PP (IN of) (NP (NN pie))))))"
    doc = doc_of(tree, frames=[(1, [("ARG1", 2, 5)])])
    doc.spans["srl"].attrs["scores"] = [0.9, 0.4]
    (part,) = doc._.propositions[0].objects
    assert (part.head.text, part.role, part.prob) == ("pieces", "ARG1", 0.4)
    # S NP VP NP NP PP NP: a less certain phrase around a certain one with the same head.
    doc.spans["constituents"].attrs["scores"] = [1, 1, 1, 0.5, 0.8, 0.5, 1]
    (part,) = doc._.propositions[0].objects
    assert part.prob == pytest.approx(0.4 * 0.8 / 0.5)
    assert doc._.propositions[0].subjects[0].prob is None  # of the tree alone


def test_plain_data():
    doc = doc_of(GIVE_UP, frames=[(5, [("ARG0", 0, 3), ("ARG1", 7, 9)])], space=(0, 8))
    (data,) = (p.as_dict() for p in doc._.propositions)
    assert json.loads(json.dumps(data)) == data
    assert (data["lemma"], data["particle"], data["negation"]) == ("give up", "up", "n't")
    assert doc.text[data["start"] : data["end"]] == data["predicate"] == "give"
    for part in (*data["subjects"], *data["objects"]):
        assert " ".join(doc.text[part["start"] : part["end"]].split()) == part["text"]


def test_white_space_single_words_and_what_was_not_parsed():
    assert rows(parsed_doc(VOCAB, "(S (VP (VB Run)))")) == [{"did": "run"}]
    assert rows(parsed_doc(VOCAB, "(NP (NN boat))", space=(0,))) == []
    doc = Doc(VOCAB, words=["\n", "sold"], sent_starts=[True, False])
    set_spans(doc, "constituents", [])
    assert rows(doc) == []


@pytest.mark.skipif(find_spec("pandas") is None, reason="pandas is not installed")
def test_data_frame():
    frame = to_frame([doc_of(SANDWICH), doc_of(THERE)])
    assert [*frame.columns][:4] == ["doc", "who", "did", "what"]
    assert [*frame["doc"]] == [0, 1]


def test_without_pandas(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(StructlearnError, match=r"SL181.*pip install pandas"):
        to_frame([doc_of(SANDWICH)])


def test_a_single_doc_is_no_list():
    pytest.importorskip("pandas")
    with pytest.raises(StructlearnError, match="SL141"):
        to_frame(doc_of(SANDWICH))
