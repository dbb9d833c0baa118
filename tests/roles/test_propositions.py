"""Propositions: reading them, and their labels."""

import gzip
import pickle
from pathlib import Path

import pytest

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.roles.propositions import (
    Argument,
    Proposition,
    base_label,
    parse_bits,
    read_props,
)
from spacy_structlearn.trees.brackets import parse_tree

SAMPLE = Path(__file__).resolve().parents[2] / "corpora" / "sample" / "sample.props"

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
    first, second = read_props(path)
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
        ([f"d 0 0 a T {'(S' * 20_000}* - -"], 1, "more than 10000 brackets are open"),
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


# --- corpora --------------------------------------------------------------------------------------
def test_parse_bits_are_those_of_the_sample():
    lines = SAMPLE.read_text(encoding="utf8").splitlines()
    found = [bit for sentence in read_props(lines) for bit in parse_bits(sentence.tree)]
    assert found == [line.split()[5] for line in lines if line]


def test_a_number_with_too_many_digits():
    with pytest.raises(StructlearnError, match=r"SL130.*no number of a sentence"):
        list(read_props([f"a {'9' * 5000} 0 dog NN * - -"]))
