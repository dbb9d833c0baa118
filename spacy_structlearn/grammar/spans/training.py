"""Training of span scores: a log-linear model of the trees that a latent grammar leaves.

The grammar parses a sentence into a forest. The posteriors of its productions define the
variational distribution of Matsuzaki et al. (2005). With scores s of symbols over spans,

    log P(tree | words) = weight * log P_variational(tree | words) + sum of s(X, i, j) - log Z

over the trees of the forest. This is a CRF, as in Hall, Durrett & Klein (2014), where scores are
linear in features of the span. It is trained by conditional likelihood. A grammar leaves other
forests of sentences that it was trained on than of new ones, so each fold of the training data is
parsed by a grammar trained on the other folds. If the gold tree is not in the forest, the tree
closest to it replaces it, as in reranking (Charniak & Johnson 2005).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import StructlearnError
from ...learning.training import Trainer
from ..discriminative.training import trainer_of_one
from ..latent import training as latent
from ..latent.settings import LatentGrammarSettings
from ..latent.stages import StagedTrainer
from ..treebank.settings import Trees
from .adaptation import SpanGrammarAdapter
from .features import LinearLearner, SpanWeights
from .forests import Folds, TrainingForests, conditional_loss, mean_loss
from .model import SpanGrammar
from .settings import REPORTS, SpanGrammarSettings

WARM_UP = 100  # updates in which the learning rate rises; at most a tenth of all updates
WEIGHT_LEARN_RATE = 0.01  # of AdaGrad for the weight of the grammar
MIN_RATE = 0.02  # times the learning rate: its final value
NEGLIGIBLE = 1e-5  # smaller gradients are set to 0: subnormal numbers take ten times as long
adapter = SpanGrammarAdapter
_POOL = 16  # batches whose sentences are sorted by length together


def batches(
    lengths: NDArray[np.integer], batch_size: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Return the numbers of sentences in random batches of about equal lengths."""
    order = rng.permutation(len(lengths))
    parts: list[NDArray[np.int64]] = []
    for begin in range(0, len(order), batch_size * _POOL):
        pool = order[begin : begin + batch_size * _POOL]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        parts += [pool[first : first + batch_size] for first in range(0, len(pool), batch_size)]
    return [parts[i] for i in rng.permutation(len(parts))]


