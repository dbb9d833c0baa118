"""The standard normalisation of treebank trees before parsing and bracket scoring (Collins 1999,
and every parser of the Penn Treebank since): traces and the nodes they leave empty are removed,
function tags and indices stripped from the labels of phrases, unary repetitions (X over X)
collapsed, and the outermost bracket named the same in every tree.
"""

from __future__ import annotations

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


def normalize(
    tree: Tree,
    *,
    strip_functions: bool = True,
    remove_empty: bool = True,
    collapse_unary_repeats: bool = True,
    root: str | None = "TOP",
    empty_tag: str = EMPTY_TAG,
    separators: str = "-=",
    outer_labels: frozenset[str] = OUTER_LABELS,
) -> Tree | None:
    """Return the tree in standard form, or None if nothing is left of it.

    strip_functions: cut labels of phrases at the first of `separators` (`strip_function`).
    remove_empty: drop leaves with the tag `empty_tag`, and phrases without other leaves.
    collapse_unary_repeats: replace a phrase by its only child if they have the same label.
    root: the label of the outermost bracket. A bracket with one of `outer_labels` is renamed, and a
        tree without such a bracket gets one. None: keep the top of the tree.
    """

    def leaf(node: Tree) -> Tree | None:
        return None if remove_empty and node.label == empty_tag else node

    def phrase(node: Tree, children: list[Tree | None]) -> Tree | None:
        kept = [child for child in children if child is not None]
        if not kept:
            return None
        label = strip_function(node.label, separators) if strip_functions else node.label
        if root is not None and node is tree and label in outer_labels:
            label = root
        return _phrase(label, kept, collapse_unary_repeats)

    normal = tree.fold(leaf, phrase)
    if normal is None or root is None or (normal.label == root and not normal.is_leaf):
        return normal
    return Tree(root, [normal])


def _phrase(label: str, children: list[Tree], collapse: bool) -> Tree:
    if collapse and len(children) == 1:
        only = children[0]
        if not only.is_leaf and only.label == label:
            return only
    return Tree(label, children)
