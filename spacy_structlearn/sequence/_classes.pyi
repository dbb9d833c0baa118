import numpy as np
from numpy.typing import NDArray

def exchange(
    order: NDArray[np.int32],
    left_starts: NDArray[np.int64],
    left: NDArray[np.int32],
    left_counts: NDArray[np.int32],
    right_starts: NDArray[np.int64],
    right: NDArray[np.int32],
    right_counts: NDArray[np.int32],
    doubled: NDArray[np.int32],
    classes: NDArray[np.int32],
    counts: NDArray[np.int32],
    n_classes: int,
) -> int: ...
def merge(counts: NDArray[np.int64], n_classes: int, merges: NDArray[np.int32]) -> None: ...
