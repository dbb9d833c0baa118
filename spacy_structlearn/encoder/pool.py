"""Log-linear pools of a model and another one (Genest & Zidek 1986, section 3):

    p(y) = 1 / Z p_own(y)^own p_other(y)^weight.

The two weights are those with the highest likelihood on data that neither model has learned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]
Ints = NDArray[np.integer]
Loss = Callable[[Sequence[float]], float]  # by the weights of a pool
TINY = 1e-12  # probability whose logarithm is a number
LEAST = -14.0  # of log-probabilities, because certainties would outweigh everything

_PRIOR = 1.0  # squared difference of the weights from 1 that costs as much as a likelihood of 1/e


def log_softmax(scores: Floats, columns: Any = slice(None)) -> Floats:
    """Return the log-probabilities of scores, (n, n_labels). columns: those that are returned."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    found = shifted[:, columns].copy()
    return found - np.log(np.exp(shifted, out=shifted).sum(axis=1, keepdims=found.ndim == 2))


def pooled(own: Floats, other: Floats, weights: Sequence[float]) -> Floats:
    """Return the probabilities of the pool from those of both models.

    They are those of labels, (n, n_labels), or of events, (n).
    """
    found = np.exp(_pooled(_logs(own), _logs(other), weights))
    return found if own.ndim == 2 else found[:, 0]


def pool_loss(own: Floats, other: Floats, gold: Ints) -> Loss:
    """Return the negative log-likelihood of labels, by the weights of the pool.

    own, other: see `pooled`. gold: the right label of each row, -1 if unknown; of events 0, and 1
        for those that are not.
    """
    rows = np.flatnonzero(gold >= 0)
    # In double precision, because the gradient is that by differences.
    own, other = (_logs(p[rows].astype("f8")) for p in (own, other))
    at = np.arange(len(rows)), gold[rows]
    return lambda weights: log_loss(np.exp(_pooled(own, other, weights)[at]))


def log_loss(p: Floats) -> float:
    """Return the negative log-likelihood in nats. p: the probabilities of what happened."""
    return -float(np.log(p.clip(TINY)).sum())


def _logs(p: Floats) -> Floats:
    """Return the logarithms of probabilities of labels, or of events and their complements."""
    return np.log((p if p.ndim == 2 else np.stack([p, 1.0 - p], axis=1)).clip(exp(LEAST)))


def _pooled(own: Floats, other: Floats, weights: Sequence[float]) -> Floats:
    return log_softmax(weights[0] * own + weights[1] * other)


def fit_weights(losses: Sequence[Loss]) -> tuple[float, float]:
    """Return the weights of a pool, neither negative, with the least sum of losses.

    losses: negative log-likelihoods of held-out data, in nats.
    """
    from scipy.optimize import minimize

    def penalized(weights: NDArray[np.float64]) -> float:
        own = weights.tolist()
        return sum(loss(own) for loss in losses) + _PRIOR * ((weights - 1.0) ** 2).sum()

    found = minimize(penalized, (1.0, 1.0), method="L-BFGS-B", bounds=[(0.0, None)] * 2)
    return float(found.x[0]), float(found.x[1])
