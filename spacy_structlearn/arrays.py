"""Small array functions that several rooms share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def cumulative(sizes: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the boundaries of consecutive parts of these sizes, int64 (n + 1), starting at 0."""
    ends = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=ends[1:])
    return ends
