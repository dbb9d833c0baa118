"""Labels of treebanks, as the rules of this room name them."""

from __future__ import annotations


def labels_of(text: str) -> frozenset[str]:
    """The labels in a text, between white space."""
    return frozenset(text.split())


VERBS = labels_of("VB VBD VBG VBN VBP VBZ AUX AUXG")
"""Tags of verbs in the Penn Treebank, and of auxiliaries where a treebank has such tags."""
