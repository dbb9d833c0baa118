"""Whether probabilities are as good as they say: expected calibration error, and the table behind a
reliability diagram (Guo et al. 2017, section 2). Predictions are put into bins by their
probability; in each, the mean probability is held against the frequency of right ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import StructlearnError


class Bin(NamedTuple):
    """Predictions of about the same probability.

    low, high: its ends; of a bin of equal mass, the lowest and the highest probability in it.
    probability: their mean. accuracy: the fraction that is right. count: how many they are.
    """

    low: float
    high: float
    probability: float
    accuracy: float
    count: int


def reliability(
    probabilities: ArrayLike, right: ArrayLike, bins: int = 10, *, equal_mass: bool = False
) -> list[Bin]:
    """The bins that hold any predictions, in ascending order.

    probabilities: (n), from 0 to 1, each of a prediction. right: (n), bool, whether it is so.
    bins: their number. They are equally wide, with the lower end in and the upper end out (that of
    the last is in); or with equal_mass hold equally many predictions, as far as n allows, equal
    probabilities in the order given. Raises SL310 for arrays that do not fit, SL311 for what is no
    probability, SL312 for less than one bin.
    """
    probabilities, right = np.asarray(probabilities, dtype=float), np.asarray(right, dtype=bool)
    if probabilities.ndim != 1 or probabilities.shape != right.shape:
        raise StructlearnError("SL310", probabilities=probabilities.shape, right=right.shape)
    # Sums in float32 may end a little beyond 1; NaN is caught too.
    wrong = np.flatnonzero(~((probabilities > -1e-6) & (probabilities < 1 + 1e-6)))
    if len(wrong):
        raise StructlearnError("SL311", place=int(wrong[0]), value=probabilities[wrong[0]])
    if not isinstance(bins, Integral) or bins < 1:
        raise StructlearnError("SL312", bins=bins)
    members: Iterable[tuple[int, NDArray[np.int64]]]
    if equal_mass:
        order = np.argsort(probabilities, kind="stable")
        members = enumerate(np.array_split(order, max(1, min(bins, len(order)))))
    else:
        place = np.clip((probabilities * bins).astype(int), 0, bins - 1)
        # By the very ends that are reported: 0.29 * 100 is a little less than 29.
        place += (place + 1 < bins) & ((place + 1) / bins <= probabilities)
        place -= (place > 0) & (place / bins > probabilities)
        members = ((int(number), np.flatnonzero(place == number)) for number in np.unique(place))
    table = []
    for number, part in members:
        if not len(part):
            continue
        inside = probabilities[part]
        low, high = (
            (inside.min(), inside.max()) if equal_mass else (number / bins, (number + 1) / bins)
        )
        mean, accuracy = float(inside.mean()), float(right[part].mean())
        table.append(Bin(float(low), float(high), mean, accuracy, len(part)))
    return table


def expected_calibration_error(
    probabilities: ArrayLike, right: ArrayLike, bins: int = 10, *, equal_mass: bool = False
) -> float:
    """The mean difference of probability and accuracy over the bins of `reliability`, weighted by
    their counts; from 0 to 1, and 0 for no predictions. Takes and raises what `reliability` does.
    """
    table = reliability(probabilities, right, bins, equal_mass=equal_mass)
    total = sum(part.count for part in table)
    gaps = sum(abs(part.probability - part.accuracy) * part.count for part in table)
    return gaps / total if total else 0.0
