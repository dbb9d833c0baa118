"""Chunks in the bracketed notation, and as HTML."""

import pytest
from display.drawn import annotated, marks, pizza, read_html, text
from spacy.tokens import Doc

from spacy_structlearn.display.chunks import bracketed, chunks_html
from spacy_structlearn.display.colors import color
from spacy_structlearn.errors import StructlearnError

WORDS = ["The", "cat", "saw", "her"]
TAGS = ["DT", "NN", "VBD", "PRP"]


def test_chunks_stand_in_brackets_with_their_label():
    spans = [("NP", 0, 2), ("VP", 2, 3), ("NP", 3, 4)]
    assert bracketed(WORDS, TAGS, spans) == "[NP The/DT cat/NN ] [VP saw/VBD ] [NP her/PRP ]"
    assert bracketed(WORDS, ["DT", "", "", "PRP"], spans[:1]) == "[NP The/DT cat ] saw her/PRP"


# --- HTML -----------------------------------------------------------------------------------------
def test_each_sentence_is_a_paragraph_with_tags_and_probabilities():
    (division,) = read_html(chunks_html(pizza()))
    first, second = division.findall("p")
    assert text(first) == "NP 0.99 ShePRP ateVBD NP 0.98 theDT pizzaNN withIN NP 0.97 aDT forkNN ."
    assert marks(second) == [("NP 0.96", "It", "NP 0.9600")]
    assert chunks_html(pizza()[8:9]).count("<p>") == 1


def test_chunks_without_probabilities_and_with_white_space():
    chunks = [("NP", 0, 2), ("NP", 3, 4), ("X", 4, 5)]
    doc = annotated([" ", "cats", "\n", "\t", "sleep"], {"np_chunks": chunks}, scores=False)
    root = read_html(chunks_html(doc))
    assert marks(root) == [("NP", "cats", "NP"), ("X", "sleep", "X")]
    colors = [mark.get("style").removeprefix("--c:") for mark in root.iter("mark")]
    assert colors == [color("NP"), color("X")]


def test_a_doc_without_chunks():
    (division,) = read_html(chunks_html(annotated(["Hi"], {"np_chunks": []})))
    assert text(division.find("p")) == "Hi"
    assert chunks_html(annotated([], {"np_chunks": []})) == ""
    with pytest.raises(StructlearnError, match=r"SL142.*'Hi '.*NP chunks.*np_chunker"):
        chunks_html(Doc(pizza().vocab, words=["Hi"]))
