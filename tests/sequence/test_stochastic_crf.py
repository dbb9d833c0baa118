"""Chains over the few labels that a token can well have, against plain ones."""

import numpy as np
import pytest
from scipy.special import logsumexp
from sequence import chains

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.sequence.chain.decode import marginals, state_scores
from spacy_structlearn.sequence.chain.model import ChainModel
from spacy_structlearn.sequence.estimators import training
from spacy_structlearn.sequence.estimators.stochastic_crf import Candidates, candidates, shuffled
from spacy_structlearn.sequence.layout.features import Templates
from spacy_structlearn.sequence.settings import StochasticCRFSettings

LENGTHS = [5, 0, 1, 7, 3]


def pruned_model(margin, n_labels=5, seed=0, scale=1.5):
    data = chains.random_data(LENGTHS, n_labels, seed)
    model = chains.random_model(*data, labels=chains.LABELS[:n_labels], seed=seed, scale=scale)
    model.margin = margin
    return model, data


def as_array(found, n_labels):
    """float (n_tokens, n_labels), zero where a label is no candidate."""
    table = np.zeros((len(found.starts) - 1, n_labels))
    rows = np.repeat(np.arange(len(table)), np.diff(found.starts))
    table[rows, found.labels] = found.probabilities
    return table


# --- decoding -------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(5))
def test_a_wide_margin_gives_the_exact_posteriors(seed):
    model, (columns, offsets, _) = pruned_model(1000.0, seed=seed)
    model.initial[:] = np.linspace(-1, 1, 5)
    model.final[:] = np.linspace(1, -1, 5)
    found = as_array(candidates(model, columns, offsets), 5)
    np.testing.assert_allclose(found, marginals(model, columns, offsets), atol=1e-5)


