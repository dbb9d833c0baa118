"""All measures of trees. Those of a text are made from sums over its trees, so that sums of texts
can be added to those of a collection.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arrays import cumulative
from ..matching.forest import Forest
from .complexity import COUNTS, INDICES, counted, is_word
from .depths import depths_of_words

_PHRASES = ("NP", "VP", "PP")
# Each mean with the sum and the number that it is the ratio of.
_MEANS = {
    **INDICES,
    "yngve_depth": ("yngve", "W"),
    "yngve_depth_max": ("yngve_max", "S"),
    "frazier_depth": ("frazier", "W"),
    "tree_depth": ("depth", "S"),
    **{f"{name.lower()}_length": (f"{name} words", f"{name} number") for name in _PHRASES},
    "clause_length": ("C words", "C"),
}
SUMS = (
    *COUNTS,
    *dict.fromkeys(name for pair in _MEANS.values() for name in pair if name not in COUNTS),
)
"""The columns of `totals`."""
MEASURES = (*COUNTS, *_MEANS)
"""The names of all measures."""


def totals(forest: Forest) -> NDArray[np.float64]:
    """Return the SUMS of each tree, float (n_trees, n_sums)."""
    n_trees, trees = len(forest.firsts) - 1, forest.trees
    words = is_word(forest)
    before = cumulative(words)
    lengths = before[forest.stops] - before[forest.starts]
    nodes = counted(forest)
    found: dict[str, NDArray] = {
        name: np.bincount(trees[own], minlength=n_trees) for name, own in nodes.items()
    }
    nodes |= {name: _labelled(forest, name) for name in _PHRASES}
    for name in (*_PHRASES, "C"):
        own = nodes[name]
        found[f"{name} number"] = np.bincount(trees[own], minlength=n_trees)
        found[f"{name} words"] = np.bincount(trees[own], lengths[own], n_trees)
    own = trees[forest.leaves]
    found["depth"] = _maxima(own, forest.depths[forest.parents[forest.leaves]], n_trees)
    yngve, frazier = depths_of_words(forest, words)
    own = own[words]
    found["W"] = np.bincount(own, minlength=n_trees)
    found["yngve"] = np.bincount(own, yngve, n_trees)
    found["frazier"] = np.bincount(own, frazier, n_trees)
    found["yngve_max"] = _maxima(own, yngve, n_trees)
    return np.stack([found[name].astype(np.float64) for name in SUMS], axis=1)


def measures_of(sums: NDArray[np.float64]) -> dict[str, float]:
    """Return the MEASURES of a text. sums: (n_sums), those of its trees together.

    Counts are int. A mean of nothing is 0, as in Lu's analyzer.
    """
    of = dict(zip(SUMS, sums.tolist(), strict=True))
    means = {
        name: of[one] / of[other] if of[other] else 0.0 for name, (one, other) in _MEANS.items()
    }
    return {**{name: int(of[name]) for name in COUNTS}, **means}


def _labelled(forest: Forest, label: str) -> NDArray[np.integer]:
    """Return the phrases with a label."""
    is_label = np.array([name == label for name in forest.names], dtype=bool)
    return np.flatnonzero(is_label[forest.labels] & (forest.ends > np.arange(forest.n) + 2))


def _maxima(trees: NDArray[np.integer], values: NDArray, n_trees: int) -> NDArray[np.float64]:
    """Return the greatest value of each tree; 0 for none."""
    found = np.zeros(n_trees)
    np.maximum.at(found, trees, values)
    return found
