from typing import Any

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Ints = NDArray[np.int32]
Numbers = NDArray[np.int64]

class Network:
    state_size: int
    n_inputs: int
    n_outputs: int
    n_weights: int
    features: str
    mean_field: bool

    def __init__(
        self,
        state_size: int,
        n_labels: int,
        n_tags: int,
        item_offsets: Any,
        n_signatures: int = ...,
        max_projects: int = ...,
        features: str = ...,
        mean_field: bool = ...,
        tolerance: float = ...,
    ) -> None: ...
    def log_likelihoods(
        self,
        weights: Doubles,
        offsets: Numbers,
        word_offsets: Numbers,
        moves: NDArray[np.int8],
        labels: Ints,
        tags: Ints,
        items: Ints,
        signatures: Ints,
        sentences: Numbers,
        out: Doubles,
    ) -> None: ...
    def add_gradient(
        self,
        weights: Doubles,
        offsets: Numbers,
        word_offsets: Numbers,
        moves: NDArray[np.int8],
        labels: Ints,
        tags: Ints,
        items: Ints,
        signatures: Ints,
        sentences: Numbers,
        gradient: Doubles,
        dropout: float = ...,
        seed: int = ...,
        scale: float = ...,
    ) -> float: ...
    def trace(
        self,
        weights: Doubles,
        offsets: Numbers,
        word_offsets: Numbers,
        moves: NDArray[np.int8],
        labels: Ints,
        tags: Ints,
        items: Ints,
        signatures: Ints,
        number: int,
    ) -> dict[str, NDArray[Any]]: ...

def update(
    theta: Doubles, rows: Doubles, biases: Doubles, chosen: int, tolerance: float = ...
) -> tuple[Doubles, Doubles, int]: ...
def update_gradient(
    phi: Doubles, rows: Doubles, biases: Doubles, chosen: int, d_mu: Doubles
) -> tuple[Doubles, Doubles, Doubles]: ...
