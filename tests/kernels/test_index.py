"""The index of keys and their numbering, compared with dictionaries and NumPy."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.kernels.index import KeyIndex, group, number_keys

KEYS = st.integers(0, 5) | st.integers(0, 2**64 - 1)


@given(st.lists(KEYS))
def test_number_keys_and_group(keys):
    keys = np.array(keys, dtype=np.uint64)
    firsts, numbers = number_keys(keys)
    distinct = list(dict.fromkeys(keys.tolist()))
    assert keys[firsts].tolist() == distinct
    assert firsts.tolist() == [keys.tolist().index(key) for key in distinct]
    assert numbers.tolist() == [distinct.index(key) for key in keys.tolist()]
    expected = np.unique(keys, return_inverse=True, return_counts=True)
    for array, wanted, dtype in zip(
        group(keys), expected, (np.uint64, np.int32, np.int64), strict=True
    ):
        np.testing.assert_array_equal(array, wanted)
        assert array.dtype == dtype


@given(st.lists(KEYS, unique=True), st.lists(KEYS))
def test_find(known, others):
    index = KeyIndex(np.array(known, dtype=np.uint64))
    assert len(index) == len(known)
    place = {key: i for i, key in enumerate(known)}
    wanted = np.array([*known, *others], dtype=np.uint64)
    for each in (index, pickle.loads(pickle.dumps(index))):
        assert each.find(wanted).tolist() == [place.get(key, -1) for key in wanted.tolist()]
    assert index.find(wanted).dtype == np.int32


def test_find_keeps_the_shape_and_takes_any_layout():
    index = KeyIndex(np.arange(0, 100, 2, dtype=np.uint64) << np.uint64(56))
    wanted = (np.arange(6, dtype=np.uint64) << np.uint64(56)).reshape(2, 3).T
    assert index.find(wanted).tolist() == [[0, -1], [-1, 2], [1, -1]]
    assert index.find(np.empty((3, 0), np.uint64)).shape == (3, 0)


def test_an_index_has_each_key_once():
    with pytest.raises(ValueError, match="twice"):
        KeyIndex(np.array([3, 1, 3], dtype=np.uint64))
