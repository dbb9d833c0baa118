"""Word classes from raw text: words in the same contexts share a class.

A class bigram model is p(w_t | w_{t-1}) = p(w_t | c_t) p(c_t | c_{t-1}). The best classes have the
greatest mutual information of adjacent classes (Brown, Della Pietra, deSouza, Lai & Mercer 1992,
section 3). The exchange algorithm moves one word at a time to its best class, until no word moves
(Martin, Liermann & Ney 1998, section 2). Then classes are merged in pairs with the least loss of
mutual information, until one is left (Brown et al.). The merges form a binary tree: a class is a
path of left and right turns from the root, and a prefix of the path is a coarser class.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import check_offsets, find_symbols
from ..errors import StructlearnError
from ..learning.stored import Stored
from ..serialization import pack
from . import _classes

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Symbols = NDArray[np.uint64]
Ints = NDArray[np.int64]
Ids = NDArray[np.int32]

FORMS = ("ORTH", "LOWER", "SHAPE")
"""The forms of a word by which its class is looked up, in order."""
_CLASS = re.compile(r"CLASS([1-9]\d?)?")
_BY_DIGEST = 3  # the version of bytes with the digest of shared classes instead of their parts
NOT_SHARED = "SL242"  # the error if the classes with a digest are not shared
MAX_DEPTH = 63
MAX_CLASSES = 8192
MAX_PASSES = 20  # of the exchange algorithm over all words


@dataclass(frozen=True, eq=False)
class WordClasses(Stored):
    """Classes of words at every depth of a binary tree.

    words: uint64 (n_words), ascending and unique: the ids of the words that have a class.
    classes: uint16 (n_words), the class of each word, a place in `paths`.
    paths: uint64 (n_classes): 1, then a bit for each turn from the root to the class (at most
        `MAX_DEPTH`; classes that separate further down have the same path).
    forms: by which classes are looked up, some of `FORMS` in order. A word without a class has that
        of its first form that has one.
    Raises StructlearnError if the parts do not fit together.
    """

    kind = "word_classes"
    version = 2
    readable = (2, _BY_DIGEST)
    passed = (NOT_SHARED,)

    words: Symbols
    classes: NDArray[np.uint16]
    paths: Symbols
    forms: Sequence[str] = ("ORTH", "SHAPE")

    def __post_init__(self) -> None:
        object.__setattr__(self, "forms", tuple(self.forms))
        problem = None
        if self.words.ndim != 1 or (self.words[1:] <= self.words[:-1]).any():
            problem = "the words are not ascending and unique"
        elif self.classes.shape != self.words.shape:
            problem = f"classes of shape {self.classes.shape} for {len(self.words)} words"
        elif self.paths.ndim != 1 or (self.paths < 1).any():
            problem = "the paths are no vector of positive numbers"
        elif len(self.classes) and self.classes.max() >= len(self.paths):
            problem = f"class {self.classes.max()} of {len(self.paths)}"
        elif not self.forms or self.forms != tuple(x for x in FORMS if x in self.forms):
            problem = f"words are looked up by {self.forms}, not by some of {FORMS} in order"
        if problem:
            raise StructlearnError("SL240", problem=problem)

    @classmethod
    def empty(cls) -> WordClasses:
        """Return no classes."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.uint16), np.empty(0, np.uint64))

    @cached_property
    def digest(self) -> str:
        """A digest of the classes."""
        return blake2b(pack(self.kind, *super().to_fields()), digest_size=16).hexdigest()

    def to_fields(self) -> tuple[int, dict[str, Any]]:
        """See `Stored`: of shared classes only the digest (`sharing`)."""
        if self == _shared.get():
            return _BY_DIGEST, {"digest": self.digest}
        return super().to_fields()

    @classmethod
    def from_fields(cls, version: int, fields: dict[str, Any]) -> WordClasses:
        if version != _BY_DIGEST:
            return super().from_fields(version, fields)
        shared, wanted = _shared.get(), fields["digest"]
        if shared is None or shared.digest != wanted:
            raise StructlearnError(NOT_SHARED, problem="missing" if shared is None else "different")
        return shared

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.paths)

    def column(self, ids: Symbols, *, depth: int = MAX_DEPTH) -> Symbols:
        """Return the class of each word at a depth of the tree, a symbol for `Templates`.

        ids: uint64 (..., 3), the ids of the `FORMS` of each word.
        depth: maximum number of turns from the root.
        Returns uint64 (...): 1, then the turns as bits; 0 for a word without a class.
        Raises StructlearnError if the depth is out of range.
        """
        return self.symbols(self.places(ids), depth)

    def places(self, ids: Symbols) -> Ints:
        """Return the place in `words` of the first form of each word that is there, or else
        len(words). ids: uint64 (..., 3), as in `column`."""
        ids = np.asarray(ids, dtype=np.uint64)
        first, *further = (FORMS.index(form) for form in self.forms)
        places = find_symbols(ids[..., first], self.words)
        for form in further:
            unknown = places == len(self.words)
            places[unknown] = find_symbols(ids[..., form][unknown], self.words)
        return places

    def symbols(self, places: Ints, depth: int = MAX_DEPTH) -> Symbols:
        """Return the result of `column` for words at these places."""
        if not 0 <= depth <= MAX_DEPTH:
            raise StructlearnError("SL209", name="depth", wanted=f"0 to {MAX_DEPTH}", value=depth)
        paths = self.paths >> np.maximum(self._depths - depth, 0).astype(np.uint64)
        return np.append(paths, np.uint64(0))[self._class_or_none[places]]

    @cached_property
    def _depths(self) -> Ints:
        """The number of turns to each class."""
        return np.array([path.bit_length() - 1 for path in self.paths.tolist()], dtype=np.int64)

    @cached_property
    def _class_or_none(self) -> Ints:
        """`classes`, then n_classes for an unknown word."""
        return np.append(self.classes, self.n_classes)

    def __repr__(self) -> str:
        return f"<WordClasses: {len(self.words)} words in {self.n_classes} classes>"


