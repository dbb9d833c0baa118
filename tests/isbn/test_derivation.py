"""Derivations of trees: the transforms, vocabulary, legality, states, and that all comes back."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isbn import networks
from isbn.automaton import decode, replay
from isbn.networks import sample, symbols_of

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.isbn.derivation import encode
from spacy_structlearn.isbn.symbols import MODIFY, PROJECT, DerivationSymbols, segments
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.trees.tree import Tree

MARY = "(TOP (S (NP (NNP Mary)) (VP (VBZ runs) (RB often))))"


def parsed(*texts):
    return [parse_tree(text) for text in texts]


def moves_of(symbols, derivations, number=0):
    """The moves of a derivation as they are written: shift a, project S+VP, attach, modify."""
    names = []
    for move, label, _, _ in networks.moves_of(derivations, number):
        name = ("shift", "project", "attach", "modify")[move]
        names.append(f"{name} {'+'.join(symbols.chains[label])}" if move == PROJECT else name)
        assert (label >= 0) == (move == PROJECT)
    return names


def decoded(symbols, derivations, number, tree):
    moves, labels, *_ = zip(*networks.moves_of(derivations, number), strict=True)
    return decode(symbols, moves, labels, tree.words(), tree.tags())


def round_trip(trees, **settings):
    """Symbols and derivations of trees that all come back, by legal moves only."""
    symbols, _ = symbols_of(trees, **settings)
    derivations, kept = encode(trees, symbols)
    assert kept.tolist() == list(range(len(trees)))
    for number, tree in enumerate(trees):
        assert decoded(symbols, derivations, number, tree) == tree
        replay(symbols, derivations, number)
    return symbols, derivations


# --- moves ----------------------------------------------------------------------------------------
def test_the_example_of_the_paper():
    symbols, derivations = round_trip(parsed(MARY), min_chain_count=0)
    expected = "shift, project NP, project S, shift, project VP, shift, attach, attach, attach"
    assert moves_of(symbols, derivations) == expected.split(", ")
    assert symbols.max_projects == 2
    assert symbols.top_label == "S"


@pytest.mark.parametrize(
    "text",
    [
        "(TOP (X (X (A a) (A b)) (B c) (C d)))",  # three children
        "(TOP (X (A a) (X (A b) (A c))))",  # the second child
        "(TOP (X (X a) (B b)))",  # a tag of the same name
        "(TOP (X (Y (X (A a) (A b))) (B c)))",  # not the child itself
    ],
)
def test_what_is_no_adjunction(text):
    _, derivations = round_trip(parsed(text))
    assert MODIFY not in derivations.moves.tolist()


def test_collapsed_chains():
    trees = parsed(*["(TOP (S (VP (V a))))"] * 3, "(TOP (SBAR (S (VP (V a)))))", "(TOP (VP (V a)))")
    symbols, derivations = round_trip(trees, min_chain_count=4)
    assert symbols.chains == (("S",), ("S", "VP"), ("SBAR",), ("VP",))
    assert moves_of(symbols, derivations) == ["shift", "project S+VP", "attach"]
    assert moves_of(symbols, derivations, 3)[1:3] == ["project S+VP", "project SBAR"]
    assert symbols.max_projects == 2
    symbols, derivations = round_trip(trees, min_chain_count=5)
    assert symbols.chains == (("S",), ("SBAR",), ("VP",))
    assert symbols.max_projects == 3
    symbols, derivations = round_trip(trees, min_chain_count=1)
    assert moves_of(symbols, derivations, 3) == ["shift", "project SBAR+S+VP", "attach"]
    assert symbols.max_projects == 1
    assert round_trip(trees, min_chain_count=0)[0].chains == (("S",), ("SBAR",), ("VP",))


def test_a_chain_that_is_no_label_is_projected_by_its_parts():
    symbols, _ = symbols_of(
        parsed(*["(TOP (S (VP (V a))))"] * 3, "(TOP (X (Y (Z (V a)))))", "(TOP (Z (V a)))"),
        min_chain_count=3,
    )
    tree = parse_tree("(TOP (X (S (VP (V a)))))")
    derivations, _ = encode([tree], symbols)
    assert moves_of(symbols, derivations) == ["shift", "project S+VP", "project X", "attach"]
    assert decoded(symbols, derivations, 0, tree) == tree
    assert segments(("S", "VP"), symbols.chain_index) == (symbols.chain_index["S", "VP"],)
    assert segments(("S", "Q"), symbols.chain_index) is None


def test_the_root_over_several_children_over_a_word_and_missing():
    texts = ["(TOP (A (t a)) (B (t b)))", "(TOP (t a))", "(A (t a) (t b))", "(t a)"]
    trees = parsed(*texts)
    symbols, _ = symbols_of(trees)
    derivations, kept = encode(trees, symbols)
    assert kept.tolist() == [0, 1, 2, 3]
    expected = ["shift", "project A", "project TOP", "shift", "project B", "attach", "attach"]
    assert moves_of(symbols, derivations) == expected
    assert moves_of(symbols, derivations, 1) == ["shift", "attach"]
    found = [str(decoded(symbols, derivations, i, tree)) for i, tree in enumerate(trees)]
    assert found == [*texts[:2], "(TOP (A (t a) (t b)))", "(TOP (t a))"]
    assert symbols.phrases == ("A", "B", "TOP")
    assert symbols.top_label == "A"
    bare, _ = round_trip(parsed("(TOP (t a))"))
    assert (bare.top_label, bare.chains, bare.max_projects) == ("TOP", (("TOP",),), 1)
    assert symbols_of(parsed("(TOP (t a) (t b))"))[0].top_label == "TOP"
    assert symbols_of(parsed("(R (t a) (t b))"), root="R")[0].top_label == "R"


def test_deep_trees_need_no_recursion():
    tree = Tree.leaf("T", "t")
    for i in range(1_000):
        tree = Tree("AB"[i % 2], [tree, Tree.leaf("T", "t")])
    other = Tree("A", [tree])
    for _ in range(1_000):
        other = Tree("A", [other, Tree.leaf("T", "t")])
    right = Tree.leaf("T", "t")
    for _ in range(1_000):
        right = Tree("C", [Tree.leaf("T", "t"), right])
    trees = [Tree("TOP", [found]) for found in (tree, other, right)]
    symbols, _ = symbols_of(trees)
    derivations, _ = encode(trees, symbols)
    for number, found in enumerate(trees):
        assert decoded(symbols, derivations, number, found) == found


# --- vocabulary -----------------------------------------------------------------------------------
def tagged(*counts):
    """A tree for each word of (tag, word, how often)."""
    return [
        Tree("TOP", [Tree("A", [Tree.leaf(tag, word)])])
        for tag, word, count in counts
        for _ in range(count)
    ]


def test_rare_words_share_an_item():
    trees = tagged(
        ("N", "cat", 4), ("N", "dog", 3), ("N", "emu", 2), ("V", "cat", 3), ("V", "go", 5)
    )
    symbols, _ = symbols_of(trees, min_word_count=3, min_unknown=0)
    assert symbols.words == (("", "cat", "dog"), ("", "cat", "go"))
    assert symbols.item_offsets.tolist() == [0, 3, 6]
    assert symbols.item_offsets.dtype == np.int32
    assert symbols.unknown.tolist() == [0, 3]
    assert symbols.n_items == 6
    nouns, verbs = {"cat": 1, "dog": 2, "emu": 0, "go": 0, "": 0}, {"cat": 4, "dog": 3, "go": 5}
    for tag, items in enumerate((nouns, verbs)):
        assert {word: symbols.item(tag, word)[0] for word in items} == items
    derivations, _ = encode(trees, symbols)
    assert derivations.items.tolist() == [1] * 4 + [2] * 3 + [0] * 2 + [4] * 3 + [5] * 5
    assert set(derivations.signatures.tolist()) == {-1}


def test_unknown_items_have_some_tokens():
    counts = ("N", "a", 4), ("N", "b", 3), ("N", "c", 3), ("N", "d", 9), ("V", "only", 9)
    trees = tagged(*counts, ("V", "rare", 1))
    nouns, verbs = {3: ("", "a", "c", "d"), 4: ("", "a", "d")}, {1: ("", "only"), 2: ("",)}
    for tag, cases in enumerate((nouns, verbs)):
        for min_unknown, words in cases.items():
            symbols, _ = symbols_of(trees, min_word_count=3, min_unknown=min_unknown)
            assert symbols.words[tag] == words


def test_signatures():
    trees = tagged(
        ("N", "cats", 2), ("N", "dogs", 1), ("N", "emu", 1), ("V", "goes", 3), ("V", "see", 9)
    )
    symbols, log_probs = symbols_of(trees, min_word_count=3, min_unknown=4, signature="english")
    assert symbols.signatures == ("", "UNK", "UNK-LC", "UNK-LC-s")
    assert symbols.words[1] == ("",)
    s, plain = 3, 2
    assert symbols.item(0, "cats") == (0, s)
    assert symbols.item(0, "emu", initial=True) == (0, plain)
    assert symbols.item(1, "Word") == (1, 1)
    derivations, _ = encode(trees, symbols)
    assert derivations.signatures.tolist() == [s] * 3 + [plain] + [s] * 3 + [plain] * 9
    counts = np.array([[0, 0, 1, 3], [0, 0, 9, 3]], dtype=float)
    background = counts.sum(axis=0) + 1
    expected = counts + background / background.sum()
    np.testing.assert_allclose(np.exp(log_probs), expected / expected.sum(axis=1, keepdims=True))
    assert log_probs.dtype == np.float64
    plain, none = symbols_of(trees)
    assert plain.signatures == ()
    assert none.shape == (2, 0)
    assert plain.item(0, "unheard") == (0, -1)


def test_other_spellings_of_known_words():
    trees = tagged(("Q", "``", 9), ("Q", "''", 9), ("N", "don't", 9), ("N", "rare", 5))
    symbols, _ = symbols_of(trees, min_unknown=0, min_word_count=6, normalization="typographic")
    n, q = 0, 1
    assert symbols.item(n, "don’t") == symbols.item(n, "don't")
    assert symbols.item(q, '"', before=0) == symbols.item(q, "``")
    assert symbols.item(q, '"', before=1) == symbols.item(q, "''")
    assert symbols.item(q, "don’t")[0] == symbols.unknown[q]
    words = ['"', "don’t", '"', "rare"]
    tree = Tree("TOP", [Tree("A", [Tree.leaf("NQ"[word == '"'], word) for word in words])])
    expected = [symbols.item(q, "``"), symbols.item(n, "don't"), symbols.item(q, "''")]
    assert encode([tree], symbols)[0].items.tolist()[:3] == [item for item, _ in expected]
    plain, _ = symbols_of(trees, min_unknown=0, min_word_count=6)
    assert plain.item(n, "don’t")[0] == plain.unknown[n]


@given(st.lists(st.sampled_from(["the", "market", "The", "unheard", '"', "“", ".", "5", ""])))
@settings(max_examples=50, deadline=None)
def test_candidates_are_the_items_of_each_tag(words):
    symbols = sample_symbols()
    items, signatures = symbols.candidates(words)
    assert items.shape == (len(words), symbols.n_tags)
    for i, word in enumerate(words):
        for tag in range(symbols.n_tags):
            item, signature = symbols.item(tag, word, i == 0, words[:i].count(word))
            assert items[i, tag] == item
            assert signature == (signatures[i] if item == symbols.unknown[tag] else -1)


@cache
def sample_symbols():
    settings = {"min_word_count": 3, "min_chain_count": 3, "signature": "shape"}
    return symbols_of(sample(), normalization="typographic", **settings)[0]


GOOD = {
    "tags": ("N", "V"),
    "chains": (("A",), ("A", "B"), ("B",)),
    "words": (("", "cat"), ("",)),
    "max_projects": 2,
}


WRONG = {
    "tags": (("V", "N"), ("N", "N"), ("N", 3), ("N",)),
    "chains": ((("B",), ("A",)), (("A",), ("A",)), ((), ("A",)), (("A",), ("A", "B"))),
    "words": (
        *((("", "cat", "cat"), ("",)), (("", "dog", "cat"), ("",)), (("", "cat"), ())),
        *((("cat",), ("",)), (("", "cat", ""), ("",))),
    ),
    "max_projects": (0, 2.0),
    "root": (None,),
}


@pytest.mark.parametrize(
    "wrong",
    [
        *({name: value} for name, values in WRONG.items() for value in values),
        {"signatures": ("a",), "signature_kind": "shape"},
        {"signatures": ("", "a", "a"), "signature_kind": "shape"},
        {"signatures": ("", "a")},
    ],
)
def test_symbols_that_do_not_fit_together(wrong):
    DerivationSymbols(**GOOD)
    with pytest.raises(StructlearnError, match="SL600"):
        DerivationSymbols(**GOOD | wrong)


@pytest.mark.parametrize("name", ["signature_kind", "normalization"])
def test_functions_that_are_not_registered(name):
    with pytest.raises(StructlearnError, match="SL405"):
        DerivationSymbols(**GOOD | {name: "no such"})


# --- arrays of many -------------------------------------------------------------------------------
def assert_same(a, b):
    for x, y in zip(a.arrays, b.arrays, strict=True):
        np.testing.assert_array_equal(x, y, strict=True)


def test_subsets():
    trees = sample()
    symbols = sample_symbols()
    every, _ = encode(trees, symbols)
    assert [array.itemsize for array in every.arrays] == [8, 8, 1, 4, 4, 4, 4]
    assert len(every) == len(trees)
    chosen = [3, 0, 7, 3]
    some = every.subset(chosen)
    assert_same(some, encode([trees[i] for i in chosen], symbols)[0])
    assert_same(some.subset(np.array([], dtype=np.int64)), encode([], symbols)[0])


# --- any tree -------------------------------------------------------------------------------------
LABELS = st.sampled_from("AB")
LEAVES = st.builds(Tree.leaf, st.sampled_from(["A", "t"]), st.sampled_from(["w", "v", '"', "”"]))
TREES = st.recursive(
    LEAVES, lambda below: st.builds(Tree, LABELS, st.lists(below, min_size=1, max_size=4))
)
NORMAL = st.builds(
    lambda children: normalize(Tree("TOP", children)), st.lists(TREES, min_size=1, max_size=3)
)


@given(st.lists(NORMAL, min_size=1, max_size=6), st.integers(0, 3), st.sampled_from(["", "shape"]))
@settings(deadline=None, max_examples=30)
def test_any_tree_comes_back(trees, fuse, signature):
    settings = {"min_word_count": 2, "min_unknown": 0, "normalization": "typographic"}
    round_trip(trees, min_chain_count=fuse, signature=signature, **settings)


def test_the_sample_comes_back():
    symbols, derivations = round_trip(sample(), min_chain_count=3)
    assert MODIFY in derivations.moves.tolist()
    assert any(len(chain) > 1 for chain in symbols.chains)
