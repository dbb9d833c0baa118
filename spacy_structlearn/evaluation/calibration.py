"""Calibration of probabilities: expected calibration error, and the table of a reliability diagram
(Guo et al. 2017, section 2).
"""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..errors import StructlearnError


class Bin(NamedTuple):
    """Predictions with similar probabilities.

    low, high: Bounds of the bin. probability: The mean probability.
    accuracy: The fraction that is right. count: Number of predictions.
    """

    low: float
    high: float
    probability: float
    accuracy: float
    count: int  # type: ignore[assignment]  # hides tuple.count


def reliability(probabilities: ArrayLike, right: ArrayLike, bins: int = 10) -> list[Bin]:
    """Return the nonempty bins in ascending order.

    probabilities: Those of the predictions, (n), from 0 to 1. right: (n), bool.
    bins: Number of bins, which have equal widths and contain their lower bounds.
    Raises StructlearnError for arrays of other shapes or values, or less than one bin.
    """
    probabilities, right = np.asarray(probabilities, dtype=float), np.asarray(right, dtype=bool)
    if probabilities.ndim != 1 or probabilities.shape != right.shape:
        raise StructlearnError("SL310", probabilities=probabilities.shape, right=right.shape)
    # Sums in float32 may exceed 1; this finds NaN too.
    wrong = np.flatnonzero(~((probabilities > -1e-6) & (probabilities < 1 + 1e-6)))
    if len(wrong):
        raise StructlearnError("SL311", place=int(wrong[0]), value=probabilities[wrong[0]])
    if not isinstance(bins, Integral) or bins < 1:
        raise StructlearnError("SL312", bins=bins)
    order = np.argsort(probabilities, kind="stable")
    edges = np.arange(bins + 1) / bins
    cuts = np.searchsorted(probabilities[order], edges[1:-1])
    table = []
    for low, high, part in zip(edges[:-1], edges[1:], np.split(order, cuts), strict=True):
        if len(part):
            mean, accuracy = float(probabilities[part].mean()), float(right[part].mean())
            table.append(Bin(float(low), float(high), mean, accuracy, len(part)))
    return table


def expected_calibration_error(probabilities: ArrayLike, right: ArrayLike, bins: int = 10) -> float:
    """Return the mean difference of probability and accuracy over the bins of `reliability`,
    weighted by their counts, from 0 to 1; 0 without predictions.
    """
    table = reliability(probabilities, right, bins)
    total = sum(part.count for part in table)
    gaps = sum(abs(part.probability - part.accuracy) * part.count for part in table)
    return gaps / total if total else 0.0
