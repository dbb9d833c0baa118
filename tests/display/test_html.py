"""Labelled spans over words, read back from their HTML."""

import pytest
from display.drawn import annotated, marks, pizza, placed_words, read_html, text
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.display.html import (
    GRAY,
    STYLE,
    LabelledSpan,
    by_sentence,
    direction,
    fragment,
    sentences,
    spans_html,
)
from spacy_structlearn.errors import StructlearnError

WORDS = st.lists(st.text("ab<>&\"'é漢", min_size=1, max_size=4), min_size=1, max_size=8)


@st.composite
def words_and_spans(draw):
    words = draw(WORDS)
    spans = []
    for number in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(words) - 1))
        spans.append(LabelledSpan(start, draw(st.integers(start + 1, len(words))), f"L{number}"))
    return words, spans


# --- spans ----------------------------------------------------------------------------------------
@given(words_and_spans())
def test_every_word_lies_in_the_spans_that_cover_it(case):
    words, spans = case
    found = list(placed_words(read_html(spans_html(words, spans))))
    assert [word for word, _ in found] == words
    for i, (_, around) in enumerate(found):
        expected = [span.label for span in spans if span.start <= i < span.end]
        assert sorted(around) == expected


@given(words_and_spans())
def test_every_span_has_its_label_once_before_its_first_word(case):
    words, spans = case
    root = read_html(spans_html(words, spans))
    labels = [(label, title) for label, _, title in marks(root) if label]
    assert sorted(labels) == [(span.label, span.label) for span in spans]
    for mark in root.iter("mark"):
        if mark.find("b") is not None:
            first = next(placed_words(mark))[0]
            assert first == words[spans[int(mark.get("title")[1:])].start]


def test_lines_of_spans_with_others_inside_lie_lower():
    spans = [LabelledSpan(0, 4, "A"), LabelledSpan(1, 3, "B"), LabelledSpan(1, 2, "C")]
    styles = [m.get("style") for m in read_html(spans_html("abcd", spans)).iter("mark")]
    assert styles == [f"--c:{GRAY};--h:2", f"--c:{GRAY};--h:1", f"--c:{GRAY}"]


def test_the_probability_is_text_and_with_more_digits_a_tooltip():
    spans = [LabelledSpan(0, 1, "NP", 0.98765), LabelledSpan(1, 2, "VP", 0.0, note="why")]
    assert marks(read_html(spans_html("ab", spans))) == [
        ("NP 0.99", "a", "NP 0.9877"),
        ("VP 0.00", "b", "why"),
    ]


# --- sentences ------------------------------------------------------------------------------------
def test_sentences_have_no_white_space_and_are_not_empty():
    words = [" ", "She", "\n", "ran", "\n\n", " ", "Home", "."]
    doc = annotated(words, {}, starts=(0, 4, 6))
    first, second = sentences(doc)
    assert (first.positions, second.positions) == ([1, 3], [6, 7])
    assert (first.words(), second.text()) == (["She", "ran"], "Home .")
    assert first.place(doc[0:4]) == (0, 2)
    assert first.place(doc[2:3]) == (1, 1)
    assert sentences(annotated([], {})) == []


def test_a_span_has_the_sentences_that_it_touches():
    doc = pizza()
    assert [s.span.start for s in sentences(doc)] == [0, 8]
    assert [s.span.start for s in sentences(doc[6:9])] == [0, 8]
    assert [s.span.start for s in sentences(doc[9:10])] == [8]
    without = annotated(["a", "b"], {}, starts=None)
    assert [s.words() for s in sentences(without[1:2])] == [["a", "b"]]


@pytest.mark.parametrize("thing", ["text", None, ["a"]])
def test_only_docs_and_spans_have_sentences(thing):
    with pytest.raises(StructlearnError, match=f"SL141.*type {type(thing).__name__}"):
        sentences(thing)


def test_items_come_to_their_sentences_and_others_are_left_out():
    doc = annotated(list("abcdef"), {}, starts=(0, 2, 4))
    found = sentences(doc[2:6])
    assert by_sentence(found, [5, 0, 2, 3, 1], lambda i: i) == [[2, 3], [5]]
    assert by_sentence(sentences(doc[0:1]), range(6), lambda i: i) == [[0, 1]]
    assert by_sentence([], [1], lambda i: i) == []


# --- what a notebook shows ------------------------------------------------------------------------
def test_a_fragment_brings_its_style_and_direction():
    doc = annotated(["היא"], {}, lang="he")
    (division,) = read_html(fragment(doc, ["a", "<i>b</i>"]))
    assert (division.get("class"), division.get("lang"), division.get("dir")) == (
        "structlearn", "he", direction(doc)
    )  # fmt: skip
    assert direction(doc) == "rtl"
    assert text(division.find("style")) == " ".join(STYLE.split())
    assert [text(p) for p in division.iter("p")] == ["a", "b"]
    assert fragment(doc, []) == ""
