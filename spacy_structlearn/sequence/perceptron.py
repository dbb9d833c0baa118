"""The averaged perceptron: a chain model in a few seconds, by correcting its own mistakes.

Collins (2002, figure 1 and section 2.2): decode a sentence with the present weights; where the best
path is not the right one, add the features of the right one and subtract those of the best. The
model is the average of the weights over all sentences of all epochs. Features have whole numbers
for weights, so that the arithmetic is exact, and any weight may become negative, whether or not its
feature was seen with the right labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from .. import serialization
from ..errors import StructlearnError
from . import _perceptron
from .estimators import ChainEstimator, SequenceData, concatenate
from .features import check_offsets
from .model import ChainModel, check_label_ids

_KIND = "perceptron_state"
_VERSION = 1


class AveragedPerceptron:
    """Weights that go through the data, and their running average.

    model: what is trained; training goes on from its weights. Its predicates, states and the
        scores of first and last states stay fixed.
    columns: uint64 (n_tokens, n_columns); offsets: int64 (n_sentences + 1); see `Templates`.
    label_ids: integers (n_tokens), the right labels.
    seed: of the order of sentences, 0 or more; each epoch has its own.
    Attributes: n_epochs, and n_wrong, the sentences of the last epoch whose best path was wrong.
    Raises StructlearnError SL203 to SL205, SL207 or SL209.
    """

    def __init__(
        self,
        model: ChainModel,
        columns: NDArray[np.uint64],
        offsets: NDArray[np.int64],
        label_ids: NDArray[np.integer],
        *,
        seed: int = 0,
    ):
        if model.is_empty:
            raise StructlearnError("SL205")
        if seed < 0:
            raise StructlearnError("SL209", name="seed", wanted="0 or more", value=seed)
        self.model = model
        self.seed = seed
        self.n_epochs = 0
        self.n_wrong = 0
        self._rows, self._offsets, self._gold = self._read(columns, offsets, label_ids)
        self._number_predicates()
        self._rows = self._rank[self._rows]
        self._list_arcs()
        self._columns = _state_columns(model)
        self._weights = model.weights[self._order].astype(np.float32)
        self._arc_weights = model.transitions[self._before, self._after]
        self._forget_average()

    @property
    def n_sentences(self) -> int:
        """Number of sentences that it learns from."""
        return len(self._offsets) - 1

    def add(
        self,
        columns: NDArray[np.uint64],
        offsets: NDArray[np.int64],
        label_ids: NDArray[np.integer],
    ) -> None:
        """Extend the data; the average begins anew, since it was one over part of them.

        Arguments and errors are those of the constructor.
        """
        rows, offsets, gold = self._read(columns, offsets, label_ids)
        self._offsets = np.concatenate([self._offsets, offsets[1:] + len(self._rows)])
        self._rows = np.concatenate([self._rows, self._rank[rows]])
        self._gold = np.concatenate([self._gold, gold])
        self._forget_average()

    def epoch(self) -> int:
        """Go once through all sentences; returns `n_wrong`."""
        self.n_wrong = _perceptron.epoch(
            self._rows,
            self._offsets,
            self._gold,
            shuffled(self.n_sentences, self.seed, self.n_epochs),
            self._columns,
            self.model.initial,
            self.model.final,
            self._starts,
            self._before,
            self._weights,
            self._totals,
            self._arc_weights,
            self._arc_totals,
            float(self._n_averaged),
        )
        self.n_epochs += 1
        self._n_averaged += self.n_sentences
        return self.n_wrong

    def write(self) -> None:
        """Put the average (before the first epoch: the weights) into the model."""
        n = max(self._n_averaged, 1)
        self.model.weights[self._order] = self._weights - self._totals / n
        self.model.transitions[self._before, self._after] = self._arc_weights - self._arc_totals / n

    def to_bytes(self) -> bytes:
        """The state, without the data; see `serialization.pack`."""
        places = np.flatnonzero((self._weights != 0) | (self._totals != 0))
        return serialization.pack(
            _KIND,
            _VERSION,
            {
                "data": self._digest(),
                "counts": [self.n_epochs, self.n_wrong, self._n_averaged],
                "places": places,
                "weights": self._weights.reshape(-1)[places],
                "totals": self._totals.reshape(-1)[places],
                "arc_weights": self._arc_weights,
                "arc_totals": self._arc_totals,
            },
        )

    def resume(self, state: bytes) -> bool:
        """Go on from `to_bytes`, bit for bit; False, and no change, if it is of other data.

        Raises StructlearnError SL050 to SL054 if it is no such state.
        """
        _, fields = serialization.unpack(state, _KIND, {_VERSION})
        with serialization.reading(_KIND):
            if fields["data"] != self._digest():
                return False
            n_epochs, n_wrong, n_averaged = map(int, fields["counts"])
            arrays = {
                name: _scattered(fields[name], fields["places"], getattr(self, f"_{name}"))
                for name in ("weights", "totals")
            }
            everywhere = np.arange(len(self._before))
            for name in ("arc_weights", "arc_totals"):
                arrays[name] = _scattered(fields[name], everywhere, getattr(self, f"_{name}"))
        self.n_epochs, self.n_wrong, self._n_averaged = n_epochs, n_wrong, n_averaged
        for name, array in arrays.items():
            setattr(self, f"_{name}", array)
        return True

    def _read(
        self,
        columns: NDArray[np.uint64],
        offsets: NDArray[np.int64],
        label_ids: NDArray[np.integer],
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
        """Rows of the model's weights, offsets and right states."""
        rows = self.model.rows(self.model.templates.keys(columns, offsets))
        offsets = check_offsets(offsets, len(rows))
        label_ids = check_label_ids(label_ids, len(rows), len(self.model.labels))
        return rows, offsets, self.model.state_ids(label_ids, offsets)

    def _number_predicates(self) -> None:
        """Order the predicates by frequency: those needed most then share the caches."""
        n_predicates = len(self.model.keys)
        counts = np.bincount(self._rows[self._rows >= 0], minlength=n_predicates)
        self._order = np.argsort(-counts, kind="stable")
        # One more than there are predicates: the last, -1, is the rank of the unknown ones.
        self._rank = np.full(n_predicates + 1, -1, dtype=np.int32)
        self._rank[self._order] = np.arange(n_predicates, dtype=np.int32)

    def _list_arcs(self) -> None:
        """The allowed transitions as the kernel reads them: by the state after, then before."""
        after, before = np.nonzero(~np.isneginf(self.model.transitions.T))
        self._after = after.astype(np.int32)
        self._before = before.astype(np.int32)
        n_arcs = np.bincount(after, minlength=len(self.model.states))
        self._starts = np.concatenate([[0], np.cumsum(n_arcs)]).astype(np.int32)

    def _forget_average(self) -> None:
        self._totals = np.zeros(self._weights.shape)
        self._arc_totals = np.zeros(len(self._arc_weights))
        self._n_averaged = 0

    def _digest(self) -> str:
        """Of all on which the course of training depends, besides the state."""
        digest = blake2b(repr((self.seed, self._weights.shape)).encode(), digest_size=16)
        fixed = (self._columns, self._starts, self._before, self.model.initial, self.model.final)
        for array in (self._rows, self._offsets, self._gold, self._order, *fixed):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


