"""Counts of the values that variables take together, in a labelled table.

All that a conditional probability table needs (Toutanova 2006, section 2.1) are three numbers of a
context, the values of some variables: how often it was seen, with how many different values of the
variable that is predicted, and how often with this one. They are counts of sets of variables, the
class among them as one variable more, so that a set is counted once, whatever the tables that ask
for it; only what was seen has an entry. `CountedInstances` looks them up for the rows of a table
with every label, as they are or with the row itself left out of the counts.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from ..kernels.index import KeyIndex, group
from .features import CLASS_NAME, SET_SEPARATOR, Table, symbol, tuple_keys

Subset: TypeAlias = "tuple[int, ...]"
"""Places of variables, ascending; the class has the place after the last variable."""

CACHE_BYTES = 256 * 2**20
"""When what is kept for later takes more than this, it is forgotten and made again if needed."""

Value = TypeVar("Value")


class Cache(Generic[Value]):
    """What was made before, until it takes more than `limit` bytes."""

    def __init__(self, limit: int = CACHE_BYTES):
        self._limit = limit
        self._kept: dict[Hashable, Value] = {}
        self._n_bytes = 0

    def get(self, key: Hashable) -> Value | None:
        """The value that was kept by this key; None if there is none, or no more."""
        return self._kept.get(key)

    def keep(self, key: Hashable, value: Value, n_bytes: int) -> Value:
        """Keep a value of this size in memory; returns it."""
        if self._n_bytes + n_bytes > self._limit:
            self._kept.clear()
            self._n_bytes = 0
        self._kept[key] = value
        self._n_bytes += n_bytes
        return value


class Group(NamedTuple):
    """The different values of a set of variables.

    keys: uint64 (k), ascending. ids: int32 (n_rows), the place of each row's values in them.
    counts: int64 (k), how often each occurs. index: from keys to places.
    """

    keys: NDArray[np.uint64]
    ids: NDArray[np.int32]
    counts: NDArray[np.int64]
    index: KeyIndex


class ContextLevel(NamedTuple):
    """What a context and a value of a variable were seen with, for n rows and L labels.

    ratio: T / C, the number of different values that were seen in the context over the number of
        times that it was seen; infinite if it never was. relative: f / C, the relative frequency of
        the value in the context; 0 if that was never seen. Both are float64 (n, L), or have the
        length 1 where neither the row nor the label matters.
    """

    ratio: NDArray[np.float64]
    relative: NDArray[np.float64]


class JointCounts:
    """The counts of a table whose rows have labels.

    table: the n rows. label_ids: integers (n), places in `labels`; labels: all that there are.
    Counts of a set of variables are made when they are first asked for, and kept.
    Raises StructlearnError if there is not one label in range for each row.
    """

    def __init__(self, table: Table, label_ids: NDArray[np.integer], labels: Sequence[str]):
        self.table = table
        self.labels: tuple[str, ...] = tuple(labels)
        self.label_ids = check_label_ids(label_ids, len(table), len(self.labels))
        self.symbols = np.array([symbol(label) for label in self.labels], dtype=np.uint64)
        self._columns = [np.ascontiguousarray(column) for column in table.symbols.T]
        self._columns.append(self.symbols[self.label_ids])
        self._groups: Cache[Group] = Cache()
        self._distinct: Cache[NDArray[np.int64]] = Cache()

    @property
    def target(self) -> int:
        """The place of the class."""
        return len(self.table.variables)

    def __len__(self) -> int:
        return len(self.table)

    def seed(self, subset: Subset) -> int:
        """What tells the keys of this set of variables from those of others; by their names."""
        return seed_of(self.table.variables, subset)

    def group(self, subset: Subset) -> Group:
        """The values of a set of variables in the rows; with the empty set, one if there are rows.

        subset: ascending places, the class last.
        """
        found = self._groups.get(subset)
        if found is None:
            keys = tuple_keys(*(self._columns[i] for i in subset), seed=self.seed(subset))
            keys, ids, counts = group(np.ascontiguousarray(np.broadcast_to(keys, len(self))))
            found = Group(keys, ids, counts, KeyIndex(keys))
            self._groups.keep(subset, found, 4 * len(ids) + 24 * len(keys))
        return found

    def n_values(self, variable: int) -> int:
        """The number of different values of a variable, or of labels that occur."""
        return len(self.group((variable,)).keys)

    def distinct(self, context: Subset, variable: int) -> NDArray[np.int64]:
        """T: with how many values of `variable` each of the context's values was seen, int64 (k).

        They are in the order of `group(context).keys`.
        """
        found = self._distinct.get((context, variable))
        if found is None:
            events, contexts = self.group(join(context, variable)), self.group(context)
            # One row of each event tells its context.
            rows = np.empty(len(events.keys), dtype=np.int64)
            rows[events.ids] = np.arange(len(self))
            found = np.bincount(contexts.ids[rows], minlength=len(contexts.keys))
            self._distinct.keep((context, variable), found, found.nbytes)
        return found


class CountedInstances:
    """Rows that are looked up in counts with every one of the L labels.

    symbols: uint64 (n, n_variables), in the order of the variables of the counts.
    label_ids: integers (n), the rows' own labels, or None where nobody asks for them.
    Made by `left_out`, the rows are those that were counted, and each is looked up in the counts
    of all others: where a context or an event has the row in it, that is, if it has the class in
    it, for the row's own label only, one is taken away (C - 1 and f - 1), and a value that was
    seen there in this row only is none of the T (and of the vocabulary, if it is the only one).
    """

    def __init__(
        self,
        counts: JointCounts,
        symbols: NDArray[np.uint64],
        label_ids: NDArray[np.integer] | None = None,
    ):
        self.counts = counts
        self.label_ids = None
        if label_ids is not None:
            self.label_ids = check_label_ids(label_ids, len(symbols), len(counts.labels))
        self.is_left_out = False
        self._columns = [column.reshape(-1, 1) for column in np.ascontiguousarray(symbols.T)]
        self._columns.append(counts.symbols.reshape(1, -1))
        self._n = len(symbols)
        self._frequencies: Cache[NDArray[np.float64]] = Cache()
        self._places: Cache[NDArray[np.int32]] = Cache()
        self._levels: Cache[ContextLevel] = Cache()

    @classmethod
    def left_out(cls, counts: JointCounts) -> CountedInstances:
        """The rows that were counted, each without itself."""
        instances = cls(counts, counts.table.symbols, counts.label_ids)
        instances.is_left_out = True
        return instances

    @property
    def shape(self) -> tuple[int, int]:
        """(n, L)."""
        return self._n, len(self.counts.labels)

    def level(self, context: Subset, variable: int) -> ContextLevel:
        """The figures of a context and the value of a variable in it."""
        found = self._levels.get((context, variable))
        if found is None:
            found = self._make_level(context, variable)
            size = found.ratio.nbytes + found.relative.nbytes
            self._levels.keep((context, variable), found, size)
        return found

    def uniform(self, variable: int) -> NDArray[np.float64]:
        """1 / V, float64 (1, 1) or (n, 1): V counts the values of a variable and an unseen one."""
        n_values = np.full((1, 1), self.counts.n_values(variable) + 1.0)
        if self.is_left_out:
            n_values = n_values - self._is_single((), variable)
        return 1.0 / n_values

    def _make_level(self, context: Subset, variable: int) -> ContextLevel:
        event = join(context, variable)
        total, frequency = self._frequency(context), self._frequency(event)
        distinct = _look_up(self.counts.distinct(context, variable), self._place(context))
        if self.is_left_out:
            inside = self._own(context)
            distinct = distinct - inside * self._is_single(context, variable)
            total = total - inside
            frequency = frequency - self._own(event)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(total > 0, distinct / total, np.inf)
            relative = np.where(total > 0, frequency / total, 0.0)
        return ContextLevel(ratio, relative)

    def _place(self, subset: Subset) -> NDArray[np.int32]:
        """Where the values of these variables are in their group, or -1: int32 (n or 1, L or 1)."""
        found = self._places.get(subset)
        if found is None:
            keys = tuple_keys(*(self._columns[i] for i in subset), seed=self.counts.seed(subset))
            shape = np.broadcast_shapes(keys.shape, (1, 1))
            found = self.counts.group(subset).index.find(keys.reshape(shape))
            self._places.keep(subset, found, found.nbytes)
        return found

    def _frequency(self, subset: Subset) -> NDArray[np.float64]:
        """How often the values of a set of variables were counted, this row with them."""
        found = self._frequencies.get(subset)
        if found is None:
            found = _look_up(self.counts.group(subset).counts, self._place(subset))
            self._frequencies.keep(subset, found, found.nbytes)
        return found

    def _own(self, subset: Subset) -> NDArray[np.float64]:
        """1 where the row itself was counted among these values, else 0: float64 (n, L or 1)."""
        n, n_labels = self.shape
        if self.counts.target not in subset:
            return np.ones((n, 1))
        own = np.zeros((n, n_labels))
        own[np.arange(n), self.counts.label_ids] = 1.0
        return own

    def _is_single(self, context: Subset, variable: int) -> NDArray[np.float64]:
        """1 where the row is the only one with its own value of a variable in the context."""
        event = self.counts.group(join(context, variable))
        return (event.counts[event.ids] == 1).astype(np.float64).reshape(-1, 1)


def join(context: Subset, variable: int) -> Subset:
    """The set of variables with one more, which is not in it."""
    return tuple(sorted((*context, variable)))


def seed_of(variables: Sequence[str], subset: Subset) -> int:
    """The seed of the keys of a set of variables, the class being the one after the last.

    It depends on their names and not on their places: a model may leave variables out.
    """
    names = [variables[i] if i < len(variables) else CLASS_NAME for i in subset]
    return symbol(SET_SEPARATOR.join(names))


def check_label_ids(
    label_ids: NDArray[np.integer], n_rows: int, n_labels: int
) -> NDArray[np.int64]:
    """`label_ids` as int64, if there is one in range for each row (else StructlearnError)."""
    label_ids = np.asarray(label_ids, dtype=np.int64)
    if label_ids.shape != (n_rows,):
        raise StructlearnError("SL504", rows=n_rows, found=f"{label_ids.size} labels")
    if n_rows and not 0 <= label_ids.min() <= label_ids.max() < n_labels:
        raise StructlearnError("SL505", n_labels=n_labels)
    return label_ids


def _look_up(numbers: NDArray[np.int64], places: NDArray[np.int32]) -> NDArray[np.float64]:
    """The numbers at these places, 0 at the place -1."""
    return np.append(numbers, 0).astype(np.float64)[places]
