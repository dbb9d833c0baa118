"""The rules for MCTB_en, on trees made here."""

import _mctb
import pytest
from _build import build_mctb
from _mctb import applied, converted, joined, read_tree, replaced, split, tagged_marks

# One tree of the right form, with what each rule looks for; no rule changes it.
GOOD = (
    "(TOP (S (PP (IN In) (NP (NNP May))) (, ,) (NP (NP (DT the) (NML (JJ old) (HYPH -) (NN age)) "
    "(NN home)) (PP (IN of) (NP (NNP Mr.) (NNP Poe)))) (VP (VBD had) (RB n't) (VP (VBN wanted) "
    "(S (VP (TO to) (VP (VB sell) (NP (CD 1,200) (ADJP (RB very) (JJ nice)) (NNS chairs)) "
    "(PP (IN to) (NP (PRP us))) (SBAR (WHADVP (WRB when)) (S (NP (PRP we)) (VP (VBD asked))))))))) "
    "(. .)))"
)


def test_a_tree_in_the_conventions_of_ewt_stays_as_it_is():
    assert str(converted(read_tree(GOOD, "x"))) == GOOD


def tokens(leaves):
    """The words after all rules for tokens, with their tags."""
    tree = read_tree(f"(TOP (FRAG {leaves}))", "x")
    for rule in (lambda found: [split(leaf) for leaf in found], joined, tagged_marks):
        tree = replaced(tree, rule(tree.leaves))
    return " ".join(f"{leaf.label}:{leaf.word}" for leaf in tree.leaves)


