"""Propositions, nodes, candidates and features of semantic roles."""

import gc
import gzip
import pickle
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.trees.brackets import load_trees, parse_tree
from spacy_structlearn.trees.heads import LEFTMOST
from spacy_structlearn.trees.srl import (
    ADDITIONAL,
    CORE,
    FEATURES,
    GILDEA_JURAFSKY,
    PREDICATE_FEATURES,
    ROLESET,
    Argument,
    Proposition,
    RoleLabels,
    RoleTree,
    argument_nodes,
    base_label,
    candidates,
    features,
    gold_roles,
    join_columns,
    load_props,
    predicate_features,
    predicates,
    read_props,
)
from spacy_structlearn.trees.tree import Tree

PROPS = """\
doc/a 0 0 The    DT  (TOP(S(NP*  -    -       (ARG0*  (ARG0*
doc/a 0 1 cook   NN  *)          -    -       *)      *)
doc/a 0 2 has    VBZ (VP*        have have.01 (V*)    *
doc/a 0 3 put    VBN (VP*        put  put.01  *       (V*)
doc/a 0 4 -LRB-  -LRB- *         -    -       *       *
doc/a 0 5 it     PRP (NP*)       -    -       *       (ARG1*)
doc/a 0 6 out    RP  (PRT*)))    -    -       *       (C-V*)
doc/a 0 7 .      .   *))         -    -       *       *

doc/a 1 0 Yes    UH  (TOP(INTJ*)) -   -
"""


# --- reading --------------------------------------------------------------------------------------
def test_a_file(tmp_path):
    path = tmp_path / "x.props.gz"
    with gzip.open(path, "wt", encoding="utf-8") as out:
        out.write(PROPS)
    first, second = load_props(path)
    assert first.document == "doc/a"
    assert (first.number, second.number) == (0, 1)
    assert first.words == ("The", "cook", "has", "put", "(", "it", "out", ".")
    assert first.tags == ("DT", "NN", "VBZ", "VBN", "-LRB-", "PRP", "RP", ".")
    assert first.tree == parse_tree(
        "(TOP (S (NP (DT The) (NN cook)) (VP (VBZ has) (VP (VBN put) (-LRB- -LRB-) (NP (PRP it))"
        " (PRT (RP out)))) (. .)))"
    )
    have, put = first.propositions
    assert have == Proposition(2, "have", "have.01", (Argument("ARG0", 0, 2), Argument("V", 2, 3)))
    assert put.arguments == (("ARG0", 0, 2), ("V", 3, 4), ("ARG1", 5, 6), ("C-V", 6, 7))
    assert put.roles == (("ARG0", 0, 2), ("ARG1", 5, 6))
    assert second.propositions == ()
    assert second.tree == parse_tree("(TOP (INTJ (UH Yes)))")
    assert list(read_props(PROPS.splitlines())) == [first, second]
    assert pickle.loads(pickle.dumps(first)) == first


@pytest.mark.parametrize("collecting", [True, False])
def test_the_garbage_collector_is_left_as_it_was(collecting):
    was = gc.isenabled()
    (gc.enable if collecting else gc.disable)()
    try:
        with pytest.raises(StructlearnError, match="SL130"):
            load_props(["nothing"])
        assert gc.isenabled() is collecting
    finally:
        (gc.enable if was else gc.disable)()


def test_predicates_without_a_sense():
    lines = ["d 0 0 He PRP (S(NP*) - - (ARG0*)", "d 0 1 ran VBD (VP*)) run - (V*)"]
    (sentence,) = read_props(lines)
    assert sentence.propositions == (Proposition(1, "run", None, (("ARG0", 0, 1), ("V", 1, 2))),)


