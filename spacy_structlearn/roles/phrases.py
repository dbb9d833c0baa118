"""The phrases of a tree that can be arguments of a predicate.

1. `RoleTree` numbers the nodes of a tree. An argument is a phrase, a single word, or neither.
2. `candidates` returns the nodes that can be arguments of a predicate (Xue & Palmer 2004,
   "Calibrating features for semantic role labeling", section 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..errors import StructlearnError
from ..trees.heads import COLLINS, HeadRules
from ..trees.tree import Tree
from .propositions import CONTINUATION, ENGLISH, Argument, RoleLabels, base_label


class RoleTree:
    """The nodes of a tree, including words, by their number in pre-order; the root is 0.

    labels, words (None for a phrase), parents (-1 for the root), children, starts, ends (tokens,
        end exclusive), heads (tokens): an entry for each node.
    leaves: the node of each token.
    rules, classes: head rules and labels.
    columns, paths: computed features, see `features`.
    """

    def __init__(self, tree: Tree, rules: HeadRules = COLLINS, labels: RoleLabels = ENGLISH):
        self.tree, self.rules, self.classes = tree, rules, labels
        nodes = list(tree.subtrees())
        n = len(nodes)
        self.labels = [node.label for node in nodes]
        self.words = [node.word for node in nodes]
        self.leaves = [index for index, word in enumerate(self.words) if word is not None]
        self.parents, self.starts, self.ends, self.heads = [-1] * n, [0] * n, [0] * n, [0] * n
        self.children: list[list[int]] = [[]] * n
        position = len(self.leaves)
        above: list[int] = []  # nodes whose parent comes later, the leftmost on top
        for index in range(n - 1, -1, -1):
            node = nodes[index]
            if node.word is not None:
                self.ends[index] = position
                position -= 1
                self.starts[index] = self.heads[index] = position
            else:
                number = len(node.children)
                below = above[: -number - 1 : -1]
                del above[-number:]
                for child in below:
                    self.parents[child] = index
                self.children[index] = below
                self.starts[index], self.ends[index] = self.starts[below[0]], self.ends[below[-1]]
                head = rules.head_child(node) if number > 1 else 0
                self.heads[index] = self.heads[below[head]]
            above.append(index)
        self._nodes: dict[tuple[int, int], int] | None = None
        self._sisters: dict[int, list[int]] = {}
        self.columns: dict[str, list[str | None]] = {}
        self.paths: dict[int, dict[int, str]] = {}

    def __len__(self) -> int:
        return len(self.labels)

    def span(self, node: int) -> tuple[int, int]:
        """Return (start, end) in tokens."""
        return self.starts[node], self.ends[node]

    def node(self, start: int, end: int) -> int | None:
        """Return the highest node over exactly these tokens, or None."""
        if self._nodes is None:
            self._nodes = {}
            for index, span in enumerate(zip(self.starts, self.ends, strict=True)):
                self._nodes.setdefault(span, index)
        return self._nodes.get((start, end))

    def pieces(self, start: int, end: int) -> list[int]:
        """Return the smallest list of highest nodes that cover exactly these tokens, left to right.

        Raises StructlearnError if the span is empty or out of range.
        """
        if not 0 <= start < end <= len(self.leaves):
            raise StructlearnError("SL131", what=f"span ({start}, {end})", n=len(self.leaves))
        found: list[int] = []
        while start < end:
            node = self.leaves[start]
            while (parent := self.parents[node]) >= 0 and (
                self.starts[parent] == start and self.ends[parent] <= end
            ):
                node = parent
            found.append(node)
            start = self.ends[node]
        return found

    def predicate(self, token: int) -> int:
        """Return the node of a token. Raises StructlearnError if there is no such token."""
        if not 0 <= token < len(self.leaves):
            raise StructlearnError("SL131", what=f"token {token}", n=len(self.leaves))
        return self.leaves[token]

    def ancestors(self, node: int) -> Iterator[int]:
        """Yield the nodes above a node, from the nearest to the root."""
        while (node := self.parents[node]) >= 0:
            yield node


def argument_nodes(nodes: RoleTree, arguments: Iterable[Argument]) -> list[tuple[str, int]]:
    """Return the nodes of arguments as (label, node), in the order of the arguments.

    An argument that is not a node is split into pieces, with C- for all but the first one.
    """
    found: list[tuple[str, int]] = []
    for label, start, end in arguments:
        first, *rest = nodes.pieces(start, end)
        later = label if label.startswith(CONTINUATION) else CONTINUATION + label
        found.append((label, first))
        found.extend((later, piece) for piece in rest)
    return found


def gold_roles(
    nodes: RoleTree, arguments: Iterable[Argument], candidates: Sequence[int]
) -> list[str | None]:
    """Return the role of each candidate, without R- and C-, or None.

    arguments: those of one predicate, `Proposition.roles`, possibly annotated in another tree. An
        argument that is not a node is split into pieces.
    """
    roles = {node: base_label(label) for label, node in argument_nodes(nodes, arguments)}
    return [roles.get(node) for node in candidates]


# --- candidates -----------------------------------------------------------------------------------
def candidates(nodes: RoleTree, predicate: int) -> list[int]:
    """Return the nodes that can be arguments of a predicate, a token, in ascending order.

    They are the sisters of the predicate and of each node above it, and the children of sisters
    that are prepositional phrases. Punctuation is left out, and so are conjunctions with the
    sisters that they coordinate (Xue & Palmer 2004). Raises StructlearnError if there is no such
    token.
    """
    found: list[int] = []
    for node in sisters(nodes, predicate):
        found.append(node)
        below = nodes.children[node]
        if len(below) > 1 and nodes.labels[node] in nodes.classes.preposition_phrases:
            found.extend(
                child
                for child in below
                if nodes.words[child] is None or nodes.labels[child] not in nodes.rules.punctuation
            )
    return sorted(found)


def sisters(nodes: RoleTree, predicate: int) -> list[int]:
    """Return the sisters on the path from the predicate to the root, nearest level first, without
    punctuation and coordination.
    """
    found = nodes._sisters.get(predicate)
    if found is not None:
        return found
    found = []
    below = nodes.predicate(predicate)
    punctuation = nodes.rules.punctuation
    for parent in nodes.ancestors(below):
        sisters = [child for child in nodes.children[parent] if child != below]
        if sisters:
            names = [nodes.labels[child] for child in sisters]
            own = collapsed(nodes, nodes.labels[below])
            same = [collapsed(nodes, name) == own for name in names]
            coordinated = any(same) and not nodes.classes.conjunctions.isdisjoint(names)
            found.extend(
                child
                for child, name, alike in zip(sisters, names, same, strict=True)
                if not (coordinated and (alike or name in nodes.classes.conjunctions))
                and (name not in punctuation or nodes.words[child] is None)
            )
        below = parent
    nodes._sisters[predicate] = found
    return found


def collapsed(nodes: RoleTree, label: str) -> str:
    """Return the label, or the common label of all tags of verbs."""
    return nodes.classes.verb if label in nodes.classes.verbs else label
