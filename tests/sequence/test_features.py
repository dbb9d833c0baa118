"""Templates: their syntax, their keys, and what lies beyond the sentence."""

import itertools
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sequence.chains import random_data

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.sequence.layout.features import SHA_PEREIRA, Templates

MASK = 2**64 - 1


def blake(text):
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def one_key(text, columns, names, begin, end, i):
    """The key of one predicate at token i of the sentence begin..end, in Python's integers."""
    state = blake(text)
    for term in [] if text == "bias" else text.split("|"):
        name, offset = term.rstrip("]").split("[")
        at = i + int(offset)
        if at < begin:
            symbol = blake(f"padding[{at - begin}]")
        elif at >= end:
            symbol = blake(f"padding[+{at - end + 1}]")
        else:
            symbol = int(columns[at, names.index(name)])
        state = ((state ^ symbol) + 0x9E3779B97F4A7C15) & MASK
        state = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & MASK
        state = ((state ^ state >> 27) * 0x94D049BB133111EB) & MASK
        state ^= state >> 31
    return state


@pytest.mark.parametrize(
    "text",
    ["", "ORTH", "ORTH[]", "ORTH[a]", "ORTH[0", "[0]", "ORTH[0]|", "|ORTH[0]", "ORTH[0] | TAG[0]",
     "ORTH[+1]", "ORTH[-0]", "ORTH[01]", "ORTH[1000]", "1A[0]", "Bias", "bias|ORTH[0]", "ORTH[0]\n",
     "ORTH[0]&TAG[0]", "ORTH[٣]"],
)  # fmt: skip
def test_malformed(text):
    with pytest.raises(StructlearnError) as error:
        Templates(["TAG[0]", text])
    assert error.value.code == "SL201"
    assert repr(text) in str(error.value)


def test_given_twice():
    with pytest.raises(StructlearnError, match="SL202"):
        Templates(["bias", "A[0]", "bias"])


@given(
    st.lists(st.integers(0, 5), max_size=6),
    st.lists(st.sampled_from([*SHA_PEREIRA, "TAG[7]", "TAG[0]|ORTH[-9]|TAG[0]"]), unique=True),
    st.integers(0, 1000),
)
def test_keys_against_plain_python(lengths, texts, seed):
    templates = Templates(texts)
    columns, offsets, _ = random_data(lengths, seed=seed)
    names = ["ORTH", "TAG"]
    chosen = columns[:, [names.index(name) for name in templates.columns]]
    keys = templates.keys(chosen, offsets)
    assert keys.dtype == np.uint64
    assert keys.shape == (sum(lengths), len(texts))
    for begin, end in itertools.pairwise(offsets):
        for i in range(begin, end):
            expected = [one_key(t, columns, names, begin, end, i) for t in texts]
            assert keys[i].tolist() == expected


def test_golden_keys():
    # If this fails, every trained model is void: the keys are part of the model format.
    templates = Templates(["ORTH[0]", "TAG[-1]|TAG[0]|TAG[1]", "bias"])
    columns = np.array([[11, 1], [2**64 - 1, 2]], dtype=np.uint64)
    keys = templates.keys(columns, np.array([0, 2]))
    assert keys.tolist() == [
        [0x071E917AAEF27E3D, 0x964DE5250A0DB41D, 0x7246FEB96AC500B4],
        [0xAD30AC5880C1FADA, 0x98D8A54CAAAE92E2, 0x7246FEB96AC500B4],
    ]


@pytest.mark.parametrize("offsets", [[], [0], [1, 3], [0, 2], [0, 2, 1, 3], [[0, 3]], [0, 4]])
def test_bad_offsets(offsets):
    with pytest.raises(StructlearnError, match="SL203"):
        Templates(["A[0]"]).keys(np.zeros((3, 1), dtype=np.uint64), np.array(offsets))


@pytest.mark.parametrize("shape", [(3,), (3, 2), (3, 0), (3, 1, 1)])
def test_bad_columns(shape):
    with pytest.raises(StructlearnError, match="SL204"):
        Templates(["A[0]"]).keys(np.zeros(shape, dtype=np.uint64), np.array([0, 3]))