@pytest.mark.parametrize(
    ("lines", "line", "problem"),
    [
        (["d 0 0 a T (S*) -"], 1, "7 columns"),
        (["", "d 0 0 a T (S* - -", "d 0 1 b T *) - - *"], 3, "9 columns"),
        (["d x 0 a T (S*) - -"], 1, "'x' is no number"),
        (["d 0 0 a T (S*) - - *"], 1, "1 columns for 0 predicates"),
        (["d 0 0 a T (S*) a a.01"], 1, "0 columns for 1 predicates"),
        (["d 0 0 a T (S - -"], 1, "neither a parse bit"),
        (["d 0 0 a T (S*)x - -"], 1, "neither a parse bit"),
        (["d 0 0 a T (*) - -"], 1, "neither a parse bit"),
        (["d 0 0 a T S(S*) - -"], 1, "neither a parse bit"),
        (["d 0 0 a T (S* - -", "d 0 1 a T *)) - -"], 2, "closes more brackets"),
        (["d 0 0 a T (S*) - -", "d 0 1 a T (S*) - -"], 2, "a second tree"),
        (["d 0 0 a T (S*) - -", "d 0 1 a T * - -"], 2, "a second tree"),
        (["d 0 0 a T (S* - -", "d 0 1 a T * - -", "", "d"], 2, "ends inside its tree"),
        (["d 0 0 a T (S*) a a.01 (V"], 1, "neither a parse bit"),
        (["d 0 0 a T (S*) a a.01 (V*"], 1, "ends inside the argument V"),
        (["d 0 0 a T (S*) a a.01 *)"], 1, "follow one another"),
        (["d 0 0 a T (S*) a a.01 (V(V*))"], 1, "follow one another"),
        (["d 0 0 a T (S* a a.01 (V*", "d 0 1 a T *) - - (X*)"], 2, "follow one another"),
    ],
)
def test_what_is_no_such_file(lines, line, problem):
    with pytest.raises(StructlearnError) as caught:
        list(read_props(lines))
    assert caught.value.code == "SL130"
    assert caught.value.fields["path"] == "<lines>"
    assert caught.value.fields["line"] == line
    assert problem in caught.value.fields["problem"]


@pytest.mark.parametrize(
    ("label", "base"),
    [
        ("ARG0", "ARG0"),
        ("R-ARG0", "ARG0"),
        ("C-ARGM-TMP", "ARGM-TMP"),
        ("ARG1-DSP", "ARG1"),
        ("C-ARG1-DSP", "ARG1"),
        ("C-V", "V"),
    ],
)
def test_base_labels(label, base):
    assert base_label(label) == base


# --- nodes ----------------------------------------------------------------------------------------
ASSUMED = (
    "(S (NP (DT The) (NN bill)) (VP (MD will) (VP (VB be) (VP (VBN assumed) (PP (IN by) (NP"
    " (NNP J.) (NNP S.)))))) (. .))"
)


def nodes_of(text: str, **settings) -> RoleTree:
    return RoleTree(parse_tree(text), **settings)


def texts(nodes: RoleTree, numbers) -> list[str]:
    """The nodes as label and words: "NP The bill"."""
    words = nodes.tree.words()
    return [" ".join([nodes.labels[n], *words[nodes.starts[n] : nodes.ends[n]]]) for n in numbers]


def test_the_nodes_of_a_tree():
    nodes = nodes_of("(S (NP (DT the) (NN man)) (VP (VBD ate)))")
    assert nodes.labels == ["S", "NP", "DT", "NN", "VP", "VBD"]
    assert nodes.words == [None, None, "the", "man", None, "ate"]
    assert nodes.parents == [-1, 0, 1, 1, 0, 4]
    assert nodes.children == [[1, 4], [2, 3], [], [], [5], []]
    assert nodes.starts == [0, 0, 0, 1, 2, 2]
    assert nodes.ends == [3, 2, 1, 2, 3, 3]
    assert nodes.heads == [2, 1, 0, 1, 2, 2]
    assert nodes.leaves == [2, 3, 5]
    assert len(nodes) == 6
    assert nodes_of("(S (NP (DT the) (NN man)))", rules=LEFTMOST).heads == [0, 0, 0, 1]


