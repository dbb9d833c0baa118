"""The standard normalisation of treebank trees before parsing and bracket scoring (Collins 1999).

Traces and phrases without other words are removed, function tags and indices are stripped from the
labels of phrases, unary repetitions (X over X) are collapsed, and the root gets the same label in
every tree.
"""

from __future__ import annotations

from collections.abc import Iterable

from .tree import Tree

EMPTY_TAG = "-NONE-"
OUTER_LABELS = frozenset({"", "TOP", "ROOT", "S1"})


def strip_function(label: str, separators: str = "-=") -> str:
    """Return the label without function tags and indices: NP for NP-SBJ-1, S for S=2.

    The label is cut at the first separator, unless it begins with one, as -LRB- does.
    """
    for position, character in enumerate(label):
        if character in separators:
            return label[:position] if position else label
    return label


def normalize(tree: Tree, *, strip_functions: bool = True, root: str | None = "TOP") -> Tree | None:
    """Return the tree in standard form, or None if nothing is left of it.

    strip_functions: cut the labels of phrases (`strip_function`).
    root: the label of the outermost bracket. A bracket with one of `OUTER_LABELS` is renamed, and a
        tree without such a bracket gets one. None: keep the top of the tree.
    """

    def phrase(node: Tree, children: list[Tree | None]) -> Tree | None:
        kept = [child for child in children if child is not None]
        if not kept:
            return None
        label = strip_function(node.label) if strip_functions else node.label
        if root is not None and node is tree and label in OUTER_LABELS:
            label = root
        if len(kept) == 1 and not kept[0].is_leaf and kept[0].label == label:
            return kept[0]
        return Tree(label, kept)

    normal = tree.fold(lambda leaf: None if leaf.label == EMPTY_TAG else leaf, phrase)
    if normal is None or root is None or (normal.label == root and not normal.is_leaf):
        return normal
    return Tree(root, [normal])


def all_normal(trees: Iterable[Tree]) -> list[Tree]:
    """Return the trees in standard form, those that have one."""
    return [normal for tree in trees if (normal := normalize(tree)) is not None]
