"""The strongest features of log-linear models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Feature = tuple[str, int, str, float]
"""The name of a predicate, its key, the label, and the weight."""


def strongest(
    weights: NDArray[np.floating],
    keys: NDArray[np.uint64],
    columns: Sequence[str],
    names: Mapping[int, str],
    n: int,
    label: str | None = None,
    *,
    named: bool,
) -> list[Feature]:
    """Return the n largest weights that are not zero, by magnitude.

    weights: floating (n_keys, n_columns). keys: uint64 (n_keys). columns: the label of each column.
    names: of predicates, by their keys.
    label: only weights of this label. named: only predicates with a name; otherwise it may be "".
    """
    chosen = np.array([i for i, column in enumerate(columns) if label in (None, column)], np.int64)
    rows = np.arange(len(keys))
    if named:
        rows = np.flatnonzero(np.isin(keys, np.array(list(names), dtype=np.uint64)))
    block = weights[np.ix_(rows, chosen)]
    order = np.argsort(-np.abs(block), axis=None, kind="stable")[:n]
    features = []
    for i, j in zip(*np.unravel_index(order, block.shape), strict=True):
        key, weight = int(keys[rows[i]]), float(block[i, j])
        if weight:
            features.append((names.get(key, ""), key, columns[chosen[j]], weight))
    return features
