"""Trees over the scores of spans: the best tree, the posteriors of spans, and the margin loss.

Each span of a sentence has a score for each label, the first of which is no phrase, and
s(span, label) - s(span, no phrase) is added to the score of a tree with this bracket. Spans without
a phrase make trees binary (Stern, Andreas & Klein 2017). The spans of a sentence are in the order
of their start and end, one sentence after another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import ranges
from . import _spans
from .scorer import SiteScorer, Vectors

JOIN = "+"  # of the labels of a unary chain, topmost first

Ints = NDArray[np.int64]
Floats = NDArray[np.floating]


def span_sites(lengths: Sequence[int] | Ints) -> Ints:
    """Return the sites of all spans of sentences, int64 (n, 4): the tokens before, first, last, and
    after, with -1 beyond the sentence. The tokens of the sentences follow one another."""
    sizes = np.asarray(lengths, dtype=np.int64)
    words, ends = np.arange(sizes.sum()), np.cumsum(sizes)
    first, end = np.repeat(ends - sizes, sizes), np.repeat(ends, sizes)
    before = np.where(words == first, -1, words - 1)
    after = np.where(words + 1 == end, -1, words + 1)
    starts, lasts = np.repeat(words, end - words), ranges(words, end - words)
    return np.stack([before[starts], starts, lasts, after[lasts]], axis=1)


def span_scores(scorer: SiteScorer, vectors: Vectors, sites: Ints) -> Iterator[tuple[slice, Any]]:
    """Yield the scores of all spans of sentences, a few rows at a time; see `SiteScorer.of_parts`.

    What a span has of its start, and of its end, is summed once for each word. vectors: float32
    (n_tokens, width). sites: those of `span_sites`.
    """
    before, first, last, after = scorer.projected(vectors)
    left, _, _, right = sites[sites[:, 1] == sites[:, 2]].T
    parts = first[:-1] + before[left], last[:-1] + after[right]
    return scorer.of_parts(parts, sites[:, 1:3])


def n_spans(length: Any) -> Any:
    """Return the number of spans of a sentence of this length."""
    return length * (length + 1) // 2


def place(start: Any, end: Any, length: Any) -> Any:
    """Return the places of spans among those of their sentence of this length."""
    return start * length - start * (start - 1) // 2 + end - start - 1


def best_tree(values: Floats, lengths: Sequence[int] | Ints) -> Ints:
    """Return the places of the spans of the best binary tree of each sentence, ascending.

    values: of each span, (n). lengths: of the sentences, which are not empty.
    """
    return np.flatnonzero(_expected(values, lengths, best=True))


def posteriors(values: Floats, lengths: Sequence[int] | Ints) -> NDArray[np.float64]:
    """Return the probability of each span if that of a binary tree is proportional to the exponent
    of the sum of the values of its spans. For the arguments see `best_tree`."""
    return _expected(values, lengths, best=False)


def _expected(values: Floats, lengths: Sequence[int] | Ints, best: bool) -> NDArray[np.float64]:
    values = np.ascontiguousarray(values, dtype=np.float64)
    return np.asarray(_spans.expected(values, np.asarray(lengths, dtype=np.int64), best))


def margin(
    scores: NDArray[np.float32], gold: Ints, lengths: Sequence[int] | Ints
) -> tuple[float, NDArray[np.float32]]:
    """Return the sum of the hinge losses of trees, and its gradient by the scores.

    The loss is the score of the best tree, with 1 for each wrong label, less that of the gold tree.
    scores: float32 (n, labels). gold: of the spans, 0 for no phrase. lengths: see `best_tree`.
    """
    rows = np.arange(len(gold))
    raised = scores - scores[:, :1] + 1.0
    raised[rows, gold] -= 1.0
    raised[:, 0] = gold > 0
    labels = raised.argmax(axis=1)
    chosen = best_tree(raised[rows, labels], lengths)
    found, wanted = np.zeros_like(gold), gold
    found[chosen] = labels[chosen]
    gradient = np.zeros_like(scores)
    for sign, own in ((1.0, found), (-1.0, wanted)):
        at = np.flatnonzero(own)
        gradient[at, own[at]] += sign
        gradient[at, 0] -= sign
    wrong = float((labels[chosen] != gold[chosen]).sum())
    return float((gradient * scores).sum(dtype=np.float64)) + wrong, gradient
