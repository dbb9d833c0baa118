"""Precision, recall and F1 of sentences or tokens in raw text: spans of characters without labels,
as in the shared tasks on raw text (Zeman et al. 2017). White space is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from spacy_structlearn.evaluation.prf import PRF, character_spans, check_documents, score_spans

# A text, and spans of its characters as (start, end), end exclusive.
Segmented = tuple[str, Iterable[tuple[int, int]]]


def score_segments(
    gold_docs: Sequence[Segmented], predicted_docs: Sequence[Segmented]
) -> list[PRF]:
    """Return the counts of each document.

    The two texts of a document may differ in white space; spans of only white space are omitted.
    Raises StructlearnError if the numbers or texts of documents differ, or for a bad span.
    """
    check_documents(gold_docs, predicted_docs)
    scores: list[PRF] = []
    for gold, predicted in zip(gold_docs, predicted_docs, strict=True):
        sides = [
            character_spans(text, [("", start, end) for start, end in spans])
            for text, spans in (gold, predicted)
        ]
        scores.append(score_spans(sides[:1], sides[1:]))
    return scores


def micro_average(scores: Iterable[PRF]) -> PRF:
    """Return the counts of all documents together."""
    counts = _counts(scores).sum(axis=0).tolist()
    return PRF(*counts)


def standard_error(scores: Iterable[PRF], samples: int = 1000, seed: int = 0) -> float:
    """Return the standard error of F1, by the bootstrap (Efron & Tibshirani 1993, chapter 6).

    Whole documents are drawn, because their sentences are similar. samples: number of samples.
    """
    counts = _counts(scores)
    n = len(counts)
    if not n:
        return 0.0
    drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=samples) @ counts
    return float(np.std(2 * drawn[:, 0] / np.maximum(drawn[:, 1] + drawn[:, 2], 1)))


def _counts(scores: Iterable[PRF]) -> np.ndarray:
    """Return correct, predicted and gold of each document: int64 (n, 3)."""
    rows = [(score.correct, score.predicted, score.gold) for score in scores]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)
