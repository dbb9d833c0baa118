"""The conditional likelihood of features of fragments: its gradient, and its value at 0."""

from functools import cache

import numpy as np
import pytest
from grammar.fragments.test_weights import EVERY, learned

from spacy_structlearn.grammar.fragments.weights import FragmentScorer
from spacy_structlearn.grammar.spans.forests import training_forests
from training.beyond.fragment_likelihood import FragmentObjective


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
