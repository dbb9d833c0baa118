"""All measures of trees. Those of a text are made from sums over its trees, so that sums of texts
can be added to those of a collection.

The depths of words are those of Yngve (1960, "A model and an hypothesis for language structure")
and Frazier (1985, "Syntactic complexity"), as scored by Roark, Mitchell & Hollingshead (2007,
"Syntactic complexity measures for detecting mild cognitive impairment").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arrays import cumulative
from ..matching.forest import Forest
from ..trees.heads import COLLINS
from .complexity import COUNTS, INDICES, PHRASES, counted

_SENTENCES = frozenset(("S", "SBAR", "SBARQ", "SINV", "SQ"))
# Each mean with the sum and the number that it is the ratio of.
_MEANS = {
    **INDICES,
    "yngve_depth": ("yngve", "W"),
    "yngve_depth_max": ("yngve_max", "S"),
    "frazier_depth": ("frazier", "W"),
    "tree_depth": ("depth_max", "S"),
    **{f"{label.lower()}_length": (f"{label}s words", f"{label}s") for label in PHRASES},
    "clause_length": ("C words", "C"),
}
SUMS = tuple(dict.fromkeys([*COUNTS, *(name for pair in _MEANS.values() for name in pair)]))
"""The columns of `totals`."""
MEASURES = (*COUNTS, *_MEANS)
"""The names of all measures."""


def totals(forest: Forest) -> NDArray[np.float64]:
    """Return the SUMS of each tree, float (n_trees, n_sums).

    A word is a token whose tag begins with a letter and is not one of punctuation.
    """
    n_trees, trees, tags = len(forest.firsts) - 1, forest.trees, forest.parents[forest.leaves]
    kept = [name[:1].isalpha() and name not in COLLINS.punctuation for name in forest.names]
    is_word = np.array(kept, dtype=bool)[forest.labels[tags]]
    before = cumulative(is_word)
    lengths = before[forest.stops] - before[forest.starts]
    nodes = counted(forest)
    found: dict[str, NDArray] = {
        name: np.bincount(trees[own], minlength=n_trees) for name, own in nodes.items()
    }
    for name in (*(f"{label}s" for label in PHRASES), "C"):
        found[f"{name} words"] = np.bincount(trees[nodes[name]], lengths[nodes[name]], n_trees)
    words = tags[is_word]
    found["W"] = np.bincount(trees[words], minlength=n_trees)
    depths = {"depth": forest.depths, **_depths_of_words(forest, lengths > 0)}
    for name, values in depths.items():
        found[name] = np.bincount(trees[words], values[words], n_trees)
        found[f"{name}_max"] = np.zeros(n_trees)
        np.maximum.at(found[f"{name}_max"], trees[words], values[words])
    return np.stack([found[name].astype(np.float64) for name in SUMS], axis=1)


def _depths_of_words(forest: Forest, full: NDArray[np.bool_]) -> dict[str, NDArray[np.float64]]:
    """Return the depths of Yngve and of Frazier of each node, float (n); of use are those of tags.

    On the path from the root to a word, Yngve's is the number of sisters to the right of its nodes:
    what is still to come when the word is said. Frazier's goes from the word up to the first node
    that is not the leftmost child of its parent; each parent on the way counts 1, or 1.5 if it is
    a sentence, and the root TOP 0.
    full: whether there are words in a node. Others, such as punctuation, are left out.
    """
    places, nodes = forest.sisters
    parents, inner = forest.parents, forest.parents >= 0
    number = cumulative(full[nodes])
    begins = np.where(inner, forest.first_children[parents], places)
    ends = np.where(inner, begins + forest.n_children[parents], places + 1)
    right = number[ends] - number[places + 1]
    leftmost = inner & (number[places] == number[begins])
    costs = np.array([1.5 if name in _SENTENCES else 1.0 for name in forest.names])[forest.labels]
    costs[~inner] = 0
    yngve, frazier = np.zeros(forest.n), np.zeros(forest.n)
    by_depth = np.argsort(forest.depths, kind="stable")
    for level in np.split(by_depth, np.flatnonzero(np.diff(forest.depths[by_depth])) + 1)[1:]:
        above = parents[level]
        yngve[level] = yngve[above] + right[level]
        frazier[level] = leftmost[level] * (frazier[above] + costs[above])
    return {"yngve": yngve, "frazier": frazier}


def measures_of(sums: NDArray[np.float64]) -> dict[str, float]:
    """Return the MEASURES of a text. sums: (n_sums), those of its trees together.

    Counts are int. A mean of nothing is 0, as in Lu's analyzer.
    """
    of = dict(zip(SUMS, sums.tolist(), strict=True))
    means = {name: of[a] / of[b] if of[b] else 0.0 for name, (a, b) in _MEANS.items()}
    return {**{name: int(of[name]) for name in COUNTS}, **means}
