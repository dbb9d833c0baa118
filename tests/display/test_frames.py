"""Frames as text, as columns, and as HTML, which is parsed again."""

from itertools import pairwise

import pytest
from display.drawn import VOCABS, annotated, marks, read_html
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc

from spacy_structlearn.cli.common.documents import Format, printed
from spacy_structlearn.display.frames import (
    AROUND,
    LONG,
    frame_columns,
    frame_line,
    frame_text,
    frames_html,
    plain_frame,
    window,
)
from spacy_structlearn.display.html import fragment, sentences
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.extensions import frame_spans
from spacy_structlearn.pipeline.extensions.as_data import as_dict
from spacy_structlearn.roles.propositions import read_props

WORDS = ["My", "sister", "sold", "her", "new", "boat", "to", "a", "dealer", "in", "Bristol", "."]
SOLD = (2, "sell.01", [("ARG0", 0, 2), ("ARG1", 3, 6), ("ARG2", 6, 11)])


def framed(words, frames, **settings):
    """A Doc with these frames."""
    return annotated(words, {"srl": list(frame_spans(frames))}, scores=False, **settings)


@st.composite
def plain_frames(draw, n=None):
    """A number of words and frames on them, the arguments of each without overlap."""
    n = n or draw(st.integers(1, 12))
    frames = []
    for predicate in sorted(draw(st.sets(st.integers(0, n - 1), max_size=3))):
        cuts = sorted(draw(st.sets(st.integers(0, n))) | {0, predicate, predicate + 1, n})
        label = st.sampled_from([None, "ARG0", "R-ARG1", "ARGM-TMP", "C-ARG2", "V"])
        spans = [(draw(label), *ends) for ends in pairwise(cuts)]
        arguments = [span for span in spans if span[0] and span[1] != predicate]
        roleset = draw(st.sampled_from([None, "go.01"]))
        frames.append((predicate, roleset, arguments))
    return n, frames


# --- long sentences -------------------------------------------------------------------------------
def test_a_frame_shows_the_part_of_a_long_sentence_around_it():
    assert window(LONG, [(3, 5)]) == (0, LONG)
    n = LONG + 1
    assert window(n, [(100, 101), (90, 95), (0, 0)]) == (90 - AROUND, 101 + AROUND)
    assert window(n, [(2, n - 3)]) == (0, n)
    assert window(n, []) == (0, n)


def test_output_grows_with_the_length_of_a_sentence():
    sizes = []
    for n in (1000, 4000):
        frames = [(i, None, [("ARG1", i + 1, i + 3)]) for i in range(0, n - 3, 4)]
        doc = framed([f"w{i % 10}" for i in range(n)], frames)
        found = as_dict(doc)["frames"]
        assert all(frame["tags"] is None for frame in found)
        assert found[50]["verb"] == "w0"
        (sentence,) = sentences(doc)
        lines = [frame_line(sentence, frame) for frame in doc._.frames]
        texts = list(printed(doc, Format.text))
        assert found[50]["description"].startswith("\N{HORIZONTAL ELLIPSIS} w0 w1")
        assert "[V w0] [ARG1 w1 w2] w3" in texts[51]
        figures = frames_html(doc)
        sizes.append([len("".join(part)) for part in (map(str, found), lines, texts, figures)])
    for one, other in zip(*sizes, strict=True):
        assert other < 4.1 * one


# --- text -----------------------------------------------------------------------------------------
def test_a_frame_is_a_line_with_each_argument_in_brackets():
    assert frame_text(WORDS, *SOLD) == (
        "[ARG0 My sister] [V sell.01 sold] [ARG1 her new boat] [ARG2 to a dealer in Bristol] ."
    )


# --- columns --------------------------------------------------------------------------------------
def test_columns_are_those_of_propbank():
    words = ["She", "wants", "to", "sleep", "well"]
    frames = [
        (1, "want.01", [("ARG0", 0, 1), ("ARG1", 2, 5)]),
        (3, None, [("ARG0", 0, 1), ("ARGM-MNR", 4, 5)]),
    ]
    rows = frame_columns(len(words), frames)
    assert rows == [
        ["-", "(ARG0*)", "(ARG0*)"],
        ["want.01", "(V*)", "*"],
        ["-", "(ARG1*", "*"],
        ["-", "*", "(V*)"],
        ["-", "*)", "(ARGM-MNR*)"],
    ]
    assert frame_columns(2, []) == [["-"], ["-"]]
    assert frame_columns(0, []) == []


