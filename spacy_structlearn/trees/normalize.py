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
    """The label without function tags and indices: NP-SBJ-1 gives NP, S=2 gives S.

    What follows the first of the `separators` is cut, except in labels that begin with one, such
    as -LRB-.
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
    """The tree in standard form, or None if nothing is left of it.

    strip_functions: cut labels of phrases at the first of `separators` (`strip_function`); tags of
    words are kept. remove_empty: drop leaves with the tag `empty_tag` and phrases left without
    leaves. collapse_unary_repeats: a phrase whose only child is a phrase of the same label is
    replaced by that child. root: the label of the outermost bracket: one of `outer_labels`, the
    treebank's empty bracket among them, is renamed; a tree without such a bracket gets one; None
    leaves the top of the tree as it is. Normalising twice changes nothing.
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
