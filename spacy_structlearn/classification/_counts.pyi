import numpy as np
from numpy.typing import NDArray

class KeyIndex:
    keys: NDArray[np.uint64]
    def __init__(self, keys: NDArray[np.uint64]) -> None: ...
    def __len__(self) -> int: ...
    def find(self, wanted: NDArray[np.uint64]) -> NDArray[np.int32]: ...

class BayesNetKernel:
    n_columns: int
    def __init__(
        self,
        keys: NDArray[np.uint64],
        counts: NDArray[np.int32],
        starts: NDArray[np.int64],
        seeds: NDArray[np.uint64],
        columns: NDArray[np.int32],
        column_starts: NDArray[np.int32],
        table_starts: NDArray[np.int32],
        context_sets: NDArray[np.int32],
        event_sets: NDArray[np.int32],
        distinct: NDArray[np.int32],
        distinct_starts: NDArray[np.int64],
        d: NDArray[np.float64],
        uniform: NDArray[np.float64],
        symbols: NDArray[np.uint64],
        n_columns: int,
        uniform_weight: float,
    ) -> None: ...
    def log_joint(self, rows: NDArray[np.uint64], out: NDArray[np.float64]) -> None: ...

def group(
    keys: NDArray[np.uint64],
) -> tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.int64]]: ...
