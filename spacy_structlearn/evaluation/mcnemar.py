"""McNemar's test (1947) of whether two classifiers differ on the same items.

Only items count that just one of them gets right, by chi-square with one degree of freedom and the
continuity correction of Edwards (1948), or if they are few, by the exact two-sided binomial test.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from scipy.special import bdtr, chdtrc

from .prf import check_numbers

FEW = 25
"""The exact test is the default for fewer items that only one classifier gets right."""


class McNemar(NamedTuple):
    """only_a, only_b: Number of items that only this classifier gets right.
    statistic: Chi-square, corrected. p: The p-value. exact: Whether p is of the binomial test.
    """

    only_a: int
    only_b: int
    statistic: float
    p: float
    exact: bool


def mcnemar(
    gold: Sequence[Hashable],
    a: Sequence[Hashable],
    b: Sequence[Hashable],
    *,
    exact: bool | None = None,
) -> McNemar:
    """Compare the predictions a and b for the same items.

    exact: Whether to make the exact test; None: if fewer than `FEW` items are different.
    Raises StructlearnError if the numbers of labels differ.
    """
    for predicted in (a, b):
        check_numbers(gold, predicted, "labels")
    rights = [(one == right, other == right) for right, one, other in zip(gold, a, b, strict=True)]
    only_a, only_b = rights.count((True, False)), rights.count((False, True))
    number = only_a + only_b
    if exact is None:
        exact = number < FEW
    # The correction must not make a difference of 0 negative.
    statistic = max(abs(only_a - only_b) - 1, 0) ** 2 / max(number, 1)
    if exact:
        p = min(1.0, 2 * float(bdtr(min(only_a, only_b), number, 0.5)))
    else:
        p = float(chdtrc(1, statistic))
    return McNemar(only_a, only_b, statistic, p, exact)
