"""The chain model: its index of predicates, its bytes, and what becomes of it when made small."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sequence.chains import LABELS, TEMPLATES, built, random_data, random_model

from spacy_structlearn import serialization
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.sequence.chain.model import ChainModel
from spacy_structlearn.sequence.chain.states import count_transitions
from spacy_structlearn.sequence.layout.features import UNKNOWN, Templates


@pytest.fixture
def model():
    return random_model(*random_data([7, 1, 0, 12], seed=4))


def test_build_counts_and_supports():
    columns = np.array([[1, 5], [2, 5], [1, 6]], dtype=np.uint64)
    offsets, label_ids = np.array([0, 2, 2, 3]), np.array([0, 1, 2])
    model = built(columns, offsets, label_ids, LABELS[:3], ["ORTH[0]", "TAG[0]"])
    assert model.keys.tolist() == sorted(model.keys.tolist())
    assert model.weights.shape == (4, 3)
    assert not model.weights.any()
    keys = Templates(["ORTH[0]", "TAG[0]"]).keys(columns, offsets)
    supported = model.supported[model.rows(keys[0])].tolist()
    assert supported == [[True, False, True], [True, True, False]]
    # Only 0 -> 1: the others are in different sentences.
    assert np.argwhere(model.supported_transitions).tolist() == [[0, 1]]
    often = built(columns, offsets, label_ids, LABELS[:3], ["ORTH[0]", "TAG[0]"], 2)
    assert set(often.keys.tolist()) == {int(keys[0, 0]), int(keys[0, 1])}
    assert often.rows(keys)[1].tolist()[0] == -1


@given(st.lists(st.integers(0, 4), max_size=5), st.integers(0, 100))
def test_count_transitions(lengths, seed):
    _, offsets, label_ids = random_data(lengths, seed=seed)
    counts = np.zeros((3, 3), dtype=int)
    for a, b in itertools.pairwise(offsets):
        for i in range(a + 1, b):
            counts[label_ids[i - 1], label_ids[i]] += 1
    np.testing.assert_array_equal(count_transitions(offsets, label_ids.astype(np.int32), 3), counts)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("threshold", [0.0, 0.8, np.inf])
def test_compact(model, dtype, threshold):
    small = model.compact(dtype, threshold)
    assert ChainModel.from_bytes(small.to_bytes()) == small
    assert len(small.to_bytes()) <= len(model.to_bytes())
    assert small.weights.any(axis=1).all()
    assert small.weights.dtype == (np.float64 if dtype == "float64" else np.float32)
    rows = small.rows(model.keys)
    weights = np.zeros(model.weights.shape)
    weights[rows >= 0] = small.weights[rows[rows >= 0]]
    assert not small.is_empty
    expected = model.weights.astype(dtype).astype(float)
    expected[np.abs(expected) <= threshold] = 0
    np.testing.assert_array_equal(weights, expected)
    assert small.compact(dtype, threshold) == small


def test_closed_vocabularies(model):
    columns = np.array([[1, 1], [2, 2], [4, 3]], dtype=np.uint64)
    assert np.array_equal(model.derive(columns), columns)
    model.vocabularies = {"ORTH": np.array([2, 4], dtype=np.uint64)}
    assert model.compact("float16").vocabularies == model.vocabularies
    assert model.derive(columns).tolist() == [[UNKNOWN, 1], [2, 2], [4, 3]]
    assert columns[0, 0] == 1


def _with(model, **change):
    version, fields = serialization.unpack(model.to_bytes(), "chain_model", {2, 3})
    return serialization.pack("chain_model", version, {**fields, **change})


@pytest.mark.parametrize(
    ("labels", "encoding", "pairs", "start"),
    [
        (("O", "B", "I"), "IOB2", 9, 0),  # no tags of the scheme, so any pair
        (("O", "B-NP", "I-NP"), "IOB2", 8, 0),
        (("B-NP", "I-NP", "O"), "IOB2", 8, 2),
        (LABELS, "IOB2", 25 - 2 - 4, 2),
        (("noun", "verb"), "IOB2", 4 + 2, -1),
        (("B-NP", "I-NP"), "IOB2", 4 + 1, -1),
    ],
)
def test_states_of_second_order(labels, encoding, pairs, start):
    columns, offsets, _ = random_data([3])
    label_ids = np.zeros(3, dtype=int)
    model = built(columns, offsets, label_ids, labels, TEMPLATES, order=2, encoding=encoding)
    # B-NP before all, in the last case, is not what the encoding forbids.
    assert len(model.states) == pairs + (labels == ("B-NP", "I-NP"))
    assert model.start == start
    assert model.weights.shape[1] == len(labels) + len(model.states)
    for x, (_, b) in enumerate(model.states):
        for y, (c, _) in enumerate(model.states):
            assert (model.transitions[x, y] == 0) == (b == c)
    assert ((model.initial == 0) == (model.states[:, 0] == start)).all()


def test_pairs_in_the_data_are_states_too():
    columns, offsets, _ = random_data([3])
    odd = np.array([2, 1, 1])  # O I-NP I-NP
    model = built(columns, offsets, odd, LABELS[:3], TEMPLATES, order=2)
    assert len(model.states) == 9
    assert model.state_ids(odd.astype(np.int32), offsets).tolist() == [8, 7, 4]
    strict = built(columns, offsets, np.array([0, 1, 2]), LABELS[:3], TEMPLATES, order=2)
    with pytest.raises(StructlearnError, match="SL207"):
        strict.state_ids(odd.astype(np.int32), offsets)


def test_a_sentence_ends_as_the_encoding_allows():
    columns, offsets, _ = random_data([3])
    labels = ("O", "B-NP", "E-NP")
    for last, allowed in ((2, {0, 2}), (1, {0, 1, 2})):
        model = built(
            columns, offsets, np.array([0, 1, last]), labels, TEMPLATES, order=2, encoding="IOBES"
        )
        assert set(model.states[model.final == 0, 1].tolist()) == allowed


def test_second_order_supports_labels_and_pairs():
    columns = np.array([[5], [5]], dtype=np.uint64)
    model = built(columns, np.array([0, 2]), np.array([0, 1]), LABELS[:3], ["TAG[0]"], order=2)
    # B-NP, I-NP; the pairs O B-NP and B-NP I-NP; then one transition between these.
    states = model.states.tolist()
    pairs = [states.index([2, 0]), states.index([0, 1])]
    assert np.flatnonzero(model.supported[0]).tolist() == [0, 1, *sorted(3 + p for p in pairs)]
    assert np.argwhere(model.supported_transitions).tolist() == [pairs]
    weights = np.arange(11.0)[None]
    expected = [b + 3 + i for i, (_, b) in enumerate(states)]
    assert model.state_weights(weights)[0].tolist() == expected


def test_parts_of_second_order_that_do_not_fit():
    good = random_model(*random_data([7]), order=2)
    names = ("labels", "templates", "keys", "weights", "transitions", "states", "initial")

    def make(**change):
        parts = {name: getattr(good, name) for name in names}
        return ChainModel(**{**parts, **change})

    make()
    for change in (
        {"states": good.states[::-1]},
        {"states": np.where(good.states == 0, 3, good.states)},
        {"states": np.where(good.states == 2, -1, good.states)},
        {"initial": np.zeros(8)},
        {"initial": np.full(8, -np.inf)},
        {"transitions": np.zeros((8, 8))},
        {"weights": good.weights[:, :4]},
    ):
        with pytest.raises(StructlearnError, match="SL206"):
            make(**change)


def test_compact_errors(model):
    model.weights[0, 0] = 1e6
    with pytest.raises(StructlearnError, match="SL208"):
        model.compact("float16")
    with pytest.raises(StructlearnError, match="SL209"):
        model.compact("int8")


@pytest.mark.parametrize(
    "change",
    [
        {"labels": "BIO"},
        {"templates": ["ORTH"]},
        {"keys": np.zeros(3, dtype=np.uint64)},
        {"present": np.zeros(0, dtype=np.uint8)},
        {"weights": np.zeros(1)},
        {"transitions": np.zeros((2, 2))},
        {"transitions": np.full((3, 3), np.inf)},
        {"n_columns": 6},
        {"states": np.zeros((3, 1), dtype=np.int32)},
        {"final": np.full(3, np.inf)},
        {"unknown": np.zeros((4, 3))},
        {"encoding": "BIO"},
        {"names": [1], "named_keys": np.zeros(1, dtype=np.uint64)},
    ],
)
def test_forged_contents(model, change):
    with pytest.raises(StructlearnError, match="SL054"):
        ChainModel.from_bytes(_with(model, **change))


def test_bad_labels():
    columns, offsets, label_ids = random_data([3])
    for bad in (label_ids[:2], label_ids + 3, label_ids - 3, label_ids * 1.0, label_ids[:, None]):
        with pytest.raises(StructlearnError, match="SL207"):
            built(columns, offsets, bad, LABELS[:3], TEMPLATES)
    with pytest.raises(StructlearnError, match="SL206"):
        built(columns, offsets, label_ids, ["O", "O", "B-NP"], TEMPLATES)
