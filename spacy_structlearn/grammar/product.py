"""Products of latent grammars: the same training with other random numbers, and all of them parse.

Petrov (2010): split-merge EM ends in another local optimum for every seed, and the grammars make
other mistakes. Their posteriors, multiplied over each production, are better than those of the best
of them. Only the first keeps its cascade, which thins out the chart for all; of the others the last
level is kept, so that a product of four takes half as much time again as one grammar, not four
times as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from .. import serialization
from ..errors import StructlearnError
from ..trees.tree import Tree
from .estimators import Callback, SplitMerge
from .model import LatentGrammar, product
from .symbols import TreebankData

_KIND = "product_state"
_VERSION = 1


class GrammarTrainer(Protocol):
    """What a product asks of the training of one grammar; see `SplitMergeTrainer`."""

    on_iteration: Callback | None
    value: float
    n_iterations: int

    def step(self) -> bool:
        """One round. Returns False once all are done."""
        ...

    def parameters(self) -> LatentGrammar:
        """The grammar so far."""
        ...

    def to_bytes(self) -> bytes:
        """The state of the training."""
        ...

    def resume(self, state: bytes) -> bool:
        """Go on from `to_bytes`. Returns False if it is of other data or settings."""
        ...


class GrammarEstimator(Protocol):
    """How one grammar is learned: `SplitMerge`, `ConditionalGrammar`."""

    @property
    def seed(self) -> int:
        """Of the random numbers."""
        ...

    @property
    def max_iterations(self) -> int:
        """See `Product.max_iterations`."""
        ...

    def with_seed(self, seed: int) -> GrammarEstimator:
        """The same settings with another seed."""
        ...

    def encode(self, data: Sequence[Tree | Sequence[Tree] | TreebankData]) -> TreebankData:
        """All trees of `data`."""
        ...

    def initialize(
        self,
        data: Sequence[Tree | Sequence[Tree] | TreebankData],
        labels: Sequence[str] = (),
        previous: LatentGrammar | None = None,
    ) -> LatentGrammar:
        """The treebank grammar."""
        ...

    def trainer(
        self,
        parameters: LatentGrammar | None,
        data: Sequence[Tree | Sequence[Tree] | TreebankData],
    ) -> GrammarTrainer:
        """Training from the treebank grammar on."""
        ...


@dataclass(frozen=True)
class Product:
    """A product of `grammars` latent grammars, learned as `base` says, with seeds from its own on.

    Raises StructlearnError SL406 for fewer than one.
    """

    base: GrammarEstimator = field(default_factory=SplitMerge)
    grammars: int = 4

    attributes: ClassVar[tuple[str, ...]] = ("ORTH",)

    def __post_init__(self) -> None:
        if self.grammars < 1:
            raise StructlearnError(
                "SL406", name="grammars", wanted="1 or more", value=self.grammars
            )

    @property
    def max_iterations(self) -> int:
        """Calls of `on_iteration` and steps after which there is another, at most."""
        return self.grammars * (self.base.max_iterations + 1) - 1

    def initialize(
        self,
        data: Sequence[Tree | Sequence[Tree] | TreebankData],
        labels: Sequence[str] = (),
        previous: LatentGrammar | None = None,
    ) -> LatentGrammar:
        """The treebank grammar, see `SplitMerge.initialize`."""
        return self.base.initialize(data, labels, previous)

    def trainer(
        self,
        parameters: LatentGrammar | None,
        data: Sequence[Tree | Sequence[Tree] | TreebankData],
    ) -> ProductTrainer:
        """Training from the treebank grammar on; it follows from the data alone."""
        return ProductTrainer(self, self.base.encode(data))


class ProductTrainer:
    """One grammar after another; a step is a round of one of them.

    value: the negative log-likelihood of the trees under the grammar in training, in nats.
    n_iterations: rounds of all so far. on_iteration: as of `SplitMergeTrainer`.
    """

    def __init__(self, settings: Product, data: TreebankData):
        self.settings = settings
        self.on_iteration: Callback | None = None
        self._data = data
        self._done: list[LatentGrammar] = []
        self._current: GrammarTrainer | None = self._trainer(0)
        self._end = b""  # of the last grammar's training, once all are done
        self.value = 0.0
        self.n_iterations = 0

    def _trainer(self, number: int) -> GrammarTrainer:
        base = self.settings.base
        return base.with_seed(base.seed + number).trainer(None, [self._data])

    def add(self, data: Sequence[Tree | Sequence[Tree] | TreebankData]) -> None:
        """More trees. They may hold rules that the grammar lacks, so training begins again."""
        more = self.settings.base.encode([self._data, *data])
        callback = self.on_iteration
        self.__init__(self.settings, more)  # type: ignore[misc]
        self.on_iteration = callback

    def step(self) -> bool:
        """One round of the grammar whose turn it is. Returns False once all are done."""
        if self._current is None:
            return False
        self._current.on_iteration = self.on_iteration
        before = self._current.n_iterations
        more = self._current.step()
        self.value = self._current.value
        self.n_iterations += self._current.n_iterations - before
        if not more:
            self._done.append(self._current.parameters())
            number = len(self._done)
            if number < self.settings.grammars:
                self._current = self._trainer(number)
            else:
                self._end, self._current = self._current.to_bytes(), None
        return self._current is not None

    def parameters(self) -> LatentGrammar:
        """The product of the grammars that are complete, or what there is of the first."""
        if not self._done:
            assert self._current is not None
            return self._current.parameters()
        return product(self._done)

    def to_bytes(self) -> bytes:
        """The state of the training, to go on bit for bit with the same data and settings."""
        current = self._end if self._current is None else self._current.to_bytes()
        fields = {
            "done": [serialization.nested(grammar.to_bytes()) for grammar in self._done],
            "current": serialization.nested(current),
            "value": self.value,
            "n_iterations": self.n_iterations,
        }
        return serialization.pack(_KIND, _VERSION, fields)

    def resume(self, state: bytes) -> bool:
        """Go on from `to_bytes`. Returns False if the state is of other data or settings.

        Raises StructlearnError SL050 to SL054 if the bytes are no such state.
        """
        _, fields = serialization.unpack(state, _KIND, {_VERSION})
        # Of another base estimator, the state is of another kind.
        with serialization.reading(_KIND, "SL052", "SL405"):
            done = [LatentGrammar.from_bytes(part.tobytes()) for part in fields["done"]]
            number, last = len(done), self.settings.grammars - 1
            # None is what was written of all grammars once: it does not tell of which data.
            if fields["current"] is None or number > last + 1:
                return False
            end = fields["current"].tobytes()
            current: GrammarTrainer | None = self._trainer(min(number, last))
            if not current.resume(end):
                return False
            value, n_iterations = float(fields["value"]), int(fields["n_iterations"])
        if number > last:
            self._end, current = end, None
        self._done, self._current = done, current
        self.value, self.n_iterations = value, n_iterations
        return True
