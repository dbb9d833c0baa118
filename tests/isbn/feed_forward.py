"""The feed-forward approximation of a sigmoid belief network.

Titov & Henderson (2007), section 5.1: the latent variables of a state are taken as independent,
and their means as a function of those of their parents alone, mu = sigma(eta) (eq. 4). They stay
as they are while the elementary decisions of a move are made, each with the distribution of eq. 5.
This is the network of Henderson (2003); see `mean_field` for the other way to find means. These
are the plain equations that the kernel `_network`, which trains and parses, is tested against.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LIMIT = 15.0  # of natural parameters, here and in the kernel


def means(eta: Floats) -> Floats:
    """sigma(eta), the means of a state (section 5.1). eta: (..., n), eq. 4."""
    return 1.0 / (1.0 + np.exp(-np.clip(eta, -LIMIT, LIMIT)))


def decision_probabilities(
    mu: Floats, rows: Floats, biases: Floats, legal: NDArray[np.bool_] | None = None
) -> Floats:
    """The distribution of a decision given the means of its state, eq. 5.

    mu: (n). rows, biases: (m, n) and (m), weights of the alternatives. legal: (m), the Phi of the
    equation; None: all. RETURNS: (m).
    """
    scores = rows @ mu + biases
    if legal is not None:
        scores = np.where(legal, scores, -np.inf)
    odds = np.exp(scores - scores.max())
    return odds / odds.sum()
