"""Discriminative latent grammars, trained level after level.

Petrov & Klein (2007), section 3. Rounds of generative training give the substates of each level and
its first weights ("interleaved" training); alternatively, a level starts from a copy of the weights
of the level before it. A trained level prunes the forests of the levels after it, once, before they
are trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import StructlearnError
from ...learning.training import Trainer
from ...optimize.lbfgs import LBFGS
from ...parallel.shards import make_engine, split
from ..chart.compiled import compile_grammar
from ..latent import training as latent
from ..latent.model import LatentGrammar, Level
from ..latent.settings import LatentGrammarSettings
from ..latent.split_merge import NOISE
from ..latent.stages import StagedTrainer
from ..treebank.data import TreebankData
from ..treebank.lexicon import LexiconLevel
from ..treebank.settings import Trees
from .forests import ForestStatistics, Weights, coarse_forests, joined
from .objective import (
    FLOOR,
    GrammarLikelihood,
    GrammarShard,
    Parameterization,
    Parts,
    TerminalMap,
    ancestor_places,
    without_backoff,
)
from .settings import ConditionalGrammarSettings

AT_ONCE = 256  # number of sentences whose unpruned forests are in memory at a time
MEMORY = 5  # number of corrections that L-BFGS keeps
Refined = tuple[Level, LexiconLevel]

initialize = latent.initialize


def trainer(settings: ConditionalGrammarSettings, parameters: Any, data: Trees) -> Trainer[Any]:
    """Start training from the treebank grammar of the data; `parameters` are not used.

    Raises StructlearnError for a prior, since weights of productions are no counts.
    """
    return latent.trainer(settings, parameters, data, trainer_of_one)


def trainer_of_one(settings: LatentGrammarSettings, data: Trees) -> Trainer[Any]:
    """The trainer of a single grammar, latent or conditional."""
    if not isinstance(settings, ConditionalGrammarSettings):
        return latent.trainer_of_one(settings, data)
    if settings.prior is not None:
        raise StructlearnError("SL408", learner=settings.name)
    return ConditionalGrammarTrainer(settings, data)


@dataclass(frozen=True)
class LevelRecord:
    """How the training of a level went.

    value: the objective, with its priors.
    log_likelihood: of the trees given the words, in nats.
    status: why training ended, see `LBFGS`.
    left_out: number of sentences without a parse.
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


