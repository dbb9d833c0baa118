"""AdaGrad with an L1 penalty: steps along the gradients of parts of a sum.

Duchi, Hazan & Singer (2011), the composite mirror descent of their section 1.3: with g the gradient
of one part at x, and G_i the sum of the squares of all g_i so far,

    h_i = sqrt(damping + G_i)
    x_i = S(x_i - learn_rate g_i / h_i, learn_rate l1_i / h_i),  S(a, b) = sign(a) max(|a| - b, 0)

so that a coordinate whose gradients are small or rare takes longer steps, and the penalty makes
zeros. As in `lbfgs`, the whole state is in `to_bytes`: what goes on from there goes through the
same iterates, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..errors import StructlearnError
from .lbfgs import ValueAndGradient, Vector
from .resumable import Resumable

_WINDOW = 10


class AdaGrad(Resumable):
    """State of a minimisation of sum_b f_b(x) + l1 |x|_1.

    x0: the starting point, float64 (n); n may be 0. learn_rate: above 0. l1: 0 or more. damping:
    above 0, of the same unit as squares of the gradients. value_tolerance: converged ("value") when
    `value` fell by at most tolerance * |value| an iteration, on the average of the last 10.
    seed: of the order of the parts, another in each iteration.

    Attributes: x; value, the sum of the parts and the penalty where each part met x in the last
    iteration, None before the first and infinite if one part was not finite; n_iterations, passes
    through all parts; n_evaluations, of parts; status: "running" or "value".
    Raises StructlearnError SL221 if x0 is not a vector.
    """

    _KIND = "adagrad"
    _SETTINGS = ("learn_rate", "l1", "damping", "value_tolerance", "seed")
    _STATE = ("x", "value", "n_iterations", "n_evaluations", "status", "_squares", "_values")

    def __init__(
        self,
        x0: ArrayLike,
        *,
        learn_rate: float = 0.1,
        l1: float = 0.0,
        damping: float = 1.0,
        value_tolerance: float = 1e-9,
        seed: int = 0,
    ):
        self.x: Vector = np.array(x0, dtype=np.float64)
        if self.x.ndim != 1:
            raise StructlearnError("SL221", n="any number of", shape=self.x.shape)
        self.learn_rate = learn_rate
        self.l1 = l1
        self.damping = damping
        self.value_tolerance = value_tolerance
        self.seed = seed
        self.value: float | None = None
        self.n_iterations = 0
        self.n_evaluations = 0
        self.status = "running"
        self._squares: Vector = np.zeros_like(self.x)
        self._values: list[float] = []

    @property
    def converged(self) -> bool:
        """Whether the tolerance was met."""
        return self.status == "value"

    def step(self, parts: Sequence[ValueAndGradient]) -> bool:
        """A pass through all parts; true while more can be done.

        parts: from float64 (n) to the value and the gradient, float64 (n), there; the same
            functions in every pass. A part that is not finite where it is met makes no step.
        Raises StructlearnError SL436 if no part is finite.
        """
        if self.status != "running":
            return False
        order = np.random.default_rng([self.seed, self.n_iterations]).permutation(len(parts))
        l1 = self.l1 / max(1, len(parts))
        values = []
        for number in order.tolist():
            self.n_evaluations += 1
            value, gradient = parts[number](self.x)
            if not (np.isfinite(value) and np.isfinite(gradient).all()):
                values.append(np.inf)
                continue
            values.append(value + l1 * float(np.abs(self.x).sum()))
            self._move(gradient, l1)
        if values and not np.isfinite(values).any():
            raise StructlearnError("SL436", learn_rate=self.learn_rate)
        self.n_iterations += 1
        self.value = float(np.sum(values))
        self._values.append(self.value)
        del self._values[: -(_WINDOW + 1)]
        if len(self._values) > _WINDOW and np.isfinite(self._values).all():
            fall = (self._values[0] - self.value) / _WINDOW
            if fall <= self.value_tolerance * abs(self.value):
                self.status = "value"
        return self.status == "running"

    def _move(self, gradient: Vector, l1: float) -> None:
        self._squares += gradient * gradient
        rates = self.learn_rate / np.sqrt(self._squares + self.damping)
        x = self.x - rates * gradient
        if l1:
            rates *= l1
            x = np.sign(x) * np.maximum(np.abs(x) - rates, 0.0)
        self.x = x
