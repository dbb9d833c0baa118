"""Words under refined tags: P(w | T_x) of known words, and of unknown words by their signatures.

A signature function returns a chain from the finest to the coarsest class of a word. The first
class of the chain that occurred in training is used; after the last one comes U, all unknown words
(see `words.signatures`). See `estimation` for how the probabilities are estimated.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...arrays import cumulative
from ...learning.stored import same
from ...words.signatures import NORMALIZATIONS, SIGNATURES, registered
from ._lexicon import word_scores
from .storage import sparse, unpack
from .symbols import substate_columns

_CACHE_SIZE = 100_000
# The types of the stored arrays.
_STORED = {
    "word_pairs": np.uint16,
    "pair_tags": np.uint16,
    "pair_weights": np.float32,
    "backoff_weights": np.float32,
    "backoff_rows": np.int32,
    "row_parents": np.int32,
    "row_weights": np.float32,
}

Floats = TypeVar("Floats", NDArray[np.float32], NDArray[np.float64])


class LexiconLevel(NamedTuple):
    """The probabilities of one level; X is the number of substates of all tags.

    own: float32, vectors of substates of the pairs that are not tied, one after another.
    rows: float32 (n_signatures + 1, X), the own part of the row of each signature, to which a share
        of the row of the next coarser one is added (see `Backoff`). Last, the row of U.
    """

    own: NDArray[np.float32]
    rows: NDArray[np.float32]


class Backoff:
    """Smoothing of the rows of signatures: row = own part + weight * row of the parent.

    parents: int32 (n), the next coarser signature of each; n is U, whose row is the last one.
    weights: float32 (n).

    Raises ValueError for a cycle or a parent out of range.
    """

    def __init__(self, parents: NDArray[np.int32], weights: NDArray[np.float32]):
        n = len(parents)
        if parents.shape != weights.shape or (n and not 0 <= parents.min() <= parents.max() <= n):
            raise ValueError("a signature is smoothed with an unknown one")
        self.parents = parents
        self.weights = weights
        depth = np.zeros(n + 1, dtype=np.int64)
        while not np.array_equal(deeper := np.append(depth[parents] + 1, 0), depth):
            if deeper.max() > n:
                raise ValueError("signatures are smoothed in a cycle")
            depth = deeper
        # From coarse to fine.
        self.by_depth = [np.flatnonzero(depth == d) for d in range(1, int(depth.max()) + 1)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Backoff) and same(
            [self.parents, self.weights], [other.parents, other.weights]
        )

    __hash__ = None  # type: ignore[assignment]

    def expand(self, rows: Floats) -> Floats:
        """The rows, from their own parts."""
        whole = rows.copy()
        for level in self.by_depth:
            whole[level] += self.weights[level, None] * whole[self.parents[level]]
        return whole

    def add_up(
        self, cells: NDArray[np.integer], counts: NDArray[Any], width: int
    ) -> NDArray[np.float64]:
        """Counts in each row and, last, in that of U: float64 (n + 1, width).

        Those of a row are also in that of its parent. cells: the places of the counts.
        """
        flat = np.bincount(cells, counts, (len(self.parents) + 1) * width)
        rows = flat.astype(np.float64, copy=False).reshape(-1, width)  # integers without cells
        for level in reversed(self.by_depth):
            np.add.at(rows, self.parents[level], rows[level])
        return rows


@dataclass(eq=False, repr=False)
class Lexicon:
    """P(w | T_x) of all levels: sparse pairs of a word and a tag, and rows that words share.

        P(w | T_x) = own(T, w)_x + (pair_weights[T, w] + backoff_weights[w]) rows[backoff_rows[w]]_x

    words: the known words.
    word_offsets: int64 (n_words + 1), where the pairs of each word begin.
    pair_tags: int32 (n_pairs).
    pair_weights: float32 (n_pairs), of tied pairs; 0: the pair has a vector of its own.
    backoff_weights: float32 (n_words).
    backoff_rows: int32 (n_words).
    signatures: the signatures that have a row.
    backoff: of their rows.
    signature, normalization: names of registered functions; an empty string: no normalization.
    tag_substates: int32 (n_tags), the numbers of substates, for each level.
    levels: the probabilities.
    """

    words: Sequence[str]
    word_offsets: NDArray[np.int64]
    pair_tags: NDArray[np.int32]
    pair_weights: NDArray[np.float32]
    backoff_weights: NDArray[np.float32]
    backoff_rows: NDArray[np.int32]
    signatures: Sequence[str]
    backoff: Backoff
    signature: str
    normalization: str
    tag_substates: Sequence[NDArray[np.int32]]
    levels: Sequence[LexiconLevel]

    def __post_init__(self) -> None:
        self.words, self.signatures = tuple(self.words), tuple(self.signatures)
        self.tag_substates = [np.ascontiguousarray(s, np.int32) for s in self.tag_substates]
        self.levels = list(self.levels)
        self._rows = {name: len(self.words) + i for i, name in enumerate(self.signatures)}
        self._signature = registered(SIGNATURES, "signature", self.signature)
        self._normalize = None
        if self.normalization:
            self._normalize = registered(NORMALIZATIONS, "normalization", self.normalization)
        self._unknown: dict[tuple[str, bool, int], int] = {}
        self._entries: dict[int, tuple[NDArray, NDArray, NDArray]] = {}
        self._whole: dict[int, NDArray[np.float32]] = {}

    @classmethod
    def empty(cls) -> Lexicon:
        """A lexicon without words."""
        none, weights = np.empty(0, np.int32), np.empty(0, np.float32)
        arrays = (np.zeros(1, np.int64), none, weights, weights, none)
        return cls((), *arrays, (), Backoff(none, weights), "shape", "", [], [])

    @cached_property
    def index(self) -> dict[str, int]:
        """Id of each known word."""
        return {word: i for i, word in enumerate(self.words)}

    def encode(self, words: Sequence[str]) -> NDArray[np.int32]:
        """The ids of the words of one sentence, a list or tuple.

        Returns int32 (n): the index of a known word; n_words plus the index of the signature of an
        unknown one; n_words + n_signatures if no signature of its chain was seen.
        """
        index, unknown = self.index, self._unknown
        ids = np.empty(len(words), dtype=np.int32)
        for i, word in enumerate(words):
            number = index.get(word)
            if number is None:
                before = words[:i].count(word) & 1
                number = unknown.get((word, i == 0, before))
                if number is None:
                    number = self._look_up(word, i == 0, before)
            ids[i] = number
        return ids

    def scores(self, level: int, ids: NDArray[np.integer]) -> NDArray[np.float32]:
        """P(word | T_x), float32 (n, X), for ids from `encode`; X as in `LexiconLevel`.

        Raises ValueError for other ids.
        """
        return word_scores(
            np.ascontiguousarray(ids, np.int32),
            self._rows_of(level),
            self.backoff_rows,
            self.backoff_weights,
            *self.entries(level),
        )

    def _look_up(self, word: str, initial: bool, before: int) -> int:
        spellings = self._normalize(word, before) if self._normalize is not None else ()
        number = next((self.index[form] for form in spellings if form in self.index), None)
        if number is None:
            chain = self._signature(word, initial, self.index)
            unseen = len(self.words) + len(self.signatures)
            number = next((self._rows[name] for name in chain if name in self._rows), unseen)
        if len(self._unknown) >= _CACHE_SIZE:
            self._unknown.clear()
        self._unknown[word, initial, before] = number
        return number

    def _rows_of(self, level: int) -> NDArray[np.float32]:
        if level not in self._whole:
            self._whole[level] = self.backoff.expand(self.levels[level].rows)
        return self._whole[level]

    def entries(self, level: int) -> tuple[NDArray, NDArray, NDArray]:
        """(offsets, columns, values) of the pairs of each word, made on first use."""
        if level not in self._entries:
            ends, column = substate_columns(self.pair_tags, self.tag_substates[level])
            weights = np.repeat(self.pair_weights, np.diff(ends))
            words = np.repeat(np.arange(len(self.words)), np.diff(ends[self.word_offsets]))
            values = weights * self._rows_of(level)[self.backoff_rows[words], column]
            values[weights == 0] = self.levels[level].own
            self._entries[level] = (ends[self.word_offsets], column.astype(np.int32), values)
        return self._entries[level]

    def without(self, words: Container[str]) -> Lexicon:
        """The lexicon without these words, which become unknown words."""
        stay = np.array([word not in words for word in self.words], dtype=np.bool_)
        n_pairs = np.diff(self.word_offsets)
        pairs_stay = np.repeat(stay, n_pairs)
        own = self.pair_weights == 0  # the pairs that have a vector in each level
        levels = [
            level._replace(own=level.own[np.repeat(pairs_stay[own], sizes[self.pair_tags[own]])])
            for level, sizes in zip(self.levels, self.tag_substates, strict=True)
        ]
        return replace(
            self,
            words=[word for word in self.words if word not in words],
            word_offsets=cumulative(n_pairs[stay]),
            pair_tags=self.pair_tags[pairs_stay],
            pair_weights=self.pair_weights[pairs_stay],
            backoff_weights=self.backoff_weights[stay],
            backoff_rows=self.backoff_rows[stay],
            levels=levels,
        )

    def to_fields(self, storage: str) -> dict[str, Any]:
        """The fields to store."""
        return {
            "words": self.words,
            "word_pairs": np.diff(self.word_offsets).astype(np.uint16),
            "pair_tags": self.pair_tags.astype(np.uint16),
            "pair_weights": self.pair_weights,
            "backoff_weights": self.backoff_weights,
            "backoff_rows": self.backoff_rows,
            "signatures": self.signatures,
            "row_parents": self.backoff.parents,
            "row_weights": self.backoff.weights,
            "signature": self.signature,
            "normalization": self.normalization,
            "levels": [
                {name: sparse(values, storage) for name, values in level._asdict().items()}
                for level in self.levels
            ],
        }

    @classmethod
    def from_fields(
        cls, fields: dict[str, Any], tag_substates: Sequence[NDArray[np.int32]]
    ) -> Lexicon:
        """The lexicon of these fields. Raises an error in `serialization.DAMAGE` if damaged."""
        words, signatures = fields["words"], fields["signatures"]
        if not all(isinstance(text, str) for text in [*words, *signatures]):
            raise TypeError("a word or signature is not a string")
        for name, dtype in _STORED.items():
            if fields[name].dtype != dtype:
                raise TypeError(f"{name} of the wrong type")
        tags, weights = fields["pair_tags"].astype(np.int32), fields["pair_weights"]
        levels, n_rows = [], len(signatures) + 1
        for stored, substates in zip(fields["levels"], tag_substates, strict=True):
            size = n_rows * int(substates.sum())
            rows = unpack(stored["rows"], size).dense(size).reshape(n_rows, -1)
            size = int(substates[tags[weights == 0]].sum())
            levels.append(LexiconLevel(unpack(stored["own"], size).dense(size), rows))
        return cls(
            words,
            cumulative(fields["word_pairs"]),
            tags,
            weights,
            fields["backoff_weights"],
            fields["backoff_rows"],
            signatures,
            Backoff(fields["row_parents"], fields["row_weights"]),
            fields["signature"],
            fields["normalization"],
            tag_substates,
            levels,
        )

    def problem(self, tag_substates: Sequence[NDArray[np.int32]]) -> str | None:
        """Why this is not a lexicon for a grammar with these substates, or None."""
        n, n_pairs, n_rows = len(self.words), len(self.pair_tags), len(self.signatures) + 1
        arrays = (self.word_offsets, self.backoff_weights, self.backoff_rows)
        if len(self.backoff.parents) != n_rows - 1:
            return "the signatures and their rows do not agree"
        if len(self.index) != n or len(self._rows) != n_rows - 1:
            return "a word or signature occurs twice"
        if [a.shape for a in arrays] != [(n + 1,), (n,), (n,)]:
            return "the arrays of the lexicon do not fit its words"
        if self.word_offsets[0] != 0 or (np.diff(self.word_offsets) < 0).any():
            return "the pairs of words are out of order"
        if int(self.word_offsets[-1]) != n_pairs or self.pair_weights.shape != (n_pairs,):
            return "some pairs of words are missing"
        if n and not 0 <= self.backoff_rows.min() <= self.backoff_rows.max() < n_rows:
            return "a word backs off to an unknown row"
        if len(self.levels) != len(tag_substates):
            return f"{len(self.levels)} levels of the lexicon, {len(tag_substates)} of the rules"
        if n_pairs and (self.pair_tags.min() < 0 or self.pair_tags.max() >= len(tag_substates[0])):
            return "a word has an unknown tag"
        weights = [self.pair_weights, self.backoff_weights, self.backoff.weights]
        own = self.pair_tags[self.pair_weights == 0]
        for i, (level, substates) in enumerate(zip(self.levels, tag_substates, strict=True)):
            width = int(substates.sum())
            shapes = [(int(substates[own].sum()),), (n_rows, width)]
            fits = np.array_equal(self.tag_substates[i], substates)
            if not fits or [a.shape for a in level] != shapes:
                return "the substates of tags are not those of the grammar"
            weights += level
            if width and not (self._rows_of(i).max(axis=1) > 0).all():
                return "an unknown word that no tag allows"
        if not all(np.isfinite(a).all() and (a >= 0).all() for a in weights):
            return "a probability of a word is negative or not finite"
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lexicon) and (
            self.same_words(other) and same(self.levels, other.levels)
        )

    __hash__ = None  # type: ignore[assignment]

    def same_words(self, other: Lexicon) -> bool:
        """Whether everything but the levels is equal."""
        names = [field.name for field in fields(self)[:-2]]
        return all(same(getattr(self, name), getattr(other, name)) for name in names)
