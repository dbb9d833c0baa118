import numpy as np
from numpy.typing import NDArray

def from_edges(
    node_offsets: NDArray[np.int64],
    edge_offsets: NDArray[np.int64],
    begins: NDArray[np.int32],
    tails: NDArray[np.int32],
    made: NDArray[np.int32],
    symbol: NDArray[np.int32],
    n_tags: int,
) -> tuple[
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int32],
]: ...
def from_ancestors(
    node_offsets: NDArray[np.int64],
    edge_offsets: NDArray[np.int64],
    begins: NDArray[np.int32],
    tails: NDArray[np.int32],
    made: NDArray[np.int32],
    symbol: NDArray[np.int32],
    above: NDArray[np.int32],
    first_inner: int,
    place: int,
    depth: int,
    sibling: bool,
) -> tuple[
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int32],
]: ...
