"""The nodes of one tree with their places, for rules that look at what is around a node."""

from __future__ import annotations

from .tree import Span, Tree


class PlacedNode:
    """A node of a tree with its place.

    parent: None at the top. rank: number of sisters to the left. start, end: in words.
    """

    __slots__ = ("children", "end", "label", "parent", "rank", "start", "tree", "word")

    def __init__(self, tree: Tree, parent: PlacedNode | None, rank: int):
        self.tree, self.label, self.word, self.parent = tree, tree.label, tree.word, parent
        self.rank, self.start, self.end = rank, 0, 0
        self.children: list[PlacedNode] = []

    @property
    def bracket(self) -> Span:
        """The label, start and end."""
        return self.label, self.start, self.end

    def around(self) -> tuple[list[Tree], list[Tree]]:
        """Return the sisters to the left and to the right."""
        sisters = () if self.parent is None else self.parent.tree.children
        return list(sisters[: self.rank]), list(sisters[self.rank + 1 :])


def placed_nodes(tree: Tree) -> list[PlacedNode]:
    """Return the nodes of a tree in pre-order."""
    nodes: list[PlacedNode] = []
    stack = [PlacedNode(tree, None, 0)]
    n_words = 0
    while stack:
        node = stack.pop()
        nodes.append(node)
        node.start = n_words
        if node.word is not None:
            n_words += 1
            node.end = n_words
        else:
            below = enumerate(node.tree.children)
            node.children = [PlacedNode(child, node, rank) for rank, child in below]
            stack += node.children[::-1]
    for node in reversed(nodes):
        if node.children:
            node.end = node.children[-1].end
    return nodes
