"""The phrases of trees that can be arguments of predicates.

1. `RoleTrees` numbers the nodes of many trees, because arrays of many nodes take little more time
   than those of few. An argument is a phrase, a single word, or neither.
2. `candidates` returns the nodes that can be arguments of predicates (Xue & Palmer 2004,
   "Calibrating features for semantic role labeling", section 4).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Coded, cumulative, followed
from ..errors import StructlearnError
from ..trees.heads import COLLINS, HeadRules
from ..trees.nodes import Brackets, TreeNodes
from ..words.signatures import shape_signature
from .propositions import ENGLISH, Argument, RoleLabels, base_label

Nodes = NDArray[np.integer]
"""Numbers of nodes, or of tokens; -1 for none."""
ClassesOf: TypeAlias = Callable[[Sequence[str]], NDArray[np.uint64]]
"""Maps words to their classes as `WordClasses.column` does, 0 for none."""


class RoleTrees(TreeNodes):
    """The nodes of trees, with what features of arguments read. Words have their tags as labels.

    The arrays of nodes have a last entry for -1, which stands for no node.
    heads: the head of each node, a token; see `HeadRules.head_child`.
    words, tags: of each token, in columns that end with None. tree_ids: the number of its tree.
        Tokens are those of all trees.
    left, right: the sister next to each node, -1 for none.
    classes: labels of the treebank. classes_of: the classes of words, or None.
    """

    def __init__(
        self,
        brackets: Brackets,
        rules: HeadRules = COLLINS,
        classes: RoleLabels = ENGLISH,
        classes_of: ClassesOf | None = None,
    ):
        super().__init__(brackets, rules)
        self.classes, self.classes_of = classes, classes_of
        self.words = Coded(brackets.words.texts, _padded(brackets.words.codes))
        self.tree_ids = np.repeat(np.arange(len(brackets.sizes)), brackets.sizes)
        self.names = [*self.names, None]
        self.tags = Coded(self.names, _padded(self.labels[self.leaves]))
        every, (places, nodes) = np.arange(self.n), self.sisters
        heads = np.minimum(self.first_children + self.head_ranks(every), self.n - 1)
        links = np.where(self.n_children > 0, nodes[heads], every)
        last = self.ranks + 1 == np.append(self.n_children, 1)[self.parents]
        self.left = _padded(np.where(self.ranks > 0, nodes[places - 1], -1))
        self.right = _padded(np.where(last, -1, nodes[(places + 1) % max(self.n, 1)]))
        self.heads = _padded(self.starts[followed(links)])
        self.labels, self.parents, self.depths, self.starts, self.stops = map(
            _padded, (self.labels, self.parents, self.depths, self.starts, self.stops)
        )
        self.n_children = _padded(self.n_children, 0)

    def __len__(self) -> int:
        return self.n

    def label(self, node: int) -> str:
        """Return the label of a node."""
        return self.names[self.labels[node]]

    def is_one_of(self, nodes: Nodes, labels: Collection[str]) -> NDArray[np.bool_]:
        """Return whether each node has one of the labels."""
        wanted = np.array([name in labels for name in self.names])
        return wanted[self.labels[nodes]]

    @cached_property
    def lower(self) -> Coded:
        """The word of each token in lower case."""
        return self.words.map(str.lower)

    @cached_property
    def forms(self) -> Coded:
        """The shape and the ending of the word of each token."""
        return self.words.map(_form)

    @cached_property
    def word_classes(self) -> Coded:
        """The class of the word of each token: 1, then the turns to it; None if it has none."""
        words = self.words.texts[:-1]  # without None
        if self.classes_of is None or not words:
            return Coded([None], np.full(len(self.words), -1))
        texts = [f"{path:b}" if path else None for path in self.classes_of(words).tolist()]
        column = Coded.of([*texts, None])
        return column.at(self.words.codes)

    @cached_property
    def collapsed(self) -> Coded:
        """The label of each node, or the common label of all tags of verbs."""
        classes = self.classes
        names = [classes.verb if name in classes.verbs else name for name in self.names]
        common = Coded.of(names)
        return Coded(common.texts, common.codes[self.labels])

    @cached_property
    def contents(self) -> Nodes:
        """The token that carries the content of each node.

        It is that of the last phrase in a prepositional or subordinate phrase, that of the verb
        phrase in a clause or verb phrase, and the head otherwise.
        """
        classes = self.classes
        every = np.arange(len(self))
        subordinate, verbal = (
            self.is_one_of(every, labels)
            for labels in (classes.subordinate, classes.clauses | classes.verb_phrases)
        )
        children = np.flatnonzero(self.parents[:-1] >= 0)
        parents = self.parents[children]
        is_head = self.heads[children] == self.heads[parents]
        last_phrase = subordinate[parents] & (self.n_children[children] > 0)
        first_verb = (~subordinate & verbal)[parents]
        first_verb &= self.is_one_of(children, classes.verb_phrases)
        other = ~(subordinate | verbal)[parents] & is_head
        # Without any such child the content is the head.
        links = self.leaves[self.heads[:-1]]
        links[parents[other]] = children[other]
        links[parents[last_phrase]] = children[last_phrase]  # numpy keeps the last of several
        links[parents[first_verb][::-1]] = children[first_verb][::-1]
        return self.starts[followed(links)]

    @cached_property
    def _nodes(self) -> dict[tuple[int, int], int]:
        spans = list(zip(self.starts.tolist(), self.stops.tolist(), strict=True))
        # The highest node comes first in pre-order.
        return {spans[node]: node for node in reversed(range(self.n))}

    def node(self, start: int, end: int) -> int | None:
        """Return the highest node over exactly these tokens, or None."""
        return self._nodes.get((start, end))

    def predicates(self, tokens: ArrayLike) -> Nodes:
        """Return the nodes of tokens. Raises StructlearnError if there is no such token."""
        tokens = np.asarray(tokens, dtype=np.intp)
        for token in tokens[(tokens < 0) | (tokens >= len(self.leaves))].tolist():
            raise StructlearnError("SL131", token=token, n=len(self.leaves))
        return self.leaves[tokens]


@lru_cache(maxsize=16384)
def _form(word: str) -> str:
    return shape_signature(word, False, ())[0]


def _padded(values: NDArray[np.integer], last: int = -1) -> NDArray[np.intp]:
    return np.append(values.astype(np.intp), last)


def gold_roles(
    nodes: RoleTrees, arguments: Iterable[Argument], candidates: Iterable[int]
) -> list[str | None]:
    """Return the role of each candidate, without R- and C-, or None.

    arguments: those of one predicate, `Proposition.roles`, possibly annotated in another tree. An
        argument that is not a node is left out: the parts of it are no arguments.
    """
    roles = {nodes.node(start, end): base_label(label) for label, start, end in arguments}
    return [roles.get(node) for node in candidates]


# --- candidates -----------------------------------------------------------------------------------
class ArgumentNodes(NamedTuple):
    """Predicates with nodes that may be their arguments.

    predicates: (n) tokens. sizes: (n) the number of nodes of each. nodes: those of all predicates,
        one predicate after another.
    """

    predicates: Nodes
    sizes: Nodes
    nodes: Nodes

    @classmethod
    def of(cls, sites: Iterable[tuple[int, Sequence[int]]]) -> ArgumentNodes:
        """Return the sites of (predicate, nodes) pairs."""
        sites = list(sites)
        return cls(
            np.array([predicate for predicate, _ in sites], dtype=np.intp),
            np.array([len(nodes) for _, nodes in sites], dtype=np.intp),
            np.array([node for _, nodes in sites for node in nodes], dtype=np.intp),
        )

    @property
    def owners(self) -> NDArray[np.intp]:
        """The number of the site of each node."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def at(self, rows: NDArray[np.intp]) -> ArgumentNodes:
        """Return the same predicates with some of the nodes."""
        sizes = np.bincount(self.owners[rows], minlength=len(self.sizes))
        return ArgumentNodes(self.predicates, sizes, self.nodes[rows])

    def split(self) -> list[list[int]]:
        """Return the nodes of each predicate."""
        ends = cumulative(self.sizes).tolist()
        nodes = self.nodes.tolist()
        return [nodes[begin:end] for begin, end in pairwise(ends)]

    def parts(self, n: int) -> Iterator[ArgumentNodes]:
        """Yield parts of about n nodes, whole sites."""
        ends = cumulative(self.sizes)
        begins = np.flatnonzero(np.diff(ends[1:] // n, prepend=-1)).tolist()
        for begin, end in pairwise([*begins, len(self.sizes)]):
            nodes = self.nodes[ends[begin] : ends[end]]
            yield ArgumentNodes(self.predicates[begin:end], self.sizes[begin:end], nodes)


def candidates(nodes: RoleTrees, predicates: ArrayLike) -> ArgumentNodes:
    """Return the nodes that can be arguments of predicates, tokens, in ascending order.

    They are the sisters of the predicate and of each node above it, and the children of sisters
    that are prepositional phrases. Punctuation is left out, and so are conjunctions with the
    sisters that they coordinate (Xue & Palmer 2004).

    The phrases and the head that are children of a noun phrase after the predicate are candidates
    too: a parser often attaches a prepositional phrase too low, and the noun of a light verb is an
    argument of it: "bath" in "take a bath".
    Raises StructlearnError if there is no such token.
    """
    near = sisters(nodes, predicates)
    several = nodes.n_children[near.nodes] > 1
    wide = several & nodes.is_one_of(near.nodes, nodes.classes.preposition_phrases)
    nominal = several & nodes.is_one_of(near.nodes, nodes.classes.noun_phrases)
    nominal &= nodes.starts[near.nodes] > near.predicates[near.owners]
    below, owners = _children(nodes, near, nominal)
    heads = nodes.leaves[nodes.heads[nodes.parents[below]]]
    fits = (nodes.n_children[below] > 0) | (below == heads)
    parts = (near.nodes, near.owners), _children(nodes, near, wide), (below[fits], owners[fits])
    every, owners = map(np.concatenate, zip(*parts, strict=True))
    order = np.argsort(owners * len(nodes) + every)
    sizes = np.bincount(owners, minlength=len(near.sizes))
    return ArgumentNodes(near.predicates, sizes, every[order])


def _children(
    nodes: RoleTrees, sites: ArgumentNodes, wanted: NDArray[np.bool_]
) -> tuple[Nodes, Nodes]:
    """Return the children of the wanted nodes without punctuation, and the site of each."""
    parents = sites.nodes[wanted]
    below = nodes.children_of(parents)
    owners = np.repeat(sites.owners[wanted], nodes.n_children[parents])
    rest = ~_is_punctuation(nodes, below)
    return below[rest], owners[rest]


def sisters(nodes: RoleTrees, predicates: ArrayLike) -> ArgumentNodes:
    """Return the sisters on the path from each predicate to the root, nearest level first, without
    punctuation and coordination.
    """
    predicates = np.asarray(predicates, dtype=np.intp)
    node = nodes.predicates(predicates)
    # The path of each predicate, up to the node below the root.
    sizes = nodes.depths[node]
    path = np.empty(sizes.sum(), dtype=np.intp)
    places = cumulative(sizes)[:-1]
    while len(node):
        inside = nodes.parents[node] >= 0
        node, places = node[inside], places[inside]
        path[places] = node
        node, places = nodes.parents[node], places + 1
    # A level for each node on the path.
    levels = np.repeat(np.arange(len(path)), nodes.n_children[nodes.parents[path]])
    below = nodes.children_of(nodes.parents[path])
    levels, below = (values[below != path[levels]] for values in (levels, below))
    labels = nodes.collapsed.codes
    alike = labels[below] == labels[path[levels]]
    joining = nodes.is_one_of(below, nodes.classes.conjunctions)
    has_alike, has_joining = (np.zeros(len(path), dtype=bool) for _ in range(2))
    has_alike[levels[alike]] = True
    has_joining[levels[joining]] = True
    coordinated = (has_alike & has_joining)[levels] & (alike | joining)
    chosen = ~coordinated & ~_is_punctuation(nodes, below)
    owners = np.repeat(np.arange(len(sizes)), sizes)[levels[chosen]]
    return ArgumentNodes(predicates, np.bincount(owners, minlength=len(sizes)), below[chosen])


def _is_punctuation(nodes: RoleTrees, numbers: Nodes) -> NDArray[np.bool_]:
    is_word = nodes.n_children[numbers] == 0
    return is_word & nodes.is_one_of(numbers, nodes.rules.punctuation)
