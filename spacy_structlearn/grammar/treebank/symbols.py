"""The coarse symbols and rules of an X-bar grammar.

Petrov & Klein (2007), section 2 and figure 1; see `data` for the trees that they are those of.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...arrays import cumulative, ranges
from ...learning.stored import same

ROOT = "TOP"


@dataclass(frozen=True)
class Symbols:
    """The coarse symbols of a grammar under one index: tags, then phrases, then intermediates.

    tags, phrases: labels, each ascending. A tag and a phrase with one name are two symbols.
    intermediates: for each @X the symbol of X, ascending.
    root: the label above the tree. It is a symbol only if a phrase of that name was inserted.
    """

    tags: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    intermediates: tuple[int, ...] = ()
    root: str = ROOT

    @property
    def n_tags(self) -> int:
        """Number of tags."""
        return len(self.tags)

    @property
    def n_phrases(self) -> int:
        """Number of phrase labels."""
        return len(self.phrases)

    @property
    def size(self) -> int:
        """Number of symbols."""
        return len(self.tags) + len(self.phrases) + len(self.intermediates)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of each symbol; that of an intermediate is "@" and its phrase."""
        plain = self.tags + self.phrases
        return plain + tuple("@" + plain[phrase] for phrase in self.intermediates)

    @cached_property
    def phrase_index(self) -> dict[str, int]:
        """The symbol of each phrase label."""
        return {label: self.n_tags + i for i, label in enumerate(self.phrases)}

    @cached_property
    def intermediate_index(self) -> dict[str, int]:
        """The intermediate symbol of each phrase label that has one."""
        first = self.n_tags + self.n_phrases
        return {self.names[phrase]: first + i for i, phrase in enumerate(self.intermediates)}

    @cached_property
    def tag_index(self) -> dict[str, int]:
        """The symbol of each tag."""
        return {tag: i for i, tag in enumerate(self.tags)}

    @property
    def inserted_root(self) -> int:
        """The phrase inserted below a root with several children; -1 if there is none."""
        return self.phrase_index.get(self.root, -1)


@dataclass(frozen=True, eq=False)
class Rules:
    """The coarse productions seen in training; the id of a production is its index.

    binary: int32 (R, 3) parent, left, right, sorted by (left, right, parent).
    unary: int32 (U, 2) parent, child, sorted by (child, parent).
    root: int32 (K) children of ROOT, ascending.
    """

    binary: NDArray[np.int32]
    unary: NDArray[np.int32]
    root: NDArray[np.int32]

    @classmethod
    def empty(cls) -> Rules:
        """No rules."""
        return cls(np.empty((0, 3), np.int32), np.empty((0, 2), np.int32), np.empty(0, np.int32))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rules) and same(vars(self), vars(other))

    __hash__ = None  # type: ignore[assignment]

    def renumbered(self, to: NDArray[np.int32]) -> Rules:
        """The rules over other symbols in the same order, see `renumbering`."""
        return Rules(to[self.binary], to[self.unary], to[self.root])

    def sizes(self, substates: NDArray[np.int32]) -> dict[str, NDArray[np.int64]]:
        """The numbers of refinements of "binary", "unary" and "root" rules into these substates."""
        wide = substates.astype(np.int64)
        return {
            "binary": wide[self.binary].prod(axis=1),
            "unary": wide[self.unary].prod(axis=1),
            "root": wide[self.root],
        }

    def problem(self, symbols: Symbols) -> str | None:
        """Why these are not rules over `symbols`, or None."""
        n, size = symbols.n_tags, symbols.size
        arrays = (self.binary, self.unary, self.root)
        if any(a.dtype != np.int32 for a in arrays) or self.root.ndim != 1:
            return "rules that are not int32"
        if self.binary.shape != (len(self.binary), 3) or self.unary.shape != (len(self.unary), 2):
            return "rules of the wrong shape"
        if any(a.size and (a.min() < 0 or a.max() >= size) for a in arrays):
            return "a rule with an unknown symbol"
        last = n + symbols.n_phrases
        parents, children = self.unary.T
        if (self.binary[:, 0] < n).any() or (parents < n).any() or (parents >= last).any():
            return "a rule whose parent is not a phrase"
        if (self.root >= last).any() or (children >= last).any() or (parents == children).any():
            return "a unary rule with an intermediate symbol, or of a symbol to itself"
        keys = (_keys(self.binary[:, [1, 2, 0]], size), _keys(self.unary[:, ::-1], size), self.root)
        if any((key[1:] <= key[:-1]).any() for key in keys):
            return "rules that are not sorted"
        return None


def substate_columns(
    symbols: NDArray[np.integer], substates: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The layout of vectors of substates, one after another, of a sequence of symbols.

    Returns where the vector of each symbol begins, int64 (n + 1), and for each entry its substate
    among those of all symbols, int64.
    """
    sizes = substates[symbols]
    return cumulative(sizes), ranges(cumulative(substates)[symbols], sizes)


def united_rules(
    one: Rules, other: Rules, size: int
) -> tuple[Rules, NDArray[np.int64], NDArray[np.int64]]:
    """All rules of two sets over the same symbols, of which there are `size`.

    Returns them, and the numbers in them of the rules of each set. Binary rules are numbered first,
    then unary ones, then those of the root.
    """
    kinds, of_one, of_other, first = [], [], [], 0
    # Columns in the order by which rules are sorted.
    for kind, columns in (("binary", [1, 2, 0]), ("unary", [1, 0]), ("root", [0])):
        parts = [getattr(rules, kind).reshape(-1, len(columns)) for rules in (one, other)]
        distinct, number = distinct_rows(np.concatenate(parts)[:, columns], size)
        kinds.append(np.ascontiguousarray(distinct[:, np.argsort(columns)]))
        of_one.append(first + number[: len(parts[0])].astype(np.int64))
        of_other.append(first + number[len(parts[0]) :].astype(np.int64))
        first += len(distinct)
    binary, unary, root = kinds
    rules = Rules(binary, unary, root[:, 0])
    return rules, np.concatenate(of_one), np.concatenate(of_other)


def renumbering(old: Symbols, new: Symbols) -> NDArray[np.int32]:
    """The new number of each old symbol: int32 (old.size). All old symbols are among the new."""
    numbers = [new.tag_index[tag] for tag in old.tags]
    numbers += [new.phrase_index[label] for label in old.phrases]
    numbers += [new.intermediate_index[old.names[phrase]] for phrase in old.intermediates]
    return np.array(numbers, dtype=np.int32)


def _keys(columns: NDArray[np.integer], size: int) -> NDArray[np.int64]:
    """One number for each row, in the order of the rows."""
    key = np.zeros(len(columns), dtype=np.int64)
    for column in columns.T:
        key = key * size + column
    return key


def distinct_rows(
    columns: NDArray[np.integer], size: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The distinct rows, ascending, and for each row its index among them."""
    _, first, inverse = np.unique(_keys(columns, size), return_index=True, return_inverse=True)
    return columns[first].astype(np.int32), inverse.astype(np.int32)
