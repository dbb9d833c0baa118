"""Chains with many labels: a conditional random field of first order over the few of each token.

Of 48 part-of-speech tags a token can well have two or three, whose scores there are within a margin
of the best one's. Training and decoding look at no others, which takes a tenth of the time (compare
the constraints of Weiss & Taskar 2010). Training is stochastic: weights are changed after each
sentence, by dual averaging with adaptive steps and an L1 penalty (Duchi, Hazan & Singer 2011), so
that a few passes suffice and few weights are not zero. The model is the average of the weights
after each pass. The objective is that of `estimators.CRF`; but a weight may be negative whether or
not its feature was seen with the right labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import serialization
from ..errors import StructlearnError
from . import _pruned
from .decode import marginals
from .estimators import ChainEstimator, SequenceData, concatenate
from .features import check_offsets
from .model import ChainModel
from .perceptron import shuffled

_KIND = "stochastic_crf_state"
_VERSION = 1
_ARRAYS = ("weights", "totals", "squares", "sums")


# --- decoding -------------------------------------------------------------------------------------
class Candidates(NamedTuple):
    """The labels that each of n tokens may have, the most probable one first.

    starts: int64 (n + 1), where those of each token begin. labels: integers, places in the model's
    labels. probabilities: float32.
    """

    starts: NDArray[np.int64]
    labels: NDArray[np.int32]
    probabilities: NDArray[np.float32]

    def best(self) -> NDArray[np.int32]:
        """The most probable label of each token."""
        return self.labels[self.starts[:-1]]

    def uncertain(self, certain: float, least: float) -> tuple[NDArray[np.int64], Candidates]:
        """The tokens whose best label has a probability below `certain`, and their labels with one
        of `least` or more, the best always."""
        first = self.starts[:-1]
        tokens = np.flatnonzero(self.probabilities[first] < certain)
        counts = np.diff(self.starts)[tokens]
        places = np.repeat(first[tokens], counts) + _within(counts)
        kept = (self.probabilities[places] >= least) | (_within(counts) == 0)
        starts = np.concatenate([[0], np.cumsum(kept)])[np.concatenate([[0], np.cumsum(counts)])]
        places = places[kept]
        return tokens, Candidates(starts, self.labels[places], self.probabilities[places])


def candidates(
    model: ChainModel, columns: NDArray[np.uint64], offsets: NDArray[np.int64]
) -> Candidates:
    """p(y_t | x) of the labels within the model's margin; without one, of all.

    Arguments and errors: as in `decode.viterbi`.
    """
    if model.margin is None:
        return _all_labels(marginals(model, columns, offsets))
    templates = model.templates
    columns, offsets = templates.check(columns, offsets)
    scores = templates.scores(
        model.index, columns, offsets, model.weights, model.unknown, np.float32
    )
    filled = np.flatnonzero(np.diff(offsets) > 0)
    scores[offsets[filled]] += model.initial.astype(np.float32)
    scores[offsets[filled + 1] - 1] += model.final.astype(np.float32)
    starts = np.empty(len(scores) + 1, dtype=np.int64)
    labels = np.empty(scores.size, dtype=np.int32)
    probabilities = np.empty(scores.size, dtype=np.float32)
    _pruned.posteriors(
        model.transitions,
        scores,
        offsets,
        model.margin,
        starts,
        labels,
        probabilities,
    )
    return Candidates(starts, labels[: starts[-1]], probabilities[: starts[-1]])


def _all_labels(posteriors: NDArray[np.float64]) -> Candidates:
    n, n_labels = posteriors.shape
    labels = np.argsort(-posteriors, axis=1, kind="stable").astype(np.int32)
    probabilities = np.take_along_axis(posteriors, labels, axis=1).astype(np.float32)
    starts = np.arange(n + 1, dtype=np.int64) * n_labels
    return Candidates(starts, labels.reshape(-1), probabilities.reshape(-1))


def _within(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, ... up to each count, one after the other."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)


# --- training -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class StochasticCRF(ChainEstimator):
    """Conditional random field of first order for many labels, learned sentence by sentence.

    max_epochs: passes through one set of data. learn_rate, damping, both above 0, and l1, 0 or
    more, as the penalty l1 |w|_1 of the sum over all sentences: see `_pruned`. margin: see
    `ChainModel`. seed: of the order of sentences, 0 or more.
    """

    max_epochs: int = 5
    learn_rate: float = 0.3
    damping: float = 0.3
    l1: float = 0.1
    margin: float = 6.0
    seed: int = 0

    key_bits: ClassVar[int] = 40
    supported_only: ClassVar[bool] = False

    @property
    def max_iterations(self) -> int:
        """Epochs are the iterations of this estimator."""
        return self.max_epochs

    def initialize(
        self,
        data: Sequence[SequenceData],
        labels: Sequence[str],
        previous: ChainModel | None = None,
    ) -> ChainModel:
        """As in `ChainEstimator`. RAISES: SL209 for a setting out of range."""
        sound = {
            "order": (self.order == 1, "1"),
            "learn_rate": (0 < self.learn_rate < np.inf, "above 0"),
            "damping": (0 < self.damping < np.inf, "above 0"),
            "l1": (0 <= self.l1 < np.inf, "0 or more"),
            "margin": (0 < self.margin < np.inf, "above 0"),
            "seed": (self.seed >= 0, "0 or more"),
        }
        for name, (is_sound, wanted) in sound.items():
            if not is_sound:
                raise StructlearnError("SL209", name=name, wanted=wanted, value=getattr(self, name))
        model = super().initialize(data, labels, previous)
        model.margin = float(self.margin)
        return model

    def trainer(self, parameters: ChainModel, data: Sequence[SequenceData]) -> StochasticTrainer:
        """Training that goes on from `parameters`."""
        return StochasticTrainer(self, parameters, data)


class StochasticTrainer:
    """Epochs of a `StochasticCRF`.

    value: minus the log-likelihood of the last epoch, each sentence before it was learned from;
    before the first epoch, 0. n_iterations: epochs so far, over all sets of data.
    """

    def __init__(self, settings: StochasticCRF, model: ChainModel, data: Sequence[SequenceData]):
        self.settings = settings
        self.value = 0.0
        self.n_iterations = 0
        self._model = model
        rows, self._offsets, self._gold = self._read(data)
        # The predicates by frequency: those needed most then share the caches.
        counts = np.bincount(rows[rows >= 0], minlength=len(model.keys))
        self._order = np.argsort(-counts, kind="stable")
        # The last rank, -1, is that of the unknown ones.
        self._rank = np.full(len(model.keys) + 1, -1, dtype=np.int32)
        self._rank[self._order] = np.arange(len(model.keys), dtype=np.int32)
        self._rows = self._rank[rows]
        self._predicates = _Weights(model.weights[self._order])
        self._transitions = _Weights(model.transitions)
        self._n_seen = 0
        self._n_averaged = 0
        self._last = settings.max_epochs

    def add(self, data: Sequence[SequenceData]) -> None:
        """More sentences, for as many epochs as at the start."""
        rows, offsets, gold = self._read(data)
        self._offsets = np.concatenate([self._offsets, offsets[1:] + len(self._rows)])
        self._rows = np.concatenate([self._rows, self._rank[rows]])
        self._gold = np.concatenate([self._gold, gold])
        self._last = self.n_iterations + self.settings.max_epochs
        # An average over part of the data would favour that part.
        self._n_averaged = 0
        for _, weights in self._weights():
            weights.sums[:] = 0

    def step(self) -> bool:
        """One epoch. Returns False once training has ended."""
        settings = self.settings
        if self.n_iterations < self._last:  # it may have been resumed at its end
            self.value = _pruned.epoch(
                self._rows,
                self._offsets,
                self._gold,
                shuffled(self._n_sentences, settings.seed, self.n_iterations),
                self._predicates.learner,
                self._transitions.learner,
                settings.margin,
                settings.learn_rate,
                settings.damping,
                self._l1,
                float(self._n_seen),
            )
            self.n_iterations += 1
            self._n_seen += self._n_sentences
            self._n_averaged += 1
            rule = settings.learn_rate, settings.damping, self._l1 * self._n_seen
            for _, weights in self._weights():
                weights.average(rule)
        return self.n_iterations < self._last

    def parameters(self) -> ChainModel:
        """A copy of the model as it stands, float32, without predicates that have no weight."""
        if self._n_averaged:
            self._model.weights[self._order] = self._predicates.sums / self._n_averaged
            self._model.transitions[:] = self._transitions.sums / self._n_averaged
        return self._model.compact("float32")

    def to_bytes(self) -> bytes:
        """The state of the training, to go on bit for bit with the same data."""
        fields = {}
        for kind, weights in self._weights():
            places = np.flatnonzero(weights.squares)
            fields[f"{kind}_places"] = places
            for name in _ARRAYS:
                fields[f"{kind}_{name}"] = getattr(weights, name).reshape(-1)[places]
        counts = [self.n_iterations, self._n_seen, self._n_averaged]
        fields.update(data=self._digest(), counts=counts, value=self.value)
        return serialization.pack(_KIND, _VERSION, fields)

    def resume(self, state: bytes) -> bool:
        """Go on from `to_bytes`. Returns False if the state is of other data or settings.

        Raises StructlearnError SL050 to SL054 if it is not such a state.
        """
        _, fields = serialization.unpack(state, _KIND, {_VERSION})
        with serialization.reading(_KIND):
            if fields["data"] != self._digest():
                return False
            n_iterations, n_seen, n_averaged = map(int, fields["counts"])
            value = float(fields["value"])
            arrays = {}
            for kind, weights in self._weights():
                unseen = weights.start, 0, 0, n_averaged * weights.start
                for name, base in zip(_ARRAYS, unseen, strict=True):
                    stored = fields[f"{kind}_{name}"]
                    arrays[kind, name] = _scattered(
                        stored, fields[f"{kind}_places"], np.zeros_like(weights.start) + base
                    )
        for kind, weights in self._weights():
            for name in _ARRAYS:
                getattr(weights, name)[:] = arrays[kind, name]
        self.n_iterations, self._n_seen, self.value = n_iterations, n_seen, value
        self._n_averaged = n_averaged
        return True

    @property
    def _n_sentences(self) -> int:
        return len(self._offsets) - 1

    @property
    def _l1(self) -> float:
        """The penalty's part for one sentence."""
        return self.settings.l1 / max(self._n_sentences, 1)

    def _weights(self) -> tuple[tuple[str, _Weights], ...]:
        return ("predicate", self._predicates), ("transition", self._transitions)

    def _read(
        self, data: Sequence[SequenceData]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
        """Rows of the model's weights, offsets and right labels."""
        columns, offsets, gold = concatenate(data, self._model.labels)
        rows = self._model.rows(self._model.templates.keys(columns, offsets))
        return rows, check_offsets(offsets, len(rows)), gold

    def _digest(self) -> str:
        """Of all on which the course of training depends, besides the state."""
        digest = blake2b(repr(self.settings).encode(), digest_size=16)
        starts = (weights.start for _, weights in self._weights())
        for array in (self._rows, self._offsets, self._gold, self._order, *starts):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


class _Weights:
    """Weights of one kind, float32 arrays of one shape: see `_pruned.Learner`.

    sums: of the weights after each epoch of the average.
    """

    def __init__(self, start: NDArray[np.floating]):
        self.start = np.ascontiguousarray(start, dtype=np.float32)
        self.weights = self.start.copy()
        self.totals, self.squares, self.sums = (np.zeros_like(self.start) for _ in range(3))
        self.learner = _pruned.Learner(self.start, self.weights, self.totals, self.squares)

    def average(self, rule: tuple[float, float, float]) -> None:
        """Add the present weights to the average. rule: the arguments of `Learner.add_to`."""
        self.learner.add_to(self.sums, *rule)


def _scattered(values: NDArray, places: NDArray[np.int64], array: NDArray) -> NDArray:
    """`array` with `values` at `places` of it."""
    if values.shape != places.shape or values.dtype != array.dtype:
        raise ValueError(f"{values.shape} weights for {places.shape} places")
    array.reshape(-1)[places] = values
    return array
