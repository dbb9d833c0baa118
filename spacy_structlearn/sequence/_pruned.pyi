import numpy as np
from numpy.typing import NDArray

class Learner:
    def __init__(
        self,
        start: NDArray[np.float32],
        weights: NDArray[np.float32],
        totals: NDArray[np.float32],
        squares: NDArray[np.float32],
    ) -> None: ...
    def add_to(
        self, out: NDArray[np.float32], rate: float, damping: float, threshold: float
    ) -> None: ...

def posteriors(
    transitions: NDArray[np.float64],
    scores: NDArray[np.float32],
    offsets: NDArray[np.int64],
    margin: float,
    starts: NDArray[np.int64],
    labels: NDArray[np.int32],
    probabilities: NDArray[np.float32],
) -> None: ...
def epoch(
    rows: NDArray[np.int32],
    offsets: NDArray[np.int64],
    gold: NDArray[np.int32],
    order: NDArray[np.int64],
    predicates: Learner,
    transitions: Learner,
    margin: float,
    rate: float,
    damping: float,
    l1: float,
    n_before: float,
) -> float: ...
