import copy
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.tree import Tree

DEPTH = 5_000

LABELS = st.sampled_from(["S", "NP", "VP", "NP-SBJ-1", "PRN", "@X|Y"])
TAGS = st.sampled_from(["NN", "-LRB-", "PRP$", "''"])
WORDS = st.text(
    st.characters(exclude_categories=["Z", "C"], exclude_characters="-"), min_size=1, max_size=6
).filter(lambda word: len(word.split()) == 1)
LEAVES = st.builds(Tree.leaf, TAGS, WORDS)
TREES = st.recursive(
    LEAVES, lambda inner: st.builds(Tree, LABELS, st.lists(inner, min_size=1, max_size=4))
)


def example() -> Tree:
    return parse_tree("(S (NP (PRP We)) (VP (VBD fed) (NP (DT the) (NNS ducks))) (. .))")


def deep(depth: int = DEPTH, word: str = "end") -> Tree:
    tree = Tree.leaf("NN", word)
    for _ in range(depth):
        tree = Tree("NP", [tree, Tree.leaf("DT", "the")])
    return tree


def test_words_tags_and_leaves():
    tree = example()
    assert tree.words() == ["We", "fed", "the", "ducks", "."]
    assert tree.tags() == ["PRP", "VBD", "DT", "NNS", "."]
    assert [leaf.word for leaf in tree.leaves()] == tree.words()
    assert all(leaf.is_leaf for leaf in tree.leaves())
    assert not tree.is_leaf


def test_spans_are_the_phrases_in_pre_order():
    assert example().spans() == [("S", 0, 5), ("NP", 0, 1), ("VP", 1, 4), ("NP", 2, 4)]


def test_unary_chain_gives_repeated_spans_topmost_first():
    tree = parse_tree("(TOP (S (VP (VB Go))))")
    assert tree.spans() == [("TOP", 0, 1), ("S", 0, 1), ("VP", 0, 1)]
    assert Tree.from_spans(["Go"], ["VB"], tree.spans()) == tree


def test_pretty_breaks_only_what_does_not_fit():
    assert example().pretty(width=200) == str(example())
    assert example().pretty(width=42).splitlines() == [
        "(S",
        "  (NP (PRP We))",
        "  (VP (VBD fed) (NP (DT the) (NNS ducks)))",
        "  (. .))",
    ]
    assert example().pretty(width=20, indent=1).splitlines() == [
        "(S",
        " (NP (PRP We))",
        " (VP",
        "  (VBD fed)",
        "  (NP",
        "   (DT the)",
        "   (NNS ducks)))",
        " (. .))",
    ]


@settings(max_examples=30)
@given(TREES, TREES)
def test_round_trips(tree, other):
    rebuilt = Tree.from_spans(tree.words(), tree.tags(), tree.spans())
    assert hash(rebuilt) == hash(tree)
    for copied in (
        rebuilt,
        parse_tree(str(tree)),
        pickle.loads(pickle.dumps(tree)),
        copy.deepcopy(tree),
        copy.copy(tree),
    ):
        assert copied == tree
    assert (tree == other) == (str(tree) == str(other))


def test_deep_trees_are_no_problem():
    tree = deep()
    assert len(tree.words()) == DEPTH + 1
    assert tree.height == DEPTH + 1
    assert tree == deep()
    assert tree != deep(word="other")
    assert hash(tree) == hash(deep())
    assert parse_tree(str(tree)) == tree
    assert Tree.from_spans(tree.words(), tree.tags(), tree.spans()) == tree
    assert pickle.loads(pickle.dumps(tree)) == tree
    assert copy.deepcopy(tree) == tree
    assert deep(300).pretty().count("\n") > 300


@pytest.mark.parametrize("make", [lambda: Tree("NP"), lambda: Tree("NP", [example()], "word")])
def test_a_node_is_a_leaf_or_a_phrase(make):
    with pytest.raises(StructlearnError, match="SL108"):
        make()


@pytest.mark.parametrize(
    "spans",
    [
        [],
        [("S", 0, 2)],
        [("S", 1, 3)],
        [("S", 0, 3), ("NP", 1, 1)],
        [("S", 0, 3), ("NP", 1, 2), ("NP", 0, 1)],
        [("S", 0, 3), ("NP", 0, 2), ("VP", 1, 3)],
        [("S", 0, 3), ("NP", 1, 4)],
        [("S", 0, 3), ("NP", 0, 1), ("S", 0, 3)],
        [("S", 0, 3), ("VP", 1, 3), ("VP", 0, 3)],
    ],
)
def test_brackets_that_are_no_tree(spans):
    with pytest.raises(StructlearnError, match="SL109"):
        Tree.from_spans(["a", "b", "c"], ["X", "Y", "Z"], spans)


@pytest.mark.parametrize(
    ("direction", "expected"),
    [
        ("right", "(NP (DT a) (@NP (JJ b) (@NP (NN c) (NP (NN d) (NN e)))))"),
        ("left", "(NP (@NP (@NP (DT a) (JJ b)) (NN c)) (NP (NN d) (NN e)))"),
    ],
)
def test_binarize(direction, expected):
    tree = parse_tree("(NP (DT a) (JJ b) (NN c) (NP (NN d) (NN e)))")
    assert str(tree.binarize(direction)) == expected
    with pytest.raises(StructlearnError, match="SL401"):
        tree.binarize("both")


@given(TREES)
def test_binary_trees_have_the_words_of_the_tree(tree):
    binary = tree.binarize()
    assert all(len(node.children) <= 2 for node in binary.subtrees())
    assert (binary.words(), binary.tags()) == (tree.words(), tree.tags())
    if not tree.is_leaf:
        assert set(tree.spans()) <= set(binary.spans())
