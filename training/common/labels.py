"""Predicted labels of items: accuracy with its standard error."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import sqrt
from typing import NamedTuple


class Accuracy(NamedTuple):
    """Number of items with the right label, and of all items."""

    correct: int
    total: int

    @property
    def accuracy(self) -> float:
        return self.correct / self.total if self.total else 0.0

    @property
    def standard_error(self) -> float:
        """Standard error of the accuracy, as a binomial proportion."""
        return sqrt(self.accuracy * (1 - self.accuracy) / self.total) if self.total else 0.0


def score_labels(gold: Sequence[Hashable], predicted: Sequence[Hashable]) -> Accuracy:
    """Count the right labels. Raises ValueError if the numbers of labels differ."""
    return Accuracy(sum(a == b for a, b in zip(gold, predicted, strict=True)), len(gold))
