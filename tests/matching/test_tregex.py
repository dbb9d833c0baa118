"""Patterns as strings, and their errors."""

import re

import pytest

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.matching.patterns import compiled
from spacy_structlearn.matching.relations import OPERATOR, OPERATORS, parts
from spacy_structlearn.matching.tregex import parsed

ANY = {}


def flat(text):
    """The alternatives of a pattern, each node as (left, relation, name, attributes)."""
    return [
        [
            (d.get("LEFT_ID"), d.get("REL_OP"), d["RIGHT_ID"], d["RIGHT_ATTRS"].get("LABEL", ANY))
            for d in dicts
        ]
        for dicts in parsed(text)
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("NP", "NP"),
        (" @NP ", "NP"),
        ("__", ANY),
        ("PRP$", "PRP$"),
        ('","', ","),
        ('"a b"', "a b"),
        ("-LRB-", "-LRB-"),
        ("n't", "n't"),
        ("NP|VP | PP", {"IN": ["NP", "VP", "PP"]}),
        ("!NP", {"NOT_IN": ["NP"]}),
        ("!NP|VP", {"NOT_IN": ["NP", "VP"]}),
        ("!__", {"IN": []}),
        ("/^N/", {"REGEX": "^N"}),
        (r"/a\/b/", {"REGEX": "a/b"}),
        ("/^N/|V.", None),
    ],
)
def test_descriptions(text, wanted):
    if wanted is None:
        with pytest.raises(StructlearnError, match="SL701"):
            parsed(text)
    else:
        assert flat(text) == [[(None, None, "0", wanted)]]


def test_regular_expressions_among_labels():
    (((*_, attributes),),) = flat('/^N/|"V.P"')
    found = re.compile(attributes["REGEX"])
    assert [bool(found.search(label)) for label in ("NP", "V.P", "VaP", "XV.P")] == [1, 1, 0, 0]
    (((*_, attributes),),) = flat("!/^N/|VP")
    found = re.compile(attributes["REGEX"])
    assert [bool(found.search(label)) for label in ("NP", "VP", "PP", "VPN", "")] == [0, 0, 1, 1, 1]


def test_relations_belong_to_the_node_on_the_left():
    assert flat("NP < DT=d !< (NN < dog) $+ VP") == [
        [
            (None, None, "0", "NP"),
            ("0", "<", "d", "DT"),
            ("0", "!<", "2", "NN"),
            ("2", "<", "3", "dog"),
            ("0", "$+", "4", "VP"),
        ]
    ]
    assert flat("NP<DT&<NN") == flat("NP < DT & < NN") == flat("(NP < DT) < NN")
    assert flat("NP < (DT)") == flat("NP < DT")
    assert flat("PRP$ $ NN") == [[(None, None, "0", "PRP$"), ("0", "$", "1", "NN")]]


def test_alternatives():
    nn, nns = ("0", "<", "1", "NN"), ("0", "<", "1", "NNS")
    np = (None, None, "0", "NP")
    assert flat("NP < NN | < NNS") == [[np, nn], [np, nns]]
    assert flat("NP [< NN | < NNS]") == [[np, nn], [np, nns]]
    above = ("0", ">", "2", "S")
    assert flat("NP [< NN | < NNS] > S") == [[np, nn, above], [np, nns, above]]
    assert flat("NP < NN|NNS > S") == [[np, ("0", "<", "1", {"IN": ["NN", "NNS"]}), above]]
    # None of the alternatives may be there.
    assert [[part[:2] for part in one] for one in flat("S !< (NP < NN | < NNS)")] == [
        [(None, None), ("0", "!<"), ("1", "<"), ("0", "!<"), ("3", "<")]
    ]


def test_nodes_that_are_named_again():
    np, vp = (None, None, "a", "NP"), ("a", "$+", "1", "VP")
    assert parsed("NP=a $+ (VP !> =a)")[0][2:] == [
        {"LEFT_ID": "1", "REL_OP": "!>", "RIGHT_ID": "a"}
    ]
    assert parsed("NP=a $ ~a")[0][1:] == [
        {"LEFT_ID": "a", "REL_OP": "$", "RIGHT_ID": "1", "RIGHT_ATTRS": {}},
        {"LEFT_ID": "1", "REL_OP": "~", "RIGHT_ID": "a"},
    ]
    assert flat("NP=a : VP") == [[np, ("a", ":", "1", "VP")]]
    assert flat("NP=a ?$+ VP") == [[np, vp], [np, ("a", "!$+", "1", "VP")]]


