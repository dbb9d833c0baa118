"""Emissions of base distributions: probabilities of symbols given a label, and their look-up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from ...errors import StructlearnError
from ...kernels.index import KeyIndex, number_keys
from ..layout.data import AnyInts, Floats, Ids, Ints, Symbols
from ..layout.features import Templates


class Emission(NamedTuple):
    """p(symbols | label) of columns that are emitted together, such as a word and its suffix.

    columns: names of the columns.
    symbols: uint64 (n_symbols, n_columns), distinct rows.
    table: float64 (n_symbols, n_labels), each column a distribution.
    """

    columns: tuple[str, ...]
    symbols: Symbols
    table: Floats


def counted_emissions(
    columns: Symbols,
    names: Sequence[str],
    emitted: Sequence[tuple[str, ...]] | None,
    label_ids: AnyInts,
    n_labels: int,
) -> tuple[Emission, ...]:
    """Count p(symbols | label), with one added to each count."""
    emissions = []
    groups = [(name,) for name in names] if emitted is None else emitted
    all_columns = [name for group in groups for name in group]
    if len(set(all_columns)) != len(all_columns):
        raise StructlearnError("SL245", problem="a column that two emissions have")
    for group in groups:
        chosen = select_columns(columns, names, group)
        keys = row_keys(together(group), chosen)
        firsts, ids = number_keys(keys)
        symbols = chosen[firsts]
        size = len(symbols) * n_labels
        counts = np.bincount(ids * np.int64(n_labels) + label_ids, minlength=size) + 1.0
        table = counts.reshape(len(symbols), n_labels)
        order = np.lexsort(symbols.T[::-1])
        emissions.append(Emission(tuple(group), symbols[order], (table / table.sum(axis=0))[order]))
    return tuple(emissions)


Reading = tuple[Ints, Floats]
"""Codes, and a row of factors for each code: of the labels, then of the padding by distance."""


def _reading_of(emission: Emission, names: Sequence[str], columns: Symbols) -> Reading:
    """Return the code of each token and p(some columns of an emission | label) for each code."""
    templates = together(names)
    chosen = [emission.columns.index(name) for name in names]
    keys, places = np.unique(row_keys(templates, emission.symbols[:, chosen]), return_inverse=True)
    table = np.zeros((len(keys), emission.table.shape[1]))
    np.add.at(table, places.reshape(-1), emission.table)
    return KeyIndex(keys).find(row_keys(templates, columns)).astype(np.int64), table


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
        self._emissions = emissions
        self._n_labels = n_labels
        self._names = names
        self._columns = columns
        lengths = np.diff(offsets)
        self._begins = np.repeat(offsets[:-1], lengths)
        self._ends = np.repeat(offsets[1:], lengths)
        self._parts: dict[tuple[str, ...], Reading] = {}

    def read(self, tokens: Ids, place: int, names: Sequence[str]) -> Reading:
        """Read at `place` from each token: int64 (n) and float64 (n_codes, L + |place|)."""
        at = tokens.astype(np.int64) + place
        beyond = np.maximum(self._begins[tokens] - at, at - self._ends[tokens] + 1)
        inside = beyond <= 0
        at = at[inside]
        parts = ((codes[at], table) for codes, table in self._parts_of(names))
        known, table = reduce(_join, parts)
        codes = np.empty(len(tokens), dtype=np.int64)
        codes[inside] = known
        codes[~inside] = len(table) + beyond[~inside] - 1
        distances = abs(place)
        factors = np.zeros((len(table) + distances, self._n_labels + distances))
        factors[: len(table), : self._n_labels] = table
        factors[len(table) :, self._n_labels :] = np.eye(distances)
        return codes, factors

    def _parts_of(self, names: Sequence[str]) -> Iterator[Reading]:
        for emission in self._emissions:
            read = tuple(name for name in names if name in emission.columns)
            if read and read not in self._parts:
                columns = select_columns(self._columns, self._names, read)
                self._parts[read] = _reading_of(emission, read, columns)
            if read:
                yield self._parts[read]


def _join(first: Reading, second: Reading) -> Reading:
    """Join two readings: a code for each pair of codes that occurs."""
    chosen, codes = number_codes(first[0] * len(second[1]) + second[0])
    return codes.astype(np.int64), first[1][first[0][chosen]] * second[1][second[0][chosen]]


def number_codes(codes: Ints) -> tuple[Ids, Ids]:
    """Return the first place of each distinct code, and the number of each code in that order."""
    return number_keys(codes.view(np.uint64))


def together(names: Sequence[str]) -> Templates:
    """Return the template of columns that are emitted together."""
    return Templates(["|".join(f"{name}[0]" for name in names)])


def row_keys(templates: Templates, rows: Symbols) -> Symbols:
    """Return the key of the only template for each row of symbols."""
    return templates.keys(rows, np.array([0, len(rows)]))[:, 0]


def select_columns(columns: Symbols, names: Sequence[str], wanted: Sequence[str]) -> Symbols:
    """Select columns by name. Raises StructlearnError if a name is missing."""
    missing = [name for name in wanted if name not in names]
    if missing:
        raise StructlearnError("SL247", problem=f"no columns {', '.join(missing)}")
    return np.ascontiguousarray(columns[:, [list(names).index(name) for name in wanted]])
