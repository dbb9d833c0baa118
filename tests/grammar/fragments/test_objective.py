"""The conditional likelihood of features of fragments: against all trees of short sentences."""

from functools import cache

import numpy as np
import pytest
from grammar import plain_fragments as plain
from grammar.fragments.test_features import ALL
from grammar.fragments.test_weights import EVERY, learned

from spacy_structlearn.grammar.fragments.weights import FragmentScorer
from spacy_structlearn.grammar.spans.forests import TrainingForests, training_forests
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


@pytest.mark.parametrize(("name", "binarization"), [("toy", "left"), ("odd", "right")])
def test_value_against_all_trees(name, binarization):
    parsed, sentences, scorer = forests(name, binarization)
    graphs, target = parsed.graphs, parsed.target
    weights, symbols = scorer.weights, learned(name, binarization, EVERY)[0].symbols
    w = vector(len(weights))
    of_key = dict(zip(weights.keys.tolist(), w.tolist(), strict=True))
    known, losses = set(weights.vocabulary.tolist()), []

    def score(x, edges):
        tree = plain.tree_of_edges(graphs, x, edges, sentences[x])
        features = plain.features_of(tree, symbols, ALL, known)
        own = sum(of_key.get(key, 0.0) * n for key, n in features.items())
        return graphs.scores[edges].sum() + own

    chosen = [x for x, found in enumerate(graphs.k_best(graphs.scores, 101)) if len(found) <= 100]
    assert len(chosen) >= 4
    for x in chosen:
        scores = [score(x, edges) for _, edges in graphs.k_best(graphs.scores, 101)[x]]
        own = np.flatnonzero(target)
        first, end = graphs.edge_offsets[x : x + 2]
        losses.append(np.logaddexp.reduce(scores) - score(x, own[(own >= first) & (own < end)]))
    some = TrainingForests(*_selected(parsed, np.array(chosen)))
    found = FragmentObjective(some, sentences, scorer, l2=3.0)
    value, _ = found.value_and_grad(w)
    assert value == pytest.approx(np.mean(losses) + 1.5 * w @ w / len(chosen), abs=1e-8)


def _selected(parsed, chosen):
    graphs, target = parsed.select(chosen)
    return graphs, parsed.numbers[chosen], target, parsed.loss


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
