"""The trees of the treebanks: EWT, CRAFT, MCTB_en, and the Wall Street Journal's sample and
skeleton."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from spacy_structlearn.trees.brackets import read_trees
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.trees.parse import Parse
from spacy_structlearn.trees.tree import Tree
from training.common.ewt import tuning_documents

MCTB_DOMAINS = ("dialogue", "forum", "law", "literature", "review")
DOMAINS = (*MCTB_DOMAINS, "craft")  # of `domain_trees`; scored with the punctuation of gold tags
# How `score_trees` identifies punctuation: by the original COLLINS.prm, or by gold tags.
PUNCTUATION = {"wsj": "own", "ewt": "gold"}


@cache
def wsj_trees(corpora: Path, split: str) -> tuple[Tree, ...]:
    """Return the normalised trees of train, dev or test: the files listed in split.json."""
    folder = corpora / "wsj_sample"
    splits = json.loads((folder / "split.json").read_text(encoding="utf8"))["splits"]
    low, high = splits[split]["files"]
    with open(folder / "trees.index.tsv", encoding="utf8") as lines:
        rows = [line.split("\t") for line in lines if not line.startswith("#")]
    files = [int(name.removeprefix("wsj_")) for _, name, *_ in rows]
    trees = read_trees(folder / "trees.mrg.gz")
    pairs = zip(trees, files, strict=True)
    return _normalized(tree for tree, number in pairs if low <= number <= high)


@cache
def ewt_trees(corpora: Path, split: str) -> tuple[Tree, ...]:
    """Return normalised trees of train, dev, tune (documents of tune.txt) or fit (train - tune)."""
    folder = corpora / "ewt"
    if split in ("train", "dev"):
        return _normalized(read_trees(folder / f"{split}.trees.gz"))
    tuning = tuning_documents(corpora)
    names = ewt_documents(corpora, "train")
    pairs = zip(ewt_trees(corpora, "train"), names, strict=True)
    return tuple(tree for tree, name in pairs if (name in tuning) is (split == "tune"))


def ewt_documents(corpora: Path, split: str) -> list[str]:
    """Return the name of the document of each sentence."""
    names, inside = [], False
    with gzip.open(corpora / "ewt" / f"{split}.props.gz", "rt", encoding="utf8") as lines:
        for line in lines:
            if line.strip() and not inside:
                names.append(line.split(maxsplit=1)[0])
            inside = bool(line.strip())
    return names


@cache
def craft_trees(corpora: Path, split: str) -> tuple[Tree, ...]:
    return _normalized(read_trees(corpora / "craft" / f"{split}.trees.gz"))


@cache
def domain_trees(corpora: Path, domain: str, split: str) -> tuple[Tree, ...]:
    """Return the normalised trees of train or dev of a domain, in the conventions of EWT.

    domain: one of DOMAINS.
    """
    if domain == "craft":
        return tuple(_like_ewt(tree) for tree in craft_trees(corpora, split))
    return _normalized(read_trees(corpora / "mctb" / f"{domain}.{split}.trees.gz"))


PARTS_OF_ARTICLES = frozenset({"CAPTION", "CIT", "HEADING", "TITLE"})
CLAUSES = frozenset({"FRAG", "S", "SBAR", "SINV", "SQ"})


def _like_ewt(tree: Tree) -> Tree:
    """Return a tree of CRAFT in the conventions of EWT, which has no labels for parts of articles,
    no PRN around a phrase in round brackets, and the tag of commas for semicolons and slashes."""

    def leaf(node: Tree) -> Tree:
        return Tree.leaf(",", node.word) if node.word in (";", "/") else node

    def phrase(node: Tree, children: list[Tree]) -> Tree:
        first = children[0]
        if node is tree and len(children) == 1 and first.label in PARTS_OF_ARTICLES:
            return Tree(node.label, first.children)
        if node.label == "PRN" and first.label == "-LRB-":
            places = [i for i, child in enumerate(children) if not child.is_leaf]
            if len(places) == 1 and children[places[0]].label not in CLAUSES:
                at = places[0]
                inner = children[at]
                return Tree(inner.label, [*children[:at], *inner.children, *children[at + 1 :]])
        return Tree("NP" if node.label == "CIT" else node.label, children)

    return tree.fold(leaf, phrase)


def _normalized(trees: Iterator[Tree]) -> tuple[Tree, ...]:
    found = (normalize(tree) for tree in trees)
    return tuple(tree for tree in found if tree is not None)


@cache
def skeleton_trees(corpora: Path, split: str) -> tuple[Tree, ...]:
    """Return trees of train or dev whose words are their tags."""
    return _normalized(read_trees(corpora / "wsj_skeleton" / f"{split}.postrees.gz"))


TREES: dict[str, Callable[[Path, str], tuple[Tree, ...]]] = {
    "wsj": wsj_trees,
    "ewt": ewt_trees,
    "craft": craft_trees,
    "wsj_skeleton": skeleton_trees,
}


# --- trees without binarisation
def unfolded(tree: Tree) -> Tree:
    """Binarise a tree without markovisation: a node with n children gets n - 2 right-branching
    nodes, named after the parent and the remaining children.
    """

    def phrase(node: Tree, children: list[Tree]) -> Tree:
        last = children.pop()
        # The remaining children are the name, so that equal suffixes share a symbol.
        names = [_rest_name(child) for child in node.children]
        while len(children) > 1:
            rest = f"~{node.label}->{'_'.join(names[len(children) - 1 :])}"
            last = Tree(rest, [children.pop(), last])
        return Tree(node.label, [*children, last])

    return tree.fold(lambda leaf: leaf, phrase)


def _rest_name(child: Tree) -> str:
    # A tag and a phrase can have the same spelling.
    return child.label + ("" if child.word is None else "/")


def folded(parse: Parse) -> Parse:
    """Return the parse without the nodes added by `unfolded`."""
    kept = [i for i, label in enumerate(parse.labels) if not label.startswith("~")]
    return replace(
        parse,
        labels=[parse.labels[i] for i in kept],
        starts=[parse.starts[i] for i in kept],
        ends=[parse.ends[i] for i in kept],
        probabilities=parse.probabilities[kept],
    )
