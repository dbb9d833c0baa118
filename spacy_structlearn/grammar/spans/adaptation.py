"""Learning on: a grammar with span features, and new trees.

First the grammar adapts (`latent.adaptation`). Then its forests of the new sentences train the
features, with a Gaussian prior centred on the old weights w0 (Chelba & Acero 2004):

    f(w) = - sum log P(tree | words) + strength * sum_j (l2 + h_j) (w_j - w0_j)^2 / 2

where h_j is the second derivative by w_j at w0 if the scores of items were independent. So frequent
features are held, as in Kirkpatrick et al. (2017); many features of an item move together, and with
h_j = 0 they forget. As in training, each fold is parsed by a single grammar that has not seen it:
the old grammar, adapted to the other folds. The weight of the grammar stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import StructlearnError
from ...learning.training import array_digest
from ...optimize.lbfgs import LBFGS, dot
from ..chart.hypergraph import Floats
from ..latent.adaptation import AdaptationTrainer
from ..latent.model import LatentGrammar
from ..latent.stages import TreebankTrainer
from ..treebank.settings import Trees
from . import _features as _span_features
from .features import LinearScorer, SpanWeights
from .forests import Folds, TrainingForests, conditional_loss
from .model import SpanGrammar
from .settings import SpanGrammarSettings

ITERATIONS = 30
TOLERANCE = 1e-3  # mean relative decrease of the objective over ten iterations at the end
FOLDS = 3
# If the strength of the setting is 1: number of trees for which the old grammar stands, and the
# strength of the prior on the features.
TREES, STRENGTH = 1000.0, 30.0
L2 = 1.0


class SpanGrammarAdapter(TreebankTrainer[SpanGrammarSettings]):
    """Adapts the grammar, parses the folds, then minimises f. A step is one of these three, or one
    iteration of L-BFGS.

    strength: relative to `TREES` and `STRENGTH`. labels: not used.

    value: f, relative to its value without new data, in nats.
    """

    parts: ClassVar[dict[str, Any]] = {"_grammar": LatentGrammar, "_optimizer": LBFGS}

    def __init__(
        self,
        settings: SpanGrammarSettings,
        parameters: SpanGrammar,
        data: Trees,
        labels: Sequence[str] = (),
        *,
        strength: float,
    ):
        self._origin, self._strength = parameters, strength
        super().__init__(settings, data)

    def begin(self) -> None:
        self._grammar: LatentGrammar | None = None
        self._objective: _Objective | None = None
        self._optimizer: LBFGS | None = None

    def iterate(self) -> bool:
        """Adapt the grammar, parse, or make an iteration of L-BFGS."""
        self.n_iterations += 1
        if self._grammar is None:
            self._grammar = self._adapted(self._origin.grammar, self._trees)
            return self._origin.features is not None and len(self._trees) > 1
        if self._objective is None:
            self._prepare()
            return True
        assert self._optimizer is not None
        more = self._optimizer.step(self._objective.value_and_grad)
        self.value = self._optimizer.value or 0.0
        return more and self._optimizer.n_iterations < ITERATIONS

    def parameters(self) -> SpanGrammar:
        """Return the current grammar."""
        grammar, features = self._origin.grammar, self._origin.features
        if self._grammar is not None:
            grammar = self._grammar
            if features is not None:
                features = features.renumbered(self._origin.symbols, grammar.symbols)
        if self._objective is not None and self._optimizer is not None:
            features = self._objective.weights(self._optimizer.x)
        return self._origin.replaced(grammar=grammar, features=features)

    def data_digest(self) -> bytes:
        return array_digest(super().data_digest(), self._origin.to_bytes(), self._strength)

    def restore(self, state: dict[str, Any]) -> bool | None:
        super().restore(state)
        self._objective = None
        if (optimizer := self._optimizer) is None:
            return None
        self._prepare()  # forests are made again
        assert self._optimizer is not None
        fits = len(optimizer.x) == len(self._optimizer.x)
        self._optimizer = optimizer
        return fits

    def _adapted(self, grammar: LatentGrammar, trees: list[Any]) -> LatentGrammar:
        base = self.settings.base
        if not base.strengths:
            raise StructlearnError("SL408", learner=base.name)
        strength = TREES * self._strength
        return AdaptationTrainer(base, grammar, [trees], strength=strength).run()

    def _prepare(self) -> None:
        """Parse each fold, and begin at the old weights."""
        assert self._grammar is not None
        assert self._origin.features is not None
        grammar = self._grammar
        single = self._origin.grammar.truncated(self._origin.grammar.depth + 1)
        folds = Folds(self._trees, FOLDS)

        def grammar_of(fold: int) -> LatentGrammar:
            return self._adapted(single, folds.rest(fold))

        folds.parse(len(folds), grammar_of, grammar, self.settings.threads)
        features = self._origin.features.renumbered(self._origin.symbols, grammar.symbols)
        forests = TrainingForests.joined(folds.parts)
        words = [folds.words[number] for number in forests.numbers.tolist()]
        strength = STRENGTH * self._strength
        self._objective = _Objective(features, words, forests, self._origin.weight, strength)
        self._optimizer = LBFGS(self._objective.start, value_tolerance=TOLERANCE)


class _Objective:
    """f over the weights of the features in the forests, minus those of the trees.

    start: their old weights, float64 (n).
    """

    def __init__(
        self,
        features: SpanWeights,
        words: list[list[str]],
        forests: TrainingForests,
        weight: float,
        strength: float,
    ):
        self._features, self._forests, self._weight = features, forests, weight
        places = LinearScorer(features).places(words, forests.graphs)
        self._places, inverse = np.unique(places, return_inverse=True)
        inverse = inverse.reshape(places.shape).astype(np.int32)
        if len(self._places) and self._places[0] < 0:  # -1: no feature
            self._places, inverse = self._places[1:], inverse - 1
        self._rows = np.ascontiguousarray(inverse)
        self.start = features.dense()[self._places].astype(np.float64)
        # The diagonal of the second derivative if the scores of items were independent.
        scores = forests.graphs.edge_scores(_span_features.sums(self._rows, self.start), weight)
        posteriors = forests.graphs.item_posteriors(forests.graphs.inside_outside(scores)[1])
        variance = np.maximum(posteriors * (1.0 - posteriors), 0.0)
        curvature = _span_features.scattered(self._rows, variance, len(self.start))
        self._prior = strength * (L2 + curvature)

    def value_and_grad(self, x: Floats) -> tuple[float, Floats]:
        forests, moved = self._forests, x - self.start
        scores = _span_features.sums(self._rows, x)
        losses, gradient, _ = conditional_loss(forests.graphs, forests.target, scores, self._weight)
        gradient = _span_features.scattered(self._rows, gradient, len(x))
        value = float(losses.sum()) + 0.5 * dot(self._prior, moved**2)
        return value, gradient + self._prior * moved

    def weights(self, x: Floats) -> SpanWeights:
        dense = self._features.dense()
        dense[self._places] = x
        return self._features.with_weights(dense)
