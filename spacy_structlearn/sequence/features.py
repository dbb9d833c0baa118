"""Predicates over arrays of symbol ids: the observation side of every feature of a chain.

A feature of Sha & Pereira (2003, section 4.1) is a predicate on the input around position i times
a predicate on the labels there. A template such as "TAG[-1]|TAG[0]" describes the former: the
symbols of named columns at offsets from i, taken together. Each predicate is known by a 64-bit
key, a hash of the template's text and of the symbol ids in order, so that a model holds no strings
of the text it was trained on. Positions outside of the sentence hold padding symbols, one for
each distance: -2, -1, n, n + 1, ... The keys are part of the model format and must never change.
"""

import re
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError

_TERM = re.compile(r"([^\W\d]\w*)\[(0|-?[1-9]\d{0,2})\]")
_BIAS = "bias"
_MIX = [(30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)]  # splitmix64 (Steele et al. 2014)
_BLOCK = 16384  # tokens hashed at a time, so that the temporaries stay in the cache

SHA_PEREIRA: tuple[str, ...] = (
    "ORTH[0]",
    "ORTH[-1]",
    "ORTH[1]",
    "ORTH[-2]",
    "ORTH[2]",
    "ORTH[-1]|ORTH[0]",
    "ORTH[0]|ORTH[1]",
    "TAG[0]",
    "TAG[-1]",
    "TAG[1]",
    "TAG[-2]",
    "TAG[2]",
    "TAG[-1]|TAG[0]",
    "TAG[-2]|TAG[-1]",
    "TAG[0]|TAG[1]",
    "TAG[1]|TAG[2]",
    "TAG[-2]|TAG[-1]|TAG[0]",
    "TAG[-1]|TAG[0]|TAG[1]",
    "TAG[0]|TAG[1]|TAG[2]",
    _BIAS,
)
"""The 19 predicates of Sha & Pereira (2003, table 1) and a bias."""


