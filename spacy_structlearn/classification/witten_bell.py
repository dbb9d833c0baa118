"""Interpolated Witten-Bell smoothing of probability tables: Toutanova 2006, section 2.1.

    P_k(z | z_1..z_k) = lambda_k f / C + (1 - lambda_k) P_{k-1}(z | z_1..z_{k-1})
    lambda_k          = C / (C + d_k T),    lambda_k = 0 where C = 0,

with the count C of the context z_1..z_k, the number T of different values of the variable that were
seen in it, and the count f of z in it. P_0, of the empty context, is mixed with the uniform
distribution 1 / V, where V is the number of values that were seen and one more for those that were
not: over these V the probabilities of a table sum to one. An unseen value keeps the factors
1 - lambda, which depend on the class. Parents with many values are dropped first.

Training needs the derivatives by theta = log d, which are dlambda/dtheta = -lambda (1 - lambda):
dP_k/dtheta_k = -lambda_k (1 - lambda_k) (f / C - P_{k-1}); dP_k/dtheta_j = (1 - lambda_k)
dP_{k-1}/dtheta_j for j < k.

The ablation of section 4 is 0.9 f / C + 0.1 / V, without back-off; where the context was never seen
it is 1 / V, so that it is a distribution too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .counts import ContextLevel, CountedInstances, JointCounts, Subset

UNIFORM_WEIGHT = 0.1
"""The weight of the uniform distribution in the ablation."""

LEAST = 1e-300
"""What a probability is at least; with many levels the factors 1 - lambda can underflow."""
MAX_LOG_D = 300.0
TIE = 1e-9
"""Differences of log-probabilities below this are rounding."""

Floats = NDArray[np.float64]


class Family(NamedTuple):
    """The table of one variable, looked up for n rows and L labels.

    uniform: 1 / V, float64 (1 or n, 1). levels: from the empty context to the whole one, or the
    whole one alone where there is no back-off; see `counts.ContextLevel`.
    """

    uniform: Floats
    levels: tuple[ContextLevel, ...]


def contexts(counts: JointCounts, variable: int, parents: Subset) -> tuple[Subset, ...]:
    """The contexts of a table, from the empty one to all parents and the class.

    variable: a place; the class itself has the empty context only. parents: places of variables;
    the class is not named among them. The parent with the most values in the table is dropped
    first; of equals the one of the highest place, and the class after all equals.
    """
    if variable == counts.target:
        return ((),)
    # The class sorts before the variables, which have the places from 0.
    order = sorted(
        (counts.n_values(parent), -1 if parent == counts.target else parent)
        for parent in (*parents, counts.target)
    )
    kept = [counts.target if place < 0 else place for _, place in order]
    return tuple(tuple(sorted(kept[:k])) for k in range(len(kept) + 1))


def levels_used(found: tuple[Subset, ...], smoothing: str) -> tuple[Subset, ...]:
    """Those of the contexts that a kind of smoothing reads."""
    return found if smoothing == "witten_bell" else found[-1:]


def family(
    instances: CountedInstances, variable: int, parents: Subset, smoothing: str = "witten_bell"
) -> Family:
    """The table of a variable with these parents, looked up for all instances and labels."""
    used = levels_used(contexts(instances.counts, variable, parents), smoothing)
    levels = tuple(instances.level(context, variable) for context in used)
    return Family(instances.uniform(variable), levels)


def probabilities(table: Family, d: Sequence[float] | Floats | None) -> Floats:
    """P of the values of all instances with all labels, float64 (n or 1, L or 1).

    d: one for each level; None for the ablation.
    """
    if d is None:
        return uniform_probabilities(table)
    p = table.uniform
    for (ratio, relative), d_k in zip(table.levels, d, strict=True):
        p = p + (relative - p) / (1.0 + d_k * ratio)
    return np.maximum(p, LEAST)


def uniform_probabilities(table: Family) -> Floats:
    """The ablation's P, of the last level alone; see `probabilities`."""
    ratio, relative = table.levels[-1]
    seen = (1.0 - UNIFORM_WEIGHT) * relative + UNIFORM_WEIGHT * table.uniform
    return np.where(np.isfinite(ratio), seen, table.uniform)


