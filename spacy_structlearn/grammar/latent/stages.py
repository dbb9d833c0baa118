"""Trainers on trees, and training in stages.

A grammar may be a product of grammars (Petrov 2010): split-merge EM ends in a different local
optimum for each seed, and the grammars make different mistakes. The product of their posteriors of
productions is more accurate than the best single grammar. Only the first grammar keeps its coarse
levels, which prune the chart for all; the others keep their last level. Parsing with a product of
four therefore takes about 1.5 times as long as with one grammar.

A `StagedTrainer` trains such grammars one after another; each of their members is a stage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...errors import StructlearnError
from ...learning.training import Trainer, array_digest
from ...serialization import nested
from ...trees.tree import Tree, trees_of
from ..treebank.data import TreebankData, binarize
from ..treebank.settings import Trees
from ..treebank.symbols import Symbols
from .model import LatentGrammar, product
from .settings import LatentGrammarSettings

S = TypeVar("S", bound=Any)
TrainerOfOne = Callable[[LatentGrammarSettings, Trees], Trainer[Any]]
"""Returns the trainer of a single grammar."""


def encode(
    settings: LatentGrammarSettings, data: Trees, known: Symbols | None = None
) -> TreebankData:
    """Encode all trees of `data` as arrays, see `binarize`."""
    return binarize(trees_of(data, "SL434"), settings.binarization, settings.root, known)


class TreebankTrainer(Trainer[S]):
    """Training on trees. Subclasses define `begin` instead of `_add`.

    Training starts again when trees are added, since they may contain new rules.
    """

    def __init__(self, settings: S, data: Trees):
        super().__init__(settings)
        self._trees: list[Tree] = []
        self.add(data)

    @property
    def grammar_settings(self) -> LatentGrammarSettings:
        """The settings of the grammars."""
        return self.settings

    def begin(self) -> None:
        """Set the state before the first step."""
        raise NotImplementedError

    def _add(self, data: Trees) -> None:
        """Extend the treebank, and start again. Raises StructlearnError if there are no trees."""
        self._trees = [*self._trees, *trees_of(data, "SL434")]
        if not self._trees:
            raise StructlearnError("SL407")
        self.__dict__.pop("_data", None)
        self.close()
        self.begin()
        self.value, self.n_iterations = 0.0, 0

    @cached_property
    def _data(self) -> TreebankData:
        return encode(self.grammar_settings, self._trees)

    def data_digest(self) -> bytes:
        return array_digest(*map(str, self._trees))


class StagedTrainer(TreebankTrainer[S]):
    """Trains grammars, each of whose members is a stage; subclasses add more stages.

    trainer_of_one: returns the trainer of a member, or of all members if they have a prior.

    A step, and its value, is that of the current stage.
    """

    _current: Trainer[Any] | None = None

    def __init__(self, settings: S, data: Any, trainer_of_one: TrainerOfOne):
        self._trainer_of_one = trainer_of_one
        super().__init__(settings, data)

    @property
    def n_grammars(self) -> int:
        """Number of grammars to train."""
        return 1

    def plan(self, number: int) -> tuple[LatentGrammarSettings, Trees]:
        """The settings and the trees of a grammar, by its number."""
        return self.grammar_settings, self._trees

    def begin(self) -> None:
        """Begin the training of the first grammar."""
        self._grammars: list[NDArray[np.uint8]] = []
        self._members: list[LatentGrammar] = []
        self._first: LatentGrammar | None = None
        self._current = self._new_stage()

    @property
    def has_grammars(self) -> bool:
        """Whether all grammars are trained."""
        return len(self._grammars) == self.n_grammars

    def iterate(self) -> bool:
        """Run one step of the current stage. Returns False once all grammars are trained."""
        self.train_grammar()
        self.n_iterations += 1
        return not self.has_grammars

    def train_grammar(self) -> None:
        """Run one step of the training of the next grammar."""
        if self._current is None:
            self._current = self._new_stage()
        current, number = self._current, len(self._grammars)
        current.on_iteration = self.report
        more = current.step()
        self.value = current.value
        if more:
            return
        self._members.append(current.parameters())
        self._current = None
        settings, _ = self.plan(number)
        if settings.prior is not None or len(self._members) == settings.grammars:
            grammar = self._joined()
            self._first = self._first or grammar
            self._grammars.append(nested(grammar.to_bytes()))
            self._members = []

    def grammar(self, number: int) -> LatentGrammar:
        """Return a trained grammar, by its number."""
        return LatentGrammar.from_bytes(self._grammars[number])

    def parameters(self) -> Any:
        """The first grammar: the members that are trained, or before, the first one so far."""
        if self._first is not None:
            return self._first
        if self._members:
            return self._joined()
        assert self._current is not None
        return self._current.parameters()

    def _joined(self) -> LatentGrammar:
        return product(self._members) if len(self._members) > 1 else self._members[0]

    def _new_stage(self) -> Trainer[Any]:
        settings, trees = self.plan(len(self._grammars))
        if settings.prior is None:
            settings = replace(settings, grammars=1, seed=settings.seed + len(self._members))
        return self._trainer_of_one(settings, trees)

    def close(self) -> None:
        if self._current is not None:
            self._current.close()

    def state(self) -> dict[str, Any]:
        parts = {"grammars": self._grammars, "members": self._members, "current": self._current}
        return super().state() | parts

    def restore(self, state: dict[str, Any]) -> bool | None:
        super().restore(state)
        self._grammars = [np.asarray(grammar, dtype=np.uint8) for grammar in state["grammars"]]
        if len(self._grammars) > self.n_grammars:
            raise ValueError(f"{len(self._grammars)} grammars of {self.n_grammars}")
        self._first = self.grammar(0) if self._grammars else None
        self._members = list(map(LatentGrammar.from_bytes, state["members"]))
        self._current = None
        if state["current"] is not None:
            self._current = self._new_stage()
            return self._current.resume(state["current"])
        return None
