"""Search for patterns: joins of the nodes of many trees at once.

A pattern is a tree of constraints, so that the join is acyclic (Yannakakis 1981, "Algorithms for
acyclic database schemes"). From the last node of the pattern to the first, `_Join` counts for each
node of the forest how many matches of this part of the pattern begin with it. Nodes without any
are dropped. Then matches are enumerated from the first node to the last; none is begun in vain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import cumulative, ranges
from .forest import Forest, Nodes
from .patterns import LABEL, LENGTH, Attributes, Pattern, PatternNode, Values
from .relations import parts

MOST = 2**40  # counts are not exact beyond this; sums of them fit into 64 bits
BLOCK = 2**18  # how many matches are enumerated at a time, if there are not more in one tree


class Matches(NamedTuple):
    """Some matches, in order.

    patterns: the number of the pattern of each. offsets: where the nodes of each begin and end in
    `nodes`, which are those of the forest, in the order of the pattern.
    """

    patterns: NDArray[np.int64]
    nodes: NDArray[np.int64]
    offsets: NDArray[np.int64]


def matches(forest: Forest, patterns: Sequence[Pattern]) -> Iterator[Matches]:
    """Iterate over all matches, some at a time. They are sorted by their first node and pattern."""
    joins = _joins(forest, patterns)
    n_trees = len(forest.firsts) - 1
    number = np.zeros(n_trees)
    for join in joins:
        trees = np.searchsorted(forest.firsts, join.roots.nodes, "right") - 1
        number += np.bincount(trees, join.roots.counts, n_trees)
    # Trees are cut into blocks with few matches.
    before = np.append(0, np.cumsum(number))
    tree = 0
    while tree < n_trees:
        last = int(np.searchsorted(before, before[tree] + BLOCK, "right")) - 1
        last = max(last, tree + 1)
        if before[last] > before[tree]:
            yield _sorted(joins, *forest.firsts[[tree, last]].tolist())
        tree = last


def count(forest: Forest, patterns: Sequence[Pattern]) -> list[int]:
    """Return the number of matches of each pattern, without enumerating them."""
    return [int(join.roots.counts.sum()) for join in _joins(forest, patterns)]


def _joins(forest: Forest, patterns: Sequence[Pattern]) -> list[_Join]:
    tests = _Tests(forest)
    return [_Join(forest, pattern, tests) for pattern in patterns]


def _sorted(joins: Sequence[_Join], begin: int, end: int) -> Matches:
    """Return the matches whose first node is between two nodes."""
    found = [join.matches(begin, end) for join in joins]
    numbers = np.repeat(np.arange(len(found)), [len(rows) for rows in found])
    sizes = np.repeat([rows.shape[1] for rows in found], [len(rows) for rows in found])
    nodes = np.concatenate([rows.ravel() for rows in found])
    begins = cumulative(sizes)[:-1]
    order = np.lexsort((numbers, nodes[begins]))  # stable
    sizes = sizes[order]
    return Matches(numbers[order], nodes[ranges(begins[order], sizes)], cumulative(sizes))


class _Tests:
    """The nodes of a forest that have attributes, found once for each set of attributes."""

    def __init__(self, forest: Forest):
        self.forest = forest
        self._found: dict[Attributes, Nodes] = {}
        self._values: dict[str, tuple[Values, NDArray[np.integer]]] = {}

    def nodes(self, attributes: Attributes) -> Nodes:
        """Return the nodes with these attributes, ascending."""
        if attributes not in self._found:
            mask = None
            for name, test in attributes:
                values, numbers = self._column(name)
                own = test.holds(values)[numbers]
                mask = own if mask is None else mask & own
            nodes = np.arange(self.forest.n) if mask is None else np.flatnonzero(mask)
            if not {LABEL, LENGTH}.issuperset(name for name, _ in attributes):
                # Tags: nodes with one node below.
                nodes = nodes[self.forest.ends[nodes] == nodes + 2]
            self._found[attributes] = nodes
        return self._found[attributes]

    def _column(self, name: str) -> tuple[Values, NDArray[np.integer]]:
        """Return the values of an attribute, and the number of the value of each node."""
        if name not in self._values:
            forest = self.forest
            values: Sequence[Any]
            if name == LABEL:
                values, numbers = forest.names, forest.labels
            elif name == LENGTH:
                numbers = forest.stops - forest.starts
                values = range(numbers.max(initial=0) + 1)
            else:
                column = forest.attributes(name)
                values, numbers = column.texts[:-1], column.codes[forest.starts]
            self._values[name] = Values(values), numbers
        return self._values[name]


class _Matches:
    """The nodes of a forest where a part of a pattern begins.

    nodes: ascending. counts: the number of matches of this part with each node.
    """

    def __init__(self, forest: Forest, nodes: Nodes, counts: NDArray[np.int64]):
        self.forest, self.nodes, self.counts = forest, nodes, counts
        self._orders: dict[str, tuple[Nodes, Nodes, NDArray[np.int64]]] = {}

    def order(self, name: str) -> tuple[Nodes, Nodes, NDArray[np.int64]]:
        """Return the places of the nodes in an order, ascending, the nodes, and the sum of the
        counts before each of them.
        """
        if name not in self._orders:
            places, nodes = self.forest.order(name)
            places = places[self.nodes]
            counts = self.counts
            if name != "before":
                own = np.argsort(places)
                places, counts = places[own], counts[own]
            self._orders[name] = places, nodes[places], cumulative(counts)
        return self._orders[name]


class _Join:
    """The matches of a pattern in a forest. roots: the nodes of the forest where they begin."""

    def __init__(self, forest: Forest, pattern: Pattern, tests: _Tests):
        self.forest, self.pattern = forest, pattern
        below: list[list[int]] = [[] for _ in pattern.nodes]
        for number, node in enumerate(pattern.nodes[1:], 1):
            below[node.parent].append(number)
        found: dict[int, _Matches] = {}
        for number in range(len(pattern.nodes) - 1, -1, -1):
            nodes = tests.nodes(pattern.nodes[number].attributes)
            counts = np.ones(len(nodes), dtype=np.int64)
            for other in below[number]:
                own = self._counts(nodes, pattern.nodes[other], found[other])
                if pattern.nodes[other].negated:
                    kept = own == 0
                    nodes, counts = nodes[kept], counts[kept]
                else:
                    kept = own > 0
                    nodes = nodes[kept]
                    products = counts[kept].astype(np.float64) * own[kept]
                    counts = np.minimum(products, MOST).astype(np.int64)
            found[number] = _Matches(forest, nodes, counts)
        self.found = found
        self.roots = found[0]

    def matches(self, begin: int, end: int) -> Nodes:
        """Return the matches whose first node is between two nodes, (n, nodes), sorted."""
        bounds = np.searchsorted(self.roots.nodes, [begin, end])
        columns = {0: self.roots.nodes[slice(*bounds)]}
        for number, node in enumerate(self.pattern.nodes[1:], 1):
            if node.is_matched:
                rows, nodes = self._links(columns[node.parent], node, self.found[number])
                columns = {place: column[rows] for place, column in columns.items()}
                columns[number] = nodes
        table = np.stack([*columns.values()], axis=1)
        return table[np.lexsort(table.T[::-1])]

    def _counts(self, nodes: Nodes, part: PatternNode, found: _Matches) -> NDArray[np.int64]:
        """Return the number of matches of a part of the pattern for nodes before its relation."""
        relation = parts(part.relation)
        if not relation:  # nodes above
            change = np.zeros(self.forest.n + 1, dtype=np.int64)
            change[found.nodes + 1] += found.counts
            np.add.at(change, self.forest.ends[found.nodes], -found.counts)
            return np.cumsum(change)[nodes]
        total = np.zeros(len(nodes), dtype=np.int64)
        for order, bounds in relation or ():
            places, _, sums = found.order(order)
            begins, ends = (np.searchsorted(places, at) for at in bounds(self.forest, nodes))
            total += sums[ends] - sums[begins]
        return total

    def _links(self, nodes: Nodes, part: PatternNode, found: _Matches) -> tuple[Nodes, Nodes]:
        """Return the rows of nodes and the nodes of a part of the pattern that are related."""
        none = np.zeros(0, dtype=np.int64)
        rows: list[Nodes] = [none]
        related: list[Nodes] = [none]
        relation = parts(part.relation)
        if not relation:  # nodes above
            is_found = np.zeros(self.forest.n, dtype=bool)
            is_found[found.nodes] = True
            own, above = np.arange(len(nodes)), self.forest.parents[nodes]
            while len(own):
                kept = above >= 0
                own, above = own[kept], above[kept]
                kept = is_found[above]
                rows.append(own[kept])
                related.append(above[kept])
                above = self.forest.parents[above]
        for order, bounds in relation or ():
            places, ordered, _ = found.order(order)
            begins, ends = (np.searchsorted(places, at) for at in bounds(self.forest, nodes))
            rows.append(np.repeat(np.arange(len(nodes)), ends - begins))
            related.append(ordered[ranges(begins, ends - begins)])
        return np.concatenate(rows), np.concatenate(related)