@pytest.mark.parametrize(
    ("leaves", "expected"),
    [
        ("(CD 12) (, ,) (CD 500) (NN .) (CD 25)", "CD:12,500.25"),
        ("(NNP Mr) (NNP .) (NNP Poe)", "NNP:Mr. NNP:Poe"),
        ("(NNP U) (NNP .) (NNP S) (NNP .) (NN law)", "NNP:U.S. NN:law"),
        ("(CD 8) (NN a) (. .) (RB m) (. .)", "CD:8 NN:a.m."),
        ("(VBP don) (DT ') (RB t) (VB go)", "VBP:do RB:n't VB:go"),
        ("(NNP d) (. ') (NNP Ormesson)", "NNP:d'Ormesson"),
        ("(NNP \x10) (NNP Poe)", "NNP:Poe"),
        ("(MD cannot) (VB go)", "MD:can RB:not VB:go"),
        ("(: .) (: .) (: .) (NN tea)", ",:... NN:tea"),
        ("(NN tea) (: .) (: .) ('' \")", "NN:tea .:.. '':\""),
        ("(NN tea) (: :) (: -) (-RRB- -RRB-)", "NN:tea NFP::--RRB-"),
        ('(NN tea) (. "-RRB-,)', "NN:tea '':\" -RRB-:-RRB- ,:,"),
        ('(`` -LRB-") (NN tea)', '-LRB-:-LRB- ``:" NN:tea'),
        ("(NNS tea) (POS ') (NN cup)", "NNS:tea POS:' NN:cup"),
        ("(NN tea) (CC /) (NN cup) (: ;) (CC &)", "NN:tea ,:/ NN:cup ,:; CC:&"),
    ],
)
def test_tokens(leaves, expected):
    assert tokens(leaves) == expected


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        ("hyphens", "(NP (NN tea) (: -) (NN cup))", "(NP (NN tea) (HYPH -) (NN cup))"),
        ("hyphens", "(NP (CD 7) (: -) (CD 9))", "(NP (CD 7) (SYM -) (CD 9))"),
        ("phrase_tags", "(PP (TO to) (NP (PRP us)))", "(PP (IN to) (NP (PRP us)))"),
        ("phrase_tags", "(PRT (IN up))", "(PRT (RP up))"),
        ("unrepeated", "(VP (VP (VB go) (RB up)))", "(VP (VB go) (RB up))"),
        ("infinitives", "(S (TO to) (VP (VB go)))", "(S (VP (TO to) (VP (VB go))))"),
        ("infinitives", "(PP (TO to) (VP (VB go)))", "(S (VP (TO to) (VP (VB go))))"),
        ("clauses", "(PP (IN by) (VP (VBG going)))", "(PP (IN by) (S (VP (VBG going))))"),
        ("auxiliaries", "(VP (MD may) (VB go))", "(VP (MD may) (VP (VB go)))"),
        (
            "adjunction",
            "(VP (VP (VB go)) (PP (IN to) (NP (PRP us))))",
            "(VP (VB go) (PP (IN to) (NP (PRP us))))",
        ),
        (
            "complements",
            "(VP (MD may) (VP (VB see)) (NP (PRP us)))",
            "(VP (MD may) (VP (VB see) (NP (PRP us))))",
        ),
        (
            "adverbs",
            "(S (NP (PRP we)) (VP (ADVP (RB never)) (VBD went)))",
            "(S (NP (PRP we)) (ADVP (RB never)) (VP (VBD went)))",
        ),
        (
            "missing_phrases",
            "(S (UH Oh) (RB so) (NP (PRP we)) (VP (VBD went)))",
            "(S (INTJ (UH Oh)) (ADVP (RB so)) (NP (PRP we)) (VP (VBD went)))",
        ),
        ("quantities", "(QP (CD 1990))", "(NP (CD 1990))"),
        ("quantities", "(QP (NP (CD 3) (NNP May)))", "(NP (CD 3) (NNP May))"),
        ("single_modifiers", "(NP (ADJP (JJ old)) (NN tea))", "(NP (JJ old) (NN tea))"),
        ("heads", "(NP (DT the) (NP (JJ old) (NN tea)))", "(NP (DT the) (JJ old) (NN tea))"),
        (
            "nominals",
            "(NP (NP (NN ice) (NN tea)) (NN cup))",
            "(NP (NML (NN ice) (NN tea)) (NN cup))",
        ),
        ("nominals", "(NP (NP (NN tea)) (NN cup))", "(NP (NN tea) (NN cup))"),
        (
            "compounds",
            "(NP (DT a) (JJ old) (HYPH -) (NN age) (NN home))",
            "(NP (DT a) (NML (JJ old) (HYPH -) (NN age)) (NN home))",
        ),
        ("dates", "(NP (CD 3) (NNP May) (CD 1990))", "(NP (NP (CD 3) (NNP May)) (NP (CD 1990)))"),
        (
            "parentheses",
            "(PRN (-LRB- -LRB-) (NP (NN tea)) (-RRB- -RRB-))",
            "(NP (-LRB- -LRB-) (NN tea) (-RRB- -RRB-))",
        ),
    ],
)
def test_rules(rule, before, after):
    assert str(applied(getattr(_mctb, rule), read_tree(before, "x"))) == after


def test_every_rule_is_tested():
    (marks,) = (m for m in test_rules.pytestmark if m.name == "parametrize")
    assert {rule.__name__ for rule in _mctb.RULES} == {case[0] for case in marks.args[1]}


class Source(dict):
    """Members of an archive by name."""

    def text(self, name):
        return self[name]

    read = text


def test_build():
    source = Source(LICENSE="free as the air")
    for domain in ("dialogue", "forum", "law", "literature", "review"):
        lines = [f"(TOP (VP (VB Go{number})))\n" for number in range(803)]
        source[f"data/MCTB_en/{domain}.cleaned.txt"] = "".join(lines)
    files = build_mctb({"mctb": source}, print)
    assert files["LICENSE.original.txt"] == "free as the air"
    assert files["law.dev.trees.gz"].splitlines()[0] == "(TOP (S (VP (VB Go800))))"
    assert files["law.original.trees.gz"].splitlines()[800] == "(TOP (VP (VB Go800)))"
    sizes = [files[f"review.{part}.trees.gz"].count("\n") for part in ("train", "dev", "original")]
    assert sizes == [800, 3, 803]
