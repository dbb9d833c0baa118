"""Word pieces: the longest matches of a word in a vocabulary (Devlin et al. 2019)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_PIECES = 6  # of a word; of a longer one, the first five and the last are read
MAX_CHARACTERS = 100  # of a word that is cut; the limit of BERT
# Kinds of case of a word, because the vocabulary is in lower case.
LOWER, TITLE, UPPER, MIXED, CAPITAL = range(5)
N_CASES = 5


class Batch(NamedTuple):
    """Sentences as the encoder reads them.

    pieces, cases: int64 (sentences, length), padded.
    lengths: int64 (sentences), with the pieces before and after the words.
    firsts, lasts: int64 (tokens), places of the first and the last piece of each token in the
        flattened table of pieces.
    """

    pieces: NDArray[np.int64]
    cases: NDArray[np.int64]
    lengths: NDArray[np.int64]
    firsts: NDArray[np.int64]
    lasts: NDArray[np.int64]


class WordPieces:
    """A vocabulary of word pieces.

    pieces: in order of their numbers; those that continue a word begin with "##".
    begin, end, unknown: the pieces before and after a sentence, and of words that cannot be cut.
    Raises ValueError if one of these is not in the vocabulary.
    """

    def __init__(self, pieces: Sequence[str], begin: str, end: str, unknown: str):
        self.pieces = list(pieces)
        self.begin, self.end, self.unknown = begin, end, unknown
        self._numbers = {piece: number for number, piece in enumerate(self.pieces)}
        special = [self._numbers.get(piece, -1) for piece in (begin, end, unknown)]
        if -1 in special:
            raise ValueError("pieces without those for the begin, the end and unknown words")
        self._begin, self._end, self._unknown = special
        self.word = lru_cache(100_000)(self._word)

    def _word(self, word: str) -> tuple[list[int], int]:
        """Return the numbers of the pieces of a word, and its kind of case."""
        numbers = [n for part in _parts(word) for n in self._longest(part)]
        if len(numbers) > MAX_PIECES:
            numbers = [*numbers[: MAX_PIECES - 1], numbers[-1]]
        return numbers or [self._unknown], case(word)

    def batch(self, sentences: Iterable[Sequence[str]]) -> Batch:
        """Return the pieces of sentences of words."""
        rows = [[self.word(word) for word in words] for words in sentences]
        sizes = [np.array([len(numbers) for numbers, _ in row], dtype=np.int64) for row in rows]
        lengths = np.array([own.sum() + 2 for own in sizes], dtype=np.int64)
        width = int(lengths.max(initial=1))
        pieces, cases = np.zeros((2, len(rows), width), dtype=np.int64)
        ends = [np.zeros(0, dtype=np.int64)]
        for number, (row, own) in enumerate(zip(rows, sizes, strict=True)):
            inside = chain.from_iterable(numbers for numbers, _ in row)
            pieces[number, : lengths[number]] = [self._begin, *inside, self._end]
            cases[number, 1 : lengths[number] - 1] = np.repeat([kind for _, kind in row], own)
            ends.append(number * width + own.cumsum())
        lasts = np.concatenate(ends)
        firsts = lasts + 1 - np.concatenate([*ends[:1], *sizes])
        return Batch(pieces, cases, lengths, firsts, lasts)

    def _longest(self, part: str) -> list[int]:
        if len(part) > MAX_CHARACTERS:
            return [self._unknown]
        numbers, start = [], 0
        while start < len(part):
            begin = "##" if start else ""
            for stop in range(len(part), start, -1):
                number = self._numbers.get(begin + part[start:stop])
                if number is not None:
                    numbers.append(number)
                    start = stop
                    break
            else:
                return [self._unknown]
        return numbers


def case(word: str) -> int:
    """Return the kind of case of a word."""
    upper = [character.isupper() for character in word if character.isalpha()]
    if not any(upper):
        return LOWER
    if all(upper):
        return UPPER if len(upper) > 1 else CAPITAL
    return TITLE if upper[0] and not any(upper[1:]) else MIXED


def _parts(word: str) -> list[str]:
    """Split a word at punctuation marks, without its accents."""
    parts = []
    for character in unicodedata.normalize("NFD", word.lower()):
        category = unicodedata.category(character)
        if category not in ("Mn", "Cc", "Cf") and not character.isspace():
            parts.append(f" {character} " if _is_mark(character, category) else character)
    return "".join(parts).split()


def _is_mark(character: str, category: str) -> bool:
    # Symbols such as "$" and "+" are marks too, and each Chinese character is a part.
    code = ord(character)
    is_symbol = code < 128 and category[0] in "SP"
    return is_symbol or category[0] == "P" or 0x4E00 <= code <= 0x9FFF