@pytest.mark.parametrize("margin", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_labels_out_of_the_margin_are_as_if_not_allowed(margin, seed):
    model, (columns, offsets, _) = pruned_model(margin, seed=seed)
    scores, _ = state_scores(model, columns, offsets)
    allowed = scores >= scores.max(axis=1, keepdims=True) - margin
    assert not allowed.all()
    found = as_array(candidates(model, columns, offsets), 5)
    for s in chains.sentences(offsets):
        if s.start < s.stop:
            likely = np.where(allowed[s], scores[s], -np.inf)
            expected = chains.numpy_forward_backward(likely, model.transitions)[1]
            np.testing.assert_allclose(found[s], expected, atol=1e-5)


@pytest.mark.parametrize("margin", [1000.0, 3.0])
def test_a_pool_of_candidates(margin):
    model, (columns, offsets, _) = pruned_model(margin)
    outside = np.random.default_rng(0).normal(size=(len(columns), 5))
    # The outside is certain of a label that the model would prune.
    scores, _ = state_scores(model, columns, offsets)
    worst = scores[0].argmin()
    outside[0, worst] += 100
    pool = model.pooled((0.5, 1.0), outside)
    found = as_array(candidates(pool, columns, offsets), 5)
    atol = 1e-5 if margin > 100 else 0.3
    np.testing.assert_allclose(found, marginals(pool, columns, offsets), atol=atol)
    assert found[0, worst] > 0.999


def test_uncertain():
    found = Candidates(
        np.array([0, 2, 3, 6]),
        np.array([4, 1, 2, 0, 3, 1]),
        np.array([0.7, 0.3, 1.0, 0.8, 0.195, 0.005], np.float32),
    )
    tokens, rivals = found.uncertain(0.99, 0.01)
    assert tokens.tolist() == [0, 2]
    assert rivals.starts.tolist() == [0, 2, 4]
    assert rivals.labels.tolist() == [4, 1, 0, 3]
    tokens, rivals = found.uncertain(0.75, 0.9)
    assert (tokens.tolist(), rivals.labels.tolist()) == ([0], [4])
    tokens, rivals = found.uncertain(0.1, 0.1)
    assert (len(tokens), rivals.starts.tolist()) == (0, [0])


# --- training -------------------------------------------------------------------------------------


def settings(**values):
    return StochasticCRFSettings(templates=chains.TEMPLATES, encoding="none", **values)


def plain_epochs(model, columns, offsets, label_ids, settings, n_epochs):
    """The algorithm as it is written, with all labels: the weights after each sentence."""
    rows = model.rows(model.templates.keys(columns, offsets))
    n, (n_rows, n_labels) = len(offsets) - 1, model.weights.shape
    totals, squares = np.zeros((2, n_rows, n_labels))
    arc_totals, arc_squares = np.zeros((2, n_labels, n_labels))
    weights, arcs, sums, arc_sums = (np.zeros_like(x) for x in (totals, arc_totals) * 2)

    def set_weights(total, square, t):
        size = np.maximum(np.abs(total) - settings.l1 / n * t, 0)
        return -settings.learn_rate * np.sign(total) * size / (settings.damping + np.sqrt(square))

    done = 0
    for epoch in range(n_epochs):
        for s in shuffled(n, settings.seed, epoch):
            done += 1
            part, gold = rows[offsets[s] : offsets[s + 1]], label_ids[offsets[s] : offsets[s + 1]]
            if not len(part):
                continue
            singles, pairs = plain_posteriors(weights[part].sum(axis=1), arcs)
            before = totals.copy()
            for t, label in enumerate(gold):
                derivative = singles[t] - (np.arange(n_labels) == label)
                derivative[np.abs(derivative) <= 1e-3] = 0
                for row in part[t]:
                    totals[row] += derivative
                    squares[row] += derivative**2
            changed = totals != before
            weights[changed] = set_weights(totals, squares, done)[changed]
            for t in range(1, len(gold)):
                derivative = pairs[t - 1].copy()
                derivative[gold[t - 1], gold[t]] -= 1
                derivative[np.abs(derivative) <= 1e-3] = 0
                arc_totals += derivative
                arc_squares += derivative**2
                changed = derivative != 0
                arcs[changed] = set_weights(arc_totals, arc_squares, done)[changed]
        sums += set_weights(totals, squares, done)
        arc_sums += set_weights(arc_totals, arc_squares, done)
    return sums / n_epochs, arc_sums / n_epochs


def plain_posteriors(scores, arcs):
    """p(y_t) and p(y_{t-1}, y_t) of one sentence, in log space."""
    n = len(scores)
    forward, backward = scores.copy(), np.zeros_like(scores)
    for t in range(1, n):
        forward[t] += logsumexp(forward[t - 1][:, None] + arcs, axis=0)
    for t in range(n - 2, -1, -1):
        backward[t] = logsumexp(arcs + scores[t + 1] + backward[t + 1], axis=1)
    z = logsumexp(forward[-1])
    pairs = [
        np.exp(forward[t - 1][:, None] + arcs + scores[t] + backward[t] - z) for t in range(1, n)
    ]
    return np.exp(forward + backward - z), pairs


@pytest.mark.parametrize("l1", [0.0, 0.5])
def test_weights_are_those_of_the_plain_algorithm(l1):
    columns, offsets, label_ids = chains.random_data([4, 2, 0, 6, 1, 5], 3, seed=3)
    by = settings(margin=100.0, l1=l1, max_iterations=3, seed=4)
    data = chains.as_data(columns, offsets, label_ids)
    model = training.initialize(by, data, chains.LABELS[:3])
    order = [chains.LABELS[:3].index(label) for label in model.labels]
    places = np.argsort(order)
    weights, arcs = plain_epochs(model, columns, offsets, places[label_ids], by, 3)
    chains.trained(training.trainer(by, model, data)).parameters()
    np.testing.assert_allclose(model.weights, weights, atol=2e-4)
    np.testing.assert_allclose(model.transitions, arcs, atol=2e-4)


# --- models with a margin -------------------------------------------------------------------------


def test_a_margin_needs_labels_that_may_all_follow():
    model, _ = pruned_model(None)
    parts = model.labels, model.templates, model.keys, model.weights
    with pytest.raises(StructlearnError, match=r"SL206.*margin"):
        ChainModel(*parts, np.full((5, 5), -np.inf), margin=1.0)
    with pytest.raises(StructlearnError, match=r"SL206.*margin"):
        ChainModel(*parts, np.zeros((5, 5)), margin=np.inf)


def test_short_keys_are_the_upper_bits():
    columns, offsets, _ = chains.random_data(LENGTHS)
    whole = Templates(chains.TEMPLATES).keys(columns, offsets)
    short = Templates(chains.TEMPLATES, 40)
    np.testing.assert_array_equal(short.keys(columns, offsets), whole >> 24 << 24)
    assert short != Templates(chains.TEMPLATES)
    with pytest.raises(StructlearnError, match="SL209"):
        Templates(chains.TEMPLATES, 65)
