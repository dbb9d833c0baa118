"""The hand-made treebank: its three files agree with each other and are well formed."""

import re
from collections import Counter
from pathlib import Path

import pytest

from spacy_structlearn.attachment.sites import sites
from spacy_structlearn.roles.propositions import read_props
from spacy_structlearn.trees.brackets import read_trees

SAMPLE = Path(__file__).resolve().parents[2] / "corpora" / "sample"
TAGS = """
$ '' `` , -LRB- -RRB- . : ADD AFX CC CD DT EX FW GW HYPH IN JJ JJR JJS LS MD NFP NN NNP NNPS NNS
PDT POS PRP PRP$ RB RBR RBS RP SYM TO UH VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB XX
"""
LABELS = """
ADJP ADVP CONJP FRAG INTJ LST NML NP PP PRN PRT QP S SBAR SBARQ SINV SQ TOP UCP VP WHADJP WHADVP
WHNP WHPP X
"""


def lines_of(name):
    return (SAMPLE / name).read_text(encoding="utf8").splitlines()


@pytest.fixture(scope="module")
def trees():
    return list(read_trees(SAMPLE / "sample.trees"))


@pytest.fixture(scope="module")
def blocks():
    text = (SAMPLE / "sample.props").read_text(encoding="utf8")
    return [[line.split() for line in block.splitlines()] for block in text.split("\n\n")[:-1]]


def arguments(rows):
    """The roleset, and (label, start, end) of each argument, of each predicate of a sentence."""
    for number, row in enumerate(row for row in rows if row[7] != "-"):
        found, start = [], None
        for index, cell in enumerate(row[8 + number] for row in rows):
            opened, closed = re.fullmatch(r"(?:\(([^()*\s]+))?\*(\))?", cell).groups()
            if opened:
                assert start is None, "an argument inside another"
                start, label = index, opened
            if closed:
                found.append((label, start, index + 1))
                start = None
        assert start is None, "an argument that does not close"
        yield row, found


def test_trees(trees):
    lines = lines_of("sample.trees")
    assert len(trees) == len(set(lines)) >= 60
    assert list(map(str, trees)) == lines
    for tree in trees:
        assert set(tree.tags()) <= set(TAGS.split())
        labels = [label for label, *_ in tree.spans()]
        assert set(labels) <= set(LABELS.split())
        assert tree.label == "TOP"


def test_spaces(trees):
    for tree, line in zip(trees, lines_of("sample.spaces"), strict=True):
        assert re.fullmatch(f"[01]{{{len(tree.words())}}}", line)
        for tag, word, space in zip(tree.tags()[1:], tree.words()[1:], line, strict=False):
            if tag in {".", ",", ":", "POS", "HYPH", "-RRB-"} and not word.isdigit():
                assert space == "0", (word, tag)


def test_props_match_the_trees(trees, blocks):
    for tree, rows, block in zip(trees, blocks, read_props(SAMPLE / "sample.props"), strict=True):
        assert [row[4] for row in rows] == tree.tags()
        assert str(block.tree) == str(tree)
        assert [row[2] for row in rows] == [str(number) for number in range(len(rows))]


def test_predicates_and_roles(trees, blocks):
    for tree, rows in zip(trees, blocks, strict=True):
        phrases = {(start, end) for _, start, end in tree.spans()}
        for row in rows:
            assert (row[7] != "-") == row[4].startswith("VB")
            assert row[7] == row[6] == "-" or re.fullmatch(rf"{row[6]}(_[a-z]+)*\.\d\d", row[7])
        for predicate, found in arguments(rows):
            labels = Counter(label for label, *_ in found)
            assert all(re.fullmatch(r"([RC]-)?(V|ARG\d|ARGM-[A-Z]{3})", label) for label in labels)
            assert {label[2:] for label in labels if label[:2] in {"R-", "C-"}} <= labels.keys()
            assert all(n == 1 for label, n in labels.items() if re.fullmatch(r"V|ARG\d", label))
            assert ("V", int(predicate[2])) in [part[:2] for part in found]
            for label, start, end in found:
                assert label == "V" or end - start == 1 or (start, end) in phrases


def test_readme_counts(trees, blocks):
    readme = (SAMPLE / "README.md").read_text(encoding="utf8")
    labels = Counter(
        label for rows in blocks for _, found in arguments(rows) for label, *_ in found
    )
    core = sum(n for label, n in labels.items() if re.fullmatch(r"ARG\d", label))
    assert f"| sentences | {len(trees)} |" in readme
    assert f"| tokens | {sum(len(tree.words()) for tree in trees)} |" in readme
    assert f"| predicates | {labels['V']} |" in readme
    assert f"| core arguments (ARG0 to ARG4) | {core} |" in readme
    assert f"| all arguments (without V) | {labels.total() - labels['V']} |" in readme
    kinds = Counter(site.label for tree in trees for site in sites(tree))
    assert min(kinds["V"], kinds["N"]) >= 15
    for name, number in Counter(rows[0][0] for rows in blocks).items():
        assert re.search(rf"\| {name} \| [^|]+ \| {number} \|", readme), name
    licence = (SAMPLE / "LICENSE").read_text(encoding="utf8")
    assert "creativecommons.org/publicdomain/zero/1.0/" in licence
