"""Forests whose nodes tell what stands at the edges of their spans, or above them.

Features of a fragment of a tree larger than a production (Smith, Vail & Lafferty 2007, section
4.1.2, have parents and grandparents, as Johnson 1998) depend on one edge of a hypergraph only once
its nodes are split by what the fragment asks for. A tree has one derivation in the refined forest
as it has one in the source, so that each derivation keeps its score and log Z its value.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..chart.hypergraph import Hypergraphs
from ..treebank.symbols import BINARIZATIONS, Symbols
from . import _annotation

DEPTHS = (0, 1, 2)


class Refined(NamedTuple):
    """Forests with several copies of the nodes of others, and where they come from.

    graphs: of the same items, with the scores of the source; copies of a node stand together, nodes
    in the order of the source, without those that are in no tree. edges: int64 (E), the source of
    each edge, nodes: int64 (N), of each node, both counted through all sentences. states: int32
    (N, k), what tells the copies of a node apart.
    """

    graphs: Hypergraphs
    edges: NDArray[np.int64]
    nodes: NDArray[np.int64]
    states: NDArray[np.int32]


def with_edge_tags(graphs: Hypergraphs, n_tags: int) -> Refined:
    """A copy of each node for each pair of a first and a last tag below it.

    states: (N, 2), these two tags; -1 for roots, of which there is one copy. n_tags: the symbols
    before are tags. Raises ValueError if a word has another symbol, OverflowError if the nodes or
    edges of a sentence are too many for int32.
    """
    found = _annotation.from_edges(*_structure(graphs), n_tags)
    refined = _refined(graphs, found)
    refined.states[refined.graphs.node_offsets[1:] - 1] = -1
    return refined


def with_ancestors(
    graphs: Hypergraphs, symbols: Symbols, binarization: str, *, depth: int, sibling: bool
) -> Refined:
    """A copy of each node for each parent, grandparent and sibling that it can have.

    states: (N, 3). Parent: 0 for ROOT, 1 + k for the k-th phrase label; of an intermediate @X that
    of X itself. Grandparent: the parent of that phrase. Sibling: of an intermediate 1 + the symbol
    of its sister, 0 of all others. depth: 0, 1 (parents) or 2 (grandparents too); what is not asked
    for is 0, and so are the states of roots. binarization: "right", in which intermediates are the
    second of two children, or "left". Raises ValueError for another one, another depth, or a tag
    with children; OverflowError as `with_edge_tags`.
    """
    if binarization not in BINARIZATIONS or depth not in DEPTHS:
        raise ValueError(f"ancestors of depth {depth}, binarization {binarization!r}")
    above = np.zeros(symbols.size, dtype=np.int32)
    last = symbols.n_tags + symbols.n_phrases
    above[symbols.n_tags : last] = 1 + np.arange(symbols.n_phrases)
    above[last:] = 1 + np.array(symbols.intermediates, dtype=np.int32) - symbols.n_tags
    place = int(binarization == "right")
    return _refined(
        graphs,
        _annotation.from_ancestors(*_structure(graphs), above, last, place, depth, sibling),
    )


def _structure(graphs: Hypergraphs) -> tuple[NDArray[np.int64] | NDArray[np.int32], ...]:
    # The last one is of nodes without an item.
    symbol = np.append(graphs.items[:, 0], np.int32(-1))[graphs.node_items]
    return (
        graphs.node_offsets,
        graphs.edge_offsets,
        graphs.begins,
        graphs.tails,
        graphs.made,
        symbol,
    )


def _refined(graphs: Hypergraphs, found: tuple) -> Refined:
    node_offsets, edge_offsets, begins, tails, edges, nodes, states = found
    refined = replace(
        graphs,
        node_offsets=node_offsets,
        edge_offsets=edge_offsets,
        begins=begins,
        tails=tails,
        scores=graphs.scores[edges],
        made=graphs.made[edges],
        chain=graphs.chain[edges],
    )
    return Refined(refined, edges, nodes, states)
