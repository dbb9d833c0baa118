"""Depths of words: Yngve (1960, "A model and an hypothesis for language structure") and Frazier
(1985, "Syntactic complexity"), as scored by Roark, Mitchell & Hollingshead (2007, "Syntactic
complexity measures for detecting mild cognitive impairment").

Punctuation is left out, and so are nodes without any words.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arrays import cumulative
from ..matching.forest import Forest

SENTENCES = frozenset(("S", "SBAR", "SBARQ", "SINV", "SQ"))


def depths_of_words(
    forest: Forest, is_word: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the depths of Yngve and of Frazier of the n words, float (n).

    is_word: for each token. On the path from the root to the word, Yngve's depth is the number of
    sisters to the right of its nodes: what is still to come when the word is said. Frazier's
    follows the path from the word up to the first node that is not the leftmost child. A node that
    has the one before it as leftmost child counts 1, or 1.5 if it is a sentence. The root TOP
    counts 0.
    """
    words = cumulative(is_word)
    places, nodes = forest.sisters
    full = cumulative((words[forest.stops] > words[forest.starts])[nodes])
    parents, inner = forest.parents, forest.parents >= 0
    begins = np.where(inner, forest.first_children[parents], places)
    ends = np.where(inner, begins + forest.n_children[parents], places + 1)
    right = full[ends] - full[places + 1]
    leftmost = inner & (full[places] == full[begins])

    costs = np.array([1.5 if name in SENTENCES else 1.0 for name in forest.names])[forest.labels]
    costs[~inner] = 0
    yngve, frazier = np.zeros(forest.n), np.zeros(forest.n)
    by_depth = np.argsort(forest.depths, kind="stable")
    for level in np.split(by_depth, np.flatnonzero(np.diff(forest.depths[by_depth])) + 1)[1:]:
        above = parents[level]
        yngve[level] = yngve[above] + right[level]
        frazier[level] = leftmost[level] * (frazier[above] + costs[above])
    tags = parents[forest.leaves[is_word]]
    return yngve[tags], frazier[tags]
