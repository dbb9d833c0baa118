"""Tables of nominal data as arrays, and keys for tuples of their values.

An instance is a tuple of values, strings or None, one a variable (Toutanova 2006, section 2).
Each value is known by a 64-bit symbol, a hash of its text, and the values of several variables
together by one 64-bit key, a hash of their symbols: so tables of counts and weights are sparse
however many values a variable has, a value that was never seen is a key that is not found, and a
model holds no strings of the text it was trained on, unless it is told to. The hashes are part of
the model format and must never change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import StructlearnError

MISSING = 0
"""The symbol of None: a value like any other."""

Rows: TypeAlias = "Table | Mapping[str, Sequence[str | None]] | Sequence[Sequence[str | None]]"

_SEED = 0x9E3779B97F4A7C15
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


@lru_cache(maxsize=65536)
def symbol(value: str | None) -> int:
    """The 64-bit symbol of a value, the same on every platform; `MISSING` for None."""
    if value is None:
        return MISSING
    digest = blake2b(value.encode("utf8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1


@dataclass(frozen=True, eq=False)
class Table:
    """Instances as rows of symbols.

    variables: the names of the columns. symbols: uint64 (n_rows, n_variables).
    names: what symbols are called, where that is known.
    Raises StructlearnError SL501 if the names are not different or the shapes do not fit.
    """

    variables: tuple[str, ...]
    symbols: NDArray[np.uint64]
    names: Mapping[int, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        symbols = np.ascontiguousarray(self.symbols, dtype=np.uint64)
        problem = None
        if len(set(self.variables)) < len(self.variables):
            problem = "two of them have the same name"
        elif symbols.ndim != 2 or symbols.shape[1] != len(self.variables):
            problem = f"the symbols have the shape {symbols.shape}"
        if problem:
            raise StructlearnError("SL501", variables=", ".join(self.variables), problem=problem)
        object.__setattr__(self, "variables", tuple(self.variables))
        object.__setattr__(self, "symbols", symbols)

    def __len__(self) -> int:
        return len(self.symbols)

    @classmethod
    def of(cls, rows: Rows, variables: Sequence[str] | None = None) -> Table:
        """Make a table of rows of values, or of columns by their names; a Table is itself.

        rows: each as many strings or Nones as there are variables; or {name: column}, with columns
            of one length. Other values than strings are taken by `str`.
        variables: names of the columns; None: those of a mapping, otherwise "x1", "x2", ...
        Raises StructlearnError SL502 for a row or column of another length, SL503 where a Table or
        mapping has no such variable.
        """
        if isinstance(rows, Table):
            return rows if variables is None else rows.select(variables)
        if isinstance(rows, Mapping):
            if variables is None:
                variables = tuple(rows)
            for variable in variables:
                if variable not in rows:
                    raise StructlearnError("SL503", variable=variable, known=", ".join(rows))
            columns = [list(rows[variable]) for variable in variables]
            n = len(columns[0]) if columns else 0
            for variable, column in zip(variables, columns, strict=True):
                if len(column) != n:
                    raise StructlearnError(
                        "SL502", what=f"column {variable!r}", found=len(column), wanted=n
                    )
        else:
            rows = list(rows)
            if variables is None:
                variables = [f"x{i + 1}" for i in range(len(rows[0]) if rows else 0)]
            for number, row in enumerate(rows, 1):
                if isinstance(row, str) or len(row) != len(variables):
                    found = f"the text {row!r}" if isinstance(row, str) else len(row)
                    raise StructlearnError(
                        "SL502", what=f"row {number}", found=found, wanted=len(variables)
                    )
            n = len(rows)
            columns = [[row[i] for row in rows] for i in range(len(variables))]
        names: dict[int, str] = {}
        symbols = np.empty((n, len(variables)), dtype=np.uint64)
        for place, column in enumerate(columns):
            symbols[:, place] = _symbols(column, names)
        return cls(tuple(variables), symbols, names)

    def column(self, variable: str) -> NDArray[np.uint64]:
        """The symbols of one variable, uint64 (n_rows). Raises SL503 if there is none."""
        return self.symbols[:, self._place(variable)]

    def select(self, variables: Sequence[str]) -> Table:
        """A table of these variables, in this order. Raises SL503 for one that is not there."""
        if tuple(variables) == self.variables:
            return self
        places = [self._place(variable) for variable in variables]
        return Table(tuple(variables), self.symbols[:, places], self.names)

    def take(self, rows: ArrayLike) -> Table:
        """A table of some rows: integers, or a bool for each."""
        return Table(self.variables, self.symbols[np.asarray(rows)], self.names)

    @classmethod
    def concatenate(cls, tables: Sequence[Table]) -> Table:
        """The rows of all tables; they have the variables of the first, in its order."""
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


def tuple_keys(*columns: NDArray[np.uint64], seed: int = 0) -> NDArray[np.uint64]:
    """One 64-bit key for the values that stand together in a row.

    columns: uint64 (n) each, or broadcast against one another; their order counts. seed: tells
    tuples of different variables apart where they share one table. Returns uint64 (n).
    """
    keys = np.uint64((_SEED + seed) & 0xFFFFFFFFFFFFFFFF)
    for column in columns:
        keys = _mix(_mix(keys + np.uint64(1)) ^ column)
    return np.asarray(keys)


def _mix(x: Any) -> Any:
    """The finaliser of SplitMix64 (Steele, Lea & Flood 2014)."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * _MIX_1
        x = (x ^ (x >> np.uint64(27))) * _MIX_2
        return x ^ (x >> np.uint64(31))


def _symbols(column: Sequence[Any], names: dict[int, str]) -> list[int]:
    """The symbol of each value; what they are called is added to `names`."""
    table: dict[Any, int] = {}
    for value in column:
        if value not in table:
            text = value if value is None or isinstance(value, str) else str(value)
            table[value] = symbol(text)
            if text is not None:
                names[table[value]] = text
    return [table[value] for value in column]
