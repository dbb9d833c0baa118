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


def test_sha_pereira():
    templates = Templates(SHA_PEREIRA)
    assert len(templates) == 20
    assert templates.columns == ("ORTH", "TAG")
    assert templates.texts == SHA_PEREIRA


def test_columns_in_order_of_first_appearance():
    assert Templates(["B[0]|A[1]", "C_1[0]", "A[0]", "bias"]).columns == ("B", "A", "C_1")
    assert Templates([]).columns == ()


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


def test_bias_is_always_the_same_key():
    keys = Templates(["bias"]).keys(np.empty((5, 0), dtype=np.uint64), np.array([0, 2, 5]))
    assert len(set(keys[:, 0].tolist())) == 1


def test_padding_symbols_are_distinct():
    templates = Templates(["TAG[-2]", "TAG[-1]", "TAG[1]", "TAG[2]"])
    keys = templates.keys(np.full((1, 1), 7, dtype=np.uint64), np.array([0, 1]))
    assert len(set(keys[0].tolist())) == 4
    # At a distance of two before the sentence is the same, from wherever it is seen.
    two = Templates(["TAG[-2]"]).keys(np.full((2, 1), 7, dtype=np.uint64), np.array([0, 2]))
    alone = Templates(["TAG[-2]"]).keys(np.full((1, 1), 9, dtype=np.uint64), np.array([0, 1]))
    assert two[0] == alone[0]
    assert two[0] != two[1]


def test_a_sentence_does_not_see_its_neighbours():
    templates = Templates(SHA_PEREIRA)
    columns, offsets, _ = random_data([4, 0, 3, 1, 0], seed=1)
    together = templates.keys(columns, offsets)
    for begin, end in itertools.pairwise(offsets):
        alone = templates.keys(columns[begin:end], np.array([0, end - begin]))
        np.testing.assert_array_equal(together[begin:end], alone)


def test_blocks_make_no_difference():
    templates = Templates(SHA_PEREIRA)
    columns, _, _ = random_data([40000], seed=1)
    keys = templates.keys(columns, np.array([0, 40000]))
    tail = templates.keys(columns[30000:], np.array([0, 10000]))
    np.testing.assert_array_equal(keys[30002:], tail[2:])


def test_order_of_symbols_matters():
    keys = Templates(["A[0]|B[0]"]).keys(
        np.array([[1, 2], [2, 1]], dtype=np.uint64), np.array([0, 2])
    )
    assert keys[0] != keys[1]


def test_keys_are_well_mixed():
    # Neighbouring ids, as spaCy's small symbols are: every bit is set half of the time.
    columns = np.arange(4096, dtype=np.uint64)[:, None]
    keys = Templates(["A[0]"]).keys(columns, np.array([0, 4096]))[:, 0]
    bits = (keys[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert abs(bits.mean(axis=0) - 0.5).max() < 0.05
    assert len(np.unique(keys)) == 4096


@pytest.mark.parametrize("offsets", [[], [0], [1, 3], [0, 2], [0, 2, 1, 3], [[0, 3]], [0, 4]])
def test_bad_offsets(offsets):
    with pytest.raises(StructlearnError, match="SL203"):
        Templates(["A[0]"]).keys(np.zeros((3, 1), dtype=np.uint64), np.array(offsets))


@pytest.mark.parametrize("shape", [(3,), (3, 2), (3, 0), (3, 1, 1)])
def test_bad_columns(shape):
    with pytest.raises(StructlearnError, match="SL204"):
        Templates(["A[0]"]).keys(np.zeros(shape, dtype=np.uint64), np.array([0, 3]))


def test_equality():
    assert Templates(["A[0]"]) == Templates(("A[0]",))
    assert Templates(["A[0]"]) != Templates(["A[1]"])
    assert Templates(["A[0]"]) != ["A[0]"]
    assert len({Templates(["A[0]"]), Templates(["A[0]"])}) == 1
    assert repr(Templates(["A[0]"])) == "Templates(['A[0]'])"