class ConditionalGrammarTrainer(StagedTrainer[ConditionalGrammarSettings]):
    """Generative rounds, then conditional training of each level. A step is a round or a level.

    value: the objective at the current parameters.
    records: of the levels that are trained.
    on_iteration: called after each E-step with the log-likelihood, and after each iteration of
        L-BFGS with minus the objective.
    """

    _objectives: Objectives | None = None

    def __init__(self, settings: ConditionalGrammarSettings, data: Trees):
        super().__init__(settings, data, latent.trainer_of_one)

    @property
    def grammar_settings(self) -> LatentGrammarSettings:
        """The settings of the generative grammar."""
        return self.settings.generative

    def begin(self) -> None:
        """Begin the training of the generative grammar."""
        super().begin()
        self._thetas: list[NDArray[np.float64]] = []
        self._lost = np.empty(0, dtype=np.int64)
        self._optimizer: LBFGS | None = None
        self.records: list[LevelRecord] = []

    def iterate(self) -> bool:
        """Run one round or train one level. Returns False once all levels are trained."""
        if self.has_grammars:
            self._train_level()
        else:
            self.train_grammar()
        self.n_iterations += 1
        return not self.has_grammars or self._next_level <= self.settings.rounds

    def close(self) -> None:
        """End the threads and free the forests."""
        super().close()
        if self._objectives is not None:
            self._lost = self._objectives.lost
            self._objectives.close()
            self._objectives = None

    def parameters(self) -> LatentGrammar:
        """The grammar so far; levels that are not trained yet are generative."""
        if not self.has_grammars:
            return super().parameters()
        grammar = self.generative_grammar()
        levels, words = list(grammar.levels), list(grammar.lexicon.levels)
        for number, theta in self.trained.items():
            parameters = Parameterization(grammar, number, self.settings.base)
            levels[number], words[number] = parameters.refined(parameters.weights(theta))
        return grammar.with_levels(levels, words)

    @property
    def trained(self) -> dict[int, NDArray[np.float64]]:
        """The parameters of the trained levels, by number."""
        return dict(enumerate(self._thetas, self.settings.first_level))

    @property
    def _next_level(self) -> int:
        return self.settings.first_level + len(self._thetas)

    def _train_level(self) -> None:
        settings = self.settings
        number, trained = self._next_level, self.trained
        if self._objectives is None:
            self._objectives = Objectives(
                settings, self._data, self.generative_grammar(), number, trained, self._lost
            )
        objectives = self._objectives
        optimizer = self._optimizer
        begun = optimizer is not None and optimizer.n_evaluations > 0
        objective = objectives.objective(number, trained, may_lose=not begun)
        if optimizer is None:
            start = objective.parameterization.initial(FLOOR)
            if settings.start == "copy" and self._thetas:
                before = Parameterization(objectives.grammar, number - 1, settings.base)
                theta = self._thetas[-1]
                start = copied(before, objective.parameterization, theta, settings.seed)
            tolerance = settings.conditional_tolerance
            optimizer = self._optimizer = LBFGS(
                start, memory=MEMORY, value_tolerance=tolerance, l1=objective.l1
            )
        while optimizer.n_iterations < settings.conditional_iterations:
            more = optimizer.step(objective.value_and_grad)
            self.value = optimizer.value or 0.0
            self.report(-self.value)
            if not more:
                break
        theta = optimizer.x
        self._thetas.append(theta)
        self._optimizer = None
        penalty = np.sum(objective.l1 * np.abs(theta) + 0.5 * objective.l2 * theta**2)
        self.records.append(
            LevelRecord(
                number,
                optimizer.n_iterations,
                optimizer.n_evaluations,
                self.value,
                float(penalty - self.value),
                len(theta),
                int(np.count_nonzero(theta)),
                optimizer.status,
                objectives.left_out,
                objectives.statistics,
            )
        )

    def generative_grammar(self) -> LatentGrammar:
        """The grammar that levels start from, with expanded rows of signatures."""
        return without_backoff(super().parameters())

    def state(self) -> dict[str, Any]:
        """The generative rounds, the trained levels, and the level in training."""
        return super().state() | {
            "levels": self._thetas,
            "lost": self._lost if self._objectives is None else self._objectives.lost,
            "optimizer": self._optimizer,
            "records": [list(astuple(record)) for record in self.records],
        }

    def restore(self, state: dict[str, Any]) -> bool | None:
        """Set what `state` returned."""
        if super().restore(state) is False:
            return False
        lost = np.array(state["lost"], dtype=np.int64)
        thetas = [np.array(theta, dtype=np.float64) for theta in state["levels"]]
        stored = state["optimizer"]
        optimizer = None if stored is None else LBFGS.from_bytes(stored)
        records = [
            LevelRecord(*[*record[:-1], ForestStatistics(*record[-1])])
            for record in state["records"]
        ]
        self.close()
        self._thetas, self._lost = thetas, lost
        self._optimizer, self.records = optimizer, records
        return None


