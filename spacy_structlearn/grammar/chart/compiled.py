"""A latent grammar as the kernel of the parser reads it.

Blocks of binary rules: smoothing gives each substate of a group a share of the rules of the others
(Petrov et al. 2006, section 2.4), so most probabilities of a rule A_x -> B_y C_z are small, and for
each pair y z about equal in all x of the group. Such a probability is stored once for the group,
and only what is large for the rule is stored for a substate. Well filled blocks stay dense.

Factors of the first pass: with the `Factors` parent, left and right of a level, of rank R, let U0
be the unary rules among phrases and U1 those over tags, and C = 1 + U0, which takes lower nodes to
upper ones (see `_chart`). A cell of two words or more has the vector x of R sums over its splits.
Its lower nodes are parent x, its upper nodes C parent x, and as left children of wider cells they
are left^T C parent x: so each step from cell to cell is one matrix.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..latent.factors import decompose
from ..latent.model import LatentGrammar, Level
from . import _chart

SHARE = 0.01  # see `blocks`; the decoder "viterbi" replaces no probabilities
MOST_PAIRS = 2**16  # of a block that is not dense
FEW = 16  # blocks with at most this many entries are stored as they are
# A dense block takes as long as DENSE_ENTRIES entries, plus one for every DENSE_PLACES places.
DENSE_ENTRIES, DENSE_PLACES = 12, 16
MOST_STATES = 2  # of a symbol in a factored pass: the blocks of rules have 2 x 2 x 2 probabilities
LANES = 8
Floats = NDArray[np.float64]


def compile_grammar(
    grammar: LatentGrammar,
    first_pass: bool = False,
    share: float = 0.0,
    shared: Container[int] = (),
) -> _chart.Grammar:
    """Convert a grammar to what the kernel reads.

    first_pass: whether it needs the factors of level 1. share: see `blocks`. shared: the
    levels for which that is worth the time.
    """
    symbols, rules = grammar.symbols, grammar.rules
    levels = []
    for number, level in enumerate(grammar.levels):
        dense, dense_offsets, *entries = blocks(level, share if number in shared else 0.0)
        unary = (level.unary, level.unary_offsets)
        root = (level.root, level.root_offsets)
        levels.append(
            (level.substates, level.offsets, dense, dense_offsets, *unary, *root, *entries)
        )
    return _chart.Grammar(
        symbols.n_tags,
        symbols.n_phrases,
        symbols.size,
        rules.binary,
        rules.unary,
        rules.root,
        levels,
        grammar.levels[0].binary,
        factored(grammar) if first_pass else None,
    )


class Blocks(NamedTuple):
    """dense: the dense blocks, float32. offsets: where that of each rule begins, int64, or -1.

    begins: where the entries of each other rule begin, int32 (rules + 1). parent, pair: of each
    entry: the substate of the parent, and the pair of children, left * n_right + right, int32. The
    substates after the last one of a symbol are its two groups. value: float32.
    groups: for each symbol the first substate of the second group, int32 (symbols).
    """

    dense: NDArray[np.float32]
    offsets: NDArray[np.int64]
    begins: NDArray[np.int32]
    parent: NDArray[np.int32]
    pair: NDArray[np.int32]
    value: NDArray[np.float32]
    groups: NDArray[np.int32]


def blocks(level: Level, share: float = 0.0) -> Blocks:
    """Return the blocks of a level.

    share: probabilities below this share of the largest one of their block are replaced by their
        mean in a group of substates; 0: none.
    """
    places, values = level.entries
    offsets = level.binary_offsets
    sizes = np.diff(offsets)
    rule, substates = level.entry_substates()
    local, parent = places - offsets[rule], substates[:, 0]
    pair = substates[:, 1] * level.substates[level.rules.binary[rule, 2]] + substates[:, 2]
    entries: tuple[NDArray[Any], ...] = (rule, parent, pair, values)
    groups: NDArray[np.integer] = level.substates
    if share > 0 and len(values):
        groups = _groups(level, rule, parent, pair)
        entries = _shared(level, groups, share, *entries)
    rules_of = np.bincount(entries[0], minlength=len(sizes))
    pairs = level.substates[level.rules.binary[:, 1:]].prod(axis=1)
    filled = (rules_of > DENSE_ENTRIES + sizes / DENSE_PLACES) | (pairs > MOST_PAIRS)
    dense_sizes = np.where(filled, sizes, 0)
    dense_offsets = np.cumsum(dense_sizes) - dense_sizes
    dense = np.zeros(int(dense_sizes.sum()), dtype=np.float32)
    inside = filled[rule]
    dense[dense_offsets[rule[inside]] + local[inside]] = values[inside]
    rule, parent, pair, values = (part[~filled[entries[0]]] for part in entries)
    return Blocks(
        dense,
        np.where(filled, dense_offsets, -1),
        np.searchsorted(rule, np.arange(len(sizes) + 1)).astype(np.int32),
        parent.astype(np.int32),
        pair.astype(np.int32),
        values.astype(np.float32),
        groups.astype(np.int32),
    )


def _shared(
    level: Level,
    groups: NDArray[np.integer],
    share: float,
    rule: NDArray[np.int64],
    parent: NDArray[np.int64],
    pair: NDArray[np.int64],
    values: NDArray[np.float32],
) -> tuple[NDArray, ...]:
    """Replace small entries by their means in a group; the others become the rest above these."""
    n_rules = len(level.rules.binary)
    top = np.zeros(n_rules, dtype=np.float32)
    np.maximum.at(top, rule, values)
    few = np.bincount(rule, minlength=n_rules) <= FEW
    large = (values >= share * top[rule]) | few[rule]
    symbol = level.rules.binary[rule, 0]
    group = parent >= groups[symbol]
    widest = int(pair.max()) + 1
    key = (2 * rule + group) * widest + pair
    keys, first, which = np.unique(key[~large], return_index=True, return_inverse=True)
    small = np.bincount(which, values[~large], len(keys))
    # The group has as many small entries as substates that are not stored by themselves.
    at = np.minimum(np.searchsorted(keys, key[large]), max(len(keys) - 1, 0))
    matches = np.zeros(0, dtype=bool) if not len(keys) else keys[at] == key[large]
    stored = np.bincount(at[matches], minlength=len(keys))
    some = np.flatnonzero(~large)[first]
    n = level.substates[symbol[some]]
    size = np.where(group[some], n - groups[symbol[some]], groups[symbol[some]])
    mean = small / np.maximum(size - stored, 1)
    rest = values[large].astype(np.float64)
    rest[matches] -= mean[at[matches]]
    rules = np.concatenate([rule[large], rule[some]])
    order = np.argsort(rules, kind="stable")
    return (
        rules[order],
        np.concatenate([parent[large], n + group[some]])[order],
        np.concatenate([pair[large], pair[some]])[order],
        np.concatenate([rest, mean])[order],
    )


def _groups(
    level: Level,
    rule: NDArray[np.int64],
    parent: NDArray[np.int64],
    pair: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Find the first substate of the second group of each symbol, int64 (symbols).

    The groups are those that were smoothed together, so they have the same productions: of all
    ways to cut the substates in two, the one with the fewest exceptions.
    """
    cuts = np.zeros(len(level.substates), dtype=np.int64)
    symbol = level.rules.binary[rule, 0]
    production = rule * (int(pair.max()) + 1) + pair
    order = np.argsort(symbol, kind="stable")
    bounds = np.searchsorted(symbol[order], np.arange(len(cuts) + 1))
    for x, n in enumerate(level.substates.tolist()):
        chosen = order[bounds[x] : bounds[x + 1]]
        if n < 2 or not len(chosen):
            continue
        # Numbers of the productions that occur with this parent.
        _, column = np.unique(production[chosen], return_inverse=True)
        has = np.zeros((n + 1, int(column.max()) + 1), dtype=np.int32)
        has[parent[chosen] + 1, column] = 1
        below = has.cumsum(axis=0)
        cut = np.arange(n)[:, None]
        left, right = below[:-1], below[-1] - below[:-1]
        exceptions = np.minimum(left, cut - left) + np.minimum(right, n - cut - right)
        cuts[x] = exceptions.sum(axis=1).argmin()
    return cuts


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
    rule, substates = level.entry_substates()
    values = np.zeros((len(level.rules.binary), 2, 2, 2), dtype=np.float32)
    values[(rule, *substates.T)] = level.entries.values
    return values.reshape(-1, 8)
