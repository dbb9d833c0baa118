"""The model of span scores: a latent grammar, and what its trees are scored with beside it.

Which model it is, and how it is learned, see `span_grammar`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from ... import serialization
from ...errors import StructlearnError
from ...learning.stored import Stored
from ..fragments.weights import FragmentWeights
from ..latent.model import LatentGrammar
from ..treebank.lexicon import Lexicon
from ..treebank.symbols import Symbols
from .features import SpanWeights


class SpanGrammar(Stored):
    """A latent grammar, or a product, and what its trees are scored with beside it.

    grammar: parses first. weight: of the logarithm of its variational distribution. features:
    linear scores; None: none. What a network scores with is no part of it. temperature: posteriors
    of brackets are raised to the power of one over it, a calibration, in place of the grammar's.
    fragments: scores of more than symbols over spans, see `fragments`; None: none.
    Raises StructlearnError for a weight or a temperature out of range, or if the features are
    of other symbols.
    """

    kind = "anchored_grammar"
    passed = ("SL405",)

    def __init__(
        self,
        grammar: LatentGrammar,
        weight: float = 1.0,
        features: SpanWeights | None = None,
        temperature: float = 1.0,
        fragments: FragmentWeights | None = None,
    ):
        self.grammar, self.features, self.fragments = grammar, features, fragments
        self.weight, self.temperature = float(weight), float(temperature)
        problem = None
        if not 0 <= self.weight < np.inf:
            problem = f"a weight of {self.weight}"
        elif not 0 < self.temperature < np.inf:
            problem = f"a temperature of {self.temperature}"
        for own in (self.features, self.fragments):
            if own is not None and (own.n_tags, own.n_symbols) != self._sizes:
                problem = f"features of {own.n_tags} tags of {own.n_symbols} symbols"
        if self.fragments is not None and self.fragments.binarization != self.binarization:
            problem = f"features of trees binarised to the {self.fragments.binarization}"
        if problem:
            raise StructlearnError("SL433", problem=problem)

    @classmethod
    def empty(cls) -> SpanGrammar:
        """A grammar without symbols: what an untrained component holds."""
        return cls(LatentGrammar.empty())

    @property
    def is_empty(self) -> bool:
        """Whether nothing can be parsed."""
        return self.grammar.is_empty

    @property
    def _sizes(self) -> tuple[int, int]:
        return self.symbols.n_tags, self.symbols.size

    @property
    def symbols(self) -> Symbols:
        """Those of the grammar."""
        return self.grammar.symbols

    @property
    def lexicon(self) -> Lexicon:
        """That of the grammar."""
        return self.grammar.lexicon

    @property
    def binarization(self) -> str:
        """That of the grammar."""
        return self.grammar.binarization

    @property
    def top_label(self) -> str:
        """See `LatentGrammar.top_label`."""
        return self.grammar.top_label

    def without_words(self, words: Collection[str]) -> SpanGrammar:
        """A grammar that does not know these words; see `LatentGrammar.without_words`."""
        features, fragments = self.features, self.fragments
        return self.replaced(
            grammar=self.grammar.without_words(words),
            features=None if features is None else features.without_words(words),
            fragments=None if fragments is None else fragments.without_words(words),
        )

    def compact(
        self,
        threshold: float = 1e-6,
        storage: str = "float16",
        *,
        feature_threshold: float = 1e-2,
    ) -> SpanGrammar:
        """A smaller one that parses (almost) as this one does.

        threshold, storage: see `LatentGrammar.compact`. feature_threshold: weights of features
        that are smaller become zero.
        """
        features, fragments = (
            None if own is None else own.compact(feature_threshold, storage)
            for own in (self.features, self.fragments)
        )
        grammar = self.grammar.compact(threshold, storage)
        return self.replaced(grammar=grammar, features=features, fragments=fragments)

    def to_fields(self) -> tuple[int, dict[str, Any]]:
        own: dict[str, Any] = {
            "grammar": serialization.nested(self.grammar.to_bytes()),
            "weight": self.weight,
            "features": None if self.features is None else self.features.to_fields()[1],
            "temperature": self.temperature,
        }
        if self.fragments is not None:
            own["fragments"] = self.fragments.to_fields()[1]
        return self.version, own

    @classmethod
    def from_fields(cls, version: int, fields: dict[str, Any]) -> SpanGrammar:
        for name, kind in (("features", SpanWeights), ("fragments", FragmentWeights)):
            if fields.get(name) is not None:
                fields[name] = kind.from_fields(version, fields[name])
        return super().from_fields(version, fields)
