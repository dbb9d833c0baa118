"""Accuracy of labels, with standard error, confusions, and precision, recall and F1 per label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt

from .prf import PRF, check_numbers, span_score


@dataclass(frozen=True)
class ClassificationScore:
    """Counts of items.

    correct: Items with the right label. total: All items.
    confusion: Items by (gold, predicted) label, sorted. per_label: A `PRF` for each label, sorted.
    """

    correct: int = 0
    total: int = 0
    confusion: dict[tuple[str, str], int] = field(default_factory=dict)
    per_label: dict[str, PRF] = field(default_factory=dict)

    @property
    def accuracy(self) -> float:
        """correct / total, from 0 to 1; 0 without items."""
        return self.correct / self.total if self.total else 0.0

    @property
    def standard_error(self) -> float:
        """Standard error of the accuracy, as a binomial proportion."""
        return sqrt(self.accuracy * (1 - self.accuracy) / self.total) if self.total else 0.0


def score_labels(gold: Sequence[str], predicted: Sequence[str]) -> ClassificationScore:
    """Score predicted labels. Raises StructlearnError if the numbers of labels differ."""
    check_numbers(gold, predicted, "labels")
    confusion = Counter(zip(gold, predicted, strict=True))
    right = Counter(a for a, b in zip(gold, predicted, strict=True) if a == b)
    score = span_score(right, Counter(predicted), Counter(gold))
    pairs = dict(sorted(confusion.items()))
    return ClassificationScore(score.correct, len(gold), pairs, score.per_label)
