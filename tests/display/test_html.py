"""Labelled spans over words, read back from their HTML."""

import pytest
from display.drawn import VOCABS, annotated, marks, pizza, placed_words, read_html, text
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc

from spacy_structlearn.display.html import (
    GRAY,
    STYLE,
    LabelledSpan,
    Page,
    Rows,
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
def draw(words, spans):
    (sentence,) = sentences(annotated(words, {}))
    return read_html(spans_html(sentence, spans))


@given(words_and_spans())
def test_every_word_lies_in_the_spans_that_cover_it(case):
    words, spans = case
    found = list(placed_words(draw(words, spans)))
    assert [word for word, _ in found] == words
    for i, (_, around) in enumerate(found):
        expected = [span.label for span in spans if span.start <= i < span.end]
        assert sorted(around) == expected


@given(words_and_spans())
def test_every_span_has_its_label_once_before_its_first_word(case):
    words, spans = case
    root = draw(words, spans)
    labels = [(label, title) for label, _, title in marks(root) if label]
    assert sorted(labels) == [(span.label, span.label) for span in spans]
    for mark in root.iter("mark"):
        if mark.find("b") is not None:
            first = next(placed_words(mark))[0]
            assert first == words[spans[int(mark.get("title")[1:])].start]


def test_lines_of_spans_with_others_inside_lie_lower():
    spans = [LabelledSpan(0, 4, "A"), LabelledSpan(1, 3, "B"), LabelledSpan(1, 2, "C")]
    styles = [m.get("style") for m in draw("abcd", spans).iter("mark")]
    assert styles == [f"--c:{GRAY};--h:2", f"--c:{GRAY};--h:1", f"--c:{GRAY}"]


def test_the_probability_is_text_and_with_more_digits_a_tooltip():
    spans = [LabelledSpan(0, 1, "NP", 0.98765), LabelledSpan(1, 2, "VP", 0.0, note="why")]
    assert marks(draw("ab", spans)) == [
        ("NP 0.99", "a", "NP 0.9877"),
        ("VP 0.00", "b", "why"),
    ]


def test_words_are_spaced_as_in_the_text():
    words = ["well", "-", "known", ",", "\n", "it", "'s", "."]
    doc = Doc(VOCABS["en"], words=words, spaces=[i == 3 for i in range(8)])
    (sentence,) = sentences(doc)
    spans = [LabelledSpan(0, 3, ""), LabelledSpan(5, 6, "")]
    drawn = read_html(spans_html(sentence, spans))
    assert "".join(drawn.itertext()) == "well-known, it's."
    assert [m.text for m in drawn] == ["well-known", "'s"]
    assert "".join(read_html(spans_html(sentence, spans[:1], 0, 3)).itertext()) == "well-known"


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


def test_rows_are_a_table():
    doc = pizza("srl")
    assert repr(doc._.frames).splitlines() == [
        "predicate: ate 0.99; roleset: eat.01; "
        "arguments: ARG0 She 0.98; ARG1 the pizza 0.97; ARGM-MNR with a fork 0.96",
        "predicate: rained 0.95; arguments: ARG1 It 0.94",
    ]
    table = read_html(doc._.frames._repr_html_())
    rows = [[text(cell) for cell in row] for row in table.iter("tr")]
    assert rows[0] == ["predicate", "roleset", "arguments"]
    assert rows[2] == ["rained 0.95", "", "ARG1 It 0.94"]
    assert doc._.frames == tuple(doc._.frames)
    empty = annotated([], {"srl": []})._.frames
    assert (repr(empty), text(read_html(empty._repr_html_()))) == ("", "")


class Row(str):
    def as_row(self):
        return {"<a>": self}


def test_cells_are_escaped():
    assert text(read_html(Rows([Row("<b>&")])._repr_html_())) == "<a> <b>&"


def test_a_page_in_a_notebook_is_whole_and_has_its_own_style():
    html = Page("<style>\np { margin: 0 }\n</style><body><main><p>Hi</p></main></body>")
    root = read_html(html._repr_html_())
    assert text(root.find(".//style")) == ".structlearn-page { p { margin: 0 } }"
    assert [text(e) for e in root.iter("div") if e.get("class") == "body"] == ["Hi"]
