"""The relations of nodes, with the operators and the meaning of Tregex.

In each of four orders of the nodes (`Forest.order`), the nodes B that are in a relation with A are
next to each other. A relation is given by the order and the bounds of B. Only the nodes above A are
not together in any of them.

| operator | meaning |
| --- | --- |
| A < B, A > B | A is the parent of B; B is the parent of A |
| A << B, A >> B | A is above B, at any distance; B is above A |
| A <N B, A <-N B | B is the Nth child of A; the Nth from the end, counted from 1 |
| A >N B, A >-N B | A is the Nth child of B; the Nth from the end |
| A <, B, A <- B | B is the first child of A; the last child |
| A >, B, A >- B | A is the first child of B; the last child |
| A <: B, A >: B | B is the only child of A; A is the only child of B |
| A <<, B, A <<- B | A is above B, and both begin with the same word; both end with the same word |
| A >>, B, A >>- B | B is above A, and both begin with the same word; both end with the same word |
| A <<: B, A >>: B | A is above B, and both have the same words, a unary chain; B is above A |
| A . B, A , B | B begins with the word after A; B ends with the word before A |
| A .. B, A ,, B | B is after A, at any distance; B is before A |
| A $ B | A and B are different children of the same parent |
| A $+ B, A $- B | the same, and B is the next child after A; before A |
| A $++ B, A $-- B | the same, and B is anywhere after A; before A |
| A <# B, A ># B | B is the head child of A; A is the head child of B |
| A <<# B, A >># B | a chain of head children leads from A to B; from B to A |

A tag is above its word, which is its only child and its head child. No relation crosses trees.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from .forest import Forest, Nodes

# From the forest and the nodes A to the places of the first B and after the last B.
Bounds = Callable[[Forest, Nodes], tuple[Nodes, Nodes]]
# The order and the bounds of B; None for the nodes above A.
Part = tuple[str, Bounds]
ABOVE = ">>"

_NUMBERED = re.compile(r"([<>])(-?)([1-9]\d{0,8})")
OPERATOR = re.compile(
    r"<<[,:#-]?|>>[,:#-]?|[<>](?:-?[1-9]\d*|[,:#-])?|\.\.?|,,?|\$(?:\+\+?|--?)?", re.ASCII
)


@cache
def parts(operator: str) -> tuple[Part, ...] | None:
    """Return the parts of a relation; empty for `>>`. None if there is no such operator."""
    if numbered := _NUMBERED.fullmatch(operator):
        side, sign, number = numbered.groups()
        return (_nth_child if side == "<" else _nth_child_of)(int(sign + number))
    return _PARTS.get(operator)


def _one(places: Nodes, where: NDArray[np.bool_]) -> tuple[Nodes, Nodes]:
    """Return the bounds of one place, or of none."""
    begins = np.where(where, places, 0)
    return begins, begins + where


def _nth_child(number: int) -> tuple[Part, ...]:
    def bounds(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
        sizes = forest.n_children[nodes]
        rank = number - 1 if number > 0 else sizes + number
        return _one(forest.first_children[nodes] + rank, abs(number) <= sizes)

    return (("sisters", bounds),)


def _nth_child_of(number: int) -> tuple[Part, ...]:
    def bounds(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
        parents = forest.parents[nodes]
        rank = number - 1 if number > 0 else forest.n_children[parents] + number
        return _one(parents, (parents >= 0) & (forest.ranks[nodes] == rank))

    return (("before", bounds),)


def _children(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
    begins = forest.first_children[nodes]
    return begins, begins + forest.n_children[nodes]


def _parent(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
    parents = forest.parents[nodes]
    return _one(parents, parents >= 0)


def _only_child(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
    return _one(forest.first_children[nodes], forest.n_children[nodes] == 1)


def _only_child_of(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
    parents = forest.parents[nodes]
    return _one(parents, (parents >= 0) & (forest.n_children[parents] == 1))


def _below(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
    return nodes + 1, forest.ends[nodes]


def _below_first(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
    return nodes + 1, forest.leaves[forest.starts[nodes]] + 1


def _above_first(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
    # In pre-order, nodes that begin with the same word come between two leaves.
    return np.append(-1, forest.leaves)[forest.starts[nodes]] + 1, nodes


def _below_last(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
    places, _ = forest.after
    return places[forest.leaves[forest.stops[nodes] - 1]], places[nodes]


def _above_last(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
    # In post-order, nodes that end with the same word come between two leaves.
    places, _ = forest.after
    return places[nodes] + 1, np.append(places[forest.leaves], forest.n)[forest.stops[nodes]]


def _below_in_chain(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
    return nodes + 1, forest.chain_ends[1][nodes]


def _above_in_chain(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
    return forest.chain_ends[0][nodes], nodes


def _after(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
    return forest.ends[nodes], forest.bounds(nodes)[1]


def _right_after(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
    begins, limits = _after(forest, nodes)
    following = np.append(forest.leaves, 0)[forest.stops[nodes]]
    return begins, np.where(begins < limits, following + 1, begins)


def _before(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
    # Both orders have the same places for a tree.
    return forest.bounds(nodes)[0], forest.after[0][forest.leaves[forest.starts[nodes]]]


def _right_before(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
    limits, ends = _before(forest, nodes)
    preceding = forest.after[0][forest.leaves[forest.starts[nodes] - 1]]
    return np.where(limits < ends, preceding, ends), ends


def _sister(distance: int) -> Bounds:
    def bounds(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
        begins, ends = _sisters(forest, nodes)
        places = forest.sisters[0][nodes] + distance
        return _one(places, (places >= begins) & (places < ends))

    return bounds


def _sisters(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
    """Return the bounds of all children of the parent."""
    begins = forest.sisters[0][nodes] - forest.ranks[nodes]
    parents = forest.parents[nodes]
    return begins, begins + np.where(parents >= 0, forest.n_children[parents], 1)


def _sisters_after(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
    return forest.sisters[0][nodes] + 1, _sisters(forest, nodes)[1]


def _sisters_before(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
    return _sisters(forest, nodes)[0], forest.sisters[0][nodes]


def _head(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
    places = forest.first_children[nodes] + forest.head_ranks(nodes)
    return _one(places, forest.n_children[nodes] > 0)


def _headed(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
    return _one(forest.parents[nodes], forest.is_head[nodes])


def _heads_below(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
    return forest.heads[0][nodes] + 1, forest.chains[1][nodes]


def _headed_above(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes]:
    return forest.chains[0][nodes], forest.heads[0][nodes]


_PARTS: dict[str, tuple[Part, ...]] = {
    "<": (("sisters", _children),),
    ">": (("before", _parent),),
    "<,": _nth_child(1),
    "<-": _nth_child(-1),
    ">,": _nth_child_of(1),
    ">-": _nth_child_of(-1),
    "<:": (("sisters", _only_child),),
    ">:": (("before", _only_child_of),),
    "<<": (("before", _below),),
    ABOVE: (),
    "<<,": (("before", _below_first),),
    ">>,": (("before", _above_first),),
    "<<-": (("after", _below_last),),
    ">>-": (("after", _above_last),),
    "<<:": (("before", _below_in_chain),),
    ">>:": (("before", _above_in_chain),),
    "..": (("before", _after),),
    ".": (("before", _right_after),),
    ",,": (("after", _before),),
    ",": (("after", _right_before),),
    "$": (("sisters", _sisters_before), ("sisters", _sisters_after)),
    "$+": (("sisters", _sister(1)),),
    "$-": (("sisters", _sister(-1)),),
    "$++": (("sisters", _sisters_after),),
    "$--": (("sisters", _sisters_before),),
    "<#": (("sisters", _head),),
    ">#": (("before", _headed),),
    "<<#": (("heads", _heads_below),),
    ">>#": (("heads", _headed_above),),
}
OPERATORS = (*_PARTS, "<N", "<-N", ">N", ">-N")
