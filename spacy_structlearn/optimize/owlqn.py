"""OWL-QN: L-BFGS for a smooth function plus a penalty on magnitudes, with weights of exactly zero.

Andrew & Gao (2007) minimise F(x) = f(x) + sum_i l1_i |x_i| with a smooth f. F is smooth in the
orthant of the next step. The direction is that of L-BFGS with the pseudo-gradient of F (their
equation 4) in place of the gradient, and with the curvature of f. Components that do not descend
are set to 0, and steps are projected onto the orthant (their section 3.2). Neither is done for
coordinates with l1_i = 0. As in `lbfgs`, a step to a point where f is not finite counts as too
long, and `to_bytes` contains the whole state.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .lbfgs import (
    LBFGS,
    MAX_LINE_SEARCH,
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

    l1: the strength of the penalty, a number or float64 (n), at least 0.

    The other settings and the interface are those of `LBFGS`, with these differences:
    step(value_and_grad): the value and the gradient are those of f, without the penalty.
    value: the value of F, with the penalty.
    gradient: the pseudo-gradient of F, which is 0 at the optimum.
    smooth_gradient: the gradient of f.
    """

    _KIND = "owlqn"
    _SETTINGS = ("l1", *LBFGS._SETTINGS)
    _STATE = ("smooth_gradient", *LBFGS._STATE)

    def __init__(self, x0: ArrayLike, *, l1: ArrayLike, **settings: Any):
        super().__init__(x0, **settings)
        strengths = np.array(l1, dtype=np.float64)
        self.l1: float | Vector = strengths if strengths.ndim else float(strengths)
        self.smooth_gradient: Vector = np.zeros_like(self.x)

    @property
    def _smooth(self) -> Vector:
        return self.smooth_gradient

    def _move(self, x: Vector, value: float, gradient: Vector) -> None:
        super()._move(x, value, pseudo_gradient(x, gradient, self.l1))
        self.smooth_gradient = gradient

    def _evaluate(self, value_and_grad: ValueAndGradient, x: Vector) -> tuple[float, Vector]:
        """Return F and the gradient of f."""
        value, gradient = super()._evaluate(value_and_grad, x)
        return value + float(np.sum(self.l1 * np.abs(x))), gradient

    def _direction(self) -> Vector:
        direction = two_loop_recursion(self.gradient, self._pairs)
        # The other components descend: equation 6 of Andrew & Gao.
        astray = np.greater(self.l1, 0.0) & (direction * self.gradient >= 0)
        direction[astray] = 0.0
        return direction

    def _line_search(
        self, value_and_grad: ValueAndGradient, start: Point, direction: Vector, step: float
    ) -> Point | None:
        """Return the first point that is low enough, halving the step, or None."""
        orthant = np.sign(np.where(self.x != 0, self.x, -self.gradient))
        for _ in range(MAX_LINE_SEARCH):
            x = self.x + step * direction
            x[np.greater(self.l1, 0.0) & (np.sign(x) != orthant)] = 0.0
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


def pseudo_gradient(x: Vector, gradient: Vector, l1: float | Vector) -> Vector:
    """Return the one-sided derivatives of F on the descending side, or 0 (equation 4).

    x: float64 (n). gradient: of f at x, float64 (n). l1: as in `OWLQN`. The steepest descent is the
    negative pseudo-gradient. It is 0 under the conditions of Karush, Kuhn and Tucker.
    """
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0)
    return np.where(x != 0, gradient + l1 * np.sign(x), at_zero)
