"""The symbols of layout against plain Python, and what they say of small texts."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn.sequence.layout import boundaries
from spacy_structlearn.sequence.layout.boundaries import COLUMNS, KINDS, Layout, word_kind

TOKEN = re.compile(r"\w+|[^\w\s]")


def layout(*texts):
    """The layout of texts whose tokens are words and single marks."""
    found = [(d, m, text) for d, text in enumerate(texts) for m in TOKEN.finditer(text)]
    firsts = np.cumsum([0, *map(len, texts)])
    ends = [0] + [m.end() for _, m, _ in found]
    before = [
        text[: m.start()] if i == 0 or found[i - 1][0] != d else text[ends[i] : m.start()]
        for i, (d, m, text) in enumerate(found)
    ]
    words = [m[0] for _, m, _ in found]
    return words, Layout(
        documents=np.array([d for d, _, _ in found], dtype=np.int64),
        starts=np.array([firsts[d] + m.start() for d, m, _ in found], dtype=np.int64),
        ends=np.array([firsts[d] + m.end() for d, m, _ in found], dtype=np.int64),
        breaks=np.array([space.count("\n") for space in before], dtype=np.int64),
        kinds=np.array([word_kind(word) for word in words], dtype=np.int64),
        words=np.array([hash(word.lower()) % 2**61 for word in words], dtype=np.uint64),
        listed=np.array([word == "Vol" for word in words], dtype=np.int64),
    )


def column(name, *texts):
    words, found = layout(*texts)
    return dict(zip(words, found.column(name).tolist(), strict=True))


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        *(
            (".", "period"),
            ("!!", "exclamation mark"),
            ("...", "ellipsis"),
            ("?!", "several marks"),
        ),
        *(("”", "closing quote"), ("[", "opening bracket"), ("*", "bullet"), ("____", "rule")),
        *((":-)", "emoticon"), ("3.", "number of an item"), ("b)", "letter of an item")),
        *(
            ("a@b.example", "address"),
            ("www.example.org", "link"),
            ("Dr.", "short word with a period"),
        ),
        *(("Corp.", "word with periods"), ("2,000", "digits")),
    ],
)
def test_kinds_of_marks(word, kind):
    assert KINDS[word_kind(word) - 1][0] == kind


def test_white_space_before_each_token():
    gaps = column("GAP", "a b  c\nd\n  e\n\nf.")
    assert [gaps[word] for word in "abcdef."] == [
        *(boundaries.BEGINNING, boundaries.BLANK, boundaries.BLANKS, boundaries.LINE_BREAK),
        *(boundaries.INDENTED, boundaries.BLANK_LINE, boundaries.NONE),
    ]


def test_a_full_line_is_told_from_one_that_ends_early():
    full = "one two three four five six seven eight nine ten eleven twelve\nand so on it goes"
    early = "a heading\nand so on it goes one two three four five six seven eight nine ten"
    assert column("BREAK", full)["and"] != column("BREAK", early)["and"]
    assert column("BREAK", full)["so"] == 0
    assert column("LINE", full)["and"] > column("LINE", early)["and"] > 0


def test_open_quotes_and_brackets_end_with_the_paragraph():
    quote = column("QUOTE", 'before "inside" after\n\nnext')
    assert quote["inside"] % 2 == 1
    assert quote["before"] % 2 == quote["after"] % 2 == quote["next"] == 0
    curly = column("QUOTE", "x “y z\n\nn")
    assert (curly["x"], curly["y"], curly["n"]) == (0, 8, 0)
    bracket = column("BRACKET", "x (y) z (w\n\nn")
    assert [bracket[word] for word in "xyzwn"] == [0, 1, 0, 1, 0]


def test_case_is_that_of_the_same_text():
    assert column("CASE", "Rose left.")["Rose"] == 1
    assert column("CASE", "Rose left. A rose.")["Rose"] == 2
    words, found = layout("Rose left. A man saw Rose there.", "We saw Rose and a rose.")
    assert words[0] == "Rose"
    assert found.column("CASE")[0] == 3


def test_a_period_that_does_not_end_a_sentence_makes_an_abbreviation():
    once = column("CASE", "He saw the dept today.")["dept"]
    assert once == 0
    words, found = layout("The dept. was closed. Ask the dept. Now.")
    case = found.column("CASE")
    second = [i for i, word in enumerate(words) if word == "dept"][1]
    assert case[second] == 5 + 2
    assert case[words.index("closed")] == 5


def test_distances_to_marks():
    words, found = layout("One two. Three four five")
    assert found.column("BEHIND")[words.index("Three")] == 0
    assert found.column("BEHIND")[words.index("five")] == 2
    ahead = found.column("AHEAD")
    assert ahead[words.index("two")] > ahead[words.index("five")]


def test_no_tokens():
    _, found = layout("", " ")
    assert found.offsets.tolist() == [0]
    assert all(found.column(name).shape == (0,) for name in COLUMNS)


@settings(max_examples=30)
@given(st.lists(st.text('ab."(\n ', max_size=30), max_size=4))
def test_documents_do_not_touch_each_other(texts):
    texts = [text for text in texts if TOKEN.search(text)]
    _, together = layout(*texts)
    for name in COLUMNS:
        alone = [layout(text)[1].column(name) for text in texts]
        expected = np.concatenate([np.zeros(0, dtype=np.uint64), *alone])
        np.testing.assert_array_equal(together.column(name), expected)


@given(st.text("ab \n", max_size=60))
def test_breaks_against_plain_python(text):
    words, found = layout(text)
    if not words:
        return
    paragraphs = [p for p in re.split(r"\s*\n\s*\n\s*", text.strip(" \n")) if p.strip()]
    rows = [row.strip() for part in paragraphs for row in re.split(r"\s*\n\s*", part.strip())]
    lengths = [1 + sum(len(row) >= edge for edge in boundaries._LENGTHS) for row in rows]
    expected, number = [], 0
    for part in paragraphs:
        for place, row in enumerate(re.split(r"\s*\n\s*", part.strip())):
            expected += [lengths[number - 1] if place else 0] + [0] * (len(row.split()) - 1)
            number += 1
    assert found.column("LINE").tolist() == expected


def test_style_is_that_of_the_other_sentences():
    assert column("STYLE", "we left. it rained. It snowed")["It"] == 4 + 1
    assert column("STYLE", "We left. Nobody knew. it rained.")["it"] == 2
    assert column("LISTED", "See Vol. 3")["Vol"] == 1
