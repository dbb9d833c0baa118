"""Refined forests: against the states of all trees of a forest, read off one by one."""

from itertools import pairwise, product

import numpy as np
import pytest
from grammar.grammars import NEVER, SHAPES, few_trees, sample_grammar, sample_trees
from grammar.treebanks import trees

from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.chart.hypergraph import Hypergraphs
from spacy_structlearn.grammar.fragments import _annotation
from spacy_structlearn.grammar.fragments.annotation import DEPTHS, with_ancestors, with_edge_tags
from spacy_structlearn.grammar.spans.model import SpanGrammar
from spacy_structlearn.grammar.treebank.symbols import Symbols

ANCESTORS = list(product(DEPTHS, (False, True)))
SYMBOLS = Symbols(("a", "b"), ("X", "Y"), (2, 3))
A, B, X, Y, INNER_X, INNER_Y = range(6)
# Several children of the root, phrases of one child, and one over another of its label's kind.
FLAT = trees(
    "(R (P (L (N tora) (A ni)) (V mita)) (. 。))",
    "(R (P (L (L (N inu) (N neko) (A no) (D ano)) (N kage) (A ga)) (P (L (N mori)) (V mita))))",
    "(R (N inu) (A ga) (V naita))",
    "(R (V naita))",
)


def forests_of(grammar, sentences, thresholds=NEVER):
    graphs, numbers = ChartParser(SpanGrammar(grammar), thresholds=thresholds).forests(sentences)
    assert len(numbers) == len(sentences)
    return graphs


def random_forests(seed, shape, n=4, most=300):
    """A grammar, and its forests of a sentence of n words and one of a word."""
    small = {"density": 0.2, "unary": 0.4, "root_tags": bool(seed % 2)}
    grammar, words, _ = few_trees(n, 10, most, first_seed=seed, shape=shape, **small)
    return grammar, forests_of(grammar, [words, words[:1], words[::-1]])


# --- what is obviously right ---------------------------------------------------------------------
def begins_of(graphs, x):
    """Those of one sentence."""
    begin, end = graphs.node_offsets[x : x + 2].tolist()
    return graphs.begins[begin + x : end + x + 1].tolist()


def derivations(graphs):
    """Of each sentence its trees, (edge, trees of the tails); numbers of edges are those of all."""
    found = []
    for x, first in enumerate(graphs.edge_offsets[:-1].tolist()):
        of_node = []
        for low, high in pairwise(begins_of(graphs, x)):
            of_node.append([])
            for edge in range(first + low, first + high):
                below = [of_node[tail] for tail in graphs.tails[edge].tolist() if tail >= 0]
                of_node[-1] += [(edge, parts) for parts in product(*below)]
        found.append(of_node[-1])
    return found


def heads(graphs):
    """The node of each edge, among all."""
    found = []
    for x, first in enumerate(graphs.node_offsets[:-1].tolist()):
        for node, (low, high) in enumerate(pairwise(begins_of(graphs, x))):
            found += [first + node] * (high - low)
    return np.array(found, dtype=int)


def ancestor_states(graphs, symbols, binarization, depth, sibling, tree):
    """(edge, state) from the top down."""
    last = symbols.n_tags + symbols.n_phrases
    items, place = graphs.node_items, int(binarization == "right")
    nodes = heads(graphs)

    def symbol(part):
        return int(graphs.items[items[nodes[part[0]]], 0])

    def visit(part, state, top=False):
        edge, below = part
        yield edge, state
        if top or (len(below) == 1 and graphs.made[edge] < 0):
            for child in below:
                yield from visit(child, state)
            return
        parent, _, _ = state
        for i, child in enumerate(below):
            if symbol(child) >= last:
                sister = symbol(below[1 - i]) + 1 if sibling and i == place else 0
                yield from visit(child, (*state[:2], sister))
            else:
                phrase = symbol(part)
                if phrase >= last:
                    phrase = symbols.intermediates[phrase - last]
                above = (1 + phrase - symbols.n_tags, parent, 0)
                yield from visit(child, tuple(a if i < depth else 0 for i, a in enumerate(above)))

    return list(visit(tree, (0, 0, 0), top=True))


def tag_states(graphs, tree):
    """(edge, state) from the bottom up; the edge of the root comes first."""

    def visit(part):
        edge, below = part
        if not below:
            tag = int(graphs.items[graphs.made[edge], 0])
            return [(edge, (tag, tag))]
        parts = [visit(child) for child in below]
        first, last = parts[0][0][1][0], parts[-1][0][1][1]
        return [(edge, (first, last)), *(pair for part in parts for pair in part)]

    (edge, _), *others = visit(tree)
    return [(edge, (-1, -1)), *others]


