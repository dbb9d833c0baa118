"""The kernel against NumPy and against enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sequence.chains import numpy_forward_backward, numpy_scores, sentences

from spacy_structlearn.kernels.index import KeyIndex
from spacy_structlearn.sequence.chain import _chain
from spacy_structlearn.sequence.layout import _predicates

cases = st.tuples(
    st.lists(st.integers(0, 6), max_size=5),  # lengths of sentences
    st.integers(1, 9),  # states
    st.sampled_from([0.1, 1.0, 30.0, 500.0, 5000.0]),  # scale; the last two go in log space
    st.sampled_from([0.0, 0.2, 0.6]),  # part of the transitions that is forbidden
    st.integers(0, 2**32 - 1),
)


def make(lengths, n_states, scale, forbidden=0.0, seed=0):
    """Scores, offsets, and the scores of first states, transitions and last states."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    scores = rng.normal(scale=scale, size=(offsets[-1], n_states))
    parts = [rng.normal(scale=scale, size=shape) for shape in (n_states, (n_states,) * 2, n_states)]
    for part in parts:
        part[rng.random(part.shape) < forbidden] = -np.inf
    return scores, offsets, *parts


def run_forward_backward(scores, offsets, initial, transitions, final):
    chain = _chain.Chain(initial, transitions, final)
    marginals, expectations = np.full_like(scores, np.nan), np.full_like(transitions, np.nan)
    value = _chain.forward_backward(chain, scores, offsets, marginals, expectations)
    return value, marginals, expectations


@settings(max_examples=30)
@given(cases)
def test_forward_backward(case):
    scores, offsets, initial, transitions, final = make(*case)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = [
            (s, *numpy_forward_backward(scores[s], transitions, initial, final))
            for s in sentences(offsets)
            if s.start < s.stop
        ]
    value, marginals, expectations = run_forward_backward(
        scores, offsets, initial, transitions, final
    )
    total, pairs = 0.0, np.zeros_like(transitions)
    for s, log_z, gamma, xi in found:
        total += log_z
        if log_z == -np.inf:
            assert not marginals[s].any()
            continue
        pairs += xi
        np.testing.assert_allclose(marginals[s], gamma, atol=1e-9)
    assert value == pytest.approx(total, rel=1e-12, abs=1e-9)
    if np.isfinite(total):
        np.testing.assert_allclose(expectations, pairs, atol=1e-9)


def test_long_sentences_neither_underflow_nor_overflow():
    for sign in (-1, 1):
        transitions = np.full((8, 8), sign * 3.0)
        scores = np.random.default_rng(0).normal(scale=50, size=(1_000, 8))
        value, marginals, _ = run_forward_backward(
            scores, np.array([0, 1_000]), np.zeros(8), transitions, np.zeros(8)
        )
        expected = numpy_forward_backward(scores, transitions)
        assert value == pytest.approx(expected[0], rel=1e-12)
        np.testing.assert_allclose(marginals, expected[1], atol=1e-7)


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 40), max_size=4),
    st.sampled_from([1, 3, 11]),
    st.sampled_from([np.float32, np.float64]),
    st.integers(0, 2**32 - 1),
)
def test_predicate_scores(lengths, width, dtype, seed):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    columns = rng.integers(0, 4, size=(offsets[-1], 2)).astype(np.uint64)
    hasher = _predicates.Hasher(
        np.array([1, 2, 3], dtype=np.uint64),
        np.array([0, 0, 1, 3], dtype=np.int32),
        np.array([0, 0, 1], dtype=np.int32),
        np.array([-1, 0, 1], dtype=np.int32),
        np.array([100], dtype=np.uint64),
        np.array([101], dtype=np.uint64),
    )
    keys = np.empty((len(columns), 3), dtype=np.uint64)
    hasher.keys(columns, offsets, keys)
    known = np.unique(keys)[::2].copy()
    weights = rng.normal(size=(len(known), width)).astype(dtype)
    out = np.full((len(columns), width), np.nan)
    index = KeyIndex(known)
    _predicates.predicate_scores(hasher, index, columns, offsets, weights, out)
    rows = index.find(keys)
    place = {key: i for i, key in enumerate(known.tolist())}
    assert rows.tolist() == [[place.get(key, -1) for key in row] for row in keys.tolist()]
    expected = numpy_scores(rows, weights) if len(rows) else np.zeros((0, width))
    np.testing.assert_allclose(out, expected, atol=1e-12)
