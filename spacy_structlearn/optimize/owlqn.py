"""OWL-QN: L-BFGS for a smooth function plus a penalty on magnitudes, with weights of exactly zero.

Andrew & Gao (2007). Minimised is F(x) = f(x) + sum_i l1_i |x_i|, f smooth. In the orthant that the
iterate is about to move in, F is smooth too, so the direction is that of L-BFGS with the steepest
descent of F, its pseudo-gradient (their equation 4), in place of the gradient, and curvature from f
alone; components that point the other way are dropped, and steps are projected back onto the
orthant (their section 3.2). Coordinates with l1_i = 0 are free of both. As in `lbfgs`, a step to
where f is not finite counts as too long, and the whole state is in `to_bytes`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import StructlearnError
from .lbfgs import (
    LBFGS,
    ROUNDING,
    SUFFICIENT_DECREASE,
    Point,
    ValueAndGradient,
    Vector,
    dot,
    norm,
    two_loop_recursion,
)


class OWLQN(LBFGS):
    """State of a minimisation of f(x) + sum_i l1_i |x_i|.

    l1: the strength of the penalty, one number or float64 (n), each 0 or more.
    The other settings are those of `LBFGS`, and so is the rest of the interface, with:
    step(value_and_grad): takes f and its gradient, without the penalty.
    value: of F, with the penalty. gradient: the pseudo-gradient of F, which is 0 at the optimum.
    smooth_gradient: the gradient of f.
    Raises StructlearnError SL209 for settings out of range, SL221 if x0 is not a vector or l1
    neither a number nor of the length of x0.
    """

    _KIND = "owlqn"
    _SETTINGS = ("l1", *LBFGS._SETTINGS)
    _STATE = ("smooth_gradient", *LBFGS._STATE)

    def __init__(self, x0: ArrayLike, *, l1: ArrayLike, **settings: Any):
        super().__init__(x0, **settings)
        strengths = np.array(l1, dtype=np.float64)
        if strengths.shape not in ((), self.x.shape):
            raise StructlearnError("SL221", n=len(self.x), shape=strengths.shape)
        if not ((strengths >= 0) & (strengths < np.inf)).all():
            raise StructlearnError("SL209", name="l1", wanted="0 or more", value=l1)
        self.l1: float | Vector = strengths if strengths.ndim else float(strengths)
        self.smooth_gradient: Vector = np.zeros_like(self.x)

    @property
    def _smooth(self) -> Vector:
        return self.smooth_gradient

    def _move(self, x: Vector, value: float, gradient: Vector) -> None:
        super()._move(x, value, pseudo_gradient(x, gradient, self.l1))
        self.smooth_gradient = gradient

    def _evaluate(self, value_and_grad: ValueAndGradient, x: Vector) -> tuple[float, Vector]:
        """F, and the gradient of f."""
        value, gradient = super()._evaluate(value_and_grad, x)
        return value + float(np.sum(self.l1 * np.abs(x))), gradient

    def _direction(self) -> Vector:
        direction = two_loop_recursion(self.gradient, self._pairs)
        # What is left goes down in every coordinate: equation 6 of Andrew & Gao.
        astray = self._penalised() & (direction * self.gradient >= 0)
        direction[astray] = 0.0
        return direction

    def _search(self, value_and_grad: ValueAndGradient, direction: Vector) -> Point | None:
        """The first point, halving the step, that is low enough; None if there is none."""
        assert self.value is not None
        slope = dot(self.gradient, direction)
        if not -np.inf < slope < 0:
            return None
        orthant = np.sign(np.where(self.x != 0, self.x, -self.gradient))
        step = self._first_step(direction)
        for _ in range(self.max_line_search):
            x = self.x + step * direction
            x[self._penalised() & (np.sign(x) != orthant)] = 0.0
            value, gradient = self._evaluate(value_and_grad, x)
            point = Point(step, value, dot(self.gradient, x - self.x), x, gradient)
            if self._is_low_enough(point):
                return point
            # Infinity says nothing of how much too long the step is.
            step *= 0.5 if point.is_finite else 0.1
        return None

    def _is_low_enough(self, point: Point) -> bool:
        assert self.value is not None
        if not (point.is_finite and np.isfinite(point.gradient).all()) or not point.slope < 0:
            return False
        if point.value <= self.value + SUFFICIENT_DECREASE * point.slope:
            return True
        # Where the values differ by no more than their rounding errors, the gradient tells.
        if abs(point.value - self.value) > ROUNDING * abs(self.value):
            return False
        return norm(pseudo_gradient(point.x, point.gradient, self.l1)) < norm(self.gradient)

    def _penalised(self) -> NDArray[np.bool_] | np.bool_:
        return np.greater(self.l1, 0.0)


def pseudo_gradient(x: Vector, gradient: Vector, l1: float | Vector) -> Vector:
    """The one-sided derivatives of F, of the side that goes down, 0 if neither does (equation 4).

    x: float64 (n). gradient: of f at x, float64 (n). l1: as in `OWLQN`. Its negative is the
    direction of steepest descent; all zero, it is the condition of Karush, Kuhn and Tucker.
    """
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0)
    return np.where(x != 0, gradient + l1 * np.sign(x), at_zero)