def test_the_highest_node_of_a_unary_stack():
    nodes = nodes_of("(TOP (S (VP (VB Go) (PRT (RP out)))))")
    assert nodes.labels[nodes.node(0, 2)] == "TOP"
    assert nodes.labels[nodes.node(1, 2)] == "PRT"
    assert nodes.labels[nodes.node(0, 1)] == "VB"
    assert nodes.node(1, 3) is None
    assert nodes.node(0, 0) is None


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 2, ["NP The bill"]),
        (1, 3, ["NN bill", "MD will"]),
        (2, 8, ["VP will be assumed by J. S."]),
        (4, 6, ["VBN assumed", "IN by"]),
        (0, 8, ["NP The bill", "VP will be assumed by J. S."]),
        (6, 9, ["NP J. S.", ". ."]),
        (0, 9, ["S The bill will be assumed by J. S. ."]),
    ],
)
def test_pieces(start, end, expected):
    nodes = nodes_of(ASSUMED)
    assert texts(nodes, nodes.pieces(start, end)) == expected


@pytest.mark.parametrize("span", [(1, 1), (-1, 2), (0, 10), (3, 2)])
def test_no_pieces(span):
    with pytest.raises(StructlearnError, match="SL131"):
        nodes_of(ASSUMED).pieces(*span)


def test_arguments_as_nodes():
    nodes = nodes_of(ASSUMED)
    arguments = [("ARG1", 0, 2), ("ARG0", 5, 7), ("C-ARG2", 7, 9), ("ARGM-MOD", 2, 3)]
    arguments = [Argument(*argument) for argument in arguments]
    found = argument_nodes(nodes, arguments)
    assert [label for label, _ in found] == [
        *("ARG1", "ARG0", "C-ARG0", "C-ARG2", "C-ARG2", "ARGM-MOD")
    ]
    assert texts(nodes, [n for _, n in found])[1:5] == ["IN by", "NNP J.", "NNP S.", ". ."]
    assert [label for label, _ in argument_nodes(nodes, arguments, split=False)] == [
        *("ARG1", "ARGM-MOD")
    ]


SHARED = "(S (NP (PRP He)) (VP (VP (VBD ate) (NP (NN rice))) (CC and) (VP (VBD drank))))"


def test_gold_roles_in_another_tree():
    # Attached to the verb here; the argument is the noun phrase with its prepositional phrase.
    text = "(S (NP (PRP We)) (VP (VBD saw) (NP (NN men)) (PP (IN of) (NP (NN war))) (. .)))"
    nodes = RoleTree(parse_tree(text))
    arguments = [Argument("ARG0", 0, 1), Argument("R-ARG1", 2, 5)]
    below = candidates(nodes, 1)
    spans = [nodes.span(node) for node in below]
    roles = dict(zip(spans, gold_roles(nodes, arguments, below), strict=True))
    assert roles == {(0, 1): "ARG0", (2, 3): "ARG1", (3, 5): "ARG1", (3, 4): None, (4, 5): None}


# --- candidates -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "predicate", "expected"),
    [
        # The example of Punyakanok, Roth & Yih (2005).
        (
            ASSUMED,
            4,
            ["NP The bill", "MD will", "VB be", "PP by J. S.", "IN by", "NP J. S."],
        ),
        # What is coordinated with the predicate is none, what both share is.
        (SHARED, 1, ["NP He", "NP rice"]),
        (SHARED, 4, ["NP He"]),
        (
            "(VP (VBD cut) (CC and) (VBD ate) (, ,) (ADVP (RB then)) (NP (NN rice)))",
            0,
            ["ADVP then", "NP rice"],
        ),
        # A conjunction that coordinates nothing here is one, and so is a sister with another label.
        (
            "(S (CC But) (NP (PRP he)) (VP (VBD ate)))",
            2,
            ["CC But", "NP he"],
        ),
        ("(VP (VBD ate) (PP (IN out)))", 0, ["PP out"]),
        ("(VB Go)", 0, []),
        ("(TOP (VP (VB Go)))", 0, []),
    ],
)
def test_candidates(text, predicate, expected):
    nodes = nodes_of(text)
    assert texts(nodes, candidates(nodes, predicate)) == expected
    assert candidates(nodes, predicate) == sorted(candidates(nodes, predicate))


