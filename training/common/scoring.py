"""Parse and score the trees of a treebank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from tqdm import tqdm

from spacy_structlearn.evaluation import significance
from spacy_structlearn.evaluation.evalb import EvalbScore, score_trees
from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.trees.parse import Parse
from spacy_structlearn.trees.tree import Tree

Figures = dict[str, Any]


def parsed(parser: ChartParser, gold: Sequence[Tree]) -> list[Parse]:
    """Parse the words of these trees with a progress bar."""
    sentences = [tree.words() for tree in gold]
    parses: list[Parse] = []
    for start in tqdm(range(0, len(sentences), 100), desc="parsing", mininterval=5):
        parses += parser.parse(sentences[start : start + 100])
    return parses


def scored(parses: Sequence[Parse], gold: Sequence[Tree], punctuation: str) -> EvalbScore:
    """Score parses with EVALB, including fallback trees."""
    pairs = zip(parses, gold, strict=True)
    return score_trees(
        gold, [parse.tree(tree.words()) for parse, tree in pairs], punctuation=punctuation
    )


def score(parser: ChartParser, gold: Sequence[Tree], punctuation: str = "own") -> EvalbScore:
    return scored(parsed(parser, gold), gold, punctuation)


def bracket_counts(score: EvalbScore) -> NDArray[np.int64]:
    """Return the numbers of right, gold and predicted brackets of each sentence.

    int64 (n, 3), zeros for sentences that EVALB does not score.
    """
    brackets = (row.brackets for row in score.rows)
    rows = [(counts.correct, counts.gold, counts.predicted) for counts in brackets]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def f1_of(counts: NDArray[Any]) -> NDArray[np.float64]:
    """Return F1 in percent. counts: (..., 3), sums of right, gold and predicted items."""
    counts = np.asarray(counts, dtype=np.float64)
    return 200 * counts[..., 0] / np.maximum(counts[..., 1] + counts[..., 2], 1)


def bootstrap_error(counts: NDArray[np.int64], samples: int = 1000, seed: int = 0) -> float:
    """Return the standard error of F1, in points, by a bootstrap over sentences.

    Efron & Tibshirani (1993), chapter 6: sentences are drawn with replacement. counts: right, gold
    and predicted items of each sentence, (n, 3).
    """
    return float(f1_of(significance.resampled(counts, samples, seed)).std(ddof=1))


def paired_bootstrap(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Return p of the difference in F1 of two parsers; see `significance.paired_bootstrap`.

    first, second: `bracket_counts` of the same sentences.
    """
    return float(significance.paired_bootstrap(first, second, f1_of).p)


def f1_standard_error(score: EvalbScore) -> float:
    """Return the standard error of F1 of brackets, see `bootstrap_error`."""
    return bootstrap_error(bracket_counts(score))


def figures_of(score: EvalbScore, split: str) -> dict[str, float]:
    return {
        f"{split}_f1": score.f1,
        f"{split}_f1_se": f1_standard_error(score),
        f"{split}_complete": score.complete_match,
        f"{split}_f1_strict": score.strict.f1,
    }


def brackets_right(parses: Sequence[Parse], gold: Sequence[Tree]) -> tuple[np.ndarray, np.ndarray]:
    """Return the probability of every predicted bracket, and whether the gold tree has it.

    Brackets are over all tokens, with punctuation. If equal brackets occur more often than in the
    gold tree, the topmost ones count as right.
    """
    probabilities, right = [np.empty(0)], []
    for parse, tree in zip(parses, gold, strict=True):
        left: dict[tuple[str, int, int], int] = {}
        for span in tree.spans()[1:]:
            left[span] = left.get(span, 0) + 1
        for span in parse.spans:
            right.append(left.get(span, 0) > 0)
            left[span] = left.get(span, 0) - 1
        probabilities.append(parse.probabilities)
    return np.concatenate(probabilities), np.array(right, dtype=bool)


def tagged(nlp: Language, gold: Sequence[Tree]) -> list[list[str]]:
    """Return the tags that a pipeline predicts for the words of these trees."""
    docs = [Doc(nlp.vocab, words=tree.words()) for tree in gold]
    for name, pipe in nlp.pipeline:
        if name in ("tok2vec", "tagger", "chain_tagger"):
            docs = list(pipe.pipe(docs))
    return [[token.tag_ for token in doc] for doc in docs]


def under(prefix: str, figures: dict[str, float]) -> dict[str, float]:
    return {f"{prefix}.{key}": value for key, value in figures.items()}
