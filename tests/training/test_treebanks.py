"""The trees of the domains, from files made here."""

import gzip

import pytest

from training.common.treebanks import DOMAINS, domain_trees


def written(folder, name, *lines):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    with gzip.open(path, "wt", encoding="utf8") as file:
        file.writelines(f"{line}\n" for line in lines)


def test_domains_of_mctb(tmp_path):
    written(tmp_path, "mctb/law.dev.trees.gz", "(TOP (S (S (VP (VB Sign))) (. .)))")
    (tree,) = domain_trees(tmp_path, "law", "dev")
    assert str(tree) == "(TOP (S (S (VP (VB Sign))) (. .)))"


@pytest.mark.parametrize(
    ("craft", "ewt"),
    [
        ("( (HEADING (NP (NNS Methods))) )", "(TOP (NP (NNS Methods)))"),
        (
            "( (CAPTION (LST (LS A)) (NP-HLN (DT The) (NN cell))) )",
            "(TOP (LST (LS A)) (NP (DT The) (NN cell)))",
        ),
        (
            "( (NP (NP (NN X)) (PRN (-LRB- -LRB-) (NP (NN Figure) (CD 2)) (-RRB- -RRB-))) )",
            "(TOP (NP (NP (NN X)) (NP (-LRB- -LRB-) (NN Figure) (CD 2) (-RRB- -RRB-))))",
        ),
        (
            "( (NP (NP (NN X)) (PRN (-LRB- -LRB-) (S (VP (VB see))) (-RRB- -RRB-))) )",
            "(TOP (NP (NP (NN X)) (PRN (-LRB- -LRB-) (S (VP (VB see))) (-RRB- -RRB-))))",
        ),
        (
            "( (NP (NN X) (HYPH /) (NN Y)) )",
            "(TOP (NP (NN X) (, /) (NN Y)))",
        ),
        (
            "( (NP (NP (NN X)) (: ;) (CIT (-LRB- -LRB-) (NNP Doe) (-RRB- -RRB-))) )",
            "(TOP (NP (NP (NN X)) (, ;) (NP (-LRB- -LRB-) (NNP Doe) (-RRB- -RRB-))))",
        ),
    ],
)
def test_craft_like_ewt(tmp_path, craft, ewt):
    written(tmp_path, "craft/train.trees.gz", craft)
    assert [str(tree) for tree in domain_trees(tmp_path, "craft", "train")] == [ewt]


@pytest.mark.corpus
@pytest.mark.parametrize("domain", DOMAINS)
def test_trees_of_every_domain(corpora, domain):
    if domain != "craft" and not (corpora / "mctb").is_dir():
        pytest.skip("no mctb: run `python corpora/fetch.py mctb`")
    train, dev = (domain_trees(corpora, domain, split) for split in ("train", "dev"))
    assert (len(train), len(dev)) == ((18951, 2780) if domain == "craft" else (800, 200))
    assert {tree.label for tree in (*train, *dev)} == {"TOP"}
