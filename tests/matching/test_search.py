"""The search for patterns against one that tries all nodes (matching.tree_search)."""

from random import Random

import numpy as np
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from matching import tree_search

from spacy_structlearn import ConstituentMatcher
from spacy_structlearn.arrays import Coded
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.matching import search
from spacy_structlearn.matching.forest import Forest
from spacy_structlearn.matching.patterns import compiled
from spacy_structlearn.matching.tregex import parsed
from spacy_structlearn.pipeline import extensions
from spacy_structlearn.trees._nodes import build
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.heads import COLLINS, LEFTMOST
from spacy_structlearn.trees.nodes import Brackets

VOCAB = spacy.blank("en").vocab
NUMBERED = [f"{side}{number}" for side in "<>" for number in (1, 2, 3, -1, -2, -3)]
SEEDS = st.integers(0, 2**32).map(Random)

extensions.register()


def found_by(matcher, doc):
    return [[(span.label_, span.start, span.end) for span in spans] for _, spans in matcher(doc)]


def matcher_of(pattern, rules=COLLINS):
    matcher = ConstituentMatcher(VOCAB, head_rules=rules)
    matcher.add("pattern", [pattern])
    return matcher


@given(SEEDS)
def test_every_match_is_found(random):
    doc, pattern = tree_search.random_doc(random, VOCAB), tree_search.random_pattern(random, 4)
    matcher = matcher_of(pattern)
    wanted = tree_search.found_in(doc, pattern)
    assert found_by(matcher, doc) == wanted
    assert list(matcher.count([doc]).values()) == [len(wanted)]


@pytest.mark.parametrize("operator", [*tree_search.RELATIONS, *NUMBERED])
@settings(max_examples=15)
@given(SEEDS)
def test_relations(operator, random):
    doc = tree_search.random_doc(random, VOCAB, n_trees=2, most=6)
    for sign in ("", "!"):
        pattern = [
            {"RIGHT_ID": "a", "RIGHT_ATTRS": {}},
            {"LEFT_ID": "a", "REL_OP": sign + operator, "RIGHT_ID": "b", "RIGHT_ATTRS": {}},
        ]
        for rules in (COLLINS, LEFTMOST):
            assert found_by(matcher_of(pattern, rules), doc) == tree_search.found_in(
                doc, pattern, rules
            )


# From Tregex's documentation, on a tree whose nodes have different labels.
TREE = parse_tree("(TOP (A (B (C c) (D d)) (E (F (G (H h)))) (I i)))")
EXAMPLES = {
    "<": "A B, A E, A I, G H, H h",
    "<,": "TOP A, A B, B C, H h",
    "<-": "A I, B D, I i",
    "<2": "A E, B D",
    "<-2": "A E, B C",
    ">2": "E A, D B",
    "<:": "TOP A, E F, H h",
    "<<": "A h, E H, TOP i",
    "<<,": "A c, B C, TOP B",
    "<<-": "A i, B d, TOP I, E h",
    "<<:": "E h, F G, TOP A, C c",
    ">>:": "h E, G F, A TOP",
    "$": "B E, E B, B I, C D",
    "$+": "B E, E I, C D",
    "$-": "E B, I E, D C",
    "$++": "B E, B I, C D",
    "$--": "I B, I E, D C",
    ".": "B E, B h, D F, c d, h I, E i",
    "..": "B I, c h, C i",
    ",": "E B, h B, F d, I H",
    ",,": "I B, i c",
    "<#": "H h, G H, TOP A",
    "<<#": "TOP A, E h",
}


@pytest.mark.parametrize("operator", EXAMPLES)
def test_examples(operator):
    pairs = {tuple(pair.split()) for pair in EXAMPLES[operator].split(", ")}
    nodes = tree_search.nodes_of(TREE, LEFTMOST)
    found = {
        (a.label, b.label) for a in nodes for b in nodes if tree_search.related(a, operator, b)
    }
    assert pairs <= found


def forest_of(*trees):
    words = [word for tree in trees for word in tree.words()]
    return Forest(Brackets.of(trees), word_attribute(words))


def word_attribute(words):
    known = {"ORTH": str, "LOWER": str.lower, "IS_TITLE": str.istitle}
    return lambda name: Coded.of(map(known[name], words))


@given(SEEDS, st.integers(1, 4))
def test_nodes(random, number):
    trees = [tree_search.random_tree(random, 6) for _ in range(number)]
    forest, nodes, first = forest_of(*trees), [], 0
    for tree in trees:
        nodes += tree_search.nodes_of(tree, COLLINS, first)
        first = nodes[-1].stop
    places = {id(node): place for place, node in enumerate(nodes)}
    assert [forest.names[label] for label in forest.labels] == [node.label for node in nodes]
    assert forest.parents.tolist() == [places.get(id(node.parent), -1) for node in nodes]
    assert forest.starts.tolist() == [node.start for node in nodes]
    assert forest.stops.tolist() == [node.stop for node in nodes]
    assert forest.n_children.tolist() == [len(node.children) for node in nodes]
    assert np.flatnonzero(forest.is_head).tolist() == sorted(
        places[id(node.head)] for node in nodes if node.head is not None
    )
    for name in ("before", "after", "sisters", "heads"):
        to, back = getattr(forest, name)
        assert to[back].tolist() == list(range(forest.n))


