"""Hypergraphs: the kernel against enumeration, forests as hypergraphs, and the closest trees."""

from dataclasses import fields
from itertools import pairwise, product

import numpy as np
import pytest
from grammar.grammars import NEVER, SMALL, few_trees, flat_trees, sample_grammar, sample_trees

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.chart import _hypergraph
from spacy_structlearn.grammar.chart.decode import DECODERS, ChartParser
from spacy_structlearn.grammar.chart.hypergraph import Hypergraphs
from spacy_structlearn.grammar.latent.em import treebank_grammar
from spacy_structlearn.grammar.treebank.data import binarize
from spacy_structlearn.trees.tree import Tree


def random_graph(rng, n_nodes=6, most=3, density=0.9):
    """One hypergraph whose edges make items of their own."""
    heads, tails = [], []
    for node in range(n_nodes):
        for _ in range(rng.integers(1, most + 1) if rng.random() < density else 0):
            below = rng.integers(-1, node, size=2) if node else np.array([-1, -1])
            heads.append(node)
            tails.append(np.sort(below)[::-1])
    n_edges = len(heads)
    made = np.where(rng.random(n_edges) < 0.7, rng.integers(0, 4, n_edges), -1)
    return Hypergraphs(
        items=np.array([[0, i, i + 1] for i in range(4)], np.int32),
        item_offsets=np.array([0, 4]),
        node_offsets=np.array([0, n_nodes]),
        edge_offsets=np.array([0, n_edges]),
        begins=np.searchsorted(heads, np.arange(n_nodes + 1)).astype(np.int32),
        tails=np.array(tails, np.int32).reshape(-1, 2),
        scores=rng.normal(size=n_edges) * 3,
        made=made.astype(np.int32),
        n_words=np.array([4], np.int32),
        chain=np.full(n_edges, -1, np.int32),
    )


def derivations(graph, x=0):
    """The edges of each tree of one sentence, as numbers of all, possibly several times."""
    first = int(graph.edge_offsets[x])
    begin, end = graph.node_offsets[x : x + 2] + x
    bounds = graph.begins[begin : end + 1].tolist()
    of_node = []
    for low, high in pairwise(bounds):
        found = []
        for edge in range(first + low, first + high):
            below = [of_node[tail] for tail in graph.tails[edge].tolist() if tail >= 0]
            found += [(edge, *(e for part in parts for e in part)) for parts in product(*below)]
        of_node.append(found)
    return of_node[-1]


def brute_force(graph, scores, x=0):
    """log Z, posteriors of edges, and the scores of all trees of one sentence."""
    trees = derivations(graph, x)
    values = np.array([scores[list(tree)].sum() for tree in trees])
    log_z = np.logaddexp.reduce(values) if len(values) else -np.inf
    posteriors = np.zeros(len(scores))
    if log_z > -np.inf:
        for tree, value in zip(trees, values, strict=True):
            np.add.at(posteriors, list(tree), np.exp(value - log_z))
    return log_z, posteriors, values


def forests(seed=0, n=4, shape="right", n_trees=500, root="TOP", **settings):
    """A small grammar's forests of a sentence of n words and of one of a word."""
    options = {"first_seed": seed, "shape": shape, "root": root, **SMALL}
    grammar, words, trees = few_trees(n, 20, n_trees, **options)
    parser = ChartParser(grammar, thresholds=NEVER, **settings)
    graphs, numbers = parser.forests([words, words[:1], words[::-1]])
    assert numbers[0] == 0
    return grammar, graphs, trees


def equal(a, b):
    for field in fields(Hypergraphs):
        mine, its = getattr(a, field.name), getattr(b, field.name)
        assert mine.dtype == its.dtype, field.name
        np.testing.assert_array_equal(mine, its, err_msg=field.name)


def decoded(graphs, scores, decoder, symbols=None):
    """The edges of the best trees, and what `inside_outside` returns."""
    log_z, posteriors = graphs.inside_outside(scores)
    mask = graphs.best(graphs.gains(scores, posteriors, decoder, symbols))[1]
    return mask, log_z, posteriors


# --- kernel --------------------------------------------------------------------------------------
@pytest.mark.parametrize("impossible", [0.0, 0.3])
@pytest.mark.parametrize("n_nodes", range(1, 6))
@pytest.mark.parametrize("seed", range(4))
def test_inside_outside_and_best_are_those_of_all_trees(seed, n_nodes, impossible):
    rng = np.random.default_rng(seed)
    parts = [random_graph(rng, n_nodes, 2), random_graph(rng, 4), random_graph(rng, 1)]
    graphs = Hypergraphs.joined(parts)
    scores = np.where(rng.random(len(graphs.scores)) < impossible, -np.inf, graphs.scores)
    log_z, posteriors = graphs.inside_outside(scores)
    value, mask = graphs.best(scores)
    assert mask.dtype == bool
    for x in range(3):
        edges = slice(*graphs.edge_offsets[x : x + 2])
        expected, marginals, values = brute_force(graphs, scores, x)
        assert log_z[x] == pytest.approx(expected, abs=1e-10)
        np.testing.assert_allclose(posteriors[edges], marginals[edges], atol=1e-10)
        assert value[x] == pytest.approx(values.max(initial=-np.inf), abs=1e-10)
        if value[x] > -np.inf:
            trees = derivations(graphs, x)
            chosen = {
                tuple(sorted(set(trees[i]))) for i in np.flatnonzero(values > value[x] - 1e-9)
            }
            assert tuple(np.flatnonzero(mask[edges]) + edges.start) in chosen
        else:
            assert not mask[edges].any()


