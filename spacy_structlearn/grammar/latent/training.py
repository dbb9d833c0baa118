"""Split-merge training of latent grammars.

Petrov et al. (2006), for the generative grammars of Petrov & Klein (2007), section 2.1. After the
treebank grammar come rounds of split, EM, merge, EM, and EM with smoothing. One step of the trainer
is one round. The grammar of each round is a level, for parsing from coarse to fine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import StructlearnError
from ...learning.training import Trainer
from ..treebank.estimation import LexiconLearner
from ..treebank.lexicon import LexiconLevel
from ..treebank.settings import Trees
from .adaptation import AdaptationTrainer
from .em import (
    ProductionCounts,
    TreebankDerivations,
    grammar_of,
    m_step,
    treebank_grammar,
    treebank_level,
)
from .model import LatentGrammar, Level
from .settings import LatentGrammarSettings
from .split_merge import Merging, branches, least_useful, merge_losses, smooth, split
from .stages import StagedTrainer, TrainerOfOne, TreebankTrainer, encode

PHASES = ("split", "merge", "smooth")
adapter = AdaptationTrainer


def initialize(
    settings: LatentGrammarSettings, data: Trees, labels: Sequence[str] = (), previous: Any = None
) -> LatentGrammar:
    """The treebank grammar, level 0; `labels` and `previous` are not used.

    Raises StructlearnError if there are no trees.
    """
    return treebank_grammar(encode(settings, data), settings)


def trainer(
    settings: LatentGrammarSettings,
    parameters: Any,
    data: Trees,
    of_one: TrainerOfOne | None = None,
) -> Trainer[Any]:
    """Start training from `prior`, or the treebank grammar of the data.

    `parameters` are not used. of_one: returns the trainer of a single grammar. Raises its errors.
    """
    of_one = of_one or trainer_of_one
    if settings.grammars > 1 and settings.prior is None:
        return StagedTrainer(settings, data, of_one)
    return of_one(settings, data)


def trainer_of_one(settings: LatentGrammarSettings, data: Trees) -> Trainer[Any]:
    """The trainer of a single grammar, or of all grammars of `prior` together.

    With a prior of the trees of another parser this is self-training (McClosky et al. 2006), from
    which latent grammars gain more than others (Huang & Harper 2009).

    Raises StructlearnError if the file is missing or damaged, or has fewer members.
    """
    if settings.prior is None:
        return LatentGrammarTrainer(settings, data)
    prior = LatentGrammar.from_bytes(settings.content("prior"))
    if settings.grammars > prior.members + 1:
        raise StructlearnError("SL409", path=settings.prior, number=prior.members + 1)
    first = prior.first_grammars(settings.grammars)
    return AdaptationTrainer(settings, first, data, strength=settings.prior_trees)


class LatentGrammarTrainer(TreebankTrainer[LatentGrammarSettings]):
    """Split-merge training. The first step is the treebank grammar, each next one a round.

    value: the negative log-likelihood of the trees under the current grammar (equation 4), in nats.
    on_iteration: called after each E-step with the log-likelihood.
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
        self.value = -self._e_step(self._levels[-1], self._words[-1])[0]
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
        settings = self.settings
        if self._current is None:
            self._current = self._split()
        current = self._current
        smooths = bool(settings.rule_smoothing or settings.lexicon_smoothing)
        for phase in PHASES[PHASES.index(current.phase) :]:
            if phase != current.phase:
                current.phase, current.iteration = phase, 0
            if phase != "smooth" or smooths:
                self._em(current, getattr(settings, f"{phase}_iterations"))
            if phase == "split":
                self._merge(current)
        self._levels.append(current.level)
        self._words.append(current.words)
        self._current = None

    def _split(self) -> _Current:
        before, n_tags = self._levels[-1], self._n_tags
        # A generator for each round, so that a resumed round draws the same numbers.
        rng = np.random.default_rng([self.settings.seed, self.n_iterations])
        level = split(before, self._data.occurrences, rng)
        old = before.substates[:n_tags]
        words = self._learner.split(self._words[-1], old, level.substates[:n_tags] // old)
        return _Current(level, words)

    def _em(self, current: _Current, iterations: int) -> None:
        while current.iteration < iterations:
            value, counts = self._e_step(current.level, current.words)
            self._m_step(current, counts)
            current.iteration += 1  # before the report, which may save the state
            self.report(value)

    def _e_step(self, level: Level, words: LexiconLevel) -> tuple[float, ProductionCounts]:
        if self._derivations is None:
            self._derivations = TreebankDerivations(self._data, self.settings.threads)
        emissions = self._learner.emissions(words, level.substates[: self._n_tags])
        return self._derivations.expected_counts((level, emissions))

    def _m_step(self, current: _Current, counts: ProductionCounts) -> None:
        settings, before = self.settings, current.level
        level = m_step(self._data, before.substates, before.ancestors, counts)
        groups, amount = None, 0.0
        if current.phase == "smooth":
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
        merging = Merging(current.level, symbols[pairs], firsts[pairs])
        merged = merging.counts(self._data, counts)
        current.level = m_step(self._data, merging.substates, merging.ancestors, merged)
        substates = merging.substates[: self._n_tags]
        current.words = self._learner.fit(merged.lexical, substates)

    def state(self) -> dict[str, Any]:
        """The levels after the treebank grammar, and the current round."""
        current = self._current
        fields = None
        if current is not None:
            fields = {name: getattr(current, name) for name in ("phase", "iteration")}
            fields["level"] = _stored(current.level, current.words)
        levels = list(map(_stored, self._levels[1:], self._words[1:]))
        return {"levels": levels, "current": fields}

    def restore(self, state: dict[str, Any]) -> None:
        levels, words = self._levels[:1], self._words[:1]
        for part in state["levels"]:
            level, of_level = self._read(part)
            levels.append(level)
            words.append(of_level)
        current, fields = None, state["current"]
        if fields is not None:
            phase, iteration = fields["phase"], int(fields["iteration"])
            if phase not in PHASES or iteration < 0:
                raise ValueError(f"iteration {iteration} of a phase {phase!r}")
            current = _Current(*self._read(fields["level"]), phase, iteration)
        self._levels, self._words, self._current = levels, words, current

    def _read(self, part: dict[str, Any]) -> tuple[Level, LexiconLevel]:
        level = Level.from_fields(self._data.rules, self._data.symbols.size, part)
        return level, LexiconLevel(part["own"], part["rows"])


@dataclass
class _Current:
    """The state of a round: the grammar, the phase and the next iteration."""

    level: Level
    words: LexiconLevel
    phase: str = PHASES[0]
    iteration: int = 0


def _stored(level: Level, words: LexiconLevel) -> dict[str, Any]:
    return {**level.to_fields("float32"), **words._asdict()}
