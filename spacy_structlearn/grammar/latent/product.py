"""Products of latent grammars: the same training with other random numbers, and all of them parse.

Petrov (2010): split-merge EM ends in another local optimum for every seed, and the grammars make
other mistakes. Their posteriors, multiplied over each production, are better than those of the best
of them. Only the first keeps its cascade, which thins out the chart for all; of the others the last
level is kept, so that a product of four takes half as much time again as one grammar, not four
times as much.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...learning.training import Trainer
from ...serialization import nested
from .model import LatentGrammar, product
from .settings import LatentGrammarSettings
from .training import TreebankTrainer


class ProductTrainer(TreebankTrainer[LatentGrammarSettings]):
    """One grammar after another; a step is one of the training of one of them.

    value, on_iteration: as of the grammar in training.
    """

    _current: Trainer[Any] | None = None

    def begin(self) -> None:
        """The training of the first."""
        self._done: list[LatentGrammar] = []
        self._current = self._trainer(0)

    def _trainer(self, number: int) -> Trainer[Any]:
        one = replace(self.settings, grammars=1, seed=self.settings.seed + number)
        return one.trainer(None, [self._data], make_engine=self.make_engine)

    def iterate(self) -> bool:
        """One step of the grammar whose turn it is. Returns False once all are done."""
        self._current.on_iteration = self.report
        more = self._current.step()
        self.value = self._current.value
        self.n_iterations += 1
        if not more:
            self._done.append(self._current.parameters())
            if len(self._done) < self.settings.grammars:
                self._current = self._trainer(len(self._done))
        return len(self._done) < self.settings.grammars

    def parameters(self) -> LatentGrammar:
        """The product of the grammars that are complete, or what there is of the first."""
        return product(self._done) if self._done else self._current.parameters()

    def close(self) -> None:
        """Let go of what the training in progress holds."""
        if self._current is not None:
            self._current.close()

    def state(self) -> dict[str, Any]:
        """The grammars that are complete, and the training of the last one."""
        return {
            "done": [nested(grammar.to_bytes()) for grammar in self._done],
            "current": nested(self._current.to_bytes()),
        }

    def restore(self, state: dict[str, Any]) -> bool:
        """Set what `state` gave."""
        done = [LatentGrammar.from_bytes(part.tobytes()) for part in state["done"]]
        if len(done) > self.settings.grammars:
            raise ValueError(f"{len(done)} grammars of {self.settings.grammars}")
        current = self._trainer(min(len(done), self.settings.grammars - 1))
        if not current.resume(state["current"].tobytes()):
            return False
        self._done, self._current = done, current
        return True