_shared: ContextVar[WordClasses | None] = ContextVar("shared_word_classes", default=None)


@contextmanager
def sharing(classes: WordClasses | None) -> Iterator[None]:
    """Store these classes by their digest, as part of any model, within a context.

    Bytes with a digest can only be read where the same classes are shared: StructlearnError.
    """
    token = _shared.set(classes)
    try:
        yield
    finally:
        _shared.reset(token)


def source_columns(names: Sequence[str]) -> tuple[str, ...]:
    """Return the distinct columns from which the columns with these names are computed.

    "CLASS" is the class of the word and "CLASS8" the first eight turns to it.
    """
    sources = (FORMS if _CLASS.fullmatch(name) else (name,) for name in names)
    return tuple(dict.fromkeys(chain.from_iterable(sources)))


def derive_columns(columns: Symbols, names: Sequence[str], classes: WordClasses | None) -> Symbols:
    """Compute the columns with these names, uint64 (n_tokens, n_names).

    columns: uint64 (n_tokens, n_sources), in the order of `source_columns(names)`.
    Raises StructlearnError if classes are needed but not given, and for other columns.
    """
    sources = source_columns(names)
    plain = sources == tuple(names)
    if not plain and classes is None:
        raise StructlearnError("SL241")
    if columns.shape[1:] != (len(sources),):
        expected = {"n_columns": len(sources), "columns": ", ".join(sources)}
        raise StructlearnError("SL204", n_tokens=len(columns), shape=columns.shape, **expected)
    if plain or classes is None:
        return columns
    place = {name: column for column, name in enumerate(sources)}
    places = classes.places(columns[:, [place[form] for form in FORMS]])
    derived = np.empty((len(columns), len(names)), dtype=np.uint64)
    for column, name in enumerate(names):
        match = _CLASS.fullmatch(name)
        if match is None:
            derived[:, column] = columns[:, place[name]]
        else:
            derived[:, column] = classes.symbols(places, int(match[1] or MAX_DEPTH))
    return derived


