"""Many trees as arrays: their brackets, and their nodes.

All that reads the trees of many sentences begins with `Brackets`. `TreeNodes` numbers their nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Coded, cumulative, ranges
from ..errors import StructlearnError
from ._nodes import build
from .heads import COLLINS, HeadRules
from .tree import Tree

Numbers = NDArray[np.integer]
Order = tuple[Numbers, Numbers]


class Brackets(NamedTuple):
    """Trees as brackets over their words.

    words, tags: of all trees, one tree after another.
    sizes: the number of words of each tree.
    labels, starts, ends: of the brackets, tree by tree in pre-order, in words of all trees, end
        exclusive.
    """

    words: Coded
    tags: Coded
    sizes: Numbers
    labels: Coded
    starts: Numbers
    ends: Numbers

    @classmethod
    def of(cls, trees: Iterable[Tree]) -> Brackets:
        """Return the brackets of trees."""
        words: list[str] = []
        tags: list[str] = []
        sizes: list[int] = []
        labels: list[str] = []
        bounds: list[tuple[int, int]] = []
        for tree in trees:
            first = len(words)
            words += tree.words()
            tags += tree.tags()
            sizes.append(len(words) - first)
            for label, start, end in tree.spans():
                labels.append(label)
                bounds.append((first + start, first + end))
        starts, ends = np.array(bounds, dtype=np.int64).reshape(-1, 2).T
        coded_words, coded_tags, coded_labels = map(Coded.of, (words, tags, labels))
        return cls(coded_words, coded_tags, np.array(sizes, np.int64), coded_labels, starts, ends)

    def trees(self, numbers: Iterable[int] | None = None) -> list[Tree]:
        """Return the trees, or those with these numbers.

        Raises StructlearnError if the brackets of one are not a tree.
        """
        offsets = cumulative(self.sizes)
        bounds = np.stack([offsets, np.searchsorted(self.starts, offsets)], axis=1).tolist()
        words, tags = list(self.words), list(self.tags)
        brackets = list(zip(self.labels, self.starts.tolist(), self.ends.tolist(), strict=True))
        trees: list[Tree] = []
        for number in range(len(self.sizes)) if numbers is None else numbers:
            (begin, first), (end, last) = bounds[number : number + 2]
            spans = [(label, i - begin, j - begin) for label, i, j in brackets[first:last]]
            trees.append(Tree.from_spans(words[begin:end], tags[begin:end], spans))
        return trees

    def rooted(self, root: str) -> Brackets:
        """Return trees with a bracket of this label above each that has none at its top."""
        offsets = cumulative(self.sizes)
        labels = Coded([*self.labels.texts[:-1], root, None], self.labels.codes)
        places = np.searchsorted(self.starts, offsets[:-1])
        is_root = np.array([text == root for text in labels.texts])
        tops = is_root[np.append(labels.codes, -1)[places]]
        starts, ends = (np.append(values, -1)[places] for values in (self.starts, self.ends))
        bare = np.flatnonzero(~tops | (starts != offsets[:-1]) | (ends != offsets[1:]))
        places = places[bare]
        return self._replace(
            labels=Coded(labels.texts, np.insert(labels.codes, places, len(labels.texts) - 2)),
            starts=np.insert(self.starts, places, offsets[bare]),
            ends=np.insert(self.ends, places, offsets[bare + 1]),
        )


class TreeNodes:
    """The nodes of trees by their number in pre-order, one tree after another.

    A word is a leaf, which may have a node for its tag above it.

    parents (-1 for a root), ends (the node after the subtree), depths (0 for a root), ranks (number
        of sisters to the left), n_children, starts and stops (words, end exclusive): int32 (n).
    labels: int (n), numbers in `names`.
    firsts: the first node of each tree, and n. leaves: of each word.
    rules: head rules. has_tags: whether tags are nodes; otherwise they are the labels of words.
    Raises StructlearnError if the brackets of a tree are out of order or cross, or if the first one
    does not cover it.
    """

    def __init__(self, brackets: Brackets, rules: HeadRules = COLLINS, *, has_tags: bool = False):
        self.rules, self.has_tags = rules, has_tags
        offsets = cumulative(brackets.sizes)
        starts, ends = (np.ascontiguousarray(x, np.int32) for x in (brackets.starts, brackets.ends))
        rows, firsts = build(offsets, starts, ends, has_tags)
        if rows is None:
            problem = "several words have no bracket"
            if len(starts):
                first = offsets[np.searchsorted(offsets, starts[firsts], "right") - 1]
                bounds = f"{starts[firsts] - first}, {ends[firsts] - first}"
                bracket = f"({brackets.labels.texts[brackets.labels.codes[firsts]]}, {bounds})"
                problem = f"{bracket} is out of order, empty or crosses another"
            raise StructlearnError("SL109", problem=problem)
        self.n, self.firsts = rows.shape[1], firsts
        self.parents, self.ends, self.depths, self.ranks, self.n_children = rows[:5]
        self.starts, self.stops, origins = rows[5:]
        columns = [brackets.labels, brackets.tags, *[brackets.words] * has_tags]
        # Each label has one number, also if it is a tag or word.
        numbers: dict[str, int] = {}
        codes = [
            np.array([numbers.setdefault(text, len(numbers)) for text in column.texts[:-1]], int)[
                column.codes
            ]
            for column in columns
        ]
        self.names: list[Any] = list(numbers)
        self.labels = np.concatenate(codes).astype(np.int32)[origins]
        self.leaves = np.flatnonzero(self.n_children == 0)

    @cached_property
    def trees(self) -> Numbers:
        """The tree of each node."""
        return np.repeat(np.arange(len(self.firsts) - 1), np.diff(self.firsts))

    @cached_property
    def first_children(self) -> Numbers:
        """The place in `sisters` of the first child of each node."""
        return np.cumsum(self.n_children, dtype=np.int32) - self.n_children

    @cached_property
    def sisters(self) -> Order:
        """An order in which children of the same parent are together."""
        roots = np.flatnonzero(self.parents < 0)
        places = self.first_children[self.parents] + self.ranks
        places[roots] = self.n - len(roots) + np.arange(len(roots))
        return order(places)

    def children_of(self, nodes: Numbers) -> Numbers:
        """Return the children of these nodes, one node after another."""
        return self.sisters[1][ranges(self.first_children[nodes], self.n_children[nodes])]

    def head_ranks(self, nodes: Numbers) -> Numbers:
        """Return the number of sisters to the left of the head child of each node; 0 for a leaf."""
        ranks = np.zeros(len(nodes), dtype=np.int32)
        several = np.flatnonzero(self.n_children[nodes] > 1)
        phrases = nodes[several]
        below = self.children_of(phrases)
        is_word = self.ends[below] == below + 1 + self.has_tags
        ranks[several] = self.rules.head_children(
            self.names, self.labels[phrases], self.n_children[phrases], self.labels[below], is_word
        )
        return ranks


def order(places: ArrayLike) -> Order:
    """Return an order: the place of each node, and the node at each place."""
    places = np.asarray(places)
    nodes = np.empty(len(places), dtype=np.int64)
    nodes[places] = np.arange(len(places))
    return places, nodes
