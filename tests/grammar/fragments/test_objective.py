"""Losses of features of fragments, conditional and by ranking: gradients, and values at 0."""

from functools import cache

import numpy as np
import pytest
from grammar.fragments.test_weights import EVERY, learned

from spacy_structlearn.grammar.fragments.weights import FragmentScorer
from spacy_structlearn.grammar.spans.forests import training_forests
from training.beyond.fragment_likelihood import FragmentObjective
from training.beyond.tree_ranking import TreeRanking, sampled


@cache
def forests(name="toy", binarization="right", threshold=0.0):
    grammar, statistics, data, gold = learned(name, binarization, EVERY)
    sentences = [tree.words() for tree in gold]
    found = training_forests(
        grammar, grammar, sentences, gold, np.arange(len(gold)), threshold=threshold
    )
    assert len(found.numbers) == len(gold)
    return found, sentences, FragmentScorer(statistics.weights, data.symbols)


def objective(l2=0.1, name="toy"):
    return FragmentObjective(*forests(name), l2=l2)


def vector(n, seed=0):
    return np.random.default_rng(seed).normal(scale=0.3, size=n)


@pytest.mark.parametrize("l2", [0.0, 5.0])
@pytest.mark.parametrize("name", ["toy", "odd"])
def test_gradient_against_finite_differences(name, l2):
    found = objective(l2, name=name)
    w = vector(len(forests(name)[2].weights))
    _, gradient = found.value_and_grad(w)
    rng = np.random.default_rng(1)
    for _ in range(12):
        direction, step = rng.normal(size=len(w)), 1e-5
        ends = [found.value_and_grad(w + s * direction)[0] for s in (step, -step)]
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(gradient @ direction, abs=1e-6)


def test_without_weights_it_is_the_loss_of_the_grammar():
    parsed, _, scorer = forests()
    value, gradient = objective().value_and_grad(np.zeros(len(scorer.weights)))
    assert value == pytest.approx(parsed.loss / len(parsed.numbers), abs=1e-6)
    assert np.abs(gradient).max() > 0.01


@pytest.mark.parametrize("l2", [0.0, 5.0])
def test_gradient_of_ranking(l2):
    found = TreeRanking(objective(), 3)
    assert found.n == len(forests()[0].numbers)
    w, direction = vector(found.size), vector(found.size, 1)
    _, gradient = found.value_and_grad(w, l2)
    ends = [found.value_and_grad(w + s * direction, l2)[0] for s in (1e-5, -1e-5)]
    assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(gradient @ direction, abs=1e-6)
    # Without weights, all trees are equally good.
    assert found.value_and_grad(np.zeros(found.size), l2)[0] == pytest.approx(np.log(4))


def test_trees_are_sampled_by_their_posteriors():
    graphs = forests()[0].graphs
    _, posteriors = graphs.inside_outside(graphs.scores)
    drawn = np.zeros(len(posteriors))
    for trees in sampled(graphs, 2000, np.random.default_rng(0)):
        for edges in trees:
            drawn[edges] += 1 / 2000
    assert drawn == pytest.approx(posteriors, abs=0.06)
    assert ((posteriors > 0.2) & (posteriors < 0.8)).any()
