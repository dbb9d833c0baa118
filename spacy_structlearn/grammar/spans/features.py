"""Scores of symbols over spans that are linear in features of the words around each span.

Hall, Durrett & Klein (2014), "Less grammar, more features", section 5: the features of a span are
the words, suffixes and shapes at both of its ends, inside and outside, its length and its overall
shape, each together with the symbol over the span. There are no features at the split of a binary
production, since only symbols over spans are scored. As in Petrov & Klein (2008), "Sparse
multi-scale grammars", section 3, an L1 penalty makes most weights zero.

A feature is a place in one vector of weights: a hash of its template, the attributes of its words
and the symbol over the span. A model contains no words; known words are hashes, too. The hashes are
part of the model format and must never change.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...arrays import cumulative
from ...errors import StructlearnError
from ...learning.settings import check_argument
from ...learning.stored import Stored
from ..chart.hypergraph import Floats, Hypergraphs
from ..treebank.storage import STORAGES, Entries, from_signed, signed
from ..treebank.symbols import Symbols, renumbering
from . import _features as _span_features
from .word_attributes import (
    CLASS,
    WORD_ATTRIBUTE,
    WordAttributes,
    are_hashes,
    hash_of,
    hashes_of,
    vocabulary,
    without,
)

if TYPE_CHECKING:
    from .settings import SpanFeaturesSettings

Sentences = Sequence[Sequence[str]]
W = TypeVar("W", bound="HashedWeights")

SPAN_TEMPLATES: tuple[str, ...] = (
    "bias",
    "LENGTH",
    "SPAN",
    *(
        f"{attribute}[{position}]"
        for attribute in ("WORD", "SUFFIX1", "SUFFIX2", "SUFFIX3", "SHAPE", "LENGTH|WORD")
        for position in ("first", "last", "before", "after")
    ),
    "WORD[before]|WORD[after]",
    "WORD[first]|WORD[last]",
    "WORD[before]|WORD[first]",
    "WORD[last]|WORD[after]",
    *(f"TAG[{position}]" for position in ("first", "last", "before", "after")),
    "TAG[before]|TAG[after]",
    "TAG[first]|TAG[last]",
    "TAG[before]|TAG[first]",
    "TAG[last]|TAG[after]",
)
"""The features of a span in Hall, Durrett & Klein (2014), without those of its split, and tags."""

TAG_TEMPLATES: tuple[str, ...] = (
    "WORD[0]",
    *(f"SUFFIX{n}[0]" for n in range(1, 6)),
    *(f"PREFIX{n}[0]" for n in range(1, 4)),
    "SHAPE[0]",
    "SHAPE[-1]|SHAPE[0]",
    "WORD[-1]",
    "WORD[1]",
    "SUFFIX3[-1]",
    "SUFFIX3[1]",
    "WORD[-1]|WORD[0]",
    "WORD[0]|WORD[1]",
)
"""Features of a word and its neighbours, for its tag."""

LENGTHS = (1, 2, 3, 4, 5, 7, 10, 15, 25, 40)
"""The greatest length of each class of lengths but the last."""

EPSILON = 0.1  # constant in the denominator of AdaGrad
_BIAS, _TAG = "bias", "TAG"
_ATTRIBUTE = rf"{WORD_ATTRIBUTE}|{_TAG}"
_SPAN_TERM = re.compile(rf"({_ATTRIBUTE})\[(first|last|before|after)([+-][1-9]\d?)?\]")
_TAG_TERM = re.compile(rf"({_ATTRIBUTE})\[(0|-?[1-9]\d?)\]")
_WHOLE = {"LENGTH": _span_features.LENGTH_TERM, "SPAN": _span_features.SHAPE_TERM}
# The end of the span (0: first, 1: last) and the offset to the right of each position.
_POSITIONS = {"first": (0, 0), "last": (1, 0), "before": (0, -1), "after": (1, 1)}


class SpanTemplates:
    """Templates of the features of spans and of tags.

    spans: texts such as "WORD[first]|SUFFIX3[after]", "LENGTH" or "bias". A term is an attribute of
    the word at a position: "first", "last", "before" or "after", with an offset as in
    "WORD[last-1]".
    tags: likewise, with positions relative to the word, as in "WORD[-1]".

    WORD, SUFFIX1 to SUFFIX9, PREFIX1 to PREFIX9, SHAPE: see `word_attributes`.
    TAG: the likeliest tag by the grammar.
    LENGTH: the length class of the span, see `LENGTHS`.
    SPAN: the shape of the span, with a symbol for each run of words whose first characters are of
    one class (capital, other letter, digit, or the character itself). Spans of more than 8 runs
    have no such feature.

    Positions outside the sentence have a symbol for each distance.
    Raises StructlearnError for templates that are malformed or duplicates.
    """

    def __init__(self, spans: Iterable[str] | None = None, tags: Iterable[str] | None = None):
        self.spans = SPAN_TEMPLATES if spans is None else tuple(spans)
        self.tags = TAG_TEMPLATES if tags is None else tuple(tags)
        self._terms = [_parsed(text, "span") for text in self.spans]
        self._terms += [_parsed(text, "tag") for text in self.tags]
        for texts in (self.spans, self.tags):
            for text, count in Counter(texts).items():
                if count > 1:
                    raise StructlearnError("SL202", text=text)
        names = [name for terms in self._terms for name, _, _ in terms if isinstance(name, str)]
        self.attributes: tuple[str, ...] = tuple(dict.fromkeys([CLASS, *names]))

    def hasher(
        self, n_tags: int, numbers: NDArray[np.integer], bits: int
    ) -> _span_features.SpanHasher:
        """Make the kernel that hashes features.

        numbers: by which the symbols are hashed. bits: binary logarithm of the number of weights.
        """
        texts = [*(f"span:{text}" for text in self.spans), *(f"tag:{text}" for text in self.tags)]
        columns: dict[Any, int] = {name: i for i, name in enumerate(self.attributes)}
        terms = [
            (columns.get(name, name), end, offset)
            for template in self._terms
            for name, end, offset in template
        ]
        return _span_features.SpanHasher(
            _hashes(texts),
            len(self.spans),
            cumulative(np.array(list(map(len, self._terms)), np.int32)).astype(np.int32),
            np.array(terms, dtype=np.int32).reshape(-1, 3),
            np.array(LENGTHS, dtype=np.int32),
            columns[CLASS],
            _hashes(f"symbol[{i}]" for i in numbers.tolist()),
            n_tags,
            bits,
        )


def _hashes(texts: Iterable[str]) -> NDArray[np.uint64]:
    return np.array([hash_of(text) for text in texts], dtype=np.uint64)


def _parsed(text: str, kind: str) -> list[tuple[str | int, int, int]]:
    """Parse a template to terms of an attribute or code, an end of the span, and an offset."""
    terms: list[tuple[str | int, int, int]] = []
    for term in [] if text == _BIAS else str(text).split("|"):
        match = (_SPAN_TERM if kind == "span" else _TAG_TERM).fullmatch(term)
        if match and kind == "span":
            end, offset = _POSITIONS[match[2]]
            terms.append((match[1], end, offset + int(match[3] or 0)))
        elif match:
            terms.append((match[1], 0, int(match[2])))
        elif kind == "span" and term in _WHOLE:
            terms.append((_WHOLE[term], 0, 0))
        else:
            examples = "WORD[first]" if kind == "span" else "WORD[-1]"
            raise StructlearnError("SL430", text=text, kind=kind, examples=examples)
    return terms


class HashedWeights(Stored):
    """The base of `SpanWeights` and `FragmentWeights`.

    n_tags, n_symbols: numbers of tags and of symbols, tags first.
    vocabulary: uint64, ascending, hashes of the known words.
    storage: how weights are stored; see `LatentGrammar`.
    """

    n_tags: int
    n_symbols: int
    vocabulary: NDArray[np.uint64]
    storage: str

    def without_words(self: W, words: Iterable[str]) -> W:
        """Return a copy to which these words are unknown."""
        return self.replaced(vocabulary=without(self.vocabulary, words))

    def compact(self: W, threshold: float = 1e-2, storage: str = "float16") -> W:
        """Round the weights as `storage` does, and drop those below `threshold` in magnitude.

        Raises StructlearnError for an unknown storage.
        """
        check_argument("storage", storage, str, choices=STORAGES)
        compacted = self._above(threshold).replaced(storage=storage)
        return self.from_fields(*compacted.to_fields())

    def _above(self: W, threshold: float) -> W:
        raise NotImplementedError

    def _check(self, problem: str | None) -> None:
        if not 0 <= self.n_tags <= self.n_symbols:
            problem = f"{self.n_tags} tags of {self.n_symbols} symbols"
        elif self.storage not in STORAGES:
            problem = f"stored as {self.storage!r}"
        elif not are_hashes(self.vocabulary):
            problem = "hashes of words that are not ascending"
        if problem:
            raise ValueError(problem)


class SpanWeights(HashedWeights):
    """The parameters: sparse weights, and hashes of the known words.

    spans, tags: the templates.
    buckets: number of weights.
    entries: the weights other than zero.
    numbers: int64 (n_symbols), by which the symbols are hashed. None: their places. They stay when
        symbols are added.
    For the rest see `HashedWeights`.
    Raises ValueError if the parts do not fit together, StructlearnError as `SpanTemplates` does.
    """

    kind = "span_weights"

    def __init__(
        self,
        spans: Sequence[str],
        tags: Sequence[str],
        n_tags: int,
        n_symbols: int,
        buckets: int,
        vocabulary: NDArray[np.uint64],
        entries: Entries,
        storage: str = "float32",
        numbers: NDArray[np.int64] | None = None,
    ):
        self.templates = SpanTemplates(spans, tags)
        self.spans, self.tags = self.templates.spans, self.templates.tags
        self.n_tags, self.n_symbols, self.buckets = n_tags, n_symbols, buckets
        self.vocabulary, self.entries = vocabulary, entries
        self.storage, self.numbers = storage, numbers
        self._check(self._problem())

    @classmethod
    def untrained(
        cls, settings: SpanFeaturesSettings, sentences: Sentences, symbols: Symbols
    ) -> SpanWeights:
        """Return weights of zero. sentences: the words of the training data."""
        templates = SpanTemplates(settings.templates, settings.tag_templates)
        known = vocabulary(sentences, settings.min_word_count)
        sizes = (symbols.n_tags, symbols.size, settings.buckets)
        none = Entries.of(np.empty(0, np.float32))
        return cls(templates.spans, templates.tags, *sizes, known, none)

    @property
    def n_weights(self) -> int:
        """The number of weights other than zero."""
        return len(self.entries.places)

    @property
    def symbol_numbers(self) -> NDArray[np.int64]:
        """The numbers by which the symbols are hashed, int64 (n_symbols)."""
        return np.arange(self.n_symbols) if self.numbers is None else self.numbers

    def renumbered(self, before: Symbols, after: Symbols) -> SpanWeights:
        """Return the weights for symbols of which some are new."""
        if before == after:
            return self
        numbers = np.full(after.size, -1, dtype=np.int64)
        numbers[renumbering(before, after)] = self.symbol_numbers
        new = np.flatnonzero(numbers < 0)
        numbers[new] = numbers.max(initial=-1) + 1 + np.arange(len(new))
        return self.replaced(n_tags=after.n_tags, n_symbols=after.size, numbers=numbers)

    def dense(self) -> NDArray[np.float32]:
        """Return all weights, float32 (buckets)."""
        return self.entries.dense(self.buckets)

    def with_weights(self, weights: NDArray[np.floating]) -> SpanWeights:
        """Return a copy with other weights, (buckets)."""
        return self.replaced(entries=Entries.of(np.asarray(weights, dtype=np.float32)))

    def _above(self, threshold: float) -> SpanWeights:
        places, values = self.entries
        large = np.abs(values) >= threshold
        return self.replaced(entries=Entries(places[large], values[large]))

    def to_fields(self) -> tuple[int, dict[str, Any]]:
        fields = self.fields()
        entries = signed(fields.pop("entries"), self.buckets, self.storage)
        if self.numbers is None:
            del fields["numbers"]
        return self.version, fields | entries | {"vocabulary": self.vocabulary.view(np.int64)}

    @classmethod
    def from_fields(cls, version: int, fields: dict[str, Any]) -> SpanWeights:
        if not _is_size(fields["buckets"]):
            raise ValueError("a wrong number of weights")
        fields["entries"] = from_signed(fields, fields["buckets"])
        fields["vocabulary"] = hashes_of(fields["vocabulary"])
        names = fields.keys() - {"magnitudes", "negative"}
        return super().from_fields(version, {name: fields[name] for name in names})

    def _problem(self) -> str | None:
        if not _is_size(self.buckets):
            return f"{self.buckets} weights"
        if self.numbers is not None and self.numbers.shape != (self.n_symbols,):
            return "symbols without a number each"
        places, values = self.entries
        if places.shape != values.shape or places.ndim != 1 or not np.isfinite(values).all():
            return "weights that are not finite, or in no places"
        if (np.diff(places, prepend=-1, append=self.buckets) <= 0).any():
            return "weights in places out of range"
        return None


def likeliest_tags(graphs: Hypergraphs, n_tags: int) -> NDArray[np.int64]:
    """Return the likeliest tag of each word by the grammar, int64 (n_words), or -1 without tags."""
    scores = graphs.scores
    posteriors = graphs.item_posteriors(graphs.inside_outside(scores)[1] if len(scores) else scores)
    items = np.flatnonzero(graphs.items[:, 0] < n_tags)
    tag, start, _ = graphs.items[items].T
    word = cumulative(graphs.n_words)[graphs.item_sentences[items]] + start
    tags = np.full(int(graphs.n_words.sum()), -1, dtype=np.int64)
    # The last assignment to a place wins: that of the highest posterior.
    order = np.lexsort((posteriors[items], word))
    tags[word[order]] = tag[order]
    return tags


class LinearScorer:
    """Scores items by `SpanWeights`; thread-safe."""

    def __init__(self, weights: SpanWeights):
        self._model, self._dense = weights, weights.dense()
        self._attributes = weights.templates.attributes
        self._words = WordAttributes(self._attributes, weights.vocabulary.tolist())
        n_tags, numbers = weights.n_tags, weights.symbol_numbers
        bits = weights.buckets.bit_length() - 1
        self._hasher = weights.templates.hasher(n_tags, numbers, bits)
        # The last one is for words whose tags have been pruned from the forest.
        self._tags = _hashes(f"{_TAG}={tag}" for tag in [*numbers[:n_tags].tolist(), -1])

    def scores(self, sentences: Sentences, graphs: Hypergraphs) -> Floats:
        """Return the score of each item, float64 (I)."""
        return self.sums(self.places(sentences, graphs))

    def places(self, sentences: Sentences, graphs: Hypergraphs) -> NDArray[np.int32]:
        """Return the places of the weights of each item's features, int32 (I, n); -1 for none.

        sentences: the words of the sentences of `graphs`.
        Raises ValueError if their lengths differ.
        """
        offsets = cumulative(np.array([len(sentence) for sentence in sentences], dtype=np.int64))
        if not np.array_equal(np.diff(offsets), graphs.n_words):
            raise ValueError("the forests are not those of the sentences")
        items = np.ascontiguousarray(graphs.items, dtype=np.int32)
        words = self._words.hashes(sentences)
        if _TAG in self._attributes:
            tags = likeliest_tags(graphs, self._model.n_tags)
            words[:, self._attributes.index(_TAG)] = self._tags[tags]
        return self._hasher.places(words, offsets, items, graphs.item_offsets)

    def sums(self, places: NDArray[np.int32]) -> Floats:
        """Return the sum of the weights at the places of each item, float64 (I)."""
        return _span_features.sums(places, self._dense)


class LinearLearner(LinearScorer):
    """Trains `SpanWeights` by AdaGrad. weights: the initial ones."""

    def __init__(self, weights: SpanWeights, features: SpanFeaturesSettings):
        super().__init__(weights)
        self._features = features
        # The table of `_features`, and the sum of the rates before each step.
        self._table = np.zeros((weights.buckets, 4), dtype=np.float32)
        self._table[:, 0] = self._dense
        self._rates = np.zeros(1)

    @property
    def weights(self) -> SpanWeights:
        """The current weights."""
        return self._model.with_weights(
            self.sums(np.arange(len(self._table), dtype=np.int32)[:, None])
        )

    def update(self, places: NDArray[np.int32], gradient: Floats, rate_factor: float) -> None:
        """Make a step of AdaGrad.

        places: of the features of items. gradient: of the loss by their scores, float64 (I).
        rate_factor: multiplies the learning rate.
        """
        touched = _span_features.accumulate(places, gradient, self._table)
        rate = self._features.learn_rate * rate_factor
        self._rates = np.append(self._rates, self._rates[-1] + rate)
        _span_features.step(touched, self._table, *self._schedule())

    def state(self) -> dict[str, Any]:
        """Return the weights and the state of AdaGrad between two steps."""
        places = np.flatnonzero((self._table != 0).any(axis=1)).astype(np.int32)
        return {"places": places, "table": self._table[places], "rates": self._rates}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from a `state`. Raises ValueError, TypeError or LookupError if it is invalid."""
        places, table, rates = state["places"], state["table"], state["rates"]
        kinds = [array.dtype for array in (places, table, rates)]
        sound = kinds == [np.int32, np.float32, np.float64] and table.shape == (len(places), 4)
        in_range = not len(places) or 0 <= places.min() <= places.max() < len(self._dense)
        if not (sound and in_range and rates.ndim == 1 and len(rates)):
            raise ValueError("the state is not that of a scorer of spans")
        self._table = np.zeros((self._model.buckets, 4), dtype=np.float32)
        self._table[places] = table
        self._rates = rates

    def sums(self, places: NDArray[np.int32]) -> Floats:
        return _span_features.current_sums(places, self._table, *self._schedule())

    def _schedule(self) -> tuple[Floats, float, float]:
        return self._rates, self._features.l1_per_sentence, EPSILON


def _is_size(buckets: Any) -> bool:
    return type(buckets) is int and 2**8 <= buckets <= 2**30 and buckets & (buckets - 1) == 0
