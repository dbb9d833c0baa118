"""Likelihoods of derivations, and the feed-forward approximation of a sigmoid belief network.

Titov & Henderson (2007), section 5.1: the latent variables of a state are taken as independent,
and their means as a function of those of their parents alone, mu = sigma(eta) (eq. 4). They stay
as they are while the elementary decisions of a move are made, each with the distribution of eq. 5.
This is the network of Henderson (2003). The likelihood of a derivation is the product of eq. 6,
whichever way its means are found; see `mean_field` for the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .derivation import Derivations

if TYPE_CHECKING:
    from ._network import Network

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


def log_likelihoods(network: Network, weights: Floats, derivations: Derivations) -> Floats:
    """log P of each derivation (eq. 6), in nats: (N). RAISES: SL641, SL642 for derivations of
    other symbols.
    """
    values = np.empty(len(derivations))
    everything = np.arange(len(derivations), dtype=np.int64)
    network.log_likelihoods(weights, *derivations.arrays, everything, values)
    return values
