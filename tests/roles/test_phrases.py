"""Nodes of a tree, and those that can be arguments."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roles.role_trees import ASSUMED, below, nodes_of, texts, trees

from spacy_structlearn.arrays import Coded
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.roles.phrases import ArgumentNodes, RoleTrees, candidates, gold_roles
from spacy_structlearn.roles.propositions import Argument
from spacy_structlearn.trees.nodes import Brackets


def test_the_highest_node_of_a_unary_stack():
    nodes = nodes_of("(TOP (S (VP (VB Go) (PRT (RP out)))))")
    assert nodes.label(nodes.node(0, 2)) == "TOP"
    assert nodes.label(nodes.node(1, 2)) == "PRT"
    assert nodes.label(nodes.node(0, 1)) == "VB"
    assert nodes.node(1, 3) is None
    assert nodes.node(0, 0) is None


SHARED = "(S (NP (PRP He)) (VP (VP (VBD ate) (NP (NN rice))) (CC and) (VP (VBD drank))))"


def test_gold_roles_in_another_tree():
    # Attached to the verb here; the argument is the noun phrase with its prepositional phrase, and
    # neither of them is one.
    text = "(S (NP (PRP We)) (VP (VBD saw) (NP (NN men)) (PP (IN of) (NP (NN war))) (. .)))"
    nodes = nodes_of(text)
    arguments = [Argument("ARG0", 0, 1), Argument("R-ARG1", 2, 5)]
    own = below(nodes, 1)
    spans = [(nodes.starts[node], nodes.stops[node]) for node in own]
    roles = dict(zip(spans, gold_roles(nodes, arguments, own), strict=True))
    assert roles.pop((0, 1)) == "ARG0"
    assert roles == dict.fromkeys([(2, 3), (3, 5), (3, 4), (4, 5)])
    arguments[1:] = [Argument("C-ARG1", 2, 3), Argument("R-ARGM-LOC", 3, 5)]
    roles = dict(zip(spans, gold_roles(nodes, arguments, own), strict=True))
    assert (roles[2, 3], roles[3, 5]) == ("ARG1", "ARGM-LOC")


# --- candidates -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "predicate", "expected"),
    [
        # The example of Punyakanok, Roth & Yih (2005).
        (ASSUMED, 4, ["NP The bill", "MD will", "VB be", "PP by J. S.", "IN by", "NP J. S."]),
        # What is coordinated with the predicate is none, what both share is.
        (SHARED, 1, ["NP He", "NP rice"]),
        (SHARED, 4, ["NP He"]),
        (
            "(VP (VBD cut) (CC and) (VBD ate) (, ,) (ADVP (RB then)) (NP (NN rice)))",
            0,
            ["ADVP then", "NP rice"],
        ),
        # A conjunction that coordinates nothing here is one, and so is a sister with another label.
        ("(S (CC But) (NP (PRP he)) (VP (VBD ate)))", 2, ["CC But", "NP he"]),
        ("(VP (VBD ate) (PP (IN out)))", 0, ["PP out"]),
        ("(VB Go)", 0, []),
        ("(TOP (VP (VB Go)))", 0, []),
    ],
)
def test_candidates(text, predicate, expected):
    nodes = nodes_of(text)
    assert texts(nodes, below(nodes, predicate)) == expected
    assert below(nodes, predicate) == sorted(below(nodes, predicate))


OF_NOUN = (
    "(S (NP (NP (NNS Men)) (PP (IN in) (NP (NN red)))) (VP (VBD took) (NP (DT a) (NN bath)) (NP (NP"
    " (NN soap)) (, ,) (PP (IN for) (NP (NN free))))))"
)


def test_candidates_within_noun_phrases():
    """The head and the phrases, of noun phrases after the predicate only."""
    nodes = nodes_of(OF_NOUN)
    found = candidates(nodes, [3])
    assert texts(nodes, found.nodes) == [
        *("NP Men in red", "NP a bath", "NN bath", "NP soap , for free", "NP soap", "PP for free")
    ]
    assert found.sizes.tolist() == [6]


@settings(max_examples=30)
@given(trees(), st.data())
def test_candidates_of_any_tree(tree, data):
    nodes = nodes_of(tree)
    predicate = data.draw(st.integers(0, len(nodes.leaves) - 1))
    found = candidates(nodes, [predicate]).nodes.tolist()
    assert found == sorted(set(found))
    for node in found:
        assert not nodes.starts[node] <= predicate < nodes.stops[node]
        assert nodes.node(nodes.starts[node], nodes.stops[node]) == node


@settings(max_examples=30)
@given(trees())
def test_heads_are_those_of_head_children(tree):
    nodes = nodes_of(tree)
    for node, subtree in enumerate(tree.subtrees()):
        child = (
            nodes.children_of(np.array([node]))[nodes.rules.head_child(subtree)]
            if subtree.children
            else node
        )
        assert nodes.heads[node] == (nodes.heads[child] if child != node else nodes.starts[node])


def test_brackets_that_cross():
    words, labels = [*"abcd"], ["S", "NP", "S", "NP", "VP"]
    columns = (Coded.of(words), Coded.of(["N"] * 4), np.array([1, 3]), Coded.of(labels))
    crossing = Brackets(*columns, np.array([0, 0, 1, 1, 2]), np.array([1, 1, 4, 3, 4]))
    with pytest.raises(StructlearnError, match=r"SL109.*\(VP, 1, 3\) is out of order"):
        RoleTrees(crossing)


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=5), st.integers(1, 9))
def test_sites_in_parts(nodes, size):
    sites = ArgumentNodes.of(enumerate(nodes))
    assert sites.split() == nodes
    parts = list(sites.parts(size))
    assert [own for part in parts for own in part.split()] == nodes
    assert [i for part in parts for i in part.predicates] == list(range(len(nodes)))
    assert all(len(part.nodes) - part.sizes[0] < size for part in parts)
