"""Weights of features of fragments (see `fragments`), and the scores that they give to trees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from . import _fragments, _span_features
from .fragments import (
    FRAGMENT_TEMPLATES,
    FeatureHasher,
    FragmentForests,
    FragmentTemplates,
    Hashes,
    Sentences,
)
from .hypergraph import Floats, Hypergraphs, Mask
from .model import STORAGES, Entries, check_storage, from_signed, signed
from .symbols import BINARIZATIONS, Symbols
from .word_attributes import vocabulary, without


@dataclass(frozen=True)
class FragmentFeatures:
    """Which features of fragments there are.

    templates: see `fragments`; None: the usual ones. min_count: how often a feature must be in the
    training data. min_word_count: how often a word must be there to be known.
    Raises StructlearnError SL442 for a setting out of range, SL441 and SL431 as `FragmentTemplates`.
    """

    templates: Sequence[str] | None = None
    min_count: int = 2
    min_word_count: int = 2

    def __post_init__(self) -> None:
        if self.templates is not None:
            object.__setattr__(self, "templates", tuple(self.templates))
            if not self.templates:
                raise StructlearnError("SL442", name="templates", wanted="one or more", value=())
        for name in ("min_count", "min_word_count"):
            value = getattr(self, name)
            if value < 1:
                raise StructlearnError("SL442", name=name, wanted="1 or more", value=value)
        self.texts()

    def texts(self) -> FragmentTemplates:
        """The templates."""
        return FragmentTemplates(FRAGMENT_TEMPLATES if self.templates is None else self.templates)

    def vocabulary(self, sentences: Iterable[Sequence[str]]) -> Hashes:
        """The hashes of the known words of training data, uint64, ascending."""
        return vocabulary(sentences, self.min_word_count)


class FragmentWeights:
    """What is learned: the features, as hashes, and their weights.

    templates: texts. n_tags, n_symbols: of the symbols, tags first. binarization: "right" or
    "left". vocabulary: uint64, ascending, hashes of the known words. keys: uint64 (n), ascending;
    values: float32 (n). storage: how `fields` writes the latter; see `LatentGrammar`.
    Raises ValueError if the parts do not fit together, SL441 and SL431 as `FragmentTemplates`.
    """

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
        problem = self._problem()
        if problem:
            raise ValueError(problem)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def n_weights(self) -> int:
        """Number of weights other than zero."""
        return int(np.count_nonzero(self.values))

    def with_weights(self, values: NDArray[np.floating]) -> FragmentWeights:
        """The same features with other weights, (n)."""
        return self._replaced(values=np.asarray(values, dtype=np.float32))

    def without_words(self, words: Iterable[str]) -> FragmentWeights:
        """Weights that do not know these words, which are then judged as rare ones."""
        return self._replaced(vocabulary=without(self.vocabulary, words))

    def compact(self, threshold: float = 1e-2, storage: str = "float16") -> FragmentWeights:
        """Fewer and rounder weights: features whose weights are smaller in magnitude are left out.

        Raises StructlearnError SL404 for an unknown storage.
        """
        check_storage(storage)
        kept = np.abs(self.values) >= threshold
        compacted = self._replaced(keys=self.keys[kept], values=self.values[kept], storage=storage)
        return FragmentWeights.from_fields(compacted.fields())

    def fields(self) -> dict[str, Any]:
        """What `serialization.pack` can store."""
        return {
            "templates": self.templates.texts,
            "n_tags": self.n_tags,
            "n_symbols": self.n_symbols,
            "binarization": self.binarization,
            "vocabulary": self.vocabulary.view(np.int64),
            "keys": self.keys.view(np.int64),
            **signed(Entries.of(self.values), len(self.values), self.storage),
            "storage": self.storage,
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> FragmentWeights:
        """What `fields` gave. Raises ValueError, TypeError or LookupError if it cannot be that."""
        hashes = [fields[name] for name in ("vocabulary", "keys")]
        if any(array.dtype != np.int64 for array in hashes):
            raise ValueError("features or words that are no hashes")
        vocabulary, keys = (array.view(np.uint64) for array in hashes)
        entries = from_signed(fields, len(keys))
        values = np.zeros(len(keys), dtype=np.float32)
        values[entries.places] = entries.values
        return cls(
            fields["templates"],
            fields["n_tags"],
            fields["n_symbols"],
            fields["binarization"],
            vocabulary,
            keys,
            values,
            fields["storage"],
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FragmentWeights):
            return NotImplemented
        names = ("n_tags", "n_symbols", "binarization", "storage")
        arrays = ("vocabulary", "keys", "values")
        return (
            all(getattr(self, name) == getattr(other, name) for name in names)
            and self.templates.texts == other.templates.texts
            and all(np.array_equal(getattr(self, a), getattr(other, a)) for a in arrays)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<FragmentWeights: {len(self)} features, {len(self.vocabulary)} words>"

    def _replaced(self, **changes: Any) -> FragmentWeights:
        names = ("n_tags", "n_symbols", "binarization", "vocabulary", "keys", "values", "storage")
        parts = {name: getattr(self, name) for name in names} | changes
        return FragmentWeights(self.templates.texts, **parts)

    def _problem(self) -> str | None:
        counts = (self.n_tags, self.n_symbols)
        if any(type(n) is not int for n in counts) or not 0 <= self.n_tags <= self.n_symbols:
            return f"{self.n_tags} tags of {self.n_symbols} symbols"
        if self.storage not in STORAGES or self.binarization not in BINARIZATIONS:
            return f"stored as {self.storage!r}, binarised to the {self.binarization!r}"
        for hashes in (self.vocabulary, self.keys):
            ascending = hashes.ndim == 1 and (hashes[1:] > hashes[:-1]).all()
            if hashes.dtype != np.uint64 or not ascending:
                return "hashes that are not ascending"
        if self.values.shape != self.keys.shape or not np.isfinite(self.values).all():
            return "weights that are no numbers, or as many as there are features"
        return None


class FragmentScorer:
    """Scores the trees of forests.

    weights: of the features. symbols: those of the grammar. Several threads may ask at once.
    """

    def __init__(self, weights: FragmentWeights, symbols: Symbols):
        self.weights = weights
        self._symbols = symbols
        self._hasher = FeatureHasher(weights.templates, weights.vocabulary)
        self._table = _fragments.Table(weights.keys)

    def places(
        self, sentences: Sentences, graphs: Hypergraphs, kept: Mask | None = None
    ) -> FragmentPlaces:
        """The features of all productions of forests.

        sentences: the words of each. kept: edges of trees that must stay, see `FragmentForests`.
        Raises ValueError if the forests are not theirs.
        """
        if [len(sentence) for sentence in sentences] != graphs.n_words.tolist():
            raise ValueError("the forests are not those of the sentences")
        weights, hasher, templates = self.weights, self._hasher, self.weights.templates
        forests = FragmentForests(graphs, templates, self._symbols, weights.binarization, kept)
        sites = forests.sites
        attributes = hasher.attributes(sentences)
        parts = hasher.parts(sites)
        local = np.full((len(sites), len(templates.local)), -1, dtype=np.int32)
        for column, template in enumerate(templates.local):
            own = np.flatnonzero(sites.of(template, sites.relations))
            part, chosen = parts[template.part][own], sites.select(own)
            keys = hasher.keys(template, chosen, part, chosen.relations, attributes)
            local[own, column] = self._table.find(keys)
        above = np.full((len(forests.local), len(templates.above)), -1, dtype=np.int32)
        making = np.flatnonzero(forests.local >= 0)
        rows, relations = forests.local[making], forests.relations[making]
        for column, template in enumerate(templates.above):
            own = np.flatnonzero(sites.of(template, relations, rows))
            part = parts[template.part][rows[own]]
            # What looks up looks at no words, so that the sites themselves are not needed.
            keys = hasher.keys(template, sites, part, relations[own], attributes)
            above[making[own], column] = self._table.find(keys)
        return FragmentPlaces(forests, local, above)

    def scores(self, sentences: Sentences, graphs: Hypergraphs) -> tuple[FragmentForests, Floats]:
        """The forests, refined as the features ask, and the score of each edge, float64 (E)."""
        places = self.places(sentences, graphs)
        return places.forests, places.scores(self.weights.values)


@dataclass
class FragmentPlaces:
    """Where the features of forests are among the weights.

    forests: refined. local: int32 (sites, n), features of `forests.sites`; above: int32 (E, m),
    features of edges that look at what is above; -1 for none.
    """

    forests: FragmentForests
    local: NDArray[np.int32]
    above: NDArray[np.int32]

    def scores(self, weights: NDArray[Any]) -> Floats:
        """The sum of the weights of each edge, float64 (E)."""
        # The last one is of edges that make nothing.
        own = np.append(_span_features.sums(self.local, weights), 0.0)
        return own[self.forests.local] + _span_features.sums(self.above, weights)

    def gradient(self, by_edge: Floats, size: int) -> Floats:
        """From the derivatives by the scores of edges those by the weights, float64 (size)."""
        rows = self.forests.local
        has = rows >= 0
        by_site = np.bincount(rows[has], by_edge[has], len(self.local)).astype(np.float64)
        found = _span_features.scattered(self.local, by_site, size)
        return found + _span_features.scattered(self.above, by_edge, size)
