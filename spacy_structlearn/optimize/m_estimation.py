"""The objective of M-estimation, and its minimum by way of the dual.

Smith, Vail & Lafferty (2007, equations 3 and 13, section 4.3), after Jeon & Lin (2006):

    l(w) = (1/n) sum_i exp(-w.f_i) + w.E + |w|^2 / 2c

with f_i the features of the i-th of n examples, and E those that a base distribution expects. No
partition function is in it. (The text of the paper lacks the 1/n, which its derivation has: only
so is w = 0 stationary where the base distribution is right.) l is convex, and at its minimum the
examples, each with the weight exp(-w.f_i), have the features expected: (1/n) sum_i exp(-w.f_i) f_i
= E + w/c.

The dual has one variable for each example instead of one for each feature. At the minimum
alpha_i = exp(-w.f_i) and w = c (F'alpha / n - E), so minimise

    G(alpha) = (1/n) sum_i (alpha_i log alpha_i - alpha_i) + (c/2) |F'alpha / n - E|^2

over alpha > 0. -G is nowhere above l, and the gap between the two, summed over examples, is
(1/n) sum_i (exp(-w.f_i) + alpha_i log alpha_i - alpha_i + alpha_i w.f_i), which tells how near the
minimum is. `DualCoordinateDescent` minimises G along one alpha_i at a time (Yu, Huang & Lin 2011).
One pass over the examples costs about as much as a product with F and one with F', and on chunking
far fewer are needed than evaluations by L-BFGS on w: a third where the regulariser is strong, an
eighth where it is weak.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..errors import StructlearnError
from . import _dual
from .lbfgs import Vector, dot
from .resumable import Resumable

if TYPE_CHECKING:
    import scipy.sparse

_LARGEST_EXPONENT = 700.0
"""exp of more is taken for infinite: what is left up to 709.8 is for sums."""


class MEstimationObjective:
    """l(w) = (1/n) sum_i exp(-w.f_i) + w.E + |w|^2 / 2c, and its derivatives.

    counts: F, (n, m), a row for each example: an array, or a sparse matrix or LinearOperator of
        SciPy; all that is used of it is F @ w and F.T @ alpha.
    expectations: E, float64 (m).
    c: the variance of a Gaussian prior on w, more than 0; None: no regulariser.
    Raises StructlearnError SL225 or SL226 if the shapes do not fit, SL209 for another c.

    Without regulariser there need not be a minimum. There is one only if E is a sum of examples
    with positive weights; else some direction lowers w.E and no exp(-w.f_i) grows, and L-BFGS goes
    along it until its iterations are used up, or w is so large that its tolerances are met. A
    feature that examples have and the base distribution does not (E_j = 0) is enough for that, and
    having more features than examples nearly always is. What counts then is where one stops; see
    `is_recession_direction`.
    """

    def __init__(self, counts: Any, expectations: ArrayLike, *, c: float | None):
        self.counts = counts
        self.expectations = _check(counts, expectations)
        if c is not None:
            _check_c(c)
        self.c = c
        self._transposed = counts.T

    def alpha(self, w: Vector) -> Vector:
        """exp(-w.f_i) of each example, float64 (n); infinite where that is too large."""
        exponents = -(self.counts @ w)
        with np.errstate(over="ignore"):
            return np.where(exponents > _LARGEST_EXPONENT, np.inf, np.exp(exponents))

    def value(self, w: Vector) -> float:
        """l(w); infinite where an exp(-w.f_i) is."""
        value = float(self.alpha(w).mean()) + dot(w, self.expectations)
        return value if self.c is None else value + dot(w, w) / (2.0 * self.c)

    def value_and_grad(self, w: Vector) -> tuple[float, Vector]:
        """l(w) and its gradient, float64 (m).

        Where an exp(-w.f_i) is too large for a float, the value is infinite and the gradient NaN,
        which the line search of `lbfgs` takes for a step too long; nothing is ever clipped.
        """
        alpha = self.alpha(w)
        total = float(alpha.mean())
        if total == np.inf:
            return total, np.full(len(w), np.nan)
        value = total + dot(w, self.expectations)
        gradient = self.expectations - self._transposed @ (alpha / len(alpha))
        if self.c is not None:
            value += dot(w, w) / (2.0 * self.c)
            gradient += w / self.c
        return value, gradient

    def close(self) -> None:
        """Nothing: there is nothing to let go of."""

    def is_recession_direction(self, w: Vector) -> bool:
        """Whether, without regulariser, l falls for ever from 0 through w: l(tw), t to infinity.

        True if no w.f_i is negative and w.E is, which shows that l has no lower bound. From there
        on L-BFGS only makes w longer, at many evaluations an iteration: a reason to stop it.
        """
        return dot(w, self.expectations) < 0 and bool((self.counts @ w >= 0).all())


class DualCoordinateDescent(Resumable):
    """State of a minimisation of the regularised objective, by its dual.

    counts: F, (n, m), in SciPy's CSR format; entries may be repeated, and are then added.
    expectations: E, float64 (m). c: as in `MEstimationObjective`, but not None.
    tolerance: converged when the duality gap is at most tolerance * max(1, |l|), and l, therefore,
        at most that above its minimum.
    seed: of the order of the examples, a new one in each iteration.

    Attributes: w, float64 (m), and alpha, float64 (n); n_iterations; gap, the last known, at first
    infinite; status: "running", or "gap" when converged. Each example's part of `gap` is as it was
    when its turn came, but once it is at most the tolerance it is computed anew.
    Examples that are repeated many times make it slow under a weak regulariser (large c): what
    they have in common is soon right, how they share it is not.
    All depends on the seed alone, and the whole state but for F and E is in `to_bytes`.
    Raises StructlearnError if F and E do not fit together, F is in another format, or c not above
    0.
    """

    _KIND = "m_estimation_dual"
    _SETTINGS = ("c", "tolerance", "seed")
    _STATE = ("w", "alpha", "n_iterations", "gap", "status")

    def __init__(
        self,
        counts: scipy.sparse.csr_array,
        expectations: ArrayLike,
        *,
        c: float,
        tolerance: float = 1e-6,
        seed: int = 0,
    ):
        form = getattr(counts, "format", type(counts).__name__)
        if form != "csr":
            raise StructlearnError("SL227", form=form)
        _check_c(c)
        self.objective = MEstimationObjective(counts, expectations, c=c)
        self.tolerance = tolerance
        self.seed = seed
        n, m = counts.shape
        self._rows = (
            np.ascontiguousarray(counts.indptr, dtype=np.int64),
            np.ascontiguousarray(counts.indices, dtype=np.int32),
            np.ascontiguousarray(counts.data, dtype=np.float64),
        )
        self._norms = _dual.squared_norms(*self._rows, m)
        self.alpha: Vector = np.ones(n)
        self.w: Vector = c * (counts.T @ (self.alpha / n) - self.objective.expectations)
        self.n_iterations = 0
        self.gap = float("inf")
        self.status = "running"

    @property
    def c(self) -> float:
        """The strength of the regulariser."""
        assert self.objective.c is not None
        return self.objective.c

    @property
    def converged(self) -> bool:
        """Whether the duality gap is small enough."""
        return self.status == "gap"

    @property
    def value(self) -> float:
        """l(w), computed when asked for, by one product with F. It need not always fall."""
        return self.objective.value(self.w)

    @property
    def dual_value(self) -> float:
        """-G(alpha), which never falls and is never above the minimum of l."""
        # 0 log 0 is 0.
        logs = np.log(self.alpha, out=np.zeros_like(self.alpha), where=self.alpha > 0)
        entropy = float(np.mean(self.alpha * logs - self.alpha))
        return -entropy - dot(self.w, self.w) / (2.0 * self.c)

    def step(self) -> bool:
        """One pass over the examples; true while more can be done."""
        if self.converged:
            return False
        order = np.random.default_rng((self.seed, self.n_iterations)).permutation(len(self.alpha))
        self.gap = _dual.epoch(*self._rows, self._norms, order, self.c, self.w, self.alpha)
        self.n_iterations += 1
        lower = self.dual_value
        enough = self.tolerance * max(1.0, abs(lower))
        if self.gap <= enough:
            self.gap = self.value - lower
        if self.gap <= enough:
            self.status = "gap"
        return not self.converged

    def run(self, max_iterations: int) -> DualCoordinateDescent:
        """At most so many steps more; returns itself."""
        for _ in range(max_iterations):
            if not self.step():
                break
        return self


def _check(counts: Any, expectations: ArrayLike) -> Vector:
    expected = np.array(expectations, dtype=np.float64)
    if len(counts.shape) != 2 or expected.shape != counts.shape[1:]:
        raise StructlearnError("SL225", counts=counts.shape, expectations=expected.shape)
    if counts.shape[0] == 0:
        raise StructlearnError("SL226")
    return expected


def _check_c(c: float) -> None:
    if not 0 < c < np.inf:
        raise StructlearnError("SL209", name="c", wanted="more than 0, and finite", value=c)
