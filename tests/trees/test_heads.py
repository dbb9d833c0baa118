"""Head rules: the table of Collins, the default, and what holds for every tree."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.heads import HeadRules, collins_head_rules, leftmost_head_rules
from spacy_structlearn.trees.tree import Tree

COLLINS = collins_head_rules()
LEFTMOST = leftmost_head_rules()


def head_leaf(rules: HeadRules, node: Tree) -> Tree:
    """The head of a phrase as a preterminal, down from head to head; a leaf is its own."""
    while node.word is None:
        node = node.children[rules.head_child(node)]
    return node


def head_word(text: str) -> str | None:
    return head_leaf(COLLINS, parse_tree(text)).word


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("(NP (DT the) (JJ old) (NN stock) (NN market))", "market"),
        ("(NP (DT the) (NN firm) (POS 's))", "'s"),
        ("(NP (DT the) (NN firm) (POS 's) (. .))", "'s"),
        ("(NP (NP (DT the) (NN firm) (POS 's)) (NN owner))", "owner"),
        ("(NP (NP (DT a) (NN man)) (, ,) (NP (DT a) (NN plan)))", "man"),
        ("(NP ($ $) (CD 4) (CD million))", "$"),
        ("(NP (CD 3) (CD 4))", "4"),
        ("(NP (DT the) (JJ poor))", "poor"),
        ("(NP (JJ more) (NP (CD 3)))", "3"),
        ("(NP (PRP it))", "it"),
        ("(NP (DT all) (DT these))", "these"),
        ("(NP (DT these) (, ,))", "these"),
        ("(NP (JJ big) (NML (NN health) (NN care)))", "care"),
        # A noun further right comes before every other step, wherever those would look first.
        ("(NP (NP (DT the) (NN day)) (NN time) (JJ old) (CD 3))", "time"),
    ],
)
def test_noun_phrases(text, head):
    assert head_word(text) == head


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("(NP (NN tea) (CC and) (NN sugar))", "tea"),
        ("(NP (NN tea) (, ,) (CC and) (NN sugar))", "tea"),
        ("(NP (DT both) (NN tea) (CC and) (NN sugar))", "tea"),
        ("(VP (VP (VBD came)) (CC and) (VP (VBD saw)))", "came"),
        ("(UCP (ADJP (JJ old)) (CC and) (PP (IN in) (NP (NN pain))))", "old"),
        # Not between two: a conjunction at the beginning, or one that is not next to the head.
        ("(S (CC But) (VP (VB go)))", "go"),
        ("(NP (NN tea) (CC and) (JJ brown) (NN sugar))", "sugar"),
        ("(CONJP (RB as) (RB well) (IN as))", "well"),
    ],
)
def test_coordination(text, head):
    assert head_word(text) == head


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("(ADJP (RB very) (JJ old) (NN school))", "school"),
        ("(ADVP (RB very) (RB often))", "often"),
        ("(PP (IN out) (IN of) (NP (NN town)))", "of"),
        ("(PP (ADVP (RB just)) (NP (NN town)))", "town"),
        ("(PRN (-LRB- -LRB-) (NP (NN aside)) (-RRB- -RRB-))", "aside"),
        ("(LST (LS 1) (: :))", "1"),
        ("(LST (: --))", "--"),
        ("(QP (RB about) (CD 3) (CD million))", "about"),
        ("(S (NP (NN x)) (VP (TO to) (VP (VB go))))", "to"),
        ("(S (NP (NN x)) (NP (NN y)))", "x"),
        ("(SBAR (IN that) (S (NP (PRP it)) (VP (VBZ is))))", "that"),
        ("(SBAR (WHNP (WP$ whose) (NN dog)) (S (VP (VBD ran))))", "whose"),
        ("(SINV (VP (VBN gone)) (VBZ is) (NP (NN love)))", "is"),
        ("(SQ (MD can) (NP (PRP it)) (VP (VB be)) (. ?))", "can"),
        ("(VP (VBZ has) (VP (VBN gone)))", "has"),
        ("(WHPP (IN of) (WHNP (WDT which)))", "of"),
        ("(WHADVP (WRB how) (RB often))", "how"),
        ("(FRAG (NP (NN tea)) (. .))", "tea"),
        ("(X (SYM a) (SYM b))", "b"),
        ("(NX (NN a) (NN b))", "a"),
        # Labels without a rule.
        ("(TOP (NP (NN a)) (NP (NN b)))", "a"),
        ("(NP-SBJ (DT the) (NN b))", "the"),
        ("(NN leaf)", "leaf"),
    ],
)
def test_other_phrases(text, head):
    assert head_word(text) == head


def test_a_leaf_has_no_head_child():
    leaf = Tree.leaf("NN", "duck")
    with pytest.raises(StructlearnError, match="SL111"):
        COLLINS.head_child(leaf)


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["left", "right"]),
            st.lists(st.sampled_from("abcd"), max_size=3).map(" ".join),
        ),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.sampled_from("abcde"), min_size=1, max_size=6),
)
def test_the_head_is_that_of_the_steps_taken_one_by_one(steps, labels):
    def one_by_one() -> int:
        for direction, wanted in steps:
            order = range(len(labels)) if direction == "left" else range(len(labels))[::-1]
            for index in order:
                if labels[index] in wanted.split():
                    return index
        return 0 if steps[-1][0] == "left" else len(labels) - 1

    node = Tree("X", [Tree.leaf(label, "word") for label in labels])
    assert HeadRules({"X": steps}).head_child(node) == one_by_one()
