from typing import Any

import numpy as np
from numpy.typing import NDArray

LENGTH_TERM: int
SHAPE_TERM: int

class SpanHasher:
    arrays: tuple[Any, ...]
    width: int
    def __init__(
        self,
        seeds: NDArray[np.uint64],
        n_span: int,
        starts: NDArray[np.int32],
        terms: NDArray[np.int32],
        lengths: NDArray[np.int32],
        shape_column: int,
        symbols: NDArray[np.uint64],
        n_tags: int,
        bits: int,
    ) -> None: ...
    def places(
        self,
        words: NDArray[np.uint64],
        word_offsets: NDArray[np.int64],
        items: NDArray[np.int32],
        item_offsets: NDArray[np.int64],
    ) -> NDArray[np.int32]: ...

def sums(
    places: NDArray[np.int32], weights: NDArray[np.float32] | NDArray[np.float64]
) -> NDArray[np.float64]: ...
def scattered(
    places: NDArray[np.int32], values: NDArray[np.float64], size: int
) -> NDArray[np.float64]: ...
def current_weights(
    table: NDArray[np.float32], rates: NDArray[np.float64], l1: float, epsilon: float
) -> NDArray[np.float32]: ...
def current_sums(
    places: NDArray[np.int32],
    table: NDArray[np.float32],
    rates: NDArray[np.float64],
    l1: float,
    epsilon: float,
) -> NDArray[np.float64]: ...
def accumulate(
    places: NDArray[np.int32], gradient: NDArray[np.float64], table: NDArray[np.float32]
) -> NDArray[np.int32]: ...
def step(
    touched: NDArray[np.int32],
    table: NDArray[np.float32],
    rates: NDArray[np.float64],
    l1: float,
    epsilon: float,
) -> None: ...
