import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.normalize import normalize, strip_function
from spacy_structlearn.trees.tree import Tree

LABELS = st.sampled_from(["", "TOP", "S", "NP", "NP-SBJ-1", "NP=2", "-LRB-"])
LEAVES = st.builds(Tree.leaf, st.sampled_from(["-NONE-", "NN", "-LRB-"]), st.just("word"))
TREES = st.recursive(
    LEAVES, lambda inner: st.builds(Tree, LABELS, st.lists(inner, min_size=1, max_size=3))
)


@pytest.mark.parametrize(
    ("label", "stripped"),
    [
        ("NP", "NP"),
        ("NP-SBJ-1", "NP"),
        ("S=2", "S"),
        ("NP=1-SBJ", "NP"),
        ("-LRB-", "-LRB-"),
        ("-NONE-", "-NONE-"),
        ("", ""),
    ],
)
def test_strip_function(label, stripped):
    assert strip_function(label) == stripped


@pytest.mark.parametrize(
    ("raw", "normal"),
    [
        ("( (S-IMP (VP (VB Go))) )", "(TOP (S (VP (VB Go))))"),
        ("(ROOT (S (VP (VB Go))))", "(TOP (S (VP (VB Go))))"),
        ("(S (VP (VB Go)))", "(TOP (S (VP (VB Go))))"),
        ("(S (NP-SBJ-1 (-NONE- *)) (VP (VB Go)))", "(TOP (S (VP (VB Go))))"),
        ("(S (VP (VB Go) (SBAR (-NONE- 0) (S (-NONE- *T*)))))", "(TOP (S (VP (VB Go))))"),
        ("(S (NP-SBJ (NP=2 (NN rain))))", "(TOP (S (NP (NN rain))))"),
        ("(NP (NN rain) (-LRB- -LRB-))", "(TOP (NP (NN rain) (-LRB- -LRB-)))"),
        ("(NP (NP-1 (NP (NP-TMP (NN noon)))))", "(TOP (NP (NN noon)))"),
        ("( (TOP (S (NN x))) )", "(TOP (S (NN x)))"),
        ("(NN x)", "(TOP (NN x))"),
        # A phrase over a word with the same label is no repetition of a phrase.
        ("(X (X x))", "(TOP (X (X x)))"),
    ],
)
def test_normalize(raw, normal):
    assert str(normalize(parse_tree(raw))) == normal


def test_each_step_can_be_left_out():
    tree = parse_tree("( (NP-1 (NP (NN x) (-NONE- *))) )")
    assert str(normalize(tree, root=None)) == "( (NP (NN x)))"
    assert str(normalize(tree, root="ROOT")) == "(ROOT (NP (NN x)))"
    assert str(normalize(tree, strip_functions=False)) == "(TOP (NP-1 (NP (NN x))))"


@given(TREES)
def test_normalising_twice_changes_nothing(tree):
    normal = normalize(tree)
    words = [leaf.word for leaf in tree.leaves() if leaf.label != "-NONE-"]
    if normal is None:
        assert not words
    else:
        assert normal.words() == words
        assert normal.label == "TOP"
        assert normalize(normal) == normal
