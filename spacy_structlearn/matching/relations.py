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
| A $+ B, A $- B | the same, and B is the next child after A; before A. Also A $. B, A $, B |
| A $++ B, A $-- B | the same, and B is anywhere after A; before A. Also A $.. B, A $,, B |
| A <# B, A ># B | B is the head child of A; A is the head child of B |
| A <<# B, A >># B | a chain of head children leads from A to B; from B to A |
| A == B | A and B are the same node |
| A <= B, A >= B | the same, or A is the parent of B; or B is the parent of A |
| A : B | A and B are nodes of the same tree, and may be the same |

A tag is above its word, which is its only child and its head child. No relation crosses trees.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from .forest import Forest, Nodes

Interval = tuple[Nodes, Nodes]
# The name of an order, and the places in it of the first B and after the last B.
Part = tuple[str, Callable[[Forest, Nodes], Interval]]
ABOVE = ">>"
SAME_LABEL = "~"  # only between two nodes of a pattern

_NUMBERED = re.compile(r"([<>])(-?)([1-9]\d{0,8})")
OPERATOR = re.compile(
    r"<<[,:#`-]?|>>[,:#`-]?|[<>](?:-?[1-9]\d*|[,:#=`-])?|==|\.\.?|,,?|\$(?:\+\+?|--?|\.\.?|,,?)?",
    re.ASCII,
)


@cache
def parts(operator: str) -> tuple[Part, ...] | None:
    """Return the parts of a relation; empty for `>>`. None if there is no such operator."""
    if numbered := _NUMBERED.fullmatch(operator):
        side, sign, number = numbered.groups()
        return ((_nth_child if side == "<" else _nth_child_of)(int(sign + number)),)
    if operator[:1] == "$":
        operator = operator.replace(".", "+").replace(",", "-")
    operator = operator.replace("`", "-")  # Tregex has both for the last child
    if operator in _SEVERAL:
        return tuple(_PARTS[part] for part in _SEVERAL[operator])
    if operator == ABOVE:
        return ()
    return (_PARTS[operator],) if operator in _PARTS else None


def _one(places: Nodes, where: NDArray[np.bool_]) -> Interval:
    """Return the bounds of one place, or of none."""
    begins = np.where(where, places, 0)
    return begins, begins + where


def _nth_child(number: int) -> Part:
    def bounds(forest: Forest, nodes: Nodes) -> Interval:
        sizes = forest.n_children[nodes]
        rank = number - 1 if number > 0 else sizes + number
        return _one(forest.first_children[nodes] + rank, abs(number) <= sizes)

    return "sisters", bounds


def _nth_child_of(number: int) -> Part:
    def bounds(forest: Forest, nodes: Nodes) -> Interval:
        parents = forest.parents[nodes]
        rank = number - 1 if number > 0 else forest.n_children[parents] + number
        return _one(parents, (parents >= 0) & (forest.ranks[nodes] == rank))

    return "before", bounds


def _right_after(forest: Forest, nodes: Nodes) -> Interval:
    begins, limits = forest.ends[nodes], forest.firsts[forest.trees[nodes] + 1]
    following = np.append(forest.leaves, 0)[forest.stops[nodes]]
    return begins, np.where(begins < limits, following + 1, begins)


def _before(forest: Forest, nodes: Nodes) -> Interval:
    # Both orders have the same places for a tree.
    first = forest.firsts[forest.trees[nodes]]
    return first, forest.after[0][forest.leaves[forest.starts[nodes]]]


def _right_before(forest: Forest, nodes: Nodes) -> Interval:
    limits, ends = _before(forest, nodes)
    preceding = forest.after[0][forest.leaves[forest.starts[nodes] - 1]]
    return np.where(limits < ends, preceding, ends), ends


def _sisters(forest: Forest, nodes: Nodes) -> tuple[Nodes, Nodes, Nodes]:
    """Return the places of nodes, and the bounds of all children of their parents."""
    places, parents = forest.sisters[0][nodes], forest.parents[nodes]
    begins = places - forest.ranks[nodes]
    return places, begins, begins + np.where(parents >= 0, forest.n_children[parents], 1)


