"""Forests whose nodes are split by their ancestors or by the tags at the ends of their spans.

A feature of a fragment larger than a production, such as one with a parent (Johnson 1998; Smith,
Vail & Lafferty 2007, section 4.1.2), belongs to a single edge of a hypergraph only after its nodes
are split by the context. Each derivation of the source has exactly one derivation
in the refined forest, with the same score, so log Z stays the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..chart.hypergraph import Hypergraphs
from ..treebank.symbols import Symbols
from . import _annotation


class Refined(NamedTuple):
    """Refined forests and their sources.

    graphs: the refined forests, with the items and scores of the source. Copies of a node are
    consecutive, in the order of the source. Nodes that are part of no tree are dropped.
    edges, nodes: int64 (E) and (N), the source of each edge and node, numbered across sentences.
    states: int32 (N, 2), the context of each node, 0 for roots.
    """

    graphs: Hypergraphs
    edges: NDArray[np.int64]
    nodes: NDArray[np.int64]
    states: NDArray[np.int32]


def with_edge_tags(graphs: Hypergraphs, n_tags: int) -> Refined:
    """Split nodes by the first and the last tag below them, which are the states.

    n_tags: number of tags, the first symbols.
    Raises ValueError if the symbol of a word is not a tag, OverflowError if a sentence has too many
    nodes or edges for int32.
    """
    return _refined(graphs, n_tags)


def with_ancestors(graphs: Hypergraphs, symbols: Symbols, binarization: str) -> Refined:
    """Split nodes by their parent and sibling.

    binarization: "right", where intermediate symbols are the second of two children, or "left".

    The states are parent and sibling. The parent is 0 for ROOT and 1 + k for the k-th phrase label;
    @X has the parent of X. The sibling of an intermediate symbol is 1 + the symbol of its sister;
    that of others is 0.

    Raises ValueError if a tag has children, OverflowError as `with_edge_tags` does.
    """
    above = np.zeros(symbols.size, dtype=np.int32)
    last = symbols.n_tags + symbols.n_phrases
    above[symbols.n_tags : last] = 1 + np.arange(symbols.n_phrases)
    above[last:] = 1 + np.array(symbols.intermediates, dtype=np.int32) - symbols.n_tags
    return _refined(graphs, symbols.n_tags, above, last, int(binarization == "right"))


def _refined(graphs: Hypergraphs, *options: Any) -> Refined:
    # The last symbol is for nodes without an item.
    symbol = np.append(graphs.items[:, 0], np.int32(-1))[graphs.node_items]
    node_offsets, edge_offsets, begins, tails, edges, nodes, states = _annotation.refine(
        graphs.node_offsets,
        graphs.edge_offsets,
        graphs.begins,
        graphs.tails,
        graphs.made,
        symbol,
        *options,
    )
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
