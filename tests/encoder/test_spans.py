"""Trees over values of spans, by a kernel and by brute force."""

from functools import cache

import numpy as np
import pytest

from spacy_structlearn.encoder import _spans
from spacy_structlearn.encoder.spans import (
    best_tree,
    margin,
    n_spans,
    place,
    posteriors,
    span_sites,
)

LENGTHS = (1, 4, 2, 6, 3)


@cache
def trees(start: int, end: int) -> list[tuple[tuple[int, int], ...]]:
    """Return the spans of all binary trees over words."""
    if end == start + 1:
        return [((start, end),)]
    return [
        ((start, end), *left, *right)
        for middle in range(start + 1, end)
        for left in trees(start, middle)
        for right in trees(middle, end)
    ]


def values(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 2, sum(map(n_spans, LENGTHS))).astype(np.float32)


def by_sentence(array):
    """Yield the length of each sentence, its spans, the place of the first one, and its part."""
    first = 0
    for n in LENGTHS:
        yield n, first, array[first : first + n_spans(n)]
        first += n_spans(n)


def test_sites_of_spans():
    sites = span_sites([1, 3])
    assert sites.tolist() == [
        [-1, 0, 0, -1],
        *([-1, 1, 1, 2], [-1, 1, 2, 3], [-1, 1, 3, -1]),
        *([1, 2, 2, 3], [1, 2, 3, -1], [2, 3, 3, -1]),
    ]
    assert span_sites([]).shape == (0, 4)
    starts, ends = np.triu_indices(6, 1)
    assert place(starts, ends, 5).tolist() == list(range(15))


@pytest.mark.parametrize("seed", range(3))
def test_the_best_tree_is_that_of_brute_force(seed):
    scores = values(seed)
    wanted = []
    for n, first, part in by_sentence(scores):
        found = [[place(i, j, n) for i, j in tree] for tree in trees(0, n)]
        best = max(found, key=lambda places: part[places].sum())
        wanted += [first + own for own in best]
    assert best_tree(scores, LENGTHS).tolist() == sorted(wanted)


@pytest.mark.parametrize("seed", range(3))
def test_posteriors_are_those_of_brute_force(seed):
    scores = values(seed)
    found = posteriors(scores, LENGTHS)
    for (n, _, part), (_, _, own) in zip(by_sentence(scores), by_sentence(found), strict=True):
        rows = [[place(i, j, n) for i, j in tree] for tree in trees(0, n)]
        share = np.exp([part[row].sum() for row in rows])
        wanted = np.zeros(n_spans(n))
        for row, weight in zip(rows, share / share.sum(), strict=True):
            wanted[row] += weight
        np.testing.assert_allclose(own, wanted, rtol=1e-5)


def test_values_without_bounds_make_posteriors():
    found = posteriors(values(0) * 1e4, LENGTHS)
    assert found.max() <= 1 + 1e-9
    assert found.sum() == pytest.approx(2 * sum(LENGTHS) - len(LENGTHS))


@pytest.mark.parametrize(("n", "lengths"), [(3, [3]), (0, [0]), (1, [-1]), (3, [1, -2, 2])])
def test_values_must_be_those_of_the_sentences(n, lengths):
    for function in (best_tree, posteriors):
        with pytest.raises(ValueError, match="a finite value for each span"):
            function(np.zeros(n), lengths)


def test_the_gradient_of_the_margin_is_that_of_differences():
    draw = np.random.default_rng(1)
    scores = draw.normal(0, 2, (sum(map(n_spans, LENGTHS)), 4)).astype(np.float32)
    gold = np.zeros(len(scores), dtype=np.int64)
    gold[best_tree(values(3), LENGTHS)[::2]] = 2
    loss, gradient = margin(scores, gold, LENGTHS)
    assert loss > 0
    for at in zip(*(draw.integers(0, n, 40) for n in scores.shape), strict=True):
        changed = np.stack([scores, scores])
        changed[:, at[0], at[1]] += (-1e-2, 1e-2)
        low, high = (margin(one, gold, LENGTHS)[0] for one in changed)
        assert (high - low) / 2e-2 == pytest.approx(gradient[at], abs=2e-2)


def test_the_margin_of_gold_trees_that_win_is_zero():
    gold = np.zeros(sum(map(n_spans, LENGTHS)), dtype=np.int64)
    gold[best_tree(values(3), LENGTHS)] = 1
    scores = np.zeros((len(gold), 3), dtype=np.float32)
    scores[np.arange(len(gold)), gold] = 10.0
    loss, gradient = margin(scores, gold, LENGTHS)
    assert loss == pytest.approx(0.0)
    assert not gradient.any()


def test_the_hidden_layer_is_that_of_numpy():
    draw = np.random.default_rng(0)
    parts = [draw.normal(size=(n, 19)).astype(np.float32) for n in (4, 9)]
    gain, offset = draw.normal(size=(2, 19)).astype(np.float32)
    sites = np.array([[0, -1], [3, 2], [-1, 8]])
    sums = parts[0][sites[:, 0]] + parts[1][sites[:, 1]]
    unit = sums / np.sqrt((sums**2).mean(axis=1, keepdims=True) + 1e-5)
    found = _spans.hidden(parts, sites, gain, offset, 1e-5)
    np.testing.assert_allclose(found, np.maximum(unit * gain + offset, 0.0), rtol=1e-5, atol=1e-6)
    for wrong in (sites[:, ::-1].copy() + 1, sites[:, :1].copy(), sites - 1):
        with pytest.raises(ValueError, match="rows of each part"):
            _spans.hidden(parts, wrong, gain, offset, 1e-5)
