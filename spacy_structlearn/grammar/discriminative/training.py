"""Discriminative latent grammars, trained level after level.

Petrov & Klein (2007), section 3: generative rounds of splitting give the tree of splits and, for
each level, where to start from ("interleaved" training), or each level starts from the parameters
of the one before it, copied. What a trained level finds impossible is pruned for the levels after
it, once, before each of these is trained.

In place of L-BFGS on all sentences there are steps along the gradients of a few at a time, of
AdaGrad, see `optimize.adagrad`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from ...learning.training import Trainer
from ...optimize.adagrad import AdaGrad
from ...optimize.lbfgs import LBFGS
from ...optimize.owlqn import OWLQN
from ...parallel.shards import MakeEngine, make_engine, split
from ...serialization import nested
from ..chart.decode import compile_grammar
from ..latent.model import LatentGrammar, Level
from ..latent.settings import LatentGrammarSettings
from ..latent.split_merge import NOISE
from ..latent.training import TreebankTrainer
from ..treebank.symbols import TreebankData
from .forests import (
    ForestStatistics,
    GoldTrees,
    RebuiltForests,
    Terminals,
    Weights,
    coarse_forests,
    joined,
)
from .objective import (
    GrammarLikelihood,
    GrammarShard,
    Parameterization,
    Parts,
    TerminalMap,
    ancestor_places,
    level_weights,
    parameterization_of,
    terminals_of,
    with_levels,
    without_backoff,
)
from .settings import ConditionalGrammarSettings

AT_ONCE = 256  # sentences whose forests of levels that are not trained are in memory
FLOOR = 1e-3  # of probabilities that parameters start from, where these are the weights themselves


@dataclass(frozen=True)
class LevelRecord:
    """How the training of a level went.

    level: its number. iterations, evaluations: of the objective, or with AdaGrad passes, and
    evaluations of batches. value: of the objective, with its priors; log_likelihood: of the trees
    given the words, in nats. parameters: how many there are; nonzero: other than zero. status: why
    it ended, see `LBFGS`. left_out: sentences without a
    parse. forests: what was kept of the parses.
    """

    level: int
    iterations: int
    evaluations: int
    value: float
    log_likelihood: float
    parameters: int
    nonzero: int
    status: str
    left_out: int
    forests: ForestStatistics


class ConditionalGrammarTrainer(TreebankTrainer[ConditionalGrammarSettings]):
    """Generative rounds, then conditional training of each level; a step is one of either.

    value: the objective at the present parameters; during a pass of AdaGrad, at those that each
    batch met. records: of the levels that are done. on_iteration: called after each E-step and each
    iteration of the solver with the number of the round or level, the phase ("split", "merge",
    "smooth" or "conditional"), the iteration and the log-likelihood or, of a conditional phase,
    minus the objective.
    """

    _started: Objectives | None = None

    def begin(self) -> None:
        """The training of the generative grammar."""
        self._generative = self._generative_trainer()
        self._done: list[NDArray[np.float64]] = []
        self._lost = np.empty(0, dtype=np.int64)
        self._optimizer: LBFGS | AdaGrad | None = None
        self.records: list[LevelRecord] = []

    def _generative_trainer(self) -> Trainer[LatentGrammarSettings]:
        settings = self.settings.generative
        return settings.trainer(None, [self._data], make_engine=self.make_engine)

    def iterate(self) -> bool:
        """One round or one level. Returns False once all are done."""
        if not self._generative.finished:
            self._generative.on_iteration = self.report
            self._generative.step()
            self.value = self._generative.value
        else:
            self._train_level()
        self.n_iterations += 1
        return not self._generative.finished or self._next_level <= self.settings.rounds

    def close(self) -> None:
        """End the threads and let go of the forests."""
        if self._started is not None:
            self._lost = self._started.lost
            self._started.close()
            self._started = None

    def parameters(self) -> LatentGrammar:
        """The grammar so far: levels not yet trained are generative."""
        if not self._generative.finished:
            return self._generative.parameters()
        whole = self.generative_grammar()
        levels, words = list(whole.levels), list(whole.lexicon.levels)
        settings = self.settings
        for number, theta in self.trained.items():
            parameters = parameterization_of(whole, number, settings.base)
            levels[number], words[number] = parameters.refined(theta)
        return with_levels(whole, levels, words)

    @property
    def trained(self) -> dict[int, NDArray[np.float64]]:
        """By its number, the parameters of each level that is done."""
        return dict(enumerate(self._done, self.settings.first_level))

    @property
    def _next_level(self) -> int:
        return self.settings.first_level + len(self._done)

    def _train_level(self) -> None:
        settings = self.settings
        number, trained = self._next_level, self.trained
        if self._started is None:
            whole, data = self.generative_grammar(), self._data
            if settings.solver == "adagrad":
                # Of neighbours, sentences of one text, no batch is like the treebank.
                order = np.random.default_rng(settings.seed).permutation(data.n_trees)
                data = data.subset(order)
            self._started = Objectives(
                settings,
                data,
                whole,
                number,
                trained,
                self._lost,
                make_engine=self.make_engine,
            )
        own = self._started
        optimizer = self._optimizer
        begun = optimizer is not None and optimizer.n_evaluations > 0
        objective = own.objective(number, trained, may_lose=not begun)
        if optimizer is None:
            start = objective.parameterization.initial(FLOOR)
            if settings.start == "copy" and self._done:
                before = own.parameterization(number - 1, settings.base)
                theta = self._done[-1]
                start = copied(before, objective.parameterization, theta, settings.seed)
            optimizer = self._optimizer = self._new_optimizer(start)
        while optimizer.n_iterations < settings.conditional_iterations:
            if isinstance(optimizer, AdaGrad):
                more = optimizer.step(objective.batches(own.engine.shards))
            else:
                more = optimizer.step(objective.value_and_grad)
            self.value = optimizer.value or 0.0
            self.report(number, "conditional", optimizer.n_iterations, -self.value)
            if not more:
                break
        theta = optimizer.x
        if isinstance(optimizer, AdaGrad):
            smooth, _ = objective.value_and_grad(theta)
            self.value = smooth + settings.l1 * float(np.abs(theta).sum())
        self._done.append(theta)
        self._optimizer = None
        prior = settings.l1 * np.abs(theta).sum() + 0.5 * settings.l2 * float(theta @ theta)
        self.records.append(
            LevelRecord(
                number,
                optimizer.n_iterations,
                optimizer.n_evaluations,
                self.value,
                float(prior - self.value),
                len(theta),
                int(np.count_nonzero(theta)),
                optimizer.status,
                own.left_out,
                own.statistics,
            )
        )

    def generative_grammar(self) -> LatentGrammar:
        """What the levels start from, with whole rows of signatures."""
        return without_backoff(self._generative.parameters())

    def _new_optimizer(self, start: NDArray[np.float64]) -> LBFGS | AdaGrad:
        own = self.settings
        if own.solver == "adagrad":
            return AdaGrad(
                start,
                l1=own.l1,
                learn_rate=own.learn_rate,
                value_tolerance=own.conditional_tolerance,
                seed=own.seed,
            )
        settings = {"memory": own.memory, "value_tolerance": own.conditional_tolerance}
        if own.l1:
            return OWLQN(start, l1=own.l1, **settings)
        return LBFGS(start, **settings)

    def state(self) -> dict[str, Any]:
        """The generative rounds, the levels that are done, and how far the next one is."""
        optimizer = self._optimizer
        return {
            "generative": nested(self._generative.to_bytes()),
            "levels": self._done,
            "lost": self._lost if self._started is None else self._started.lost,
            "optimizer": None if optimizer is None else nested(optimizer.to_bytes()),
            "records": [list(astuple(record)) for record in self.records],
        }

    def restore(self, state: dict[str, Any]) -> bool:
        """Set what `state` gave."""
        generative = self._generative_trainer()
        if not generative.resume(state["generative"].tobytes()):
            return False
        lost = np.array(state["lost"], dtype=np.int64)
        done = [np.array(theta, dtype=np.float64) for theta in state["levels"]]
        kind: type[AdaGrad | LBFGS] = OWLQN if self.settings.l1 else LBFGS
        if self.settings.solver == "adagrad":
            kind = AdaGrad
        own = state["optimizer"]
        optimizer = None if own is None else kind.from_bytes(own.tobytes())
        records = [
            LevelRecord(*record[:-1], ForestStatistics(*record[-1])) for record in state["records"]
        ]
        self.close()
        self._generative, self._done, self._lost = generative, done, lost
        self._optimizer, self.records = optimizer, records
        return True


class Objectives:
    """The forests of the data, and the objective of one level after another.

    grammar: generative, with rows of signatures as `without_backoff` makes them. level: the first
    whose objective is wanted. trained: by number, the parameters of those levels before it that are
    not generative. lost: int64, sentences to leave out. Cached forests of levels before the first
    are in memory for a few hundred sentences at a time.
    """

    def __init__(
        self,
        settings: ConditionalGrammarSettings,
        data: TreebankData,
        grammar: LatentGrammar,
        level: int = 0,
        trained: Mapping[int, NDArray[np.float64]] | None = None,
        lost: Sequence[int] | NDArray[np.int64] = (),
        *,
        make_engine: MakeEngine = make_engine,
    ):
        self.settings = settings
        self.grammar = grammar
        self._data = data
        self._folder: Path | None = None
        self._removal: finalize | None = None
        if settings.folder is not None and settings.pruning == "cached":
            settings.folder.mkdir(parents=True, exist_ok=True)
            # Of these objectives alone, since others may be at work in the same place.
            self._folder = Path(mkdtemp(prefix="forests-", dir=settings.folder))
            self._removal = finalize(self, rmtree, self._folder, ignore_errors=True)
        cascade = []
        self._level = 0
        if settings.pruning == "cached":
            cascade = [self._weights(number, trained or {}) for number in range(level)]
            self._level = level
        recipe = _Recipe(settings, grammar, cascade, self._folder)
        parts = [
            _ForestPart(number, chosen.start, data.subset(np.arange(chosen.start, chosen.stop)))
            for number, chosen in enumerate(split(data.offsets, settings.n_shards(data.n_trees)))
        ]
        self.engine = make_engine(_make_shard, recipe, parts, settings.threads)
        keys = np.unique(np.concatenate(self.engine.map(_keys_of)))
        self.terminals = terminals_of(keys, grammar.symbols.n_tags)
        self.engine.update(GrammarShard.number, keys)
        self.engine.update(GrammarShard.leave_out, np.asarray(lost, dtype=np.int64))

    def close(self) -> None:
        """End the threads, and let go of the forests and their files."""
        self.engine.close()
        if self._removal is not None:
            self._removal()

    @property
    def left_out(self) -> int:
        """Sentences without a parse, by the coarsest grammar or by float32 arithmetic."""
        return self._data.n_trees - sum(self.engine.map(_n_sentences_of))

    @property
    def lost(self) -> NDArray[np.int64]:
        """The numbers of those that float32 has lost."""
        return np.concatenate(self.engine.map(_lost_by))

    @property
    def statistics(self) -> ForestStatistics:
        """What is kept of all sentences."""
        first, *others = self.engine.map(_statistics_of)
        return sum(others, first)

    def objective(
        self,
        number: int,
        trained: Mapping[int, NDArray[np.float64]],
        may_lose: bool = True,
    ) -> GrammarLikelihood:
        """The objective of a level, when what the levels before it find impossible is pruned.

        trained: the parameters of those that are not generative. may_lose: see
        `GrammarShard.begin`. Raises ValueError for a level before those of the forests.
        """
        if self._level > number:
            raise ValueError(f"forests of level {self._level} are none of level {number}")
        settings, levels = self.settings, self.grammar.levels
        while self._level < number:
            parts = self._weights(self._level, trained)
            weights = _level_weights(self.grammar, self._level, parts, self.terminals)
            self._level += 1
            limits = settings.threshold, settings.edge_factor
            self.engine.update(_refine_shard, weights, levels[self._level], *limits)
        self.engine.update(GrammarShard.begin, may_lose)
        return GrammarLikelihood(
            self.parameterization(number, settings.base),
            self.grammar.lexicon,
            self.terminals,
            self.engine,
            settings.l2,
        )

    def _weights(self, number: int, trained: Mapping[int, NDArray[np.float64]]) -> Parts:
        """Those of all productions of a level, trained or generative."""
        theta = trained.get(number)
        if theta is None:
            parameters = self.parameterization(number, "generative")
            return parameters.finite_weights(np.zeros(parameters.n_parameters))
        parameters = self.parameterization(number, self.settings.base)
        return parameters.finite_weights(theta)

    def parameterization(self, number: int, base: str) -> Parameterization:
        """Of a level of the grammar; see `parameterization_of`."""
        return parameterization_of(self.grammar, number, base)


@dataclass(frozen=True)
class _Recipe:
    """What the shards of some `Objectives` share.

    cascade: the weights of all levels before that of the forests.
    """

    settings: ConditionalGrammarSettings
    grammar: LatentGrammar
    cascade: Sequence[Parts]
    folder: Path | None


class _ForestPart(NamedTuple):
    """Some sentences of consecutive numbers: which part it is, the number of the first, and all."""

    number: int
    first: int
    data: TreebankData


def _make_shard(recipe: _Recipe, part: _ForestPart) -> GrammarShard:
    """Forests as the cascade leaves them, of terminals of their own."""
    settings, grammar, data = recipe.settings, recipe.grammar, part.data
    coarse = (data, GoldTrees(data), compile_grammar(grammar.truncated(1)), grammar.lexicon)
    limits = settings.threshold, settings.edge_factor
    if settings.pruning != "cached":
        threshold = 0.0 if settings.pruning == "none" else settings.threshold
        everything = range(data.n_trees)
        forests = RebuiltForests(*coarse, everything, threshold, settings.edge_factor)
        return GrammarShard(forests, first=part.first)
    done = []
    for begin in range(0, data.n_trees, AT_ONCE):
        some = coarse_forests(*coarse, range(begin, min(begin + AT_ONCE, data.n_trees)), *limits)
        terminals = terminals_of(some.terminal_keys, grammar.symbols.n_tags)
        for before, parts in enumerate(recipe.cascade):
            some.prune(_level_weights(grammar, before, parts, terminals), *limits)
            some.refine(grammar.levels[before + 1])
        done.append(some)
    folder = None if recipe.folder is None else recipe.folder / f"shard{part.number}"
    return GrammarShard(joined(data, done, folder), first=part.first)


def _level_weights(
    grammar: LatentGrammar, number: int, parts: Parts, terminals: Terminals
) -> Weights:
    level, n_tags = grammar.levels[number], grammar.symbols.n_tags
    own = TerminalMap(grammar.lexicon, terminals, level.substates[:n_tags])
    return level_weights(level, parts, own)


def _refine_shard(
    shard: GrammarShard, weights: Weights, level: Level, threshold: float, edge_factor: float
) -> None:
    """Leave out what a level finds impossible, and refine the rest to the next."""
    forests = shard.forests
    if isinstance(forests, RebuiltForests):
        forests.refine(weights, level)
    else:
        forests.prune(weights, threshold, edge_factor)
        forests.refine(level)


def _keys_of(shard: GrammarShard) -> NDArray[np.int64]:
    return shard.forests.terminal_keys


def _n_sentences_of(shard: GrammarShard) -> int:
    return len(shard.sentences)


def _lost_by(shard: GrammarShard) -> NDArray[np.int64]:
    return shard.lost


def _statistics_of(shard: GrammarShard) -> ForestStatistics:
    return shard.forests.statistics


def copied(
    before: Parameterization, after: Parameterization, theta: NDArray[np.float64], seed: int
) -> NDArray[np.float64]:
    """Parameters of a level: of each production those of what it refines, and a little noise.

    before, after: of two levels one after the other. theta: float64, of the one before.
    """
    old = before.parts_of(theta)
    n_rows = len(after.words.rows)
    places = ancestor_places(after.level, before.level, after.own_tags, after.n_tags, n_rows)
    found = after.parameters_of(
        Parts(*(values[chosen] for values, chosen in zip(old, places, strict=True)))
    )
    noise = np.random.default_rng([seed, int(after.level.size)])
    return found + noise.uniform(-0.5 * NOISE, 0.5 * NOISE, len(found))
