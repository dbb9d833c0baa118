"""Decoding of roles, against all sets of nodes, and the labels of pieces."""

from collections import Counter
from itertools import product
from math import exp, inf, log

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.roles.arguments import (
    decode,
    log_probabilities,
    marginals,
    mark_pieces,
    role_probabilities,
)
from spacy_structlearn.roles.phrases import RoleTree, candidates
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.tree import Tree

SENTENCE = (
    "(TOP (S (NP (DT The) (NN man)) (VP (VBD gave) (NP (PRP her)) (NP (DT a) (NN book)"
    " (PP (IN of) (NP (NNS poems))))) (. .)))"
)
NODES = RoleTree(parse_tree(SENTENCE))
N_LABELS = 3


@st.composite
def trees(draw, depth=4) -> Tree:
    if depth == 0 or draw(st.booleans()):
        return Tree.leaf("T", "w")
    children = draw(st.lists(trees(depth - 1), min_size=1, max_size=3))
    return Tree("P", children)


@st.composite
def problems(draw, max_candidates=6):
    """A tree, a predicate, different nodes, log P(NONE) and log P of the roles."""
    nodes = RoleTree(draw(trees()))
    predicate = draw(st.integers(0, len(nodes.leaves) - 1))
    wanted = draw(st.lists(st.integers(0, len(nodes) - 1), unique=True, max_size=max_candidates))
    rows = draw(
        st.lists(
            st.lists(st.integers(1, 9), min_size=N_LABELS + 1, max_size=N_LABELS + 1),
            min_size=len(wanted),
            max_size=len(wanted),
        )
    )
    scores = np.log([[x / sum(row) for x in row] for row in rows] or np.ones((0, N_LABELS + 1)))
    return nodes, predicate, wanted, scores[:, 0], scores[:, 1:]


def all_sets(nodes, predicate, candidates, none, roles, once=(), exempt=()):
    """(log probability, labels) of every set of arguments that may be; label None for no role."""
    for labels in product([None, *range(N_LABELS)], repeat=len(candidates)):
        covered = [predicate]
        for node, label in zip(candidates, labels, strict=True):
            if label is not None:
                covered += range(nodes.starts[node], nodes.ends[node])
        taken = Counter(
            label for place, label in enumerate(labels) if label in once and place not in exempt
        )
        if len(covered) == len(set(covered)) and all(n < 2 for n in taken.values()):
            value = sum(
                none[place] if label is None else roles[place][label]
                for place, label in enumerate(labels)
            )
            yield value, labels


def value_of(chosen, none, roles) -> float:
    chosen = dict(chosen)
    return sum(
        roles[place][chosen[place]] if place in chosen else none[place]
        for place in range(len(none))
    )


# --- decoding -------------------------------------------------------------------------------------
@settings(max_examples=30)
@given(problems())
def test_the_best_set_of_all(problem):
    chosen = decode(*problem)
    best = max(value for value, _ in all_sets(*problem))
    assert value_of(chosen, *problem[3:]) == pytest.approx(best)


@settings(max_examples=30)
@given(problems(), st.sets(st.integers(0, N_LABELS - 1)), st.sets(st.integers(0, 3), max_size=2))
def test_the_best_set_that_takes_no_label_twice(problem, once, exempt):
    chosen = decode(*problem, once=once, exempt=exempt)
    best = max(value for value, _ in all_sets(*problem, once, exempt))
    assert value_of(chosen, *problem[3:]) == pytest.approx(best)
    taken = [label for place, label in chosen if label in once and place not in exempt]
    assert len(taken) == len(set(taken))


def test_certain_arguments():
    book, poems = NODES.node(4, 8), NODES.node(7, 8)
    none, roles = np.array([-inf, -inf]), np.array([[0.0, -inf], [-inf, 0.0]])
    assert len(decode(NODES, 2, [book, poems], none, roles)) == 1
    assert decode(NODES, 2, [book], none[:1], roles[:1]) == [(0, 0)]
    assert decode(NODES, 2, [book], np.zeros(1), np.full((1, 2), -inf)) == []


@pytest.mark.parametrize("n_labels", [0, 2])
def test_no_candidates_or_no_labels(n_labels):
    candidates = [] if n_labels else [NODES.node(0, 2)]
    none, roles = np.zeros(len(candidates)), np.zeros((len(candidates), n_labels))
    assert decode(NODES, 2, candidates, none, roles) == []
    assert marginals(NODES, 2, candidates, none, roles).shape == (len(candidates), n_labels)


