"""The trees of the treebanks: EWT, CRAFT, and the Wall Street Journal's sample and skeleton."""

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

# What `score_trees` takes for punctuation: COLLINS.prm as it is, or the gold tags.
PUNCTUATION = {"wsj": "own", "ewt": "gold"}


@cache
def wsj_trees(corpora: Path, split: str) -> tuple[Tree, ...]:
    """Normalised trees of train, dev or test: the files that split.json names."""
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
    """Normalised trees of train, dev, tune (the documents of tune.txt) or fit (train without)."""
    folder = corpora / "ewt"
    if split in ("train", "dev"):
        return _normalized(read_trees(folder / f"{split}.trees.gz"))
    tuning = tuning_documents(corpora)
    names = ewt_documents(corpora, "train")
    pairs = zip(ewt_trees(corpora, "train"), names, strict=True)
    return tuple(tree for tree, name in pairs if (name in tuning) is (split == "tune"))


def ewt_documents(corpora: Path, split: str) -> list[str]:
    """The name of each sentence's document."""
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


def _normalized(trees: Iterator[Tree]) -> tuple[Tree, ...]:
    found = (normalize(tree) for tree in trees)
    return tuple(tree for tree in found if tree is not None)


@cache
def skeleton_trees(corpora: Path, split: str) -> tuple[Tree, ...]:
    """Trees of train or dev over tags, which are their own words."""
    return _normalized(read_trees(corpora / "wsj_skeleton" / f"{split}.postrees.gz"))


TREES: dict[str, Callable[[Path, str], tuple[Tree, ...]]] = {
    "wsj": wsj_trees,
    "ewt": ewt_trees,
    "craft": craft_trees,
    "wsj_skeleton": skeleton_trees,
}


# --- trees without binarisation
def unfolded(tree: Tree) -> Tree:
    """The tree with at most two children a node, and nothing forgotten: a node of n children gets
    n - 2 right-branching ones whose names tell parent and remaining children.
    """

    def phrase(node: Tree, children: list[Tree]) -> Tree:
        last = children.pop()
        # The names are of what is below, so that equal suffixes are one symbol.
        names = [_rest_name(child) for child in node.children]
        while len(children) > 1:
            rest = f"~{node.label}->{'_'.join(names[len(children) - 1 :])}"
            last = Tree(rest, [children.pop(), last])
        return Tree(node.label, [*children, last])

    return tree.fold(lambda leaf: leaf, phrase)


def _rest_name(child: Tree) -> str:
    # A tag and a phrase of the same spelling are not the same.
    return child.label + ("" if child.word is None else "/")


def folded(parse: Parse) -> Parse:
    """The parse without the nodes that `unfolded` made."""
    kept = [i for i, label in enumerate(parse.labels) if not label.startswith("~")]
    return replace(
        parse,
        labels=[parse.labels[i] for i in kept],
        starts=[parse.starts[i] for i in kept],
        ends=[parse.ends[i] for i in kept],
        probabilities=parse.probabilities[kept],
    )
