"""Errors of trees by kind: an example of each, and that every bracket is repaired."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.evaluation import tree_errors as errors
from spacy_structlearn.evaluation.evalb import score_trees
from spacy_structlearn.evaluation.tree_errors import tree_errors
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.tree import Tree

# Kind, step, repaired brackets; the gold tree, and the predicted one.
EXAMPLES = [
    (
        *("PP attachment", "move", 1),
        "(TOP (VP (VB open) (NP (DT the) (NN jar)) (PP (IN with) (NP (NNS pliers)))))",
        "(TOP (VP (VB open) (NP (NP (DT the) (NN jar)) (PP (IN with) (NP (NNS pliers))))))",
    ),
    (
        *("PP attachment", "move", 5),
        "(TOP (VP (VB fix) (NP (NP (DT the) (NN lid)) (PP (IN of) (NP (DT the) (NN box)))) "
        "(PP (IN with) (NP (NN glue)))))",
        "(TOP (VP (VB fix) (NP (NP (DT the) (NN lid)) (PP (IN of) (NP (NP (DT the) (NN box)) "
        "(PP (IN with) (NP (NN glue))))))))",
    ),
    (
        *("clause attachment", "move", 2),
        "(TOP (S (NP (PRP I)) (VP (VBP leave) (SBAR (IN if) (S (NP (PRP it)) (VP (VBZ rains)))))))",
        "(TOP (S (NP (PRP I)) (VP (VBP leave)) (SBAR (IN if) (S (NP (PRP it)) (VP (VBZ rains))))))",
    ),
    (
        *("modifier attachment", "move", 2),
        "(TOP (S (NP (PRP We)) (VP (VBD met) (ADVP (RB again)))))",
        "(TOP (S (NP (PRP We)) (VP (VBD met)) (ADVP (RB again))))",
    ),
    (
        *("NP attachment", "move", 2),
        "(TOP (S (NP (PRP We)) (VP (VBD met) (NP (JJ last) (NN week)))))",
        "(TOP (S (NP (PRP We)) (VP (VBD met)) (NP (JJ last) (NN week))))",
    ),
    (
        *("VP attachment", "move", 1),
        "(TOP (VP (VBD saw) (NP (NNS goats)) (VP (VBG eating))))",
        "(TOP (VP (VBD saw) (NP (NP (NNS goats)) (VP (VBG eating)))))",
    ),
    (
        *("other attachment", "move", 2),
        "(TOP (S (VP (VB Wait) (X (SYM =)))))",
        "(TOP (S (VP (VB Wait)) (X (SYM =))))",
    ),
    (
        *("coordination", "move", 4),
        "(TOP (NP (NP (NNS cups)) (PP (IN of) (NP (NP (NN tea)) (CC and) (NP (NN milk))))))",
        "(TOP (NP (NP (NP (NNS cups)) (PP (IN of) (NP (NN tea)))) (CC and) (NP (NN milk))))",
    ),
    (
        *("NP-internal", "add", 1),
        "(TOP (NP (NML (NN apple) (NN juice)) (NN bottle)))",
        "(TOP (NP (NN apple) (NN juice) (NN bottle)))",
    ),
    (
        *("different label", "relabel", 2),
        "(TOP (S (NP (NNS Owls)) (ADVP (RB home))))",
        "(TOP (S (NP (NNS Owls)) (NP (RB home))))",
    ),
    (
        *("unary", "add", 1),
        "(TOP (S (VP (VB Close) (NP (PRP it)))))",
        "(TOP (VP (VB Close) (NP (PRP it))))",
    ),
    (
        *("one-word phrase", "remove", 1),
        "(TOP (VP (RB not) (VB go)))",
        "(TOP (VP (ADVP (RB not)) (VB go)))",
    ),
    (
        *("missing phrase", "add", 1),
        "(TOP (PP (IN in) (NP (DT the) (NN hut))))",
        "(TOP (PP (IN in) (DT the) (NN hut)))",
    ),
    (
        *("extra phrase", "remove", 1),
        "(TOP (FRAG (NN Room) (CD 7) (RB not) (JJ free)))",
        "(TOP (FRAG (PP (NN Room) (CD 7)) (RB not) (JJ free)))",
    ),
]


@pytest.mark.parametrize(("kind", "step", "repaired", "gold", "predicted"), EXAMPLES)
def test_kinds(kind, step, repaired, gold, predicted):
    found = tree_errors(parse_tree(gold), parse_tree(predicted))
    assert [(e.kind, e.step, e.repaired) for e in found] == [(kind, step, repaired)]
    assert tree_errors(parse_tree(gold), parse_tree(gold)) == []


def test_every_kind_has_an_example():
    assert {kind for kind, *_ in EXAMPLES} == set(errors.KINDS)


def test_an_error_tells_its_words():
    gold = parse_tree("(TOP (S (NP (PRP We)) (, ,) (VP (VBD met) (ADVP (RB again))) (. .)))")
    predicted = parse_tree("(TOP (S (NP (PRP We)) (, ,) (VP (VBD met)) (ADVP (RB again)) (. .)))")
    (error,) = tree_errors(gold, predicted)
    assert error == ("modifier attachment", "move", "ADVP", 3, 4, 2)


def test_other_words_are_an_error():
    with pytest.raises(StructlearnError, match="SL306"):
        tree_errors(parse_tree("(TOP (NN a))"), parse_tree("(TOP (NN b))"))


@st.composite
def trees(draw, n):
    """A random tree over n words."""
    nodes = [Tree.leaf(draw(st.sampled_from(("NN", "CC", ","))), "w") for _ in range(n)]
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(nodes) - 1))
        end = draw(st.integers(start + 1, len(nodes)))
        nodes[start:end] = [Tree(draw(st.sampled_from(("NP", "S", "PP"))), nodes[start:end])]
    return Tree("TOP", nodes)


@given(st.data())
def test_all_brackets_are_repaired(data):
    n = data.draw(st.integers(1, 7))
    gold, predicted = data.draw(trees(n)), data.draw(trees(n))
    counts = score_trees([gold], [predicted], punctuation="gold").strict.brackets
    found = tree_errors(gold, predicted)
    assert sum(e.repaired for e in found) == counts.gold + counts.predicted - 2 * counts.correct
    assert all(e.repaired > 0 and e.kind in errors.KINDS and e.start < e.end for e in found)


def test_deep_trees():
    tree = Tree.leaf("NN", "w")
    for _ in range(3000):
        tree = Tree("NP", [tree])
    assert Counter(e.step for e in tree_errors(tree, Tree("NP", [tree]))) == {"remove": 1}
