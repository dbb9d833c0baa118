"""Log-linear pools of a model and another one (Genest & Zidek 1986, section 3):

    p(y) = 1 / Z p_own(y)^own p_other(y)^weight.

The two weights are those with the highest likelihood on data that neither model has learned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]
Ints = NDArray[np.integer]
Loss = Callable[[Sequence[float]], float]  # by the weights of a pool
TINY = 1e-12  # probability whose logarithm is a number
LEAST = -14.0  # of log-probabilities, because certainties would outweigh everything

_PRIOR = 1.0  # squared difference of the weights from 1 that costs as much as a likelihood of 1/e


def log_softmax(scores: Floats) -> Floats:
    """Return the log-probabilities of scores, (n, n_labels)."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def pooled(own: Floats, other: Floats, weights: Sequence[float]) -> Floats:
    """Return the log-probabilities of the pool, (n, n_labels), from those of both models."""
    return log_softmax(weights[0] * np.maximum(own, LEAST) + weights[1] * np.maximum(other, LEAST))


def both_logs(p: Floats) -> Floats:
    """Return the logarithms of the probabilities of events and of their complements, (n, 2)."""
    return np.log(np.stack([p, 1.0 - p], axis=1).clip(TINY))


def pool_loss(own: Floats, other: Floats, gold: Ints) -> Loss:
    """Return the negative log-likelihood of labels, by the weights of the pool.

    own, other: log-probabilities, (n, n_labels). gold: the right label of each row, -1 if unknown.
    """
    rows = np.flatnonzero(gold >= 0)
    # In double precision, because the gradient is that by differences.
    own, other, gold = own[rows].astype("f8"), other[rows].astype("f8"), gold[rows]
    return lambda weights: -float(pooled(own, other, weights)[np.arange(len(rows)), gold].sum())


def summed(losses: Sequence[Loss]) -> Loss:
    """Return the sum of losses."""
    return lambda weights: sum(loss(weights) for loss in losses)


def fit_weights(loss: Loss) -> tuple[float, float]:
    """Return the weights of a pool, neither negative, with the least loss.

    loss: the negative log-likelihood of held-out data, in nats.
    """
    from scipy.optimize import minimize

    def penalized(weights: NDArray[np.float64]) -> float:
        return loss(weights.tolist()) + _PRIOR * ((weights - 1.0) ** 2).sum()

    found = minimize(penalized, (1.0, 1.0), method="L-BFGS-B", bounds=[(0.0, None)] * 2)
    return float(found.x[0]), float(found.x[1])
