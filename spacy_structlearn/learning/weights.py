"""Weights of log-linear models: the strongest ones, and models with fewer or rounded ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..errors import StructlearnError
from .settings import check_argument

Feature = tuple[str, int, str, float]
"""The name of a predicate, its key, the label, and the weight."""
DTYPES = ("float16", "float32", "float64")
"""The types in which weights are stored."""


def compacted(model: Any, dtype: DTypeLike, threshold: float) -> dict[str, Any]:
    """Return the arguments of a smaller model with (almost) the same predictions.

    model: with keys, weights, names and storage. dtype: one of `DTYPES`, to which weights are
        rounded and in which `to_bytes` stores them; in memory float16 is float32.
    threshold: weights of at most this magnitude become 0, and keys without any weight are dropped.
    Raises StructlearnError SL208 if a weight is too large for `dtype`, SL209 for another dtype.
    """
    storage = np.dtype(dtype).name
    check_argument("dtype", storage, str, choices=DTYPES)
    with np.errstate(over="ignore"):
        weights = model.weights.astype(storage)
    if not np.isfinite(weights).all():
        raise StructlearnError("SL208", dtype=storage)
    weights = weights.astype("float64" if storage == "float64" else "float32")
    weights[np.abs(weights) <= threshold] = 0
    used = weights.any(axis=1)
    keys, names = model.keys[used], model.names
    names = names and {key: names[key] for key in keys.tolist() if key in names}
    return {"keys": keys, "weights": weights[used], "names": names, "storage": storage}


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
