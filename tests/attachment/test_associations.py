"""Unambiguous phrases in text, and what their counts say of a site."""

import math
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.attachment.associations import Associations
from spacy_structlearn.errors import StructlearnError
from training.pipeline.associations import associated
from training.pipeline.unambiguous import Head, unambiguous_heads

V, N, OF, WITH, O1, O2 = range(11, 17)
PHRASES = Counter(
    {
        ("V", V, WITH, O1): 30,
        ("V", V, 0, 0): 10,
        ("V", 99, OF, O2): 5,
        ("N", N, OF, O2): 40,
        ("N", N, WITH, O2): 1,
        ("N", N, 0, 0): 20,
    }
)


def column(*values):
    return np.array(values, dtype=np.uint64)


def levels(associations, *words):
    return associations.columns(*(column(word) for word in words))[0].tolist()


@pytest.mark.parametrize(
    ("text", "chunks", "expected"),
    [
        # A verb without object, and a noun at the beginning.
        (
            "roof/NN of/IN houses/NNS fell/VBD on/IN him/PRP",
            [(0, 1), (2, 3), (5, 6)],
            [("N", 0, 1, 2), ("N", 2), ("V", 3, 4, 5)],
        ),
        # A pronoun does not compete with the verb, an object does.
        ("saw/VBD it/PRP in/IN time/NN", [(1, 2), (3, 4)], [("V", 0, 2, 3)]),
        ("saw/VBD men/NNS in/IN time/NN", [(1, 2), (3, 4)], []),
        ("looked/VBD up/RP at/IN it/PRP", [(3, 4)], [("V", 0, 2, 3)]),
        # A conjunction is no preposition.
        ("left/VBD after/IN men/NNS came/VBD", [(2, 3)], [("V", 0), ("V", 3)]),
        ("", [], []),
    ],
)
def test_unambiguous_heads(text, chunks, expected):
    tags = [token.rpartition("/")[2] for token in text.split()]
    assert list(unambiguous_heads(tags, chunks)) == [Head(*head) for head in expected]


def test_associations_are_those_of_the_counts():
    found = associated(PHRASES)
    of, with_, either = found.columns(
        column(V, V, V), column(N, N, N), column(OF, WITH, WITH), column(O2, O2, O1)
    ).T.tolist()[:3]
    # The verb takes "with" (0.75 of its phrases, 0.69 of all), the noun "of".
    assert of[0] < of[1]
    assert with_[0] > with_[1]
    assert either[2] > either[1]
    value = found._of_head("N", column(N), column(OF))[0]
    prior = 40.5 / 62
    assert value == pytest.approx(math.log((40 + 20 * prior) / (61 + 20) / prior), abs=0.15)


def test_rare_words_and_pairs_are_left_out():
    assert len(associated(PHRASES, min_count=2)) == len(associated(PHRASES)) - 2
    rare = associated(PHRASES, min_word_count=6)
    assert levels(rare, 99, N, OF, O2)[0] == levels(rare, 98, N, OF, O2)[0]
    assert levels(rare, 99, N, OF, O2)[1:] == levels(associated(PHRASES), 99, N, OF, O2)[1:]


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("VN"), *[st.integers(0, 2**64 - 1)] * 3), st.integers(1, 10**9)
    )
)
def test_round_trip(phrases):
    found = associated(phrases)
    again = Associations.from_bytes(found.to_bytes())
    assert again == found == pickle.loads(pickle.dumps(found))
    assert again.to_bytes() == found.to_bytes()
    sites = [column(1, 2), column(3, 4), column(5, 6), column(7, 8)]
    np.testing.assert_array_equal(again.columns(*sites), found.columns(*sites))


def test_damaged_bytes_are_refused():
    keys = np.array([2, 1], dtype=np.uint64)
    with pytest.raises(ValueError, match="do not fit"):
        Associations(keys, np.zeros(2, dtype=np.uint8))
    data = associated(PHRASES).to_bytes()
    with pytest.raises(StructlearnError):
        Associations.from_bytes(data[:-1])
