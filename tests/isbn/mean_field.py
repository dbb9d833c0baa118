"""The incremental mean field approximation of a sigmoid belief network.

Titov & Henderson (2007), section 5.2: after each elementary decision the means of the present state
are found anew, so that what was decided is reasoned back from. They maximise the bound of eq. 7, or
of eq. 8, in which the means before the decision stand for all that was seen earlier. The paper
searches along one mean at a time; here both are maximised by Newton's method, which needs a few
steps because they are concave, and gradients are by implicit differentiation (section 5.3). The
kernel `_network`, which trains and parses, has eq. 8; `bound` and `full_update` are the plain
equations that it is tested against.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from feed_forward import LIMIT, decision_probabilities, means
from numpy.typing import NDArray

from spacy_structlearn.isbn._network import update, update_gradient

__all__ = ["Decision", "bound", "full_update", "update", "update_gradient"]

Floats = NDArray[np.float64]
_STEPS = 100
_HALVINGS = 40


class Decision(NamedTuple):
    """An elementary decision that was made.

    rows, biases: (m, n) and (m), weights of the legal alternatives. chosen: which one it was.
    """

    rows: Floats
    biases: Floats
    chosen: int


def bound(mu: Floats, eta: Floats, seen: Sequence[Decision]) -> float:
    """L of eq. 7, as a function of the means; with one decision and eta = logit of the means before
    it, of eq. 8. mu, eta: (n).
    """
    entropy = -np.sum(mu * np.log(mu) + (1 - mu) * np.log1p(-mu))
    value = entropy + mu @ eta
    for rows, biases, chosen in seen:
        scores = rows @ mu + biases
        value += scores[chosen] - np.logaddexp.reduce(scores)
    return float(value)


def full_update(eta: Floats, seen: Sequence[Decision], tolerance: float = 1e-10) -> Floats:
    """The means given all decisions seen in a state: the maximum of eq. 7, not incremental.

    eta: (n), eq. 4. tolerance: of the natural parameters. RETURNS: mu (n).
    """
    start = np.clip(eta, -LIMIT, LIMIT)
    phi = start
    target = start + sum(rows[chosen] for rows, _, chosen in seen)

    def force(mu: Floats, phi: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Minus the gradient of L, the sum of the covariances of the rows, and which means are held
        at a limit.
        """
        value, covariance = phi - target, np.zeros((len(mu), len(mu)))
        for rows, biases, _ in seen:
            p = decision_probabilities(mu, rows, biases)
            mean = p @ rows
            value = value + mean
            covariance += (rows * p[:, None]).T @ rows - np.outer(mean, mean)
        out = ((phi >= LIMIT) & (value < 0)) | ((phi <= -LIMIT) & (value > 0))
        return np.where(out, 0.0, value), covariance, out

    mu = means(phi)
    for _ in range(_STEPS):
        gradient, covariance, held = force(mu, phi)
        if np.abs(gradient).max() <= tolerance:
            break
        jacobian = np.eye(len(mu)) + covariance * np.where(held, 0.0, mu * (1 - mu))
        step = np.where(held, 0.0, np.linalg.solve(jacobian, gradient))
        before, size = bound(mu, start, seen), 1.0
        for _ in range(_HALVINGS):
            phi_next = np.clip(phi - size * step, -LIMIT, LIMIT)
            if bound(means(phi_next), start, seen) >= before - 1e-13 * abs(before):
                break
            size *= 0.5
        phi = phi_next
        mu = means(phi)
    return mu
