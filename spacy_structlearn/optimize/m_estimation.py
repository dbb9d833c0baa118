"""The objective of M-estimation, and its minimum by coordinate descent in the dual.

Smith, Vail & Lafferty (2007, equations 3 and 13, section 4.3), after Jeon & Lin (2006):

    l(w) = (1/n) sum_i exp(-w.f_i) + w.E + |w|^2 / 2c

where f_i are the features of example i, and E their expectations under a base distribution. There
is no partition function. (The paper omits 1/n, but its derivation has it.) l is convex, and at its
minimum the weighted examples have the expected features: (1/n) sum_i exp(-w.f_i) f_i = E + w/c.

The dual has one variable for each example. At the minimum alpha_i = exp(-w.f_i) and
w = c (F'alpha / n - E), so it minimises

    G(alpha) = (1/n) sum_i (alpha_i log alpha_i - alpha_i) + (c/2) |F'alpha / n - E|^2

over alpha > 0. -G is a lower bound of l, and the gap between them is the sum over examples of
(1/n) sum_i (exp(-w.f_i) + alpha_i log alpha_i - alpha_i + alpha_i w.f_i). `DualCoordinateDescent`
minimises G along one alpha_i at a time (Yu, Huang & Lin 2011). A pass over the examples costs about
as much as an evaluation of l, and on chunking, it needs only a third (strong regulariser) to an
eighth (weak regulariser) of the evaluations of L-BFGS.
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

_LARGEST_EXPONENT = 700.0  # exp of more counts as infinite; 709.8 is, and sums need some room


class MEstimationObjective:
    """l(w) = (1/n) sum_i exp(-w.f_i) + w.E + |w|^2 / 2c, and its derivatives.

    counts: F, (n, m), a row for each example: an array, sparse matrix or LinearOperator.
    expectations: E, float64 (m).
    c: the variance of a Gaussian prior on w; None: no regulariser.
    Raises StructlearnError if there are no examples.

    Without regulariser there is a minimum only if E is a sum of examples with positive weights.
    This is rare with more features than examples, and impossible if a feature of the examples has
    E_j = 0. Otherwise w grows until L-BFGS stops; see `is_recession_direction`.
    """

    def __init__(self, counts: Any, expectations: ArrayLike, *, c: float | None):
        if not counts.shape[0]:
            raise StructlearnError("SL226")
        self.counts = counts
        self.expectations: Vector = np.array(expectations, dtype=np.float64)
        self.c = c
        self._transposed = counts.T

    def alpha(self, w: Vector) -> Vector:
        """Return exp(-w.f_i) of each example, float64 (n), infinite if it is too large."""
        exponents = -(self.counts @ w)
        with np.errstate(over="ignore"):
            return np.where(exponents > _LARGEST_EXPONENT, np.inf, np.exp(exponents))

    def value(self, w: Vector) -> float:
        """Return l(w), infinite if an exp(-w.f_i) is."""
        value = float(self.alpha(w).mean()) + dot(w, self.expectations)
        return value if self.c is None else value + dot(w, w) / (2.0 * self.c)

    def value_and_grad(self, w: Vector) -> tuple[float, Vector]:
        """Return l(w) and its gradient, float64 (m).

        If an exp(-w.f_i) is too large, the value is infinite and the gradient NaN, so that the line
        search of `lbfgs` shortens the step.
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

    def is_recession_direction(self, w: Vector) -> bool:
        """Whether l(tw) without regulariser falls without bound as t grows.

        This is so if no w.f_i is negative, but w.E is. From then on L-BFGS only makes w longer.
        """
        return dot(w, self.expectations) < 0 and bool((self.counts @ w >= 0).all())


class DualCoordinateDescent(Resumable):
    """State of a minimisation of the regularised objective in the dual.

    counts: F, (n, m), in SciPy's CSR format; repeated entries are added.
    expectations: E, float64 (m). c: as in `MEstimationObjective`, but not None.
    tolerance: converged when the duality gap is at most tolerance * max(1, |l|).
    seed: of the order of the examples, which changes in each iteration.

    Attributes: w, float64 (m); alpha, float64 (n); n_iterations; gap, infinite at first; status:
    "running", or "gap" when converged. The gap is summed while the examples change, but once it is
    at most the tolerance, it is computed exactly.
    It is slow for repeated examples under a weak regulariser (large c). `to_bytes` contains the
    state without F and E.
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
        self.objective = MEstimationObjective(counts, expectations, c=c)
        self.tolerance = tolerance
        self.seed = seed
        n = counts.shape[0]
        self._rows = (
            np.ascontiguousarray(counts.indptr, dtype=np.int64),
            np.ascontiguousarray(counts.indices, dtype=np.int32),
            np.ascontiguousarray(counts.data, dtype=np.float64),
        )
        unique = counts.copy()
        unique.sum_duplicates()
        self._norms = np.asarray(unique.multiply(unique).sum(axis=1), dtype=np.float64).reshape(n)
        self.alpha: Vector = np.ones(n)
        self.w: Vector = c * (counts.T @ (self.alpha / n) - self.objective.expectations)
        self.n_iterations = 0
        self.gap = float("inf")
        self.status = "running"

    @property
    def c(self) -> float:
        """The variance of the prior."""
        assert self.objective.c is not None
        return self.objective.c

    @property
    def converged(self) -> bool:
        """Whether the duality gap is small enough."""
        return self.status == "gap"

    @property
    def value(self) -> float:
        """l(w), by one product with F; it does not always fall."""
        return self.objective.value(self.w)

    @property
    def dual_value(self) -> float:
        """-G(alpha), which never falls; a lower bound of l."""
        # 0 log 0 is 0.
        logs = np.log(self.alpha, out=np.zeros_like(self.alpha), where=self.alpha > 0)
        entropy = float(np.mean(self.alpha * logs - self.alpha))
        return -entropy - dot(self.w, self.w) / (2.0 * self.c)

    def step(self) -> bool:
        """Make a pass over the examples. Returns False at the end."""
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
        """Make at most this number of passes; returns itself."""
        for _ in range(max_iterations):
            if not self.step():
                break
        return self
