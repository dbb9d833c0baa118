"""Forests of treebanks: what pruning leaves, against NumPy, and what is kept of the trees."""

import numpy as np
import pytest
from grammar import treebanks
from grammar.grammars import numpy_log_likelihood, tree_log_probability, word_scores
from grammar.numpy_forest import at_level, coarse, generative_weights, learned, numpy_scores, of

from spacy_structlearn.grammar.chart import _chart
from spacy_structlearn.grammar.chart.compiled import compile_grammar
from spacy_structlearn.grammar.discriminative.forests import EDGE_FACTOR, gold_grid
from spacy_structlearn.grammar.discriminative.objective import without_backoff
from spacy_structlearn.grammar.latent.em import treebank_grammar
from spacy_structlearn.grammar.treebank.data import binarize, to_tree
from spacy_structlearn.grammar.treebank.settings import LexiconSettings

KINDS = ("smoothed", "simple", "tied")
KEPT = ("gold_item", "gold_edge", "gold_unary", "gold_root")


def log_z(forests, weights):
    return forests.expected_counts(weights)[0]


def gold_sizes(forests):
    return [int(forests._arrays[name].sum()) for name in KEPT]


def tree_sizes(data):
    """Items, binary and unary productions and tops of the trees."""
    binary, unary = int(data.is_binary.sum()), int(data.is_unary.sum())
    return [data.n_nodes, binary, unary, data.n_trees]


# --- trees ---------------------------------------------------------------------------------------
def test_the_grid_of_a_tree():
    data = binarize(treebanks.trees("(TOP (S (NP (N a)) (VP (V b) (NP (PP (P c) (N d))))))"))
    names = [*data.symbols.names, None]
    grid = gold_grid(data, 0)
    found = {
        (i, j): (names[grid[i, j, 0]], names[grid[i, j, 1]], grid[i, j, 2])
        for i, j in np.argwhere(grid[:, :, 0] >= 0).tolist()
    }
    n, v, p = (data.symbols.tag_index[tag] for tag in "NVP")
    assert found == {
        (0, 1): ("NP", "NP", n),
        (1, 2): ("V", None, v),
        (2, 3): ("P", None, p),
        (3, 4): ("N", None, n),
        (2, 4): ("NP", "PP", 3),
        (1, 4): ("VP", "VP", 2),
        (0, 4): ("S", "S", 1),
    }
    assert (grid[grid[:, :, 0] < 0] == -1).all()


# --- the coarsest grammar ------------------------------------------------------------------------
@pytest.mark.parametrize("binarization", ["right", "left"])
@pytest.mark.parametrize("kind", KINDS)
def test_without_pruning_forests_are_the_chart(kind, binarization):
    data, grammar = learned("toy", kind, 0, binarization)
    (forests,), terminals = coarse(data, grammar)
    weights = generative_weights(grammar, 0, terminals)
    found = log_z(forests, weights)
    parser = compile_grammar(grammar)
    rows = [word_scores(grammar, data.sentences[tree], 0) for tree in range(data.n_trees)]
    wanted = [numpy_log_likelihood(grammar.levels[0], data.symbols.n_tags, r) for r in rows]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    chart = _chart.Chart()
    for tree, row in enumerate(rows):
        grid = gold_grid(data, tree)
        z, *_ = chart.coarse_forest(parser, row.astype(np.float32), grid, 0.0, 0.0)
        assert z == pytest.approx(wanted[tree], rel=1e-6)


# --- trees stay ----------------------------------------------------------------------------------
@pytest.mark.parametrize("threshold", [0.0, 0.1, 2.0])
@pytest.mark.parametrize("kind", KINDS)
def test_trees_stay(kind, threshold):
    data, grammar = learned("toy", kind)
    for number in range(3):
        (forests,), terminals, weights = at_level(data, grammar, number, threshold)
        assert forests.trees.tolist() == list(range(data.n_trees))
        assert gold_sizes(forests) == tree_sizes(data)
        words = [grammar.lexicon.encode(data.sentences[tree]) for tree in range(data.n_trees)]
        gold = np.concatenate(words) * grammar.symbols.n_tags + data.symbol[data.is_word]
        np.testing.assert_array_equal(terminals[forests.gold_terminals()], gold)
        # All refinements of the tree's symbols are allowed.
        a = forests._arrays
        gold = a["gold_item"] > 0
        wanted = (1 << grammar.levels[number].substates[a["item_symbol"][gold]]) - 1
        np.testing.assert_array_equal(a["item_mask"][gold], wanted.astype(np.uint64))
        assert np.isfinite(log_z(forests, weights)).all()


@pytest.mark.parametrize("binarization", ["right", "left"])
def test_the_score_of_a_tree_is_in_its_forest(binarization):
    data, grammar = learned("toy", "simple", binarization=binarization)
    for number in range(3):
        (forests,), _, weights = at_level(data, grammar, number, 1e-3)
        found = log_z(forests, weights)
        for tree in range(data.n_trees):
            rows = word_scores(grammar, data.sentences[tree], number)
            wanted = tree_log_probability(grammar, to_tree(data, tree), rows, number)
            own = numpy_scores(of(forests, weights), tree, only_gold=True)
            assert own.log_z == pytest.approx(wanted, abs=1e-5)
            assert own.log_z <= found[tree] + 1e-6


