"""Whether two models differ: the paired bootstrap, and McNemar's test."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, chdtrc

SAMPLES = 10_000  # of the bootstrap
FEW = 25  # of fewer items that only one model gets right, McNemar's test is exact
_CELLS = 1_000_000  # of samples at a time


def resampled(counts: NDArray[Any], samples: int = SAMPLES, seed: int = 0) -> NDArray[np.float64]:
    """Return sums of counts over sentences that are drawn with replacement.

    counts: those of each sentence, (n, k). Returns (samples, k).
    """
    n, k = counts.shape
    counts, random = counts.astype(np.float64), np.random.default_rng(seed)
    sums = np.zeros((samples, k))
    portion = max(1, _CELLS // max(n, 1))
    for begin in range(0, samples if n else 0, portion):
        part = sums[begin : begin + portion]
        part[:] = random.multinomial(n, np.full(n, 1 / n), size=len(part)) @ counts
    return sums


class Difference(NamedTuple):
    """Scores of two models, the 95 % interval and the two-sided p of second - first, as arrays."""

    first: NDArray[np.float64]
    second: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    p: NDArray[np.float64]


def paired_bootstrap(
    first: NDArray[Any],
    second: NDArray[Any],
    measure: Callable[[NDArray[Any]], NDArray[np.float64]],
    samples: int = SAMPLES,
) -> Difference:
    """Compare two models on the same sentences (Efron & Tibshirani 1993, chapters 13 and 16).

    first, second: counts of each sentence, (n, k). measure: function from sums (..., k) to scores.
    The interval is that of percentiles. p is the share of samples in which the difference, minus
    the observed one, is at least as large as the observed one.
    """
    k = first.shape[1]
    sums = resampled(np.concatenate([first, second], axis=1), samples)
    a, b = measure(first.sum(axis=0)), measure(second.sum(axis=0))
    found = measure(sums[:, k:]) - measure(sums[:, :k])
    as_large = np.sum(np.abs(found - (b - a)) >= np.abs(b - a), axis=0)
    low, high = np.percentile(found, [2.5, 97.5], axis=0)
    return Difference(a, b, low, high, (as_large + 1) / (samples + 1))


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
