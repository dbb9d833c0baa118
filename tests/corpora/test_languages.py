"""Tests of the treebanks of other languages, on hand-written miniatures."""

import pytest
from _build import build_greynir, build_icepahc, build_indonesian
from _languages import ICEPAHC_DEV, ICEPAHC_TEST, greynir_trees, icepahc_trees, icon_trees


class Source(dict):
    """Members of an archive by name."""

    def __iter__(self):
        return iter(sorted(super().__iter__()))

    def text(self, name, *, held_out=False):
        return self[name]

    read = text


def test_icon():
    text = "(S (NP  (NNO ab))\n (PUN .))\n(FRAG (NP (NNO cd)))"
    assert icon_trees(text, "") == ["(S (NP (NNO ab)) (PUN .))\n", "(FRAG (NP (NNO cd)))\n"]


def greynir(*trees):
    text = "\n".join(f"( (META (ID-LOCAL x,.1) (COMMENT ))\n {tree})" for tree in trees)
    return [tree.removesuffix("\n") for tree in greynir_trees(text, "x.gld")]


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (
            "(S0 (S-MAIN (NP-SUBJ (no_et ab (lemma a) (exp_seg a-b)))) (grm .))",
            "(TOP (S-MAIN (NP-SUBJ (no_et ab))) (grm .))",
        ),
        (
            r"(S0 (NP (person_nf Ab Cd (lemma Ab Cd)) (grm \() (no a (lemma *)) (grm &#41;)))",
            "(TOP (NP (person_nf Ab) (person_nf Cd) (grm -LRB-) (no a) (grm -RRB-)))",
        ),
        ("(S0-X (S-MAIN (no a (lemma a)))) (grm ?)", "(TOP (S-MAIN (no a)) (grm ?))"),
    ],
)
def test_greynir(tree, expected):
    assert greynir(tree) == [expected]


def icepahc(*trees):
    text = "\n".join(f"( {tree} (ID A,.{i}))" for i, tree in enumerate(trees))
    return [tree.removesuffix("\n") for tree in icepahc_trees(text, "x.psd")]


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (
            "(IP-SUB (CODE <P_1>) (NP-SBJ *T*-1) (WNP 0) (TO *) (NP ICH*-2) (VB a-b) (P {c}))",
            "(TOP (IP-SUB (VB a)))",
        ),
        (
            "(IP (, ,-,) (N a<dash/>b-a<dash/>b) (N c<dash>d-c) (- ---))",
            "(TOP (IP (, ,) (N a-b) (N c-d) (- -)))",
        ),
        ("(CP (BEPI e$-v) (NP-SBJ (PRO-N $u-p)) (ADV s-s))", "(TOP (CP (BEPI eu) (ADV s)))"),
        ("(NP (N a$-a) (N $b$-b) (N $c-c) (N d$-d))", "(TOP (NP (N abc) (N d)))"),
    ],
)
def test_icepahc(tree, expected):
    assert icepahc(tree) == [expected]


def test_builds():
    tree = "( (META (COMMENT )) (S0 (NP (no {} (lemma a)))))"
    source = Source({f"devset/psd/{n:02}.gld": tree.format(f"d{n}") for n in range(20)})
    source |= {"testset/psd/1.gld": tree.format("t"), "LICENSE.txt": "free"}
    files = build_greynir({"greynir": source}, print)
    assert files["dev.trees.gz"] == "(TOP (NP (no d9)))\n(TOP (NP (no d19)))\n"
    assert files["train.trees.gz"].count("\n") == 18
    assert files["test.trees.gz"] == "(TOP (NP (no t)))\n"
    names = {f"id/constituency/{split}.txt": "(S (N a))" for split in ("train", "dev", "test")}
    source = Source(names | {"id/constituency/LICENSE": "free"})
    files = build_indonesian({"icon": source}, print)
    assert files["dev.trees.gz"] == files["test.trees.gz"] == "(S (N a))\n"


def test_icepahc_split(capsys):
    texts = ("1150.homiliubok.rel-ser", *ICEPAHC_DEV[:2], ICEPAHC_TEST[0])
    source = Source({f"finished/{text}.psd": f"( (IP (N {text}-a)) (ID 1))" for text in texts})
    source["cc-by-4.0.txt"] = "free"
    files = build_icepahc({"icepahc": source}, print)
    assert files["train.trees.gz"] == f"(TOP (IP (N {texts[0].partition('-')[0]})))\n"
    assert files["dev.index.tsv.gz"] == f"#tree\ttext\n0\t{texts[1]}\n1\t{texts[2]}\n"
    assert files["test.trees.gz"].count("\n") == 1
    assert "dev: 8 of 10 documents are not in the source" in capsys.readouterr().out
