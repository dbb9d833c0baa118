"""The kernel against NumPy and against enumeration."""

import threading

import numpy as np
import pytest
from chains import (
    enumerate_sequences,
    numpy_forward_backward,
    numpy_scores,
    numpy_viterbi,
    sentences,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from spacy_structlearn.sequence import _chain

cases = st.tuples(
    st.lists(st.integers(0, 6), max_size=5),  # lengths of sentences
    st.integers(1, 5),  # labels
    st.sampled_from([0.1, 1.0, 30.0, 500.0, 5000.0]),  # scale; the last two go in log space
    st.integers(0, 2**32 - 1),
)


def make(lengths, n_labels, scale, seed):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    scores = rng.normal(scale=scale, size=(offsets[-1], n_labels))
    return scores, offsets, rng.normal(scale=scale, size=(n_labels, n_labels))


def run_forward_backward(scores, offsets, transitions):
    marginals, log_beta = np.full_like(scores, np.nan), np.full_like(scores, np.nan)
    expectations = np.full_like(transitions, np.nan)
    value = _chain.forward_backward(scores, offsets, transitions, marginals, expectations, log_beta)
    return value, marginals, expectations, log_beta


@given(cases)
def test_forward_backward(case):
    scores, offsets, transitions = make(*case)
    value, marginals, expectations, log_beta = run_forward_backward(scores, offsets, transitions)
    total, pairs = 0.0, np.zeros_like(transitions)
    for s in sentences(offsets):
        if s.start < s.stop:
            log_z, gamma, xi, beta = numpy_forward_backward(scores[s], transitions)
            total += log_z
            pairs += xi
            np.testing.assert_allclose(marginals[s], gamma, atol=1e-9)
            # Each token's log beta is known up to a constant.
            differences = log_beta[s] - log_beta[s][:, :1]
            np.testing.assert_allclose(differences, beta - beta[:, :1], rtol=1e-9, atol=1e-9)
    assert value == pytest.approx(total, rel=1e-12, abs=1e-9)
    np.testing.assert_allclose(expectations, pairs, atol=1e-9)
    np.testing.assert_allclose(marginals.sum(axis=1), 1.0, atol=1e-9)


@given(cases)
def test_marginals_may_take_the_place_of_the_scores(case):
    scores, offsets, transitions = make(*case)
    value, marginals, _, _ = run_forward_backward(scores, offsets, transitions)
    assert _chain.forward_backward(scores, offsets, transitions, scores) == value
    np.testing.assert_array_equal(scores, marginals)


@pytest.mark.parametrize("n_labels", [1, 2, 3, 4])
def test_partition_function_by_enumeration(n_labels):
    scores, offsets, transitions = make([5], n_labels, 2.0, seed=n_labels)
    value, marginals, expectations, _ = run_forward_backward(scores, offsets, transitions)
    sequences, totals = enumerate_sequences(scores, transitions)
    assert value == pytest.approx(logsumexp(totals))
    p = np.exp(totals - logsumexp(totals))
    for y in range(n_labels):
        np.testing.assert_allclose(marginals[:, y], p @ (sequences == y), atol=1e-12)
        for z in range(n_labels):
            both = (sequences[:, :-1] == y) & (sequences[:, 1:] == z)
            assert expectations[y, z] == pytest.approx((p @ both).sum())


@given(cases)
def test_viterbi(case):
    scores, offsets, transitions = make(*case)
    out = np.full(len(scores), -1, dtype=np.int32)
    value = _chain.viterbi(scores, offsets, transitions, out)
    total = 0.0
    for s in sentences(offsets):
        if s.start < s.stop:
            path, score = numpy_viterbi(scores[s], transitions)
            total += score
            assert out[s].tolist() == path
    assert value == pytest.approx(total)


def test_viterbi_by_enumeration():
    scores, offsets, transitions = make([6], 3, 1.0, seed=3)
    out = np.empty(6, dtype=np.int32)
    value = _chain.viterbi(scores, offsets, transitions, out)
    sequences, totals = enumerate_sequences(scores, transitions)
    assert out.tolist() == sequences[totals.argmax()].tolist()
    assert value == pytest.approx(totals.max())


def test_of_equals_the_lowest_label_wins():
    out = np.empty(4, dtype=np.int32)
    _chain.viterbi(np.zeros((4, 3)), np.array([0, 4]), np.zeros((3, 3)), out)
    assert out.tolist() == [0, 0, 0, 0]


def test_forbidden_transitions():
    transitions = np.zeros((3, 3))
    transitions[2, 1] = -np.inf
    scores, offsets, _ = make([4, 3], 3, 1.0, seed=0)
    scores[1] = [-np.inf, -np.inf, 0.0]  # a label that is forced
    value, marginals, expectations, _ = run_forward_backward(scores, offsets, transitions)
    assert np.isfinite(value)
    assert expectations[2, 1] == 0.0
    assert marginals[1].tolist() == [0, 0, 1]
    assert marginals[2, 1] == 0.0
    assert np.isfinite(marginals).all()
    out = np.empty(7, dtype=np.int32)
    _chain.viterbi(scores, offsets, transitions, out)
    assert out[1] == 2
    assert out[2] != 1


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.sampled_from([np.float32, np.float64]))
def test_scores_and_counts(seed, n_labels, dtype):
    rng = np.random.default_rng(seed)
    n, n_templates, n_predicates = rng.integers(0, 6, size=3)
    rows = rng.integers(-1, n_predicates, size=(n, n_templates)).astype(np.int32)
    weights = rng.normal(size=(n_predicates, n_labels)).astype(dtype)
    scores = np.full((n, n_labels), np.nan)
    _chain.emission_scores(rows, weights, scores)
    np.testing.assert_allclose(scores, numpy_scores(rows, weights), atol=1e-12)
    counts, expected = np.zeros((n_predicates, n_labels)), np.zeros((n_predicates + 1, n_labels))
    _chain.add_to_rows(rows, scores, counts)
    np.add.at(expected, rows, scores[:, None, :])
    np.testing.assert_allclose(counts, expected[:-1], atol=1e-12)


