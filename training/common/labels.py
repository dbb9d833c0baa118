"""Predicted labels of items: accuracy with its standard error, and McNemar's test of two models."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import sqrt
from typing import NamedTuple

from scipy.special import bdtr, chdtrc

FEW = 25  # of fewer items that only one model gets right, the test is exact


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


class McNemar(NamedTuple):
    """Number of items that only one of the models gets right, and the p-value."""

    only_a: int
    only_b: int
    p: float


def mcnemar(gold: Sequence[Hashable], a: Sequence[Hashable], b: Sequence[Hashable]) -> McNemar:
    """Test whether the predictions a and b for the same items differ (McNemar 1947).

    By chi-square with one degree of freedom and the continuity correction of Edwards (1948), or for
    fewer than `FEW` items that only one model gets right, by the exact two-sided binomial test.
    """
    rights = [(one == right, other == right) for right, one, other in zip(gold, a, b, strict=True)]
    only_a, only_b = rights.count((True, False)), rights.count((False, True))
    number = only_a + only_b
    if number < FEW:
        return McNemar(only_a, only_b, min(1.0, 2 * float(bdtr(min(only_a, only_b), number, 0.5))))
    # The correction must not make a difference of 0 negative.
    statistic = max(abs(only_a - only_b) - 1, 0) ** 2 / number
    return McNemar(only_a, only_b, float(chdtrc(1, statistic)))
