"""Calibration of probabilities on data that were not used for training.

A logarithmic opinion pool combines the probabilities of several sources,

    log-odds = w_0 + sum_k w_k log-odds_k.

With one source it is the calibration of Platt (1999, "Probabilistic outputs for support vector
machines and comparisons to regularized likelihood methods").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import StructlearnError

LARGEST = 12.0
"""Log-odds are clipped to this magnitude, because certainties would outweigh everything."""

_PRIOR = 1e-3  # l2 of the weights, so that there is a solution for separable data


def fit_pool(probabilities: ArrayLike, right: ArrayLike) -> NDArray[np.float64]:
    """Return the weights with the highest likelihood, float64 (1 + n_sources), constant first.

    probabilities: (n, n_sources). right: bool (n), the outcomes. The method is Newton's.
    Raises StructlearnError for other shapes or values.
    """
    inputs = _inputs(probabilities)
    right = np.asarray(right, dtype=np.float64)
    if right.shape != (len(inputs),) or not len(inputs):
        problem = f"{len(inputs)} rows of probabilities and {right.size} outcomes"
        raise StructlearnError("SL540", problem=problem)
    weights = np.zeros(inputs.shape[1])
    value = _loss(inputs, right, weights)
    while True:
        p = _logistic(inputs @ weights)
        gradient = inputs.T @ (p - right) + _PRIOR * weights
        hessian = (inputs * (p * (1.0 - p))[:, None]).T @ inputs + _PRIOR * np.eye(len(weights))
        step, size = np.linalg.solve(hessian, gradient), 1.0
        while (after := _loss(inputs, right, weights - size * step)) > value and size > 1e-8:
            size /= 2.0
        if not value - after > 1e-10 * abs(value):
            return weights
        weights, value = weights - size * step, after


def pooled(probabilities: ArrayLike, weights: ArrayLike) -> NDArray[np.float64]:
    """Return the probability of each row, float64 (n), from probabilities (n, n_sources).

    weights: (1 + n_sources). Raises StructlearnError for other shapes or values.
    """
    inputs, weights = _inputs(probabilities), np.asarray(weights, dtype=np.float64)
    if weights.shape != (inputs.shape[1],):
        problem = f"{weights.size} weights for {inputs.shape[1] - 1} sources and a constant"
        raise StructlearnError("SL540", problem=problem)
    return _logistic(inputs @ weights)


def _inputs(probabilities: ArrayLike) -> NDArray[np.float64]:
    """Return a column of ones, and the clipped log-odds."""
    table = np.asarray(probabilities, dtype=np.float64)
    if table.ndim != 2 or not ((table >= 0) & (table <= 1)).all():
        raise StructlearnError("SL540", problem="what is no table of probabilities")
    with np.errstate(divide="ignore"):
        log_odds = np.log(table) - np.log1p(-table)
    return np.hstack([np.ones((len(table), 1)), np.clip(log_odds, -LARGEST, LARGEST)])


def _logistic(log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    # Not scipy.special.expit, because its import would make load() slower.
    return 0.5 + 0.5 * np.tanh(0.5 * log_odds)


def _loss(
    inputs: NDArray[np.float64], right: NDArray[np.float64], weights: NDArray[np.float64]
) -> float:
    """Return the negative logarithm of likelihood times prior."""
    scores = inputs @ weights
    loss = np.logaddexp(0.0, scores).sum() - right @ scores
    return float(loss + 0.5 * _PRIOR * weights @ weights)
