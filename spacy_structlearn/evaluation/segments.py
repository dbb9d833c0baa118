"""Precision, recall and F1 of sentences, or of tokens, in raw text: spans of characters without
labels, as the shared tasks on raw text count them (Zeman et al. 2017). White space is not counted,
neither at the ends of a span nor before it, so that the same text with blank lines, in one line or
wrapped has the same spans.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from .prf import PRF, character_spans, check_numbers, check_text, score_spans

# A text, and spans of its characters as (start, end), end exclusive.
Segmented = tuple[str, Iterable[tuple[int, int]]]


def score_segments(
    gold_docs: Sequence[Segmented], predicted_docs: Sequence[Segmented]
) -> list[PRF]:
    """The counts of each document; see `micro_average` for those of all.

    The two texts of a document may differ in their white space. A span of nothing else has no
    characters, and is left out. Raises SL301 if the numbers of documents differ, SL304 if a text
    does (the document is named, counted from 1), SL305 for a span that is empty or leaves the text.
    """
    check_numbers(gold_docs, predicted_docs, "documents")
    scores: list[PRF] = []
    for gold, predicted in zip(gold_docs, predicted_docs, strict=True):
        check_text(gold[0], predicted[0], len(scores) + 1)
        scores.append(score_spans([_placed(*gold)], [_placed(*predicted)]))
    return scores


def _placed(text: str, spans: Iterable[tuple[int, int]]) -> list[tuple[str, int, int]]:
    """The spans in characters that are not white space, as `prf` takes them."""
    return character_spans(text, [("", start, end) for start, end in spans])


def micro_average(scores: Iterable[PRF]) -> PRF:
    """The counts of all documents together."""
    counts = _counts(scores).sum(axis=0).tolist()
    return PRF(*counts)


def standard_error(scores: Iterable[PRF], samples: int = 1000, seed: int = 0) -> float:
    """Of the F1 over all documents, by the bootstrap (Efron & Tibshirani 1993, chapter 6).

    Documents are drawn with replacement, because sentences of one are alike. samples: how often.
    RETURNS: the standard deviation of the samples' F1; 0 for no documents.
    """
    counts = _counts(scores)
    n = len(counts)
    if not n:
        return 0.0
    drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=samples) @ counts
    return float(np.std(2 * drawn[:, 0] / np.maximum(drawn[:, 1] + drawn[:, 2], 1)))


def _counts(scores: Iterable[PRF]) -> np.ndarray:
    """correct, predicted and gold of each document: int64 (n, 3)."""
    rows = [(score.correct, score.predicted, score.gold) for score in scores]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)