def links(states, tree):
    """(edge, its state, those of its tails) of a tree; states: of its edges, in pre-order."""
    rest = iter(states)

    def visit(part):
        edge, state = next(rest)
        assert edge == part[0]
        below = [visit(child) for child in part[1]]
        own = (edge, state, tuple(child[0][1] for child in below))
        return [own, *(link for child in below for link in child)]

    return visit(tree)


def refined_links(refined):
    """(source edge, state of its head, those of its tails) of each edge."""
    graphs, states = refined.graphs, [tuple(state) for state in refined.states.tolist()]
    found = []
    firsts = np.repeat(graphs.node_offsets[:-1], np.diff(graphs.edge_offsets))
    for edge, head in enumerate(heads(graphs)):
        tails = [t + firsts[edge] for t in graphs.tails[edge].tolist() if t >= 0]
        found.append((int(refined.edges[edge]), states[head], tuple(states[t] for t in tails)))
    return found


def check(graphs, refined, states):
    """Nodes and edges are those of the trees of the source; states: of a tree, (edge, state)."""
    sets = (set(), set())
    of_edge = heads(graphs)
    for tree in (tree for found in derivations(graphs) for tree in found):
        for edge, state, below in links(states(tree), tree):
            sets[0].add((int(of_edge[edge]), state))
            sets[1].add((edge, state, below))
    own = refined_links(refined)
    assert len(set(own)) == len(own)
    assert set(own) == sets[1]
    nodes = list(
        zip(refined.nodes.tolist(), [tuple(s) for s in refined.states.tolist()], strict=True)
    )
    assert len(set(nodes)) == len(nodes)
    assert set(nodes) == sets[0]
    keeps(graphs, refined)


def keeps(graphs, refined):
    """What a refinement leaves as it was."""
    new, edges, nodes, states = refined
    for name in ("items", "item_offsets", "n_words"):
        assert getattr(new, name) is getattr(graphs, name)
    for name in ("scores", "made", "chain"):
        np.testing.assert_array_equal(getattr(new, name), getattr(graphs, name)[edges])
        assert getattr(new, name).dtype == getattr(graphs, name).dtype
    assert edges.dtype == nodes.dtype == np.int64
    assert states.dtype == np.int32
    assert len(states) == len(nodes) == new.node_offsets[-1]
    assert (np.diff(nodes) >= 0).all()
    np.testing.assert_array_equal(heads(graphs)[edges], nodes[heads(new)])
    # Of each copy, edges are in the order of the source.
    same = np.diff(heads(new)) == 0
    assert (np.diff(edges)[same] >= 0).all()
    np.testing.assert_array_equal(nodes[new.node_offsets[1:] - 1], graphs.node_offsets[1:] - 1)
    np.testing.assert_array_equal(np.searchsorted(nodes, graphs.node_offsets), new.node_offsets)
    source = graphs.node_items
    np.testing.assert_array_equal(new.node_items, source[nodes])
    # Nothing is there that no tree has.
    _, posteriors = new.inside_outside(np.zeros(len(new.scores)))
    assert (posteriors > 0).all()


# --- against all trees ---------------------------------------------------------------------------
@pytest.mark.parametrize(("depth", "sibling"), ANCESTORS)
@pytest.mark.parametrize("binarization", ["right", "left"])
@pytest.mark.parametrize("shape", SHAPES)
def test_ancestors_are_those_of_all_trees(shape, binarization, depth, sibling):
    grammar, graphs = random_forests(51, shape)
    symbols = grammar.symbols
    refined = with_ancestors(graphs, symbols, binarization, depth=depth, sibling=sibling)

    def states(tree):
        return ancestor_states(graphs, symbols, binarization, depth, sibling, tree)

    check(graphs, refined, states)


@pytest.mark.parametrize("shape", SHAPES)
def test_edge_tags_are_those_of_all_trees(shape):
    for seed in (0, 51):
        grammar, graphs = random_forests(seed, shape)
        refined = with_edge_tags(graphs, grammar.symbols.n_tags)
        check(graphs, refined, lambda tree, graphs=graphs: tag_states(graphs, tree))


# --- against trees of a treebank -----------------------------------------------------------------