@given(plain_frames())
def test_columns_are_read_again_by_the_reader_of_corpora(case):
    n, frames = case
    predicates = {predicate for predicate, _, _ in frames}
    lines = []
    for i, (roleset, *cells) in enumerate(frame_columns(n, frames)):
        bit = "(TOP" * (i == 0) + "*" + ")" * (i == n - 1)
        lemma = "go" if i in predicates else "-"
        lines.append(" ".join(["doc", "0", str(i), "word", "NN", bit, lemma, roleset, *cells]))
    (sentence,) = read_props(lines)
    assert [p.predicate for p in sentence.propositions] == [f[0] for f in frames]
    for proposition, (predicate, roleset, arguments) in zip(
        sentence.propositions, frames, strict=True
    ):
        assert proposition.roleset == roleset
        spans = [*arguments, ("V", predicate, predicate + 1)]
        assert [tuple(a) for a in proposition.arguments] == sorted(spans, key=lambda s: s[1])


@pytest.mark.parametrize("span", [(0, 2), (1, 3), (1, 2)])
def test_columns_do_not_hold_arguments_that_overlap(span):
    with pytest.raises(StructlearnError, match=r"SL117.*inside of another argument"):
        frame_columns(4, [(3, None, [("ARG0", *span), ("ARG1", 1, 2)])])
    with pytest.raises(StructlearnError, match="SL117"):
        frame_columns(4, [(1, None, [("ARG0", *span)])])


# --- of Docs --------------------------------------------------------------------------------------
def test_a_frame_draws_itself_over_its_sentence():
    words = ["Go", "!", "\n", "She", "ran", "home", "."]
    doc = framed(words, [(4, "run.02", [("ARG0", 3, 4), ("ARG1", 5, 6)])], starts=(0, 3))
    (frame,) = doc._.frames
    drawn = frame._repr_html_()
    assert drawn == fragment(doc, [frame_line(sentences(doc)[1], frame)])
    assert "run.02" in drawn
    assert "Go" not in drawn


def test_white_space_is_left_out_of_a_plain_frame():
    words = [" ", "She", " ", "ran", "\n", "home", " "]
    doc = framed(words, [(3, "run.02", [("ARG0", 0, 2), ("ARGM-DIR", 4, 7), ("ARG1", 2, 3)])])
    (frame,) = doc._.frames
    plain = plain_frame(frame, [1, 3, 5])
    assert plain == (1, "run.02", [("ARG0", 0, 1), ("ARGM-DIR", 2, 3)])
    # Of what lies beyond the tokens the rest is left.
    assert plain_frame(frame, [3]) == (0, "run.02", [])


# --- HTML -----------------------------------------------------------------------------------------
def labelled(html):
    """The label and the words of each mark."""
    return [mark[:2] for mark in marks(read_html(html))]


def test_each_frame_is_a_paragraph_over_its_sentence():
    words = ["She", "ate", ".", "He", "saw", "her", "eat", "."]
    frames = [
        (1, "eat.01", [("ARG0", 0, 1)]),
        (4, None, [("ARG0", 3, 4), ("ARG1", 5, 7)]),
        (6, "eat.01", [("ARG0", 5, 6)]),
    ]
    doc = framed(words, frames, starts=(0, 3))
    first, second = sentences(doc)
    lines = [
        frame_line(sentence, frame)
        for sentence, frame in zip((first, second, second), doc._.frames, strict=True)
    ]
    assert frames_html(doc) == frames_html(doc[:]) == fragment(doc, lines)
    assert [frames_html(sentence) for sentence in doc.sents] == [
        fragment(doc, lines[:1]),
        fragment(doc, lines[1:]),
    ]
    assert labelled(lines[1]) == [("ARG0", "He"), ("V", "saw"), ("ARG1", "her eat")]
    assert labelled(lines[2]) == [("ARG0", "her"), ("V eat.01", "eat")]


def test_docs_without_frames():
    assert frames_html(framed(["Hello", "!"], [])) == frames_html(framed([], [])) == ""
    with pytest.raises(StructlearnError, match=r"SL142.*'She ran "):
        frames_html(Doc(VOCABS["en"], words=["She", "ran"]))
