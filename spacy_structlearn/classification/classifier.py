"""What Bayesian networks and log-linear models have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..learning.stored import Stored


class Step(NamedTuple):
    """A step of a search.

    variables: those of the added template, or the added variable and its parents.
    accuracy: fraction of the evaluation instances that are right after the step.
    log_likelihood: sum of log P(y | x) over them, in nats. n_candidates: number of models compared.
    """

    variables: tuple[str, ...]
    accuracy: float
    log_likelihood: float
    n_candidates: int

    @classmethod
    def of(cls, stored: Sequence[Any]) -> Step:
        """Return a step from a list of its parts. Raises an error in `DAMAGE` for another list."""
        variables, *figures = stored
        return cls(tuple(variables), *figures)


class Classifier(Stored):
    """The base of classifiers.

    labels: the classes in ascending order, as in the columns of all scores.
    variables: those at fit, including those that prediction does not use.
    """

    labels: tuple[str, ...]
    variables: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Whether there are no labels, so that nothing can be classified."""
        return not self.labels