@pytest.mark.parametrize("predicate", [-1, 9])
def test_a_predicate_that_is_no_token(predicate):
    nodes = nodes_of(ASSUMED)
    with pytest.raises(StructlearnError, match="SL131"):
        candidates(nodes, predicate)
    with pytest.raises(StructlearnError, match="SL131"):
        features(nodes, [(predicate, [0])])


def test_verbs_are_predicates():
    assert predicates(["DT", "NN", "MD", "VB", "VBN", "JJ"]) == [3, 4]
    assert predicates(["V", "N"], RoleLabels(verbs=frozenset("V"))) == [0]


# --- features -------------------------------------------------------------------------------------
def asked(text: str, predicate: int, span: tuple[int, int], *names: str, **settings):
    """The features of one node."""
    nodes = nodes_of(text)
    node = nodes.node(*span)
    assert node is not None
    found = features(nodes, [(predicate, [node])], names, **settings)
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
        (
            "(S (NP (PRP I)) (VP (VBP have) (NP (NNS eggs)) (S (VP (VBN boiled)))))",
            3,
            "passive",
        ),
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


def test_first_and_last_words():
    names = ("first_word", "first_tag", "last_word", "last_tag", "head_tag")
    assert asked(GAVE, 6, (2, 6), *names) == ["the", "DT", "red", "NN", "NN"]


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


def test_long_distances():
    words = " ".join(["(UH w)"] * 20)
    assert asked(f"(S (NP (NN x)) {words} (VP (VB go)))", 21, (0, 1), "distance") == "17-"
    assert asked(f"(S (NP (NN x)) {words} (VP (VB go)))", 17, (0, 1), "distance") == "9-16"
    assert asked(f"(S (NP (NN x)) {words} (VP (VB go)))", 18, (0, 1), "distance") == "17-"


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


def test_what_is_said_of_the_predicate():
    assert asked(GAVE, 6, (2, 6), "predicate_tag", "particle") == ["VBD", "up"]
    assert asked(GAVE, 16, (2, 6), "predicate_tag", "particle") == ["VB", None]
    assert asked("(S (NP (NN x)) (VP (VB go)))", 1, (0, 1), "roleset") is None
    assert asked(GAVE, 6, (2, 6), "roleset", rolesets=["give.01"]) == "give.01"
    assert asked(GAVE, 6, (2, 6), "lemma", lemmatize=None) == "gave"
    assert asked(GAVE, 6, (2, 6), "lemma", lemmatize=str.__add__) == "gaveVBD"


PREDICATIVE = (
    "(S (NP (NN Rain)) (NP (PRP They)) (VP (VBD had) (VP (VBN picked) (PRT (RP up)) "
    "(NP (DT the) (NNS books)) (PP (IN at) (NP (NN noon))))) (. .))"
)


def test_what_is_asked_of_a_predicate_alone():
    nodes = RoleTree(parse_tree(PREDICATIVE))
    columns = predicate_features(nodes, [3, 2])
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


def test_a_predicate_at_the_ends_of_a_sentence():
    nodes = RoleTree(parse_tree("(VP (VB Go))"))
    columns = predicate_features(nodes, [0], lemmatize=None)
    assert columns["lemma"] == ["go"]
    for name in ("previous", "previous_tag", "next", "next_tag", "above", "before", "after"):
        assert columns[name] == [None]
    assert predicate_features(RoleTree(Tree("VB", (), "Go")), [0])["above"] == [None]


