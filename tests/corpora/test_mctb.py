"""The rules for MCTB_en, on trees made here."""

import _mctb
import pytest
from _build import build_mctb, build_mctb_outputs
from _download import FetchError
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


@pytest.mark.parametrize("line", ["", "(NN a) (NN b)", "(NP (NN a)"])
def test_line_that_is_not_a_tree(line):
    with pytest.raises(FetchError, match="x: "):
        read_tree(line, "x")


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
        ("(CD 1990) (, ,) (CD 1991)", "CD:1990 ,:, CD:1991"),
        ("(CD 11) (: :) (CD 30)", "CD:11:30"),
        ("(CD 7) (FW /) (CD 98)", "CD:7/98"),
        ("(NNP Mr) (NNP .) (NNP Poe)", "NNP:Mr. NNP:Poe"),
        ("(NN tea) (. .) (NNP Poe)", "NN:tea .:. NNP:Poe"),
        ("(NNP U) (NNP .) (NNP S) (NNP .) (NN law)", "NNP:U.S. NN:law"),
        ("(CD 8) (NN a) (. .) (RB m) (. .)", "CD:8 NN:a.m."),
        ("(VBP don) (DT ') (RB t) (VB go)", "VBP:do RB:n't VB:go"),
        ("(MD WON) (DT ') (RB T)", "MD:WO RB:N'T"),
        ("(NNP d) (. ') (NNP Ormesson)", "NNP:d'Ormesson"),
        ("(NNP \x10) (NNP Poe)", "NNP:Poe"),
        ("(MD cannot) (VB go)", "MD:can RB:not VB:go"),
        ("(: .) (: .) (: .) (NN tea)", ",:... NN:tea"),
        ("(NN tea) (: .) (: .) ('' \")", "NN:tea .:.. '':\""),
        ("(NN tea) (. !) (. !)", "NN:tea .:!!"),
        ("(NN tea) (: -) (: -) (NN tea)", "NN:tea ,:-- NN:tea"),
        ("(NN tea) (: :) (: -) (-RRB- -RRB-)", "NN:tea NFP::--RRB-"),
        ('(NN tea) (. "-RRB-,)', "NN:tea '':\" -RRB-:-RRB- ,:,"),
        ('(`` -LRB-") (NN tea)', '-LRB-:-LRB- ``:" NN:tea'),
        ("(NN tea) ('' ,')", "NN:tea ,:, '':'"),
        ("(NNS tea) (POS ') (NN cup)", "NNS:tea POS:' NN:cup"),
        ("(NN tea) (CC /) (NN cup) (: ;) (CC &)", "NN:tea ,:/ NN:cup ,:; CC:&"),
    ],
)
def test_tokens(leaves, expected):
    assert tokens(leaves) == expected


