"""What is learned of a linear chain: one row of weights for each predicate, and transitions.

The model is log-linear and of first order (Lafferty, McCallum & Pereira 2001, equation 1): a label
sequence has the score sum_t sum_k w(k-th predicate at t, y_t) + sum_t a(y_{t-1}, y_t). All
estimators of this package fill the same arrays, and all decoders read them. Predicates are known
by 64-bit keys only (see `features`), and the row of weights of a predicate is contiguous, so that
scoring a token is a handful of look-ups and additions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import serialization
from ..errors import StructlearnError
from . import _chain
from .features import Templates, check_offsets

_KIND = "chain_model"
_VERSION = 1
_WEIGHT_DTYPES = ("float16", "float32", "float64")


class ChainModel:
    """A first-order linear-chain log-linear model.

    labels: the label strings; a label's id is its place.
    templates: how predicates are made of the input.
    keys: uint64 (n_predicates), ascending and unique: the known predicates.
    weights: float32 or float64 (n_predicates, n_labels); zero where a feature is not supported.
    transitions: float64 (n_labels, n_labels), from row to column.
    storage: the floating type in which `to_bytes` writes the weights; that of `weights` if None.
    supported: bool (n_predicates, n_labels) and `supported_transitions`: bool (n_labels,
        n_labels), the features that may be trained; set by `build`, not stored, else None.
    Raises StructlearnError SL206 if the parts do not fit together.
    """

    def __init__(
        self,
        labels: Sequence[str],
        templates: Templates,
        keys: NDArray[np.uint64],
        weights: NDArray[np.floating],
        transitions: NDArray[np.float64],
        *,
        storage: str | None = None,
    ):
        self.labels: tuple[str, ...] = tuple(labels)
        self.templates = templates
        self.keys = np.ascontiguousarray(keys, dtype=np.uint64)
        dtype = np.float32 if np.asarray(weights).dtype.itemsize <= 4 else np.float64
        self.weights = np.ascontiguousarray(weights, dtype=dtype)
        self.transitions = np.ascontiguousarray(transitions, dtype=np.float64)
        self.storage = storage or str(dtype.__name__)
        self.supported: NDArray[np.bool_] | None = None
        self.supported_transitions: NDArray[np.bool_] | None = None
        self._check()
        self._buckets = _bucket_starts(self.keys)

    @classmethod
    def empty(cls) -> ChainModel:
        """A model without labels and predicates: what an untrained component holds."""
        return cls(
            (),
            Templates(()),
            np.empty(0, np.uint64),
            np.empty((0, 0), np.float32),
            np.empty((0, 0), np.float64),
        )

    @classmethod
    def build(
        cls,
        columns: NDArray[np.uint64],
        offsets: NDArray[np.int64],
        label_ids: NDArray[np.integer],
        labels: Sequence[str],
        templates: Templates | Sequence[str],
        min_frequency: int = 1,
    ) -> ChainModel:
        """An untrained (all zero) float64 model of the predicates and labels in labelled data.

        columns: uint64 (n_tokens, n_columns); offsets: int64 (n_sentences + 1); see `Templates`.
        label_ids: integers (n_tokens), places in `labels`.
        min_frequency: a predicate is known if it is true at so many tokens or more.
        Supported are the pairs (predicate, label) and (label, next label) that the data hold.
        Raises StructlearnError SL203, SL204, SL207 or SL209.
        """
        if min_frequency < 1:
            raise StructlearnError(
                "SL209", name="min_frequency", wanted="1 or more", value=min_frequency
            )
        if not isinstance(templates, Templates):
            templates = Templates(templates)
        all_keys = templates.keys(columns, offsets)
        keys, counts = np.unique(all_keys, return_counts=True)
        keys = keys[counts >= min_frequency]
        shape = (len(keys), len(labels))
        model = cls(labels, templates, keys, np.zeros(shape), np.zeros((len(labels),) * 2))
        offsets = check_offsets(offsets, len(columns))
        label_ids = check_label_ids(label_ids, len(columns), len(labels))
        model.support(model.rows(all_keys), offsets, label_ids)
        return model

    @property
    def is_empty(self) -> bool:
        """Whether there are no labels, so that nothing can be decoded."""
        return not self.labels

    @property
    def n_features(self) -> int:
        """Number of weights that are not zero, transitions included."""
        return int(np.count_nonzero(self.weights) + np.count_nonzero(self.transitions))

    def rows(self, keys: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Row of each predicate in `weights`, -1 if it is unknown.

        keys: uint64 of any shape. Returns int32 of the same shape.
        """
        keys = np.ascontiguousarray(keys, dtype=np.uint64)
        rows = np.empty(keys.shape, dtype=np.int32)
        _chain.find_rows(keys.reshape(-1), self.keys, self._buckets, rows.reshape(-1))
        return rows

    def support(
        self, rows: NDArray[np.int32], offsets: NDArray[np.int64], label_ids: NDArray[np.int32]
    ) -> None:
        """Let the features seen in this data, and only those, be trained.

        rows: int32 (n_tokens, n_templates), as from `rows`. label_ids: int32 (n_tokens).
        """
        n_labels = len(self.labels)
        self.supported = np.zeros((len(self.keys), n_labels), dtype=np.bool_)
        known = rows >= 0
        tokens = np.broadcast_to(label_ids[:, None], rows.shape)
        self.supported[rows[known], tokens[known]] = True
        self.supported_transitions = count_transitions(offsets, label_ids, n_labels) > 0

    def compact(self, dtype: DTypeLike = "float16", threshold: float = 0.0) -> ChainModel:
        """A smaller model that answers (almost) as this one does.

        dtype: "float16", "float32" or "float64", the precision to which weights are rounded and
            with which `to_bytes` stores them; in memory float16 is float32.
        threshold: weights of at most this magnitude become zero, and predicates without any
            weight are dropped.
        Raises StructlearnError SL208 if a weight is too large for `dtype`, SL209 for another dtype.
        """
        storage = np.dtype(dtype).name
        _check_storage(storage)
        # Overflow to infinity is reported below, with a code.
        with np.errstate(over="ignore"):
            weights = self.weights.astype(storage)
        if not np.isfinite(weights).all():
            raise StructlearnError("SL208", dtype=storage)
        weights[np.abs(weights) <= threshold] = 0
        kept = weights.any(axis=1)
        return ChainModel(
            self.labels,
            self.templates,
            self.keys[kept],
            weights[kept],
            self.transitions.copy(),
            storage=storage,
        )

    def to_bytes(self) -> bytes:
        """The model as bytes, the same for equal models: a bit for each weight that is not zero,
        the key of each predicate, and the weights in the `storage` type."""
        present = self.weights != 0
        return serialization.pack(
            _KIND,
            _VERSION,
            {
                "labels": self.labels,
                "templates": self.templates.texts,
                "keys": self.keys,
                "present": np.packbits(present, bitorder="little"),
                "weights": self.weights[present].astype(self.storage),
                "transitions": self.transitions,
                "in_memory": str(self.weights.dtype),
            },
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> ChainModel:
        """The model that `to_bytes` wrote.

        Raises StructlearnError SL050 to SL054 if the bytes are not those of a chain model.
        """
        _, fields = serialization.unpack(data, _KIND, {_VERSION})
        try:
            return cls._from_fields(**fields)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise StructlearnError("SL054", kind=_KIND, problem=str(error)) from None

    @classmethod
    def _from_fields(
        cls,
        *,
        labels: list[str],
        templates: list[str],
        keys: NDArray[np.uint64],
        present: NDArray[np.uint8],
        weights: NDArray[np.floating],
        transitions: NDArray[np.float64],
        in_memory: str,
    ) -> ChainModel:
        for name in labels + templates:
            if not isinstance(name, str):
                raise TypeError("a label or template is not a string")
        storage = weights.dtype.name
        _check_storage(storage)
        if in_memory not in ("float32", "float64"):
            raise ValueError("its weights are neither float32 nor float64")
        n_weights = len(keys) * len(labels)
        if present.shape != ((n_weights + 7) // 8,):
            raise ValueError("its bit mask has the wrong length")
        mask = np.unpackbits(present, count=n_weights, bitorder="little").astype(np.bool_)
        if weights.shape != (np.count_nonzero(mask),) or keys.dtype != np.uint64:
            raise ValueError("its weights or keys do not fit its bit mask")
        full = np.zeros(n_weights, dtype=in_memory)
        full[mask] = weights
        full = full.reshape(len(keys), len(labels))
        return cls(labels, Templates(templates), keys, full, transitions, storage=storage)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ChainModel):
            return NotImplemented
        return (
            (self.labels, self.templates) == (other.labels, other.templates)
            and (self.weights.dtype, self.storage) == (other.weights.dtype, other.storage)
            and np.array_equal(self.keys, other.keys)
            and np.array_equal(self.weights, other.weights)
            and np.array_equal(self.transitions, other.transitions)
        )

    __hash__ = None  # type: ignore[assignment]  # mutable: training writes into the weights

    def __repr__(self) -> str:
        return (
            f"<ChainModel: {len(self.labels)} labels, {len(self.keys)} predicates, "
            f"{self.n_features} weights>"
        )

    def _check(self) -> None:
        n_labels = len(self.labels)
        problem = None
        if len(set(self.labels)) != n_labels:
            problem = "a label occurs twice"
        elif self.keys.ndim != 1 or len(self.keys) > np.iinfo(np.int32).max:
            problem = "the keys are no vector of at most 2**31 - 1 keys"
        elif (self.keys[1:] <= self.keys[:-1]).any():
            problem = "the keys are not ascending and unique"
        elif self.weights.shape != (len(self.keys), n_labels):
            problem = f"weights of shape {self.weights.shape} for {len(self.keys)} keys"
        elif self.transitions.shape != (n_labels, n_labels):
            problem = f"transitions of shape {self.transitions.shape} for {n_labels} labels"
        elif np.isnan(self.transitions).any() or not np.isfinite(self.weights).all():
            problem = "a weight is not finite, or a transition is not a number"
        if problem:
            raise StructlearnError("SL206", problem=problem)
        _check_storage(self.storage)


def check_label_ids(
    label_ids: NDArray[np.integer], n_tokens: int, n_labels: int
) -> NDArray[np.int32]:
    """`label_ids` as contiguous int32, if there is one for each token in range (else SL207)."""
    label_ids = np.asarray(label_ids)
    problem = None
    if label_ids.shape != (n_tokens,):
        problem = f"shape {label_ids.shape}"
    elif label_ids.size and label_ids.dtype.kind not in "iu":
        problem = f"type {label_ids.dtype}"
    elif label_ids.size and not 0 <= label_ids.min() <= label_ids.max() < n_labels:
        problem = f"ids from {label_ids.min()} to {label_ids.max()}"
    if problem:
        raise StructlearnError("SL207", last=n_labels - 1, n_tokens=n_tokens, problem=problem)
    return np.ascontiguousarray(label_ids, dtype=np.int32)


def count_transitions(
    offsets: NDArray[np.int64], label_ids: NDArray[np.int32], n_labels: int
) -> NDArray[np.int64]:
    """int64 (n_labels, n_labels): how often the column's label follows the row's in a sentence."""
    first = np.zeros(len(label_ids), dtype=np.bool_)
    first[offsets[:-1][np.diff(offsets) > 0]] = True
    pairs = label_ids[:-1].astype(np.int64) * n_labels + label_ids[1:]
    counts = np.bincount(pairs[~first[1:]], minlength=n_labels * n_labels)
    return counts.reshape(n_labels, n_labels)


def _check_storage(storage: str) -> None:
    if storage not in _WEIGHT_DTYPES:
        wanted = "one of " + ", ".join(_WEIGHT_DTYPES)
        raise StructlearnError("SL209", name="The type of weights", wanted=wanted, value=storage)


def _bucket_starts(keys: NDArray[np.uint64]) -> NDArray[np.int32]:
    """First position of each value of the keys' upper bits, about as many values as keys."""
    bits = max(1, (len(keys) - 1).bit_length())
    upper = (keys >> np.uint64(64 - bits)).astype(np.int64)
    counts = np.bincount(upper, minlength=1 << bits)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
