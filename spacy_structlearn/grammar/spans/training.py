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

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import serialization
from ...errors import StructlearnError
from ...learning.training import Trainer, array_digest
from ...parallel.shards import MakeEngine, make_engine
from ...trees.tree import Tree
from ..chart.decode import THRESHOLDS, ChartParser
from ..chart.hypergraph import Floats, Hypergraphs, Mask
from ..latent.model import LatentGrammar
from ..treebank.symbols import TreebankData, renumbering, to_tree
from .features import LinearScorer, SpanWeights
from .model import SpanGrammar
from .settings import SpanGrammarSettings

REPORTS = 20  # largest number of reports in an epoch or for the forests of a fold
WARM_UP = 100  # updates in which the learning rate rises; at most a tenth of all updates
LEAST_RATE = 0.02  # times the learning rate: its final value
NEGLIGIBLE = 1e-5  # smaller gradients are set to 0: subnormal numbers take ten times as long
_POOL = 16  # batches whose sentences are sorted by length together

Data = Sequence[Tree | Sequence[Tree] | TreebankData]


def conditional_loss(
    graphs: Hypergraphs, target: Mask, item_scores: Floats, weight: float
) -> tuple[Floats, Floats, float]:
    """Return - log P(tree | words), and its gradient: expected minus observed counts of items.

    target: the edges of the trees, a mask (E). item_scores: float64 (I). weight: of the grammar.

    Returns the losses of the sentences in nats, float64 (s), and the derivatives of their sum by
    item_scores, float64 (I), and by the weight.
    """
    scores = graphs.edge_scores(item_scores, weight)
    log_z, posteriors = graphs.inside_outside(scores)
    owner = graphs.edge_sentences
    reached = np.bincount(owner[target], scores[target], len(graphs))
    difference = posteriors - target
    # An edge with score -inf is in no tree.
    moved = difference != 0
    by_weight = float(difference[moved] @ graphs.scores[moved])
    return log_z - reached, graphs.item_posteriors(difference), by_weight


def renumbered(graphs: Hypergraphs, old: LatentGrammar, new: LatentGrammar) -> Hypergraphs:
    """Renumber the symbols and rules of forests as in another grammar, which has all of them."""
    to = renumbering(old.symbols, new.symbols)
    items = graphs.items.copy()
    items[:, 0] = to[items[:, 0]]
    rules = {pair: rule for rule, pair in enumerate(map(tuple, new.rules.unary.tolist()))}
    # The last place is that of edges without a rule.
    places = [*(rules[pair] for pair in map(tuple, to[old.rules.unary].tolist())), -1]
    return replace(graphs, items=items, chain=np.array(places, dtype=np.int32)[graphs.chain])


@dataclass
class TrainingForests:
    """Parsed sentences: their forests and numbers, the edges of their trees, and the sum of the
    losses of these trees if all scores are 0."""

    graphs: Hypergraphs
    numbers: NDArray[np.int64]
    target: Mask
    loss: float

    @classmethod
    def joined(cls, parts: Sequence[TrainingForests]) -> TrainingForests:
        """Concatenate forests."""
        return cls(
            Hypergraphs.joined([part.graphs for part in parts]),
            np.concatenate([part.numbers for part in parts]),
            np.concatenate([part.target for part in parts]),
            sum(part.loss for part in parts),
        )

    def select(self, chosen: NDArray[np.int64]) -> tuple[Hypergraphs, Mask]:
        """Return some of the forests, by their places, and the edges of their trees."""
        offsets = self.graphs.edge_offsets
        own = [self.target[slice(*offsets[x : x + 2].tolist())] for x in chosen.tolist()]
        return self.graphs.select(chosen), np.concatenate(own)


