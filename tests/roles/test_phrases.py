"""Nodes of a tree, and those that can be arguments."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roles.role_trees import ASSUMED, below, nodes_of, texts, trees

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.roles.phrases import (
    Brackets,
    RoleTrees,
    Sites,
    argument_nodes,
    candidates,
    gold_roles,
)
from spacy_structlearn.roles.propositions import CORE, Argument, read_props


def test_the_highest_node_of_a_unary_stack():
    nodes = nodes_of("(TOP (S (VP (VB Go) (PRT (RP out)))))")
    assert nodes.label(nodes.node(0, 2)) == "TOP"
    assert nodes.label(nodes.node(1, 2)) == "PRT"
    assert nodes.label(nodes.node(0, 1)) == "VB"
    assert nodes.node(1, 3) is None
    assert nodes.node(0, 0) is None


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 2, ["NP The bill"]),
        (1, 3, ["NN bill", "MD will"]),
        (2, 8, ["VP will be assumed by J. S."]),
        (4, 6, ["VBN assumed", "IN by"]),
        (0, 8, ["NP The bill", "VP will be assumed by J. S."]),
        (6, 9, ["NP J. S.", ". ."]),
        (0, 9, ["S The bill will be assumed by J. S. ."]),
    ],
)
def test_pieces(start, end, expected):
    nodes = nodes_of(ASSUMED)
    assert texts(nodes, nodes.pieces(start, end)) == expected


@pytest.mark.parametrize("span", [(1, 1), (-1, 2), (0, 10), (3, 2)])
def test_no_pieces(span):
    with pytest.raises(StructlearnError, match="SL131"):
        nodes_of(ASSUMED).pieces(*span)


def test_arguments_as_nodes():
    nodes = nodes_of(ASSUMED)
    arguments = [("ARG1", 0, 2), ("ARG0", 5, 7), ("C-ARG2", 7, 9), ("ARGM-MOD", 2, 3)]
    arguments = [Argument(*argument) for argument in arguments]
    found = argument_nodes(nodes, arguments)
    assert [label for label, _ in found] == [
        *("ARG1", "ARG0", "C-ARG0", "C-ARG2", "C-ARG2", "ARGM-MOD")
    ]
    assert texts(nodes, [n for _, n in found])[1:5] == ["IN by", "NNP J.", "NNP S.", ". ."]


SHARED = "(S (NP (PRP He)) (VP (VP (VBD ate) (NP (NN rice))) (CC and) (VP (VBD drank))))"


def test_gold_roles_in_another_tree():
    # Attached to the verb here; the argument is the noun phrase with its prepositional phrase.
    text = "(S (NP (PRP We)) (VP (VBD saw) (NP (NN men)) (PP (IN of) (NP (NN war))) (. .)))"
    nodes = nodes_of(text)
    arguments = [Argument("ARG0", 0, 1), Argument("R-ARG1", 2, 5)]
    own = below(nodes, 1)
    spans = [nodes.span(node) for node in own]
    roles = dict(zip(spans, gold_roles(nodes, arguments, own), strict=True))
    assert roles == {(0, 1): "ARG0", (2, 3): "ARG1", (3, 5): "ARG1", (3, 4): None, (4, 5): None}


# --- candidates -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "predicate", "expected"),
    [
        # The example of Punyakanok, Roth & Yih (2005).
        (
            ASSUMED,
            4,
            ["NP The bill", "MD will", "VB be", "PP by J. S.", "IN by", "NP J. S."],
        ),
        # What is coordinated with the predicate is none, what both share is.
        (SHARED, 1, ["NP He", "NP rice"]),
        (SHARED, 4, ["NP He"]),
        (
            "(VP (VBD cut) (CC and) (VBD ate) (, ,) (ADVP (RB then)) (NP (NN rice)))",
            0,
            ["ADVP then", "NP rice"],
        ),
        # A conjunction that coordinates nothing here is one, and so is a sister with another label.
        (
            "(S (CC But) (NP (PRP he)) (VP (VBD ate)))",
            2,
            ["CC But", "NP he"],
        ),
        ("(VP (VBD ate) (PP (IN out)))", 0, ["PP out"]),
        ("(VB Go)", 0, []),
        ("(TOP (VP (VB Go)))", 0, []),
    ],
)
def test_candidates(text, predicate, expected):
    nodes = nodes_of(text)
    assert texts(nodes, below(nodes, predicate)) == expected
    assert below(nodes, predicate) == sorted(below(nodes, predicate))


@pytest.mark.parametrize("predicate", [-1, 9])
def test_a_predicate_that_is_no_token(predicate):
    nodes = nodes_of(ASSUMED)
    with pytest.raises(StructlearnError, match="SL131"):
        candidates(nodes, [predicate])


@settings(max_examples=30)
@given(trees(), st.data())
def test_candidates_of_any_tree(tree, data):
    nodes = nodes_of(tree)
    predicate = data.draw(st.integers(0, len(nodes.leaves) - 1))
    found = below(nodes, predicate)
    assert found == sorted(set(found))
    for node in found:
        assert not nodes.starts[node] <= predicate < nodes.ends[node]
        assert nodes.node(*nodes.span(node)) == node


@settings(max_examples=30)
@given(trees(), st.data())
def test_pieces_make_up_the_span(tree, data):
    nodes = nodes_of(tree)
    n = len(nodes.leaves)
    start = data.draw(st.integers(0, n - 1))
    end = data.draw(st.integers(start + 1, n))
    pieces = nodes.pieces(start, end)
    edges = [nodes.span(piece) for piece in pieces]
    assert edges[0][0] == start
    assert edges[-1][1] == end
    assert all(a[1] == b[0] for a, b in pairwise(edges))
    if nodes.node(start, end) is not None:
        assert pieces == [nodes.node(start, end)]
    assert all(nodes.node(*nodes.span(piece)) == piece for piece in pieces)


@settings(max_examples=30)
@given(trees())
def test_heads_are_those_of_head_children(tree):
    nodes = nodes_of(tree)
    for node, subtree in enumerate(tree.subtrees()):
        child = nodes.children(node)[nodes.rules.head_child(subtree)] if subtree.children else node
        assert nodes.heads[node] == (nodes.heads[child] if child != node else nodes.starts[node])


def test_brackets_that_cross():
    words, labels = ["a", "b", "c", "d"], ["S", "NP", "S", "NP", "VP"]
    crossing = Brackets(words, ["N"] * 4, [1, 3], labels, [0, 0, 1, 1, 2], [1, 1, 4, 3, 4])
    with pytest.raises(StructlearnError, match=r"SL109.*\(VP, 1, 3\) is out of order"):
        RoleTrees(crossing)


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=5), st.integers(1, 9))
def test_sites_in_parts(nodes, size):
    sites = Sites.of(enumerate(nodes))
    assert sites.split() == nodes
    parts = list(sites.parts(size))
    assert [own for part in parts for own in part.split()] == nodes
    assert [i for part in parts for i in part.predicates] == list(range(len(nodes)))
    assert all(len(part.nodes) - part.sizes[0] < size for part in parts)


# --- corpora --------------------------------------------------------------------------------------
# Core arguments of all predicates, and how many of them are a phrase and a bare word, as the
# documentation of the corpora has them.
COUNTS = {
    "ewt/dev.props.gz": (1_974, 4_977, 6_323, 6_091, 214),
    "wsj_sample/props.conll.gz": (2_894, 10_404, 15_233, 14_641, 488),
}


@pytest.mark.parametrize("name", COUNTS)
def test_the_arguments_of_the_corpora(corpora, name):
    sentences = list(read_props(corpora / name))
    kinds: Counter[str] = Counter()
    found = arguments = 0
    for sentence in sentences:
        assert tuple(sentence.tree.words()) == sentence.words
        assert tuple(sentence.tree.tags()) == sentence.tags
        nodes = nodes_of(sentence.tree)
        for proposition in sentence.propositions:
            core = [piece for piece in proposition.arguments if piece.label in CORE]
            for _, start, end in core:
                node = nodes.node(start, end)
                kinds[
                    "none" if node is None else "phrase" if nodes.n_children[node] else "word"
                ] += 1
            spans = {nodes.span(node) for node in below(nodes, proposition.predicate)}
            arguments += len(core)
            found += sum((start, end) in spans for _, start, end in core)
    propositions = sum(len(sentence.propositions) for sentence in sentences)
    assert (len(sentences), propositions, kinds.total(), kinds["phrase"], kinds["word"]) == (
        COUNTS[name]
    )
    # Pruning loses next to nothing on gold trees.
    assert found / arguments > (0.995 if name.startswith("ewt") else 0.985)
