import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

class Lists:
    def __init__(
        self,
        starts: NDArray[np.int32],
        states: NDArray[np.int32],
        places: NDArray[np.int32],
        n_states: int,
    ) -> None: ...

class LocalSentence:
    def __init__(
        self,
        initial: Floats,
        transitions: Floats,
        final: Floats,
        table: NDArray[np.int32],
        start: int,
        second: bool,
        crossed: bool,
        scores: Floats,
        changes: Floats,
        differences: Floats,
    ) -> None: ...

def next_states(
    initial: Floats,
    transitions: Floats,
    cells: NDArray[np.int32],
    offsets: NDArray[np.int64],
    state_ids: NDArray[np.int32],
    successors: Lists,
    weights: Floats,
    counts: Floats,
    expectations: Floats,
) -> float: ...
def each_label(
    initial: Floats,
    transitions: Floats,
    final: Floats,
    cells: NDArray[np.int32],
    offsets: NDArray[np.int64],
    label_ids: NDArray[np.int32],
    state_ids: NDArray[np.int32],
    table: NDArray[np.int32],
    start: int,
    second: bool,
    crossed: bool,
    touched: Lists,
    weights: Floats,
    counts: Floats,
    differences: Floats,
) -> float: ...
