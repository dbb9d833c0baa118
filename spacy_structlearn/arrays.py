"""Small array functions that several rooms share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import StructlearnError


def cumulative(sizes: NDArray[np.integer | np.bool_]) -> NDArray[np.int64]:
    """Return the boundaries of consecutive parts of these sizes, int64 (n + 1), starting at 0."""
    ends = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=ends[1:])
    return ends


def ranges(starts: NDArray[np.integer], sizes: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the numbers from each start on, of these sizes, one range after another."""
    ends = cumulative(sizes)
    return np.arange(ends[-1]) + np.repeat(starts - ends[:-1], sizes)


def first_largest(values: NDArray[Any], groups: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the place of the largest value of each group, the first of equal ones.

    groups: the number of the group of each value, ascending.
    """
    if not len(values):
        return np.empty(0, dtype=np.int64)
    begins = np.append(0, np.flatnonzero(np.diff(groups)) + 1)
    largest = np.repeat(np.maximum.reduceat(values, begins), np.diff(begins, append=len(values)))
    places = np.flatnonzero(values == largest)
    return places[np.searchsorted(places, begins)]


@dataclass(frozen=True, eq=False, slots=True)
class Coded:
    """A column of strings, or other values, by their numbers, so that each is handled once.

    texts: the values; the last one is None. codes: int (n), the number of each value, -1 for None.
    """

    texts: Sequence[Any]
    codes: NDArray[np.integer]

    @classmethod
    def of(cls, values: Iterable[Any]) -> Coded:
        """Return the column of these values."""
        values = list(values)
        texts = dict.fromkeys(values)
        texts.pop(None, None)
        numbers = {text: number for number, text in enumerate(texts)}
        numbers[None] = -1
        codes = np.fromiter(map(numbers.__getitem__, values), dtype=np.intp, count=len(values))
        return cls([*texts, None], codes)

    def at(self, rows: NDArray[np.integer] | slice) -> Coded:
        """Return the values of these rows."""
        return Coded(self.texts, self.codes[rows])

    def map(self, function: Callable[[str], str | None]) -> Coded:
        """Return the results of a function of the values; that of None is None."""
        return Coded([None if text is None else function(text) for text in self.texts], self.codes)

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[Any]:
        return map(self.texts.__getitem__, self.codes.tolist())


def followed(links: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return where each chain of links ends. The end of a chain links to itself."""
    while not np.array_equal(further := links[links], links):
        links = further
    return links


def check_offsets(offsets: NDArray[np.int64], n_tokens: int) -> NDArray[np.int64]:
    """Return contiguous int64; raise StructlearnError if the offsets do not delimit the tokens."""
    offsets = np.ascontiguousarray(offsets, dtype=np.int64)
    sound = offsets.ndim == 1 and len(offsets) and offsets[0] == 0 and offsets[-1] == n_tokens
    if not sound or (np.diff(offsets) < 0).any():
        raise StructlearnError("SL203", n_tokens=n_tokens)
    return offsets


def find_symbols(symbols: NDArray[np.uint64], known: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the place of each symbol in `known` (ascending), len(known) if it is not there."""
    rows = np.searchsorted(known, symbols)
    found = rows < len(known)
    found[found] = known[rows[found]] == symbols[found]
    return np.where(found, rows, len(known))
