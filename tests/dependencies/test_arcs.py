"""The best dependency tree of weighted arcs, against all trees of a few words."""

from itertools import product

import numpy as np
import pytest

from spacy_structlearn.dependencies.arcs import MOST_WORDS, best_trees, spanning_tree, summed


def is_tree(heads, n):
    """Whether every word leads to the root n, on which one word depends."""
    if sum(head == n for head in heads) != 1:
        return False
    for word in range(n):
        seen, at = set(), word
        while at != n and at not in seen:
            seen.add(at)
            at = heads[at]
        if at != n:
            return False
    return True


def random_arcs(rng, n):
    """Some arcs over n words, among which is a tree, and its heads."""
    heads = [int(rng.integers(0, word)) if word else 0 for word in range(n)]
    rows = {(word, head) for word, head in enumerate(heads)}
    rows |= {tuple(rng.integers(0, n, 2).tolist()) for _ in range(3 * n)}
    dependents, others = np.array(sorted(rows)).T
    return dependents, others, rng.random(len(rows)), np.array(heads)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_spanning_tree_is_the_best_of_all(n):
    rng = np.random.default_rng(n)
    for _ in range(60):
        scores = rng.random((n + 1, n + 1))
        scores[:, n] -= 100.0
        trees = [t for t in product(range(n + 1), repeat=n) if is_tree(t, n)]
        found = spanning_tree(scores)
        assert is_tree(found, n)
        best = max(scores[range(n), tree].sum() for tree in trees)
        assert scores[range(n), found].sum() == pytest.approx(best)


def test_arcs_of_several_trees_are_summed():
    arcs = summed(np.array([1, 0, 1, 1]), np.array([0, 0, 0, 1]), np.array([1.0, 2, 2, 1]), 2)
    assert arcs.dependents.tolist() == [0, 1, 1]
    assert arcs.heads.tolist() == [0, 0, 1]
    assert arcs.rows.tolist() == [1, 2, 3]  # of the larger weight
    assert arcs.weights.tolist() == [1.0, 0.75, 0.25]


def test_no_arcs():
    empty = np.empty(0, dtype=np.int64)
    arcs = summed(empty, empty, np.empty(0), 0)
    assert best_trees(arcs, np.array([0]), empty).tolist() == []


@pytest.mark.parametrize("seed", range(20))
def test_every_sentence_is_a_tree_with_one_root(seed):
    rng = np.random.default_rng(seed)
    sizes = [*rng.integers(1, 12, 8).tolist(), MOST_WORDS + 5]
    offsets = np.cumsum([0, *sizes])
    parts = [random_arcs(rng, n) for n in sizes]
    dependents, heads, fallback = (
        np.concatenate([part[i] + first for part, first in zip(parts, offsets, strict=False)])
        for i in (0, 1, 3)
    )
    weights = np.concatenate([part[2] for part in parts])
    arcs = summed(dependents, heads, weights, int(offsets[-1]))
    rows = best_trees(arcs, offsets, fallback)
    assert arcs.dependents[rows].tolist() == list(range(offsets[-1]))
    for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        own, words = arcs.heads[rows[begin:end]] - begin, np.arange(end - begin)
        assert is_tree(np.where(own == words, end - begin, own).tolist(), end - begin)
