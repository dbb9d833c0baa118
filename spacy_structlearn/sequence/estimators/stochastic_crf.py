"""First-order conditional random fields for many labels, which consider few labels at each token.

Of 48 part-of-speech tags, a token has two or three whose scores are within a margin of the best.
Training and decoding ignore the others, which takes a tenth of the time (compare Weiss & Taskar
2010). Weights change after each sentence, by dual averaging with adaptive steps and an L1 penalty
(Duchi, Hazan & Singer 2011), so a few passes suffice and few weights are not zero. The model is the
average of the weights after each pass. The objective is that of a CRF, but features that were not
seen with gold labels can have negative weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...arrays import check_offsets, cumulative, ranges
from ...errors import StructlearnError
from ...learning.training import Trainer, array_digest
from ..chain.decode import marginals
from ..chain.model import ChainModel
from ..chain.states import check_label_ids
from ..layout.data import AnyFloats, Floats, Ids, Ints, Parts, Symbols, concatenate
from . import _stochastic_crf

_ARRAYS = ("weights", "totals", "squares", "sums")
_BLOCK = 10_000  # predicates whose weights are computed at a time


# --- decoding -------------------------------------------------------------------------------------
class Candidates(NamedTuple):
    """The labels that each of n tokens may have, the most probable label first.

    starts: int64 (n + 1), where the labels of each token begin.
    labels: integers, places in the model's labels.
    probabilities: float32, one for each label.
    """

    starts: Ints
    labels: Ids
    probabilities: NDArray[np.float32]

    def best(self) -> Ids:
        """Return the most probable label of each token."""
        return self.labels[self.starts[:-1]]

    def uncertain(self, certain: float, least: float) -> tuple[Ints, Candidates]:
        """Return the tokens whose best label is less probable than `certain`, and their labels.

        The labels are the best one and those with a probability of at least `least`.
        """
        first = self.starts[:-1]
        tokens = np.flatnonzero(self.probabilities[first] < certain)
        counts = np.diff(self.starts)[tokens]
        places = ranges(first[tokens], counts)
        likely = self.probabilities[places] >= least
        likely[cumulative(counts)[:-1]] = True
        starts = cumulative(likely.astype(np.int64))[cumulative(counts)]
        places = places[likely]
        return tokens, Candidates(starts, self.labels[places], self.probabilities[places])


def candidates(model: ChainModel, columns: Symbols, offsets: Ints) -> Candidates:
    """Return p(y_t | x) of the labels within the model's margin, or of all if it has none.

    Arguments and errors are those of `decode.viterbi`.
    """
    if model.margin is None:
        return _all_labels(marginals(model, columns, offsets))
    templates = model.templates
    columns, offsets = templates.check(columns, offsets)
    scores = templates.scores(model.index, columns, offsets, model.weights, np.float32)
    scores = model.in_pool(scores)
    filled = np.flatnonzero(np.diff(offsets) > 0)
    scores[offsets[filled]] += model.initial.astype(np.float32)
    scores[offsets[filled + 1] - 1] += model.final.astype(np.float32)
    starts = np.empty(len(scores) + 1, dtype=np.int64)
    labels = np.empty(scores.size, dtype=np.int32)
    probabilities = np.empty(scores.size, dtype=np.float32)
    out = starts, labels, probabilities
    _stochastic_crf.posteriors(model.transitions, scores, offsets, model.margin, *out)
    return Candidates(starts, labels[: starts[-1]], probabilities[: starts[-1]])


def _all_labels(posteriors: Floats) -> Candidates:
    n, n_labels = posteriors.shape
    labels = np.argsort(-posteriors, axis=1, kind="stable").astype(np.int32)
    probabilities = np.take_along_axis(posteriors, labels, axis=1).astype(np.float32)
    starts = np.arange(n + 1, dtype=np.int64) * n_labels
    return Candidates(starts, labels.reshape(-1), probabilities.reshape(-1))


# --- training -------------------------------------------------------------------------------------
class StochasticCRFTrainer(Trainer[Any]):
    """Makes passes through the data. The predicates of the model stay fixed.

    The result is an average of weights. More data start a new average and `max_iterations` passes.
    The value is the sum of -log p(gold | x), each before the update for its sentence.
    Raises StructlearnError if the data do not fit together, or do not fit the model.
    """

    saved = ("n_seen", "n_averaged", "last")

    def __init__(self, settings: Any, model: ChainModel, data: Parts):
        super().__init__(settings)
        if model.is_empty:
            raise StructlearnError("SL205")
        self.model = model
        self.n_seen = 0
        self._rows = np.empty((0, len(model.templates)), dtype=np.int32)
        self._offsets = np.zeros(1, dtype=np.int64)
        self._gold = np.empty(0, dtype=np.int32)
        self._rank: Ids | None = None
        self.add(data)

    def _add(self, data: Parts) -> None:
        columns, offsets, label_ids = concatenate(data, self.model.labels)
        rows = self.model.rows(self.model.templates.keys(columns, offsets))
        offsets = check_offsets(offsets, len(rows))
        gold = check_label_ids(label_ids, len(rows), len(self.model.labels))
        if self._rank is None:
            self._rank = self._number_predicates(rows)
            predicates, transitions = self.model.weights[self._order], self.model.transitions
            self._weights = {"predicate": _Weights(predicates), "transition": _Weights(transitions)}
        self._offsets = np.concatenate([self._offsets, offsets[1:] + len(self._rows)])
        self._rows = np.concatenate([self._rows, self._rank[rows]])
        self._gold = np.concatenate([self._gold, gold])
        self.last = self.n_iterations + self.settings.max_iterations
        self.n_averaged = 0
        for weights in self._weights.values():
            weights.sums[:] = 0

    @property
    def n_sentences(self) -> int:
        """Number of sentences."""
        return len(self._offsets) - 1

    def iterate(self) -> bool:
        settings = self.settings
        l1 = settings.l1 / max(self.n_sentences, 1)  # the penalty of one sentence
        learners = (weights.learner for weights in self._weights.values())
        rule = settings.margin, settings.learn_rate, settings.damping, l1
        order = shuffled(self.n_sentences, settings.seed, self.n_iterations)
        sentences = self._rows, self._offsets, self._gold, order
        self.value = _stochastic_crf.epoch(*sentences, *learners, *rule, float(self.n_seen))
        self.n_iterations += 1
        self.n_seen += self.n_sentences
        self.n_averaged += 1
        for weights in self._weights.values():
            weights.add_up(settings.learn_rate, settings.damping, l1 * self.n_seen)
        return self.n_iterations < self.last

    def parameters(self) -> ChainModel:
        """Return a copy of the current model, float32, without predicates that have no weight."""
        if self.n_averaged:
            predicates, transitions = (part.sums for part in self._weights.values())
            self.model.weights[self._order] = predicates / self.n_averaged
            self.model.transitions[:] = transitions / self.n_averaged
        return self.model.compact("float32")

    def data_digest(self) -> bytes:
        starts = (weights.start for weights in self._weights.values())
        data = self._rows, self._offsets, self._gold
        return array_digest(*data, self._order, self.model.keys, *starts)

    def state(self) -> dict[str, Any]:
        fields = super().state()
        for kind, weights in self._weights.items():
            places = np.flatnonzero(weights.squares)
            fields[f"{kind}_places"] = places
            for name in _ARRAYS:
                fields[f"{kind}_{name}"] = getattr(weights, name).reshape(-1)[places]
        return fields

    def restore(self, state: dict[str, Any]) -> bool | None:
        super().restore(state)
        arrays = []
        for kind, weights in self._weights.items():
            places, start = state[f"{kind}_places"], weights.start
            zeros = np.zeros_like(start)
            unseen = start, zeros, zeros, self.n_averaged * start
            for name, base in zip(_ARRAYS, unseen, strict=True):
                fresh = zeros + base
                stored = _scattered(state[f"{kind}_{name}"], places, fresh)
                arrays.append((getattr(weights, name), stored))
        for array, stored in arrays:
            array[:] = stored
        return None

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


class _Weights:
    """The arrays of a `_stochastic_crf.Learner`, and the sums of its weights after each epoch."""

    def __init__(self, start: AnyFloats):
        self.start = np.ascontiguousarray(start, dtype=np.float32)
        self.weights = self.start.copy()
        self.totals, self.squares, self.sums = (np.zeros_like(self.start) for _ in range(3))
        self.learner = _stochastic_crf.Learner(self.start, self.weights, self.totals, self.squares)

    def add_up(self, rate: float, damping: float, threshold: float) -> None:
        """Add the weights, after the penalty since their last update, to the sums."""
        for i in range(0, len(self.start), _BLOCK):
            part = slice(i, i + _BLOCK)
            totals = self.totals[part]
            size = np.float32(rate) * np.maximum(np.abs(totals) - np.float32(threshold), 0)
            size /= np.float32(damping) + np.sqrt(self.squares[part])
            self.sums[part] += self.start[part] - np.sign(totals) * size


def shuffled(n: int, seed: int, epoch: int) -> Ints:
    """Return a permutation of n sentences for an epoch, the same on every platform."""
    # The raw bits of a generator are fixed for good; NumPy's permutations of them are not.
    return np.argsort(np.random.PCG64([seed, epoch]).random_raw(n), kind="stable")


def _scattered(values: NDArray, places: Ints, array: NDArray) -> NDArray:
    """Write `values` into `array` at `places`, and return it."""
    if values.shape != places.shape or values.dtype != array.dtype:
        raise ValueError(f"{values.shape} weights for {places.shape} places")
    array.reshape(-1)[places] = values
    return array
