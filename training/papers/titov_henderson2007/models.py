"""Treebanks of short sentences, their tags, and scores of parsers on them."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from tqdm import tqdm

import spacy_structlearn
from spacy_structlearn.evaluation.evalb import EvalbScore
from spacy_structlearn.trees.parse import Parse
from spacy_structlearn.trees.tree import Tree
from training.common.kept import Run
from training.common.parsers import WARM_UP
from training.common.scoring import Figures, scored, tagged, under
from training.common.treebanks import PUNCTUATION, TREES
from training.pipeline import default

LONGEST = 15  # words of a sentence, including punctuation
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

    longest: maximum number of words, None for all sentences.
    """

    longest: int | None = LONGEST

    def trees(self, corpus: str, split: str) -> Sequence[Tree]:
        """Return the normalised trees of a part of a corpus."""
        found = TREES[corpus](self.corpora, split)
        if self.longest is not None:
            found = tuple(tree for tree in found if len(tree.words()) <= self.longest)
        return found[: self.limit]

    def name(self, corpus: str, split: str) -> str:
        """Return the name of a part of a corpus in file names."""
        longest = "" if self.longest is None else self.longest
        return super().name(f"{corpus}{longest}", split)


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
        nlp = default.train_tagger(run.corpora, run.work, "fit")
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
        return figures if kind == "tagger" else figures | under(kind, figures)
    return under(kind, figures)
