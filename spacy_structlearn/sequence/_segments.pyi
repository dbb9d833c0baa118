import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

class Segmenter:
    def __init__(
        self,
        initial: Floats,
        transitions: Floats,
        final: Floats,
        goes_on: NDArray[np.uint8],
        first_order: bool,
    ) -> None: ...
    def best(
        self,
        scores: Floats,
        offsets: NDArray[np.int64],
        brackets: NDArray[np.int64],
        out: NDArray[np.int32],
    ) -> float: ...
    def begins(
        self,
        scores: Floats,
        offsets: NDArray[np.int64],
        brackets: NDArray[np.int64],
        out: Floats,
        totals: Floats,
    ) -> None: ...

def nest(
    brackets: NDArray[np.int64], offsets: NDArray[np.int64], kept: NDArray[np.uint8]
) -> None: ...
def segment_probabilities(
    segmenter: Segmenter,
    scores: Floats,
    begins: Floats,
    ends: Floats,
    totals: Floats,
    segments: NDArray[np.int64],
    types: NDArray[np.int32],
    out: Floats,
) -> None: ...
