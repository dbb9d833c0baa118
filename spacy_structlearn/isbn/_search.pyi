import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Ints = NDArray[np.int32]
Numbers = NDArray[np.int64]

class Room:
    @property
    def capacity(self) -> int: ...

class Searcher:
    def __init__(
        self,
        weights: Doubles,
        state_size: int,
        n_labels: int,
        n_tags: int,
        item_offsets: Ints,
        n_signatures: int = ...,
        max_projects: int = ...,
        features: str = ...,
        mean_field: bool = ...,
        tolerance: float = ...,
    ) -> None: ...
    def search(
        self,
        offsets: Numbers,
        tags: Ints,
        items: Ints,
        signatures: Ints,
        bonus: Doubles,
        beam: int,
        branching: int,
        k: int,
        max_pops: int,
        margin: float,
        room: Room,
        synchronous: bool = ...,
    ) -> tuple[Doubles, NDArray[np.int8], Ints, Numbers, Ints, bool, int, int]: ...

def brackets(
    offsets: Numbers,
    moves: NDArray[np.int8],
    labels: Ints,
    chain_offsets: Numbers,
    chains: Ints,
    root: int,
) -> tuple[Ints, Numbers]: ...