class Objectives:
    """The forests of the data, and the objective of one level after another.

    grammar: a generative grammar with expanded rows, see `without_backoff`.
    level: the first level whose objective is wanted. The levels before it prune the forests.
    trained: by number, the parameters of those of them that are not generative.
    lost: int64, numbers of sentences to leave out.
    """

    def __init__(
        self,
        settings: ConditionalGrammarSettings,
        data: TreebankData,
        grammar: LatentGrammar,
        level: int = 0,
        trained: Mapping[int, NDArray[np.float64]] | None = None,
        lost: Sequence[int] | NDArray[np.int64] = (),
    ):
        self.settings = settings
        self.grammar = grammar
        self._data = data
        self._level = level
        cascade = [self._refined(number, trained or {}) for number in range(level)]
        recipe = settings, grammar, cascade
        parts = [
            (part.start, data.subset(np.arange(part.start, part.stop)))
            for part in split(data.offsets, settings.shards)
        ]
        self.engine = make_engine(partial(_make_shard, recipe), parts, settings.threads)
        self.keys = np.unique(np.concatenate(self.engine.map(attrgetter("forests.terminal_keys"))))
        self.engine.map(GrammarShard.number, self.keys)
        self.engine.map(GrammarShard.leave_out, np.asarray(lost, dtype=np.int64))

    def close(self) -> None:
        """End the threads, and free the forests."""
        self.engine.close()

    @property
    def left_out(self) -> int:
        """Number of sentences that the coarsest grammar cannot parse or that float32 has lost."""
        return self._data.n_trees - sum(map(len, self.engine.map(attrgetter("sentences"))))

    @property
    def lost(self) -> NDArray[np.int64]:
        """The numbers of the sentences that float32 has lost."""
        return np.concatenate(self.engine.map(attrgetter("lost")))

    @property
    def statistics(self) -> ForestStatistics:
        """The size of all forests."""
        first, *others = self.engine.map(attrgetter("forests.statistics"))
        return sum(others, first)

    def objective(
        self, number: int, trained: Mapping[int, NDArray[np.float64]], may_lose: bool = True
    ) -> GrammarLikelihood:
        """Prune and refine the forests to a level, and return its objective.

        trained: the parameters of the levels before it that are not generative.

        Raises ValueError for a level before that of the forests.
        """
        if self._level > number:
            raise ValueError(f"the forests of level {self._level} cannot serve level {number}")
        settings, levels = self.settings, self.grammar.levels
        while self._level < number:
            refined = self._refined(self._level, trained)
            weights = _level_weights(self.grammar, refined, self.keys)
            self._level += 1
            self.engine.map(_refine_shard, weights, levels[self._level], settings.threshold)
        self.engine.map(GrammarShard.begin, may_lose)
        return GrammarLikelihood(
            Parameterization(self.grammar, number, settings.base),
            self.keys,
            self.engine,
            settings.l2,
            settings.l1,
        )

    def _refined(self, number: int, trained: Mapping[int, NDArray[np.float64]]) -> Refined:
        """A level, trained or generative."""
        theta = trained.get(number)
        base = "generative" if theta is None else self.settings.base
        parameters = Parameterization(self.grammar, number, base)
        theta = parameters.initial(FLOOR) if theta is None else theta
        return parameters.refined(parameters.weights(theta))


def _make_shard(
    recipe: tuple[ConditionalGrammarSettings, LatentGrammar, Sequence[Refined]],
    part: tuple[int, TreebankData],
) -> GrammarShard:
    """Make forests pruned by a cascade of levels, with terminals numbered by themselves.

    part: the number of the first sentence, and the trees.
    """
    (settings, grammar, cascade), (first, data) = recipe, part
    coarse = (data, compile_grammar(grammar.truncated(1)), grammar.lexicon)
    parts = []
    for begin in range(0, data.n_trees, AT_ONCE):
        trees = range(begin, min(begin + AT_ONCE, data.n_trees))
        forests = coarse_forests(*coarse, trees, settings.threshold)
        keys = forests.terminal_keys
        for number, refined in enumerate(cascade):
            forests.prune(_level_weights(grammar, refined, keys), settings.threshold)
            forests.refine(grammar.levels[number + 1])
        parts.append(forests)
    return GrammarShard(joined(data, parts), first=first)


def _level_weights(grammar: LatentGrammar, refined: Refined, keys: NDArray[np.int64]) -> Weights:
    return TerminalMap(grammar.lexicon, keys, refined[0]).level_weights(*refined)


def _refine_shard(shard: GrammarShard, weights: Weights, level: Level, threshold: float) -> None:
    """Prune the forests with the weights of their level, and refine them to the next level."""
    shard.forests.prune(weights, threshold)
    shard.forests.refine(level)


def copied(
    before: Parameterization, after: Parameterization, theta: NDArray[np.float64], seed: int
) -> NDArray[np.float64]:
    """Copy the parameters `theta` of the level before, with a little noise."""
    coarse = before.parts_of(theta)
    n_rows = len(after.words.rows)
    places = ancestor_places(after.level, before.level, after.own_tags, after.n_tags, n_rows)
    copy = after.parameters_of(
        Parts(*(values[place] for values, place in zip(coarse, places, strict=True)))
    )
    rng = np.random.default_rng([seed, int(after.level.size)])
    return copy + rng.uniform(-0.5 * NOISE, 0.5 * NOISE, len(copy))
