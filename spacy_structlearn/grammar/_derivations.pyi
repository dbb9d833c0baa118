import numpy as np
from numpy.typing import NDArray

class Trees:
    n_symbols: int
    n_binary: int
    n_unary: int
    n_pairs: int
    n_roots: int
    def __init__(
        self,
        symbol: NDArray[np.int32],
        left: NDArray[np.int32],
        right: NDArray[np.int32],
        production: NDArray[np.int32],
        offsets: NDArray[np.int64],
        roots: NDArray[np.int32],
        n_symbols: int,
        binary: NDArray[np.int32],
        unary: NDArray[np.int32],
        root: NDArray[np.int32],
        pairs: NDArray[np.int32],
    ) -> None: ...
    @property
    def n_trees(self) -> int: ...
    @property
    def n_nodes(self) -> int: ...

def inside_outside(
    trees: Trees,
    first: int,
    last: int,
    substates: NDArray[np.int32],
    binary: NDArray[np.float32],
    binary_offsets: NDArray[np.int64],
    unary: NDArray[np.float32],
    unary_offsets: NDArray[np.int64],
    root: NDArray[np.float32],
    root_offsets: NDArray[np.int64],
    emissions: NDArray[np.float32],
    emission_offsets: NDArray[np.int64],
    node_offsets: NDArray[np.int64],
    inside: NDArray[np.float32],
    outside: NDArray[np.float32],
    scale: NDArray[np.float32],
    log_likelihood: NDArray[np.float64],
) -> None: ...
def rule_counts(
    trees: Trees,
    unary: bool,
    nodes: NDArray[np.int32],
    starts: NDArray[np.int64],
    first: int,
    last: int,
    rules: NDArray[np.int32],
    substates: NDArray[np.int32],
    probabilities: NDArray[np.float32],
    offsets: NDArray[np.int64],
    node_offsets: NDArray[np.int64],
    inside: NDArray[np.float32],
    outside: NDArray[np.float32],
    scale: NDArray[np.float32],
    counts: NDArray[np.float32],
) -> None: ...
def posterior_sums(
    nodes: NDArray[np.int32],
    starts: NDArray[np.int64],
    offsets: NDArray[np.int64],
    node_offsets: NDArray[np.int64],
    inside: NDArray[np.float32],
    outside: NDArray[np.float32],
    sums: NDArray[np.float32],
) -> None: ...
