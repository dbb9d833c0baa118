import numpy as np
from numpy.typing import NDArray

def epoch(
    rows: NDArray[np.int32],
    offsets: NDArray[np.int64],
    gold: NDArray[np.int32],
    order: NDArray[np.int64],
    columns: NDArray[np.int32],
    initial: NDArray[np.float64],
    final: NDArray[np.float64],
    starts: NDArray[np.int32],
    arcs: NDArray[np.int32],
    weights: NDArray[np.float32],
    totals: NDArray[np.float64],
    arc_weights: NDArray[np.float64],
    arc_totals: NDArray[np.float64],
    n_before: float,
) -> int: ...