def test_a_tree_that_the_grammar_lacks_is_left_out():
    """A rare word is known by another spelling, which never had the tag."""
    lines = ["(TOP (S (N a) (V b)))"] * 3 + ["(TOP (S (Q --) (V b)))"] * 3
    lines += ["(TOP (S (N –) (V b)))", "(TOP (S (N a)))"]
    data = binarize(treebanks.trees(*lines))
    grammar = without_backoff(
        treebank_grammar(data, LexiconSettings(lexicon="simple", min_word_count=2))
    )
    assert grammar.lexicon.encode(["–"]).tolist() == grammar.lexicon.encode(["--"]).tolist()
    (forests,), terminals = coarse(data, grammar)
    assert forests.trees.tolist() == [0, 1, 2, 3, 4, 5, 7]
    assert forests.n_sentences == 7
    weights = generative_weights(grammar, 0, terminals)
    found = log_z(forests, weights)
    assert found.shape == (7,)
    assert np.isfinite(found).all()


# --- pruning -------------------------------------------------------------------------------------
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("threshold", [1e-4, 1e-2, 0.3])
def test_what_is_left(number, threshold):
    """Exactly what has the posterior or is of the tree; NumPy says which."""
    data, grammar = learned("toy", rounds=2)
    (forests,), _, weights = at_level(data, grammar, number, 1e-7)
    problem = of(forests, weights)
    a = problem.arrays
    limit = threshold * EDGE_FACTOR
    masks = np.zeros(len(a["item_mask"]), dtype=np.uint64)
    edges, unaries = np.zeros(len(a["edge_left"]), bool), np.zeros(len(a["unary_rule"]), bool)
    roots = np.zeros(len(a["root_rule"]), bool)
    close = []
    for s in range(forests.n_sentences):
        found = numpy_scores(problem, s)
        items = range(*a["cell_item"][a["sentence_cell"][s : s + 2]])
        for x in items:
            q = np.maximum(found.lower[x], found.upper[x])
            close.extend(q / threshold)
            bits = sum(1 << i for i, value in enumerate(q) if value >= threshold)
            masks[x] = a["item_mask"][x] if a["gold_item"][x] else bits
        edges |= found.edges >= limit
        unaries |= found.unaries >= limit
        roots |= found.roots >= limit
        for q in (found.edges, found.unaries, found.roots):
            close.extend(q / limit)
    # Else rounding would decide.
    assert np.abs(np.array(close) - 1).min() > 1e-5
    kept = masks > 0
    parent = np.repeat(a["group_parent"], np.diff(a["group_edge"]))
    rule = np.repeat(a["group_rule"], np.diff(a["group_edge"]))
    edges |= a["gold_edge"] > 0
    edges &= kept[parent] & kept[a["edge_left"]] & kept[a["edge_right"]]
    unaries |= a["gold_unary"] > 0
    unaries &= kept[a["unary_parent"]] & kept[a["unary_child"]]
    roots = (roots | (a["gold_root"] > 0)) & kept[a["root_item"]]
    to = np.cumsum(kept) - 1

    forests.prune(weights, threshold)
    b = forests._arrays
    for name in ("item_symbol", "item_terminal", "gold_item"):
        np.testing.assert_array_equal(b[name], a[name][kept])
    np.testing.assert_array_equal(b["item_mask"], masks[kept])
    np.testing.assert_array_equal(b["edge_left"], to[a["edge_left"][edges]])
    np.testing.assert_array_equal(b["edge_right"], to[a["edge_right"][edges]])
    np.testing.assert_array_equal(b["gold_edge"], a["gold_edge"][edges])
    sizes = np.diff(b["group_edge"])
    assert (sizes > 0).all()
    np.testing.assert_array_equal(np.repeat(b["group_parent"], sizes), to[parent[edges]])
    np.testing.assert_array_equal(np.repeat(b["group_rule"], sizes), rule[edges])
    for name in ("unary_parent", "unary_child"):
        np.testing.assert_array_equal(b[name], to[a[name][unaries]])
    for name in ("unary_rule", "gold_unary"):
        np.testing.assert_array_equal(b[name], a[name][unaries])
    np.testing.assert_array_equal(b["root_item"], to[a["root_item"][roots]])
    for name in ("root_rule", "gold_root"):
        np.testing.assert_array_equal(b[name], a[name][roots])
    assert 0 < kept.sum() < len(kept)
    assert 0 < edges.sum() < len(edges)


# --- sizes ---------------------------------------------------------------------------------------
def test_a_long_sentence():
    """Whose probability float32 cannot hold."""
    line = "(TOP (S (NP (D the) (N cat)) (VP (V saw) (NP (NP (D the) (N dog)) PP)) (. .)))"
    inner = "(PP (P near) (NP (D the) (N tree)))"
    others = [line.replace("PP)", inner + ")").replace("tree", f"tree{i}") for i in range(20)]
    for i in range(28):
        inner = f"(PP (P near) (NP (NP (D a) (N tree{i % 20})) {inner}))"
    data = binarize(treebanks.trees(line.replace("PP)", inner + ")"), *others))
    n = int(data.is_word.sum())
    assert data.is_word[: data.offsets[1]].sum() >= 90
    grammar = without_backoff(treebank_grammar(data))
    (forests,), terminals = coarse(data, grammar, 1e-4)
    weights = generative_weights(grammar, 0, terminals)
    found, counts = forests.expected_counts(weights)
    assert np.isfinite(found).all()
    assert found[0] < np.log(np.finfo(np.float32).tiny) - 20
    # With words so likely that float64 can hold it.
    rows = word_scores(grammar, data.sentences[0], 0)
    level, n_tags = grammar.levels[0], data.symbols.n_tags
    whole = numpy_log_likelihood(level, n_tags, 20 * rows) - len(rows) * np.log(20)
    assert whole - 0.1 < found[0] <= whole + 1e-3
    assert counts.lexical.sum() == pytest.approx(n, rel=1e-4)
    assert counts.root.sum() == pytest.approx(data.n_trees, rel=1e-5)
    assert counts.binary.sum() == pytest.approx(n - data.n_trees, rel=1e-4)
