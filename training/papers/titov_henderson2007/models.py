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
from training.common.scoring import Figures, scored, tagged
from training.common.treebanks import PUNCTUATION, TREES, ewt_documents
from training.pipeline import default

NAME = "titov_henderson2007"
LONGEST = 15  # words of a sentence, punctuation counted
SAMPLES = 10_000  # of the bootstrap
JACKKNIFED = ".jackknifed"  # behind the name of a part: with the tags of taggers of other folds
# Of each corpus: what models are trained on to choose among them and what chooses, what the chosen
# one is trained on and what it is scored on.
PARTS = {"ewt": ("fit", "tune", "train", "dev"), "wsj": ("train", "dev", "train", "test")}
# Where the tags come from that a parser must use, by what is put into the names of figures.
TAGS = {"ewt": ("tagger", "gold_tags", "own_tags"), "wsj": ("gold_tags", "own_tags")}
MAIN_TAGS = {corpus: kinds[0] for corpus, kinds in TAGS.items()}

Tags = Sequence[Sequence[str]] | None


class Parser(Protocol):
    """Whatever makes trees of words."""

    def parse(self, sentences: Any, tags: Any = None) -> list[Parse]: ...


# --- treebanks ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Short(Run):
    """Treebanks without their longer sentences.

    longest: words of the longest sentence, None for all. shared: where training.train_default keeps
    taggers and parsers.
    """

    longest: int | None = LONGEST
    shared: Path = WORK

    def trees(self, corpus: str, split: str) -> Sequence[Tree]:
        """Of a part of a corpus, normalised."""
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
        """The same with the longer sentences too, and what is kept of them elsewhere."""
        return replace(self, longest=None, work=self.shared)

    def name(self, corpus: str, split: str) -> str:
        """Of a part of a corpus, in names of files."""
        longest = "" if self.longest is None else self.longest
        return f"{corpus}{longest}-{split}{'' if self.limit is None else self.limit}"


@functools.cache
def jackknifed_trees(corpora: Path, shared: Path, jobs: int, split: str) -> tuple[Tree, ...]:
    """The trees of EWT's train or fit, each word with the tag that a tagger of the other folds of
    the documents gives it.
    """
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
    """The tree with other tags."""
    return Tree.from_spans(tree.words(), list(tags), tree.spans())


# --- tags -----------------------------------------------------------------------------------------
def tags_of(run: Short, corpus: str, split: str, kind: str) -> Tags:
    """The tags that parsers are given, None if they are to find their own. kind: one of `TAGS`."""
    if kind == "own_tags":
        return None
    if kind == "gold_tags":
        return [tree.tags() for tree in run.trees(corpus, split)]
    return tagger_tags(run, split)


@functools.cache
def tagger_tags(run: Short, split: str) -> list[list[str]]:
    """Of EWT's tune or dev, by a tagger that has not seen it: the default pipeline's on dev."""
    if split == "dev":
        nlp = spacy_structlearn.load()
    else:
        nlp = default.train_tagger(run.corpora, run.shared, "fit")
    return tagged(nlp, run.trees("ewt", split))


def tagger_accuracy(run: Short, split: str) -> float:
    """In percent."""
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
    """Parse a part of a corpus. kind: one of `TAGS`. restore: what to make of a parse first.

    Returns the score, and CPU milliseconds a token.
    """
    gold = run.trees(corpus, split)
    parses, seconds = timed(parser, gold, tags_of(run, corpus, split, kind))
    if restore is not None:
        parses = [restore(parse) for parse in parses]
    n_tokens = sum(len(tree.words()) for tree in gold)
    return scored(parses, gold, PUNCTUATION[corpus]), 1000 * seconds / max(n_tokens, 1)


def timed(parser: Parser, gold: Sequence[Tree], tags: Tags) -> tuple[list[Parse], float]:
    """Parses of the words of these trees, under a progress bar, and CPU seconds."""
    sentences = [tree.words() for tree in gold]
    parser.parse(sentences[:WARM_UP], None if tags is None else tags[:WARM_UP])
    parses: list[Parse] = []
    start = time.process_time()
    for begin in tqdm(range(0, len(sentences), 100), desc="parsing", mininterval=5):
        own = slice(begin, begin + 100)
        parses += parser.parse(sentences[own], None if tags is None else tags[own])
    return parses, time.process_time() - start


def figures_of(score: EvalbScore) -> Figures:
    """In percent."""
    return {
        "recall": score.recall,
        "precision": score.precision,
        "f1": score.f1,
        "exact": score.complete_match,
    }


def under_tags(corpus: str, kind: str, figures: Figures) -> Figures:
    """Figures of the tags that the main ones are of have names without them."""
    if kind == MAIN_TAGS[corpus]:
        # Those of a tagger are what the paper has.
        return figures if kind == "tagger" else figures | named(kind, figures)
    return named(kind, figures)


def named(kind: str, figures: Figures) -> Figures:
    return {f"{kind}.{key}": value for key, value in figures.items()}


def bracket_counts(score: EvalbScore) -> NDArray[np.int64]:
    """Of each sentence: brackets found and right, those of the gold tree, those found.

    Returns int64 (n, 3), zeros for sentences that EVALB does not score.
    """
    brackets = (row.brackets for row in score.rows)
    rows = [(counts.correct, counts.gold, counts.predicted) for counts in brackets]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def f1_of(counts: NDArray[Any]) -> NDArray[np.float64]:
    """F1 in percent. counts: (..., 3), sums of those of `bracket_counts`."""
    counts = np.asarray(counts, dtype=np.float64)
    return 200 * counts[..., 0] / np.maximum(counts[..., 1] + counts[..., 2], 1)


def bootstrap(
    first: NDArray[np.int64], second: NDArray[np.int64], samples: int = SAMPLES, seed: int = 0
) -> float:
    """The paired bootstrap (Efron & Tibshirani 1993, chapter 16) of two parsers' F1.

    first, second: counts of `bracket_counts`, of the same sentences. Sentences are drawn with
    replacement; the samples' differences, less the one found, are those of two equal parsers.
    Returns how often they are at least as large as it, whichever is ahead; two-sided p.
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
