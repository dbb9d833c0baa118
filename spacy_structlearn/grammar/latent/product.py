"""Products of latent grammars that are trained with different random numbers.

Petrov (2010): split-merge EM ends in a different local optimum for each seed, and the grammars make
different mistakes. The product of their posteriors of productions is more accurate than the best
single grammar. Only the first grammar keeps its coarse levels, which prune the chart for all; the
others keep their last level. Parsing with a product of four therefore takes about 1.5 times as long
as with one grammar.
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
    """Trains one grammar after another. A step is one step of the training of one grammar.

    value, on_iteration: those of the grammar in training.
    """

    _current: Trainer[Any] | None = None

    def begin(self) -> None:
        """Begin the training of the first grammar."""
        self._done: list[LatentGrammar] = []
        self._current = self._trainer(0)

    def _trainer(self, number: int) -> Trainer[Any]:
        one = replace(self.settings, grammars=1, seed=self.settings.seed + number)
        return one.trainer(None, [self._data], make_engine=self.make_engine)

    def iterate(self) -> bool:
        """Run one step of the current training. Returns False once all grammars are trained."""
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
        """The product of the trained grammars; before, the first grammar so far."""
        return product(self._done) if self._done else self._current.parameters()

    def close(self) -> None:
        """Close the current training."""
        if self._current is not None:
            self._current.close()

    def state(self) -> dict[str, Any]:
        """The trained grammars, and the current training."""
        return {
            "done": [nested(grammar.to_bytes()) for grammar in self._done],
            "current": nested(self._current.to_bytes()),
        }

    def restore(self, state: dict[str, Any]) -> bool:
        """Set what `state` returned."""
        done = [LatentGrammar.from_bytes(part.tobytes()) for part in state["done"]]
        if len(done) > self.settings.grammars:
            raise ValueError(f"{len(done)} grammars of {self.settings.grammars}")
        current = self._trainer(min(len(done), self.settings.grammars - 1))
        if not current.resume(state["current"].tobytes()):
            return False
        self._done, self._current = done, current
        return True
