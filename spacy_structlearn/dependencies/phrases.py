"""The phrases of trees as arrays, and the gold arcs between their heads.

A phrase here is a node with all unary nodes above and below it. It has a `top` label, seen from its
parent, and a `low` label, seen from its children. A word is a phrase without children. In a phrase,
one child is the head child, and every other child depends on one of its sisters: the head word of
the child on the head word of the sister. So a dependency tree follows from a tree by two choices.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..arrays import cumulative, followed, ranges
from ..trees.heads import COLLINS, HeadRules
from ..trees.nodes import Brackets, Numbers, TreeNodes

WINDOW = 4
"""A child may depend on sisters up to this distance, and on the head child."""


class PhraseTrees:
    """The phrases of trees by their number in pre-order, one tree after another.

    parents: -1 for a root. starts, stops: in words of all trees, end exclusive. sizes, ranks: the
    number of children, and of sisters to the left. tops, lows, tags: labels, numbers in `names`;
    the tag of a phrase with children is -1. rule_heads: the head word of each phrase by head rules.
    children: all phrases that are no root, the children of one phrase after another. firsts: the
    place in `children` of the first child of each phrase. words, word_tags: of each word.
    leaves: the phrase of each word. roots: of each tree.
    """

    window = WINDOW

    def __init__(self, brackets: Brackets, rules: HeadRules = COLLINS):
        nodes = TreeNodes(brackets, rules)
        every, single = np.arange(nodes.n), nodes.n_children == 1
        below = followed(np.where(single, every + 1, every))
        is_top = (nodes.parents < 0) | (np.append(nodes.n_children, 0)[nodes.parents] != 1)
        kept = np.flatnonzero(is_top)
        numbers = np.cumsum(is_top) - 1
        low = below[kept]
        self.names = [*nodes.names, None]
        self.n = len(kept)
        self.words, self.word_tags = brackets.words, brackets.tags
        above = nodes.parents[kept]
        self.parents = np.where(above >= 0, numbers[_tops(nodes, kept)], -1)
        self.starts, self.stops = nodes.starts[kept], nodes.stops[kept]
        self.sizes, self.ranks = nodes.n_children[low], nodes.ranks[kept]
        self.roots = np.flatnonzero(self.parents < 0)
        # The root has no label of its own unless it has several children.
        labelled = np.where((above < 0) & single[kept], kept + 1, kept)
        self.tops = nodes.labels[labelled]
        is_leaf = self.sizes == 0
        self.tags = np.where(is_leaf, nodes.labels[low], -1)
        self.lows = nodes.labels[np.where(is_leaf & (labelled < low), low - 1, low)]
        heads = np.minimum(nodes.first_children + nodes.head_ranks(every), max(nodes.n - 1, 0))
        links = np.where(nodes.n_children > 0, nodes.sisters[1][heads], every)
        self.rule_heads = nodes.starts[followed(links)][kept]
        self.children = np.flatnonzero(self.parents >= 0)
        self.children = self.children[np.argsort(self.parents[self.children], kind="stable")]
        self.firsts = cumulative(self.sizes)[:-1]
        self.leaves = np.flatnonzero(is_leaf)
        self.tree_ids = np.searchsorted(self.roots, np.arange(self.n), "right") - 1

    @cached_property
    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The (child, sister) that may be dependent and head, if each were not the head child, as
        places in `children`."""
        kids = self.children
        parents = self.parents[kids]
        first, size, rank = self.firsts[parents], self.sizes[parents], self.ranks[kids]
        begin = np.maximum(rank - WINDOW, 0)
        counts = np.minimum(rank + WINDOW + 1, size) - begin
        places = np.repeat(np.arange(len(kids)), counts)
        sisters = ranges(first + begin, counts)
        other = places != sisters
        return places[other], sisters[other]

    def heads(self, head_children: Numbers) -> NDArray[np.int64]:
        """Return the head word of each phrase. head_children: of each phrase with children, its
        head child."""
        links = np.arange(self.n)
        links[self.sizes > 0] = head_children
        return self.starts[followed(links)].astype(np.int64)


def _tops(nodes: TreeNodes, kept: Numbers) -> Numbers:
    """Return the topmost node of the chain that is the parent of each node, 0 for a root."""
    every = np.arange(nodes.n)
    single = np.append(nodes.n_children, 0)[nodes.parents] == 1
    up = followed(np.where((nodes.parents >= 0) & single, nodes.parents, every))
    return up[np.maximum(nodes.parents[kept], 0)]


def gold_heads(phrases: PhraseTrees, heads: Numbers) -> NDArray[np.int64]:
    """Return the head word of each phrase in a dependency tree, -1 where there is none.

    heads: of each word, in words of all trees; a root is its own head, -1 is unknown. The head of a
    phrase is its only word whose head is outside. Phrases with several such words, as wrong trees
    have, are no phrases of the dependency tree, and nothing is learned from them.
    """
    counts, found = np.zeros(phrases.n, dtype=np.int64), np.full(phrases.n, -1)
    own = np.flatnonzero(heads >= 0)
    places = phrases.leaves[own]
    while len(own):
        inside = (heads[own] >= phrases.starts[places]) & (heads[own] < phrases.stops[places])
        # The head of a word that is inside a phrase is inside of all above.
        out = ~inside | (heads[own] == own)
        np.add.at(counts, places[out], 1)
        found[places[out]] = own[out]
        places = phrases.parents[places]
        further = (places >= 0) & out
        places, own = places[further], own[further]
    return np.where(counts == 1, found, -1)
