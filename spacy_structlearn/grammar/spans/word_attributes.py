"""What features see of words: hashes of the word itself, of its ends and of its shape.

Attributes as in Hall, Durrett & Klein (2014), section 4: WORD is the word where it is known, in
lower case if only that is, and for others their shape with the last three letters; SUFFIXn and
PREFIXn are its ends, in lower case and with digits as 0; SHAPE has a letter for each run of
characters of one class, and CLASS the class of the first. A model that keeps hashes alone holds no
words. They are part of the model format and must never change.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

WORD, SHAPE, CLASS = "WORD", "SHAPE", "CLASS"
WORD_ATTRIBUTE = r"WORD|SUFFIX[1-9]|PREFIX[1-9]|SHAPE"
_CACHE_SIZE = 100_000
_LONGEST_SHAPE = 12


class WordAttributes:
    """The hashes of attributes of words, each kept for as many words as a text may have.

    names: of the attributes; what is none of those above has 0, for others to fill in. known:
    hashes of the words that are known, see `word_hash`. Several threads may ask at once.
    """

    def __init__(self, names: Sequence[str], known: Collection[int]):
        self.names = tuple(names)
        self._known = frozenset(known)
        self._lock = threading.Lock()
        self._forget()

    def hashes(self, sentences: Sequence[Sequence[str]]) -> NDArray[np.uint64]:
        """Those of all words, uint64 (n_words, n_attributes); a new array."""
        with self._lock:
            if len(self._index) > _CACHE_SIZE:
                self._forget()
            index = self._index
            new = []
            for sentence in sentences:
                for word in sentence:
                    if word not in index:
                        index[word] = len(index)
                        new.append(self._of(word))
            if new:
                rows = np.array(new, dtype=np.uint64).reshape(len(new), len(self.names))
                self._table = np.concatenate([self._table, rows])
            ids = [index[word] for sentence in sentences for word in sentence]
            return self._table[ids] if ids else self._table[:0]

    def _forget(self) -> None:
        self._index: dict[str, int] = {}
        self._table = np.empty((0, len(self.names)), dtype=np.uint64)

    def _of(self, word: str) -> list[int]:
        lower = "".join("0" if c.isdigit() else c for c in word.lower())
        shape = _shape(word)
        values = []
        for name in self.names:
            if name == CLASS:
                values.append(hash_of(f"{name}={_letter(word[:1])}"))
            elif name == WORD:
                values.append(self._identity(word, f"{shape}~{lower[-3:]}"))
            elif name == SHAPE:
                values.append(hash_of(f"{name}={shape}"))
            elif name.startswith(("SUFFIX", "PREFIX")):
                n = int(name[-1])
                part = lower[-n:] if name.startswith("SUFFIX") else lower[:n]
                values.append(hash_of(f"{name}={part}"))
            else:
                values.append(0)
        return values

    def _identity(self, word: str, signature: str) -> int:
        """The hash of a known word, of its lower case if that is known, or of its signature."""
        for form in (word, word.lower()):
            if (found := word_hash(form)) in self._known:
                return found
        return hash_of(f"SIGNATURE={signature}")


def hash_of(text: str) -> int:
    """64 bits of a text."""
    data = text.encode("utf8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def word_hash(word: str) -> int:
    """By which a word is known."""
    return hash_of(f"WORD={word}")


def vocabulary(sentences: Iterable[Sequence[str]], least: int) -> NDArray[np.uint64]:
    """The hashes of words that are in the training data so often, uint64, ascending."""
    counts = Counter(word for sentence in sentences for word in sentence)
    known = [word_hash(word) for word, count in counts.items() if count >= least]
    return np.unique(np.array(known, dtype=np.uint64))


def without(known: NDArray[np.uint64], words: Iterable[str]) -> NDArray[np.uint64]:
    """The hashes of known words that are none of these."""
    gone = np.array([word_hash(word) for word in words], dtype=np.uint64)
    return known[~np.isin(known, gone)]


def are_hashes(hashes: NDArray[np.uint64]) -> bool:
    """Whether these are hashes, ascending, each once."""
    return bool(hashes.dtype == np.uint64 and hashes.ndim == 1 and (hashes[1:] > hashes[:-1]).all())


def hashes_of(stored: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Hashes as they are stored. Raises ValueError if these are none."""
    if stored.dtype != np.int64:
        raise ValueError("features or words that are no hashes")
    return stored.view(np.uint64)


def _letter(character: str) -> str:
    """The class of a character: X, x or d, or the character itself."""
    if character.isdigit():
        return "d"
    if character.isalpha():
        return "X" if character.isupper() or character.istitle() else "x"
    return character


def _shape(word: str) -> str:
    """A letter for each run of characters of one class, 12 at most."""
    runs: list[str] = []
    for letter in map(_letter, word):
        if not runs or letter != runs[-1]:
            if len(runs) == _LONGEST_SHAPE:
                break
            runs.append(letter)
    return "".join(runs)