def learn(
    ids: Symbols,
    offsets: Ints,
    n_classes: int,
    *,
    forms: Sequence[str] = FORMS[:1],
    min_count: int = 2,
) -> WordClasses:
    """Learn classes of the words of a text; the same text gives the same classes.

    ids: uint64 (n_tokens, n_forms), the forms of each token. A form that is rare is replaced by the
        next one.
    offsets: int64 (n_sentences + 1), where sentences begin and end.
    n_classes: number of classes, or fewer if there are fewer words. Memory grows with its square
        and the time to merge with its cube: 1,000 need 24 MB.
    forms: the names of the forms, some of `FORMS` in order.
    min_count: a rarer form is replaced. Rarer last forms get no class; they are one fixed context,
        like sentence ends.
    Raises StructlearnError if `n_classes` is out of range or the offsets do not fit.
    """
    if not 1 <= n_classes <= MAX_CLASSES:
        wanted = f"1 to {MAX_CLASSES}"
        raise StructlearnError("SL209", name="n_classes", wanted=wanted, value=n_classes)
    chosen, *coarser = np.asarray(ids, dtype=np.uint64).T.copy()
    for form in coarser:
        _, numbers, counts = np.unique(chosen, return_inverse=True, return_counts=True)
        np.copyto(chosen, form, where=counts[numbers] < min_count)
    words, codes = _vocabulary(chosen, offsets, min_count)
    if not len(words):
        return WordClasses(words, np.empty(0, np.uint16), np.ones(1, np.uint64), forms)
    n_classes = min(n_classes, len(words))
    bigrams = count_bigrams(codes, len(words))
    arguments = exchange_arguments(bigrams)
    classes = first_classes(arguments[0], n_classes)
    between = count_classes(bigrams, classes)
    for _ in range(MAX_PASSES):
        if not _classes.exchange(*arguments, classes, between, n_classes):
            break
    merges = np.zeros((n_classes - 1, 2), dtype=np.int32)
    _classes.merge(between.astype(np.int64), n_classes, merges)
    return WordClasses(words, classes[:-2].astype(np.uint16), tree_paths(merges), forms)


def count_bigrams(codes: Ints, n_words: int) -> csr_array:
    """Count pairs of adjacent words: a sparse matrix, int32 (n_words + 2, n_words + 2).

    codes: int64 (n), the words of the text in order, with n_words for a rare word and n_words + 1
        for the end of a sentence.
    """
    from scipy.sparse import coo_array

    once = np.ones(len(codes) - 1, dtype=np.int32)
    return coo_array((once, (codes[:-1], codes[1:])), shape=(n_words + 2,) * 2).tocsr()


def count_classes(bigrams: csr_array, classes: Ids) -> Ids:
    """Return N(a, b), int32 (n_all, n_all), of classes, int32 (n_words + 2)."""
    from scipy.sparse import csr_array

    words = np.arange(len(classes))
    members = csr_array((np.ones(len(classes), dtype=np.int32), (classes, words)))
    return np.ascontiguousarray((members @ bigrams @ members.T).toarray())


def exchange_arguments(bigrams: csr_array) -> tuple[Any, ...]:
    """Return the arguments of `_classes.exchange` that describe the text."""
    from scipy.sparse import dia_array

    doubled = bigrams.diagonal()
    after = bigrams - dia_array((doubled[None], [0]), shape=bigrams.shape)
    before = after.T.tocsr()
    neighbours = [
        (side.indptr.astype(np.int64), side.indices.astype(np.int32), side.data)
        for side in (before, after)
    ]
    order = np.argsort(-bigrams.sum(axis=1)[:-2], kind="stable").astype(np.int32)
    return (order, *neighbours[0], *neighbours[1], doubled)


def first_classes(order: Ids, n_classes: int) -> Ids:
    """Deal words out to the classes in order; then come the two fixed contexts, rare and end."""
    classes = np.empty(len(order) + 2, dtype=np.int32)
    classes[order] = np.arange(len(order)) % n_classes
    classes[-2:] = n_classes, n_classes + 1
    return classes


def tree_paths(merges: Ids) -> Symbols:
    """Return the path of each of the n classes that were merged in pairs into one.

    merges: int32 (n - 1, 2), pairs of classes; the new class has the first number.
    Returns uint64 (n): 1, then the turns from the root, at most `MAX_DEPTH`.
    """
    # Undo the merges from the root: the second part of each turns right (1).
    paths = np.zeros(len(merges) + 1, dtype=np.uint64)
    paths[merges[-1, 0] if len(merges) else 0] = 1
    for left, right in merges[::-1].tolist():
        deeper = int(paths[left]) << 1
        full = deeper >> (MAX_DEPTH + 1)
        paths[left], paths[right] = (paths[left],) * 2 if full else (deeper, deeper | 1)
    return paths


def _vocabulary(ids: Symbols, offsets: Ints, min_count: int) -> tuple[Symbols, Ints]:
    """Return the words that get a class, ascending, and the text for `count_bigrams`."""
    offsets = check_offsets(offsets, len(ids))
    words, numbers, counts = np.unique(ids, return_inverse=True, return_counts=True)
    frequent = counts >= min_count
    renumbered = np.where(frequent, np.cumsum(frequent) - 1, np.count_nonzero(frequent))
    # A sentence end before the first token, and one after each sentence.
    codes = np.insert(renumbered[numbers], offsets, np.count_nonzero(frequent) + 1)
    return words[frequent], codes.astype(np.int64)
