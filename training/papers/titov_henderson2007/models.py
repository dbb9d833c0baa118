"""Treebanks of short sentences, their tags, and scores of parsers on them."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

import spacy_structlearn
from spacy_structlearn.evaluation.evalb import EvalbScore
from spacy_structlearn.trees.parse import Parse
from spacy_structlearn.trees.tree import Tree
from training.common.ewt import tuning_documents
from training.common.parsers import WARM_UP, Run
from training.common.recording import WORK
from training.common.scoring import Figures, f1_of, scored, tagged
from training.common.treebanks import PUNCTUATION, TREES, ewt_documents
from training.pipeline import default

NAME = "titov_henderson2007"
LONGEST = 15  # words of a sentence, including punctuation
SAMPLES = 10_000  # of the bootstrap
JACKKNIFED = ".jackknifed"  # suffix of a part with jackknifed tags
# For each corpus, the parts for training and scoring during selection, and after selection.
PARTS = {"ewt": ("fit", "tune", "train", "dev"), "wsj": ("train", "dev", "train", "test")}
# Sources of the input tags of parsers, as in the names of figures.
TAGS = {"ewt": ("tagger", "gold_tags", "own_tags"), "wsj": ("gold_tags", "own_tags")}
MAIN_TAGS = {corpus: kinds[0] for corpus, kinds in TAGS.items()}

Tags = Sequence[Sequence[str]] | None


class Parser(Protocol):
    """A parser of words."""

    def parse(self, sentences: Any, tags: Any = None) -> list[Parse]: ...


# --- treebanks ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Short(Run):
    """Treebanks without their longer sentences.

    longest: maximum number of words, None for all sentences. shared: cache of taggers and parsers
    of training.train_default.
    """

    longest: int | None = LONGEST
    shared: Path = WORK

    def trees(self, corpus: str, split: str) -> Sequence[Tree]:
        """Return the normalised trees of a part of a corpus."""
        if split.endswith(JACKKNIFED):
            found = jackknifed_trees(
                self.corpora, self.shared, self.jobs, split.removesuffix(JACKKNIFED)
            )
        else:
            found = TREES[corpus](self.corpora, split)
        if self.longest is not None:
            found = tuple(tree for tree in found if len(tree.words()) <= self.longest)
        return found[: self.limit]

    def all_lengths(self) -> Short:
        """Return the same treebanks with longer sentences and a separate cache."""
        return replace(self, longest=None, work=self.shared)

    def name(self, corpus: str, split: str) -> str:
        """Return the name of a part of a corpus in file names."""
        longest = "" if self.longest is None else self.longest
        return f"{corpus}{longest}-{split}{'' if self.limit is None else self.limit}"


@functools.cache
def jackknifed_trees(corpora: Path, shared: Path, jobs: int, split: str) -> tuple[Tree, ...]:
    """Return the trees of EWT's train or fit with jackknifed tags."""
    predicted = default.read_docs(default.jackknifed(corpora, shared, jobs))
    tokens = (token for doc in predicted for token in doc if not token.is_space)
    tuning = tuning_documents(corpora)
    found = []
    names = ewt_documents(corpora, "train")
    for tree, name in zip(TREES["ewt"](corpora, "train"), names, strict=True):
        words = tree.words()
        own = list(islice(tokens, len(words)))
        if [token.text for token in own] != words:
            raise ValueError(f"{shared / 'ewt'} has other documents than {corpora / 'ewt'}")
        if split == "train" or name not in tuning:
            found.append(retagged(tree, [token.tag_ for token in own]))
    return tuple(found)


def retagged(tree: Tree, tags: Sequence[str]) -> Tree:
    """Return the tree with other tags."""
    return Tree.from_spans(tree.words(), list(tags), tree.spans())


# --- tags -----------------------------------------------------------------------------------------
def tags_of(run: Short, corpus: str, split: str, kind: str) -> Tags:
    """Return the input tags of parsers, None for predicted tags. kind: one of `TAGS`."""
    if kind == "own_tags":
        return None
    if kind == "gold_tags":
        return [tree.tags() for tree in run.trees(corpus, split)]
    return tagger_tags(run, split)


