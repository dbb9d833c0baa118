"""Split-merge training of latent grammars.

Petrov et al. (2006), for the generative grammars of Petrov & Klein (2007), section 2.1. After the
treebank grammar come rounds of split, EM, merge, EM, and EM with smoothing. One step of the trainer
is one round. The grammar of each round is a level, for parsing from coarse to fine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ...errors import StructlearnError
from ...learning.training import Trainer
from ...parallel.shards import MakeEngine, make_engine
from ..treebank.lexicon import LexiconLearner, LexiconLevel
from ..treebank.settings import Trees
from ..treebank.symbols import TreebankData
from .em import ProductionCounts, TreebankDerivations, grammar_of, m_step, treebank_level
from .model import LatentGrammar, Level
from .settings import LatentGrammarSettings
from .split_merge import Merging, branches, least_useful, merge_losses, smooth, split

S = TypeVar("S", bound=LatentGrammarSettings)
PHASES = ("split", "merge", "smooth")


class TreebankTrainer(Trainer[S]):
    """Training on trees. Subclasses define `begin` instead of `take`.

    Training starts again when trees are added, since they may contain new rules.
    """

    _data: TreebankData

    def __init__(self, settings: S, data: Trees, *, make_engine: MakeEngine = make_engine):
        super().__init__(settings, make_engine=make_engine)
        self.add(data)

    def begin(self) -> None:
        """Set the state before the first step."""
        raise NotImplementedError

    def take(self, data: Trees) -> None:
        """Extend the treebank, and start again. Raises StructlearnError if there are no trees."""
        before = [self._data] if hasattr(self, "_data") else []
        self._data = self.settings.encode([*before, *data])
        if not self._data.n_trees:
            raise StructlearnError("SL407")
        self.close()
        self.begin()
        self.value, self.n_iterations = 0.0, 0

    def data_digest(self) -> bytes:
        """A hash of the trees."""
        return self._data.digest().encode()


class LatentGrammarTrainer(TreebankTrainer[LatentGrammarSettings]):
    """Split-merge training. The first step is the treebank grammar, each next one a round.

    value: the negative log-likelihood of the trees under the current grammar (equation 4), in nats.
    on_iteration: called after each E-step with the round, the phase (one of `PHASES`), the
        iteration, from 0, and the log-likelihood.
    """

    _derivations: TreebankDerivations | None = None

    def begin(self) -> None:
        """Make the treebank grammar."""
        self._learner = LexiconLearner(self.settings, self._data)
        self._n_tags = self._data.symbols.n_tags
        level, words = treebank_level(self._data, self._learner)
        self._levels, self._words = [level], [words]
        self._current: _Current | None = None

    def iterate(self) -> bool:
        """Run one round. Returns False after the last one."""
        if self.n_iterations:
            self._round()
        else:
            self.value = -self._e_step(self._levels[0], self._words[0])[0]
        self.n_iterations += 1
        return self.n_iterations <= self.settings.rounds

    def close(self) -> None:
        """End the threads and free the scores of nodes."""
        if self._derivations is not None:
            self._derivations.close()
            self._derivations = None

    def parameters(self) -> LatentGrammar:
        """The grammar of the completed rounds."""
        return grammar_of(self._data, self._learner, self._levels, self._words)

    def _round(self) -> None:
        number = self.n_iterations
        if self._current is None:
            self._current = self._split(number)
        current = self._current
        settings = self.settings
        while current.phase in PHASES:
            phase = current.phase
            smoothed = phase == "smooth" and bool(
                settings.rule_smoothing or settings.lexicon_smoothing
            )
            if phase != "smooth" or smoothed:
                self._em(number, current, getattr(settings, f"{phase}_iterations"), smoothed)
            if phase == "split":
                self._merge(current)
            current.phase = (*PHASES, "")[PHASES.index(phase) + 1]
            current.iteration, current.value = 0, -np.inf
        self.value = -self._e_step(current.level, current.words)[0]
        self._levels.append(current.level)
        self._words.append(current.words)
        self._current = None

    def _split(self, number: int) -> _Current:
        before = self._levels[-1]
        # A generator for each round, so that a resumed round draws the same numbers.
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
                # Set before the report, which may save the state.
                current.iteration = iterations
            self.report(number, current.phase, iteration, value)

    def _e_step(self, level: Level, words: LexiconLevel) -> tuple[float, ProductionCounts]:
        if self._derivations is None:
            self._derivations = TreebankDerivations(
                self._data,
                self.settings.threads,
                self.settings.shards,
                make_engine=self.make_engine,
            )
        emissions = self._learner.emissions(words, level.substates[: self._n_tags])
        return self._derivations.expected_counts((level, emissions))

    def _m_step(self, current: _Current, counts: ProductionCounts, smoothed: bool) -> None:
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
        """Merge the least useful splits, and estimate the grammar again."""
        _, counts = self._e_step(current.level, current.words)
        assert self._derivations is not None
        symbols, firsts, losses = merge_losses(self._derivations, current.level)
        pairs = least_useful(losses, self.settings.merge_fraction)
        if not len(pairs):
            return
        merging = Merging.of_pairs(current.level, symbols[pairs], firsts[pairs])
        merged = merging.counts(self._data, counts)
        current.level = m_step(self._data, merging.substates, merging.ancestors, merged)
        substates = merging.substates[: self._n_tags]
        current.words = self._learner.fit(merged.lexical, substates)

    def state(self) -> dict[str, Any]:
        """The levels after the treebank grammar, and the current round."""
        current = self._current
        return {
            "levels": list(map(_stored, self._levels[1:], self._words[1:])),
            "current": None
            if current is None
            else {
                "level": _stored(current.level, current.words),
                "phase": current.phase,
                "iteration": current.iteration,
                "value": current.value,
            },
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Set what `state` returned."""
        stored = [self._read(part) for part in state["levels"]]
        current, fields = None, state["current"]
        if fields is not None:
            if fields["phase"] not in PHASES:
                raise ValueError(f"a phase {fields['phase']!r}")
            if fields["iteration"] < 0:
                raise ValueError(f"iteration {fields['iteration']}")
            current = _Current(
                *self._read(fields["level"]),
                fields["phase"],
                int(fields["iteration"]),
                float(fields["value"]),
            )
        self._levels = [self._levels[0], *(level for level, _ in stored)]
        self._words = [self._words[0], *(words for _, words in stored)]
        self._current = current

    def _read(self, part: dict[str, Any]) -> tuple[Level, LexiconLevel]:
        level = Level.from_fields(self._data.rules, self._data.symbols.size, part)
        return level, LexiconLevel(part["own"], part["rows"])


@dataclass
class _Current:
    """The state of a round: the grammar, the phase, the next iteration and the log-likelihood."""

    level: Level
    words: LexiconLevel
    phase: str = PHASES[0]
    iteration: int = 0
    value: float = -np.inf


def _stored(level: Level, words: LexiconLevel) -> dict[str, Any]:
    return {**level.to_fields("float32"), **words._asdict()}
