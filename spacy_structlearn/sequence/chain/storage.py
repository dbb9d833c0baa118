"""How a chain is stored: a bit for each weight that is not zero, the key of each predicate, and the
weights in the `storage` type of the model.

With a margin there are many labels, of which a predicate has weights for few: then, in place of the
bits, their number and their columns. Version 2 has no fields for closed vocabularies and local
normalisation, version 3 has them, and version 4 is that of models with a margin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...learning.annotations import fitting
from ...words.classes import WordClasses
from ..layout.data import AnyFloats, Mask, Symbols
from ..layout.features import Templates

if TYPE_CHECKING:
    from .model import ChainModel

VERSIONS = (2, 3, 4)
"""All versions that are read; the least one that has all that a model needs is written."""
_PLAIN, _FURTHER, _PRUNED = VERSIONS


def to_fields(model: ChainModel) -> tuple[int, dict[str, Any]]:
    """Return the version and the fields, see `Stored`."""
    present = model.weights != 0
    named = sorted(model.names)
    fields: dict[str, Any] = {
        "labels": model.labels,
        "templates": model.templates.texts,
        **_packed_keys(model, present),
        "weights": model.weights[present].astype(model.storage),
        "transitions": model.transitions,
        "in_memory": str(model.weights.dtype),
        "n_columns": model.weights.shape[1],
        "states": model.states,
        "unknown": None,  # weights of unknown predicates, which models had once
        "initial": model.initial,
        "final": model.final,
        "encoding": model.encoding,
        "named_keys": np.array(named, dtype=np.uint64),
        "names": [model.names[key] for key in named],
        "classes": model.classes,
    }
    further: dict[str, Any] = {
        "vocabularies": model.vocabularies,
        "locally_normalized": model.locally_normalized,
    }
    if model.margin is not None:
        return _PRUNED, fields | further
    return (_FURTHER, fields | further) if any(further.values()) else (_PLAIN, fields)


def _packed_keys(model: ChainModel, present: Mask) -> dict[str, Any]:
    """Return the fields that say which predicates and weights there are."""
    if model.margin is None:
        return {"keys": model.keys, "present": np.packbits(present, bitorder="little")}
    key_bits = model.templates.key_bits
    n_bytes = (key_bits + 7) // 8
    narrow = np.uint8 if present.shape[1] <= 256 else np.uint16
    return {
        "margin": model.margin,
        "key_bits": key_bits,
        "keys": model.keys.astype(">u8").view(np.uint8).reshape(-1, 8)[:, :n_bytes].copy(),
        "counts": np.count_nonzero(present, axis=1).astype(narrow),
        "columns": np.nonzero(present)[1].astype(narrow),
    }


def arguments(version: int, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of the model that was stored.

    Raises an error in `serialization.DAMAGE` if the fields are invalid.
    """
    if version == _PRUNED:
        fields = _unpacked(fields)
    return _arguments(**fitting(_arguments, fields))


def _arguments(
    *,
    templates: list[str],
    keys: Symbols,
    present: NDArray[np.uint8],
    weights: AnyFloats,
    in_memory: Literal["float32", "float64"],
    n_columns: int,
    named_keys: Symbols,
    names: list[str],
    classes: NDArray[np.uint8] | None,
    key_bits: int = 64,
    **others: Any,
) -> dict[str, Any]:
    """Return the arguments. others: those that are stored as they are."""
    if missing := {"states", "unknown", "initial", "final", "encoding"} - others.keys():
        raise ValueError(f"{min(missing)} is missing")
    if others.pop("unknown") is not None:
        raise ValueError("it has weights of unknown predicates")
    n_weights = len(keys) * n_columns
    if present.shape != ((n_weights + 7) // 8,):
        raise ValueError("its bit mask has the wrong length")
    mask = np.unpackbits(present, count=n_weights, bitorder="little").astype(np.bool_)
    if weights.shape != (np.count_nonzero(mask),):
        raise ValueError("its weights do not fit its bit mask")
    full = np.zeros(n_weights, dtype=in_memory)
    full[mask] = weights
    return others | {
        "templates": Templates(templates, key_bits),
        "keys": keys,
        "weights": full.reshape(len(keys), n_columns),
        "names": dict(zip(named_keys.tolist(), names, strict=True)),
        "classes": None if classes is None else WordClasses.from_bytes(classes),
        "storage": weights.dtype.name,
    }


def _unpacked(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a model with a margin with keys and bits like those of the others."""
    parts = fields["keys"], fields["counts"], fields["columns"]
    if any(part.dtype.kind != "u" for part in parts) or fields["keys"].ndim != 2:
        raise ValueError("its keys, or the places of its weights, have the wrong type")
    packed, counts, columns = parts
    if packed.dtype != np.uint8 or packed.shape[1] > 8 or counts.shape != (len(packed),):
        raise ValueError("its keys have the wrong shape")
    if columns.shape != (counts.sum(dtype=np.int64),):
        raise ValueError("its weights have not as many places as they are said to have")
    keys = np.zeros((len(packed), 8), dtype=np.uint8)
    keys[:, : packed.shape[1]] = packed
    n_columns, most = fields["n_columns"], max(len(fields["labels"]), len(fields["states"]))
    if type(n_columns) is not int or not columns.max(initial=0) < max(n_columns, 1) <= max(most, 1):
        raise ValueError("a weight is of no column")
    present = np.zeros((len(packed), n_columns), dtype=np.bool_)
    present[np.repeat(np.arange(len(packed)), counts), columns] = True
    return {
        **{name: value for name, value in fields.items() if name not in ("counts", "columns")},
        "keys": keys.view(">u8")[:, 0].astype(np.uint64),
        "present": np.packbits(present, bitorder="little"),
    }
