"""Emissions of base distributions: probabilities of symbols given a label, and their look-up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from ...arrays import find_symbols
from ...kernels.index import group, number_keys
from ..layout.data import AnyInts, Floats, Ids, Ints, Symbols


class Emission(NamedTuple):
    """p(symbol | label) of a column.

    column: its name.
    symbols: uint64 (n_symbols), ascending.
    table: float64 (n_symbols, n_labels), each column a distribution.
    """

    column: str
    symbols: Symbols
    table: Floats


def counted_emissions(
    columns: Symbols, names: Sequence[str], label_ids: AnyInts, n_labels: int
) -> tuple[Emission, ...]:
    """Count p(symbol | label) of each column, with one added to each count."""
    emissions = []
    for name, column in zip(names, columns.T, strict=True):
        symbols, ids, _ = group(np.ascontiguousarray(column))
        codes = ids * np.int64(n_labels) + label_ids
        counts = np.bincount(codes, minlength=len(symbols) * n_labels) + 1.0
        table = counts.reshape(len(symbols), n_labels)
        emissions.append(Emission(name, symbols, table / table.sum(axis=0)))
    return tuple(emissions)


Reading = tuple[Ints, Floats]
"""Codes, and a row of factors for each code: of the labels, then of the padding by distance."""


class Reader:
    """Looks up the emissions of the symbols, or of the padding, at places around tokens."""

    def __init__(
        self,
        emissions: Sequence[Emission],
        n_labels: int,
        names: Sequence[str],
        columns: Symbols,
        offsets: Ints,
    ):
        self._n_labels = n_labels
        lengths = np.diff(offsets)
        self._begins = np.repeat(offsets[:-1], lengths)
        self._ends = np.repeat(offsets[1:], lengths)
        column_of = dict(zip(names, columns.T, strict=True))
        self._readings: dict[str, Reading] = {
            name: (find_symbols(column_of[name], symbols), table)
            for name, symbols, table in emissions
            if name in column_of
        }

    def read(self, tokens: Ids, place: int, names: Sequence[str]) -> Reading:
        """Read at `place` from each token: int64 (n) and float64 (n_codes, L + |place|)."""
        at = tokens.astype(np.int64) + place
        beyond = np.maximum(self._begins[tokens] - at, at - self._ends[tokens] + 1)
        inside = beyond <= 0
        at = at[inside]
        readings = self._readings.items()
        known, table = reduce(
            _join, ((of[at], rows) for name, (of, rows) in readings if name in names)
        )
        codes = np.empty(len(tokens), dtype=np.int64)
        codes[inside] = known
        codes[~inside] = len(table) + beyond[~inside] - 1
        distances = abs(place)
        factors = np.zeros((len(table) + distances, self._n_labels + distances))
        factors[: len(table), : self._n_labels] = table
        factors[len(table) :, self._n_labels :] = np.eye(distances)
        return codes, factors


def _join(first: Reading, second: Reading) -> Reading:
    """Join two readings: a code for each pair of codes that occurs."""
    chosen, codes = number_codes(first[0] * len(second[1]) + second[0])
    return codes.astype(np.int64), first[1][first[0][chosen]] * second[1][second[0][chosen]]


def number_codes(codes: Ints) -> tuple[Ids, Ids]:
    """Return the first place of each distinct code, and the number of each code in that order."""
    return number_keys(codes.view(np.uint64))
