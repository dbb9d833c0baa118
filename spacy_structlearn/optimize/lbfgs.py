"""L-BFGS and OWL-QN that run one iteration at a time and can be saved and resumed.

Liu & Nocedal (1989); the two-loop recursion and the initial scaling are algorithms 7.4 and 7.5 and
equation 7.20 of Nocedal & Wright (2006), the line search is their algorithms 3.5 and 3.6 (strong
Wolfe conditions) with safeguarded cubic interpolation (equation 3.59). A step to a point where the
function or its gradient is not finite counts as too long. All arithmetic is float64 and `to_bytes`
contains the whole state, so that a resumed run has the same iterates, bit for bit.

With a penalty on magnitudes the method is OWL-QN (Andrew & Gao 2007), which finds weights of
exactly zero. F(x) = f(x) + sum_i l1_i |x_i| is smooth in the orthant of the next step. The
direction is that of L-BFGS with the pseudo-gradient of F (their equation 4) in place of the
gradient, and with the curvature of f. Components that do not descend are set to 0, and steps are
projected onto the orthant (their section 3.2). Neither is done for coordinates with l1_i = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import StructlearnError
from .resumable import Resumable

Vector = NDArray[np.float64]
ValueAndGradient = Callable[[Vector], "tuple[float, Vector]"]

Pair = tuple[Vector, Vector, float]
"""A correction: s, the step; y, the change of the gradient over it; and s'y."""

SUFFICIENT_DECREASE = 1e-4
ROUNDING = 1e-14
_CURVATURE = 0.9
_WINDOW = 10
MAX_LINE_SEARCH = 20
"""Maximum number of evaluations in a line search; then the best sufficient decrease is taken."""


