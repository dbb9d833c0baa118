"""Edits of trees: what each returns, and that words keep their order."""

import pytest

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.trees import edits
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.tree import Tree

TEXT = "(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat)) (ADVP (RB now))) (. .))"
EDITS = [
    (edits.relabel, ((0, 1), "NNP"), "(S (NP (DT the) (NNP dog))", "relabel a tag"),
    (edits.relabel, ((), "SQ"), "(SQ (NP", "relabel the root"),
    (edits.delete, ((1, 2),), "(NP (DT a) (NN cat))) (. .))", "delete"),
    (edits.delete, ((1, 2, 0),), "(NP (DT a) (NN cat))) (. .))", "and the empty phrase"),
    (
        edits.excise,
        ((1,),),
        "(NN dog)) (VBZ sees) (NP (DT a) (NN cat)) (ADVP (RB now)) (. .))",
        "excise",
    ),
    (edits.insert, ((1, 0), Tree.leaf("MD", "may")), "(VP (MD may) (VBZ sees)", "insert first"),
    (edits.insert, ((3,), Tree.leaf("``", "x")), "(. .) (`` x))", "insert last"),
    (
        edits.adjoin,
        ((1, 1), "XP", 3),
        "(XP (NP (DT a) (NN cat)) (ADVP (RB now)))) (. .))",
        "adjoin",
    ),
    (edits.adjoin, ((0,), "NX"), "(S (NX (NP (DT the) (NN dog))) (VP", "adjoin over one"),
    (edits.move, ((1, 2), (2,)), "(NN cat))) (ADVP (RB now)) (. .))", "move up"),
    (edits.move, ((1, 2), (1, 1, 2)), "(NP (DT a) (NN cat) (ADVP (RB now))))", "move down"),
    (edits.move, ((1, 2, 0), (2,)), "(NN cat))) (RB now) (. .))", "an empty phrase goes"),
]


@pytest.mark.parametrize(("edit", "arguments", "part", "_"), EDITS, ids=[e[3] for e in EDITS])
def test_edits(edit, arguments, part, _):
    tree = parse_tree(TEXT)
    edited = str(edit(tree, *arguments))
    assert part in edited
    assert str(tree) == TEXT
    assert parse_tree(edited) == edit(tree, *arguments)


WRONG = [
    (edits.relabel, ((5,), "X")),
    (edits.delete, ((),)),
    (edits.excise, ((),)),
    (edits.insert, ((1, 0, 0), Tree.leaf("X", "x"))),
    (edits.insert, ((9,), Tree.leaf("X", "x"))),
    (edits.adjoin, ((0,), "X", 9)),
    (edits.move, ((1, 2), (0,))),  # words would change their order
    (edits.move, ((1,), (1, 0))),  # below itself
    (edits.path_of, ("PP", 0, 2)),
]


@pytest.mark.parametrize(("edit", "arguments"), WRONG)
def test_what_cannot_be_edited(edit, arguments):
    with pytest.raises(StructlearnError, match="SL144"):
        edit(parse_tree(TEXT), *arguments)


def test_paths_of_brackets():
    tree = parse_tree("(S (NP (NP (NN x))) (VP (VB y) (NP (NN z))))")
    assert edits.path_of(tree, "NP", 0, 1) == (0,)  # the topmost one
    assert edits.path_of(tree, "NN", 2, 3) == (1, 1, 0)
    assert edits.path_of(tree, "S", 0, 3) == ()
    for label, start, end in tree.spans():
        assert edits.node_at(tree, edits.path_of(tree, label, start, end)).label == label
