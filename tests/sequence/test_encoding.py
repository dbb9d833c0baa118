"""The schemes: there and back, and the lenient reading of conlleval and seqeval."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.evaluation.conlleval import chunks
from spacy_structlearn.sequence.layout import encoding


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
    assert encoding.decode(tags.split()) == spans


@st.composite
def segmentations(draw):
    spans, at = [], 0
    for gap, length in draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), max_size=5)):
        spans.append((draw(st.sampled_from(["NP", "VP", "A-B"])), at + gap, at + gap + length))
        at += gap + length
    return spans, at + draw(st.integers(0, 2))


@pytest.mark.parametrize(
    ("scheme", "tags"),
    [("IOB2", "B-NP I-NP O B-NP B-NP I-NP B-VP"), ("IOBES", "B-NP E-NP O S-NP B-NP E-NP S-VP")],
)
def test_schemes(scheme, tags):
    spans = [("NP", 0, 2), ("NP", 3, 4), ("NP", 4, 6), ("VP", 6, 7)]
    assert encoding.encode(spans, 7, scheme) == tags.split()
    assert encoding.decode(tags.split(), scheme) == spans


@settings(max_examples=30)
@given(segmentations(), st.sampled_from(list(encoding.SCHEMES)))
def test_there_and_back(case, scheme):
    spans, length = case
    tags = encoding.encode(reversed(spans), length, scheme)
    assert encoding.decode(tags, scheme) == spans
    # What is written is what may be written.
    known = list(encoding.tag_set(["NP", "VP", "A-B"], scheme))
    legal = encoding.successions(known, scheme)
    assert all(legal[known.index(a), known.index(b)] for a, b in itertools.pairwise(tags))
    assert not tags or encoding.endings(known, scheme)[known.index(tags[-1])]


@pytest.mark.parametrize("scheme", encoding.SCHEMES)
def test_only_what_may_be_written_is_read_and_written_alike(scheme):
    tags = encoding.tag_set(["NP", "VP"], scheme)
    legal, last = encoding.successions(tags, scheme), encoding.endings(tags, scheme)
    after_o = legal[tags.index("O")]
    for ids in itertools.product(range(len(tags)), repeat=3):
        sequence = [tags[i] for i in ids]
        is_legal = after_o[ids[0]] and last[ids[-1]]
        is_legal &= all(legal[a, b] for a, b in itertools.pairwise(ids))
        assert is_legal == (
            encoding.encode(encoding.decode(sequence, scheme), 3, scheme) == sequence
        )


@settings(max_examples=30)
@given(st.lists(st.sampled_from(encoding.tag_set(["NP", "VP"], "IOB2"))))
def test_reading_is_that_of_conlleval(tags):
    assert encoding.decode(tags) == chunks(tags)


def test_sets_of_tags():
    assert encoding.tag_set(["NP", "VP"]) == ("O", "B-NP", "I-NP", "B-VP", "I-VP")
    assert encoding.tag_set(["NP"], "IOBES") == ("O", "B-NP", "I-NP", "E-NP", "S-NP")
    assert encoding.is_of(["O", "E-NP"], "IOBES")
    assert not encoding.is_of(["O", "E-NP"], "IOB2")
    assert not encoding.is_of(["O"], None)


def test_unknown_scheme():
    for function in (
        lambda: encoding.encode([], 1, "BIO"),
        lambda: encoding.decode([], "BIO"),
        lambda: encoding.tag_set([], ""),
    ):
        with pytest.raises(StructlearnError, match="SL209"):
            function()


@pytest.mark.parametrize("spans", [[("A", 0, 2), ("B", 1, 3)], [("A", 1, 2), ("A", 1, 2)]])
def test_overlap(spans):
    with pytest.raises(StructlearnError, match="SL212"):
        encoding.encode(spans, 3)


@pytest.mark.parametrize("span", [("A", 1, 1), ("A", 2, 1), ("A", -1, 1), ("A", 2, 4), ("", 0, 1)])
def test_bad_span(span):
    with pytest.raises(StructlearnError, match="SL211"):
        encoding.encode([span], 3)


@pytest.mark.parametrize("tag", ["", "X", "B", "I-", "E-NP", "O-NP", "NP", "b-NP"])
def test_bad_tag(tag):
    with pytest.raises(StructlearnError, match="SL210"):
        encoding.decode(["O", tag])
