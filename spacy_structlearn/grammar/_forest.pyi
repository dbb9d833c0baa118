from typing import Any

import numpy as np
from numpy.typing import NDArray

Weights = tuple[NDArray[Any], ...]

class ForestArrays:
    n_tags: int
    n_symbols: int
    def __init__(
        self,
        n_tags: int,
        n_symbols: int,
        rules: NDArray[np.int32],
        unary_rules: NDArray[np.int32],
        root_rules: NDArray[np.int32],
        arrays: dict[str, NDArray[Any]],
    ) -> None: ...
    @property
    def n_sentences(self) -> int: ...

class ForestRoom: ...

def expected_counts(
    forests: ForestArrays,
    workspace: ForestRoom,
    begin: int,
    end: int,
    weights: Weights,
    left_out: NDArray[np.uint8],
    sums: tuple[NDArray[np.float32], ...],
    log_z: NDArray[np.float64],
) -> None: ...
def scores(
    forests: ForestArrays, workspace: ForestRoom, s: int, weights: Weights
) -> tuple[Any, ...] | None: ...
def prune(
    forests: ForestArrays,
    workspace: ForestRoom,
    weights: Weights,
    keep: float,
    keep_edge: float,
) -> tuple[int, int, int, int, int, int]: ...
