"""Sets of treebank labels for rules about trees."""

from __future__ import annotations


def labels_of(text: str) -> frozenset[str]:
    """Return the labels in a text, separated by white space."""
    return frozenset(text.split())


VERBS = labels_of("VB VBD VBG VBN VBP VBZ AUX AUXG")
"""Penn Treebank tags of verbs, and the tags of auxiliaries in other treebanks."""
