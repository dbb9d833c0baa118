"""The decomposition of binary rules."""

import numpy as np
import pytest
from grammar.grammars import random_grammar

from spacy_structlearn.grammar.latent import _factors
from spacy_structlearn.grammar.latent.factors import decompose


def random_problem(seed, rank=5):
    rng = np.random.default_rng(seed)
    states = np.unique(rng.integers(0, 7, (40, 3)), axis=0).astype(np.int32)
    weights = rng.dirichlet(np.ones(len(states))).astype(np.float32)
    return states, weights, [rng.gamma(1.0, size=(7, rank)).astype(np.float32) for _ in range(3)]


def numpy_step(states, weights, parent, left, right):
    shares = parent[states[:, 0]] * left[states[:, 1]] * right[states[:, 2]]
    shares *= (weights / shares.sum(axis=1))[:, None]
    found = [np.zeros_like(parent) for _ in range(3)]
    for axis, counts in enumerate(found):
        np.add.at(counts, states[:, axis], shares)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_step_is_that_of_numpy(seed):
    states, weights, factors = random_problem(seed)
    found = _factors.step(states, weights, *factors)
    for counts, expected in zip(found, numpy_step(states, weights, *factors), strict=True):
        np.testing.assert_allclose(counts, expected, rtol=1e-4, atol=1e-7)
        assert counts.sum() == pytest.approx(1.0, rel=1e-4)


def test_the_likelihood_rises():
    states, weights, factors = random_problem(7)
    before = -np.inf
    for _ in range(60):
        counts = _factors.step(states, weights, *factors)
        totals = counts[0].sum(axis=0)
        factors = [counts[0], counts[1] / totals, counts[2] / totals]
        values = np.prod([own[states[:, axis]] for axis, own in enumerate(factors)], axis=0)
        now = float(weights @ np.log(values.sum(axis=1)))
        assert now >= before - 1e-5
        before = now


@pytest.mark.parametrize("seed", range(3))
def test_many_ranks_give_the_rules_back(seed):
    grammar = random_grammar(seed, n_levels=2, density=0.2)
    level, n_tags = grammar.levels[1], grammar.symbols.n_tags
    few, many = (
        np.einsum("ar,br,cr->abc", *decompose(level, n_tags, rank=rank, iterations=400))
        for rank in (2, 256)
    )
    expected = np.zeros_like(many)
    first = level.offsets[n_tags]
    for rule, symbols in enumerate(level.rules.binary.tolist()):
        places = [slice(*level.offsets[x : x + 2]) for x in symbols]
        places[0] = slice(places[0].start - first, places[0].stop - first)
        expected[tuple(places)] = level.block("binary", rule)
    assert abs(many - expected).sum() < 0.3 * abs(few - expected).sum()
    np.testing.assert_allclose(many.sum(axis=(1, 2)), expected.sum(axis=(1, 2)), rtol=1e-3)
    # Every production has a probability.
    assert (few > 0).all()


def test_arguments_that_do_not_fit():
    states, weights, factors = random_problem(0)
    with pytest.raises(ValueError, match="state without factors"):
        _factors.step(states + 1, weights, *factors)
    with pytest.raises(ValueError, match="at most 256"):
        _factors.step(states, weights, *(np.ones((7, 300), np.float32) for _ in range(3)))
    with pytest.raises(ValueError, match="one probability"):
        _factors.step(states, weights[1:], *factors)