def _sister(distance: int) -> Part:
    def bounds(forest: Forest, nodes: Nodes) -> Interval:
        places, begins, ends = _sisters(forest, nodes)
        wanted = places + distance
        return _one(wanted, (wanted >= begins) & (wanted < ends))

    return "sisters", bounds


# f: the forest. a: the nodes A. In pre-order, nodes that begin with the same word come between two
# leaves, and so do those that end with the same word in post-order.
_PARTS: dict[str, Part] = {
    "<": ("sisters", lambda f, a: (f.first_children[a], f.first_children[a] + f.n_children[a])),
    ">": ("before", lambda f, a: _one(f.parents[a], f.parents[a] >= 0)),
    "<,": _nth_child(1),
    "<-": _nth_child(-1),
    ">,": _nth_child_of(1),
    ">-": _nth_child_of(-1),
    "<:": ("sisters", lambda f, a: _one(f.first_children[a], f.n_children[a] == 1)),
    # -1 is the last node, a word.
    ">:": ("before", lambda f, a: _one(f.parents[a], f.n_children[f.parents[a]] == 1)),
    "<<": ("before", lambda f, a: (a + 1, f.ends[a])),
    "<<,": ("before", lambda f, a: (a + 1, f.leaves[f.starts[a]] + 1)),
    ">>,": ("before", lambda f, a: (np.append(-1, f.leaves)[f.starts[a]] + 1, a)),
    "<<-": ("after", lambda f, a: (f.after[0][f.leaves[f.stops[a] - 1]], f.after[0][a])),
    ">>-": (
        "after",
        lambda f, a: (f.after[0][a] + 1, np.append(f.after[0][f.leaves], f.n)[f.stops[a]]),
    ),
    "<<:": ("before", lambda f, a: (a + 1, f.unary_chains[1][a])),
    ">>:": ("before", lambda f, a: (f.unary_chains[0][a], a)),
    "==": ("before", lambda f, a: (a, a + 1)),
    ":": ("before", lambda f, a: (f.firsts[f.trees[a]], f.firsts[f.trees[a] + 1])),
    "..": ("before", lambda f, a: (f.ends[a], f.firsts[f.trees[a] + 1])),
    ".": ("before", _right_after),
    ",,": ("after", _before),
    ",": ("after", _right_before),
    "$+": _sister(1),
    "$-": _sister(-1),
    "$++": ("sisters", lambda f, a: (f.sisters[0][a] + 1, _sisters(f, a)[2])),
    "$--": ("sisters", lambda f, a: (_sisters(f, a)[1], f.sisters[0][a])),
    "<#": (
        "sisters",
        lambda f, a: _one(f.first_children[a] + f.head_ranks(a), f.n_children[a] > 0),
    ),
    ">#": ("before", lambda f, a: _one(f.parents[a], f.is_head[a])),
    "<<#": ("heads", lambda f, a: (f.heads[0][a] + 1, f.head_chains[1][a])),
    ">>#": ("heads", lambda f, a: (f.head_chains[0][a], f.heads[0][a])),
}
_SEVERAL = {"$": ("$--", "$++"), "<=": ("==", "<"), ">=": ("==", ">")}
OPERATORS = (*_PARTS, ABOVE, *_SEVERAL, "<N", "<-N", ">N", ">-N", "$.", "$,", "$..", "$,,")


def related(forest: Forest, operator: str, a: Nodes, b: Nodes) -> NDArray[np.bool_]:
    """Return whether each node of `a` is in a relation with the node of `b` at its place."""
    if operator == SAME_LABEL:
        return forest.labels[a] == forest.labels[b]
    if operator == ABOVE:
        return related(forest, "<<", b, a)
    found = np.zeros(len(a), dtype=bool)
    for name, bounds in parts(operator) or ():
        places = getattr(forest, name)[0][b]
        begins, ends = bounds(forest, a)
        found |= (begins <= places) & (places < ends)
    return found
