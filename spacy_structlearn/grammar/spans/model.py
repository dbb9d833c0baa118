"""The model of span scores: a latent grammar, and the features that score its trees.

For the model itself and how it is trained see `training`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from ...errors import StructlearnError
from ...learning.stored import Stored
from ..chart.hypergraph import Scorer
from ..latent.model import LatentGrammar
from .features import LinearScorer, SpanWeights


class SpanGrammar(Stored):
    """A latent grammar, or a product, and linear scores of its trees.

    grammar: parses first.
    weight: of the logarithm of the grammar's variational distribution.
    features: weights of features of spans. None: no such features.
    temperature: posteriors of brackets are raised to the power of one over it, as a calibration, in
        place of the grammar's temperature.

    Raises StructlearnError for a weight or a temperature out of range, or if the features are
    of other symbols.
    """

    kind = "anchored_grammar"  # in stored files, an earlier name of the class
    passed = ("SL405",)
    # What scores trees and is stored, by the name of the field.
    parts: ClassVar[dict[str, Any]] = {"features": SpanWeights}

    def __init__(
        self,
        grammar: LatentGrammar,
        weight: float = 1.0,
        features: SpanWeights | None = None,
        temperature: float = 1.0,
    ):
        self.grammar, self.features = grammar, features
        self.weight, self.temperature = float(weight), float(temperature)
        problem = None
        if not 0 <= self.weight < np.inf:
            problem = f"a weight of {self.weight}"
        elif not 0 < self.temperature < np.inf:
            problem = f"a temperature of {self.temperature}"
        sizes = self.symbols.n_tags, self.symbols.size
        for part in self._stored.values():
            if part is not None and (part.n_tags, part.n_symbols) != sizes:
                problem = f"features of {part.n_tags} tags of {part.n_symbols} symbols"
        if problem:
            raise StructlearnError("SL433", problem=problem)

    @classmethod
    def empty(cls) -> SpanGrammar:
        """Return a grammar without symbols, which an untrained component holds."""
        return cls(LatentGrammar.empty())

    def scorers(self) -> list[Scorer]:
        """Return what scores the trees of the grammar."""
        return [] if self.features is None else [LinearScorer(self.features)]

    def description(self) -> list[str]:
        """Return lines on what scores the trees of the grammar."""
        weight = f"{self.weight:.3g} times the score of the grammar"
        lines = [f"span scores: trees are scored again, and {weight} is added"]
        if self.features is not None:
            known = f"{len(self.features.vocabulary):,} words known"
            lines.append(f"  {self.features.n_weights:,} weights of span features, {known}")
        return lines

    # As in the grammar.
    is_empty = property(attrgetter("grammar.is_empty"))
    symbols = property(attrgetter("grammar.symbols"))
    lexicon = property(attrgetter("grammar.lexicon"))
    binarization = property(attrgetter("grammar.binarization"))
    top_label = property(attrgetter("grammar.top_label"))

    def without_words(self, words: Collection[str]) -> SpanGrammar:
        """Return a grammar that does not know these words; see `LatentGrammar.without_words`."""
        return self._with(self.grammar.without_words(words), lambda part: part.without_words(words))

    def compact(
        self, threshold: float = 1e-6, storage: str = "float16", *, feature_threshold: float = 1e-2
    ) -> SpanGrammar:
        """See `LatentGrammar.compact`. Features below `feature_threshold` get a weight of zero."""
        grammar = self.grammar.compact(threshold, storage)
        return self._with(grammar, lambda part: part.compact(feature_threshold, storage))

    def _with(self, grammar: LatentGrammar, changed: Callable[[Any], Any]) -> SpanGrammar:
        """Replace the grammar, and change all weights."""
        parts = {n: None if part is None else changed(part) for n, part in self._stored.items()}
        return self.replaced(grammar=grammar, **parts)

    def to_fields(self) -> tuple[int, dict[str, Any]]:
        return self.version, {
            "grammar": self.grammar,
            "weight": self.weight,
            "features": None if self.features is None else self.features.to_fields()[1],
            "temperature": self.temperature,
        }

    @classmethod
    def from_fields(cls, version: int, fields: dict[str, Any]) -> SpanGrammar:
        for name, kind in cls.parts.items():
            if fields.get(name) is not None:
                fields[name] = kind.from_fields(version, fields[name])
        return super().from_fields(version, fields)

    @property
    def _stored(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.parts}
