"""Tables of nominal data as arrays, and keys for tuples of their values.

An instance is a tuple of values, strings or None, one a variable (Toutanova 2006, section 2). Each
value has a 64-bit symbol, a hash of its text, and a tuple of values has a 64-bit key, a hash of
their symbols. So tables of counts and weights are sparse for any number of values, unknown values
have keys without an entry, and models contain no text of the training data unless they are told to.
The hashes are part of the model format and must never change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set, Sized
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from numbers import Real
from typing import Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Coded
from ..errors import StructlearnError

MISSING = 0
"""The symbol of None, which is a value like others."""

Columns: TypeAlias = "Mapping[str, Sequence[str | None] | Coded]"
Rows: TypeAlias = "Table | Columns | Sequence[Sequence[str | None]]"
Labelled: TypeAlias = "tuple[Rows, Sequence[str]]"
"""Rows, and the label of each."""

SET_SEPARATOR = "\x1f"
"""Separates the names of a set of variables in a hash."""
CLASS_NAME = "\x1e"
"""The name of the class in such a set."""

_SEED = 0x9E3779B97F4A7C15
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_TEXT_TYPES = {str, type(None)}
_CACHED = 256  # symbols of longer texts are not cached


@lru_cache(maxsize=65536)
def symbol(value: str | None) -> int:
    """Return the 64-bit symbol of a value, the same on every platform."""
    if value is None:
        return MISSING
    digest = blake2b(value.encode("utf8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1


@dataclass(frozen=True, eq=False)
class Table:
    """Instances as rows of symbols.

    variables: the names of the columns. symbols: uint64 (n_rows, n_variables).
    names: the texts of some symbols.
    Raises StructlearnError if the names are not different strings or the shapes do not fit.
    """

    variables: tuple[str, ...]
    symbols: NDArray[np.uint64]
    names: Mapping[int, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        symbols = np.ascontiguousarray(self.symbols, dtype=np.uint64)
        variables = _checked_names(self.variables)
        if symbols.ndim != 2 or symbols.shape[1] != len(variables):
            problem = f"the symbols have the shape {symbols.shape}"
            raise StructlearnError("SL501", variables=", ".join(variables), problem=problem)
        object.__setattr__(self, "variables", variables)
        object.__setattr__(self, "symbols", symbols)

    def __len__(self) -> int:
        return len(self.symbols)

    @classmethod
    def of(cls, rows: Rows, variables: Sequence[str] | None = None) -> Table:
        """Return a table of rows of values, or of named columns; a Table is returned itself.

        rows: sequences of strings or Nones, one for each variable; or a mapping or data frame from
            names to columns, which may be `Coded`. `str` converts other values, so 1, 1.0 and True
            are three values; NaN, which data frames contain, is None.
        variables: names of the columns; None: those of a mapping, otherwise "x1", "x2", ...
        Raises StructlearnError for invalid or unknown names, and for rows or columns that are not
        sequences of one length.
        """
        if isinstance(rows, Table):
            return rows if variables is None else rows.select(variables)
        if is_by_name(rows):
            known = list(rows.keys())
            variables = _checked_names(known if variables is None else variables)
            columns = []
            for name in variables:
                if name not in known:
                    listed = ", ".join(map(str, known))
                    raise StructlearnError("SL503", variable=name, known=listed)
                columns.append(_values(rows[name], f"column {name!r}"))
                _check_length(f"column {name!r}", columns[-1], len(columns[0]))
            n = len(columns[0]) if columns else 0
        else:
            tuples = [_values(row, f"row {i}") for i, row in enumerate(_values(rows, "it"), 1)]
            if variables is None:
                variables = [f"x{i + 1}" for i in range(len(tuples[0]) if tuples else 0)]
            variables = _checked_names(variables)
            for number, row in enumerate(tuples, 1):
                _check_length(f"row {number}", row, len(variables))
            n = len(tuples)
            columns = list(zip(*tuples, strict=True)) if n else [()] * len(variables)
        names: dict[int, str] = {}
        symbols = np.empty((n, len(variables)), dtype=np.uint64)
        shared: dict[int, NDArray[np.uint64]] = {}
        for place, column in enumerate(columns):
            if isinstance(column, Coded):
                texts = id(column.texts)  # which columns often share
                if texts not in shared:
                    shared[texts] = np.array(_distinct(column.texts, names), dtype=np.uint64)
                symbols[:, place] = shared[texts][column.codes]
            else:
                symbols[:, place] = _symbols(column, names)
        return cls(variables, symbols, names)

    def column(self, variable: str) -> NDArray[np.uint64]:
        """Return the symbols of one variable, uint64 (n_rows)."""
        return self.symbols[:, self._place(variable)]

    def select(self, variables: Sequence[str]) -> Table:
        """Return a table of these variables. Raises StructlearnError if one is unknown."""
        variables = _checked_names(variables)
        if variables == self.variables:
            return self
        places = [self._place(variable) for variable in variables]
        return Table(variables, self.symbols[:, places], self.names)

    def take(self, rows: ArrayLike) -> Table:
        """Return a table of some rows, selected by integers or a mask."""
        return Table(self.variables, self.symbols[np.asarray(rows)], self.names)

    @classmethod
    def concatenate(cls, tables: Sequence[Table]) -> Table:
        """Return the rows of all tables, with the variables of the first."""
        first = tables[0]
        names: dict[int, str] = {}
        for table in tables:
            names.update(table.names)
        symbols = np.concatenate([table.select(first.variables).symbols for table in tables])
        return cls(first.variables, symbols, names)

    def _place(self, variable: str) -> int:
        if variable not in self.variables:
            raise StructlearnError("SL503", variable=variable, known=", ".join(self.variables))
        return self.variables.index(variable)


LabelledTable: TypeAlias = "tuple[Table, NDArray[np.int32]]"
"""Rows, and the index of the label of each."""


@dataclass(frozen=True, eq=False)
class ClassificationData:
    """Labelled instances. table: the rows; labels: one for each."""

    table: Table
    labels: tuple[str, ...]


def concatenate(data: Sequence[ClassificationData]) -> ClassificationData:
    """Return the instances of at least one part."""
    table = Table.concatenate([part.table for part in data])
    return ClassificationData(table, tuple(label for part in data for label in part.labels))


def is_by_name(rows: Rows) -> TypeGuard[Columns]:
    """Whether `rows` is a Table, a mapping, or a data frame."""
    return isinstance(rows, Table) or (hasattr(rows, "keys") and hasattr(rows, "__getitem__"))


def checked_labels(labels: Iterable[str], n_rows: int) -> tuple[str, ...]:
    """Return the labels as plain strings. Raises StructlearnError unless each row has one."""
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        found = f"the text {labels!r}" if isinstance(labels, str) else f"{labels!r}"
        raise StructlearnError("SL504", rows=n_rows, found=found)
    labels = list(labels)
    for place, label in enumerate(labels):
        if not isinstance(label, str):
            found = f"{label!r} at place {place} (counted from 0)"
            raise StructlearnError("SL504", rows=n_rows, found=found)
    if len(labels) != n_rows:
        raise StructlearnError("SL504", rows=n_rows, found=f"{len(labels)} labels")
    return tuple(map(str.__str__, labels))


def label_ids_of(found: Sequence[str], labels: Sequence[str]) -> NDArray[np.int32]:
    """Return the index of each label in `labels`, int32 (n)."""
    places = {label: place for place, label in enumerate(labels)}
    return np.array([places[label] for label in found], dtype=np.int32)


def tuple_keys(
    *columns: NDArray[np.uint64], seed: int | NDArray[np.uint64] = 0
) -> NDArray[np.uint64]:
    """Return a 64-bit key for the values of each row, uint64 (n).

    columns: uint64 (n) each, or arrays that broadcast, in an order that matters.
    seed: distinguishes tuples of different variables in one table; it broadcasts with the columns.
    """
    keys = np.uint64((_SEED + seed) & 0xFFFFFFFFFFFFFFFF)
    for column in columns:
        keys = _mix(_mix(keys + np.uint64(1)) ^ column)
    return np.asarray(keys)


def row_keys(table: Table, label_ids: NDArray[np.int32]) -> NDArray[np.uint64]:
    """Return a key for the values and the label of each row, uint64 (n)."""
    return tuple_keys(*table.symbols.T, label_ids.astype(np.uint64))


def sorted_rows(table: Table, label_ids: NDArray[np.int32]) -> LabelledTable:
    """Sort rows by their keys, so that what is learned does not depend on their order."""
    order = np.argsort(row_keys(table, label_ids), kind="stable")
    return table.take(order), label_ids[order]


def _mix(x: Any) -> Any:
    """The finaliser of SplitMix64 (Steele, Lea & Flood 2014)."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * _MIX_1
        x = (x ^ (x >> np.uint64(27))) * _MIX_2
        return x ^ (x >> np.uint64(31))


