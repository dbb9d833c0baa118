"""What may stand in the settings of classifiers, where a configuration may have anything."""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from numbers import Integral, Real
from typing import Any


def is_one_of(value: Any, known: Collection[str | None]) -> bool:
    """Whether it is one of these words; arrays, which have no one answer to ==, are not."""
    return (value is None or isinstance(value, str)) and value in known


def is_number(value: Any, least: float = -inf) -> bool:
    """Whether it is a number, not NaN, and not below `least`."""
    return isinstance(value, Real) and value >= least


def is_whole(value: Any, least: int) -> bool:
    """Whether it is a whole number and not below `least`."""
    return isinstance(value, Integral) and value >= least
