"""Attachments as HTML."""

import pytest
from display.drawn import annotated, marks, pizza, read_html, text
from spacy.tokens import Doc

from spacy_structlearn.attachment.sites import Site
from spacy_structlearn.display.attachments import COLORS, attachments_html
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.extensions import site_spans

DOOR = ["He", "opened", "\n", "the", "door", "of", "the", "shed", "."]


def colors(root):
    return [mark.get("style").removeprefix("--c:") for mark in root.iter("mark")]


def test_verb_noun_and_phrase_have_labels_and_probabilities():
    (division,) = read_html(attachments_html(pizza()))
    (line,) = division.iter("p")
    assert text(line) == "V 0.99 ate the N 0.01 pizza → ate with a fork"
    assert marks(line) == [
        ("V 0.99", "ate", "with -> ate 0.9900"),
        ("N 0.01", "pizza", "with -> pizza 0.0100"),
        ("→ ate", "with a fork", "with -> ate 0.9900"),
    ]
    assert [mark.get("class") for mark in line.iter("mark")] == [None, "other", None]
    assert colors(line) == [COLORS["V"], COLORS["N"], COLORS["V"]]


def test_a_phrase_of_the_noun_has_its_colour():
    site = Site(1, 4, 5, 7, 5, 8, "N")
    doc = annotated(DOOR, {"pp_attachments": list(site_spans([site]))}, scores=False)
    (division,) = read_html(attachments_html(doc))
    (line,) = division.iter("p")
    assert marks(line) == [
        ("V", "opened", "of -> opened"),
        ("N", "door", "of -> door"),
        ("→ door", "of the shed", "of -> door"),
    ]
    assert [mark.get("class") for mark in line.iter("mark")] == ["other", None, None]
    assert colors(line) == [COLORS["V"], COLORS["N"], COLORS["N"]]


def test_each_phrase_has_a_line_and_a_span_those_of_its_sentences():
    sites = [Site(1, 2, 3, 4, 3, 5, "V"), Site(6, 7, 8, 9, 8, 10, "N")]
    words = ["I", "saw", "men", "in", "boats", "you", "met", "men", "of", "honour"]
    doc = annotated(words, {"pp_attachments": list(site_spans(sites))}, starts=(0, 5))
    lines = ["ate", "saw men in boats", "met men of honour"]
    found = [
        " ".join(words for _, words, _ in marks(p)) for p in read_html(attachments_html(doc))[0][1:]
    ]
    assert found == lines[1:]
    (division,) = read_html(attachments_html(doc[6:7]))
    assert len(division.findall("p")) == 1
    assert "honour" in text(division)


def test_a_doc_without_attachments():
    assert attachments_html(annotated(["Hi"], {"pp_attachments": []})) == ""
    with pytest.raises(StructlearnError, match=r"SL142.*'Hi '.*PP attachments.*pp_attacher"):
        attachments_html(Doc(pizza().vocab, words=["Hi"]))
