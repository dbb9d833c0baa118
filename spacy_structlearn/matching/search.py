"""Search for patterns: joins of the nodes of many trees at once.

A pattern is a tree of constraints, so that the join is acyclic (Yannakakis 1981, "Algorithms for
acyclic database schemes"). From the last node of the pattern to the first, `_Join` counts for each
node of the forest how many matches of this part of the pattern begin with it. Nodes without any
are dropped. Then matches are enumerated from the first node to the last; none is begun in vain.
The checks of a pattern, which would make it cyclic, come last, and reduce the matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import cumulative, ranges
from ..errors import StructlearnError
from .forest import Forest, Nodes
from .patterns import LABEL, LENGTH, Attributes, Pattern
from .relations import parts, related

MOST = 2**40  # counts are not exact beyond this; sums of them fit into 64 bits
BLOCK = 2**18  # how many matches are enumerated at a time, if there are not more in one tree
MOST_MATCHES = 250_000  # of a pattern in one tree


class Matches(NamedTuple):
    """Some matches, in order.

    patterns: the number of the pattern of each. offsets: where the nodes of each begin and end in
    `nodes`, which are those of the forest, in the order of the pattern.
    """

    patterns: NDArray[np.int64]
    nodes: NDArray[np.int64]
    offsets: NDArray[np.int64]


def matches(forest: Forest, patterns: Sequence[Pattern]) -> Iterator[Matches]:
    """Iterate over all matches, some at a time. They are sorted by their first node and pattern.

    Raises StructlearnError if one tree has too many.
    """
    joins = _joins(forest, patterns)
    n_trees = len(forest.firsts) - 1
    number = np.zeros(n_trees)
    for join in joins:
        trees = np.searchsorted(forest.firsts, join.roots.nodes, "right") - 1
        own = np.bincount(trees, join.roots.counts, n_trees)
        if (found := int(own.max(initial=0))) > MOST_MATCHES:
            nodes = " ".join(f"{node.relation} {node.name}" for node in join.pattern.nodes).strip()
            raise StructlearnError("SL706", nodes=nodes, found=found, most=MOST_MATCHES)
        number += own
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
    """Return the number of matches of each pattern; only those with checks are enumerated."""
    counted = iter(_joins(forest, [pattern for pattern in patterns if not pattern.checks]))
    return [
        sum(len(found.patterns) for found in matches(forest, [pattern]))
        if pattern.checks
        else int(next(counted).roots.counts.sum())
        for pattern in patterns
    ]


def first_nodes(forest: Forest, patterns: Sequence[Pattern]) -> list[Nodes]:
    """Return the first nodes of the matches of each pattern, ascending, each node once."""
    return [join.roots.nodes for join in _joins(forest, patterns)]


def _joins(forest: Forest, patterns: Sequence[Pattern]) -> list[_Join]:
    nodes_with = _nodes_with(forest)
    return [_Join(forest, pattern, nodes_with) for pattern in patterns]


def _sorted(joins: Sequence[_Join], begin: int, end: int) -> Matches:
    """Return the matches whose first node is between two nodes."""
    tables = [join.matches(begin, end) for join in joins]
    numbers = np.repeat(np.arange(len(tables)), [len(rows) for rows in tables])
    sizes = np.repeat([rows.shape[1] for rows in tables], [len(rows) for rows in tables])
    nodes = np.concatenate([rows.ravel() for rows in tables])
    begins = cumulative(sizes)[:-1]
    order = np.lexsort((numbers, nodes[begins]))  # stable
    sizes = sizes[order]
    return Matches(numbers[order], nodes[ranges(begins[order], sizes)], cumulative(sizes))


def _nodes_with(forest: Forest) -> Callable[[Attributes], Nodes]:
    """Return the function from attributes to the nodes of a forest that have them, ascending."""

    @cache
    def column(name: str) -> tuple[dict[Any, int], NDArray[np.integer]]:
        """Return the values of an attribute by their numbers, and the number of each node."""
        values: Sequence[Any]
        if name == LABEL:
            values, numbers = forest.names, forest.labels
        elif name == LENGTH:
            numbers = forest.stops - forest.starts
            values = range(numbers.max(initial=0) + 1)
        else:
            of_words = forest.attributes(name)
            values, numbers = of_words.texts[:-1], of_words.codes[forest.starts]
        return {value: number for number, value in enumerate(values)}, numbers

    @cache
    def nodes_with(attributes: Attributes) -> Nodes:
        holds = np.ones(forest.n, dtype=bool)
        for name, test in attributes:
            values, numbers = column(name)
            holds &= test.holds(values)[numbers]
        nodes = np.flatnonzero(holds)
        if not {LABEL, LENGTH}.issuperset(name for name, _ in attributes):
            # Tags: nodes with one node below.
            nodes = nodes[forest.ends[nodes] == nodes + 2]
        return nodes

    return nodes_with


class _Part:
    """The nodes of a forest where a part of a pattern begins, to be joined with the node before.

    relation: the one of that node. nodes: ascending. counts: the number of matches of this part
    with each node.
    """

    def __init__(self, forest: Forest, relation: str, nodes: Nodes, counts: NDArray[np.int64]):
        self.forest, self.nodes, self.counts = forest, nodes, counts
        # For each part of the relation the places of the nodes in its order, ascending, the nodes,
        # and the sum of the counts before each of them.
        self._orders = []
        for name, bounds in parts(relation) or ():
            to_places, to_nodes = getattr(forest, name)
            places, in_order = to_places[nodes], counts
            if name != "before":
                order = np.argsort(places)
                places, in_order = places[order], counts[order]
            self._orders.append((bounds, places, to_nodes[places], cumulative(in_order)))

    def count(self, nodes: Nodes) -> NDArray[np.int64]:
        """Return the number of matches of this part for nodes before its relation."""
        total = np.zeros(len(nodes), dtype=np.int64)
        for bounds, places, _, sums in self._orders:
            begins, ends = (np.searchsorted(places, at) for at in bounds(self.forest, nodes))
            total += sums[ends] - sums[begins]
        if not self._orders:  # nodes above
            change = np.zeros(self.forest.n + 1, dtype=np.int64)
            change[self.nodes + 1] += self.counts
            np.add.at(change, self.forest.ends[self.nodes], -self.counts)
            total += np.cumsum(change)[nodes]
        return total

    def links(self, nodes: Nodes) -> tuple[Nodes, Nodes]:
        """Return the rows of nodes before the relation, and a node of this part for each."""
        none = np.zeros(0, dtype=np.int64)
        rows: list[Nodes] = [none]
        related: list[Nodes] = [none]
        for bounds, places, ordered, _ in self._orders:
            begins, ends = (np.searchsorted(places, at) for at in bounds(self.forest, nodes))
            rows.append(np.repeat(np.arange(len(nodes)), ends - begins))
            related.append(ordered[ranges(begins, ends - begins)])
        if not self._orders:  # nodes above
            begins_here = np.zeros(self.forest.n, dtype=bool)
            begins_here[self.nodes] = True
            left, above = np.arange(len(nodes)), self.forest.parents[nodes]
            while len(left := left[above >= 0]):
                above = above[above >= 0]
                chosen = begins_here[above]
                rows.append(left[chosen])
                related.append(above[chosen])
                above = self.forest.parents[above]
        return np.concatenate(rows), np.concatenate(related)


class _Join:
    """The matches of a pattern in a forest. roots: the nodes of the forest where they begin."""

    def __init__(self, forest: Forest, pattern: Pattern, nodes_with: Callable[[Attributes], Nodes]):
        self.forest, self.pattern = forest, pattern
        below: list[list[int]] = [[] for _ in pattern.nodes]
        for number, node in enumerate(pattern.nodes[1:], 1):
            below[node.parent].append(number)
        self.parts: dict[int, _Part] = {}
        for number, node in reversed(list(enumerate(pattern.nodes))):
            nodes = nodes_with(node.attributes)
            counts = np.ones(len(nodes), dtype=np.int64)
            for other in below[number]:
                further = self.parts[other].count(nodes)
                if pattern.nodes[other].negated:
                    further = further == 0
                rows = np.flatnonzero(further)
                products = counts[rows] * further[rows].astype(np.float64)
                nodes, counts = nodes[rows], np.minimum(products, MOST).astype(np.int64)
            self.parts[number] = _Part(forest, node.relation, nodes, counts)
        self.roots = self.parts[0]

    def matches(self, begin: int, end: int) -> Nodes:
        """Return the matches whose first node is between two nodes, (n, nodes), sorted."""
        bounds = np.searchsorted(self.roots.nodes, [begin, end])
        columns = {0: self.roots.nodes[slice(*bounds)]}
        for number, node in enumerate(self.pattern.nodes[1:], 1):
            if node.is_matched:
                rows, nodes = self.parts[number].links(columns[node.parent])
                columns = {other: column[rows] for other, column in columns.items()}
                columns[number] = nodes
        kept = np.ones(len(columns[0]), dtype=bool)
        for left, relation, right, negated in self.pattern.checks:
            kept &= related(self.forest, relation, columns[left], columns[right]) != negated
        table = np.stack([*columns.values()], axis=1)[kept]
        return table[np.lexsort(table.T[::-1])]
