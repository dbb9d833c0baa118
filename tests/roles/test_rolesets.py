"""Which rolesets a predicate can have: particles, light verbs, verbs that training data lack."""

import numpy as np
import pytest
from roles.role_trees import nodes_of

from spacy_structlearn.roles.rolesets import inventory, possible_rolesets

OBJECT = "(NP (DT the) (NN job))"
KNOWN = ["give.01", "give_up.08", "give_out.09", "give.LV"]


@pytest.mark.parametrize(
    ("after", "known", "possible"),
    [
        (f"{OBJECT} (PRT (RP up))", KNOWN, "give_up.08"),
        (f"(PRT (RP up)) {OBJECT}", KNOWN, "give_up.08"),
        (f"{OBJECT} (ADVP (RP up))", KNOWN, "give_up.08"),
        (f"{OBJECT} (ADVP (RB out))", KNOWN, "give_out.09"),
        (f"(ADVP (RB out)) {OBJECT}", KNOWN, "give.01 give_out.09"),
        (OBJECT, KNOWN, "give.01"),
        ("(PRT (RP in))", KNOWN, "give_in.14"),  # of the inventory
        ("(PRT (RP in))", ["give_in.09", "give_up.08"], "give_in.09"),
        ("(PRT (RP off))", KNOWN, "give.01"),
        (OBJECT, ["give_up.08"], "give.01"),
        (OBJECT, ["hand.01"], "give.01"),  # of another verb
    ],
)
def test_of_verbs(after, known, possible):
    nodes = nodes_of(f"(S (NP (PRP She)) (VP (VBD gave) {after}) (. .))")
    more = {"give": ["give.01", "give_in.14"]}
    (found,) = possible_rolesets(nodes, np.array([1]), ["give"], [known], more)
    assert found == possible.split()


def test_a_light_verb_needs_a_noun_that_is_a_predicate():
    nodes = nodes_of(f"(S (NP (PRP She)) (VP (VBD gave) {OBJECT}) (. .))")
    known = [["give.01", "give.LV"], ["work.01"]]
    found = possible_rolesets(nodes, np.array([1, 3]), ["give", "job"], known, {})
    assert list(found) == known
    alone = (nodes, np.array([1]), ["give"], known[:1], {})
    assert list(possible_rolesets(*alone)) == [["give.01"]]
    assert list(possible_rolesets(*alone, with_nouns=False)) == known[:1]


def test_rolesets_of_nouns_and_of_unknown_verbs():
    nodes = nodes_of(f"(S (NP (PRP She)) (VP (VBD gave) {OBJECT}) (. .))")
    found = possible_rolesets(nodes, np.array([1, 3]), ["blork", "job"], [[], ["work.01"]], {})
    assert list(found) == [[], ["work.01"]]


def test_the_inventory_of_propbank():
    assert inventory()["break"][0] == "break.01"
    assert {"break_up.08", "break_off.03"} <= {*inventory()["break"]}