def test_all_operators_are_read():
    assert ":" in OPERATORS  # which is not between a node and one without brackets
    for operator in set(OPERATORS) - {":"}:
        operator = operator.replace("N", "12")
        assert OPERATOR.fullmatch(operator)
        assert parts(operator) is not None
        assert flat(f"A {operator} B")[0][1][1] == operator
        assert flat(f"A !{operator}B")[0][1][1] == f"!{operator}"
    assert parts("<0") is parts("<<<") is parts("") is None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", 1),
        ("NP <", 5),
        ("NP < (DT", 9),
        ("NP )", 4),
        ("NP VP", 4),
        ("< NP", 1),
        ("NP < /(/", 6),
        ("NP=a < VP=a", 11),
        ("NP=1", 4),
        ("NP < $", 6),
        ("NP & VP", 6),
        ("NP [< VP", 9),
        ("NP <0 VP", 7),
        ("NP < =a", 7),
        ("NP < ~a", 7),
        ("=a < NP", 2),
        ("NP :", 5),
        ("NP ? VP", 6),
        ("NP ! VP", 6),
        ("NP < NN |", 10),
        ("NP [] < NN", 5),
        ("NP | < NN", 4),
        ("NP [| < NN]", 5),
        ('"', 1),
    ],
)
def test_malformed_patterns(text, place):
    with pytest.raises(StructlearnError) as caught:
        parsed(text)
    assert caught.value.code == "SL701"
    assert caught.value.fields["place"] == place


ROOT = {"RIGHT_ID": "a", "RIGHT_ATTRS": {"LABEL": "NP"}}


def below(**changes):
    return {"LEFT_ID": "a", "REL_OP": "<", "RIGHT_ID": "b", "RIGHT_ATTRS": {}} | changes


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ([], "there is no node"),
        (["NP"], "not a dict"),
        ([below()], "not a dict with the keys RIGHT_ID, RIGHT_ATTRS"),
        ([ROOT, {"RIGHT_ID": "b", "RIGHT_ATTRS": {}}], "not a dict with the keys LEFT_ID"),
        ([ROOT, below(RIGHT_ID="a")], "not the only one"),
        ([ROOT, below(RIGHT_ID=1)], "no string"),
        ([ROOT, below(LEFT_ID="c"), below(RIGHT_ID="c")], "no earlier node has the RIGHT_ID 'c'"),
        ([ROOT, below(LEFT_ID="b")], "no earlier node"),
        ([ROOT, below(REL_OP="<<<")], "'<<<' is not one of"),
        ([ROOT, below(REL_OP=None)], "None is not one of"),
        ([ROOT, below(REL_OP="~")], "'~' is not one of"),
        ([ROOT, {"LEFT_ID": "a", "REL_OP": "<", "RIGHT_ID": "b"}], "not one of an earlier node"),
        ([ROOT, below(RIGHT_ATTRS=[])], "not a dict"),
        ([ROOT, below(RIGHT_ATTRS={"FOO": "x"})], "'FOO' is not one of the attributes LABEL"),
        ([ROOT, below(RIGHT_ATTRS={"LABEL": 1})], "give a string, a list after IN"),
        ([ROOT, below(RIGHT_ATTRS={"LABEL": {"IN": "NP"}})], "give a string, a list after IN"),
        ([ROOT, below(RIGHT_ATTRS={"LABEL": {"FUZZY": "NP"}})], "or a string after REGEX"),
        ([ROOT, below(RIGHT_ATTRS={"LABEL": {"REGEX": "("}})], "not a regular expression"),
        ([ROOT, below(RIGHT_ATTRS={"IS_TITLE": "yes"})], "give a number"),
        ([ROOT, below(RIGHT_ATTRS={"IS_TITLE": {">": 0}})], "give a number"),
        ([ROOT, below(RIGHT_ATTRS={"LENGTH": {">": "3"}})], "or a number after ==, >="),
    ],
)
def test_malformed_dicts(pattern, problem):
    with pytest.raises(StructlearnError, match="SL702") as caught:
        compiled(pattern)
    assert problem in caught.value.fields["problem"]
    assert caught.value.fields["number"] == max(len(pattern[:2]) - 1, 0)