def test_no_sentences():
    nothing = Hypergraphs.joined([])
    assert len(nothing) == 0
    assert [len(part) for part in nothing.inside_outside(nothing.scores)] == [0, 0]
    for decoder in DECODERS:
        scores = nothing.edge_scores(np.empty(0), 1.0)
        mask, log_z, posteriors = decoded(nothing, scores, decoder, sample_grammar().symbols)
        assert not len(mask) + len(log_z) + len(posteriors)
        assert mask.dtype == bool
    assert nothing.k_best(nothing.scores, 3) == []
    assert len(nothing.closest([], sample_grammar().symbols)) == 0
    assert nothing.item_posteriors(posteriors).dtype == np.float64
    assert len(nothing.item_posteriors(posteriors)) == 0
    graph = random_graph(np.random.default_rng(0))
    equal(graph.select([]), nothing)
    equal(Hypergraphs.joined([nothing, graph, nothing]), graph)


def set_to(name, value):
    return lambda arrays: {**arrays, name: np.asarray(value, arrays[name].dtype)}


def changed(name, place, value):
    def change(arrays):
        array = arrays[name].copy()
        array[place] = value
        return {**arrays, name: array}

    return change


def cut(name, *part):
    return lambda arrays: {**arrays, name: np.ascontiguousarray(arrays[name][part])}


CHANGES = [
    *(set_to("node_offsets", value) for value in ([], [0], [0, 4], [0, -1, 8])),
    set_to("edge_offsets", [0]),
    *(changed("node_offsets", place, value) for place, value in ((0, 1), (1, 10**12))),
    *(changed("edge_offsets", place, value) for place, value in ((0, -1), (1, 10**12))),
    *(changed("begins", place, value) for place, value in ((0, 1), (2, -5), (2, 1000), (-1, 1000))),
    changed("tails", (0, 0), -2),
    changed("tails", (0, 1), 10**9),
    cut("tails", slice(-1)),
    cut("tails", slice(None), slice(1)),
    cut("begins", slice(-1)),
    changed("tails", (0, 1), 0),
    changed("tails", (-1, 0), 5),
    changed("tails", (-1, 1), 10**9),
    changed("tails", 1, [-1, 0]),
    changed("scores", 0, np.nan),
    changed("scores", 1, np.inf),
    cut("scores", slice(-1)),
]


@pytest.mark.parametrize("change", CHANGES)
def test_the_kernel_checks_its_arrays(change):
    graph = random_graph(np.random.default_rng(1), 6, density=1.0)
    names = ("node_offsets", "edge_offsets", "begins", "tails", "scores")
    arrays = {name: getattr(graph, name) for name in names}
    _hypergraph.inside_outside(**arrays)
    for function in (_hypergraph.inside_outside, _hypergraph.best):
        with pytest.raises(ValueError, match=r"must|tails"):
            function(**change(arrays))


# --- scores --------------------------------------------------------------------------------------
def test_scores_of_edges_are_those_of_the_grammar_and_of_items():
    rng = np.random.default_rng(3)
    graphs = Hypergraphs.joined([random_graph(rng), random_graph(rng)])
    own = rng.normal(size=8)
    for edge, score in enumerate(graphs.edge_scores(own, 0.3)):
        item = graphs.made[edge]
        expected = 0.3 * graphs.scores[edge] + (own[item] if item >= 0 else 0.0)
        assert score == pytest.approx(expected, abs=1e-12)
    assert graphs.edge_scores(own.astype(np.float32), 1.0).dtype == np.float64
    for bad in (own[:-1], own[:, None], np.append(own[1:], np.nan), np.append(own[1:], np.inf)):
        with pytest.raises(StructlearnError, match="SL425"):
            graphs.edge_scores(bad, 1.0)
    assert np.isneginf(graphs.edge_scores(np.full(8, -np.inf), 1.0)[graphs.made >= 0]).all()