@functools.cache
def tagger_tags(run: Short, split: str) -> list[list[str]]:
    """Return tags of EWT's tune or dev by a tagger that has not seen it."""
    if split == "dev":
        nlp = spacy_structlearn.load()
    else:
        nlp = default.train_tagger(run.corpora, run.shared, "fit")
    return tagged(nlp, run.trees("ewt", split))


def tagger_accuracy(run: Short, split: str) -> float:
    """Return the accuracy of the tagger in percent."""
    gold = [tag for tree in run.trees("ewt", split) for tag in tree.tags()]
    found = [tag for tags in tagger_tags(run, split) for tag in tags]
    return 100 * float(np.mean([a == b for a, b in zip(gold, found, strict=True)]))


# --- scores ---------------------------------------------------------------------------------------
def evaluated(
    run: Short,
    parser: Parser,
    corpus: str,
    split: str,
    kind: str,
    restore: Callable[[Parse], Parse] | None = None,
) -> tuple[EvalbScore, float]:
    """Parse a part of a corpus. kind: one of `TAGS`. restore: function to apply to parses.

    Returns the score, and CPU milliseconds per token.
    """
    gold = run.trees(corpus, split)
    parses, seconds = timed(parser, gold, tags_of(run, corpus, split, kind))
    if restore is not None:
        parses = [restore(parse) for parse in parses]
    n_tokens = sum(len(tree.words()) for tree in gold)
    return scored(parses, gold, PUNCTUATION[corpus]), 1000 * seconds / max(n_tokens, 1)


def timed(parser: Parser, gold: Sequence[Tree], tags: Tags) -> tuple[list[Parse], float]:
    """Parse the words of these trees with a progress bar. Return parses and CPU seconds."""
    sentences = [tree.words() for tree in gold]
    parser.parse(sentences[:WARM_UP], None if tags is None else tags[:WARM_UP])
    parses: list[Parse] = []
    start = time.process_time()
    for begin in tqdm(range(0, len(sentences), 100), desc="parsing", mininterval=5):
        own = slice(begin, begin + 100)
        parses += parser.parse(sentences[own], None if tags is None else tags[own])
    return parses, time.process_time() - start


def figures_of(score: EvalbScore) -> Figures:
    """Return the scores in percent."""
    return {
        "recall": score.recall,
        "precision": score.precision,
        "f1": score.f1,
        "exact": score.complete_match,
    }


def under_tags(corpus: str, kind: str, figures: Figures) -> Figures:
    """Add the kind of tags to the names of figures, except for the main figures."""
    if kind == MAIN_TAGS[corpus]:
        # Those of a tagger are what the paper has.
        return figures if kind == "tagger" else figures | named(kind, figures)
    return named(kind, figures)


def named(kind: str, figures: Figures) -> Figures:
    return {f"{kind}.{key}": value for key, value in figures.items()}


def bootstrap(
    first: NDArray[np.int64], second: NDArray[np.int64], samples: int = SAMPLES, seed: int = 0
) -> float:
    """Compare the F1 of two parsers by the paired bootstrap (Efron & Tibshirani 1993, chapter 16).

    first, second: `bracket_counts` of the same sentences. Sentences are drawn with replacement. The
    differences in the samples, minus the observed difference, are those of two equal parsers.
    Returns the two-sided p, the share of samples with at least the observed absolute difference.
    """
    difference = float(f1_of(second.sum(axis=0)) - f1_of(first.sum(axis=0)))
    n = len(first)
    random = np.random.default_rng(seed)
    as_large = 0
    for size in _portions(samples, max(1, 1_000_000 // max(n, 1))):
        drawn = random.multinomial(n, np.full(n, 1 / n), size=size)
        found = f1_of(drawn @ second) - f1_of(drawn @ first)
        as_large += int(np.sum(np.abs(found - difference) >= abs(difference)))
    return (as_large + 1) / (samples + 1)


def _portions(number: int, most: int) -> Iterator[int]:
    while number > 0:
        yield min(number, most)
        number -= most
