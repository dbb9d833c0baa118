import numpy as np
from numpy.typing import NDArray

class Instances:
    def __init__(
        self,
        features: NDArray[np.int32],
        n_features: int,
        labels: NDArray[np.int32],
        counts: NDArray[np.float64],
        given: NDArray[np.float64],
    ) -> None: ...
    def value_and_gradient(
        self,
        weights: NDArray[np.float64],
        coefficients: NDArray[np.float64],
        gradient: NDArray[np.float64],
        coefficient_gradient: NDArray[np.float64],
    ) -> float: ...

def add_scores(
    features: NDArray[np.int32],
    weights: NDArray[np.floating],
    out: NDArray[np.float64],
) -> None: ...