class LBFGS(Resumable):
    """State of a minimisation of f(x) + sum_i l1_i |x_i|.

    x0: the starting point, float64 (n); n may be 0.
    memory: number of correction pairs.
    gradient_tolerance: converged ("gradient") when max |g_i| <= tolerance * max(1, max |x_i|).
    value_tolerance: converged ("value") when the mean decrease of the value over the last 10
        iterations is at most tolerance * |value|.
    l1: the strength of the penalty, a number or float64 (n), at least 0.

    Attributes: x; value, that of F at x, None before the first step; gradient, the pseudo-gradient
    of F; smooth_gradient, that of f; n_iterations, n_evaluations, and status: "running",
    "gradient", "value", or "line_search" if no step along the steepest descent decreases the value,
    as happens at the limit of precision.
    """

    _KIND = "lbfgs"
    _SETTINGS: ClassVar[tuple[str, ...]] = ("memory", "gradient_tolerance", "value_tolerance", "l1")
    _STATE: ClassVar[tuple[str, ...]] = (
        "x",
        "value",
        "gradient",
        "smooth_gradient",
        "n_iterations",
        "n_evaluations",
        "status",
        "_pairs",
        "_values",
    )

    def __init__(
        self,
        x0: ArrayLike,
        *,
        memory: int = 10,
        gradient_tolerance: float = 1e-5,
        value_tolerance: float = 1e-9,
        l1: ArrayLike = 0.0,
    ):
        self.x: Vector = np.array(x0, dtype=np.float64)
        self.memory = memory
        self.gradient_tolerance = gradient_tolerance
        self.value_tolerance = value_tolerance
        strengths = np.array(l1, dtype=np.float64)
        self.l1: float | Vector = strengths if strengths.ndim else float(strengths)
        self._penalised = np.broadcast_to(strengths > 0.0, self.x.shape)
        self._is_smooth = not strengths.any()
        self.value: float | None = None
        self.gradient: Vector = np.zeros_like(self.x)
        self.smooth_gradient: Vector = np.zeros_like(self.x)
        self.n_iterations = 0
        self.n_evaluations = 0
        self.status = "running"
        # Pairs and values of the last iterations, oldest first.
        self._pairs: list[Pair] = []
        self._values: list[float] = []

    def step(self, value_and_grad: ValueAndGradient) -> bool:
        """Make an iteration. Returns False at the end, for the reason in `status`.

        value_and_grad: maps float64 (n) to f and its gradient, float64 (n). It must be the same
            function in every step.

        Raises StructlearnError if the function is not finite at the starting point.
        """
        if self.status != "running":
            return False
        if self.value is None:
            value, gradient = self._evaluate(value_and_grad, self.x)
            if not np.isfinite(value) or not np.isfinite(gradient).all():
                raise StructlearnError("SL220", value=value, shape=gradient.shape, n=len(self.x))
            self._move(self.x, value, gradient)
            self._values = [value]
            self._test_convergence()
            if self.status != "running":
                return False
        point = self._search(value_and_grad)
        if point is None and self._pairs:
            # With old curvature the direction may not descend; the steepest descent always does.
            self._pairs.clear()
            point = self._search(value_and_grad)
        if point is None:
            self.status = "line_search"
            return False
        self._accept(point)
        return self.status == "running"

    def _is_sound(self) -> bool:
        shape = self.x.shape
        products = [product for _, _, product in self._pairs]
        values = [] if self.value is None else [self.value]
        return all(s.shape == y.shape == shape for s, y, _ in self._pairs) and all(
            isinstance(number, float) for number in (*products, *values, *self._values)
        )

    def _evaluate(self, value_and_grad: ValueAndGradient, x: Vector) -> tuple[float, Vector]:
        self.n_evaluations += 1
        value, gradient = value_and_grad(x)
        # A copy, since the function may reuse its array.
        gradient = np.array(gradient, dtype=np.float64)
        if gradient.shape != x.shape:
            raise StructlearnError("SL220", value=value, shape=gradient.shape, n=len(x))
        penalty = 0.0 if self._is_smooth else float(np.sum(self.l1 * np.abs(x)))
        return float(value) + penalty, gradient

    def _move(self, x: Vector, value: float, gradient: Vector) -> None:
        self.x, self.value, self.smooth_gradient = x, value, gradient
        self.gradient = gradient if self._is_smooth else pseudo_gradient(x, gradient, self.l1)

    def _search(self, value_and_grad: ValueAndGradient) -> Point | None:
        """Return a lower point along the direction of the step, or None."""
        assert self.value is not None
        direction = two_loop_recursion(self.gradient, self._pairs)
        if not self._is_smooth:  # the other components descend: equation 6 of Andrew & Gao
            direction[self._penalised & (direction * self.gradient >= 0)] = 0.0
        slope = dot(self.gradient, direction)
        if not -np.inf < slope < 0:
            return None
        # Without curvature the norm of the gradient has no meaning: move by at most one.
        step = 1.0 if self._pairs else min(1.0, 1.0 / float(np.sqrt(dot(direction, direction))))
        start = Point(0.0, self.value, slope, self.x, self.gradient)
        search = self._line_search if self._is_smooth else self._backtrack
        return search(value_and_grad, start, direction, step)

    def _line_search(
        self, value_and_grad: ValueAndGradient, start: Point, direction: Vector, step: float
    ) -> Point | None:
        """Return a point that meets the strong Wolfe conditions, or None."""
        # Algorithms 3.5 and 3.6 in one loop. `low` is the best point so far with sufficient
        # decrease. The minimum is between it and `high`; while `high` is None, the step grows. Near
        # the minimum, where values differ only by rounding errors, only the slopes are used (Hager
        # & Zhang 2005, equation 4.1).
        low, high = start, None
        for _ in range(MAX_LINE_SEARCH):
            x = self.x + step * direction
            value, gradient = self._evaluate(value_and_grad, x)
            point = Point(step, value, dot(gradient, direction), x, gradient)
            is_flat = abs(point.slope) <= -_CURVATURE * start.slope
            if is_flat and abs(value - start.value) <= ROUNDING * abs(start.value):
                return point
            enough = start.value + SUFFICIENT_DECREASE * step * start.slope
            if not point.is_finite or value > enough or value >= low.value:
                high = point
            else:
                if is_flat:
                    return point
                ahead = 1.0 if high is None else high.step - step
                if point.slope * ahead >= 0:
                    high = low
                low = point
            step = _next_step(low, high)
            if step == low.step:  # the interval is empty
                break
        return low if low is not start else None

    def _backtrack(
        self, value_and_grad: ValueAndGradient, start: Point, direction: Vector, step: float
    ) -> Point | None:
        """Return the first point in the orthant that is low enough, halving the step, or None."""
        orthant = np.sign(np.where(self.x != 0, self.x, -self.gradient))
        for _ in range(MAX_LINE_SEARCH):
            x = self.x + step * direction
            x[self._penalised & (np.sign(x) != orthant)] = 0.0
            value, gradient = self._evaluate(value_and_grad, x)
            slope = dot(self.gradient, x - self.x)
            point = Point(step, value, slope, x, gradient)
            if point.is_finite and np.isfinite(gradient).all() and slope < 0:
                if value <= start.value + SUFFICIENT_DECREASE * slope:
                    return point
                # If values differ only by rounding errors, the gradient decides.
                if abs(value - start.value) <= ROUNDING * abs(start.value):
                    ahead = pseudo_gradient(x, gradient, self.l1)
                    if norm(ahead) < norm(self.gradient):
                        return point
            # An infinite value does not tell by how much the step is too long.
            step *= 0.5 if point.is_finite else 0.1
        return None

    def _accept(self, point: Point) -> None:
        s, y = point.x - self.x, point.gradient - self.smooth_gradient
        # Positive after a full line search, and needed for a positive definite approximation.
        s_dot_y = dot(s, y)
        if s_dot_y > np.finfo(np.float64).eps * dot(y, y):
            self._pairs.append((s, y, s_dot_y))
            del self._pairs[: -self.memory]
        self._move(point.x, point.value, point.gradient)
        self.n_iterations += 1
        self._values.append(point.value)
        del self._values[: -(_WINDOW + 1)]
        self._test_convergence()

    def _test_convergence(self) -> None:
        assert self.value is not None
        if norm(self.gradient) <= self.gradient_tolerance * max(1.0, norm(self.x)):
            self.status = "gradient"
        elif len(self._values) > _WINDOW:
            fall = (self._values[0] - self._values[-1]) / _WINDOW
            if fall <= self.value_tolerance * abs(self.value):
                self.status = "value"


