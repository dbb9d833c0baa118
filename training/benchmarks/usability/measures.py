"""Measures of complexity: against counts by hand, in predicted trees, and against Tregex.

measures.texts          texts of tests/measures/counted.txt, which were counted by hand
measures.wrong          those of which one of the nine counts is another one
measures.departures     those of which the definitions give another count than the patterns of the
                        published analyzer (Lu 2010), which we follow
measures.sentences_per_cpu_s    gold sentences of EWT's dev, all measures
accuracy.documents      documents of EWT's dev of at least 100 words; accuracy.INDEX: correlation of
                        each index of Lu in predicted and in gold trees, with gold tokens
tregex.trees            gold trees of EWT's dev; tregex.differences: in how many of the eight counts
                        besides words Tregex finds another number by the same patterns. CLASSES:
                        class path of Stanford's Tregex; this part needs Java
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, NamedTuple

import numpy as np

import spacy_structlearn
from spacy_structlearn.arrays import Coded
from spacy_structlearn.matching.forest import Forest
from spacy_structlearn.measures.complexity import COUNTS, INDICES, PATTERNS, counted
from spacy_structlearn.measures.totals import measures_of, totals
from spacy_structlearn.trees.brackets import read_trees
from spacy_structlearn.trees.nodes import Brackets
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.trees.tree import Tree
from training.common.command import Figures
from training.common.ewt import read_documents
from training.common.jackknife import untagged
from training.common.recording import ROOT

COUNTED = ROOT / "tests" / "measures" / "counted.txt"
FEWEST = 100  # words of a document
TREGEX = "edu.stanford.nlp.trees.tregex.TregexPattern"
_TEXT = re.compile(r"^# (.*): ([\d/ ]+)\n((?:\(.*\n)+)", re.MULTILINE)


class CountedText(NamedTuple):
    """A text with COUNTS: ours, by hand, and by hand by the patterns of the analyzer."""

    name: str
    counts: list[int]
    by_hand: list[int]
    published: list[int]


def trees_of(lines: Iterable[str]) -> list[Tree]:
    return [tree for tree in map(normalize, read_trees(lines)) if tree is not None]


def forest_of(trees: Iterable[Tree]) -> Forest:
    return Forest(Brackets.of(trees), lambda name: Coded([None], []))


def counted_texts() -> list[CountedText]:
    """Return the texts that were counted by hand."""
    found = []
    for name, given, lines in _TEXT.findall(COUNTED.read_text(encoding="utf8")):
        ours = measures_of(totals(forest_of(trees_of(lines.splitlines()))).sum(axis=0))
        pairs = [(cell.split("/") * 2)[:2] for cell in given.split()]
        by_hand, published = ([int(number) for number in side] for side in zip(*pairs, strict=True))
        found.append(CountedText(name, [int(ours[n]) for n in COUNTS], by_hand, published))
    return found


def measures(args: Any) -> Figures:
    texts = counted_texts()
    forest = forest_of(dev(args))
    began = process_time()
    sums = totals(forest)
    seconds = process_time() - began
    return {
        "measures.texts": len(texts),
        "measures.wrong": sum(text.counts != text.published for text in texts),
        "measures.departures": sum(text.by_hand != text.published for text in texts),
        "measures.sentences_per_cpu_s": len(sums) / seconds,
    }


def accuracy(args: Any) -> Figures:
    """Return how well the indices of predicted trees agree with those of gold trees."""
    nlp = spacy_structlearn.load(disable=["sentence_splitter"])
    gold = [doc for _, doc in read_documents(args.corpora, "dev")][: args.limit]
    gold = [doc for doc in gold if doc._.measures["W"] >= FEWEST]
    pairs = [
        (own._.measures, doc._.measures)
        for own, doc in zip(gold, nlp.pipe(untagged(nlp, doc) for doc in gold), strict=True)
    ]
    found = {
        f"accuracy.{name}": np.corrcoef([(a[name], b[name]) for a, b in pairs], rowvar=False)
        for name in INDICES
    }
    return {"accuracy.documents": len(gold)} | {key: float(r[0, 1]) for key, r in found.items()}


def tregex(args: Any) -> Figures:
    """Return how our counts differ from those of Tregex. Empty without it."""
    if args.tregex is None:
        return {}
    trees = dev(args)
    ours = {name: len(nodes) for name, nodes in counted(forest_of(trees)).items()}
    with TemporaryDirectory() as folder:
        path = Path(folder, "dev.mrg")
        lines = (str(tree).replace("(TOP", "(ROOT", 1) for tree in trees)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf8")
        theirs = {
            name: sum(matches(args.tregex, pattern, path) for pattern in patterns)
            for name, patterns in PATTERNS.items()
        }
    differences = sum(ours[name] != theirs[name] for name in PATTERNS)
    return {"tregex.trees": len(trees), "tregex.differences": differences}


def matches(classes: Path, pattern: str, path: Path) -> int:
    """Return the number of nodes that Tregex finds in a file of trees."""
    command = ["java", "-cp", classes, TREGEX, pattern, path, "-C", "-o"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(run.stdout.split()[-1])


def dev(args: Any) -> list[Tree]:
    documents = read_documents(args.corpora, "dev")
    return [tree for _, doc in documents for tree in doc._.trees][: args.limit]
