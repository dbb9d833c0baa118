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

from ...learning.training import array_digest
from ..chain.decode import marginals
from ..chain.model import ChainModel
from ..layout.data import AnyFloats, Floats, Ids, Ints, Symbols
from . import _stochastic_crf
from .online import OnlineTrainer, scattered

_ARRAYS = ("weights", "totals", "squares", "sums")


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
        places = np.repeat(first[tokens], counts) + _within(counts)
        kept = (self.probabilities[places] >= least) | (_within(counts) == 0)
        starts = np.concatenate([[0], np.cumsum(kept)])[np.concatenate([[0], np.cumsum(counts)])]
        places = places[kept]
        return tokens, Candidates(starts, self.labels[places], self.probabilities[places])


def candidates(model: ChainModel, columns: Symbols, offsets: Ints) -> Candidates:
    """Return p(y_t | x) of the labels within the model's margin, or of all if it has none.

    Arguments and errors are those of `decode.viterbi`.
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
    out = starts, labels, probabilities
    _stochastic_crf.posteriors(model.transitions, scores, offsets, model.margin, *out)
    return Candidates(starts, labels[: starts[-1]], probabilities[: starts[-1]])


def _all_labels(posteriors: Floats) -> Candidates:
    n, n_labels = posteriors.shape
    labels = np.argsort(-posteriors, axis=1, kind="stable").astype(np.int32)
    probabilities = np.take_along_axis(posteriors, labels, axis=1).astype(np.float32)
    starts = np.arange(n + 1, dtype=np.int64) * n_labels
    return Candidates(starts, labels.reshape(-1), probabilities.reshape(-1))


def _within(counts: Ints) -> Ints:
    """Return 0, 1, ..., n - 1 for each count n, concatenated."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)


# --- training -------------------------------------------------------------------------------------
class StochasticCRFTrainer(OnlineTrainer):
    """The value is the sum of -log p(gold | x), each before the update for its sentence."""

    kept = ("n_seen", *OnlineTrainer.kept)

    def begin(self) -> None:
        """See `OnlineTrainer`."""
        self.n_seen = 0
        predicates, transitions = self.model.weights[self._order], self.model.transitions
        self._weights = {"predicate": _Weights(predicates), "transition": _Weights(transitions)}

    def forget_average(self) -> None:
        """See `OnlineTrainer`."""
        for weights in self._weights.values():
            weights.sums[:] = 0

    def iterate(self) -> bool:
        settings = self.settings
        l1 = settings.l1 / max(self.n_sentences, 1)  # the penalty of one sentence
        learners = (weights.learner for weights in self._weights.values())
        rule = settings.margin, settings.learn_rate, settings.damping, l1
        self.value = _stochastic_crf.epoch(*self.sentences(), *learners, *rule, float(self.n_seen))
        self.n_iterations += 1
        self.n_seen += self.n_sentences
        self.n_averaged += 1
        for weights in self._weights.values():
            weights.learner.add_to(
                weights.sums, settings.learn_rate, settings.damping, l1 * self.n_seen
            )
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
        return array_digest(*self.arrays, *starts)

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
            unseen = start, 0, 0, self.n_averaged * start
            for name, base in zip(_ARRAYS, unseen, strict=True):
                fresh = np.zeros_like(start) + base
                stored = scattered(state[f"{kind}_{name}"], places, fresh)
                arrays.append((getattr(weights, name), stored))
        for array, stored in arrays:
            array[:] = stored
        return None


class _Weights:
    """The arrays of a `_stochastic_crf.Learner`, and the sums of its weights after each epoch."""

    def __init__(self, start: AnyFloats):
        self.start = np.ascontiguousarray(start, dtype=np.float32)
        self.weights = self.start.copy()
        self.totals, self.squares, self.sums = (np.zeros_like(self.start) for _ in range(3))
        self.learner = _stochastic_crf.Learner(self.start, self.weights, self.totals, self.squares)
