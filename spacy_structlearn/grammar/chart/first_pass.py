"""What the factored first pass of the parser reads: the grammar of a level as products of matrices.

With the `Factors` parent, left and right, of rank R, let U0 be the unary rules among phrases and U1
those over tags, and C = 1 + U0, which takes lower nodes to upper ones (see `_chart`). A cell of two
words or more has the vector x of R sums over its splits. Its lower nodes are parent x, its upper
nodes C parent x, and as left children of wider cells they are left^T C parent x: so each step from
cell to cell is one matrix.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..latent.factors import decompose
from ..latent.model import LatentGrammar, Level

MOST_STATES = 2  # of a symbol: the blocks of rules have 2 x 2 x 2 probabilities
LANES = 8
Floats = NDArray[np.float64]


def is_factored(level: Level) -> bool:
    """Whether the level is coarse enough for a factored first pass."""
    return int(level.substates.max(initial=0)) <= MOST_STATES


def factored(grammar: LatentGrammar, number: int = 1) -> dict[str, NDArray]:
    """Return the matrices of a level; see `_structures.Factors` for their names and shapes."""
    level, n_tags = grammar.levels[number], grammar.symbols.n_tags
    offsets = level.offsets
    n_tag_states = int(offsets[n_tags])
    n_states = level.size - n_tag_states
    parent, left, right = (factor.astype(np.float64) for factor in decompose(level, n_tags))
    children = np.hstack([left, right])
    unary, root = level.unary_matrix(), level.root_vector()
    phrases, tags = slice(n_tag_states, None), slice(n_tag_states)
    closure = np.eye(n_states) + unary[phrases, phrases]
    over_tags = unary[phrases, tags].T  # (tag states, states)
    above_tags = over_tags @ closure.T
    combine = parent.T @ closure.T @ children[phrases]
    enter = children[tags] + above_tags @ children[phrases]
    root_tags = root[tags] + above_tags @ root[phrases]
    pad, tag_pad = _padded(n_states), _padded(n_tag_states)
    above, below = np.nonzero(unary[phrases, phrases])
    return {
        "begins": offsets.astype(np.int32),
        "combine": combine,
        "divide": combine.T,
        "enter": enter,
        "leave": _columns(enter.T, tag_pad),
        "inside": _columns(parent.T, pad),
        "inside_words": _columns(over_tags, pad),
        "outside": _columns(children[phrases].T, pad),
        "unaries": np.stack([above, below]).astype(np.int32),
        "unary_values": unary[phrases, phrases][above, below],
        "root": parent.T @ closure.T @ root[phrases],
        "root_states": _columns(root[None, phrases], pad)[0],
        "root_tags": _columns(root_tags[None], tag_pad)[0],
        "left": left,
        "right": right,
        "blocks": _blocks(level),
    }


def _padded(n: int) -> int:
    return max(-(-n // LANES), 1) * LANES


def _columns(matrix: Floats, width: int) -> Floats:
    """Pad the rows of a matrix with zeros."""
    return np.pad(matrix, [(0, 0), (0, width - matrix.shape[1])])


def _blocks(level: Level) -> NDArray[np.float32]:
    """Return the block of each binary rule, padded to 2 x 2 x 2, float32 (rules, 8)."""
    rule, substates = level.entry_substates
    found = np.zeros((len(level.rules.binary), 2, 2, 2), dtype=np.float32)
    found[(rule, *substates.T)] = level.entries.values
    return found.reshape(-1, 8)