def training_forests(
    grammar: LatentGrammar,
    full: LatentGrammar,
    words: Sequence[Sequence[str]],
    trees: Sequence[Tree],
    numbers: NDArray[np.int64],
    *,
    threshold: float | None,
    threads: int = 1,
    report: Callable[[int, float], None] | None = None,
) -> TrainingForests:
    """Parse sentences, and find the tree of each forest that is closest to the gold tree.

    grammar: parses.
    full: the grammar whose symbols and rules the forests get; it has all those of `grammar`.
    words, trees: of all sentences.
    numbers: of the sentences to parse, in ascending order.
    threshold: of posteriors, for all levels. None: the thresholds of parsing.
    report: called from time to time with the number of sentences parsed, and minus their mean loss
        if all scores are 0.
    """
    thresholds = THRESHOLDS if threshold is None else (threshold,) * max(grammar.depth, 1)
    parser = ChartParser(SpanGrammar(grammar), thresholds=thresholds, threads=threads)
    found: list[TrainingForests] = []
    done, parsed, loss = 0, 0, 0.0
    for part in np.array_split(numbers, min(REPORTS, len(numbers))):
        graphs, own = parser.forests([words[number] for number in part])
        graphs = renumbered(graphs, grammar, full)
        kept = part[own]
        target = graphs.closest([trees[number] for number in kept], full.symbols)
        found.append(TrainingForests(graphs, kept, target, -float(graphs.scores[target].sum())))
        done += len(part)
        parsed += len(kept)
        loss += found[-1].loss
        if report is not None:
            report(done, -loss / max(parsed, 1))
    return TrainingForests.joined(found)