def shuffled(n: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """A permutation of n sentences, the same on every platform, another one in each epoch."""
    # The raw bits of a generator are fixed for good; NumPy's permutations of them are not.
    return np.argsort(np.random.PCG64([seed, epoch]).random_raw(n), kind="stable")


def _scattered(values: NDArray, places: NDArray[np.int64], like: NDArray) -> NDArray:
    """Zeros of the shape and type of `like`, with `values` at `places` of it."""
    if values.shape != places.shape:
        raise ValueError(f"{values.shape} weights for {places.shape} places")
    array = np.zeros_like(like)
    array.reshape(-1)[places] = values
    return array


def _state_columns(model: ChainModel) -> NDArray[np.int32]:
    """The columns of each state, int32 (n_states, 1 or 2); see `ChainModel`."""
    columns = model.states[:, -1:]
    if model.has_pair_features:
        pairs = len(model.labels) + np.arange(len(model.states))[:, None]
        columns = np.hstack([columns, pairs])
    return np.ascontiguousarray(columns, dtype=np.int32)


@dataclass(frozen=True)
class Perceptron(ChainEstimator):
    """Averaged structured perceptron (Collins 2002).

    max_epochs: passes through one set of data; one without a mistake is the last. seed: of the
    order of sentences.
    """

    order: int = 2
    max_epochs: int = 20
    seed: int = 0

    @property
    def max_iterations(self) -> int:
        """Epochs are the iterations of this estimator."""
        return self.max_epochs

    def trainer(self, parameters: ChainModel, data: Sequence[SequenceData]) -> PerceptronTrainer:
        """Training that goes on from `parameters`."""
        return PerceptronTrainer(self, parameters, data)


class PerceptronTrainer:
    """Epochs of the averaged perceptron.

    value: sentences of the last epoch with a mistake; before the first epoch, 0.
    n_iterations: epochs so far, over all sets of data.
    """

    def __init__(self, settings: Perceptron, model: ChainModel, data: Sequence[SequenceData]):
        self.settings = settings
        self._learner = AveragedPerceptron(
            model, *concatenate(data, model.labels), seed=settings.seed
        )
        self._last = settings.max_epochs

    @property
    def value(self) -> float:
        return float(self._learner.n_wrong)

    @property
    def n_iterations(self) -> int:
        return self._learner.n_epochs

    def add(self, data: Sequence[SequenceData]) -> None:
        """More sentences, for as many epochs as at the start."""
        self._learner.add(*concatenate(data, self._learner.model.labels))
        self._last = self._learner.n_epochs + self.settings.max_epochs

    def step(self) -> bool:
        """One epoch. Returns False once training has ended."""
        return self._learner.epoch() > 0 and self._learner.n_epochs < self._last

    def parameters(self) -> ChainModel:
        """The averaged model as it stands, float32, without predicates that have no weight."""
        self._learner.write()
        return self._learner.model.compact("float32")

    def to_bytes(self) -> bytes:
        """The state of the training, to go on bit for bit with the same data."""
        return self._learner.to_bytes()

    def resume(self, state: bytes) -> bool:
        """Go on from `to_bytes`. Returns False if the state is of other data or settings."""
        return self._learner.resume(state)
