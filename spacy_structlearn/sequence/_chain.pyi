import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

class Hasher:
    arrays: tuple[NDArray, ...]
    n_templates: int
    n_columns: int
    mask: int
    def __init__(
        self,
        seeds: NDArray[np.uint64],
        starts: NDArray[np.int32],
        term_columns: NDArray[np.int32],
        term_offsets: NDArray[np.int32],
        before: NDArray[np.uint64],
        after: NDArray[np.uint64],
        mask: int = ...,
    ) -> None: ...
    def keys(
        self, columns: NDArray[np.uint64], offsets: NDArray[np.int64], out: NDArray[np.uint64]
    ) -> None: ...

class Index:
    def __init__(self, keys: NDArray[np.uint64]) -> None: ...
    def rows(self, wanted: NDArray[np.uint64], out: NDArray[np.int32]) -> None: ...

class Chain:
    def __init__(self, initial: Floats, transitions: Floats, final: Floats) -> None: ...

class Workspace:
    def __init__(self, chain: Chain, longest: int) -> None: ...

def number_keys(keys: NDArray[np.uint64], ids: NDArray[np.int32]) -> NDArray[np.int32]: ...
def predicate_scores(
    hasher: Hasher,
    index: Index,
    columns: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    weights: NDArray[np.float32] | Floats,
    unknown: Floats | None,
    out: NDArray[np.float32] | Floats,
) -> None: ...
def forward_backward(
    chain: Chain,
    scores: Floats,
    offsets: NDArray[np.int64],
    marginals: Floats,
    expectations: Floats | None = None,
    messages: Floats | None = None,
    in_logs: NDArray[np.uint8] | None = None,
) -> float: ...
def segment_probabilities(
    chain: Chain,
    marginals: Floats,
    messages: Floats,
    in_logs: NDArray[np.uint8],
    segments: NDArray[np.int64],
    goes_on: NDArray[np.uint8],
    types: NDArray[np.int32],
    out: Floats,
) -> None: ...
def viterbi(
    chain: Chain, scores: Floats, offsets: NDArray[np.int64], out: NDArray[np.int32]
) -> float: ...
def best_paths(
    chain: Chain, scores: Floats, out: NDArray[np.int32], out_scores: Floats
) -> None: ...
def fold(
    theta: Floats,
    first: NDArray[np.int64],
    count: NDArray[np.int16],
    column: NDArray[np.int16],
    links: NDArray[np.int32],
    begin: int,
    n_implied: int,
    labels: NDArray[np.int32] | None,
    n_labels: int,
    weights: Floats,
) -> None: ...
def unfold(
    counts: Floats,
    first: NDArray[np.int64],
    count: NDArray[np.int16],
    column: NDArray[np.int16],
    links: NDArray[np.int32],
    begin: int,
    n_implied: int,
    labels: NDArray[np.int32] | None,
    n_labels: int,
    theta: Floats,
    shrinkage: float,
    empirical: Floats,
    out: Floats,
) -> None: ...
def count_cells(cells: NDArray[np.int32], places: NDArray[np.int32], out: Floats) -> None: ...
def expected_counts(
    chain: Chain,
    cells: NDArray[np.int32],
    offsets: NDArray[np.int64],
    weights: Floats,
    labels: NDArray[np.int32] | None,
    out: Floats,
    expectations: Floats,
) -> float: ...
