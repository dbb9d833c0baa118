import numpy as np
from numpy.typing import NDArray

def inside_outside(
    node_offsets: NDArray[np.int64],
    edge_offsets: NDArray[np.int64],
    begins: NDArray[np.int32],
    tails: NDArray[np.int32],
    scores: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def best(
    node_offsets: NDArray[np.int64],
    edge_offsets: NDArray[np.int64],
    begins: NDArray[np.int32],
    tails: NDArray[np.int32],
    scores: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]: ...
