"""IOB2: there and back, and the lenient reading of conlleval."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.sequence.encoding import decode, encode


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("", []),
        ("O", []),
        ("B-NP", [("NP", 0, 1)]),
        ("B-NP I-NP O", [("NP", 0, 2)]),
        ("B-NP B-NP", [("NP", 0, 1), ("NP", 1, 2)]),
        ("I-NP I-NP", [("NP", 0, 2)]),
        ("O I-NP", [("NP", 1, 2)]),
        ("B-VP I-NP", [("VP", 0, 1), ("NP", 1, 2)]),
        ("I-NP B-NP I-NP I-VP", [("NP", 0, 1), ("NP", 1, 3), ("VP", 3, 4)]),
        ("B-NP O I-NP", [("NP", 0, 1), ("NP", 2, 3)]),
        ("B-NP-SBJ I-NP-SBJ", [("NP-SBJ", 0, 2)]),
    ],
)
def test_decode(tags, spans):
    assert decode(tags.split()) == spans


def test_encode():
    assert encode([("VP", 3, 4), ("NP", 0, 2)], 5) == ["B-NP", "I-NP", "O", "B-VP", "O"]
    assert encode([("NP", 0, 1), ("NP", 1, 2)], 2) == ["B-NP", "B-NP"]
    assert encode([], 2) == ["O", "O"]


@st.composite
def segmentations(draw):
    spans, at = [], 0
    for gap, length in draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), max_size=5)):
        spans.append((draw(st.sampled_from(["NP", "VP", "A-B"])), at + gap, at + gap + length))
        at += gap + length
    return spans, at + draw(st.integers(0, 2))


@given(segmentations())
def test_there_and_back(case):
    spans, length = case
    assert decode(encode(reversed(spans), length)) == spans


@given(st.lists(st.sampled_from(["O", "B-NP", "I-NP", "B-VP", "I-VP"])))
def test_reading_and_writing_again_keeps_the_chunks(tags):
    assert decode(encode(decode(tags), len(tags))) == decode(tags)


@pytest.mark.parametrize("spans", [[("A", 0, 2), ("B", 1, 3)], [("A", 1, 2), ("A", 1, 2)]])
def test_overlap(spans):
    with pytest.raises(StructlearnError, match="SL212"):
        encode(spans, 3)


@pytest.mark.parametrize("span", [("A", 1, 1), ("A", 2, 1), ("A", -1, 1), ("A", 2, 4), ("", 0, 1)])
def test_bad_span(span):
    with pytest.raises(StructlearnError, match="SL211"):
        encode([span], 3)


@pytest.mark.parametrize("tag", ["", "X", "B", "I-", "E-NP", "O-NP", "NP", "b-NP"])
def test_bad_tag(tag):
    with pytest.raises(StructlearnError, match="SL210"):
        decode(["O", tag])
