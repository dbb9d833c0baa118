import numpy as np
import pytest
from grammar import treebanks

from spacy_structlearn.grammar.treebank.data import binarize, restore, to_tree
from spacy_structlearn.grammar.treebank.symbols import united_rules
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.tree import Tree


def rules_by_name(data):
    names = data.symbols.names
    binary = {tuple(names[x] for x in rule) for rule in data.rules.binary.tolist()}
    unary = {tuple(names[x] for x in rule) for rule in data.rules.unary.tolist()}
    return binary, unary, {names[x] for x in data.rules.root.tolist()}


def test_symbols_are_tags_then_phrases_then_intermediates():
    data = binarize(treebanks.trees("(TOP (S (NP (X x)) (VP (V v) (NP (X y)) (PP (P p))) (. .)))"))
    symbols = data.symbols
    assert symbols.tags == (".", "P", "V", "X")
    assert symbols.phrases == ("NP", "PP", "S", "VP")
    assert symbols.names[symbols.n_tags + symbols.n_phrases :] == ("@S", "@VP")
    assert symbols.size == 10 == len(symbols.names)
    assert symbols.names[symbols.intermediates[0]] == "S"


def test_right_binarisation_is_that_of_the_paper():
    data = binarize(treebanks.trees("(TOP (S (A a) (B b) (C c) (D d)))"))
    binary, unary, root = rules_by_name(data)
    assert binary == {("S", "A", "@S"), ("@S", "B", "@S"), ("@S", "C", "D")}
    assert not unary
    assert root == {"S"}


def test_rules_and_pairs_are_sorted_and_agree_with_the_nodes():
    data = binarize(treebanks.sample())
    assert data.rules.problem(data.symbols) is None
    binary = np.flatnonzero(data.is_binary)
    children = data.symbol[data.left[binary]], data.symbol[data.right[binary]]
    columns = np.stack([data.symbol[binary], *children], axis=1)
    assert np.array_equal(columns, data.rules.binary[data.production[binary]])
    assert (data.left < np.arange(data.n_nodes)).all()
    assert data.pair_counts.sum() == sum(len(tree.words()) for tree in treebanks.sample())


@pytest.mark.parametrize("binarization", ["right", "left"])
@pytest.mark.parametrize(("treebank", "root"), [(treebanks.sample, "TOP"), (treebanks.toy, "R")])
def test_treebanks_come_back(treebank, root, binarization):
    trees = treebank()
    data = binarize(trees, binarization, root)
    assert [to_tree(data, i) for i in range(len(trees))] == trees
    assert root == "TOP" or data.symbols.names[data.symbols.inserted_root] == "R"


def test_a_tag_and_a_phrase_of_one_name_are_two_symbols():
    tree = parse_tree("(TOP (X (X x) (X (X y))))")
    data = binarize([tree])
    assert data.symbols.size == 2
    assert to_tree(data, 0) == tree


def test_long_chains_keep_top_and_bottom_and_the_most_frequent_labels_between():
    often, seldom = "(TOP (A (B (C (T t)))))", "(TOP (A (D (C (T t)))))"
    data = binarize(treebanks.trees(often, often, seldom))
    assert rules_by_name(data)[1] == {("A", "C"), ("C", "T")}
    assert [str(to_tree(data, i)) for i in range(3)] == [often] * 3


def test_a_tree_without_the_root_label_gets_it():
    data = binarize(treebanks.trees("(S (A a) (B b))", "(T t)"))
    assert str(to_tree(data, 0)) == "(TOP (S (A a) (B b)))"
    assert str(to_tree(data, 1)) == "(TOP (T t))"


def test_deep_trees_need_no_recursion():
    tree = Tree.leaf("T", "t")
    for i in range(5000):
        tree = Tree("AB"[i % 2], [tree, Tree.leaf("T", "t")])
    data = binarize([Tree("TOP", [tree])])
    assert to_tree(data, 0).children[0] == tree


def test_restore_says_where_a_bracket_is_from():
    data = binarize(treebanks.trees("(TOP (A (B (C (T t) (T u) (T v)))))"))
    symbols = data.symbols
    a, b, c = (symbols.phrase_index[x] for x in "ABC")
    brackets = [(a, 0, 3), (c, 0, 3), (0, 0, 1), (symbols.size - 1, 1, 3), (0, 1, 2), (0, 2, 3)]
    found = restore(symbols, data.chains, brackets)
    assert found == [(a, 0, 3, 0), (b, 0, 3, 0), (c, 0, 3, 1)]


@pytest.mark.parametrize("binarization", ["right", "left"])
def test_two_treebanks_over_the_symbols_of_both(binarization):
    strange = "(TOP (AA (Z (BB (Y (NP (Q q) (Q r) (Q s))))) (NP (AB t))))"
    both = treebanks.sample(), treebanks.trees(strange)
    together = binarize([*both[0], *both[1]], binarization)
    symbols = together.symbols
    parts = [binarize(trees, binarization) for trees in both]
    wide = [binarize(both[i], binarization, known=parts[1 - i].symbols) for i in (0, 1)]
    for before, after in zip(parts, wide, strict=True):
        assert after.symbols == symbols
        assert to_tree(after, 0) == to_tree(before, 0)
    rules, *numbers = united_rules(wide[0].rules, wide[1].rules, symbols.size)
    assert rules == together.rules
    every = [*map(tuple, [*rules.binary.tolist(), *rules.unary.tolist()]), *rules.root.tolist()]
    for part, found in zip(wide, numbers, strict=True):
        own = [*part.rules.binary.tolist(), *part.rules.unary.tolist()]
        assert [every[i] for i in found] == [*map(tuple, own), *part.rules.root.tolist()]


def test_no_trees():
    data = binarize([])
    assert data.n_trees == data.n_nodes == data.symbols.size == 0
