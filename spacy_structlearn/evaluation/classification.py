"""Accuracy of one label for each item, with its standard error, the counts of confusions, and
precision, recall and F1 of every label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt

from .prf import PRF, check_numbers, span_score


@dataclass(frozen=True)
class ClassificationScore:
    """Counts of items and what is made of them.

    correct: items with the right label. total: all items. confusion: items by (gold, predicted)
    label, where there are any, sorted. per_label: a `PRF` for each label on either side, sorted.
    """

    correct: int = 0
    total: int = 0
    confusion: dict[tuple[str, str], int] = field(default_factory=dict)
    per_label: dict[str, PRF] = field(default_factory=dict)

    @property
    def accuracy(self) -> float:
        """correct / total, from 0 to 1; 0 for no items."""
        return self.correct / self.total if self.total else 0.0

    @property
    def standard_error(self) -> float:
        """Of the accuracy, as a binomial proportion: sqrt(accuracy (1 - accuracy) / total)."""
        return sqrt(self.accuracy * (1 - self.accuracy) / self.total) if self.total else 0.0


def score_labels(gold: Sequence[str], predicted: Sequence[str]) -> ClassificationScore:
    """Score predicted labels against gold ones. Raises SL301 if their numbers differ."""
    check_numbers(gold, predicted, "labels")
    confusion = Counter(zip(gold, predicted, strict=True))
    right = Counter(a for a, b in zip(gold, predicted, strict=True) if a == b)
    score = span_score(right, Counter(predicted), Counter(gold))
    confusion = dict(sorted(confusion.items()))
    return ClassificationScore(score.correct, len(gold), confusion, score.per_label)