class Folds:
    """Parts of the training sentences, whose forests are made one part after another.

    n_sentences: number of sentences.
    n_folds: number of folds; there are at most as many as sentences.
    n_parsed: number of folds parsed so far.

    parts: the forests of the first folds.
    In a resumed training, `parts` are made again. Raises ValueError if there are not as many folds.
    """

    def __init__(self, n_sentences: int, n_folds: int, n_parsed: int = 0):
        n_folds = min(n_folds, n_sentences)
        self.bounds = [n_sentences * fold // max(n_folds, 1) for fold in range(n_folds + 1)]
        self.parts: list[TrainingForests] = []
        if not 0 <= n_parsed <= len(self):
            raise ValueError(f"{n_parsed} parsed folds")
        self.n_parsed = n_parsed

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def rest(self, fold: int, trees: Sequence[Tree]) -> list[Tree]:
        """Return the trees of the other folds."""
        begin, end = self.bounds[fold : fold + 2]
        return [*trees[:begin], *trees[end:]]

    def parse(
        self, n_folds: int, parse: Callable[[int, NDArray[np.int64]], TrainingForests]
    ) -> None:
        """Parse the first folds, unless they are parsed already, by number and sentences."""
        for fold in range(len(self.parts), n_folds):
            self.parts.append(parse(fold, np.arange(*self.bounds[fold : fold + 2])))
        self.n_parsed = n_folds

    @property
    def left_out(self) -> int:
        """Number of sentences of the parsed folds without a forest."""
        return self.bounds[len(self.parts)] - sum(len(part.numbers) for part in self.parts)

    @property
    def loss(self) -> float:
        """The mean loss of the forests in nats if all scores are 0."""
        parsed = sum(len(part.numbers) for part in self.parts)
        return sum(part.loss for part in self.parts) / max(parsed, 1)


def batches(
    lengths: NDArray[np.integer], batch_size: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Return the numbers of sentences in random batches of about equally long sentences.

    lengths: of the sentences, (n).
    """
    order = rng.permutation(len(lengths))
    found: list[NDArray[np.int64]] = []
    for begin in range(0, len(order), batch_size * _POOL):
        pool = order[begin : begin + batch_size * _POOL]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        found += [pool[first : first + batch_size] for first in range(0, len(pool), batch_size)]
    return [found[i] for i in rng.permutation(len(found))]


def learn_rate_factor(update: int, total: int) -> float:
    """Return the factor of the learning rate in an update from 1 to `total`."""
    rise = update / min(WARM_UP, max(total // 10, 1))
    return min(1.0, rise) * min(1.0, max(LEAST_RATE, 2 * (1 - update / total)))


class SpanGrammarTrainer(Trainer[SpanGrammarSettings]):
    """Trains the grammar, the grammars of the folds, the forests of each fold, then epochs.

    A step is a round of a grammar, the forests of a fold, or an epoch.

    value: the value of the grammar's trainer, then the mean loss of the forests if all scores are
        0, then that of the last epoch, in nats a sentence.
    losses: the value of each epoch.
    left_out: number of sentences without a forest.

    In reports from the trainers of grammars the number is that of the fold, from 1, or 0 for the
    grammar of all sentences. In "forests" it is that of the fold, with the number of sentences
    parsed, and in "network" that of the epoch, from 1, with that of the update.
    """

    kept = ("weight", "squares", "batch", "loss", "losses")

    def __init__(
        self, settings: SpanGrammarSettings, data: Data, *, make_engine: MakeEngine = make_engine
    ):
        super().__init__(settings, make_engine=make_engine)
        self._trees: list[Tree] = []
        self.add(data)

    def take(self, data: Data) -> None:
        """Take trees. These may have rules that the grammar lacks, so training begins again."""
        self._trees += training_trees(data)
        self._words = [tree.words() for tree in self._trees]
        self._folds = Folds(len(self._trees), self.settings.folds)
        self._grammars: list[NDArray[np.uint8]] = []
        self._full: LatentGrammar | None = None
        self._current: Trainer[Any] | None = self._grammar_trainer(0)
        self._forests: TrainingForests | None = None
        self._scorer: LinearScorer | None = None
        self.weight, self.squares = float(self.settings.weight), 0.0
        self.batch, self.loss = 0, 0.0
        self.losses: list[float] = []
        self.left_out = 0
        self.value = 0.0
        self.n_iterations = 0

    def iterate(self) -> bool:
        """Train a round of a grammar, parse a fold, or train an epoch.

        Raises StructlearnError if there is only one tree, which makes no folds.
        """
        if len(self._grammars) <= len(self._folds):
            self._round()
        elif self._folds.n_parsed < len(self._folds):
            self._make_forests(self._folds.n_parsed + 1)
        else:
            self._epoch()
        self.n_iterations += 1
        return not self._done

    def parameters(self) -> SpanGrammar:
        """Return the present grammar."""
        grammar = self._full
        if grammar is None:
            assert self._current is not None
            grammar = self._current.parameters()
        features = None if self._scorer is None else self._scorer.weights
        return SpanGrammar(grammar, self.weight, features)

    @property
    def _done(self) -> bool:
        """Whether the last epoch is over."""
        return (
            self._folds.n_parsed == len(self._folds)
            and len(self.losses) >= self.settings.max_iterations
        )

    # --- grammars and forests -----------------------------------------------------------------
    def _grammar_trainer(self, number: int) -> Trainer[Any]:
        """Return the trainer of the grammar of all sentences (0), or of all but a fold (from 1)."""
        trees = self._trees
        if not number:
            return self.settings.base.trainer(None, [trees], make_engine=self.make_engine)
        rest = self._folds.rest(number - 1, trees)
        return self.settings.fold_base.trainer(None, [rest], make_engine=self.make_engine)

    def _round(self) -> None:
        number = len(self._grammars)
        if len(self._folds) < 2:
            raise StructlearnError("SL434", problem="one tree alone, which makes no folds")
        if self._current is None:
            self._current = self._grammar_trainer(number)
        current = self._current
        current.on_iteration = lambda _, phase, i, value: self.report(number, phase, i, value)
        more = current.step()
        self.value = current.value
        if not more:
            grammar = current.parameters()
            if not number:
                self._full = grammar
            self._grammars.append(serialization.nested(grammar.to_bytes()))
            self._current = None

    def _make_forests(self, folds: int) -> None:
        """Parse the first folds, up to this number, unless they are parsed already."""
        if self._forests is not None:
            return
        self._folds.parse(folds, self._parse_fold)
        self.left_out = self._folds.left_out
        if not self.losses:
            self.value = self._folds.loss
        if folds == len(self._folds):
            self._forests, self._folds.parts = TrainingForests.joined(self._folds.parts), []

    def _parse_fold(self, fold: int, numbers: NDArray[np.int64]) -> TrainingForests:
        assert self._full is not None
        return training_forests(
            LatentGrammar.from_bytes(self._grammars[fold + 1].tobytes()),
            self._full,
            self._words,
            self._trees,
            numbers,
            threshold=self.settings.threshold,
            threads=self.settings.threads,
            report=partial(self.report, fold + 1, "forests"),
        )

    # --- epochs -------------------------------------------------------------------------------
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
        seen = sum(len(cut) for cut in cuts[: self.batch])
        while self.batch < len(cuts):
            chosen = cuts[self.batch]
            update = number * len(cuts) + self.batch + 1
            self._update(
                forests, chosen, learn_rate_factor(update, settings.max_iterations * len(cuts))
            )
            seen += len(chosen)
            self.batch += 1
            before, now = ((self.batch - i) * REPORTS // len(cuts) for i in (1, 0))
            if now > before:
                self.report(number + 1, "network", self.batch, -self.loss / seen)
        self.value = self.loss / max(seen, 1)
        self.losses.append(self.value)
        self.batch, self.loss = 0, 0.0
        if self._done:
            self._forests = None  # too large to be kept as long as the trainer

    def _update(self, forests: TrainingForests, chosen: NDArray[np.int64], factor: float) -> None:
        """Take a step towards the trees of some sentences."""
        assert self._scorer is not None
        settings = self.settings
        graphs, target = forests.select(chosen)
        numbers = forests.numbers[chosen].tolist()
        words = [self._words[number] for number in numbers]
        scores, backprop = self._scorer.begin_update(words, graphs)
        losses, gradient, by_weight = conditional_loss(graphs, target, scores, self.weight)
        gradient[np.abs(gradient) < NEGLIGIBLE] = 0.0
        gradient /= len(chosen)
        backprop(gradient)
        self._scorer.finish_update(factor)
        if settings.fit_weight:
            slope = by_weight / len(chosen)
            self.squares += slope * slope
            if self.squares:
                rate = factor * settings.weight_learn_rate / np.sqrt(self.squares)
                self.weight = max(float(self.weight - rate * slope), 0.0)
        self.loss += float(losses.sum())

    def _new_scorer(self) -> LinearScorer:
        settings, full = self.settings.features, self._full
        assert full is not None
        weights = SpanWeights.untrained(settings, self._words, full.symbols)
        return LinearScorer(weights, settings)

    # --- state --------------------------------------------------------------------------------
    def data_digest(self) -> bytes:
        return array_digest(*(f"{tree}\n" for tree in self._trees))

    def state(self) -> dict[str, Any]:
        """Return the state. It has no forests: the grammars of the folds make them again."""
        current, scorer = self._current, self._scorer
        return super().state() | {
            "grammars": self._grammars,
            "current": None if current is None else serialization.nested(current.to_bytes()),
            "n_forests": self._folds.n_parsed,
            "scorer": None if scorer is None else scorer.state(),
        }

    def restore(self, state: dict[str, Any]) -> bool | None:
        super().restore(state)
        self._grammars = [np.asarray(grammar, dtype=np.uint8) for grammar in state["grammars"]]
        self._current = None
        if state["current"] is not None:
            self._current = self._grammar_trainer(len(self._grammars))
            if not self._current.resume(state["current"].tobytes()):
                return False
        self._full = None
        if self._grammars:
            self._full = LatentGrammar.from_bytes(self._grammars[0].tobytes())
        # A new object: if the state is damaged, the old one is restored.
        self._folds = Folds(len(self._trees), self.settings.folds, int(state["n_forests"]))
        self._forests = self._scorer = None
        if state["scorer"] is not None:
            self._scorer = self._new_scorer()
            self._scorer.load(state["scorer"])
        return None


def training_trees(data: Iterable[Any]) -> list[Tree]:
    """Collect the trees of training data."""
    trees: list[Tree] = []
    for item in data:
        if isinstance(item, TreebankData):
            trees += [to_tree(item, number) for number in range(item.n_trees)]
            continue
        for tree in [item] if isinstance(item, Tree) or not isinstance(item, Iterable) else item:
            if not isinstance(tree, Tree):
                kind = type(tree).__name__
                raise StructlearnError("SL434", problem=f"something of the type {kind}")
            trees.append(tree)
    return trees