def test_shapes_are_checked():
    rows, scores = np.zeros((2, 1), dtype=np.int32), np.zeros((2, 3))
    offsets, transitions = np.array([0, 2]), np.zeros((3, 3))
    labels = np.zeros(2, dtype=np.int32)
    with pytest.raises(ValueError, match="beyond"):
        _chain.emission_scores(rows, np.zeros((0, 3)), scores)
    with pytest.raises(ValueError, match="beyond"):
        _chain.add_to_rows(rows, scores, np.zeros((0, 3)))
    with pytest.raises(ValueError, match="shape"):
        _chain.emission_scores(rows, np.zeros((1, 2)), scores)
    with pytest.raises(ValueError, match="offsets"):
        _chain.viterbi(scores, np.array([0, 3]), transitions, labels)
    with pytest.raises(ValueError, match="fall"):
        _chain.viterbi(scores, np.array([0, 3, 2]), transitions, labels)
    with pytest.raises(ValueError, match="square"):
        _chain.viterbi(np.zeros((2, 0)), offsets, np.zeros((0, 0)), labels)
    with pytest.raises(ValueError, match="shape"):
        _chain.forward_backward(scores, offsets, transitions, np.zeros((1, 3)))
    segment, pair = np.array([[0, 3, 0, 2]]), np.zeros((1, 2), dtype=np.int32)
    with pytest.raises(ValueError, match="outside"):
        _chain.segment_probabilities(
            scores, transitions, scores, scores, segment, pair, np.zeros(1)
        )


def test_threads_give_the_same():
    scores, offsets, transitions = make([50] * 200, 3, 1.0, seed=0)
    alone, together = np.empty_like(scores), [np.empty_like(scores) for _ in range(4)]
    value = _chain.forward_backward(scores, offsets, transitions, alone)
    values = []

    def work(out):
        values.append(_chain.forward_backward(scores, offsets, transitions, out))

    threads = [threading.Thread(target=work, args=(out,)) for out in together]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values == [value] * 4
    for out in together:
        np.testing.assert_array_equal(out, alone)
