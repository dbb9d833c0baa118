"""The base class of trainers that update their weights after each sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import check_offsets
from ...errors import StructlearnError
from ...learning.training import Trainer
from ..chain.model import ChainModel, check_label_ids
from ..layout.data import Ids, Ints, Parts, concatenate


class OnlineTrainer(Trainer[Any]):
    """Makes passes through the data. The predicates and states of the model stay fixed.

    The result is an average of weights. More data start a new average and `max_iterations` passes.
    Raises StructlearnError if the data do not fit together, or do not fit the model.
    """

    kept = ("n_averaged", "last")

    def __init__(self, settings: Any, model: ChainModel, data: Parts, **engine: Any):
        super().__init__(settings, **engine)
        if model.is_empty:
            raise StructlearnError("SL205")
        self.model = model
        self._rows = np.empty((0, len(model.templates)), dtype=np.int32)
        self._offsets = np.zeros(1, dtype=np.int64)
        self._gold = np.empty(0, dtype=np.int32)
        self._rank: Ids | None = None
        self.add(data)

    def begin(self) -> None:
        """Make the weights, with those of predicates in the order `_order`."""
        raise NotImplementedError

    def forget_average(self) -> None:
        """Start a new average."""
        raise NotImplementedError

    def take(self, data: Parts) -> None:
        columns, offsets, label_ids = concatenate(data, self.model.labels)
        rows = self.model.rows(self.model.templates.keys(columns, offsets))
        offsets = check_offsets(offsets, len(rows))
        label_ids = check_label_ids(label_ids, len(rows), len(self.model.labels))
        gold = self.model.state_ids(label_ids, offsets)
        if self._rank is None:
            self._rank = self._number_predicates(rows)
            self.begin()
        self._offsets = np.concatenate([self._offsets, offsets[1:] + len(self._rows)])
        self._rows = np.concatenate([self._rows, self._rank[rows]])
        self._gold = np.concatenate([self._gold, gold])
        self.last = self.n_iterations + self.settings.max_iterations
        self.n_averaged = 0
        self.forget_average()

    @property
    def n_sentences(self) -> int:
        """Number of sentences."""
        return len(self._offsets) - 1

    @property
    def arrays(self) -> tuple[NDArray, ...]:
        """The arrays that identify the data and the features."""
        return self._rows, self._offsets, self._gold, self._order, self.model.keys

    def sentences(self) -> tuple[NDArray, ...]:
        """Return the rows, offsets, gold states and order of the sentences in the next pass."""
        order = shuffled(self.n_sentences, self.settings.seed, self.n_iterations)
        return self._rows, self._offsets, self._gold, order

    def _number_predicates(self, rows: Ids) -> Ids:
        """Order the predicates by frequency, so that frequent ones share cache lines.

        rows: predicates at tokens, -1 if unknown. Returns the rank of each predicate, int32
        (n_predicates + 1), with a last rank of -1 for unknown predicates.
        """
        n_predicates = len(self.model.keys)
        counts = np.bincount(rows[rows >= 0], minlength=n_predicates)
        self._order = np.argsort(-counts, kind="stable")
        rank = np.full(n_predicates + 1, -1, dtype=np.int32)
        rank[self._order] = np.arange(n_predicates, dtype=np.int32)
        return rank


def shuffled(n: int, seed: int, epoch: int) -> Ints:
    """Return a permutation of n sentences for an epoch, the same on every platform."""
    # The raw bits of a generator are fixed for good; NumPy's permutations of them are not.
    return np.argsort(np.random.PCG64([seed, epoch]).random_raw(n), kind="stable")


def scattered(values: NDArray, places: Ints, array: NDArray) -> NDArray:
    """Write `values` into `array` at `places`, and return it."""
    if values.shape != places.shape or values.dtype != array.dtype:
        raise ValueError(f"{values.shape} weights for {places.shape} places")
    array.reshape(-1)[places] = values
    return array
