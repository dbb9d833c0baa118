"""The averaged perceptron: a chain model in a few seconds, by correcting its own mistakes.

Collins (2002, figure 1 and section 2.2): decode a sentence with the current weights; if the best
path is wrong, add the features of the gold path and subtract those of the best path. The model is
the average of the weights over all sentences of all epochs. Weights are integers, so the arithmetic
is exact. Features that were not seen with gold labels can have negative weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...learning.training import array_digest
from ..chain.model import ChainModel
from ..layout.data import Ids
from . import _perceptron
from .online import OnlineTrainer, scattered


class PerceptronTrainer(OnlineTrainer):
    """The value is the number of sentences whose best path was wrong in the last pass."""

    def begin(self) -> None:
        """See `OnlineTrainer`."""
        model = self.model
        # The allowed transitions by the state after, then before.
        after, before = np.nonzero(~np.isneginf(model.transitions.T))
        self._after, self._before = after.astype(np.int32), before.astype(np.int32)
        n_arcs = np.bincount(after, minlength=len(model.states))
        self._starts = np.concatenate([[0], np.cumsum(n_arcs)]).astype(np.int32)
        self._columns = _state_columns(model)
        self._weights = model.weights[self._order].astype(np.float32)
        self._transitions = model.transitions.copy()
        self._first = array_digest(self._weights, self._transitions[self._before, self._after])

    def forget_average(self) -> None:
        """See `OnlineTrainer`."""
        self._totals = np.zeros(self._weights.shape)
        self._transition_totals = np.zeros_like(self._transitions)

    def iterate(self) -> bool:
        fixed = self._columns, self.model.initial, self.model.final
        weights = self._weights, self._totals, self._transitions, self._transition_totals
        n_wrong = _perceptron.epoch(*self.sentences(), *fixed, *weights, float(self.n_averaged))
        self.value = float(n_wrong)
        self.n_iterations += 1
        self.n_averaged += self.n_sentences
        return n_wrong > 0 and self.n_iterations < self.last

    def parameters(self) -> ChainModel:
        """Return the current averaged model, float32, without predicates that have no weight."""
        model, n = self.model, max(self.n_averaged, 1)
        model.weights[self._order] = self._weights - self._totals / n
        model.transitions[:] = self._transitions - self._transition_totals / n
        return model.compact("float32")

    def data_digest(self) -> bytes:
        model = self.model
        fixed = self._columns, self._starts, self._before, model.initial, model.final
        return array_digest(self._first, *self.arrays, *fixed)

    def state(self) -> dict[str, Any]:
        places = np.flatnonzero((self._weights != 0) | (self._totals != 0))
        return super().state() | {
            "places": places,
            "weights": self._weights.reshape(-1)[places],
            "totals": self._totals.reshape(-1)[places],
            "arc_weights": self._transitions[self._before, self._after],
            "arc_totals": self._transition_totals[self._before, self._after],
        }

    def restore(self, state: dict[str, Any]) -> bool | None:
        super().restore(state)
        places, shape = state["places"], self._weights.shape
        arcs = np.ravel_multi_index((self._before, self._after), self._transitions.shape)
        fixed = self.model.transitions
        self._weights = scattered(state["weights"], places, np.zeros(shape, np.float32))
        self._totals = scattered(state["totals"], places, np.zeros(shape))
        self._transitions = scattered(state["arc_weights"], arcs, fixed.copy())
        self._transition_totals = scattered(state["arc_totals"], arcs, np.zeros(fixed.shape))
        return None


def _state_columns(model: ChainModel) -> Ids:
    """Return the columns of each state, int32 (n_states, 1 or 2); see `ChainModel`."""
    columns = model.states[:, -1:]
    if model.has_pair_features:
        pairs = len(model.labels) + np.arange(len(model.states))[:, None]
        columns = np.hstack([columns, pairs])
    return np.ascontiguousarray(columns, dtype=np.int32)