# --- forests -------------------------------------------------------------------------------------
def test_forests_are_joined_and_selected():
    _, graphs, _ = forests()
    parts = [graphs.select([x]) for x in range(len(graphs))]
    equal(Hypergraphs.joined(parts), graphs)
    equal(graphs.select(np.arange(len(graphs))), graphs)
    chosen = graphs.select([2, 0, 2])
    assert chosen.n_words.tolist() == graphs.n_words[[2, 0, 2]].tolist()
    own = np.random.default_rng(0).normal(size=len(graphs.items))
    of_chosen = np.concatenate([own[slice(*graphs.item_offsets[x : x + 2])] for x in (2, 0, 2)])
    log_z, _ = graphs.inside_outside(graphs.edge_scores(own, 1.0))
    found, _ = chosen.inside_outside(chosen.edge_scores(of_chosen, 1.0))
    np.testing.assert_array_equal(found, log_z[[2, 0, 2]])


@pytest.mark.parametrize("seed", range(5))
def test_thinned_forests_have_the_trees_of_the_edges_that_are_left(seed):
    _, graphs, _ = forests()
    kept = np.random.default_rng(seed).random(len(graphs.scores)) < 0.9
    fewer = graphs.thinned(kept)
    log_z, posteriors = graphs.inside_outside(np.where(kept, graphs.scores, -np.inf))
    found, left = fewer.inside_outside(fewer.scores)
    np.testing.assert_allclose(found, log_z)
    np.testing.assert_allclose(left, posteriors[kept], atol=1e-12)
    np.testing.assert_array_equal(fewer.heads, graphs.heads[kept])
    equal(graphs.thinned(np.ones_like(kept)), graphs)


@pytest.mark.parametrize("threads", [1, 3])
def test_forests_of_many_sentences(threads):
    parser = ChartParser(sample_grammar(2), threads=threads, thresholds=NEVER)
    sentences = [tree.words() for tree in sample_trees()[:60]]
    sentences[3] = []
    graphs, numbers = parser.forests(sentences)
    assert 3 not in numbers
    assert graphs.n_words.tolist() == [len(sentences[x]) for x in numbers]
    for x in (0, 20, len(graphs) - 1):
        alone, _ = parser.forests([sentences[numbers[x]]])
        equal(graphs.select([x]), alone)
    log_z, _ = graphs.inside_outside(graphs.scores)
    np.testing.assert_allclose(log_z, 0, atol=1e-4)
    nothing, none = parser.forests([[], []])
    assert len(nothing) == len(none) == 0


# --- decoders ------------------------------------------------------------------------------------
def test_labelled_recall_asks_for_symbols():
    _, graphs, _ = forests()
    with pytest.raises(ValueError, match="phrases"):
        decoded(graphs, graphs.scores, "labelled_recall")


# --- the closest tree ----------------------------------------------------------------------------
def brackets_of(graphs, mask, symbols, x=0):
    edges = slice(*graphs.edge_offsets[x : x + 2])
    items = graphs.made[edges][mask[edges]]
    found = graphs.items[items[items >= 0]].tolist()
    last = symbols.n_tags + symbols.n_phrases
    return sorted((symbols.names[a], i, j) for a, i, j in found if a < last)


@pytest.mark.parametrize("seed", range(8))
def test_the_closest_tree_of_all(seed):
    grammar, graphs, _ = forests(5 * seed)
    symbols = grammar.symbols
    rng = np.random.default_rng(seed)
    n = int(graphs.n_words[0])
    words, tags = ["w"] * n, [symbols.tags[i] for i in rng.integers(3, size=n)]
    spans = [(symbols.phrases[0], 0, n), (symbols.phrases[-1], 1, n), ("Unknown", 2, n)]
    gold = Tree.from_spans(words, tags, [("TOP", 0, n), *spans])
    graph = graphs.select([0])
    [chosen] = [brackets_of(graph, graph.closest([gold], symbols), symbols)]
    wanted = {*spans, *((tag, i, i + 1) for i, tag in enumerate(tags))}

    def worth(brackets):
        return sum(
            0.1 * (b in wanted) if b[0] in symbols.tags else 1.0 if b in wanted else -0.6
            for b in brackets
        )

    def mask_of(tree):
        mask = np.zeros(len(graph.scores), bool)
        mask[list(tree)] = True
        return mask

    trees = derivations(graph)
    best = max(worth(brackets_of(graph, mask_of(tree), symbols)) for tree in trees)
    assert worth(chosen) == pytest.approx(best, abs=0.02)


def test_the_inserted_root_is_gold_only_over_several_children():
    trees = flat_trees("(TOP (t a) (u b))")
    grammar = treebank_grammar(binarize(trees, "right"))
    graphs, numbers = ChartParser(grammar, thresholds=NEVER).forests([t.words() for t in trees])
    assert numbers.tolist() == [0, 1, 2, 3]
    mask = graphs.closest(trees, grammar.symbols)
    for x, tree in enumerate(trees):
        expected = [*tree.spans()[len(tree.children) < 2 :]]
        expected += [(tag, i, i + 1) for i, tag in enumerate(tree.tags())]
        assert brackets_of(graphs, mask, grammar.symbols, x) == sorted(expected)
    with pytest.raises(ValueError, match="tree"):
        graphs.closest(trees[:2], grammar.symbols)
