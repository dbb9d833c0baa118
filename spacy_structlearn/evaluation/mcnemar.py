"""Whether two classifiers differ on the same items, by the test of McNemar (1947). Only items count
that just one of the two gets right: by chi-square with one degree of freedom and the continuity
correction of Edwards (1948), or, where they are few, by the exact two-sided binomial test.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from scipy.special import bdtr, chdtrc

from .prf import check_numbers

FEW = 25
"""Below this number of items that only one of the two gets right, the exact test is the default."""


class McNemar(NamedTuple):
    """only_a, only_b: items that only this classifier gets right. statistic: chi-square, corrected.
    p: the probability of a difference as large or larger between classifiers that are equally good.
    exact: whether p is that of the binomial test and not of the statistic.
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

    gold, a, b: one label for each item. exact: which test to make; None: the exact one if fewer
    than `FEW` items tell the two apart. Where none does, p is 1. Raises SL301 if the numbers of
    labels differ.
    """
    for predicted in (a, b):
        check_numbers(gold, predicted, "labels")
    only_a = only_b = 0
    for right, one, other in zip(gold, a, b, strict=True):
        only_a += bool(one == right and other != right)
        only_b += bool(other == right and one != right)
    number = only_a + only_b
    if exact is None:
        exact = number < FEW
    # The correction halves a step of the difference; it must not make one where there is none.
    statistic = max(abs(only_a - only_b) - 1, 0) ** 2 / max(number, 1)
    if exact:
        p = min(1.0, 2 * float(bdtr(min(only_a, only_b), number, 0.5)))
    else:
        p = float(chdtrc(1, statistic))
    return McNemar(only_a, only_b, statistic, p, exact)
