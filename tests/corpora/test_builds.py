"""The parts of the builds, on sentences made up here."""

import json

import pytest
from _build import present, sample_split, space_line
from _download import FetchError
from _formats import conllu_sentences, mrg_trees, props_block, skeleton_sentences, tree_line
from _wsj_sample import align, cuts

SKELETON = """\
doc/x   0   0  [WORD]  DT   (TOP(S(NP*     -       -   (ARG0*
doc/x   0   1  [WORD]  NN            *)    -       -        *)
doc/x   0   2  [WORD]  VBZ        (VP*))) bark bark.01     (V*)

doc/x   1   0  [WORD]  UH   (TOP(INTJ*))  -       -
"""


def test_tree_and_props_of_a_skeleton():
    first, second = skeleton_sentences(SKELETON, "doc/x")
    for row, word in zip(first, ["The", "(dog", "barks"], strict=True):
        row[3] = word.replace("(", "-LRB-")
    assert tree_line(first) == "(TOP (S (NP (DT The) (NN -LRB-dog)) (VP (VBZ barks))))\n"
    assert tree_line(second) == "(TOP (INTJ (UH [WORD])))\n"
    assert props_block(first).splitlines() == [
        "doc/x  0  0  The       DT   (TOP(S(NP*  -     -        (ARG0*",
        "doc/x  0  1  -LRB-dog  NN   *)          -     -        *)",
        "doc/x  0  2  barks     VBZ  (VP*)))     bark  bark.01  (V*)",
        "",
    ]


def test_ragged_skeleton():
    with pytest.raises(FetchError, match="x: a sentence with columns of different number"):
        skeleton_sentences(SKELETON.replace("(V*)", ""), "x")


def test_conllu_keeps_words_only():
    text = "# text = a b\n1-2\tab\n1\ta\n2\tb\n2.1\te\n\n# c\n\n1\td\n"
    assert conllu_sentences(text) == [[["1", "a"], ["2", "b"]], [["1", "d"]]]


def test_space_line():
    rows = [[*("_" * 9), misc] for misc in ("SpaceAfter=No", "_")]
    assert space_line(rows, 2) == "01\n"
    assert space_line(rows, 3) == "111\n"


def test_mrg_trees():
    one, two = mrg_trees(
        "\n( (S (NP-1 (-NONE- *T*) )\n  (VP (VB go) )))\n( (X (UH oh))\n (. .) )\n"
    )
    assert one.leaves == [("-NONE-", "*T*"), ("VB", "go")]
    assert one.tokens == [("VB", "go")]
    assert (one.roots, two.roots) == (1, 2)


def test_sample_split_goes_by_file_number():
    trees = {f"wsj_{n:04}": mrg_trees("( (X (UH oh)) )") for n in (1, 159, 160, 199)}
    splits = json.loads(sample_split(trees))["splits"]
    assert [splits[s]["sentences"] for s in ("train", "dev", "test")] == [2, 1, 1]


def test_cuts():
    assert cuts("word") == []
    assert cuts("-") == []
    assert cuts("a-b") == [["a", "-", "b"]]
    assert cuts(r"1\/2") == [["1", r"\/", "2"]]
    assert cuts("a-b-c") == [["a", "-", "b-c"], ["a-b", "-", "c"], ["a", "-", "b", "-", "c"]]


def test_align_equal_length_counts_tags_that_differ():
    assert align([("DT", "a"), ("NN", "b-c")], ["DT", "JJ"]) == (["a", "b-c"], 1)


def test_align_cuts_where_the_separator_is():
    tokens = [("JJ", "x-y"), ("JJ", "old-time"), ("NN", "dog")]
    words, cost = align(tokens, ["JJ", "JJ", "HYPH", "NN", "NN"])
    assert (words, cost) == (["x-y", "old", "-", "time", "dog"], 0)


def test_align_gives_up():
    assert align([("NN", "dog")], ["NN", "NN"]) is None
    assert align([("JJ", "9%-owned")], ["CD", "NN", "HYPH", "VBN"]) is None
    assert align([("NN", "a"), ("NN", "b")], ["NN"]) is None


def test_present_reports_what_is_missing():
    lines = []
    assert present("dev", "abc", lambda d: d != "b", lines.append) == ["a", "c"]
    assert present("test", "ab", lambda d: False, lines.append) == []
    assert lines == [
        "dev: 1 of 3 documents are not in the source, passed over",
        "test: 2 of 2 documents are not in the source, passed over",
    ]
    with pytest.raises(FetchError, match="no document of the train split"):
        present("train", "ab", lambda d: False, lines.append)
