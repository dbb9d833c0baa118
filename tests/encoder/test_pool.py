"""Log-linear pools: the formula, and the weights with the highest likelihood."""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from spacy_structlearn.encoder.pool import LEAST, fit_weights, pool_loss, pooled
from spacy_structlearn.encoder.scorer import SiteScorer

DRAW = np.random.default_rng(0)


def some(n=500, n_labels=4, scale=1.0):
    """Probabilities of labels."""
    return softmax(DRAW.normal(size=(n, n_labels)) * scale, axis=1)


def test_the_formula():
    own, other = some(), some()
    p = own**0.7 * other**0.4
    found = pooled(own, other, (0.7, 0.4))
    np.testing.assert_allclose(found, p / p.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(pooled(own, other, (1.0, 0.0)), own)
    own, other = some(n_labels=2), some(n_labels=2)
    found = pooled(own, other, (0.7, 0.4))[:, 0]
    np.testing.assert_allclose(pooled(own[:, 0], other[:, 0], (0.7, 0.4)), found)


def test_what_one_model_excludes_is_possible():
    found = pooled(np.array([0.0, 1.0]), np.array([0.99, 0.01]), (0.2, 1.0))
    assert (found > 0.5).tolist() == [True, False]


def test_weights_of_independent_models_of_the_same_truth():
    truth = some(20_000, scale=2.0)
    gold = (np.log(truth) + DRAW.gumbel(size=truth.shape)).argmax(axis=1)
    noise = some(20_000)
    loss = pool_loss(noise.astype(np.float32), truth.astype(np.float32), gold)
    own, weight = fit_weights([loss])
    assert own == pytest.approx(0.0, abs=0.05)
    assert weight == pytest.approx(1.0, abs=0.05)
    assert loss((own, weight)) <= loss((0.0, 1.0)) + 1.0
    assert fit_weights([loss, loss]) == pytest.approx((own, weight), abs=0.01)


def test_rows_without_gold_do_not_count():
    own, other, gold = some(50), some(50), DRAW.integers(0, 4, 50)
    rows = np.arange(50) % 2 == 0
    loss = pool_loss(own, other, np.where(rows, gold, -1))((0.5, 0.5))
    assert loss == pytest.approx(pool_loss(own[rows], other[rows], gold[rows])((0.5, 0.5)))
    assert pool_loss(own, other, np.full(50, -1))((0.5, 0.5)) == 0


def test_scores_read_only_the_vectors_of_sites():
    scorer = SiteScorer.untrained("abc", 6, 2)
    scorer.output[:] = DRAW.normal(size=scorer.output.shape)
    vectors = DRAW.normal(size=(40, 6)).astype(np.float32)
    sites = np.array([[3, -1], [7, 3], [-1, 39]])
    expected, _ = scorer.begin_update(vectors, sites)
    vectors[np.setdiff1d(np.arange(40), sites)] = np.nan
    np.testing.assert_allclose(scorer.scores(vectors, sites), expected, rtol=1e-5)
    found = scorer.log_probabilities(vectors, sites, ["c", "other", "a"])
    np.testing.assert_allclose(
        found[:, [2, 0]], log_softmax(expected, axis=1)[:, [0, 2]].clip(LEAST), rtol=1e-4
    )
    assert (found[:, 1] == LEAST).all()
