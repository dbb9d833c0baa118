"""Attributes of words for features: hashes of the word, its ends and its shape.

The attributes follow Hall, Durrett & Klein (2014), section 4:

    WORD                the word if it is known, else its lower case if that is known, else its
                        shape with the last three letters
    SUFFIXn, PREFIXn    the last or first n letters, in lower case and with digits as 0
    SHAPE               a letter for each run of characters of one class
    CLASS               the class of the first character

A model that stores only hashes contains no words. The hashes are part of the model format and must
never change.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from itertools import chain, count, groupby, islice

import numpy as np
from numpy.typing import NDArray

WORD, SHAPE, CLASS = "WORD", "SHAPE", "CLASS"
WORD_ATTRIBUTE = r"WORD|SUFFIX[1-9]|PREFIX[1-9]|SHAPE"
_CACHE_SIZE = 100_000
_LONGEST_SHAPE = 12


class WordAttributes:
    """Computes and caches the hashes of attributes of words; thread-safe.

    names: the attributes. Other names than those above have 0, for the caller to fill in.
    known: the hashes of known words, see `word_hash`.
    """

    def __init__(self, names: Sequence[str], known: Collection[int]):
        self.names = tuple(names)
        self._known = frozenset(known)
        self._lock = threading.Lock()
        self._index: dict[str, int] = {}
        self._table: NDArray[np.uint64] = np.empty((0, len(self.names)), dtype=np.uint64)

    def hashes(self, sentences: Sequence[Sequence[str]]) -> NDArray[np.uint64]:
        """Return the hashes of all words, uint64 (n_words, n_attributes), in a new array."""
        with self._lock:
            if len(self._index) > _CACHE_SIZE:
                self._index.clear()
                self._table = self._table[:0].copy()
            index = self._index
            words = list(chain.from_iterable(sentences))
            new = [word for word in dict.fromkeys(words) if word not in index]
            if new:
                index.update(zip(new, count(len(index)), strict=False))
                rows = np.array([self._of(word) for word in new], dtype=np.uint64)
                self._table = np.concatenate([self._table, rows.reshape(len(new), -1)])
            return self._table[[index[word] for word in words]] if words else self._table[:0]

    def _of(self, word: str) -> list[int]:
        lower = "".join("0" if c.isdigit() else c for c in word.lower())
        texts = {CLASS: _letter(word[:1]), SHAPE: _shape(word)}
        for n in range(1, 10):
            texts[f"SUFFIX{n}"], texts[f"PREFIX{n}"] = lower[-n:], lower[:n]
        values = [hash_of(f"{name}={texts[name]}") if name in texts else 0 for name in self.names]
        if WORD in self.names:
            signature = f"{texts[SHAPE]}~{lower[-3:]}"
            values[self.names.index(WORD)] = self._identity(word, signature)
        return values

    def _identity(self, word: str, signature: str) -> int:
        for form in (word, word.lower()):
            if (number := word_hash(form)) in self._known:
                return number
        return hash_of(f"SIGNATURE={signature}")


def hash_of(text: str) -> int:
    """Return a 64-bit hash of a text."""
    data = text.encode("utf8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def word_hash(word: str) -> int:
    """Return the hash by which a word is known."""
    return hash_of(f"WORD={word}")


def vocabulary(sentences: Iterable[Sequence[str]], least: int) -> NDArray[np.uint64]:
    """Return the hashes of words with at least `least` occurrences, uint64, ascending."""
    counts = Counter(word for sentence in sentences for word in sentence)
    known = [word_hash(word) for word, count in counts.items() if count >= least]
    return np.unique(np.array(known, dtype=np.uint64))


def without(known: NDArray[np.uint64], words: Iterable[str]) -> NDArray[np.uint64]:
    """Return the hashes of known words except these."""
    gone = np.array([word_hash(word) for word in words], dtype=np.uint64)
    return known[~np.isin(known, gone)]


def are_hashes(hashes: NDArray[np.uint64]) -> bool:
    """Return whether an array holds strictly ascending hashes."""
    return bool(hashes.dtype == np.uint64 and hashes.ndim == 1 and (hashes[1:] > hashes[:-1]).all())


def hashes_of(stored: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Convert stored hashes. Raises ValueError for another type."""
    if stored.dtype != np.int64:
        raise ValueError("features or words that are no hashes")
    return stored.view(np.uint64)


def _letter(character: str) -> str:
    """Return the class of a character: X, x, d, or the character itself."""
    if character.isdigit():
        return "d"
    if character.isalpha():
        return "X" if character.isupper() or character.istitle() else "x"
    return character


def _shape(word: str) -> str:
    runs = (letter for letter, _ in groupby(map(_letter, word)))
    return "".join(islice(runs, _LONGEST_SHAPE))
