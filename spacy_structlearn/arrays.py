"""Small array functions that several rooms share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def cumulative(sizes: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the boundaries of consecutive parts of these sizes, int64 (n + 1), starting at 0."""
    ends = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=ends[1:])
    return ends


def ranges(starts: NDArray[np.integer], sizes: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the numbers from each start on, of these sizes, one range after another."""
    ends = cumulative(sizes)
    return np.arange(ends[-1]) + np.repeat(starts - ends[:-1], sizes)
