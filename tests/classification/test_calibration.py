"""Calibration: pools of probabilities."""

import numpy as np
import pytest
from scipy.special import expit

from spacy_structlearn.classification.calibration import LARGEST, fit_pool, pooled
from spacy_structlearn.errors import StructlearnError


def test_the_weights_that_made_the_data_are_found():
    random = np.random.default_rng(0)
    log_odds = random.normal(0, 3, (40_000, 2))
    right = random.random(40_000) < expit(-0.5 + 0.4 * log_odds[:, 0] + 0.7 * log_odds[:, 1])
    assert fit_pool(expit(log_odds), right) == pytest.approx([-0.5, 0.4, 0.7], abs=0.05)


def test_the_likelihood_has_no_slope_at_the_optimum():
    random = np.random.default_rng(1)
    log_odds = random.normal(0, 2, (200, 1))
    right = random.random(200) < 0.3
    weights = fit_pool(expit(log_odds), right)
    residual = pooled(expit(log_odds), weights) - right
    slope = np.array([residual.sum(), residual @ log_odds[:, 0]]) + 1e-3 * weights
    assert np.abs(slope).max() < 1e-3


def test_what_can_be_told_apart_has_finite_weights():
    weights = fit_pool([[0.0], [0.3], [0.9], [1.0]], [False, False, True, True])
    assert np.isfinite(weights).all()
    bounds = weights[0] + np.array([-LARGEST, LARGEST]) * weights[1]
    assert pooled([[0.0], [1.0]], weights) == pytest.approx(expit(bounds))


@pytest.mark.parametrize(
    ("probabilities", "right"),
    [
        ([0.5], [True]),
        ([[0.5]], [True, False]),
        ([[np.nan]], [True]),
        ([[1.5]], [True]),
        (np.empty((0, 1)), []),
    ],
)
def test_no_data_for_a_pool(probabilities, right):
    with pytest.raises(StructlearnError, match="SL540"):
        fit_pool(probabilities, right)
