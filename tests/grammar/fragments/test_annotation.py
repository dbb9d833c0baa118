"""Refined forests: against the states of all trees of a forest, read off one by one."""

import numpy as np
import pytest
from grammar.treebanks import toy

from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.chart.hypergraph import Hypergraphs
from spacy_structlearn.grammar.fragments import _annotation
from spacy_structlearn.grammar.fragments.annotation import with_ancestors, with_edge_tags
from spacy_structlearn.grammar.latent.em import treebank_grammar
from spacy_structlearn.grammar.spans.model import SpanGrammar
from spacy_structlearn.grammar.treebank.data import binarize
from spacy_structlearn.grammar.treebank.symbols import Symbols

SYMBOLS = Symbols(("a", "b"), ("X", "Y"), (2, 3))
A, B, X, Y, INNER_X, INNER_Y = range(6)


# --- small ones ----------------------------------------------------------------------------------
def graph(items, edges, n_words):
    """One hypergraph. edges: (head, tails, made), by heads."""
    n_nodes = edges[-1][0] + 1
    tails = [[*tails, -1, -1][:2] for _, tails, _ in edges]
    return Hypergraphs(
        items=np.array(items, np.int32),
        item_offsets=np.array([0, len(items)]),
        node_offsets=np.array([0, n_nodes]),
        edge_offsets=np.array([0, len(edges)]),
        begins=np.searchsorted([e[0] for e in edges], np.arange(n_nodes + 1)).astype(np.int32),
        tails=np.array(tails, np.int32),
        scores=-np.arange(len(edges), dtype=float),
        made=np.array([e[2] for e in edges], np.int32),
        n_words=np.array([n_words], np.int32),
        chain=np.full(len(edges), -1, np.int32),
    )


def by_hand():
    """X over b over a word, and Y over X; the root takes either.

    Nodes: b, lower X and Y, upper X and Y, another X, a, and the root. Nothing makes the lower Y,
    and so not the other X, which is part of nothing, as is a.
    """
    items = [[B, 0, 1], [X, 0, 1], [Y, 0, 1], [A, 0, 1]]
    edges = [
        (0, [], 0),
        (1, [0], 1),
        (3, [1], -1),
        (4, [1], 2),
        (4, [2], -1),
        (5, [2], 1),
        (6, [], 3),
        (7, [3], -1),
        (7, [4], -1),
    ]
    return graph(items, edges, 1)


def test_what_is_in_no_tree_is_left_out():
    source = by_hand()
    refined = with_ancestors(source, SYMBOLS, "right")
    assert set(refined.nodes.tolist()) == {0, 1, 3, 4, 7}
    assert set(refined.edges.tolist()) == {0, 1, 2, 3, 7, 8}
    assert with_edge_tags(source, 2).nodes.tolist() == [0, 1, 3, 4, 7]


def test_trees_and_their_scores_stay():
    """Of the forest of a sentence, all trees, whose number is that of derivations."""
    data = binarize(toy(), root="R")
    parser = ChartParser(SpanGrammar(treebank_grammar(data)), thresholds=(0.0,))
    graphs, _ = parser.forests([tree.words() for tree in toy()])
    refined = with_ancestors(graphs, data.symbols, "right")
    for forest in [refined, with_edge_tags(graphs, data.symbols.n_tags)]:
        np.testing.assert_array_equal(forest.graphs.scores, graphs.scores[forest.edges])
        pairs = zip(*(x.k_best(x.scores, 500) for x in (forest.graphs, graphs)), strict=True)
        for mine, others in pairs:
            np.testing.assert_allclose([a for a, _ in mine], [b for b, _ in others], atol=1e-9)
    assert len(refined.edges) > len(np.unique(refined.edges))


# --- what is refused -----------------------------------------------------------------------------
def test_symbols_that_do_not_fit():
    with pytest.raises(ValueError, match="tags"):
        with_edge_tags(by_hand(), 1)
    with pytest.raises(ValueError, match="too many"):
        with_edge_tags(by_hand(), 1 << 20)
    few = Symbols(("a",), ("X",))
    with pytest.raises(ValueError, match="symbols"):
        with_ancestors(by_hand(), few, "right")
    tags = Symbols(("a", "b", "c", "d", "e"), ("X",))
    with pytest.raises(ValueError, match="phrases"):
        with_ancestors(by_hand(), tags, "right")
    bad = by_hand()
    bad.items[0, 0] = -2
    with pytest.raises(ValueError, match="symbols"):
        with_edge_tags(bad, 2)


def kernel_arrays():
    source = by_hand()
    names = ("node_offsets", "edge_offsets", "begins", "tails", "made")
    symbol = np.append(source.items[:, 0], np.int32(-1))[source.node_items]
    return {**{name: getattr(source, name) for name in names}, "symbol": symbol}


@pytest.mark.parametrize(
    ("name", "value"),
    [("node_offsets", [0]), ("begins", [0]), ("tails", [[-1, -1]]), ("made", [0]), ("symbol", [0])],
)
def test_the_kernel_checks_its_arrays(name, value):
    arrays = kernel_arrays()
    bad = {**arrays, name: np.array(value, arrays[name].dtype)}
    above = np.array([0, 0, 1, 2, 1, 2], np.int32)
    options = {"above": above, "first_inner": 4, "place": 1}
    _annotation.refine(**arrays, n_tags=2)
    _annotation.refine(**arrays, **options)
    with pytest.raises(ValueError, match=r"must|symbols"):
        _annotation.refine(**bad, n_tags=2)
    with pytest.raises(ValueError, match=r"must|symbols"):
        _annotation.refine(**bad, **options)