@pytest.mark.parametrize(
    "spans",
    [
        [(0, 3), (0, 2), (1, 3)],
        [(0, 3), (1, 2), (0, 1)],
        [(0, 3), (1, 4)],
        [(0, 3), (1, 1)],
        [(0, 2)],
        [(0, 2), (2, 3)],
        [(0, 3), (2, 5)],
    ],
)
def test_brackets_that_are_no_tree(spans):
    starts, ends = np.array(spans, dtype=int).reshape(-1, 2).T
    words = Coded.of("abcd")
    labels = Coded.of(["X"] * len(spans))
    with pytest.raises(StructlearnError, match="SL109") as caught:
        Forest(
            Brackets(words, words, np.array([3, 1]), labels, starts, ends), word_attribute("abcd")
        )
    assert "crosses another" in str(caught.value)


def test_arrays_that_do_not_fit():
    one = np.zeros(1, dtype=np.int32)
    for offsets, starts, ends in (
        ([0, 1], one, np.ones(2, dtype=np.int32)),
        ([1, 2], one, one + 1),
        ([0, 2, 1], one, one + 1),
        ([], one, one),
    ):
        with pytest.raises(ValueError, match="must"):
            build(np.array(offsets, dtype=np.int64), starts, ends, True)


COUNTED = parse_tree(
    "(S (NP (NP (DT the) (NN owner)) (PP (IN of) (NP (NN boats)))) "
    "(VP (VBD saw) (NP (NP (NN ships)) (CC and) (NP (NN boats)))) (. .))"
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("NP $.. NP", 1),
        ("NP $,, NP", 1),
        ("NP $. VP", 1),
        ("VP $, NP", 1),
        ("NP <` NN", 4),
        ("NP == NP", 6),
        ("NP <= NP", 9),
        ("NP < (NN < __=word) : (NN < ~word)", 6),
        ("NP=a < (NN > =a)", 4),
        ("NP=a < NP=b <- =b", 1),
        ("NP=a < (NP !== =a)", 3),
        ("NP=a << ~a", 4),
        ("VP : PP", 1),
        ("VP : SBAR", 0),
        ("NP : NP", 36),
        ("NP ?< DT", 6),
        ("NP ?< NP", 7),
        ("NP ?< NN|CC < NP", 3),
    ],
)
def test_counts(text, wanted):
    """Numbers of matches that were counted by hand."""
    forest = forest_of(COUNTED)
    patterns = [compiled(one) for one in parsed(text)]
    assert sum(search.count(forest, patterns)) == wanted
    assert sum(len(found.patterns) for found in search.matches(forest, patterns)) == wanted


def test_nodes_in_negations_cannot_be_named_again():
    for text in ("NP !< (NN=a $ =a)", "NP=a !<< ~a", "S !< NP=a < =a", "NP < NN=a | < =a"):
        with pytest.raises(StructlearnError, match="SL702"):
            [compiled(one) for one in parsed(text)]


def test_blocks(monkeypatch):
    """The order does not depend on how many matches are enumerated at a time."""
    random = Random(0)
    forest = forest_of(*(tree_search.random_tree(random, 6) for _ in range(20)))
    patterns = [compiled(tree_search.random_pattern(random, 3)) for _ in range(40)]

    def found():
        return [
            (number, *some.nodes[begin:end].tolist())
            for some in search.matches(forest, patterns)
            for number, begin, end in zip(
                some.patterns.tolist(), some.offsets[:-1], some.offsets[1:], strict=True
            )
        ]

    whole = found()
    assert whole == sorted(whole, key=lambda match: (match[1], match[0], match[2:]))
    assert len(whole) == sum(search.count(forest, patterns)) > 1000
    for size in (1, 17, 300):
        monkeypatch.setattr(search, "BLOCK", size)
        assert found() == whole


def number_of(text, word):
    """The number of matches in a tree of one word."""
    patterns = [compiled(one) for one in parsed(text)]
    return sum(search.count(forest_of(parse_tree(f"(NP (NN {word}))")), patterns))


@pytest.mark.parametrize(
    ("regex", "length"),
    [
        ("^(a+)+$", 60),
        ("(a|ab|b)*c", 60),
        ("(-[A-Z]+){2,}", 60),
        ("a*a*a*a*a*a*b", 60),
        ("^" + 30 * "a?" + 30 * "a", 60),
        ("(?=(x+x+)+y)", 60),
        ("a.*b.*c", 1000),
    ],
)
def test_regular_expressions_that_may_not_end(regex, length):
    with pytest.raises(StructlearnError, match="SL705") as caught:
        number_of(f"NN < /{regex}/", "a" * length)
    assert caught.value.fields["length"] == length


@pytest.mark.parametrize("regex", ["^(NN|VB|aaa).?", "(?:aa)+", "^.*aaa.*$", "(-[A-Z]{1,3})?"])
def test_usual_regular_expressions_are_searched(regex):
    assert number_of(f"NN < /{regex}/", "a" * 60) == 1


def test_too_many_matches():
    forest = forest_of(parse_tree(f"(X {'(A a) ' * 32})"))
    patterns = [compiled(one) for text in ("A", "__ .. __ .. __ .. __") for one in parsed(text)]
    with pytest.raises(StructlearnError, match=r"SL706.*0 \.\. 1 \.\. 2 \.\. 3") as caught:
        next(search.matches(forest, patterns))
    assert search.count(forest, patterns) == [32, caught.value.fields["found"]]


def test_counts_do_not_overflow():
    wide = parse_tree(f"(TOP (X {' '.join('(A a)' for _ in range(100))}))")
    pattern = [{"RIGHT_ID": "0", "RIGHT_ATTRS": {"LABEL": "X"}}]
    for number in range(1, 15):
        name = {"LEFT_ID": "0", "RIGHT_ID": str(number), "RIGHT_ATTRS": {"LABEL": "A"}}
        pattern.append({"REL_OP": "<", **name})
    for depth in (3, 15):
        (number,) = search.count(forest_of(wide), [compiled(pattern[:depth])])
        assert number == min(100 ** (depth - 1), search.MOST)