def _checked_names(variables: Sequence[str]) -> tuple[str, ...]:
    """Return the names of columns. Raises StructlearnError if they are invalid."""
    problem = None
    if isinstance(variables, str):
        problem, variables = "they are a text, not a list of names", (variables,)
    names = tuple(variables)
    for name in names:
        if not isinstance(name, str):
            problem = f"the name {name!r} is no string"
        elif SET_SEPARATOR in name or CLASS_NAME in name:
            problem = f"the name {name!r} has a control character that is used within"
    if problem is None and len(set(names)) < len(names):
        problem = "two of them have the same name"
    if problem:
        raise StructlearnError("SL501", variables=", ".join(map(str, names)), problem=problem)
    return tuple(map(str.__str__, names))


def _values(values: Any, what: str) -> tuple[Any, ...] | Coded:
    """Return the values of a row or column, or the rows, if they have an order."""
    if isinstance(values, Coded):
        return values
    if isinstance(values, (str, bytes)):
        raise StructlearnError("SL506", what=what, found=f"the text {values!r}")
    try:
        if not isinstance(values, (Mapping, Set)):
            return tuple(values)
    except TypeError:  # not an iterable
        pass
    raise StructlearnError("SL506", what=what, found=f"of type {type(values).__name__}")


def _check_length(what: str, values: Sized, wanted: int) -> None:
    if len(values) != wanted:
        raise StructlearnError("SL502", what=what, found=len(values), wanted=wanted)


def _text(value: Any) -> str | None:
    """Return a value as text; None if it is missing."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, Real) and value != value:
        return None
    return str.__str__(value) if isinstance(value, str) else str(value)


def _symbols(column: Sequence[Any], names: dict[int, str]) -> list[int]:
    """Return the symbol of each value, and add their texts to `names`."""
    # Not by values, because 1, 1.0 and True are equal, but their texts are not.
    plain = _TEXT_TYPES.issuperset(map(type, column))
    texts = column if plain else list(map(_text, column))
    distinct = dict.fromkeys(texts)
    table = dict(zip(distinct, _distinct(distinct, names), strict=True))
    return list(map(table.__getitem__, texts))


def _distinct(texts: Collection[str | None], names: dict[int, str]) -> list[int]:
    """Return the symbol of each text, and add the texts to `names`."""
    symbols = [
        # Long texts are rarely repeated, and many of them would fill the memory.
        symbol(text) if text is None or len(text) < _CACHED else symbol.__wrapped__(text)
        for text in texts
    ]
    pairs = zip(symbols, texts, strict=True)
    names.update((number, text) for number, text in pairs if text is not None)
    return symbols