class Templates:
    """A list of predicate templates over named columns of symbol ids.

    templates: texts like "ORTH[0]", "TAG[-1]|TAG[0]" or "bias". Column names are identifiers;
        offsets count tokens, to the right if positive, up to 999.
    Raises StructlearnError SL201 for a malformed template, SL202 for one given twice.
    """

    def __init__(self, templates: Sequence[str]):
        self.texts: tuple[str, ...] = tuple(templates)
        parsed = [_parse(text) for text in self.texts]
        for i, text in enumerate(self.texts):
            if text in self.texts[:i]:
                raise StructlearnError("SL202", text=text)
        names = [name for terms in parsed for name, _ in terms]
        self.columns: tuple[str, ...] = tuple(dict.fromkeys(names))
        self._plan(parsed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Templates) and self.texts == other.texts

    def __hash__(self) -> int:
        return hash(self.texts)

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        return f"Templates({list(self.texts)!r})"

    def _plan(self, parsed: list[list[tuple[str, int]]]) -> None:
        """Order the work so that the j-th symbols of all templates are hashed in one operation."""
        # Longest first: then those with a j-th symbol are always the first few rows.
        order = sorted(range(len(parsed)), key=lambda i: -len(parsed[i]))
        self._position = np.argsort(np.array(order, dtype=np.intp))
        self._seeds = np.array([_hash(self.texts[i]) for i in order], dtype=np.uint64)
        symbols = list(dict.fromkeys(term for terms in parsed for term in terms))
        self._symbols = [(self.columns.index(name), offset) for name, offset in symbols]
        longest = max(map(len, parsed), default=0)
        self._steps = [
            np.array([symbols.index(parsed[i][j]) for i in order if len(parsed[i]) > j])
            for j in range(longest)
        ]
        self._reach = max((abs(offset) for _, offset in symbols), default=0)
        distances = range(1, self._reach + 1)
        before = [_hash(f"padding[{-k}]") for k in reversed(distances)]
        after = [_hash(f"padding[+{k}]") for k in distances]
        # What lies between two sentences: the end of the one, then the start of the next.
        self._padding = np.array(after + before, dtype=np.uint64)

    def keys(self, columns: NDArray[np.uint64], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The 64-bit key of each template's predicate at each token.

        columns: uint64 (n_tokens, n_columns), symbol ids, one column for each of `.columns`.
        offsets: int64 (n_sentences + 1), where sentences begin and end; they may be empty.
        Returns uint64 (n_tokens, n_templates), the same on every platform.
        Raises StructlearnError SL203 or SL204 if the shapes do not fit.
        """
        columns = np.asarray(columns, dtype=np.uint64)
        offsets = check_offsets(offsets, len(columns))
        if columns.ndim != 2 or columns.shape[1] != len(self.columns):
            raise StructlearnError(
                "SL204",
                n_tokens=offsets[-1],
                n_columns=len(self.columns),
                columns=", ".join(self.columns) or "nothing",
                shape=columns.shape,
            )
        padded, places = self._pad(columns, offsets)
        keys = np.empty((len(columns), len(self)), dtype=np.uint64)
        for start in range(0, len(columns), _BLOCK):
            block = slice(start, start + _BLOCK)
            self._hash_block(padded, places[block], keys[block])
        return keys

    def _pad(
        self, columns: NDArray[np.uint64], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """The columns (n_columns, n_padded) with padding between sentences; each token's place."""
        gap = 2 * self._reach
        n_sentences = len(offsets) - 1
        sentence = np.repeat(np.arange(n_sentences), np.diff(offsets))
        places = np.arange(len(columns)) + gap * sentence + self._reach
        padded = np.empty((columns.shape[1], len(columns) + gap * n_sentences), dtype=np.uint64)
        padded[:, places] = columns.T
        # The gap before sentence s is shared in two; the last one's second half is put in front.
        gaps = (offsets + gap * np.arange(n_sentences + 1) - self._reach)[:, None] + np.arange(gap)
        if n_sentences:
            padded[:, gaps % padded.shape[1]] = self._padding
        return padded, places

    def _hash_block(
        self,
        padded: NDArray[np.uint64],
        places: NDArray[np.int64],
        out: NDArray[np.uint64],
    ) -> None:
        state = np.repeat(self._seeds[:, None], len(places), axis=1)
        symbols = np.empty((len(self._symbols), len(places)), dtype=np.uint64)
        for row, (column, offset) in zip(symbols, self._symbols, strict=True):
            np.take(padded[column], places + offset, out=row)
        for chosen in self._steps:
            part = state[: len(chosen)]
            part ^= symbols[chosen]
            _mix(part)
        out[:] = state[self._position].T


def check_offsets(offsets: NDArray[np.int64], n_tokens: int) -> NDArray[np.int64]:
    """`offsets` as contiguous int64, if they delimit `n_tokens` tokens (else SL203)."""
    offsets = np.ascontiguousarray(offsets, dtype=np.int64)
    sound = offsets.ndim == 1 and len(offsets) and offsets[0] == 0 and offsets[-1] == n_tokens
    if not sound or (np.diff(offsets) < 0).any():
        raise StructlearnError("SL203", n_tokens=n_tokens)
    return offsets


def _parse(text: str) -> list[tuple[str, int]]:
    if text == _BIAS:
        return []
    terms = [_TERM.fullmatch(term) for term in str(text).split("|")]
    if None in terms:
        raise StructlearnError("SL201", text=text)
    return [(term[1], int(term[2])) for term in terms if term]


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf8"), digest_size=8).digest(), "little")


def _mix(state: NDArray[np.uint64]) -> None:
    """The finaliser of splitmix64, in place: every bit of the input changes half of the output."""
    state += np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in _MIX:
        state ^= state >> np.uint64(shift)
        state *= np.uint64(factor)
    state ^= state >> np.uint64(31)
