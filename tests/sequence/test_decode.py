"""Decoding: labels, marginals and chunk probabilities against enumeration, and at the edges."""

import numpy as np
import pytest
from chains import (
    LABELS,
    enumerate_chunk_probabilities,
    enumerate_sequences,
    numpy_scores,
    random_data,
    random_model,
    sentences,
)
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.sequence import _chain, encoding
from spacy_structlearn.sequence.decode import decode_with_segments, marginals, viterbi
from spacy_structlearn.sequence.model import ChainModel


def scores_of(model, columns, offsets):
    return numpy_scores(model.rows(model.templates.keys(columns, offsets)), model.weights)


LABEL_SETS = [
    LABELS[:3],
    LABELS,
    ("O", "I-NP", "B-NP"),
    ("I-NP", "O"),
    ("B-NP", "O"),
    ("I-NP", "B-VP", "O", "B-NP"),
]


@given(
    st.lists(st.integers(0, 5), max_size=4),
    st.sampled_from(LABEL_SETS),
    st.sampled_from([0.3, 2.0, 400.0]),
    st.integers(0, 1000),
)
def test_segments_by_enumeration(lengths, labels, scale, seed):
    columns, offsets, label_ids = random_data(lengths, len(labels), seed)
    model = random_model(columns, offsets, label_ids, labels, scale, seed)
    scores = scores_of(model, columns, offsets)
    best, segments = decode_with_segments(model, columns, offsets)
    np.testing.assert_array_equal(best, viterbi(model, columns, offsets))
    found = list(segments)
    assert len(found) == len(segments)
    expected = []
    for s in sentences(offsets):
        tags = [labels[y] for y in best[s]]
        exact = enumerate_chunk_probabilities(scores[s], model.transitions, labels)
        for label, start, end in encoding.decode(tags):
            chunk = (label, start + s.start, end + s.start)
            expected.append((*chunk, exact[label, start, end]))
    assert [chunk[:3] for chunk in found] == [chunk[:3] for chunk in expected]
    np.testing.assert_allclose(
        [chunk[3] for chunk in found], [chunk[3] for chunk in expected], atol=1e-9
    )


def test_every_possible_chunk_by_enumeration():
    # Not only those on the best path: the kernel gives the probability of any chunk.
    columns, offsets, label_ids = random_data([5], 5, seed=8)
    model = random_model(columns, offsets, label_ids, LABELS, 0.5, seed=8)
    scores = scores_of(model, columns, offsets)
    gamma, log_beta = np.empty_like(scores), np.empty_like(scores)
    _chain.forward_backward(scores, offsets, model.transitions, gamma, None, log_beta)
    exact = enumerate_chunk_probabilities(scores, model.transitions, LABELS)
    ids = {"NP": (0, 1), "VP": (3, 4)}
    assert len(exact) == 2 * 15
    for (label, start, end), probability in exact.items():
        out = np.empty(1)
        _chain.segment_probabilities(
            scores,
            model.transitions,
            gamma,
            log_beta,
            np.array([[start, end, 0, 5]]),
            np.array([ids[label]], dtype=np.int32),
            out,
        )
        assert out[0] == pytest.approx(probability)


def test_marginals_by_enumeration():
    columns, offsets, label_ids = random_data([4, 2], seed=2)
    model = random_model(columns, offsets, label_ids)
    scores = scores_of(model, columns, offsets)
    found = marginals(model, columns, offsets)
    assert found.shape == (6, 3)
    for s in sentences(offsets):
        sequences, totals = enumerate_sequences(scores[s], model.transitions)
        p = np.exp(totals - totals.max())
        p /= p.sum()
        for y in range(3):
            np.testing.assert_allclose(found[s, y], p @ (sequences == y))


def test_float32_weights_give_the_same():
    columns, offsets, label_ids = random_data([20, 30], seed=2)
    model = random_model(columns, offsets, label_ids)
    small = model.compact("float32")
    np.testing.assert_array_equal(
        viterbi(model, columns, offsets), viterbi(small, columns, offsets)
    )
    np.testing.assert_allclose(
        marginals(model, columns, offsets), marginals(small, columns, offsets), atol=1e-5
    )


def test_unseen_predicates_are_no_trouble():
    columns, offsets, label_ids = random_data([5, 5])
    model = random_model(columns, offsets, label_ids)
    new = columns + np.uint64(1000)
    p = marginals(model, new, offsets)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert len(viterbi(model, new, offsets)) == 10


@pytest.mark.parametrize("lengths", [[], [0], [0, 0], [1], [0, 1, 0]])
def test_empty_and_short_sentences(lengths):
    columns, offsets, label_ids = random_data([3, 4])
    model = random_model(columns, offsets, label_ids)
    columns, offsets, _ = random_data(lengths)
    n = sum(lengths)
    assert marginals(model, columns, offsets).shape == (n, 3)
    best, segments = decode_with_segments(model, columns, offsets)
    assert best.shape == (n,)
    assert best.dtype == np.int32
    assert len(segments) <= n


def test_very_long_sentence():
    columns, offsets, label_ids = random_data([100_000])
    model = random_model(columns, offsets, label_ids, scale=3.0)
    p = marginals(model, columns, offsets)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-9)
    _, segments = decode_with_segments(model, columns, offsets)
    assert ((segments.probabilities > 0) & (segments.probabilities <= 1 + 1e-9)).all()


def test_one_chunk_over_a_very_long_sentence():
    columns, offsets, label_ids = random_data([100_000])
    model = random_model(columns, offsets, label_ids, scale=0.0)
    model.transitions[:, 1] = 50.0
    _, segments = decode_with_segments(model, columns, offsets)
    # Only the first of its labels is free, and O is one of three.
    assert [chunk[:3] for chunk in segments] == [("NP", 0, 100_000)]
    assert segments.probabilities[0] == pytest.approx(2 / 3)


def test_empty_model():
    columns, offsets, _ = random_data([3])
    for function in (viterbi, marginals, decode_with_segments):
        with pytest.raises(StructlearnError, match="SL205"):
            function(ChainModel.empty(), columns, offsets)


def test_other_labels_can_be_decoded_but_not_read_as_chunks():
    columns, offsets, label_ids = random_data([3], 2)
    model = random_model(columns, offsets, label_ids, ("noun", "verb"))
    assert set(viterbi(model, columns, offsets)) <= {0, 1}
    with pytest.raises(StructlearnError, match="SL210"):
        decode_with_segments(model, columns, offsets)


def test_arrays_that_do_not_fit():
    columns, offsets, label_ids = random_data([3])
    model = random_model(columns, offsets, label_ids)
    with pytest.raises(StructlearnError, match="SL203"):
        viterbi(model, columns, np.array([0, 2]))
    with pytest.raises(StructlearnError, match="SL204"):
        viterbi(model, columns[:, :1], offsets)


@given(st.permutations(range(4)))
def test_sentences_are_independent(order):
    columns, offsets, label_ids = random_data([3, 0, 5, 2])
    model = random_model(columns, offsets, label_ids)
    parts = sentences(offsets)
    lengths = [parts[i].stop - parts[i].start for i in order]
    shuffled = np.concatenate([columns[parts[i]] for i in order])
    expected = np.concatenate([marginals(model, columns, offsets)[parts[i]] for i in order])
    found = marginals(model, shuffled, np.concatenate([[0], np.cumsum(lengths)]))
    np.testing.assert_array_equal(found, expected)
