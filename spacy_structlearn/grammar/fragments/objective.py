"""The conditional likelihood of trees as a function of the weights of features of fragments.

With f the features of `fragments`, and forests that a base grammar q0 leaves of sentences,

    log P(tree | words) = log q0(tree | words) + w.f - log Z

the loss of training data is the mean of - log P(tree | words), and its gradient the difference of
expected and observed features (Petrov & Klein 2007, section 3, for grammars without substates). It
is what M-estimation does without: each evaluation is inside-outside over all forests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...optimize.lbfgs import Vector
from ...parallel.shards import ThreadEngine
from ..chart.hypergraph import Floats, Mask
from ..spans.training import TrainingForests
from .weights import FragmentPlaces, FragmentScorer

_BATCH = 50  # sentences whose forests are refined together
_MOST_SHARDS = 16
_MOST_HALVINGS = 10


class FragmentObjective:
    """The mean loss of n sentences in nats, and the penalty l2 |w|^2 / 2 over n.

    forests: of the sentences, with the trees to be learned; sentences: the words of all that these
    are numbered by. scorer: with the features. l2: strength of the penalty. threads: so many share
    the forests; the result is the same, bit for bit.
    """

    def __init__(
        self,
        forests: TrainingForests,
        sentences: Sequence[Sequence[str]],
        scorer: FragmentScorer,
        *,
        l2: float,
        threads: int = 1,
    ):
        n = len(forests.numbers)
        self._l2 = l2 / max(n, 1)
        size = len(scorer.weights)
        cuts = [np.arange(n)[first : first + _BATCH] for first in range(0, n, _BATCH)]
        parts = []
        for cut in cuts:
            graphs, target = forests.select(cut)
            words = [sentences[number] for number in forests.numbers[cut].tolist()]
            places = scorer.places(words, graphs, target)
            refined = places.forests
            # What stands above a node follows from the tree, so that it is one tree there, too.
            reached = np.where(target[refined.edges], 0.0, -np.inf)
            parts.append(_RefinedBatch(places, refined.graphs.best(reached)[1]))
        self.n_edges = sum(len(part.target) for part in parts)
        groups = np.array_split(np.arange(len(parts)), min(_MOST_SHARDS, max(len(parts), 1)))
        shards = [
            _FragmentShard([parts[i] for i in group], size, 1.0 / max(n, 1)) for group in groups
        ]
        self._engine = ThreadEngine(shards, threads)

    def value_and_grad(self, w: Vector) -> tuple[float, Vector]:
        """The objective at w, float64 (n_features), and its gradient, float64 (n_features)."""
        value, gradient = self._engine.value_and_grad(w)
        return value + 0.5 * self._l2 * float(w @ w), gradient + self._l2 * w

    def close(self) -> None:
        """Let go of the forests and of threads."""
        self._engine.close()


def shrunk(objective: FragmentObjective, weights: ArrayLike) -> Vector:
    """Weights from somewhere else as a point to start from: times 1, 1/2, 1/4 and so on, as long as
    the objective falls, and 0 if it is never below that of 0. weights: (n_features).
    """
    best = np.array(weights, dtype=np.float64)
    least = objective.value_and_grad(best)[0]
    for _ in range(_MOST_HALVINGS):
        value = objective.value_and_grad(best / 2.0)[0]
        if not value < least:
            break
        best, least = best / 2.0, value
    return best if least < objective.value_and_grad(np.zeros_like(best))[0] else np.zeros_like(best)


class _RefinedBatch(NamedTuple):
    """Refined forests of a batch of sentences, their features, and the edges of the right trees."""

    places: FragmentPlaces
    target: Mask


class _FragmentShard:
    """Some of the batches; see `parallel.shards`."""

    def __init__(self, parts: Sequence[_RefinedBatch], size: int, share: float):
        self._parts, self._size, self._share = list(parts), size, share

    def value_and_grad(self, x: Vector) -> tuple[float, Vector]:
        value, gradient = 0.0, np.zeros(self._size)
        for places, target in self._parts:
            graphs = places.forests.graphs
            scores: Floats = graphs.scores + places.scores(x)
            log_z, posteriors = graphs.inside_outside(scores)
            value += float(log_z.sum() - scores[target].sum())
            gradient += places.gradient(posteriors - target, self._size)
        gradient *= self._share
        return value * self._share, gradient

    def close(self) -> None:
        self._parts = []