@pytest.mark.parametrize("binarization", ["right", "left"])
def test_forests_of_a_treebank(binarization):
    """Many sentences are as each alone, and forests are large enough for memory to grow."""
    grammar = sample_grammar(1, binarization)
    sentences = [tree.words() for tree in sample_trees()[:12]]
    graphs = forests_of(grammar, sentences, (1e-3,) * 7)
    symbols = grammar.symbols

    def ancestors(graphs):
        return with_ancestors(graphs, symbols, binarization, depth=2, sibling=True)

    for refine in (ancestors, lambda graphs: with_edge_tags(graphs, symbols.n_tags)):
        refined = refine(graphs)
        keeps(graphs, refined)
        log_z, posteriors = graphs.inside_outside(graphs.scores)
        found, of_copies = refined.graphs.inside_outside(refined.graphs.scores)
        np.testing.assert_allclose(found, log_z, atol=1e-9)
        of_edges = np.bincount(refined.edges, of_copies, len(posteriors))
        np.testing.assert_allclose(of_edges, posteriors, atol=1e-9)
        parts = [refine(graphs.select([x])) for x in range(len(graphs))]
        joined = Hypergraphs.joined([part.graphs for part in parts])
        for name in ("begins", "tails", "node_offsets", "edge_offsets", "made", "scores"):
            np.testing.assert_array_equal(getattr(refined.graphs, name), getattr(joined, name))
        np.testing.assert_array_equal(
            refined.states, np.concatenate([part.states for part in parts])
        )
        for name, firsts in (("edges", graphs.edge_offsets), ("nodes", graphs.node_offsets)):
            own = [getattr(p, name) + f for p, f in zip(parts, firsts, strict=False)]
            np.testing.assert_array_equal(getattr(refined, name), np.concatenate(own))
    # Sizes on both sides of what is reserved first.
    sizes = np.diff(refined.graphs.edge_offsets)
    assert sizes.min() < 1024 < 10_000 < sizes.max()


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
    for depth, sibling in ANCESTORS:
        refined = with_ancestors(source, SYMBOLS, "right", depth=depth, sibling=sibling)
        keeps(source, refined)
        assert set(refined.nodes.tolist()) == {0, 1, 3, 4, 7}
        assert set(refined.edges.tolist()) == {0, 1, 2, 3, 7, 8}
    assert with_edge_tags(source, 2).nodes.tolist() == [0, 1, 3, 4, 7]


def test_states_by_hand():
    x, y = (1 + symbol - SYMBOLS.n_tags for symbol in (X, Y))
    refined = with_ancestors(by_hand(), SYMBOLS, "left", depth=2, sibling=True)
    assert refined.nodes.tolist() == [0, 0, 1, 1, 3, 4, 7]
    own = sorted(zip(refined.nodes.tolist(), map(tuple, refined.states.tolist()), strict=True))
    assert own == [
        (0, (x, 0, 0)),
        (0, (x, y, 0)),
        (1, (0, 0, 0)),
        (1, (y, 0, 0)),
        (3, (0, 0, 0)),
        (4, (0, 0, 0)),
        (7, (0, 0, 0)),
    ]
    tags = with_edge_tags(by_hand(), 2)
    assert tags.states.tolist() == [[B, B]] * 4 + [[-1, -1]]


def test_no_sentences():
    nothing = Hypergraphs.joined([])
    assert len(nothing.node_items) == 0
    for refined, width in (
        (with_edge_tags(nothing, 2), 2),
        (with_ancestors(nothing, SYMBOLS, "right", depth=2, sibling=True), 3),
    ):
        assert len(refined.graphs) == len(refined.edges) == len(refined.nodes) == 0
        assert refined.states.shape == (0, width)
        assert refined.graphs.begins.dtype == np.int32
        assert len(Hypergraphs.joined([refined.graphs, by_hand()])) == 1


# --- what is refused -----------------------------------------------------------------------------
@pytest.mark.parametrize(("binarization", "depth"), [("up", 1), ("right", 3), ("right", -1)])
def test_unknown_settings(binarization, depth):
    with pytest.raises(ValueError, match="depth"):
        with_ancestors(by_hand(), SYMBOLS, binarization, depth=depth, sibling=False)


def test_symbols_that_do_not_fit():
    with pytest.raises(ValueError, match="tags"):
        with_edge_tags(by_hand(), 1)
    with pytest.raises(ValueError, match="too many"):
        with_edge_tags(by_hand(), 1 << 20)
    few = Symbols(("a",), ("X",))
    with pytest.raises(ValueError, match="symbols"):
        with_ancestors(by_hand(), few, "right", depth=1, sibling=False)
    tags = Symbols(("a", "b", "c", "d", "e"), ("X",))
    with pytest.raises(ValueError, match="phrases"):
        with_ancestors(by_hand(), tags, "right", depth=1, sibling=False)
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
    [
        ("node_offsets", [0]),
        ("begins", [0]),
        ("tails", [[-1, -1]]),
        ("made", [0]),
        ("symbol", [0]),
    ],
)
def test_the_kernel_checks_its_arrays(name, value):
    arrays = kernel_arrays()
    bad = {**arrays, name: np.array(value, arrays[name].dtype)}
    above = np.array([0, 0, 1, 2, 1, 2], np.int32)
    options = {"above": above, "first_inner": 4, "place": 1, "depth": 2, "sibling": True}
    _annotation.refine(**arrays, n_tags=2)
    _annotation.refine(**arrays, **options)
    with pytest.raises(ValueError, match=r"must|symbols"):
        _annotation.refine(**bad, n_tags=2)
    with pytest.raises(ValueError, match=r"must|symbols"):
        _annotation.refine(**bad, **options)
