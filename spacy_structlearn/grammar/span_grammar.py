"""Scores of spans: a log-linear model of the trees that a latent grammar leaves of a sentence.

The grammar parses, and each production of the forest that is left has a posterior, of which the
variational distribution of Matsuzaki et al. (2005) is made. With scores s of symbols over spans,

    log P(tree | words) = weight * log P_variational(tree | words) + sum of s(X, i, j) - log Z

over the trees of the forest, a CRF as in Hall, Durrett & Klein (2014), whose scores are linear in
features of the span, and Durrett & Klein (2015), where a network gives them. It is trained by
conditional likelihood. Sentences that a grammar has seen have other forests than those that are to
be parsed, so grammars of the other folds parse the training data; where the gold tree is not in the
forest, the tree closest to it stands for it, as in reranking (Charniak & Johnson 2005).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .. import serialization
from ..errors import StructlearnError
from ..trees.tree import Tree
from .decode import ChartParser
from .estimators import Callback, SplitMerge
from .hypergraph import Floats, Hypergraphs, Mask, Scorer
from .model import LatentGrammar
from .product import GrammarEstimator, GrammarTrainer, Product
from .span_features import LinearScorer, SpanFeatures
from .span_model import SpanGrammar
from .symbols import Symbols, TreebankData, renumbering, to_tree

_KIND = "anchored_grammar_state"
_VERSION = 1
REPORTS = 20  # calls of `on_iteration` in an epoch or for the forests of a fold, at most
WARM_UP = 100  # updates in which the learning rate rises, but at most a tenth of all
LEAST_RATE = 0.02  # of the learning rate, at the end of its fall
NEGLIGIBLE = 1e-5  # gradients below are taken for 0: subnormal numbers take ten times as long
_POOL = 16  # batches whose sentences are sorted by length together

# A tree of the treebank, or what a network reads of its tokens, and the tree.
Sentence = Tree | tuple[Any, Tree]
Data = Sequence[Sentence | Sequence[Sentence] | TreebankData]


class TrainedScorer(Scorer, Protocol):
    """A scorer in training."""

    def begin_update(
        self, sentences: Sequence[Sequence[str]], tokens: Sequence[Any] | None, graphs: Hypergraphs
    ) -> tuple[Floats, Callable[[Floats], None]]:
        """Scores as of `scores`, and a function that takes the gradient of the loss at them."""
        ...

    def finish_update(self, learn_rate_factor: float) -> None:
        """One step of the optimiser. learn_rate_factor: from 0 to 1, of the learning rate."""
        ...

    def state(self) -> dict[str, Any]:
        """Parameters and optimiser, of what `serialization.pack` can store; a copy."""
        ...

    def load(self, state: dict[str, Any]) -> None:
        """Go on from `state`, bit for bit."""
        ...


class NetworkScorer(TrainedScorer, Protocol):
    """A trained scorer that reads tokens, and that more than one training may have; see `neural`.

    settings: all that its training follows from beside the data, of which `repr` tells all.
    """

    @property
    def settings(self) -> Any: ...

    def prepare(self, tokens: Sequence[Any], symbols: Symbols) -> None:
        """Begin a training; what an earlier one has changed is set back."""
        ...

    def finish(self) -> None:
        """End the training."""
        ...


@dataclass(frozen=True)
class SpanGrammarSettings:
    """How an `SpanGrammar` is learned.

    base: the grammar, or a product of them. folds: the sentences are cut in so many blocks, in the
    order given, and those of each are parsed by a grammar of the others. fold_grammars: so many are
    multiplied in each fold; one will do where base is a product, too. threshold: posteriors below
    are pruned in the forests; it should be that of parsing. features: of linear scores. network: a
    trained scorer beside them, or alone; it is changed in place. epochs: passes through the
    sentences. batch_size: sentences in an update. weight: of the grammar; fit_weight: whether it is
    trained too, with weight_learn_rate (AdaGrad). seed: of the order of the sentences. threads: so
    many share the forests; the result is the same.
    Raises StructlearnError SL406 for a setting out of range.
    """

    base: GrammarEstimator | Product = field(default_factory=SplitMerge)
    folds: int = 5
    fold_grammars: int = 1
    threshold: float = 1e-4
    features: SpanFeatures | None = None
    network: NetworkScorer | None = None
    epochs: int = 6
    batch_size: int = 32
    weight: float = 1.0
    fit_weight: bool = True
    weight_learn_rate: float = 0.01
    seed: int = 0
    threads: int = 1

    attributes: ClassVar[tuple[str, ...]] = ("ORTH",)

    def __post_init__(self) -> None:
        trained = self.fit_weight or self.features is not None or self.network is not None
        for name, wanted, sound in (
            ("folds", "2 or more", self.folds >= 2),
            ("fold_grammars", "1 or more", self.fold_grammars >= 1),
            ("threshold", "0 to 1", 0 <= self.threshold <= 1),
            ("features", "given where neither network nor weight is trained", trained),
            ("epochs", "0 or more", self.epochs >= 0),
            ("batch_size", "1 or more", self.batch_size >= 1),
            ("weight", "0 or more", 0 <= self.weight < np.inf),
            ("weight_learn_rate", "0 or more", 0 <= self.weight_learn_rate < np.inf),
            ("seed", "0 or more", self.seed >= 0),
            ("threads", "1 or more", self.threads >= 1),
        ):
            if not sound:
                value = getattr(self, name)
                raise StructlearnError("SL406", name=name, wanted=wanted, value=value)

    @property
    def fold_base(self) -> GrammarEstimator | Product:
        """How the grammars of the folds are learned."""
        single = self._single
        return single if self.fold_grammars == 1 else Product(single, self.fold_grammars)

    @property
    def max_iterations(self) -> int:
        """Calls of `on_iteration` and steps after which there is another, at most."""
        rounds = self.base.max_iterations + 1 + self.folds * (self.fold_base.max_iterations + 1)
        return rounds + (self.folds + self.epochs) * (REPORTS + 1) - 1

    def encode(self, data: Data) -> TreebankData:
        """All trees of `data`; see `SplitMerge`. Raises StructlearnError SL434, see `trainer`."""
        return self._single.encode([_Treebank.of(data).trees])

    def initialize(
        self,
        data: Data,
        labels: Sequence[str] = (),
        previous: SpanGrammar | None = None,
    ) -> SpanGrammar:
        """The treebank grammar, without features; see `SplitMerge`."""
        trees = _Treebank.of(data).trees
        return SpanGrammar(self.base.initialize([trees], labels), self.weight)

    def trainer(self, parameters: SpanGrammar | None, data: Data) -> SpanGrammarTrainer:
        """Training from the treebank grammar on; it follows from the data and the network alone.

        data: trees, pairs (tokens, tree), lists of either, or encoded trees, of which chains of
        unary productions come back as the most frequent ones.
        Raises StructlearnError SL434 for what is none of these.
        """
        return SpanGrammarTrainer(self, data)

    @property
    def _single(self) -> GrammarEstimator:
        return self.base.base if isinstance(self.base, Product) else self.base


class ConditionalLoss(NamedTuple):
    """- log P(tree | words), and its gradient.

    losses: float64 (s), of each sentence, in nats. items: float64 (I), the derivatives of their sum
    by the scores of the items; weight: by the weight of the grammar.
    """

    losses: Floats
    items: Floats
    weight: float


def conditional_loss(
    graphs: Hypergraphs, target: Mask, item_scores: Floats, weight: float
) -> ConditionalLoss:
    """The loss of trees in forests, and its gradient: expected minus observed numbers of items.

    target: the edges of the trees, a mask (E). item_scores: float64 (I). weight: of the grammar.
    """
    scores = graphs.edge_scores(item_scores, weight)
    log_z, posteriors = graphs.inside_outside(scores)
    owner = graphs.edge_sentences
    reached = np.bincount(owner[target], scores[target], len(graphs))
    difference = posteriors - target
    # An edge of score -inf is in no tree.
    moved = difference != 0
    by_weight = float(difference[moved] @ graphs.scores[moved])
    return ConditionalLoss(log_z - reached, graphs.item_posteriors(difference), by_weight)


def renumbered(graphs: Hypergraphs, old: LatentGrammar, new: LatentGrammar) -> Hypergraphs:
    """Forests by one grammar with the symbols and rules of another, which has all of them."""
    to = renumbering(old.symbols, new.symbols)
    items = graphs.items.copy()
    items[:, 0] = to[items[:, 0]]
    rules = {pair: rule for rule, pair in enumerate(map(tuple, new.rules.unary.tolist()))}
    # The last one is of edges without a rule.
    places = [*(rules[pair] for pair in map(tuple, to[old.rules.unary].tolist())), -1]
    return replace(graphs, items=items, chain=np.array(places, dtype=np.int32)[graphs.chain])


@dataclass
class TrainingForests:
    """Parsed sentences: their forests and numbers, the edges that make their trees, and the loss
    of these, summed, if all scores are 0."""

    graphs: Hypergraphs
    numbers: NDArray[np.int64]
    target: Mask
    loss: float

    @classmethod
    def joined(cls, parts: Sequence[TrainingForests]) -> TrainingForests:
        """All in one, in this order."""
        return cls(
            Hypergraphs.joined([part.graphs for part in parts]),
            np.concatenate([part.numbers for part in parts]),
            np.concatenate([part.target for part in parts]),
            sum(part.loss for part in parts),
        )

    def select(self, chosen: NDArray[np.int64]) -> tuple[Hypergraphs, Mask]:
        """Some of the forests, by their places, and the edges of their trees."""
        offsets = self.graphs.edge_offsets
        own = [self.target[slice(*offsets[x : x + 2].tolist())] for x in chosen.tolist()]
        return self.graphs.select(chosen), np.concatenate(own)


def fold_bounds(n: int, folds: int) -> list[int]:
    """Where each fold of n sentences begins, and the last one ends; there are n folds at most."""
    folds = min(folds, n)
    return [n * fold // max(folds, 1) for fold in range(folds + 1)]


def training_forests(
    grammar: LatentGrammar,
    full: LatentGrammar,
    words: Sequence[Sequence[str]],
    trees: Sequence[Tree],
    numbers: NDArray[np.int64],
    *,
    threshold: float,
    threads: int = 1,
    report: Callable[[int, float], None] | None = None,
) -> TrainingForests:
    """The forests that a grammar leaves of sentences, and in each the tree closest to the gold one.

    grammar: parses; full: whose symbols and rules the forests are to have, all of those of
    `grammar` and maybe more. words, trees: of all sentences; numbers: which of these to parse, in
    ascending order. threshold: of posteriors. report: called now and then with how many are done,
    and the mean loss of these if all scores were 0.
    """
    thresholds = (threshold,) * max(grammar.depth, 1)
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
            report(done, loss / max(parsed, 1))
    return TrainingForests.joined(found)


def batches(
    lengths: NDArray[np.integer], batch_size: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Numbers of sentences, in random order, in batches of such that are about equally long.

    lengths: (n), of the sentences.
    """
    order = rng.permutation(len(lengths))
    found: list[NDArray[np.int64]] = []
    for begin in range(0, len(order), batch_size * _POOL):
        pool = order[begin : begin + batch_size * _POOL]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        found += [pool[first : first + batch_size] for first in range(0, len(pool), batch_size)]
    return [found[i] for i in rng.permutation(len(found))]


