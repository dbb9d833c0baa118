from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

DECODERS: dict[str, int]

class Grammar:
    n_levels: int
    def __init__(
        self,
        n_tags: int,
        n_phrases: int,
        n_symbols: int,
        binary: Ints,
        unary: Ints,
        root: Ints,
        levels: list[tuple[NDArray[Any], ...]],
        coarse: Floats,
        chain_begin: Ints,
        chains: Ints,
    ) -> None: ...

class Parser:
    grammars: list[Grammar]
    levels: tuple[int, ...]
    def __init__(
        self,
        grammars: list[Grammar],
        levels: tuple[int, ...],
        last: list[int],
        keep: tuple[float, ...],
        edge_factor: float,
        decoder: str,
    ) -> None: ...

class Chart:
    def parse(
        self,
        parser: Parser,
        lexicon: list[Floats],
        others: list[Floats],
        offsets: NDArray[np.int64],
    ) -> tuple[Ints, Ints, Ints, Floats, NDArray[np.int64], Ints, Doubles]: ...
    def hypergraphs(
        self,
        parser: Parser,
        lexicon: list[Floats],
        others: list[Floats],
        offsets: NDArray[np.int64],
    ) -> tuple[Ints, Ints, Ints, Doubles, Ints, Ints, NDArray[np.int64], Ints, Doubles]: ...
    def forest(
        self, parser: Parser, lexicon: list[Floats], others: list[Floats]
    ) -> dict[str, Any] | None: ...
    def coarse_forest(
        self,
        grammar: Grammar,
        lexicon: Floats,
        gold: Ints,
        keep: float,
        keep_edge: float,
    ) -> tuple[float, int, Ints, Ints, Ints, Ints, Ints, Ints] | None: ...
    def read(
        self, parser: Parser, root: int, choices: list[tuple[int, int, int]]
    ) -> tuple[Ints, Ints, Ints, Floats, float]: ...
    def counts(self) -> dict[str, int]: ...
    def posteriors(self, parser: Parser, lexicon: Floats) -> tuple[Doubles, Doubles, float]: ...
