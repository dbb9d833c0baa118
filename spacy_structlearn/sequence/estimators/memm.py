"""Maximum entropy Markov models: each state given the one before, normalised by itself.

McCallum, Freitag & Pereira (2000, section 2); the baseline of Smith, Vail & Lafferty (2007, section
5), with the features of their CRF. With the state y_t, a label or a pair of labels,

    p(y_t | y_{t-1}, x) = exp(s_t(y_t) + a(y_{t-1}, y_t)) / Z_t(y_{t-1})
    f(w) = - sum_t log p(y_t | y_{t-1}, x) + l2 |w|^2 / 2

where Z sums over the states that may follow. In training y_{t-1} is the right state, so there is a
sum over a few states a token and none over sequences. In decoding the product of all factors is a
chain like any other (`decode.state_scores`).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..chain.model import ChainModel
from ..layout.data import Floats, Ids, Mask
from . import _local
from .crf import ChainLikelihood, ChainShard, Part


class LocalShard(ChainShard):
    """Some sentences of a `LocalLikelihood`. Arguments: see `ChainShard`."""

    def __init__(self, model: ChainModel, *sentences: Any, **settings: Any):
        super().__init__(model, *sentences, **settings)
        # For each state those that may follow; then those that may be first.
        possible = np.vstack([model.transitions, model.initial]) > -np.inf
        self._successors = state_lists(possible, self._labels_of_states)

    def _partial_loss(
        self, part: Part, transitions: Floats, counts: Floats, pairs: Floats
    ) -> float:
        """Sum of log Z_t, and the expected counts given the right state before."""
        chain = self.model.initial, transitions, part.cells, part.offsets
        gold = self._state_ids[part.tokens], self._successors
        return _local.next_states(*chain, *gold, self._weights, counts, pairs)


class LocalLikelihood(ChainLikelihood):
    """The objective of a MEMM. Arguments and errors: see `ChainLikelihood`."""

    shard = LocalShard
    locally_normalized: ClassVar[bool] = True


def state_lists(members: Mask, places: Ids | None) -> _local.Lists:
    """The states in each row of `members`, bool (n_lists, n_states), as the kernel has them.

    places: int32 (n_states), the column of each state in the rows of slots; None: its number.
    """
    states = np.nonzero(members)[1].astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(members.sum(axis=1))]).astype(np.int32)
    columns = states if places is None else places[states]
    return _local.Lists(starts, states, columns)
