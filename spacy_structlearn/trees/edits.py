"""Edits of trees, as Tsurgeon names them (Levy & Andrew 2006): each returns another tree.

A node is given by its path, the numbers of the children from the root to it: () is the root, (0, 1)
the second child of its first child. `path_of` finds the path of a bracket, such as a matcher gives.
Edits change the paths behind them, so make the last one of a tree first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..errors import StructlearnError
from .tree import Tree, placed_nodes

Path = Sequence[int]
Nodes = list[Tree]


def path_of(tree: Tree, label: str, start: int, end: int) -> tuple[int, ...]:
    """Return the path of the topmost node with this label over the words [start, end).

    Raises StructlearnError if no node has this place.
    """
    for node in placed_nodes(tree):
        if node.bracket == (label, start, end):
            path = []
            while node.parent is not None:
                path.append(node.rank)
                node = node.parent
            return tuple(reversed(path))
    raise StructlearnError("SL144", node=f"{label} over [{start}, {end})")


def relabel(tree: Tree, path: Path, label: str) -> Tree:
    """Return the tree with another label of a phrase or tag."""
    return _with(tree, path, lambda node: [Tree(label, node.children, node.word)])


def delete(tree: Tree, path: Path) -> Tree:
    """Return the tree without a node and all below it, and without phrases that become empty."""
    return _with(tree, path, lambda node: [])


def excise(tree: Tree, path: Path) -> Tree:
    """Return the tree with the children of a phrase in its place."""
    return _with(tree, path, lambda node: [*node.children] or [node])


def insert(tree: Tree, path: Path, new: Tree) -> Tree:
    """Return the tree with a new node at this path; the sisters from there on move on."""
    *above, place = path

    def inserted(node: Tree) -> Nodes:
        children = list(node.children)
        if node.is_leaf or not 0 <= place <= len(children):
            raise StructlearnError("SL144", node=tuple(path))
        return [Tree(node.label, [*children[:place], new, *children[place:]])]

    return _with(tree, above, inserted)


def adjoin(tree: Tree, path: Path, label: str, stop: int | None = None) -> Tree:
    """Return the tree with a new phrase over a node and its sisters up to the child number `stop`.

    None: over the node alone.
    """
    *above, first = path

    def over(node: Tree) -> Nodes:
        end = first + 1 if stop is None else stop
        children = list(node.children)
        if not 0 <= first < end <= len(children):
            raise StructlearnError("SL144", node=tuple(path))
        own = Tree(label, children[first:end])
        return [Tree(node.label, [*children[:first], own, *children[end:]])]

    return _with(tree, above, over)


def move(tree: Tree, path: Path, to: Path) -> Tree:
    """Return the tree with a node in another place, which is that of `insert` in the given tree.

    Raises StructlearnError if the place is the node itself or below it, or if words change their
    order: a move is an attachment elsewhere.
    """
    node = node_at(tree, path)
    if tuple(to[: len(path)]) == tuple(path):
        raise StructlearnError("SL144", node=tuple(to))
    marked = _with(tree, path, lambda _: [_GONE])
    moved = _without(insert(marked, to, node))
    if moved.words() != tree.words():
        raise StructlearnError("SL144", node=tuple(to))
    return moved


def node_at(tree: Tree, path: Path) -> Tree:
    """Return the node with this path. Raises StructlearnError if the tree has no such path."""
    for number in path:
        if not 0 <= number < len(tree.children):
            raise StructlearnError("SL144", node=tuple(path))
        tree = tree.children[number]
    return tree


_GONE = Tree("", word="")


def _with(tree: Tree, path: Path, edit: Callable[[Tree], Nodes]) -> Tree:
    """Replace a node by others; phrases that become empty go, too."""
    above = [node_at(tree, path[:depth]) for depth in range(len(path) + 1)]
    nodes = edit(above.pop())
    for number, parent in zip(reversed(path), reversed(above), strict=True):
        children = [*parent.children[:number], *nodes, *parent.children[number + 1 :]]
        nodes = [Tree(parent.label, children)] if children else []
    if len(nodes) != 1:
        raise StructlearnError("SL144", node="the root, which must stay one node")
    return nodes[0]


def _without(tree: Tree) -> Tree:
    """Remove the place that a moved node has left."""

    def phrase(node: Tree, children: list[Nodes]) -> Nodes:
        left = [child for nodes in children for child in nodes]
        return [Tree(node.label, left)] if left else []

    return tree.fold(lambda leaf: [] if leaf is _GONE else [leaf], phrase)[0]