def learn_rate_factor(update: int, total: int) -> float:
    """Return the factor of the learning rate in an update from 1 to `total`."""
    rise = update / min(WARM_UP, max(total // 10, 1))
    return min(1.0, rise) * min(1.0, max(MIN_RATE, 2 * (1 - update / total)))


def initialize(
    settings: SpanGrammarSettings, data: Trees, labels: Sequence[str] = (), previous: Any = None
) -> SpanGrammar:
    """Return the treebank grammar, without scores of spans; `labels`, `previous`: not used."""
    return SpanGrammar(latent.initialize(settings.base, data))


def trainer(settings: SpanGrammarSettings, parameters: Any, data: Trees) -> Trainer[Any]:
    """Return a trainer that starts from scratch, whatever `parameters` are."""
    return SpanGrammarTrainer(settings, data)


class SpanGrammarTrainer(StagedTrainer[SpanGrammarSettings]):
    """Trains the grammar, the grammars of the folds, the forests of each fold, then epochs.

    A step is a round of a grammar, the forests of a fold, or an epoch.

    value: the value of the stage of a grammar, then the mean loss of the forests if all scores are
        0, then that of the last epoch, in nats a sentence.
    losses: the value of each epoch.
    left_out: number of sentences without a forest.
    """

    saved = ("weight", "squares", "batch", "loss", "losses")

    def __init__(self, settings: SpanGrammarSettings, data: Trees):
        super().__init__(settings, data, trainer_of_one)

    def begin(self) -> None:
        super().begin()
        self._folds = Folds(self._trees, self.settings.folds)
        self._forests: TrainingForests | None = None
        self._scorer: LinearLearner | None = None
        self.weight, self.squares = 1.0, 0.0
        self.batch, self.loss = 0, 0.0
        self.losses: list[float] = []
        self.left_out = 0

    def iterate(self) -> bool:
        """Train a round of a grammar, parse a fold, or train an epoch.

        Raises StructlearnError if there is only one tree, which makes no folds.
        """
        if not self.has_grammars:
            if len(self._folds) < 2:
                raise StructlearnError("SL434", problem="one tree alone, which makes no folds")
            self.train_grammar()
        elif self._folds.n_parsed < len(self._folds):
            self._make_forests(self._folds.n_parsed + 1)
        else:
            self._epoch()
        self.n_iterations += 1
        return not self._done

    def parameters(self) -> SpanGrammar:
        """Return the present grammar."""
        features = None if self._scorer is None else self._scorer.weights
        return SpanGrammar(super().parameters(), self.weight, features)

    @property
    def _done(self) -> bool:
        parsed = self._folds.n_parsed == len(self._folds)
        return parsed and len(self.losses) >= self.settings.max_iterations

    @property
    def grammar_settings(self) -> LatentGrammarSettings:
        """The settings of the grammars."""
        return self.settings.base

    @property
    def n_grammars(self) -> int:
        """Number of grammars: that of all sentences, and those of all but a fold."""
        return 1 + len(self._folds)

    def plan(self, number: int) -> tuple[LatentGrammarSettings, Trees]:
        if not number:
            return self.settings.base, self._trees
        return self.settings.fold_base, [self._folds.rest(number - 1)]

    def _make_forests(self, folds: int) -> None:
        """Parse the first folds, up to this number, unless they are parsed already."""
        if self._forests is not None:
            return
        assert self._first is not None
        threads = self.settings.threads
        self._folds.parse(
            folds, lambda fold: self.grammar(fold + 1), self._first, threads, self.report
        )
        parts = self._folds.parts
        self.left_out = self._folds.bounds[folds] - sum(len(part.numbers) for part in parts)
        if not self.losses:
            self.value = mean_loss(parts)
        if folds == len(self._folds):
            self._forests, self._folds.parts = TrainingForests.joined(parts), []

    def _epoch(self) -> None:
        settings = self.settings
        self._make_forests(self._folds.n_parsed)
        forests = self._forests
        assert forests is not None
        if self._scorer is None:
            self._scorer = self._new_scorer()
        number = len(self.losses)
        rng = np.random.default_rng([settings.seed, number])
        cuts = batches(forests.graphs.n_words, settings.batch_size, rng)
        n, total = len(cuts), settings.max_iterations * len(cuts)
        seen = sum(map(len, cuts[: self.batch]))
        while self.batch < n:
            chosen = cuts[self.batch]
            self.batch += 1
            self._update(forests, chosen, learn_rate_factor(number * n + self.batch, total))
            seen += len(chosen)
            if self.batch * REPORTS // n > (self.batch - 1) * REPORTS // n:
                self.report(-self.loss / seen)
        self.value = self.loss / max(seen, 1)
        self.losses.append(self.value)
        self.batch, self.loss = 0, 0.0
        if self._done:
            self._forests = None  # too large to be kept as long as the trainer

    def _update(self, forests: TrainingForests, chosen: NDArray[np.int64], factor: float) -> None:
        """Take a step towards the trees of some sentences."""
        assert self._scorer is not None
        graphs, target = forests.select(chosen)
        words = [self._folds.words[number] for number in forests.numbers[chosen].tolist()]
        places = self._scorer.places(words, graphs)
        scores = self._scorer.sums(places)
        losses, gradient, by_weight = conditional_loss(graphs, target, scores, self.weight)
        gradient[np.abs(gradient) < NEGLIGIBLE] = 0.0
        gradient /= len(chosen)
        self._scorer.update(places, gradient, factor)
        slope = by_weight / len(chosen)
        self.squares += slope * slope
        if self.squares:
            rate = factor * WEIGHT_LEARN_RATE / np.sqrt(self.squares)
            self.weight = max(float(self.weight - rate * slope), 0.0)
        self.loss += float(losses.sum())

    def _new_scorer(self) -> LinearLearner:
        assert self._first is not None
        settings, symbols = self.settings.features, self._first.symbols
        return LinearLearner(SpanWeights.untrained(settings, self._folds.words, symbols), settings)

    def state(self) -> dict[str, Any]:
        """Return the state. It has no forests: the grammars of the folds make them again."""
        scorer = self._scorer
        return super().state() | {
            "n_forests": self._folds.n_parsed,
            "scorer": None if scorer is None else scorer.state(),
        }

    def restore(self, state: dict[str, Any]) -> bool | None:
        if super().restore(state) is False:
            return False
        # A new object: if the state is damaged, the old one is restored.
        self._folds = Folds(self._trees, self.settings.folds, int(state["n_forests"]))
        self._forests = self._scorer = None
        if state["scorer"] is not None:
            self._scorer = self._new_scorer()
            self._scorer.load(state["scorer"])
        return None