def learn_rate_factor(update: int, total: int) -> float:
    """Of the learning rate, in an update, from 1, of `total`: it rises, stays, and falls."""
    rise = update / min(WARM_UP, max(total // 10, 1))
    return min(1.0, rise) * min(1.0, max(LEAST_RATE, 2 * (1 - update / total)))


class SpanGrammarTrainer:
    """The grammar, those of the folds, the forests of each fold, then epochs.

    A step is a round of a grammar, the forests of a fold, or an epoch. value: of a grammar, see its
    own trainer; then the mean loss of the last epoch, in nats a sentence, or of the forests so far
    if all scores were 0. n_iterations: steps so far. losses: the value of each epoch. left_out:
    sentences without a forest. on_iteration: called between the parts of a step with a number, the
    phase, the iteration in it, and minus a value: in the phases of the grammars' own trainers the
    number is that of the fold, from 1, or 0 for the grammar of all sentences; in "forests" that of
    the fold and how many sentences are done, in "network" that of the epoch, from 1, and of the
    update. The state may be saved there too.
    """

    def __init__(self, settings: SpanGrammarSettings, data: Data):
        self.settings = settings
        self.on_iteration: Callback | None = None
        self._begin(_Treebank.of(data))

    def _begin(self, data: _Treebank) -> None:
        self._data = data
        self._bounds = fold_bounds(len(data.trees), self.settings.folds)
        self._grammars: list[NDArray[np.uint8]] = []
        self._full: LatentGrammar | None = None
        self._current: GrammarTrainer | None = self._grammar_trainer(0)
        self._n_forests = 0  # folds that have had theirs; after `resume` they are made again
        self._parts: list[TrainingForests] = []
        self._forests: TrainingForests | None = None
        self._scorers: list[TrainedScorer] | None = None
        self._weight, self._squares = self.settings.weight, 0.0
        self._batch, self._loss = 0, 0.0
        self._fingerprint: str | None = None
        self.losses: list[float] = []
        self.left_out = 0
        self.value = 0.0
        self.n_iterations = 0

    def add(self, data: Data) -> None:
        """More trees: training begins again; see `SplitMergeTrainer.add`."""
        self._begin(self._data + _Treebank.of(data))

    def step(self) -> bool:
        """A round of a grammar, a fold's forests, or an epoch. Returns False once all are done.

        Raises StructlearnError SL434 if there is only one tree, of which no fold can be made, SL435
        if sentences have no tokens and a network is to be trained.
        """
        if self._done:
            return False
        if len(self._grammars) <= self._n_folds:
            self._round()
        elif self._n_forests < self._n_folds:
            self._make_forests(self._n_forests + 1)
        else:
            self._epoch()
        self.n_iterations += 1
        return not self._done

    def parameters(self) -> SpanGrammar:
        """The grammar so far."""
        grammar = self._full
        if grammar is None:
            assert self._current is not None
            grammar = self._current.parameters()
        features = None
        if self._scorers is not None and self.settings.features is not None:
            linear = self._scorers[0]
            assert isinstance(linear, LinearScorer)
            features = linear.weights
        return SpanGrammar(grammar, self._weight, features)

    @property
    def _n_folds(self) -> int:
        return len(self._bounds) - 1

    @property
    def _done(self) -> bool:
        """Whether the last epoch is over."""
        return self._n_forests == self._n_folds and len(self.losses) >= self.settings.epochs

    # --- grammars and forests -----------------------------------------------------------------
    def _grammar_trainer(self, number: int) -> GrammarTrainer:
        """Of the grammar of all sentences, 0, or of those that are not in a fold, from 1."""
        trees = self._data.trees
        if not number:
            return self.settings.base.trainer(None, [trees])
        begin, end = self._bounds[number - 1 : number + 1]
        return self.settings.fold_base.trainer(None, [trees[:begin] + trees[end:]])

    def _round(self) -> None:
        number = len(self._grammars)
        if self._n_folds < 2:
            raise StructlearnError("SL434", problem="one tree alone, which makes no folds")
        if self._current is None:
            self._current = self._grammar_trainer(number)
        current = self._current

        def report(_: int, phase: str, iteration: int, value: float) -> None:
            self._report(number, phase, iteration, value)

        current.on_iteration = report
        more = current.step()
        self.value = current.value
        if not more:
            grammar = current.parameters()
            if not number:
                self._full = grammar
            self._grammars.append(serialization.nested(grammar.to_bytes()))
            self._current = None

    def _make_forests(self, folds: int) -> None:
        """Those of so many folds that are not there yet."""
        if self._forests is not None:
            return
        while len(self._parts) < folds:
            self._parts.append(self._held_out(len(self._parts)))
        self._n_forests = folds
        parsed = sum(len(part.numbers) for part in self._parts)
        self.left_out = self._bounds[folds] - parsed
        if not self.losses:
            self.value = sum(part.loss for part in self._parts) / max(parsed, 1)
        if folds == self._n_folds:
            self._forests, self._parts = TrainingForests.joined(self._parts), []

    def _held_out(self, fold: int) -> TrainingForests:
        """The sentences of a fold, parsed by the grammar of the others."""
        assert self._full is not None
        begin, end = self._bounds[fold : fold + 2]

        def report(done: int, loss: float) -> None:
            self._report(fold + 1, "forests", done, -loss)

        return training_forests(
            LatentGrammar.from_bytes(self._grammars[fold + 1].tobytes()),
            self._full,
            self._data.words,
            self._data.trees,
            np.arange(begin, end),
            threshold=self.settings.threshold,
            threads=self.settings.threads,
            report=report,
        )

    # --- epochs -------------------------------------------------------------------------------
    def _epoch(self) -> None:
        settings = self.settings
        self._make_forests(self._n_forests)
        forests = self._forests
        assert forests is not None
        if self._scorers is None:
            self._scorers = self._new_scorers(self._full)
        number = len(self.losses)
        rng = np.random.default_rng([settings.seed, number])
        cuts = batches(forests.graphs.n_words, settings.batch_size, rng)
        seen = sum(len(cut) for cut in cuts[: self._batch])
        while self._batch < len(cuts):
            chosen = cuts[self._batch]
            update = number * len(cuts) + self._batch + 1
            self._update(forests, chosen, learn_rate_factor(update, settings.epochs * len(cuts)))
            seen += len(chosen)
            self._batch += 1
            before, now = ((self._batch - i) * REPORTS // len(cuts) for i in (1, 0))
            if now > before:
                self._report(number + 1, "network", self._batch, -self._loss / seen)
        self.value = self._loss / max(seen, 1)
        self.losses.append(self.value)
        self._batch, self._loss = 0, 0.0
        if self._done:
            self._forests = None  # of all sentences: too much to be kept as long as the trainer
            if settings.network is not None:
                settings.network.finish()

    def _update(self, forests: TrainingForests, chosen: NDArray[np.int64], factor: float) -> None:
        """One step of all that is trained, towards the trees of some sentences."""
        assert self._scorers is not None
        settings, data = self.settings, self._data
        graphs, target = forests.select(chosen)
        numbers = forests.numbers[chosen].tolist()
        words = [data.words[number] for number in numbers]
        tokens = None if data.tokens is None else [data.tokens[number] for number in numbers]
        begun = [scorer.begin_update(words, tokens, graphs) for scorer in self._scorers]
        total = sum((scores for scores, _ in begun), np.zeros(len(graphs.items)))
        losses, gradient, by_weight = conditional_loss(graphs, target, total, self._weight)
        gradient[np.abs(gradient) < NEGLIGIBLE] = 0.0
        gradient /= len(chosen)
        for _, backprop in begun:
            backprop(gradient)
        for scorer in self._scorers:
            scorer.finish_update(factor)
        if settings.fit_weight:
            slope = by_weight / len(chosen)
            self._squares += slope * slope
            if self._squares:
                rate = factor * settings.weight_learn_rate / np.sqrt(self._squares)
                self._weight = max(float(self._weight - rate * slope), 0.0)
        self._loss += float(losses.sum())

    def _new_scorers(self, full: LatentGrammar | None) -> list[TrainedScorer]:
        """Those of the settings, the linear one first. full: the grammar of all sentences."""
        settings, data = self.settings, self._data
        assert full is not None
        scorers: list[TrainedScorer] = []
        if settings.features is not None:
            weights = settings.features.initialize(data.words, full.symbols)
            scorers.append(LinearScorer(weights, settings.features))
        if settings.network is not None:
            if data.tokens is None:
                raise StructlearnError("SL435", number=data.without_tokens, of=len(data.trees))
            settings.network.prepare(data.tokens, full.symbols)
            scorers.append(settings.network)
        return scorers

    def _report(self, number: int, phase: str, iteration: int, value: float) -> None:
        if self.on_iteration is not None:
            self.on_iteration(number, phase, iteration, value)

    # --- state --------------------------------------------------------------------------------
    def to_bytes(self) -> bytes:
        """The state of the training, to go on bit for bit with the same data and settings.

        Forests are no part of it: the grammars of the folds make them again.
        """
        current, scorers = self._current, self._scorers
        own = {
            "fingerprint": self._identity(),
            "grammars": self._grammars,
            "current": None if current is None else serialization.nested(current.to_bytes()),
            "n_forests": self._n_forests,
            "scorers": None if scorers is None else [scorer.state() for scorer in scorers],
            "weight": self._weight,
            "squares": self._squares,
            "batch": self._batch,
            "loss": self._loss,
            "losses": self.losses,
            "n_iterations": self.n_iterations,
            "value": self.value,
        }
        return serialization.pack(_KIND, _VERSION, own)

    def resume(self, state: bytes) -> bool:
        """Go on from `to_bytes`. Returns False if the state is of other data or settings.

        The forests are made again by the next step. Raises StructlearnError SL050 to SL054 if the
        bytes are no such state.
        """
        _, own = serialization.unpack(state, _KIND, {_VERSION})
        if own.get("fingerprint") != self._identity():
            return False
        with serialization.reading(_KIND):
            grammars = [np.asarray(grammar, dtype=np.uint8) for grammar in own["grammars"]]
            current = None
            if own["current"] is not None:
                current = self._grammar_trainer(len(grammars))
                if not current.resume(own["current"].tobytes()):
                    return False
            full = LatentGrammar.from_bytes(grammars[0].tobytes()) if grammars else None
            n_forests, batch, n_iterations = (
                int(own[name]) for name in ("n_forests", "batch", "n_iterations")
            )
            weight, squares, loss, value = (
                float(own[name]) for name in ("weight", "squares", "loss", "value")
            )
            losses = [*map(float, own["losses"])]
            scorers = None
            if own["scorers"] is not None:
                scorers = self._new_scorers(full)
                for scorer, part in zip(scorers, own["scorers"], strict=True):
                    scorer.load(part)
        self._grammars, self._full, self._current = grammars, full, current
        self._n_forests, self._parts, self._forests = n_forests, [], None
        self._scorers, self._weight, self._squares = scorers, weight, squares
        self._batch, self._loss, self.losses = batch, loss, losses
        self.n_iterations, self.value = n_iterations, value
        return True

    def _identity(self) -> str:
        """Equal for equal trees and settings; threads make no difference."""
        if self._fingerprint is None:
            digest = blake2b(digest_size=16)
            digest.update(repr(outline(self.settings)).encode())
            for tree in self._data.trees:
                digest.update(str(tree).encode("utf8", "surrogatepass") + b"\n")
            self._fingerprint = digest.hexdigest()
        return self._fingerprint


@dataclass
class _Treebank:
    """Trees, the words of each, and their tokens, unless there are sentences without."""

    trees: list[Tree]
    parts: list[Any]

    def __post_init__(self) -> None:
        self.words = [tree.words() for tree in self.trees]

    @property
    def tokens(self) -> list[Any] | None:
        return None if self.without_tokens else self.parts

    @property
    def without_tokens(self) -> int:
        return sum(part is None for part in self.parts)

    @classmethod
    def of(cls, data: Iterable[Any]) -> _Treebank:
        """What a trainer is given."""
        trees: list[Tree] = []
        parts: list[Any] = []
        for item in data:
            if isinstance(item, TreebankData):
                trees += [to_tree(item, number) for number in range(item.n_trees)]
                parts += [None] * item.n_trees
                continue
            several = not _is_sentence(item) and isinstance(item, Iterable)
            for sentence in item if several else [item]:
                if not _is_sentence(sentence):
                    kind = type(sentence).__name__
                    raise StructlearnError("SL434", problem=f"something of the type {kind}")
                part, tree = (None, sentence) if isinstance(sentence, Tree) else sentence
                trees.append(tree)
                parts.append(part)
        return cls(trees, parts)

    def __add__(self, other: _Treebank) -> _Treebank:
        return _Treebank(self.trees + other.trees, self.parts + other.parts)


def _is_sentence(item: Any) -> bool:
    if isinstance(item, tuple) and len(item) == 2:
        return isinstance(item[1], Tree) and not isinstance(item[0], Tree)
    return isinstance(item, Tree)


def outline(settings: Any) -> tuple[str, list[tuple[str, Any]]]:
    """The type and the values of settings, of those that make a difference to the result."""
    found = []
    for part in fields(settings):
        value = getattr(settings, part.name)
        if part.name == "network" and value is not None:
            value = value.settings
        if part.name not in ("threads", "folder"):
            found.append((part.name, outline(value) if is_dataclass(value) else value))
    return type(settings).__name__, found
