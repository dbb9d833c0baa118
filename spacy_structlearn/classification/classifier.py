"""What Bayesian networks and log-linear models have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..errors import StructlearnError
from ..learning.stored import Stored
from .features import ClassificationData, Labelled, Rows, Table, checked_labels


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
        """Return a step from a list of its parts. Raises an error in `DAMAGE` if it is none."""
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


def labelled(
    rows: Rows,
    labels: Sequence[str],
    *,
    dev: Labelled | None = None,
    variables: Sequence[str] | None = None,
    known_labels: Iterable[str] = (),
) -> tuple[ClassificationData, ClassificationData | None, tuple[str, ...]]:
    """Return the training data, the development data, and all labels, ascending.

    rows, labels: the training data; see `features.Table.of`.
    dev: rows and labels to select on. None, or no rows: None is returned.
    variables: their names; None: those of the rows.
    known_labels: further labels.
    Raises StructlearnError if the arguments do not fit together.
    """
    table = Table.of(rows, variables)
    train = ClassificationData(table, checked_labels(labels, len(table)))
    held_out = None
    if dev is not None:
        if not isinstance(dev, (tuple, list)) or len(dev) != 2:
            parts = isinstance(dev, (tuple, list))
            found = f"{len(dev)} parts" if parts else type(dev).__name__
            raise StructlearnError("SL507", found=found)
        dev_table = Table.of(dev[0], table.variables)
        held_out = ClassificationData(dev_table, checked_labels(dev[1], len(dev_table)))
        if not held_out.labels:
            held_out = None
    known = {*known_labels, *train.labels, *(held_out.labels if held_out else ())}
    return train, held_out, tuple(sorted(known))