@pytest.mark.parametrize(
    ("none", "roles"),
    [
        (np.zeros(2), np.zeros((1, 2))),
        (np.zeros(1), np.zeros(1)),
        (np.zeros((1, 1)), np.zeros((1, 2))),
        (np.array([np.nan]), np.zeros((1, 2))),
        (np.zeros(1), np.full((1, 2), np.nan)),
    ],
)
def test_arrays_that_do_not_fit(none, roles):
    for function in (decode, marginals):
        with pytest.raises(StructlearnError, match="SL133"):
            function(NODES, 2, [NODES.node(0, 2)], none, roles)


# --- marginals ------------------------------------------------------------------------------------
@settings(max_examples=30)
@given(problems())
def test_marginals_are_sums_over_all_sets(problem):
    candidates = problem[2]
    assume(candidates)
    weights = np.zeros((len(candidates), N_LABELS))
    total = 0.0
    for value, labels in all_sets(*problem):
        total += exp(value)
        for place, label in enumerate(labels):
            if label is not None:
                weights[place, label] += exp(value)
    np.testing.assert_allclose(marginals(*problem), weights / total, atol=1e-12)


def test_marginals_of_certain_arguments_are_finite():
    book, poems = NODES.node(4, 8), NODES.node(7, 8)
    none, roles = np.array([-inf, -inf]), np.array([[0.0, -inf], [log(0.5), log(0.5)]])
    found = marginals(NODES, 2, [book, poems], none, roles)
    assert np.isfinite(found).all()
    assert found.sum() == pytest.approx(1)


# --- references and continuations -----------------------------------------------------------------
RELATIVE = RoleTree(
    parse_tree(
        "(S (NP (NP (DT the) (NN man)) (SBAR (WHNP (WP who)) (S (VP (VBD said) (SBAR (S (NP"
        " (PRP he)) (VP (VBD left)))))))) (VP (VBZ smiles)))"
    )
)


def marked(nodes, *arguments: tuple[str, int, int]) -> list[str]:
    found = mark_pieces(nodes, [(label, nodes.node(start, end)) for label, start, end in arguments])
    return [f"{label}:{nodes.starts[node]}-{nodes.ends[node]}" for label, node in found]


def test_a_relative_pronoun_refers_to_its_antecedent():
    assert marked(RELATIVE, ("ARG0", 0, 2), ("ARG0", 2, 3)) == ["ARG0:0-2", "R-ARG0:2-3"]
    assert marked(RELATIVE, ("ARG0", 2, 3), ("ARG0", 0, 2)) == ["ARG0:0-2", "R-ARG0:2-3"]
    assert marked(RELATIVE, ("ARGM-LOC", 0, 2), ("ARGM-LOC", 2, 3)) == [
        "ARGM-LOC:0-2",
        "R-ARGM-LOC:2-3",
    ]


def test_a_relative_pronoun_without_antecedent_stays():
    assert marked(RELATIVE, ("ARG0", 2, 3)) == ["ARG0:2-3"]
    assert marked(RELATIVE, ("ARG1", 0, 2), ("ARG0", 2, 3)) == ["ARG1:0-2", "ARG0:2-3"]
    # A question's "who" comes first: what follows is another piece.
    assert marked(RELATIVE, ("ARG1", 2, 3), ("ARG1", 4, 6)) == ["ARG1:2-3", "C-ARG1:4-6"]


def test_a_core_argument_in_pieces():
    assert marked(NODES, ("ARG1", 0, 2), ("ARG1", 3, 4), ("ARG1", 4, 8), ("ARG0", 8, 9)) == [
        "ARG1:0-2",
        "C-ARG1:3-4",
        "C-ARG1:4-8",
        "ARG0:8-9",
    ]
    # Modifiers may be several.
    assert marked(NODES, ("ARGM-TMP", 0, 2), ("ARGM-TMP", 4, 8)) == ["ARGM-TMP:0-2", "ARGM-TMP:4-8"]


def test_the_probability_of_an_argument_in_a_tree_that_may_be_wrong():
    arguments, none = log_probabilities([0.8, 1.0, 0.0], [0.5, 1.0, 0.9])
    assert np.exp(arguments) == pytest.approx([0.4, 1.0, 0.0])
    assert np.exp(none) == pytest.approx([0.6, 0.0, 1.0])


def test_role_probabilities_are_marginals_of_arguments_and_their_roles():
    below = candidates(NODES, 2)
    random = np.random.default_rng(0)
    arguments = np.log(random.uniform(0.1, 0.9, len(below)))
    roles = np.log(random.dirichlet(np.ones(N_LABELS), len(below)))
    none = np.log1p(-np.exp(arguments))
    rows = np.array([0, len(below) - 1])
    found = role_probabilities(NODES, 2, below, none, arguments, rows, roles[rows])
    wanted = marginals(NODES, 2, below, none, arguments[:, None] + roles)[rows]
    assert found == pytest.approx(wanted)
