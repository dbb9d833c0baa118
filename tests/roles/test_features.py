"""Features of phrases and of predicates."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roles.role_trees import ASSUMED, nodes_of, trees

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.roles.features import (
    FEATURES,
    GILDEA_JURAFSKY,
    PREDICATE_FEATURES,
    ROLESET,
    features,
    predicate_features,
)
from spacy_structlearn.roles.phrases import ArgumentNodes, candidates
from spacy_structlearn.roles.propositions import RoleLabels


def plain(columns) -> dict[str, list[str | None]]:
    return {name: list(column) for name, column in columns.items()}


def asked(text: str, predicate: int, span: tuple[int, int], *names: str, **settings):
    """The features of one node."""
    nodes = nodes_of(text)
    node = nodes.node(*span)
    assert node is not None
    found = plain(features(nodes, ArgumentNodes.of([(predicate, [node])]), names, **settings))
    values = [found[name][0] for name in names]
    return values if len(values) > 1 else values[0]


GAVE = (
    "(S (ADVP (RB Yesterday)) (, ,) (NP (NP (DT the) (NN man)) (PP (IN in) (NP (NN red)))) (VP"
    " (VBD gave) (PRT (RP Up)) (NP (PRP her)) (NP (DT a) (NN book)) (PP (IN for) (NP (NNP Xmas)))"
    " (SBAR (IN because) (S (NP (PRP she)) (VP (TO to) (VP (VB leave)))))) (. .))"
)


def test_the_seven_features():
    assert asked(GAVE, 6, (2, 6), *GILDEA_JURAFSKY) == [
        *("NP↑S↓VP↓VB", "VP->VBD-PRT-NP-NP-PP-SBAR", "active", "man", "before", "NP", "give")
    ]
    assert asked(GAVE, 6, (9, 11), *GILDEA_JURAFSKY) == [
        *("NP↑VP↓VB", "VP->VBD-PRT-NP-NP-PP-SBAR", "active", "book", "after", "NP", "give")
    ]
    # Into a prepositional phrase, and of a predicate that is lower.
    assert asked(GAVE, 6, (12, 13), "path", "head") == ["NP↑PP↑VP↓VB", "Xmas"]
    assert asked(GAVE, 16, (2, 6), "path", "subcat", "position", "lemma") == [
        *("NP↑S↓VP↓SBAR↓S↓VP↓VP↓VB", "VP->VB", "before", "leave")
    ]
    # Verbs on the way have one tag; the node itself has its own.
    text = "(VP (VBZ has) (VP (VBN eaten)))"
    assert asked(text, 1, (0, 1), "path", "phrase") == ["VB↑VP↓VP↓VB", "VBZ"]


@pytest.mark.parametrize(
    ("text", "predicate", "voice"),
    [
        (ASSUMED, 4, "passive"),
        (ASSUMED, 3, "active"),
        ("(S (NP (PRP It)) (VP (VBZ has) (VP (VBN eaten))))", 2, "active"),
        (
            "(S (NP (PRP It)) (VP (VBZ has) (RB n't) (VP (VBN been) (VP (VBN eaten)))))",
            4,
            "passive",
        ),
        ("(S (NP (PRP It)) (VP (VBZ has) (VP (VBN been))))", 2, "active"),
        ("(S (NP (PRP It)) (VP (VBD got) (VP (VBN eaten))))", 2, "passive"),
        ("(S (NP (PRP It)) (VP (VBZ 'S) (VP (VBN eaten))))", 2, "passive"),
        ("(S (NP (PRP He)) (VP (MD should) (VP (VB 've) (VP (VBN eaten)))))", 3, "active"),
        ("(NP (NP (NNS men)) (VP (VBN seen) (PP (IN by) (NP (NN x)))))", 1, "passive"),
        ("(VP (VBZ has) (VBN been) (VBN eaten))", 2, "passive"),
        ("(VP (VBZ is) (VBN had) (VBN eaten))", 2, "active"),
        ("(SQ (VBD Was) (NP (PRP it)) (VP (VBN eaten)) (. ?))", 2, "passive"),
        ("(SQ (VBP Have) (NP (PRP you)) (VP (VBN eaten)) (. ?))", 2, "active"),
        # The auxiliary of another clause says nothing.
        ("(S (NP (PRP I)) (VP (VBP have) (NP (NNS eggs)) (S (VP (VBN boiled)))))", 3, "passive"),
        # One auxiliary of two participles.
        ("(S (NP (PRP I)) (VP (VBP have) (VP (VBN come) (CC and) (VBN gone))))", 4, "active"),
        (
            "(S (NP (PRP I)) (VP (VBP am) (VP (VP (VBN seen)) (CC and) (VP (VBN had)))))",
            4,
            "passive",
        ),
        # Not what stands behind the participle.
        ("(VP (VBN gone) (VP (VBZ has)))", 0, "passive"),
        ("(VBN gone)", 0, "passive"),
        ("(S (NP (PRP It)) (VP (VBD ate)))", 1, "active"),
    ],
)
def test_voice(text, predicate, voice):
    assert asked(text, predicate, (0, 1), "voice") == voice


@pytest.mark.parametrize(
    ("span", "head", "content"),
    [
        ((2, 6), "man", "man NN"),
        ((4, 6), "in", "red NN"),
        ((13, 17), "because", "leave VB"),
        ((14, 17), "to", "leave VB"),
        ((15, 17), "to", "leave VB"),
        ((0, 1), "Yesterday", "Yesterday RB"),
        ((0, 18), "gave", "gave VBD"),
    ],
)
def test_content_words(span, head, content):
    found = asked(GAVE, 6, span, "head", "content", "content_tag")
    assert [found[0], " ".join(found[1:])] == [head, content]


def test_sisters_and_parents():
    names = ("left", "left_head", "right", "right_head", "parent", "parent_head", "governor")
    assert asked(GAVE, 6, (2, 6), *names) == [",", ",", "VP", "gave", "S", "gave", "S"]
    assert asked(GAVE, 6, (0, 1), *names) == [None, None, ",", ",", "S", "gave", "S"]
    assert asked(GAVE, 6, (12, 13), *names) == ["IN", "for", None, None, "PP", "for", "VP"]
    assert asked(GAVE, 6, (0, 18), *names) == [None] * 7


@pytest.mark.parametrize(
    ("predicate", "span", "partial", "length", "distance"),
    [
        (6, (2, 6), "NP↑S", "3", "0"),
        (6, (0, 1), "ADVP↑S", "3", "5-8"),
        (6, (8, 9), "NP↑VP", "2", "1"),
        (6, (9, 11), "NP↑VP", "2", "2"),
        (6, (11, 13), "PP↑VP", "2", "3-4"),
        (6, (12, 13), "NP↑PP↑VP", "3", "5-8"),
        (16, (2, 6), "NP↑S", "7", "9-16"),
        (6, (6, 7), "VB", "0", "0"),
        (6, (6, 17), "VP", "1", "0"),
    ],
)
def test_partial_paths_and_distances(predicate, span, partial, length, distance):
    names = ("partial_path", "path_length", "distance")
    assert asked(GAVE, predicate, span, *names) == [partial, length, distance]


@pytest.mark.parametrize(
    ("span", "frame"),
    [
        ((2, 6), "[NP]_v_np_np"),
        ((8, 9), "np_v_[NP]_np"),
        ((9, 11), "np_v_np_[NP]"),
        ((0, 1), "[ADVP]_np_v_np_np"),
        ((12, 13), "np_v_np_np_[NP]"),
        ((7, 8), "np_v_[PRT]_np_np"),
        ((4, 6), "np_[PP]_v_np_np"),
        ((6, 7), "np_[VBD]_np_np"),
        ((6, 17), "np_[VP]_v_np_np"),
    ],
)
def test_syntactic_frames(span, frame):
    assert asked(GAVE, 6, span, "frame") == frame


def test_classes_and_spelling_of_words():
    classes = {"man": 0b110, "book": 0b111, "gave": 0b10}

    def classes_of(words):
        return np.array([classes.get(word, 0) for word in words], dtype=np.uint64)

    names = ("content_class", "content_class_8", "content_form")
    for others, wanted in (
        ({"classes_of": classes_of}, ["110", "110", "lower man"]),
        ({}, [None, None, "lower man"]),
    ):
        nodes = nodes_of(GAVE, **others)
        sites = ArgumentNodes.of([(6, [nodes.node(2, 6)])])
        found = plain(features(nodes, sites, names))
        assert [found[name][0] for name in names] == wanted
    assert list(nodes_of(GAVE, classes_of=classes_of).word_classes)[8:11] == [None, None, "111"]


PREDICATIVE = (
    "(S (NP (NN Rain)) (NP (PRP They)) (VP (VBD had) (VP (VBN picked) (PRT (RP up)) "
    "(NP (DT the) (NNS books)) (PP (IN at) (NP (NN noon))))) (. .))"
)


def test_what_is_asked_of_a_predicate_alone():
    columns = plain(predicate_features(nodes_of(PREDICATIVE), [3, 2]))
    assert list(columns) == list(PREDICATE_FEATURES)
    assert {name: column[0] for name, column in columns.items()} == {
        "word": "picked",
        "lemma": "pick",
        "predicate_tag": "VBN",
        "previous": "had",
        "previous_tag": "VBD",
        "next": "up",
        "next_tag": "RP",
        "above": "S",
        "subcat": "VP->VBN-PRT-NP-PP",
        "voice": "active",
        "particle": "up",
        "before": "they",
        "after": "up",
        "after_phrase": "PRT",
        "preposition": "at",
    }
    assert [columns[name][1] for name in ("lemma", "before", "after", "preposition")] == [
        *("have", "they", "picked", None)
    ]


def test_labels_of_another_language():
    labels = RoleLabels(
        verbs=frozenset({"V"}),
        verb="V",
        participles=frozenset({"V"}),
        verb_phrases=frozenset({"GV"}),
        noun_phrases=frozenset({"GN"}),
        have=frozenset({"a"}),
    )
    nodes = nodes_of("(P (GN (D le) (N chat)) (GV (V a) (GV (V vu) (GN (N rat)))))", classes=labels)
    rat = nodes.node(4, 5)
    found = features(
        nodes, ArgumentNodes.of([(3, [rat])]), ["voice", "frame", "path"], lemmatize=None
    )
    assert plain(found) == {"voice": ["active"], "frame": ["gn_v_[GN]"], "path": ["GN↑GV↓V"]}
    # English labels know no verb here.
    nodes = nodes_of("(P (GN (N chat)) (GV (V vu)))")
    assert plain(features(nodes, ArgumentNodes.of([(1, [1])]), ["voice"])) == {"voice": ["active"]}


def test_names_of_features():
    nodes = nodes_of(ASSUMED)
    assert list(features(nodes, ArgumentNodes.of([(4, [1])]))) == list(FEATURES)
    assert ROLESET not in FEATURES
    with pytest.raises(StructlearnError, match="SL132"):
        features(nodes, ArgumentNodes.of([(4, [1])]), ["nothing"])
    assert plain(
        features(nodes, ArgumentNodes.of([]), ["head", "path", "lemma", "voice", "frame"])
    ) == {"head": [], "path": [], "lemma": [], "voice": [], "frame": []}


@settings(max_examples=30)
@given(st.lists(trees(), min_size=2, max_size=4))
def test_trees_do_not_depend_on_their_neighbours(several):
    together = nodes_of(*several)
    first_node = first_token = 0
    for tree in several:
        alone = nodes_of(tree)
        n, n_tokens = len(alone), len(alone.leaves)
        part, tokens = slice(first_node, first_node + n), np.arange(n_tokens)
        assert [*map(together.label, range(part.start, part.stop))] == [*map(alone.label, range(n))]
        parents = alone.parents[:-1]
        assert np.array_equal(
            together.parents[part], np.where(parents < 0, -1, parents + first_node)
        )
        assert np.array_equal(together.heads[part], alone.heads[:-1] + first_token)
        own, found = candidates(alone, tokens), candidates(together, tokens + first_token)
        assert np.array_equal(found.nodes, own.nodes + first_node)
        assert np.array_equal(found.sizes, own.sizes)
        assert plain(features(together, found)) == plain(features(alone, own))
        assert plain(predicate_features(together, tokens + first_token)) == plain(
            predicate_features(alone, tokens)
        )
        first_node, first_token = part.stop, first_token + n_tokens
