"""Weights of features of fragments (see `features`), and the grammars whose trees they score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...errors import StructlearnError
from ...kernels.index import KeyIndex
from ..chart.hypergraph import Floats, Hypergraphs, Mask, Refinement, Scorer
from ..latent.model import LatentGrammar
from ..spans import _features as _span_features
from ..spans.features import HashedWeights, SpanWeights
from ..spans.model import SpanGrammar
from ..spans.word_attributes import are_hashes, hashes_of
from ..treebank.data import BINARIZATIONS
from ..treebank.storage import Entries, from_signed, signed
from ..treebank.symbols import Symbols
from .features import FeatureHasher, FragmentForests, FragmentTemplates, Hashes, Sentences


class FragmentWeights(HashedWeights):
    """Features, as hashes, and their weights.

    templates: texts. binarization: "right" or "left". keys: uint64 (n), ascending. values: float32
    (n). For the rest see `HashedWeights`.
    Raises ValueError if the parts do not fit together, and StructlearnError as `FragmentTemplates`.
    """

    kind = "fragment_weights"

    def __init__(
        self,
        templates: Sequence[str],
        n_tags: int,
        n_symbols: int,
        binarization: str,
        vocabulary: Hashes,
        keys: Hashes,
        values: NDArray[np.float32],
        storage: str = "float32",
    ):
        self.templates = FragmentTemplates(templates)
        self.n_tags, self.n_symbols, self.binarization = n_tags, n_symbols, binarization
        self.vocabulary, self.keys, self.values = vocabulary, keys, values
        self.storage = storage
        self._check(self._problem())

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def n_weights(self) -> int:
        """Number of weights other than zero."""
        return int(np.count_nonzero(self.values))

    def with_weights(self, values: NDArray[np.floating]) -> FragmentWeights:
        """Return the same features with other weights, (n)."""
        return self.replaced(values=np.asarray(values, dtype=np.float32))

    def _above(self, threshold: float) -> FragmentWeights:
        large = np.abs(self.values) >= threshold
        return self.replaced(keys=self.keys[large], values=self.values[large])

    def fields(self) -> dict[str, Any]:
        return super().fields() | {"templates": self.templates.texts}

    def to_fields(self) -> tuple[int, dict[str, Any]]:
        fields = self.fields()
        values = fields.pop("values")
        fields |= {name: fields[name].view(np.int64) for name in ("vocabulary", "keys")}
        return self.version, fields | signed(Entries.of(values), len(values), self.storage)

    @classmethod
    def from_fields(cls, version: int, fields: dict[str, Any]) -> FragmentWeights:
        arguments = {name: fields[name] for name in fields.keys() - {"magnitudes", "negative"}}
        arguments |= {name: hashes_of(fields[name]) for name in ("vocabulary", "keys")}
        entries = from_signed(fields, len(arguments["keys"]))
        arguments["values"] = np.zeros(len(arguments["keys"]), dtype=np.float32)
        arguments["values"][entries.places] = entries.values
        return super().from_fields(version, arguments)

    def _problem(self) -> str | None:
        if self.binarization not in BINARIZATIONS:
            return f"binarised to the {self.binarization!r}"
        if not are_hashes(self.keys):
            return "hashes that are not ascending"
        if self.values.shape != self.keys.shape or not np.isfinite(self.values).all():
            return "weights that are no numbers, or as many as there are features"
        return None


class FragmentScorer:
    """Scores the trees of forests. Several threads may use it at the same time.

    weights: of the features. symbols: of the grammar.
    """

    def __init__(self, weights: FragmentWeights, symbols: Symbols):
        self.weights = weights
        self._symbols = symbols
        self._hasher = FeatureHasher(weights.templates, weights.vocabulary)
        self._index = KeyIndex(weights.keys)

    def places(
        self, sentences: Sentences, graphs: Hypergraphs, kept: Mask | None = None
    ) -> FragmentPlaces:
        """Return the features of all productions of forests.

        sentences: the words of each. kept: edges of trees that must stay, see `FragmentForests`.
        Raises ValueError if the forests are not those of the sentences.
        """
        if [len(sentence) for sentence in sentences] != graphs.n_words.tolist():
            raise ValueError("the forests are not those of the sentences")
        weights, hasher, templates = self.weights, self._hasher, self.weights.templates
        forests = FragmentForests(graphs, templates, self._symbols, weights.binarization, kept)
        attributes = hasher.attributes(sentences)
        local = np.full((len(forests.sites), len(templates.local)), -1, dtype=np.int32)
        for column, template in enumerate(templates.local):
            rows, keys = hasher.features(template, forests.sites, attributes)
            local[rows, column] = self._index.find(keys)
        above = np.full((len(forests.local), len(templates.above)), -1, dtype=np.int32)
        edges = np.flatnonzero(forests.local >= 0)
        for column, template in enumerate(templates.above):
            rows, keys = hasher.features(template, forests.split, attributes)
            above[edges[rows], column] = self._index.find(keys)
        return FragmentPlaces(forests, local, above)

    def scores(self, sentences: Sentences, graphs: Hypergraphs) -> Refinement:
        """Refine the forests as the features ask, and score their edges."""
        places = self.places(sentences, graphs)
        forests = places.forests
        return Refinement(forests.graphs, forests.edges, places.scores(self.weights.values))


@dataclass
class FragmentPlaces:
    """The places of the features of forests among the weights.

    forests: refined forests. local: features of `forests.sites`, int32 (sites, n). above: features
    of edges that look at ancestors, int32 (E, m). -1 is for no feature.
    """

    forests: FragmentForests
    local: NDArray[np.int32]
    above: NDArray[np.int32]

    def scores(self, weights: NDArray[Any]) -> Floats:
        """Return the sum of the weights of each edge, float64 (E)."""
        # The last score is that of edges that make nothing.
        by_site = np.append(_span_features.sums(self.local, weights), 0.0)
        return by_site[self.forests.local] + _span_features.sums(self.above, weights)


class FragmentGrammar(SpanGrammar):
    """A span grammar whose trees are also scored by features of fragments.

    fragments: weights of these features. None: no such features. For the rest see `SpanGrammar`.
    Raises StructlearnError as `SpanGrammar`, and for features of trees binarised differently.
    """

    parts: ClassVar[dict[str, Any]] = {"features": SpanWeights, "fragments": FragmentWeights}

    def __init__(
        self,
        grammar: LatentGrammar,
        weight: float = 1.0,
        features: SpanWeights | None = None,
        temperature: float = 1.0,
        fragments: FragmentWeights | None = None,
    ):
        self.fragments = fragments
        super().__init__(grammar, weight, features, temperature)
        if fragments is not None and fragments.binarization != self.binarization:
            problem = f"features of trees binarised to the {fragments.binarization}"
            raise StructlearnError("SL433", problem=problem)

    def scorers(self) -> list[Scorer]:
        fragments = [] if self.fragments is None else [FragmentScorer(self.fragments, self.symbols)]
        return [*super().scorers(), *fragments]

    def description(self) -> list[str]:
        lines = super().description()
        if self.fragments is not None:
            words = f"{len(self.fragments.vocabulary):,} words known"
            n_weights = f"{self.fragments.n_weights:,} of them with weights other than zero"
            lines.append(f"  {len(self.fragments):,} features of fragments, {n_weights}, {words}")
        return lines

    def to_fields(self) -> tuple[int, dict[str, Any]]:
        version, fields = super().to_fields()
        if self.fragments is not None:
            fields["fragments"] = self.fragments.to_fields()[1]
        return version, fields
