import numpy as np
from numpy.typing import NDArray

def squared_norms(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    data: NDArray[np.float64],
    n_columns: int,
) -> NDArray[np.float64]: ...
def epoch(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    data: NDArray[np.float64],
    norms: NDArray[np.float64],
    order: NDArray[np.int64],
    c: float,
    w: NDArray[np.float64],
    alpha: NDArray[np.float64],
) -> float: ...
