"""The conditional likelihood of grammars with fragment features, for `m_estimated_grammars`.

The log-likelihood of the trees in the forests that q0 leaves of the training sentences (Petrov &
Klein 2007, section 3, without substates):

    log P(tree | words) = log q0(tree | words) + w.f - log Z

Each evaluation of it runs inside-outside over all forests, which M-estimation avoids.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spacy_structlearn.grammar.fragments.weights import FragmentPlaces, FragmentScorer
from spacy_structlearn.grammar.spans import _features
from spacy_structlearn.grammar.spans.forests import TrainingForests

Floats = NDArray[np.float64]
_BATCH = 50  # sentences whose forests are refined together


class FragmentObjective:
    """The mean loss of n sentences in nats, plus the penalty l2 |w|^2 / 2 divided by n.

    forests: the forests of the sentences and the trees to learn.
    sentences: the words of all sentences that `forests.numbers` refers to.
    scorer: the features.
    """

    def __init__(
        self,
        forests: TrainingForests,
        sentences: Sequence[Sequence[str]],
        scorer: FragmentScorer,
        *,
        l2: float,
    ):
        self._n = len(forests.numbers)
        self._l2, self.size = l2, len(scorer.weights)
        self.parts = []
        for first in range(0, self._n, _BATCH):
            batch = np.arange(self._n)[first : first + _BATCH]
            graphs, target = forests.select(batch)
            words = [sentences[number] for number in forests.numbers[batch].tolist()]
            places = scorer.places(words, graphs, target)
            refined = places.forests
            # The context of each node follows from the tree: it is one tree after refining, too.
            reached = np.where(target[refined.edges], 0.0, -np.inf)
            self.parts.append((places, refined.graphs.best(reached)[1]))

    def value_and_grad(self, w: Floats) -> tuple[float, Floats]:
        """Return the objective at w, float64 (n_features), and its gradient of the same shape."""
        value, total = 0.5 * self._l2 * float(w @ w), self._l2 * w
        for places, target in self.parts:
            graphs = places.forests.graphs
            scores: Floats = graphs.scores + places.scores(w)
            log_z, posteriors = graphs.inside_outside(scores)
            value += float(log_z.sum() - scores[target].sum())
            total = total + gradient(places, posteriors - target, self.size)
        return value / max(self._n, 1), total / max(self._n, 1)


def gradient(places: FragmentPlaces, by_edge: Floats, size: int) -> Floats:
    """Convert derivatives by scores of edges to derivatives by weights, float64 (size)."""
    rows = places.forests.local
    has = rows >= 0
    by_site = np.bincount(rows[has], by_edge[has], len(places.local)).astype(np.float64)
    by_weight = _features.scattered(places.local, by_site, size)
    return by_weight + _features.scattered(places.above, by_edge, size)
