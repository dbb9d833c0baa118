"""Decoding of roles, against all sets of nodes, and the labels of pieces."""

from itertools import product
from math import exp

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from roles.role_trees import nodes_of

from spacy_structlearn.roles.arguments import decode, marginals, mark_pieces
from spacy_structlearn.roles.phrases import ArgumentNodes, candidates
from spacy_structlearn.trees.tree import Tree

SENTENCE = (
    "(TOP (S (NP (DT The) (NN man)) (VP (VBD gave) (NP (PRP her)) (NP (DT a) (NN book)"
    " (PP (IN of) (NP (NNS poems))))) (. .)))"
)
NODES = nodes_of(SENTENCE)
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
    nodes = nodes_of(draw(trees()))
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


def of_one(nodes, predicate, candidates, *scores):
    """The arguments of `decode` for one predicate."""
    return nodes, ArgumentNodes.of([(predicate, candidates)]), *scores


def all_sets(nodes, predicate, candidates, none, roles, once=(), exempt=(), further=()):
    """(log probability, labels) of every set of arguments that may be; label None for no role."""
    for labels in product([None, *range(N_LABELS)], repeat=len(candidates)):
        covered = [predicate]
        for node, label in zip(candidates, labels, strict=True):
            if label is not None:
                covered += range(nodes.starts[node], nodes.stops[node])
        chosen = [(place, label) for place, label in enumerate(labels) if label is not None]
        chosen.sort(key=lambda pair: nodes.starts[candidates[pair[0]]])
        if len(covered) == len(set(covered)) and no_label_again(chosen, once, exempt, further):
            value = sum(
                none[place] if label is None else roles[place][label]
                for place, label in enumerate(labels)
            )
            yield value, labels


def no_label_again(chosen, once, exempt, further) -> bool:
    """Whether labels, from left to right, only recur where they may."""
    for later, (place, label) in enumerate(chosen):
        before = [other for other, same in chosen[:later] if same == label]
        if label in once and place not in exempt:
            allowed = exempt if place in further else ()
            if any(other not in allowed for other in before):
                return False
    return True


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
    (chosen,) = decode(*of_one(*problem))
    best = max(value for value, _ in all_sets(*problem))
    assert value_of(chosen, *problem[3:]) == pytest.approx(best)


@settings(max_examples=30)
@given(
    problems(),
    st.sets(st.integers(0, N_LABELS - 1)),
    st.sets(st.integers(0, 3), max_size=2),
    st.sets(st.integers(0, 5)),
)
def test_the_best_set_that_takes_no_label_twice(problem, once, exempt, further):
    (chosen,) = decode(*of_one(*problem), once=once, exempt=exempt, further=further)
    best = max(value for value, _ in all_sets(*problem, once, exempt, further))
    assert value_of(chosen, *problem[3:]) == pytest.approx(best)
    assert no_label_again(chosen, once, exempt, further)


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
    np.testing.assert_allclose(marginals(*of_one(*problem)), weights / total, atol=1e-12)


@settings(max_examples=30)
@given(st.lists(problems(), min_size=2, max_size=3), st.sets(st.integers(0, 2)))
def test_predicates_do_not_depend_on_one_another(several, once):
    """Of one tree, so that they can be asked for together."""
    nodes = several[0][0]
    wanted, sites, scores = [], [], []
    for _, predicate, wished, none, roles in several:
        kept = [place for place, node in enumerate(wished) if node < len(nodes)]
        site = predicate % len(nodes.leaves), [wished[place] for place in kept]
        alone = nodes, ArgumentNodes.of([site]), none[kept], roles[kept]
        wanted.append((decode(*alone, once=once)[0], marginals(*alone)))
        sites.append(site)
        scores.append(np.column_stack([none[kept], roles[kept]]))
    none, roles = np.split(np.concatenate(scores), [1], axis=1)
    together = nodes, ArgumentNodes.of(sites), none[:, 0], roles
    first = 0
    for found, (best, probabilities) in zip(decode(*together, once=once), wanted, strict=True):
        assert [(row - first, label) for row, label in found] == best
        part = slice(first, first + len(probabilities))
        assert np.array_equal(marginals(*together)[part], probabilities)
        first = part.stop


# --- references and continuations -----------------------------------------------------------------
RELATIVE = nodes_of(
    "(S (NP (NP (DT the) (NN man)) (SBAR (WHNP (WP who)) (S (VP (VBD said) (SBAR (S (NP"
    " (PRP he)) (VP (VBD left)))))))) (VP (VBZ smiles)))"
)


def marked(nodes, *arguments: tuple[str, int, int]) -> list[str]:
    found = mark_pieces(nodes, [(label, nodes.node(start, end)) for label, start, end in arguments])
    return [f"{label}:{nodes.starts[node]}-{nodes.stops[node]}" for label, node in found]


def test_a_relative_pronoun_refers_to_its_antecedent():
    assert marked(RELATIVE, ("ARG0", 0, 2), ("ARG0", 2, 3)) == ["ARG0:0-2", "R-ARG0:2-3"]
    assert marked(RELATIVE, ("ARG0", 2, 3), ("ARG0", 0, 2)) == ["ARG0:0-2", "R-ARG0:2-3"]
    assert marked(RELATIVE, ("ARGM-LOC", 0, 2), ("ARGM-LOC", 2, 3)) == [
        "ARGM-LOC:0-2",
        "R-ARGM-LOC:2-3",
    ]


def test_a_core_argument_in_pieces():
    assert marked(NODES, ("ARG1", 0, 2), ("ARG1", 3, 4), ("ARG1", 4, 8), ("ARG0", 8, 9)) == [
        "ARG1:0-2",
        "C-ARG1:3-4",
        "C-ARG1:4-8",
        "ARG0:8-9",
    ]
    # Modifiers may be several.
    assert marked(NODES, ("ARGM-TMP", 0, 2), ("ARGM-TMP", 4, 8)) == ["ARGM-TMP:0-2", "ARGM-TMP:4-8"]


def test_role_probabilities_are_marginals_of_arguments_and_their_roles():
    sites = candidates(NODES, [2])
    n = len(sites.nodes)
    random = np.random.default_rng(0)
    arguments = np.log(random.uniform(0.1, 0.9, n))
    roles = np.log(random.dirichlet(np.ones(N_LABELS), n))
    none = np.log1p(-np.exp(arguments))
    rows = np.array([0, n - 1])
    found = marginals(NODES, sites, none, arguments[:, None])[rows] * np.exp(roles[rows])
    wanted = marginals(NODES, sites, none, arguments[:, None] + roles)[rows]
    assert found == pytest.approx(wanted)