def test_joined_tokens_of_two_phrases():
    """The token is where its first piece is, and an empty phrase is removed."""
    tree = read_tree("(NP (NP (CD 3)) (NP (, ,)) (NP (CD 500) (NNS cups)))", "x")
    assert str(replaced(tree, joined(tree.leaves))) == "(NP (NP (CD 3,500)) (NP (NNS cups)))"


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        ("hyphens", "(NP (NN tea) (: -) (NN cup))", "(NP (NN tea) (HYPH -) (NN cup))"),
        ("hyphens", "(NP (CD 7) (: -) (CD 9))", "(NP (CD 7) (SYM -) (CD 9))"),
        ("hyphens", "(S (NP (NN tea)) (: -) (S (NN x)))", "(S (NP (NN tea)) (, -) (S (NN x)))"),
        ("hyphens", "(NP (: -) (NN cup))", "(NP (, -) (NN cup))"),
        ("phrase_tags", "(PP (TO to) (NP (PRP us)))", "(PP (IN to) (NP (PRP us)))"),
        ("phrase_tags", "(PRT (IN up))", "(PRT (RP up))"),
        ("phrase_tags", "(ADVP (RP up))", "(ADVP (RB up))"),
        ("phrase_tags", "(ADVP (IN at) (JJS least))", "(ADVP (RB at) (RBS least))"),
        ("phrase_tags", "(ADVP (DT a) (RB little))", "(NP (DT a) (RB little))"),
        ("phrase_tags", "(INTJ (NNP Oh))", "(INTJ (UH Oh))"),
        ("phrase_tags", "(NP (IN that))", "(NP (DT that))"),
        ("phrase_tags", "(WHNP (IN that))", "(WHNP (WDT that))"),
        ("phrase_tags", "(SBAR (IN that) (S (NN x)))", "(SBAR (IN that) (S (NN x)))"),
        ("unrepeated", "(VP (VP (VB go) (RB up)))", "(VP (VB go) (RB up))"),
        ("infinitives", "(S (TO to) (VP (VB go)))", "(S (VP (TO to) (VP (VB go))))"),
        ("infinitives", "(PP (TO to) (VP (VB go)))", "(S (VP (TO to) (VP (VB go))))"),
        ("clauses", "(PP (IN by) (VP (VBG going)))", "(PP (IN by) (S (VP (VBG going))))"),
        (
            "clauses",
            "(SBAR (WHNP (WP who)) (ADVP (RB now)) (VP (VBZ goes)))",
            "(SBAR (WHNP (WP who)) (S (ADVP (RB now)) (VP (VBZ goes))))",
        ),
        ("auxiliaries", "(VP (MD may) (VB go))", "(VP (MD may) (VP (VB go)))"),
        (
            "auxiliaries",
            "(VP (VBZ has) (RB not) (VBN been) (VBN seen))",
            "(VP (VBZ has) (RB not) (VP (VBN been) (VP (VBN seen))))",
        ),
        ("auxiliaries", "(VP (VB go) (CC or) (VB stay))", "(VP (VB go) (CC or) (VB stay))"),
        (
            "auxiliaries",
            "(S (NP (PRP we)) (VBD were) (VBN seen) (. .))",
            "(S (NP (PRP we)) (VP (VBD were) (VP (VBN seen))) (. .))",
        ),
        (
            "adjunction",
            "(VP (VP (VB go)) (PP (IN to) (NP (PRP us))))",
            "(VP (VB go) (PP (IN to) (NP (PRP us))))",
        ),
        (
            "adjunction",
            "(VP (VP (VB go)) (CC or) (VP (VB stay)))",
            "(VP (VP (VB go)) (CC or) (VP (VB stay)))",
        ),
        ("adjunction", "(VP (VP (VBZ is)) (VP (VBN seen)))", "(VP (VBZ is) (VP (VBN seen)))"),
        ("adjunction", "(VP (VBZ has) (VP (VBN gone)))", "(VP (VBZ has) (VP (VBN gone)))"),
        ("adjunction", "(PP (PP (IN of)) (NP (PRP us)))", "(PP (IN of) (NP (PRP us)))"),
        ("adjunction", "(ADJP (RB very) (ADJP (JJ old)))", "(ADJP (RB very) (JJ old))"),
        (
            "adjunction",
            "(S (PP (IN at) (NP (NN x))) (, ,) (S (NP (PRP we)) (VP (VBD went))))",
            "(S (PP (IN at) (NP (NN x))) (, ,) (NP (PRP we)) (VP (VBD went)))",
        ),
        (
            "complements",
            "(VP (MD may) (VP (VB see)) (NP (PRP us)))",
            "(VP (MD may) (VP (VB see) (NP (PRP us))))",
        ),
        (
            "complements",
            "(S (NP (PRP we)) (VP (VBD went)) (ADVP (RB up)) (. .))",
            "(S (NP (PRP we)) (VP (VBD went) (ADVP (RB up))) (. .))",
        ),
        (
            "adverbs",
            "(S (NP (PRP we)) (VP (ADVP (RB never)) (VBD went)))",
            "(S (NP (PRP we)) (ADVP (RB never)) (VP (VBD went)))",
        ),
        (
            "adverbs",
            "(VP (VP (VB go)) (CC or) (VP (ADVP (RB just)) (VB stay)))",
            "(VP (VP (VB go)) (CC or) (VP (ADVP (RB just)) (VB stay)))",
        ),
        (
            "missing_phrases",
            "(S (UH Oh) (RB so) (NP (PRP we)) (VP (VBD went)))",
            "(S (INTJ (UH Oh)) (ADVP (RB so)) (NP (PRP we)) (VP (VBD went)))",
        ),
        (
            "missing_phrases",
            "(S (S (NN x)) (IN so) (S (NN x)))",
            "(S (S (NN x)) (SBAR (IN so) (S (NN x))))",
        ),
        (
            "missing_phrases",
            "(NP (NP (NNS ways)) (S (VP (TO to) (VP (VB go)))))",
            "(NP (NP (NNS ways)) (SBAR (S (VP (TO to) (VP (VB go))))))",
        ),
        ("missing_phrases", "(VP (VB see) (PRP us))", "(VP (VB see) (NP (PRP us)))"),
        (
            "missing_phrases",
            "(NP (NP (NN tea)) (IN of) (NP (NN x)))",
            "(NP (NP (NN tea)) (PP (IN of) (NP (NN x))))",
        ),
        (
            "missing_phrases",
            "(ADJP (JJ fit) (VP (TO to) (VP (VB go))))",
            "(ADJP (JJ fit) (S (VP (TO to) (VP (VB go)))))",
        ),
        ("missing_phrases", "(TOP (VP (VB go)))", "(TOP (S (VP (VB go))))"),
        ("missing_phrases", "(PP (IN of) (QP (CD 2)))", "(PP (IN of) (NP (QP (CD 2))))"),
        ("quantities", "(QP (CD 1990))", "(NP (CD 1990))"),
        ("quantities", "(QP (NP (CD 3) (NNP May)))", "(NP (CD 3) (NNP May))"),
        ("single_modifiers", "(NP (ADJP (JJ old)) (NN tea))", "(NP (JJ old) (NN tea))"),
        (
            "single_modifiers",
            "(NP (NP (NN x)) (ADJP (JJ old)))",
            "(NP (NP (NN x)) (ADJP (JJ old)))",
        ),
        ("single_modifiers", "(ADJP (ADVP (RB very)) (JJ old))", "(ADJP (RB very) (JJ old))"),
        ("heads", "(NP (DT the) (NP (JJ old) (NN tea)))", "(NP (DT the) (JJ old) (NN tea))"),
        (
            "heads",
            "(NP (DT the) (NP (NN cup) (PP (IN of) (NP (NN tea)))))",
            "(NP (NP (DT the) (NN cup)) (PP (IN of) (NP (NN tea))))",
        ),
        (
            "heads",
            "(NP (DT the) (NP (NP (NN cup)) (CC and) (NP (NN tea))))",
            "(NP (DT the) (NML (NML (NN cup)) (CC and) (NML (NN tea))))",
        ),
        ("heads", "(NP (JJ such) (PP (IN as) (NN tea)))", "(NP (JJ such) (PP (IN as) (NN tea)))"),
        (
            "nominals",
            "(NP (NP (NN ice) (NN tea)) (NN cup))",
            "(NP (NML (NN ice) (NN tea)) (NN cup))",
        ),
        ("nominals", "(NP (NP (NN tea)) (NN cup))", "(NP (NN tea) (NN cup))"),
        ("nominals", "(NP (NP (NN x) (POS 's)) (NN cup))", "(NP (NP (NN x) (POS 's)) (NN cup))"),
        ("nominals", "(NX (JJ old) (NN tea))", "(NML (JJ old) (NN tea))"),
        (
            "compounds",
            "(NP (DT a) (JJ old) (HYPH -) (NN age) (NN home))",
            "(NP (DT a) (NML (JJ old) (HYPH -) (NN age)) (NN home))",
        ),
        (
            "compounds",
            "(NP (NN ice) (HYPH -) (JJ cold) (NN tea))",
            "(NP (ADJP (NN ice) (HYPH -) (JJ cold)) (NN tea))",
        ),
        ("compounds", "(NP (NN tea) (HYPH -) (NN cup))", "(NP (NN tea) (HYPH -) (NN cup))"),
        (
            "dates",
            "(NP (CD 3) (NNP May) (CD 1990))",
            "(NP (NP (CD 3) (NNP May)) (NP (CD 1990)))",
        ),
        (
            "dates",
            "(NP (NNP May) (CD 3) (, ,) (CD 1990))",
            "(NP (NP (NNP May) (CD 3)) (, ,) (NP (CD 1990)))",
        ),
        ("dates", "(NP (NNP May) (CD 1990))", "(NP (NNP May) (CD 1990))"),
        (
            "parentheses",
            "(PRN (-LRB- -LRB-) (NP (NN tea)) (-RRB- -RRB-))",
            "(NP (-LRB- -LRB-) (NN tea) (-RRB- -RRB-))",
        ),
        (
            "parentheses",
            "(PRN (-LRB- -LRB-) (S (VP (VB see))) (-RRB- -RRB-))",
            "(PRN (-LRB- -LRB-) (S (VP (VB see))) (-RRB- -RRB-))",
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


def test_build_of_outputs():
    source = Source(LICENSE="free as the air")
    for domain in ("dialogue", "forum", "law", "literature", "review"):
        for ending in ("inorder", "inorder_bert"):
            lines = [f"(TOP (VP (VB Go{number})))\n" for number in range(803)]
            source[f"data/parsed_outputs/mctb_{domain}.{ending}"] = "".join(lines)
    files = build_mctb_outputs({"mctb": source}, print)
    assert len(files) == 11
    assert files["law.in_order_bert.trees.gz"].splitlines() == [
        f"(TOP (VP (VB Go{number})))" for number in (800, 801, 802)
    ]
