"""Counts of the values that variables take together, in a labelled table.

A conditional probability table (Toutanova 2006, section 2.1) needs three counts of each context,
the values of some variables: how often it occurs, with how many different values of the predicted
variable, and how often with a given one. They are counts of sets of variables, where the class is
one more variable, so a set is counted once for all tables. Only values that occur have an entry.
`CountedInstances` looks up the counts for the rows of a table with every label, with or without the
row itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ...kernels.index import KeyIndex, group
from ..features import CLASS_NAME, SET_SEPARATOR, Table, symbol, tuple_keys

Subset: TypeAlias = "tuple[int, ...]"
"""Indices of variables in ascending order; the index of the class follows those of variables."""

CACHE_BYTES = 512 * 2**20

Method = TypeVar("Method", bound=Callable[..., Any])


class Caching:
    """A base of classes with `cached` methods.

    Their values are arrays, or tuples of them, and are forgotten when they exceed `CACHE_BYTES`.
    """

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}
        self._n_bytes = 0

    def _cached(self, method: Method, *key: Any) -> Any:
        if (name := (method.__qualname__, *key)) not in self._values:
            value = method(self, *key)
            parts = value if isinstance(value, tuple) else (value,)
            size = sum(getattr(part, "nbytes", 0) for part in parts)
            if self._n_bytes + size > CACHE_BYTES:
                self._values.clear()
                self._n_bytes = 0
            self._values[name] = value
            self._n_bytes += size
        return self._values[name]


def cached(method: Method) -> Method:
    """Keep the values of a method of `Caching` by its positional arguments."""
    return cast(Method, wraps(method)(lambda self, *key: self._cached(method, *key)))


class Group(NamedTuple):
    """The different values of a set of variables.

    keys: uint64 (k), ascending. ids: int32 (n_rows), the index of each row's values in `keys`.
    counts: numbers (k), how often each occurs. index: from keys to indices.
    """

    keys: NDArray[np.uint64]
    ids: NDArray[np.int32]
    counts: NDArray[Any]
    index: KeyIndex


class ContextLevel(NamedTuple):
    """The counts of a context and a value of a variable, for n rows and L labels.

    ratio: T / C, the number of different values in the context over the count of the context;
        infinite if it does not occur.
    relative: f / C, the relative frequency of the value in the context; 0 if it does not occur.
    Both are float64 (n, L), with length 1 where the row or the label does not matter.
    """

    ratio: NDArray[np.float64]
    relative: NDArray[np.float64]


class JointCounts(Caching):
    """The counts of a table with a label for each row; computed when needed, and cached.

    label_ids: integers (n), indices in `labels`. labels: all known labels.
    """

    weight = 1.0  # the count of one row

    def __init__(self, table: Table, label_ids: NDArray[np.integer], labels: Sequence[str]):
        super().__init__()
        self.table = table
        self.labels: tuple[str, ...] = tuple(labels)
        self.label_ids = np.asarray(label_ids, dtype=np.int64)
        self.symbols = np.array([symbol(label) for label in self.labels], dtype=np.uint64)
        self._columns = [np.ascontiguousarray(column) for column in table.symbols.T]
        self._columns.append(self.symbols[self.label_ids])

    @property
    def target(self) -> int:
        """The index of the class."""
        return len(self.table.variables)

    def __len__(self) -> int:
        return len(self.table)

    @cached
    def group(self, subset: Subset) -> Group:
        """Return the values of a set of variables; the empty set has one if there are rows."""
        seed = seed_of(self.table.variables, subset)
        keys = tuple_keys(*(self._columns[i] for i in subset), seed=seed)
        keys, ids, counts = group(np.ascontiguousarray(np.broadcast_to(keys, len(self))))
        return Group(keys, ids, counts, KeyIndex(keys))

    def n_values(self, variable: int) -> int:
        """Return the number of different values of a variable, or of labels that occur."""
        return len(self.group((variable,)).keys)

    @cached
    def distinct(self, context: Subset, variable: int) -> NDArray[Any]:
        """Return T, the number of values of `variable` with each value of the context, (k).

        The order is that of `group(context).keys`.
        """
        events, contexts = self.group(join(context, variable)), self.group(context)
        # One row of each event tells its context.
        rows = np.empty(len(events.keys), dtype=np.int64)
        rows[events.ids] = np.arange(len(self))
        return np.bincount(contexts.ids[rows], minlength=len(contexts.keys))


class CountedInstances(Caching):
    """The counts for rows with every one of the L labels.

    symbols: uint64 (n, n_variables), in the order of the variables of the counts.
    label_ids: integers (n), the labels of the rows, if they are known.

    With `left_out`, the rows are those that were counted, and each is looked up in the counts of
    all others: its weight is subtracted from the count of each context and event that contains the
    row (with the class, only for the row's own label), and a value that only this row has in a
    context is not among the T.
    """

    def __init__(
        self,
        counts: JointCounts,
        symbols: NDArray[np.uint64],
        label_ids: NDArray[np.integer] | None = None,
    ):
        super().__init__()
        self.counts = counts
        self.label_ids = label_ids
        self.is_left_out = False
        self.shape = len(symbols), len(counts.labels)
        self._columns = [column.reshape(-1, 1) for column in np.ascontiguousarray(symbols.T)]
        self._columns.append(counts.symbols.reshape(1, -1))

    @classmethod
    def left_out(cls, counts: JointCounts) -> CountedInstances:
        """Return the counted rows, each without itself."""
        instances = cls(counts, counts.table.symbols, counts.label_ids)
        instances.is_left_out = True
        return instances

    @cached
    def level(self, context: Subset, variable: int) -> ContextLevel:
        """Return the counts of a context and of the value of a variable in it."""
        event = join(context, variable)
        distinct = _look_up(self.counts.distinct(context, variable), self._places(context))
        total, frequency = self._frequency(context), self._frequency(event)
        if self.is_left_out:
            inside = self._own(context)
            distinct = distinct - inside * self._is_single(context, variable)
            total = total - self.counts.weight * inside
            frequency = frequency - self.counts.weight * self._own(event)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(total > 0, distinct / total, np.inf)
            relative = np.where(total > 0, frequency / total, 0.0)
        return ContextLevel(ratio, relative)

    def uniform(self, variable: int) -> NDArray[np.float64]:
        """Return 1 / V, float64 (1 or n, 1), for the values of a variable and an unseen one."""
        n_values = np.full((1, 1), self.counts.n_values(variable) + 1.0)
        if self.is_left_out:
            n_values = n_values - self._is_single((), variable)
        return 1.0 / n_values

    @cached
    def _places(self, subset: Subset) -> NDArray[np.int32]:
        """Return the index of the values in their group, or -1: int32 (n or 1, L or 1)."""
        seed = seed_of(self.counts.table.variables, subset)
        keys = tuple_keys(*(self._columns[i] for i in subset), seed=seed)
        shape = np.broadcast_shapes(keys.shape, (1, 1))
        return self.counts.group(subset).index.find(keys.reshape(shape))

    @cached
    def _frequency(self, subset: Subset) -> NDArray[np.float64]:
        """Return the counts of the values of a set of variables, including the row itself."""
        return _look_up(self.counts.group(subset).counts, self._places(subset))

    def _own(self, subset: Subset) -> NDArray[np.float64]:
        """Return 1 where the row itself was counted with these values: float64 (n, L or 1)."""
        n, n_labels = self.shape
        if self.counts.target not in subset:
            return np.ones((n, 1))
        own = np.zeros((n, n_labels))
        own[np.arange(n), self.counts.label_ids] = 1.0
        return own

    def _is_single(self, context: Subset, variable: int) -> NDArray[np.float64]:
        """Return 1 where no other row has the same value of a variable in the context.

        More generally, by how much T is less without the row; see `MergedCounts`.
        """
        event = self.counts.group(join(context, variable))
        counts = event.counts[event.ids].reshape(-1, 1)
        return np.minimum(counts, 1.0) - np.minimum(counts - self.counts.weight, 1.0)


def join(context: Subset, variable: int) -> Subset:
    """Add a variable to a set that does not contain it."""
    return tuple(sorted((*context, variable)))


def seed_of(variables: Sequence[str], subset: Subset) -> int:
    """Return the seed of the keys of a set of variables.

    It depends on names, not on indices, because a model may leave variables out.
    """
    names = [variables[i] if i < len(variables) else CLASS_NAME for i in subset]
    return symbol(SET_SEPARATOR.join(names))


def _look_up(numbers: NDArray[Any], places: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the numbers at these indices, 0 at -1."""
    return np.append(numbers, 0).astype(np.float64)[places]