class ForwardPass(NamedTuple):
    """P and what its derivative needs: lambda and P_{k-1} of every level."""

    p: Floats
    weights: list[Floats]
    below: list[Floats]


def forward(table: Family, d: Floats) -> ForwardPass:
    """P as `probabilities` has it, with the way to it."""
    p = table.uniform
    weights, below = [], []
    for (ratio, relative), d_k in zip(table.levels, d, strict=True):
        weight = 1.0 / (1.0 + d_k * ratio)
        weights.append(weight)
        below.append(p)
        p = p + weight * (relative - p)
    return ForwardPass(np.maximum(p, LEAST), weights, below)


def gradient(table: Family, passed: ForwardPass, outer: Floats) -> Floats:
    """The derivatives of sum(outer * log P) by theta = log d, float64 (n_levels).

    outer: float64 (n, L), how much each log P counts.
    """
    result = np.empty(len(table.levels))
    adjoint = outer / passed.p
    for k in reversed(range(len(table.levels))):
        weight, below = passed.weights[k], passed.below[k]
        change = weight * (1.0 - weight) * (below - table.levels[k].relative)
        result[k] = np.sum(adjoint * change)
        adjoint = adjoint * (1.0 - weight)
    return result


class Objective:
    """What the d are fitted to, as a function of theta = log d, for a minimiser.

    joint:       -sum_i log P(x_i, y_i)  + l2 sum theta^2 / 2
    conditional: -sum_i log P(y_i | x_i) + l2 sum theta^2 / 2

    families: the tables of the net, the class among them, looked up for n instances and L labels.
    label_ids: int64 (n), their own labels. tied: whether all tables and levels share one theta;
    else there is one for each level, those of a table side by side.
    """

    def __init__(
        self,
        families: Sequence[Family],
        label_ids: NDArray[np.int64],
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

    @property
    def n(self) -> int:
        """The length of theta."""
        return 1 if self._tied else int(self._ends[-1])

    def split(self, theta: Floats) -> list[Floats]:
        """The d of each table, float64 (n_levels)."""
        # No d is 0 or infinite, however far a minimiser without a prior goes.
        theta = np.clip(theta, -MAX_LOG_D, MAX_LOG_D)
        d = np.exp(np.broadcast_to(theta, self._ends[-1]) if self._tied else theta)
        return [d[a:b].copy() for a, b in zip(self._ends[:-1], self._ends[1:], strict=True)]

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """The value and the gradient at theta, float64 (n)."""
        # Where a step went too far, what is not finite is for the minimiser to see.
        with np.errstate(all="ignore"):
            passes = [
                forward(table, d)
                for table, d in zip(self._families, self.split(theta), strict=True)
            ]
            scores = np.zeros_like(self._own)
            for passed in passes:
                scores += np.log(passed.p)
            outer, value = self._own, float((self._own * scores).sum())
            if self._conditional and scores.size:
                log_z = log_sum(scores)
                value -= float(log_z.sum())
                outer = self._own - np.exp(scores - log_z)
            slopes = np.concatenate(
                [gradient(table, p, outer) for table, p in zip(self._families, passes, strict=True)]
            )
        if self._tied:
            slopes = slopes.sum(keepdims=True)
        penalty = 0.5 * self._l2 * float(np.sum(theta**2))
        return penalty - value, self._l2 * theta - slopes


def best_labels(scores: Floats) -> NDArray[np.int64]:
    """The place of the best label in each row of float64 (n, L), L > 0; of equals the first.

    Scores that differ by less than rounding does are equal, so that the answer does not depend on
    the order of the variables or on the machine.
    """
    return (scores > scores.max(axis=1, keepdims=True) - TIE).argmax(axis=1)


def log_sum(scores: Floats) -> Floats:
    """log sum_y exp of scores, float64 (n, L) with L > 0, to (n, 1)."""
    best = scores.max(axis=1, keepdims=True)
    return best + np.log(np.exp(scores - best).sum(axis=1, keepdims=True))