def test_names_of_predicate_features():
    nodes = RoleTree(parse_tree("(VP (VB Go))"))
    with pytest.raises(StructlearnError, match="SL132"):
        predicate_features(nodes, [0], ["path"])
    with pytest.raises(StructlearnError, match="SL131"):
        predicate_features(nodes, [1])


def test_labels_of_another_language():
    labels = RoleLabels(
        verbs=frozenset({"V"}),
        verb="V",
        participles=frozenset({"V"}),
        verb_phrases=frozenset({"GV"}),
        noun_phrases=frozenset({"GN"}),
        have=frozenset({"a"}),
    )
    nodes = nodes_of("(P (GN (D le) (N chat)) (GV (V a) (GV (V vu) (GN (N rat)))))", labels=labels)
    rat = nodes.node(4, 5)
    found = features(nodes, [(3, [rat])], ["voice", "frame", "path"], lemmatize=None)
    assert found == {"voice": ["active"], "frame": ["gn_v_[GN]"], "path": ["GN↑GV↓V"]}
    # English labels know no verb here.
    nodes = nodes_of("(P (GN (N chat)) (GV (V vu)))")
    assert features(nodes, [(1, [1])], ["voice"]) == {"voice": ["active"]}


def test_names_of_features():
    assert set(FEATURES) == {*GILDEA_JURAFSKY, *ADDITIONAL}
    assert len(GILDEA_JURAFSKY) == 7
    assert len(set(FEATURES)) == len(FEATURES)
    nodes = nodes_of(ASSUMED)
    assert list(features(nodes, [(4, [1])])) == list(FEATURES)
    assert ROLESET not in FEATURES
    with pytest.raises(StructlearnError, match="SL132"):
        features(nodes, [(4, [1])], ["nothing"])
    assert features(nodes, [], ["head", "path", "lemma", "voice"]) == {
        "head": [],
        "path": [],
        "lemma": [],
        "voice": [],
    }


def test_columns_of_several_trees():
    assert join_columns([{"a": ["x"], "b": [None]}, {"a": ["y", "z"], "b": ["1", "2"]}]) == {
        "a": ["x", "y", "z"],
        "b": [None, "1", "2"],
    }


TAGS = ["NN", "VBD", "VBN", "CC", ",", "IN", "RP"]
LABELS = ["NP", "VP", "S", "PP", "SBAR"]


@st.composite
def trees(draw, depth=4) -> Tree:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return Tree.leaf(draw(st.sampled_from(TAGS)), draw(st.sampled_from(["a", "be", "had"])))
    children = draw(st.lists(trees(depth - 1), min_size=1, max_size=4))
    return Tree(draw(st.sampled_from(LABELS)), children)


@given(trees(), st.data())
def test_nothing_depends_on_what_else_is_asked(tree, data):
    nodes = RoleTree(tree)
    everything = list(range(len(nodes)))
    tokens = list(range(len(nodes.leaves)))
    together = features(nodes, [(token, everything) for token in tokens])
    token = data.draw(st.sampled_from(tokens))
    node = data.draw(st.sampled_from(everything))
    alone = features(RoleTree(tree), [(token, [node])])
    row = token * len(everything) + node
    assert alone == {name: [column[row]] for name, column in together.items()}
    for column in together.values():
        assert len(column) == len(tokens) * len(everything)
        assert all(value is None or isinstance(value, str) for value in column)


@given(trees(), st.data())
def test_candidates_of_any_tree(tree, data):
    nodes = RoleTree(tree)
    predicate = data.draw(st.integers(0, len(nodes.leaves) - 1))
    found = candidates(nodes, predicate)
    assert found == sorted(set(found))
    for node in found:
        assert not nodes.starts[node] <= predicate < nodes.ends[node]
        assert nodes.node(*nodes.span(node)) == node


