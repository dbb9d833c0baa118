"""Split-merge training of latent grammars: settings that a registered architecture names.

Petrov et al. (2006), as the generative grammars of Petrov & Klein (2007), section 2.1: the treebank
grammar, then rounds of split, EM, merge, EM, and EM with smoothing. One step of the trainer is one
whole round; every round's grammar is kept as a level, for parsing from coarse to fine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from hashlib import blake2b
from typing import ClassVar

import numpy as np

from .. import serialization
from ..errors import StructlearnError
from ..trees.tree import Tree
from .em import Counts, Derivations, grammar_of, m_step, treebank_level
from .lexicon import LexiconLearner, LexiconLevel, LexiconSettings
from .model import LatentGrammar, Level, dense, sparse
from .split_merge import Merging, branches, least_useful, merge_losses, smooth, split
from .symbols import BINARIZATIONS, ROOT, TreebankData, binarize, concatenate

_KIND = "split_merge_state"
_VERSION = 1
PHASES = ("split", "merge", "smooth")
MOST_ROUNDS = 8

Callback = Callable[[int, str, int, float], None]


@dataclass(frozen=True)
class SplitMerge:
    """Generative latent grammars by split-merge EM.

    rounds: of splitting. seed: of the noise that tells the halves apart. merge_fraction: of the
    splits that are taken back in each round, 0 for none. rule_smoothing, lexicon_smoothing: how
    much probabilities are drawn to those of the substates of the same first split; 0 for none.
    split_iterations, merge_iterations, smooth_iterations: of EM after each (the released trainer's
    are 50, 20, 10). tolerance: a phase ends early when the log-likelihood rises by less, relative
    to itself. binarization: "right" or "left". lexicon: see `LexiconSettings`. root: the label
    above the trees. threads: so many share the sentences; the result is the same, bit for bit.
    shards: see `Derivations`.
    Raises StructlearnError SL406 for a setting out of range.
    """

    rounds: int = 4
    seed: int = 0
    merge_fraction: float = 0.5
    rule_smoothing: float = 0.01
    lexicon_smoothing: float = 0.1
    split_iterations: int = 50
    merge_iterations: int = 20
    smooth_iterations: int = 10
    tolerance: float = 0.0
    binarization: str = "right"
    lexicon: LexiconSettings = field(default_factory=LexiconSettings)
    root: str = ROOT
    threads: int = 1
    shards: int = 1

    attributes: ClassVar[tuple[str, ...]] = ("ORTH",)

    def __post_init__(self) -> None:
        counts = ("split_iterations", "merge_iterations", "smooth_iterations", "seed")
        for name, wanted, sound in (
            ("rounds", f"0 to {MOST_ROUNDS}", 0 <= self.rounds <= MOST_ROUNDS),
            ("merge_fraction", "0 to 1", 0 <= self.merge_fraction <= 1),
            ("rule_smoothing", "0 to 1", 0 <= self.rule_smoothing <= 1),
            ("lexicon_smoothing", "0 to 1", 0 <= self.lexicon_smoothing <= 1),
            ("tolerance", "0 or more", self.tolerance >= 0),
            ("threads", "1 or more", self.threads >= 1),
            ("shards", "1 or more", self.shards >= 1),
            ("binarization", " or ".join(BINARIZATIONS), self.binarization in BINARIZATIONS),
            *((name, "0 or more", getattr(self, name) >= 0) for name in counts),
        ):
            if not sound:
                value = getattr(self, name)
                raise StructlearnError("SL406", name=name, wanted=wanted, value=value)
        self.lexicon.check()

    @property
    def max_iterations(self) -> int:
        """Calls of `on_iteration` and steps after which there is another, at most."""
        iterations = self.split_iterations + self.merge_iterations + self.smooth_iterations
        return self.rounds * (iterations + 1)

    def with_seed(self, seed: int) -> SplitMerge:
        """The same settings with another seed."""
        return replace(self, seed=seed)

    def encode(self, data: Sequence[Tree | Sequence[Tree] | TreebankData]) -> TreebankData:
        """All trees of `data`: normalised trees, lists of them, or encoded ones."""
        parts: list[TreebankData] = []
        trees: list[Tree] = []
        for part in data:
            if isinstance(part, TreebankData):
                parts.append(part)
            elif isinstance(part, Tree):
                trees.append(part)
            else:
                trees.extend(part)
        if trees or not parts:
            parts.append(binarize(trees, self.binarization, self.root))
        return concatenate(parts)

    def initialize(
        self,
        data: Sequence[Tree | Sequence[Tree] | TreebankData],
        labels: Sequence[str] = (),
        previous: LatentGrammar | None = None,
    ) -> LatentGrammar:
        """The treebank grammar, level 0. Symbols are those of the trees; labels and what was
        learned before have no part in it. Raises SL407 if there are no trees.
        """
        return self.trainer(None, data).parameters()

    def trainer(
        self,
        parameters: LatentGrammar | None,
        data: Sequence[Tree | Sequence[Tree] | TreebankData],
        *,
        shards: int | None = None,
    ) -> SplitMergeTrainer:
        """Training from the treebank grammar on; it follows from the data alone.

        shards: in place of the setting.
        """
        settings = self if shards is None else replace(self, shards=shards)
        return SplitMergeTrainer(settings, self.encode(data))


class SplitMergeTrainer:
    """Split-merge rounds; a step is a round, the first one the treebank grammar itself.

    value: the negative log-likelihood of the trees under the present
    grammar (equation 4), in nats; before the first step, 0. n_iterations: rounds so far, the first
    step's not counted. on_iteration: called after each E-step with round, phase (of `PHASES`),
    iteration (from 0) and log-likelihood. The state may be saved there too.
    """

    def __init__(self, settings: SplitMerge, data: TreebankData):
        self.settings = settings
        self.on_iteration: Callback | None = None
        self._begin(data)

    def _begin(self, data: TreebankData) -> None:
        if not data.n_trees:
            raise StructlearnError("SL407")
        self._data = data
        self._derivations: Derivations | None = None
        self._learner = LexiconLearner(self.settings.lexicon, data)
        self._n_tags = data.symbols.n_tags
        level, words = treebank_level(data, self._learner)
        self._levels, self._words = [level], [words]
        self._current: _Current | None = None
        self.value = 0.0
        self.n_iterations = 0
        self._started = False

    def add(self, data: Sequence[Tree | Sequence[Tree] | TreebankData]) -> None:
        """More trees. They may hold rules that the grammar lacks, so training begins again."""
        self._begin(concatenate([self._data, self.settings.encode(data)]))

    def step(self) -> bool:
        """One round. Returns False once all are done."""
        if not self._started:
            self._started = True
            self.value = -self._e_step(self._levels[0], self._words[0])[0]
        elif self.n_iterations < self.settings.rounds:
            self._round()
        more = self.n_iterations < self.settings.rounds
        if not more:
            self.close()
        return more

    def close(self) -> None:
        """End the threads and let go of the scores of nodes."""
        if self._derivations is not None:
            self._derivations.close()
            self._derivations = None

    def parameters(self) -> LatentGrammar:
        """The grammar of the rounds that are complete."""
        return grammar_of(self._data, self._learner, self._levels, self._words)

    def _round(self) -> None:
        number = self.n_iterations + 1
        if self._current is None:
            self._current = self._split(number)
        current = self._current
        settings = self.settings
        iterations = {
            "split": settings.split_iterations,
            "merge": settings.merge_iterations,
            "smooth": settings.smooth_iterations,
        }
        while current.phase in PHASES:
            phase = current.phase
            smoothed = phase == "smooth" and bool(
                settings.rule_smoothing or settings.lexicon_smoothing
            )
            if phase != "smooth" or smoothed:
                self._em(number, current, iterations[phase], smoothed)
            if phase == "split":
                self._merge(current)
            current.phase = (*PHASES, "")[PHASES.index(phase) + 1]
            current.iteration, current.value = 0, -np.inf
        self.value = -self._e_step(current.level, current.words)[0]
        self._levels.append(current.level)
        self._words.append(current.words)
        self._current = None
        self.n_iterations = number

    def _split(self, number: int) -> _Current:
        before = self._levels[-1]
        # A generator for each round, so that one taken up again draws the same.
        rng = np.random.default_rng([self.settings.seed, number])
        level = split(before, self._data.occurrences, rng)
        old = before.substates[: self._n_tags]
        words = self._learner.split(self._words[-1], old, level.substates[: self._n_tags] // old)
        return _Current(level, words)

    def _em(self, number: int, current: _Current, iterations: int, smoothed: bool) -> None:
        while current.iteration < iterations:
            value, counts = self._e_step(current.level, current.words)
            self._m_step(current, counts, smoothed)
            gain, current.value = value - current.value, value
            iteration = current.iteration
            current.iteration += 1
            if self.settings.tolerance and gain < self.settings.tolerance * abs(value):
                # Known to a state that is saved now, too.
                current.iteration = iterations
            if self.on_iteration is not None:
                self.on_iteration(number, current.phase, iteration, value)

    def _e_step(self, level: Level, words: LexiconLevel) -> tuple[float, Counts]:
        if self._derivations is None:
            self._derivations = Derivations(self._data, self.settings.threads, self.settings.shards)
        emissions = self._learner.emissions(words, level.substates[: self._n_tags])
        return self._derivations.expected_counts((level, emissions))

    def _m_step(self, current: _Current, counts: Counts, smoothed: bool) -> None:
        settings, before = self.settings, current.level
        level = m_step(self._data, before.substates, before.ancestors, counts)
        groups, amount = None, 0.0
        if smoothed:
            all_groups = branches([*self._levels, level])
            level = smooth(level, all_groups, settings.rule_smoothing)
            groups = all_groups[: int(level.offsets[self._n_tags])]
            amount = settings.lexicon_smoothing
        substates = level.substates[: self._n_tags]
        current.words = self._learner.fit(counts.lexical, substates, groups, amount)
        current.level = level

    def _merge(self, current: _Current) -> None:
        """Take back the least useful splits, and count anew."""
        _, counts = self._e_step(current.level, current.words)
        assert self._derivations is not None
        symbols, firsts, losses = merge_losses(self._derivations, current.level)
        chosen = least_useful(losses, self.settings.merge_fraction)
        if not len(chosen):
            return
        merging = Merging.of_pairs(current.level, symbols[chosen], firsts[chosen])
        merged = merging.counts(self._data, counts)
        current.level = m_step(self._data, merging.substates, merging.ancestors, merged)
        substates = merging.substates[: self._n_tags]
        current.words = self._learner.fit(merged.lexical, substates)

    def to_bytes(self) -> bytes:
        """The state of the training, to go on bit for bit with the same data and settings."""
        current = self._current
        levels = [*self._levels[1:], *([] if current is None else [current.level])]
        words = [*self._words[1:], *([] if current is None else [current.words])]
        own = {
            "fingerprint": self.fingerprint(),
            "started": self._started,
            "value": self.value,
            "phase": None if current is None else current.phase,
            "iteration": 0 if current is None else current.iteration,
            "phase_value": 0.0 if current is None else current.value,
            "levels": [
                {
                    "substates": level.substates,
                    "ancestors": level.ancestors,
                    "binary": sparse(level.binary, "float32"),
                    "unary": sparse(level.unary, "float32"),
                    "root": sparse(level.root, "float32"),
                    **part._asdict(),
                }
                for level, part in zip(levels, words, strict=True)
            ],
        }
        return serialization.pack(_KIND, _VERSION, own)

    def resume(self, state: bytes) -> bool:
        """Go on from `to_bytes`. Returns False if the state is of other data or settings.

        Raises StructlearnError SL050 to SL054 if the bytes are no such state.
        """
        _, own = serialization.unpack(state, _KIND, {_VERSION})
        if own.get("fingerprint") != self.fingerprint():
            return False
        with serialization.reading(_KIND):
            levels, words = [self._levels[0]], [self._words[0]]
            rules = self._data.rules
            for part in own["levels"]:
                substates = part["substates"]
                if substates.shape != (self._data.symbols.size,) or (substates < 1).any():
                    raise ValueError("a level whose substates are not those of the symbols")
                sizes = rules.sizes(substates)
                arrays = [dense(part[name], int(size.sum())) for name, size in sizes.items()]
                levels.append(Level(rules, substates, part["ancestors"], *arrays))
                words.append(LexiconLevel(part["own"], part["rows"]))
            current = None
            if own["phase"] is not None:
                if own["phase"] not in PHASES:
                    raise ValueError("a phase that there is not")
                current = _Current(levels.pop(), words.pop(), own["phase"])
                current.iteration = int(own["iteration"])
                current.value = float(own["phase_value"])
            started, value = serialization.flag(own["started"]), float(own["value"])
        self._started, self.value = started, value
        self._levels, self._words, self._current = levels, words, current
        self.n_iterations = len(levels) - 1
        return True

    def fingerprint(self) -> str:
        """Equal for equal data and settings; how many rounds and threads makes no difference."""
        kept = [
            s
            for name, s in zip(self._names(), astuple(self.settings), strict=True)
            if name not in ("rounds", "threads")
        ]
        return blake2b(repr((kept, self._data.digest())).encode(), digest_size=16).hexdigest()

    def _names(self) -> list[str]:
        return [setting.name for setting in fields(self.settings)]


@dataclass
class _Current:
    """A round that is under way: the grammar, the phase, and how far it has come."""

    level: Level
    words: LexiconLevel
    phase: str = PHASES[0]
    iteration: int = 0
    value: float = -np.inf
