"""Binary rules as a sum of products, which makes a fast first pass of the chart parser.

The probabilities of the binary rules of a level are an array with three axes, which has a
nonnegative decomposition of low rank,

    P(A_x -> B_y C_z) ~ sum over r of parent[A_x, r] left[B_y, r] right[C_z, r]

(Cohen, Satta & Collins 2013, Approximate PCFG parsing using tensor decomposition). EM finds it, as
in probabilistic latent semantic analysis: rules are weighted by how often the grammar uses them, so
the divergence from the distribution of rules in trees is minimised.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _factors
from .model import Level

RANK = 64
ITERATIONS = 80
LEAST = 1e-12  # of a factor, so that every rule has a probability
GENERATIONS = 100  # of a grammar whose trees are counted
MAX_USES, MIN_USES = 1e3, 1e-6

Floats = NDArray[np.float32]


class Factors(NamedTuple):
    """The decomposed binary rules of a level.

    parent: float32 (nonterminal states, R). left, right: float32 (states, R), the states of tags
    first.
    """

    parent: Floats
    left: Floats
    right: Floats


def decompose(
    level: Level, n_tags: int, *, rank: int = RANK, iterations: int = ITERATIONS
) -> Factors:
    """Decompose the binary rules of a level.

    n_tags: number of tags, which are the first symbols.
    rank: number of products, at most 256. iterations: of EM.
    """
    n_tag_states, n_states = int(level.offsets[n_tags]), level.size
    rng = np.random.default_rng(0)
    _, states = level.entry_states()
    values = level.entries.values.astype(np.float64)
    uses = _uses(level, states, values)
    # States that no tree uses have rules, too.
    uses = np.maximum(uses, MIN_USES * uses.max(initial=1.0))
    weights = values * uses[states[:, 0]]
    weights /= max(weights.sum(), np.finfo(np.float64).tiny)
    entries = np.ascontiguousarray(states - [n_tag_states, 0, 0], dtype=np.int32)
    shapes = (n_states - n_tag_states, n_states, n_states)
    factors = [rng.gamma(1.0, size=(size, rank)).astype(np.float32) for size in shapes]
    for _ in range(iterations):
        counts = _factors.step(entries, weights.astype(np.float32), *factors)
        totals = np.maximum(counts[0].sum(axis=0), LEAST)
        # The factor of the parent has the total of each rank.
        factors = [counts[0], counts[1] / totals, counts[2] / totals]
        factors = [np.maximum(factor, np.float32(LEAST)) for factor in factors]
    parent, left, right = factors
    total = np.bincount(entries[:, 0], values, len(parent))
    # Each parent gets the total of its rules.
    sums = parent @ (left.sum(axis=0) * right.sum(axis=0))
    parent = parent * (total / np.maximum(sums, LEAST))[:, None]
    return Factors(parent.astype(np.float32), left, right)


def _uses(
    level: Level, states: NDArray[np.int64], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return how often each state is used in a tree, float64 (states), to about the generation
    where a grammar of weights that do not sum to 1 begins to grow."""
    uses, root = level.unary_matrix(), level.root_vector()
    for child in (1, 2):
        np.add.at(uses, (states[:, 0], states[:, child]), values)
    counts = root
    for _ in range(GENERATIONS):
        counts = root + counts @ uses
        if counts.max(initial=0.0) > MAX_USES:
            break
    return counts
