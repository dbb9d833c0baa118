import numpy as np
from numpy.typing import NDArray

def find_rows(
    wanted: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    buckets: NDArray[np.int32],
    out: NDArray[np.int32],
) -> None: ...
def emission_scores(
    rows: NDArray[np.int32],
    weights: NDArray[np.float32] | NDArray[np.float64],
    out: NDArray[np.float64],
) -> None: ...
def add_to_rows(
    rows: NDArray[np.int32], values: NDArray[np.float64], out: NDArray[np.float64]
) -> None: ...
def forward_backward(
    scores: NDArray[np.float64],
    offsets: NDArray[np.int64],
    transitions: NDArray[np.float64],
    marginals: NDArray[np.float64],
    expectations: NDArray[np.float64] | None = None,
    log_beta: NDArray[np.float64] | None = None,
) -> float: ...
def segment_probabilities(
    scores: NDArray[np.float64],
    transitions: NDArray[np.float64],
    marginals: NDArray[np.float64],
    log_beta: NDArray[np.float64],
    segments: NDArray[np.int64],
    labels: NDArray[np.int32],
    out: NDArray[np.float64],
) -> None: ...
def viterbi(
    scores: NDArray[np.float64],
    offsets: NDArray[np.int64],
    transitions: NDArray[np.float64],
    out: NDArray[np.int32],
) -> float: ...