@given(trees(), st.data())
def test_paths_can_be_walked(tree, data):
    nodes = RoleTree(tree)
    predicate = data.draw(st.integers(0, len(nodes.leaves) - 1))
    node = data.draw(st.integers(0, len(nodes) - 1))
    found = features(nodes, [(predicate, [node])], ["path", "partial_path", "path_length"])
    path, partial, length = (column[0] for column in found.values())
    assert path.startswith(partial)
    assert path.count("↑") + path.count("↓") == int(length)
    assert partial.count("↓") == 0
    up, down = partial.count("↑"), path.count("↓")
    top = node
    for _ in range(up):
        top = nodes.parents[top]
    leaf = nodes.leaves[predicate]
    for _ in range(down):
        leaf = nodes.parents[leaf]
    assert top == leaf


@given(trees(), st.data())
def test_pieces_make_up_the_span(tree, data):
    nodes = RoleTree(tree)
    n = len(nodes.leaves)
    start = data.draw(st.integers(0, n - 1))
    end = data.draw(st.integers(start + 1, n))
    pieces = nodes.pieces(start, end)
    edges = [nodes.span(piece) for piece in pieces]
    assert edges[0][0] == start
    assert edges[-1][1] == end
    assert all(a[1] == b[0] for a, b in pairwise(edges))
    if nodes.node(start, end) is not None:
        assert pieces == [nodes.node(start, end)]
    assert all(nodes.node(*nodes.span(piece)) == piece for piece in pieces)


def test_a_deep_tree():
    tree = Tree.leaf("NN", "x")
    for _ in range(3_000):
        tree = Tree("NP", [tree])
    tree = Tree("S", [tree, Tree("VP", [Tree.leaf("VBD", "fell")])])
    nodes = RoleTree(tree)
    (node,) = candidates(nodes, 1)
    assert features(nodes, [(1, [node])], ["path"]) == {"path": ["NP↑S↓VP↓VB"]}


# --- corpora --------------------------------------------------------------------------------------
# Core arguments of all predicates, and how many of them are a phrase and a bare word, as the
# documentation of the corpora has them.
COUNTS = {
    "ewt/train.props.gz": (12_543, 40_486, 53_025, 50_997, 1_894),
    "ewt/dev.props.gz": (1_974, 4_977, 6_323, 6_091, 214),
    "wsj_sample/props.conll.gz": (2_894, 10_404, 15_233, 14_641, 488),
}


@pytest.mark.parametrize("name", COUNTS)
def test_the_arguments_of_the_corpora(corpora, name):
    sentences = load_props(corpora / name)
    kinds: Counter[str] = Counter()
    found = arguments = 0
    for sentence in sentences:
        assert tuple(sentence.tree.words()) == sentence.words
        assert tuple(sentence.tree.tags()) == sentence.tags
        nodes = RoleTree(sentence.tree)
        for proposition in sentence.propositions:
            core = [piece for piece in proposition.arguments if piece.label in CORE]
            for _, start, end in core:
                node = nodes.node(start, end)
                kinds["none" if node is None else "phrase" if nodes.children[node] else "word"] += 1
            below = {nodes.span(node) for node in candidates(nodes, proposition.predicate)}
            arguments += len(core)
            found += sum((start, end) in below for _, start, end in core)
    propositions = sum(len(sentence.propositions) for sentence in sentences)
    assert (len(sentences), propositions, kinds.total(), kinds["phrase"], kinds["word"]) == (
        COUNTS[name]
    )
    # Pruning loses next to nothing on gold trees.
    assert found / arguments > (0.995 if name.startswith("ewt") else 0.985)


def test_the_trees_are_those_of_the_treebank(corpora):
    sentences = load_props(corpora / "ewt/dev.props.gz")
    trees = load_trees(corpora / "ewt/dev.trees.gz")
    assert [sentence.tree for sentence in sentences] == trees