class Point(NamedTuple):
    """A point on the line, with its value, slope and gradient."""

    step: float
    value: float
    slope: float
    x: Vector
    gradient: Vector

    @property
    def is_finite(self) -> bool:
        """Whether value and slope are finite."""
        return bool(np.isfinite(self.value) and np.isfinite(self.slope))


def minimize(
    value_and_grad: ValueAndGradient, x0: ArrayLike, *, max_iterations: int, **settings: Any
) -> LBFGS:
    """Run L-BFGS to convergence or for at most `max_iterations`, and return it.

    settings: see `LBFGS`.
    """
    return run(LBFGS(x0, **settings), value_and_grad, max_iterations)


def run(optimizer: LBFGS, value_and_grad: ValueAndGradient, max_iterations: int) -> LBFGS:
    """Run an optimizer like `minimize`, and return it."""
    while optimizer.n_iterations < max_iterations and optimizer.step(value_and_grad):
        pass
    return optimizer


def two_loop_recursion(gradient: Vector, pairs: list[Pair]) -> Vector:
    """Return -H g for the approximate inverse Hessian H (Nocedal & Wright 2006, algorithm 7.4).

    gradient: g, float64 (n). pairs: corrections, oldest first; with none, H is the identity.
    """
    direction = -gradient
    scaled = np.empty_like(direction)
    alphas = []
    for s, y, s_dot_y in reversed(pairs):
        alpha = dot(s, direction) / s_dot_y
        direction -= np.multiply(alpha, y, out=scaled)
        alphas.append(alpha)
    if pairs:
        _, y, s_dot_y = pairs[-1]
        direction *= s_dot_y / dot(y, y)
    for (s, y, s_dot_y), alpha in zip(pairs, reversed(alphas), strict=True):
        beta = dot(y, direction) / s_dot_y
        direction += np.multiply(alpha - beta, s, out=scaled)
    return direction


def pseudo_gradient(x: Vector, gradient: Vector, l1: float | Vector) -> Vector:
    """Return the one-sided derivatives of F on the descending side, or 0 (equation 4).

    x: float64 (n). gradient: of f at x, float64 (n). l1: as in `LBFGS`. The steepest descent is the
    negative pseudo-gradient. It is 0 under the conditions of Karush, Kuhn and Tucker.
    """
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0)
    return np.where(x != 0, gradient + l1 * np.sign(x), at_zero)


def _next_step(low: Point, high: Point | None) -> float:
    if high is None:
        return 4.0 * low.step
    width = high.step - low.step
    if not high.is_finite:
        return low.step + 0.1 * width
    step = _cubic_minimum(low, high)
    # Keep away from the ends, so that the interval shrinks by at least a tenth.
    nearest, farthest = sorted((low.step + 0.1 * width, high.step - 0.1 * width))
    return min(max(step, nearest), farthest)


def _cubic_minimum(a: Point, b: Point) -> float:
    """Return the minimum of the cubic through two points and their slopes (equation 3.59)."""
    width = b.step - a.step
    d1 = a.slope + b.slope - 3.0 * (a.value - b.value) / (a.step - b.step)
    square = d1 * d1 - a.slope * b.slope
    if square >= 0:
        d2 = np.copysign(np.sqrt(square), width)
        denominator = b.slope - a.slope + 2.0 * d2
        if denominator != 0:
            step = b.step - width * (b.slope + d2 - d1) / denominator
            if np.isfinite(step):
                return float(step)
    return a.step + 0.5 * width


def dot(a: Vector, b: Vector) -> float:
    """Return a'b of two float64 vectors; unlike a @ b, it does not depend on BLAS threads."""
    return float(np.einsum("i,i->", a, b))


def norm(vector: Vector) -> float:
    """Return the largest magnitude, or 0 for an empty vector."""
    return float(np.abs(vector).max(initial=0.0))
