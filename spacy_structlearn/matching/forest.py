"""The nodes of many trees as arrays.

The nodes of a tree are those of the Penn Treebank, as Tregex sees them: the root, its phrases, a
tag for each word, and the word below it, which is a leaf. They are numbered in pre-order, one tree
after another.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..arrays import Coded, cumulative, followed, ranges
from ..errors import StructlearnError
from ..trees.heads import COLLINS, HeadRules
from ._forest import build

Nodes = NDArray[np.integer]
Order = tuple[NDArray[np.integer], NDArray[np.integer]]


class Forest:
    """The nodes of trees by their number.

    sizes: the number of words of each tree.
    words, tags: of all trees, one tree after another.
    labels, starts, ends: the brackets tree by tree in pre-order, in words of all trees, end
        exclusive. The first bracket of a tree covers it.
    attributes: returns the values of another attribute of the words by its name.
    rules: head rules.

    parents (-1 for a root), ends (the node after the subtree), depths (0 for a root), ranks (number
        of sisters to the left), n_children, starts and stops (words, end exclusive), labels
        (numbers in `names`): int32 (n).
    firsts: the first node of each tree, and n. leaves: of each word.
    Raises StructlearnError if the brackets of a tree are out of order, or cross.
    """

    def __init__(
        self,
        sizes: NDArray[np.integer],
        words: Coded,
        tags: Coded,
        labels: Coded,
        starts: NDArray[np.integer],
        ends: NDArray[np.integer],
        attributes: Callable[[str], Coded],
        rules: HeadRules = COLLINS,
    ):
        offsets = cumulative(sizes)
        found, firsts = build(
            offsets,
            np.ascontiguousarray(starts, dtype=np.int32),
            np.ascontiguousarray(ends, dtype=np.int32),
        )
        if found is None:
            first = offsets[np.searchsorted(offsets, starts[firsts], "right") - 1]
            place = f"{starts[firsts] - first}, {ends[firsts] - first}"
            bracket = f"({labels.texts[labels.codes[firsts]]}, {place})"
            problem = f"{bracket} is out of order, empty or crosses another"
            raise StructlearnError("SL109", problem=problem)
        self.n, self.firsts = found.shape[1], firsts
        self.parents, self.ends, self.depths, self.ranks, self.n_children = found[:5]
        self.starts, self.stops, origins = found[5:]
        # Each label has one number, also if it is a word.
        numbers = dict(zip(words.texts[:-1], range(len(words.texts)), strict=False))
        codes = [
            np.array(
                [numbers.setdefault(text, len(numbers)) for text in part.texts[:-1]], dtype=int
            )[part.codes]
            for part in (labels, tags)
        ]
        self.names = list(numbers)
        self.labels = np.concatenate([*codes, words.codes]).astype(np.int32)[origins]
        self.leaves = np.flatnonzero(self.n_children == 0)
        self.attributes, self.rules = attributes, rules

    @cached_property
    def trees(self) -> Nodes:
        """The tree of each node."""
        return np.repeat(np.arange(len(self.firsts) - 1), np.diff(self.firsts))

    def bounds(self, nodes: Nodes) -> tuple[Nodes, Nodes]:
        """Return the first node of the tree of each node, and the node after its last one."""
        trees = self.trees[nodes]
        return self.firsts[trees], self.firsts[trees + 1]

    def order(self, name: str) -> Order:
        """Return the place of each node in an order, and the node at each place.

        name: before, after, sisters or heads.
        """
        return getattr(self, name)

    @cached_property
    def before(self) -> Order:
        """Pre-order."""
        own = np.arange(self.n)
        return own, own

    @cached_property
    def after(self) -> Order:
        """Post-order."""
        return _order(self.ends - 1 - self.depths)

    @cached_property
    def sisters(self) -> Order:
        """An order in which children of the same parent are together."""
        roots = np.flatnonzero(self.parents < 0)
        places = self.first_children[self.parents] + self.ranks
        places[roots] = self.n - len(roots) + np.arange(len(roots))
        return _order(places)

    @cached_property
    def first_children(self) -> Nodes:
        """The place in `sisters` of the first child of each node."""
        return np.cumsum(self.n_children, dtype=np.int32) - self.n_children

    @cached_property
    def heads(self) -> Order:
        """An order in which each chain of head children is together."""
        # Links from each head child to its parent end at the top of its chain.
        own = np.arange(self.n)
        tops = followed(np.where(self.is_head, self.parents, own))
        begins = cumulative(np.bincount(tops, minlength=self.n))
        return _order(begins[tops] + self.depths - self.depths[tops])

    @cached_property
    def chains(self) -> tuple[Nodes, Nodes]:
        """The places in `heads` where the chain of each node begins, and where it ends."""
        _, nodes = self.heads
        begins = np.flatnonzero(~self.is_head[nodes])
        own = np.searchsorted(begins, self.heads[0], "right")
        return begins[own - 1], np.append(begins, self.n)[own]

    def head_ranks(self, nodes: Nodes) -> Nodes:
        """Return the number of sisters to the left of the head child of each node; 0 for a leaf."""
        found = np.zeros(len(nodes), dtype=np.int32)
        several = np.flatnonzero(self.n_children[nodes] > 1)
        phrases = nodes[several]
        sizes = self.n_children[phrases]
        below = self.sisters[1][ranges(self.first_children[phrases], sizes)]
        is_word = self.ends[below] == below + 2  # a tag and its word
        found[several] = self.rules.head_children(
            self.names, self.labels[phrases], sizes, self.labels[below], is_word
        )
        return found

    @cached_property
    def is_head(self) -> NDArray[np.bool_]:
        """Whether each node is the head child of its parent; False for a root."""
        heads = self.head_ranks(np.arange(self.n))
        return (self.parents >= 0) & (heads[self.parents] == self.ranks)

    @cached_property
    def chain_ends(self) -> tuple[Nodes, Nodes]:
        """Of the nodes over the same words as each node: the first one, and the one after the last.

        These are a unary chain.
        """
        changed = (np.diff(self.starts) != 0) | (np.diff(self.stops) != 0)
        begins = np.append(0, np.flatnonzero(changed) + 1)[: self.n]
        own = np.searchsorted(begins, np.arange(self.n), "right")
        return begins[own - 1], np.append(begins, self.n)[own]


def _order(places: Nodes) -> Order:
    nodes = np.empty(len(places), dtype=np.int64)
    nodes[places] = np.arange(len(places))
    return places, nodes
