"""Keys of which the upper bits are kept."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.kernels.index import KeyIndex
from spacy_structlearn.learning.keys import gaps, mask, narrow, of_gaps


@given(st.sets(st.integers(0, 2**64 - 1)), st.integers(8, 64))
def test_narrow_keys(numbers, bits):
    keys = np.array(sorted({n & mask(bits) for n in numbers}), dtype=np.uint64)
    own, kept = narrow(keys, bits)
    assert kept <= bits
    assert own.tolist() == [n & mask(kept) for n in keys.tolist()]
    stored = gaps(own, kept)
    np.testing.assert_array_equal(of_gaps(stored, kept), own)
    # Both are distinct, so that hashes find their places.
    np.testing.assert_array_equal(KeyIndex(own, kept).find(keys), np.arange(len(keys)))


def test_hashes_take_half_of_the_room():
    keys = np.unique(np.random.default_rng(0).integers(0, 2**64, 100_000, dtype=np.uint64))
    own, kept = narrow(keys)
    assert kept == 43
    assert gaps(own, kept).dtype == np.uint32
    others = np.random.default_rng(1).integers(0, 2**64, 100_000, dtype=np.uint64)
    assert (KeyIndex(own, kept).find(others) < 0).all()


@pytest.mark.parametrize(
    ("stored", "bits"),
    [
        ([2, 0], 40),
        ([2**31] * 1000, 40),
        (np.array([3, 2], dtype=np.uint64), 64),
        (np.array([1, 2], dtype=np.uint64), 40),
        (np.array([[1]], dtype=np.uint64), 64),
        ([1], 64),
        ([1], 0),
        ([1], 65),
    ],
)
def test_other_arrays_are_refused(stored, bits):
    array = stored if isinstance(stored, np.ndarray) else np.array(stored, dtype=np.uint32)
    with pytest.raises(ValueError, match="keys"):
        of_gaps(array, bits)
