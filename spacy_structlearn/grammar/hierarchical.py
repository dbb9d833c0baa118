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
from dataclasses import astuple, dataclass, field, fields, replace
from hashlib import blake2b
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import ClassVar, NamedTuple
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from .. import serialization
from ..errors import StructlearnError
from ..optimize.adagrad import AdaGrad
from ..optimize.lbfgs import LBFGS
from ..optimize.owlqn import OWLQN
from ..optimize.shards import make_engine, split
from ..trees.tree import Tree
from .conditional import (
    BASES,
    SCALES,
    ConditionalLikelihood,
    ConditionalShard,
    MultiScale,
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
from .decode import compile_grammar
from .estimators import Callback, SplitMerge
from .forests import (
    MOST_SUBSTATES,
    ForestStatistics,
    GoldTrees,
    RebuiltForests,
    Terminals,
    Weights,
    coarse_forests,
    joined,
)
from .model import LatentGrammar, Level
from .split_merge import NOISE
from .symbols import TreebankData

_KIND = "conditional_grammar_state"
_VERSION = 1
STARTS = ("generative", "copy")
SOLVERS = ("lbfgs", "adagrad")
PRUNINGS = ("cached", "coarse_to_fine", "none")
THRESHOLD = float(np.exp(-10.0))
AT_ONCE = 256  # sentences whose forests of levels that are not trained are in memory
FLOOR = 1e-3  # of probabilities that parameters start from, where these are the weights themselves


@dataclass(frozen=True)
class ConditionalGrammar:
    """Discriminative latent grammars, from generative ones.

    generative: the rounds of splitting. base: what weights are corrections of, "generative" or
    "uniform". scales: a production has its "own" parameter, or the sum of this and those of what it
    refines, at "all" levels, see `MultiScale`. start: each level's parameters: of its "generative"
    probabilities, or a "copy" of those of the level before (with scales, for the coarser ones of
    them). first_level: levels before it stay generative. l1, l2: strength of the priors l1 |theta|
    and l2 |theta|^2. solver: "lbfgs" (with l1, OWL-QN) or "adagrad", whose iterations are passes
    through the sentences, with a step along the gradient of each `batch_size` of them, in random
    order; learn_rate: of AdaGrad. iterations: for a level, at most; tolerance: it ends when the
    objective falls by less, relative to itself, on the average of ten iterations. memory:
    corrections of L-BFGS. pruning: what is left of the parses of each sentence
    is "cached" for a level, found anew in each evaluation ("coarse_to_fine"), or all ("none"), see
    figure 2 of the paper. threshold: posteriors below are pruned (the paper: e^-10), of productions
    those below it times edge_factor. shards: the sentences are cut in so many, on which the result
    depends by rounding errors; with AdaGrad, in batches. threads: so many share them; the result is
    the same, bit for bit. Steps of AdaGrad have one thread.
    folder: where cached forests are kept, in folders of their own, until the end of the training;
    None: in memory.
    Raises StructlearnError SL406 for a setting out of range.
    """

    generative: SplitMerge = field(default_factory=SplitMerge)
    base: str = "generative"
    scales: str = "own"
    start: str = "generative"
    first_level: int = 0
    l1: float = 0.0
    l2: float = 0.5
    solver: str = "lbfgs"
    learn_rate: float = 0.3
    batch_size: int = 64
    iterations: int = 50
    tolerance: float = 1e-4
    memory: int = 5
    pruning: str = "cached"
    threshold: float = THRESHOLD
    edge_factor: float = 0.1
    shards: int = 4
    threads: int = 1
    folder: Path | None = None

    attributes: ClassVar[tuple[str, ...]] = ("ORTH",)

    def __post_init__(self) -> None:
        rounds = self.generative.rounds
        simple = self.generative.lexicon.kind == "simple"
        for name, wanted, sound in (
            ("base", " or ".join(BASES), self.base in BASES),
            # A word that has no weight of its own needs one of its signature.
            ("base", '"generative" with a smoothed lexicon', self.base == "generative" or simple),
            ("scales", " or ".join(SCALES), self.scales in SCALES),
            ("pruning", ", ".join(PRUNINGS), self.pruning in PRUNINGS),
            ("start", " or ".join(STARTS), self.start in STARTS),
            ("first_level", f"0 to {rounds}", 0 <= self.first_level <= rounds),
            ("l1", "0 or more", 0 <= self.l1 < np.inf),
            ("l2", "0 or more", 0 <= self.l2 < np.inf),
            ("solver", " or ".join(SOLVERS), self.solver in SOLVERS),
            ("learn_rate", "above 0", 0 < self.learn_rate < np.inf),
            ("batch_size", "1 or more", self.batch_size >= 1),
            ("iterations", "1 or more", self.iterations >= 1),
            ("tolerance", "0 or more", self.tolerance >= 0),
            ("memory", "1 or more", self.memory >= 1),
            ("threshold", "0 to 1", 0 <= self.threshold <= 1),
            ("edge_factor", "0 to 1", 0 <= self.edge_factor <= 1),
            ("shards", "1 or more", self.shards >= 1),
            ("threads", "1 or more", self.threads >= 1),
            ("rounds", f"at most {MOST_SUBSTATES.bit_length() - 1}", 1 << rounds <= MOST_SUBSTATES),
        ):
            if not sound:
                value = rounds if name == "rounds" else getattr(self, name)
                raise StructlearnError("SL406", name=name, wanted=wanted, value=value)

    @property
    def binarization(self) -> str:
        """That of the generative grammar."""
        return self.generative.binarization

    @property
    def seed(self) -> int:
        """Of the noise that tells the halves of substates apart."""
        return self.generative.seed

    def with_seed(self, seed: int) -> ConditionalGrammar:
        """The same settings with another seed."""
        return replace(self, generative=replace(self.generative, seed=seed))

    def n_shards(self, n_sentences: int) -> int:
        """In how many parts so many sentences are cut."""
        if self.solver == "adagrad":
            return max(1, -(-n_sentences // self.batch_size))
        return self.shards

    @property
    def max_iterations(self) -> int:
        """Calls of `on_iteration` and steps after which there is another, at most."""
        levels = self.generative.rounds + 1 - self.first_level
        return self.generative.max_iterations + 1 + levels * (self.iterations + 1)

    def encode(self, data: Sequence[Tree | Sequence[Tree] | TreebankData]) -> TreebankData:
        """All trees of `data`; see `SplitMerge`."""
        return self.generative.encode(data)

    def initialize(
        self,
        data: Sequence[Tree | Sequence[Tree] | TreebankData],
        labels: Sequence[str] = (),
        previous: LatentGrammar | None = None,
    ) -> LatentGrammar:
        """The treebank grammar; see `SplitMerge`."""
        return self.generative.initialize(data, labels, previous)

    def trainer(
        self,
        parameters: LatentGrammar | None,
        data: Sequence[Tree | Sequence[Tree] | TreebankData],
    ) -> ConditionalTrainer:
        """Training from the treebank grammar on; it follows from the data alone."""
        return ConditionalTrainer(self, self.encode(data))


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


class ConditionalTrainer:
    """Generative rounds, then conditional training of each level; a step is one of either.

    value: the objective at the present parameters; during a pass of AdaGrad, at those that each
    batch met. n_iterations: steps so far. records: of the levels that are done. on_iteration:
    called after each E-step and each iteration of the solver with the number of the round or level,
    the phase ("split", "merge", "smooth" or "conditional"), the iteration and the log-likelihood
    or, of a conditional phase, minus the objective.
    """

    def __init__(self, settings: ConditionalGrammar, data: TreebankData):
        self.settings = settings
        self.on_iteration: Callback | None = None
        self._begin(data)

    def _begin(self, data: TreebankData) -> None:
        self._data = data
        settings = self.settings.generative
        self._generative = settings.trainer(None, [data])
        self._generative_done = False
        self._done: list[NDArray[np.float64]] = []
        self._lost = np.empty(0, dtype=np.int64)
        self._started: Objectives | None = None
        self._optimizer: LBFGS | AdaGrad | None = None
        self.records: list[LevelRecord] = []
        self.value = 0.0
        self.n_iterations = 0

    def add(self, data: Sequence[Tree | Sequence[Tree] | TreebankData]) -> None:
        """More trees: training begins again; see `SplitMergeTrainer.add`."""
        self.close()
        self._begin(self.settings.encode([self._data, *data]))

    def step(self) -> bool:
        """One round or one level. Returns False once all are done."""
        if not self._generative_done:
            self._generative.on_iteration = self._report
            self._generative_done = not self._generative.step()
            self.value = self._generative.value
        elif self._next_level <= self.settings.generative.rounds:
            self._train_level()
        self.n_iterations += 1
        more = not self._generative_done or self._next_level <= self.settings.generative.rounds
        if not more:
            self.close()
        return more

    def close(self) -> None:
        """End the threads and let go of the forests."""
        self._generative.close()
        if self._started is not None:
            self._lost = self._started.lost
            self._started.close()
            self._started = None

    def parameters(self) -> LatentGrammar:
        """The grammar so far: levels not yet trained are generative."""
        if not self._generative_done:
            return self._generative.parameters()
        whole = self.generative_grammar()
        levels, words = list(whole.levels), list(whole.lexicon.levels)
        settings = self.settings
        for number, theta in self.trained.items():
            parameters = parameterization_of(whole, number, settings.base, settings.scales)
            levels[number], words[number] = parameters.refined(theta)
        return with_levels(whole, levels, words)

    @property
    def trained(self) -> dict[int, NDArray[np.float64]]:
        """By its number, the parameters of each level that is done; see `parameterization`."""
        return dict(enumerate(self._done, self.settings.first_level))

    def parameterization(self, number: int) -> Parameterization:
        """What the parameters of a level are of, once generative rounds are done."""
        settings = self.settings
        return parameterization_of(
            self.generative_grammar(), number, settings.base, settings.scales
        )

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
            self._started = Objectives(settings, data, whole, number, trained, self._lost)
        own = self._started
        optimizer = self._optimizer
        begun = optimizer is not None and optimizer.n_evaluations > 0
        objective = own.objective(number, trained, may_lose=not begun)
        if optimizer is None:
            start = objective.parameterization.initial(FLOOR)
            if settings.start == "copy" and self._done:
                before = own.parameterization(number - 1, settings.base, settings.scales)
                theta = self._done[-1]
                start = copied(before, objective.parameterization, theta, settings.seed)
            optimizer = self._optimizer = self._new_optimizer(start)
        while optimizer.n_iterations < settings.iterations:
            if isinstance(optimizer, AdaGrad):
                more = optimizer.step(objective.batches(own.engine.shards))
            else:
                more = optimizer.step(objective.value_and_grad)
            self.value = optimizer.value or 0.0
            if self.on_iteration is not None:
                self.on_iteration(number, "conditional", optimizer.n_iterations, -self.value)
            if not more:
                break
        theta = optimizer.x
        if isinstance(optimizer, AdaGrad):
            smooth, _ = objective.value_and_grad(theta)
            self.value = smooth + settings.l1 * float(np.abs(theta).sum())
        self._done.append(theta)
        self._optimizer = None
        prior = settings.l1 * np.abs(theta).sum() + settings.l2 * float(theta @ theta)
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
                value_tolerance=own.tolerance,
                seed=own.seed,
            )
        settings = {"memory": own.memory, "value_tolerance": own.tolerance}
        if own.l1:
            return OWLQN(start, l1=own.l1, **settings)
        return LBFGS(start, **settings)

    def _report(self, number: int, phase: str, iteration: int, value: float) -> None:
        if self.on_iteration is not None:
            self.on_iteration(number, phase, iteration, value)

    def to_bytes(self) -> bytes:
        """The state of the training, to go on bit for bit with the same data and settings."""
        optimizer = self._optimizer
        stored = {
            "fingerprint": self._fingerprint(),
            "generative": serialization.nested(self._generative.to_bytes()),
            "generative_done": self._generative_done,
            "levels": self._done,
            "lost": self._lost if self._started is None else self._started.lost,
            "optimizer": None if optimizer is None else serialization.nested(optimizer.to_bytes()),
            "records": [list(astuple(record)) for record in self.records],
            "n_iterations": self.n_iterations,
            "value": self.value,
        }
        return serialization.pack(_KIND, _VERSION, stored)

    def resume(self, state: bytes) -> bool:
        """Go on from `to_bytes`. Returns False if the state is of other data or settings.

        Raises StructlearnError SL050 to SL054 if the bytes are no such state.
        """
        _, stored = serialization.unpack(state, _KIND, {_VERSION})
        if stored.get("fingerprint") != self._fingerprint():
            return False
        with serialization.reading(_KIND):
            generative = self.settings.generative.trainer(None, [self._data])
            if not generative.resume(stored["generative"].tobytes()):
                return False
            generative_done = serialization.flag(stored["generative_done"])
            if generative_done and generative.n_iterations != self.settings.generative.rounds:
                return False
            lost = np.array(stored["lost"], dtype=np.int64)
            done = [np.array(theta, dtype=np.float64) for theta in stored["levels"]]
            kind: type[AdaGrad | LBFGS] = OWLQN if self.settings.l1 else LBFGS
            if self.settings.solver == "adagrad":
                kind = AdaGrad
            own = stored["optimizer"]
            optimizer = None if own is None else kind.from_bytes(own.tobytes())
            records = [
                LevelRecord(*record[:-1], ForestStatistics(*record[-1]))
                for record in stored["records"]
            ]
            value, n_iterations = float(stored["value"]), int(stored["n_iterations"])
        self.close()
        self._generative, self._generative_done = generative, generative_done
        self._done, self._lost, self._optimizer = done, lost, optimizer
        self.records, self.value, self.n_iterations = records, value, n_iterations
        return True

    def _fingerprint(self) -> str:
        """Equal for equal data and settings; threads and where forests are make no difference."""
        # The trainer of the generative rounds has a fingerprint of its own.
        others = ("generative", "threads", "folder")
        names = [own.name for own in fields(self.settings) if own.name not in others]
        settings = {name: getattr(self.settings, name) for name in names}
        digest = blake2b(digest_size=16)
        digest.update(repr(settings).encode())
        digest.update(self._generative.fingerprint().encode())
        return digest.hexdigest()


class Objectives:
    """The forests of the data, and the objective of one level after another.

    grammar: generative, with rows of signatures as `without_backoff` makes them. level: the first
    whose objective is wanted. trained: by number, the parameters of those levels before it that are
    not generative. lost: int64, sentences to leave out. Cached forests of levels before the first
    are in memory for a few hundred sentences at a time.
    """

    def __init__(
        self,
        settings: ConditionalGrammar,
        data: TreebankData,
        grammar: LatentGrammar,
        level: int = 0,
        trained: Mapping[int, NDArray[np.float64]] | None = None,
        lost: Sequence[int] | NDArray[np.int64] = (),
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
            _Part(number, chosen.start, data.subset(np.arange(chosen.start, chosen.stop)))
            for number, chosen in enumerate(split(data.offsets, settings.n_shards(data.n_trees)))
        ]
        self.engine = make_engine(_make_shard, recipe, parts, settings.threads)
        keys = np.unique(np.concatenate(self.engine.map(_keys_of)))
        self.terminals = terminals_of(keys, grammar.symbols.n_tags)
        self.engine.update(ConditionalShard.number, keys)
        self.engine.update(ConditionalShard.leave_out, np.asarray(lost, dtype=np.int64))

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
    ) -> ConditionalLikelihood:
        """The objective of a level, when what the levels before it find impossible is pruned.

        trained: the parameters of those that are not generative. may_lose: see
        `ConditionalShard.begin`. Raises ValueError for a level before those of the forests.
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
        self.engine.update(ConditionalShard.begin, may_lose)
        return ConditionalLikelihood(
            self.parameterization(number, settings.base, settings.scales),
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
        parameters = self.parameterization(number, self.settings.base, self.settings.scales)
        return parameters.finite_weights(theta)

    def parameterization(self, number: int, base: str, scales: str = "own") -> Parameterization:
        """Of a level of the grammar; see `parameterization_of`."""
        return parameterization_of(self.grammar, number, base, scales)


@dataclass(frozen=True)
class _Recipe:
    """What the shards of some `Objectives` share.

    cascade: the weights of all levels before that of the forests.
    """

    settings: ConditionalGrammar
    grammar: LatentGrammar
    cascade: Sequence[Parts]
    folder: Path | None


class _Part(NamedTuple):
    """Some sentences of consecutive numbers: which part it is, the number of the first, and all."""

    number: int
    first: int
    data: TreebankData


def _make_shard(recipe: _Recipe, part: _Part) -> ConditionalShard:
    """Forests as the cascade leaves them, of terminals of their own."""
    settings, grammar, data = recipe.settings, recipe.grammar, part.data
    coarse = (data, GoldTrees(data), compile_grammar(grammar.truncated(1)), grammar.lexicon)
    limits = settings.threshold, settings.edge_factor
    if settings.pruning != "cached":
        threshold = 0.0 if settings.pruning == "none" else settings.threshold
        everything = range(data.n_trees)
        forests = RebuiltForests(*coarse, everything, threshold, settings.edge_factor)
        return ConditionalShard(forests, first=part.first)
    done = []
    for begin in range(0, data.n_trees, AT_ONCE):
        some = coarse_forests(*coarse, range(begin, min(begin + AT_ONCE, data.n_trees)), *limits)
        terminals = terminals_of(some.terminal_keys, grammar.symbols.n_tags)
        for before, parts in enumerate(recipe.cascade):
            some.prune(_level_weights(grammar, before, parts, terminals), *limits)
            some.refine(grammar.levels[before + 1])
        done.append(some)
    folder = None if recipe.folder is None else recipe.folder / f"shard{part.number}"
    return ConditionalShard(joined(data, done, folder), first=part.first)


def _level_weights(
    grammar: LatentGrammar, number: int, parts: Parts, terminals: Terminals
) -> Weights:
    level, n_tags = grammar.levels[number], grammar.symbols.n_tags
    own = TerminalMap(grammar.lexicon, terminals, level.substates[:n_tags])
    return level_weights(level, parts, own)


def _refine_shard(
    shard: ConditionalShard, weights: Weights, level: Level, threshold: float, edge_factor: float
) -> None:
    """Leave out what a level finds impossible, and refine the rest to the next."""
    forests = shard.forests
    if isinstance(forests, RebuiltForests):
        forests.refine(weights, level)
    else:
        forests.prune(weights, threshold, edge_factor)
        forests.refine(level)


def _keys_of(shard: ConditionalShard) -> NDArray[np.int64]:
    return shard.forests.terminal_keys


def _n_sentences_of(shard: ConditionalShard) -> int:
    return len(shard.sentences)


def _lost_by(shard: ConditionalShard) -> NDArray[np.int64]:
    return shard.lost


def _statistics_of(shard: ConditionalShard) -> ForestStatistics:
    return shard.forests.statistics


def copied(
    before: Parameterization, after: Parameterization, theta: NDArray[np.float64], seed: int
) -> NDArray[np.float64]:
    """Parameters of a level: of each production those of what it refines, and a little noise.

    before, after: of two levels one after the other. theta: float64, of the one before. Of
    multi-scale parameters those of the scales that `before` has are copied, the others are initial.
    """
    if isinstance(before, MultiScale) and isinstance(after, MultiScale):
        # With zeros for its own scale and a prior that leads to zeros, a level would stay there.
        return after.carried(before, theta, FLOOR)
    old = before.parts_of(theta)
    n_rows = len(after.words.rows)
    places = ancestor_places(after.level, before.level, after.own_tags, after.n_tags, n_rows)
    found = after.parameters_of(
        Parts(*(values[chosen] for values, chosen in zip(old, places, strict=True)))
    )
    noise = np.random.default_rng([seed, int(after.level.size)])
    return found + noise.uniform(-0.5 * NOISE, 0.5 * NOISE, len(found))
