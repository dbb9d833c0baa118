"""Measures of complexity: texts counted by hand, depths from the papers, and sums of texts."""

import re
from pathlib import Path

import numpy as np
import pytest
import spacy
from pipeline.parsed import parsed_doc
from spacy.tokens import Doc

from spacy_structlearn.measures.complexity import COUNTS, INDICES
from spacy_structlearn.measures.totals import MEASURES, SUMS, measures_of, totals
from training.benchmarks.usability import measures as usability


@pytest.mark.parametrize("text", usability.counted_texts(), ids=lambda text: text.name)
def test_counted_by_hand(text):
    assert text.counts == text.published


def forest(*lines):
    return usability.forest_of(usability.trees_of(lines))


def test_indices():
    found = measures_of(totals(forest("(S (NP (NNS Dogs)) (VP (VBP bark)) (. .))")).sum(axis=0))
    assert tuple(found) == MEASURES
    assert (len(COUNTS), len(INDICES)) == (9, 14)
    assert [found[name] for name in ("W", "MLS", "MLT", "MLC", "T/S", "CN/C")] == [2, 2, 2, 2, 1, 0]
    assert all(isinstance(found[name], int) for name in COUNTS)


# The example of Roark, Mitchell & Hollingshead (2007, figures 2 and 3), with a full stop.
COOK = (
    "(S (NP (PRP She)) (VP (VBD was) (NP (NP (DT a) (NN cook)) "
    "(PP (IN in) (NP (DT a) (NN school) (NN cafeteria))))) (. .))"
)


@pytest.mark.parametrize("tree", [COOK, COOK.replace("(PRP She)", "(`` ``) (PRP She)")])
def test_depths(tree):
    sums = totals(forest(tree, "(NP (NN Soup))"))
    found = dict(zip(SUMS, sums.T.tolist(), strict=True))
    assert found["yngve"] == [1 + 1 + 2 + 1 + 1 + 2 + 1 + 0, 0]
    assert found["yngve_max"] == [2, 0]
    assert found["frazier"] == [2.5 + 1 + 2 + 0 + 1 + 1 + 0 + 0, 1]


def test_lengths():
    found = measures_of(totals(forest(COOK, "(NP (NN Soup))")).sum(axis=0))
    assert found["np_length"] == (1 + 6 + 2 + 3 + 1) / 5
    assert (found["vp_length"], found["pp_length"], found["clause_length"]) == (7, 4, 8)
    assert found["tree_depth"] == (6 + 2) / 2
    assert found["yngve_depth_max"] == (2 + 0) / 2


def test_sums_of_texts_are_those_of_all():
    one, other = "(S (VP (VB Run)) (. !))", COOK
    both = totals(forest(one, other))
    assert np.array_equal(both, np.concatenate([totals(forest(one)), totals(forest(other))]))


@pytest.mark.parametrize("words", [[], [" "], ["Yes"], ["\n", "Yes"]])
def test_short_docs(words):
    doc = Doc(spacy.blank("en").vocab, words=words)
    assert doc._.measures == {}
    doc.spans["constituents"] = []
    assert set(doc._.measures) == set(MEASURES)
    assert doc._.measures["W"] == ("Yes" in words)


def test_docs_and_spans():
    doc = parsed_doc(spacy.blank("en").vocab, COOK, "(S (VP (VB Run)) (. !))")
    assert (doc._.measures["W"], doc._.measures["S"]) == (9, 2)
    assert [sentence._.measures["W"] for sentence in doc.sents] == [8, 1]
    assert doc[2:3]._.measures == next(doc.sents)._.measures
    assert Doc.from_docs([doc, doc])._.measures["W"] == 18


def test_the_file_says_what_it_is():
    text = Path(usability.COUNTED).read_text("utf8")
    assert len(re.findall(r"^# .*: \d", text, re.M)) == len(usability.counted_texts()) >= 30
