"""Clauses as plain data; `tests/pipeline/test_phrases.py` tests the rules on Docs."""

from spacy_structlearn.roles.clauses import PlainClause, find_clauses
from spacy_structlearn.roles.propositions import Argument
from spacy_structlearn.trees.brackets import parse_tree

TREE = parse_tree(
    "(S (NP (PRP He)) (VP (VBD said) (SBAR (IN that) (S (NP (PRP it)) (VP (VBD was) (VP (VBN sold)"
    " (PP (IN by) (NP (NNP Bob)))))))))"
)
SAID = PlainClause(("S", 0, 8), 1, ("NP", 0, 1), (), None, (("SBAR", 2, 8),), False, None)
SOLD = PlainClause(("SBAR", 2, 8), 5, ("NP", 3, 4), (), None, (), True, None)


def test_places_are_in_words():
    assert find_clauses(TREE) == [SAID, SOLD]


def test_arguments_are_those_of_the_verb():
    roles = {5: [Argument("ARG1", 3, 4), Argument("ARG0", 6, 8)]}
    found = find_clauses(TREE, lambda verb: roles.get(verb, ()))
    assert found == [SAID, SOLD._replace(agent=("NP", 7, 8))]
    # The same words are no agent if they are an argument of the other verb.
    assert find_clauses(TREE, lambda verb: roles[5] if verb == 1 else ()) == [SAID, SOLD]


def test_the_verb_of_an_inner_clause_has_no_second_clause():
    """Even if its tag is none of a verb."""
    tree = parse_tree("(S (NP (PRP she)) (VP (S (VP (NN sells)))))")
    assert [clause.bracket for clause in find_clauses(tree)] == [("S", 1, 2)]
