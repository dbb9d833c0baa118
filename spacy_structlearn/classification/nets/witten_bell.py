"""Interpolated Witten-Bell smoothing of probability tables: Toutanova 2006, section 2.1.

    P_k(z | z_1..z_k) = lambda_k f / C + (1 - lambda_k) P_{k-1}(z | z_1..z_{k-1})
    lambda_k          = C / (C + d_k T),    lambda_k = 0 where C = 0,

with the count C of the context z_1..z_k, the number T of different values of the variable in it,
and the count f of z in it. P_0, of the empty context, is mixed with the uniform distribution 1 / V,
where V is the number of known values plus one for unknown values; over these V values the
probabilities sum to one. An unknown value keeps the factors 1 - lambda, which depend on the class.
Parents with many values are dropped first.

Training needs the derivatives by theta = log d, from dlambda/dtheta = -lambda (1 - lambda):
dP_k/dtheta_k = -lambda_k (1 - lambda_k) (f / C - P_{k-1}); dP_k/dtheta_j = (1 - lambda_k)
dP_{k-1}/dtheta_j for j < k.

The ablation of section 4 is 0.9 f / C + 0.1 / V without back-off, and 1 / V in unknown contexts:
the full context alone, with a ratio T / C of 1 / 9 and d = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .counts import ContextLevel, CountedInstances, JointCounts, Subset

UNIFORM_RATIO = 1.0 / 9.0
"""The T / C of the ablation, where lambda is 0.9."""

MIN_PROBABILITY = 1e-300
"""The smallest probability; the product of many factors 1 - lambda can underflow."""
MAX_LOG_D = 300.0
TIE = 1e-9
"""Smaller differences of log-probabilities are rounding errors."""

Floats = NDArray[np.float64]


class Family(NamedTuple):
    """The table of one variable for n rows and L labels.

    uniform: 1 / V, float64 (1 or n, 1). levels: from the empty to the full context, or only the
    full context for the ablation.
    """

    uniform: Floats
    levels: tuple[ContextLevel, ...]


def contexts(
    counts: JointCounts, variable: int, parents: Subset, smoothing: str = "witten_bell"
) -> tuple[Subset, ...]:
    """Return the contexts of a table, from the empty one to all parents and the class.

    The class itself has only the empty context. The parent with the most values is dropped first,
    of equal ones that with the highest index, and the class last.
    """
    if variable == counts.target:
        return ((),)
    places = sorted(
        (*parents, counts.target), key=lambda i: (counts.n_values(i), i != counts.target, i)
    )
    sets = tuple(tuple(sorted(places[:k])) for k in range(len(places) + 1))
    return sets if smoothing == "witten_bell" else sets[-1:]


def family(
    instances: CountedInstances,
    variable: int,
    contexts: Sequence[Subset],
    smoothing: str = "witten_bell",
) -> Family:
    """Return the table of a variable with these contexts, for all instances and labels."""
    levels = tuple(instances.level(context, variable) for context in contexts)
    if smoothing == "uniform":
        levels = tuple(
            level._replace(ratio=np.where(np.isfinite(level.ratio), UNIFORM_RATIO, np.inf))
            for level in levels
        )
    return Family(instances.uniform(variable), levels)


def ones(table: Family) -> Floats:
    """Return the d that are not fitted."""
    return np.ones(len(table.levels))


def probabilities(table: Family, d: Sequence[float] | Floats) -> Floats:
    """Return P of the values of all instances with all labels, float64 (n or 1, L or 1).

    d: one for each level.
    """
    p = table.uniform
    for (ratio, relative), d_k in zip(table.levels, d, strict=True):
        p = p + (relative - p) / (1.0 + d_k * ratio)
    return np.maximum(p, MIN_PROBABILITY)


class Objective:
    """The function of theta = log d that is minimised.

    joint:       -sum_i log P(x_i, y_i)  + l2 sum theta^2 / 2
    conditional: -sum_i log P(y_i | x_i) + l2 sum theta^2 / 2

    families: the tables of the network, including that of the class, for n instances and L labels.
    label_ids: int64 (n), the labels of the instances.
    tied: whether all levels of all tables share one theta.
    """

    def __init__(
        self,
        families: Sequence[Family],
        label_ids: NDArray[np.integer],
        n_labels: int,
        *,
        conditional: bool,
        tied: bool,
        l2: float,
    ):
        self._families = tuple(families)
        self._ends = np.cumsum([0, *(len(table.levels) for table in families)])
        self._own = np.zeros((len(label_ids), n_labels))
        self._own[np.arange(len(label_ids)), label_ids] = 1.0
        self._conditional = conditional
        self._tied = tied
        self._l2 = l2
        self.n = 1 if tied else int(self._ends[-1])  # the length of theta

    def split(self, theta: Floats) -> list[Floats]:
        """Return the d of each table, float64 (n_levels)."""
        # No d is 0 or infinite, even if a minimiser without a prior goes far.
        d = np.exp(np.clip(theta, -MAX_LOG_D, MAX_LOG_D))
        if self._tied:
            d = np.broadcast_to(d, self._ends[-1])
        return [part.copy() for part in np.split(d, self._ends[1:-1])]

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return the value and the gradient at theta, float64 (n)."""
        # If a step is too long, the values are not finite, which the minimiser checks.
        with np.errstate(all="ignore"):
            passes = [
                _forward(table, d)
                for table, d in zip(self._families, self.split(theta), strict=True)
            ]
            scores = np.zeros_like(self._own)
            for p, _ in passes:
                scores += np.log(p)
            outer, value = self._own, float((self._own * scores).sum())
            if self._conditional and scores.size:
                log_z = log_sum(scores)
                value -= float(log_z.sum())
                outer = self._own - np.exp(scores - log_z)
            slopes = np.array([slope for pair in passes for slope in _gradient(*pair, outer)])
        if self._tied:
            slopes = slopes.sum(keepdims=True)
        penalty = 0.5 * self._l2 * float(np.sum(theta**2))
        return penalty - value, self._l2 * theta - slopes


def _forward(table: Family, d: Floats) -> tuple[Floats, list[tuple[Floats, Floats]]]:
    """Return P, and lambda and P_{k-1} - f / C of every level."""
    p = table.uniform
    steps = []
    for (ratio, relative), d_k in zip(table.levels, d, strict=True):
        weight = 1.0 / (1.0 + d_k * ratio)
        steps.append((weight, p - relative))
        p = p + weight * (relative - p)
    return np.maximum(p, MIN_PROBABILITY), steps


def _gradient(p: Floats, steps: list[tuple[Floats, Floats]], outer: Floats) -> list[float]:
    """Return the derivative of sum(outer * log P) by the theta of each level."""
    slopes: list[float] = []
    adjoint = outer / p
    for weight, difference in reversed(steps):
        slopes.append(float(np.sum(adjoint * (weight * (1.0 - weight) * difference))))
        adjoint = adjoint * (1.0 - weight)
    return slopes[::-1]


def best_labels(scores: Floats) -> NDArray[np.int64]:
    """Return the index of the best label in each row of float64 (n, L), L > 0, or the first of
    equal ones. Scores that differ by rounding errors are equal, so that the order of variables and
    the machine do not matter.
    """
    return (scores > scores.max(axis=1, keepdims=True) - TIE).argmax(axis=1)


def log_sum(scores: Floats) -> Floats:
    """Return log sum_y exp of scores, float64 (n, L) with L > 0, as (n, 1)."""
    best = scores.max(axis=1, keepdims=True)
    return best + np.log(np.exp(scores - best).sum(axis=1, keepdims=True))
