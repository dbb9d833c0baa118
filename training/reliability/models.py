"""Fuzz stored models by changing fields and correcting checksums.

Loaded components predict, and their predictions must be valid. What is loaded is stored and loaded
again, and must have the same bytes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import srsly

from spacy_structlearn import serialization
from training.reliability.mutations import CHANGES, Choices, changed, mapped
from training.reliability.texts import check_spans

ARRAY = serialization.ARRAY_TAG
HEADER = len(serialization.MAGIC) + serialization.DIGEST_SIZE


class Packed(dict):
    """Unpacked data of `serialization.pack`: kind, version and fields, which can be nested."""


# --- bytes ----------------------------------------------------------------------------------------
def unpacked(data: bytes) -> Packed:
    """Unpack data like `serialization.unpack`, recursively and without checks."""
    return Packed(_read(srsly.msgpack_loads(data[HEADER:], use_list=True)))


def _read(value: Any) -> Any:
    if isinstance(value, dict) and ARRAY in value:
        array = np.frombuffer(value["data"], value[ARRAY]).reshape(value["shape"])
        data = array.tobytes() if array.dtype == np.uint8 else b""
        return unpacked(data) if data.startswith(serialization.MAGIC) else array.copy()
    return mapped(_read, value)


def packed(value: Packed, choices: Choices) -> bytes:
    """Pack data with correct checksums, sometimes with a wrong byte or shape."""
    payload = bytearray(srsly.msgpack_dumps(_written(dict(value), choices)))
    if choices.one_in(16) and payload:
        payload[choices.below(len(payload))] = choices.byte()
    if choices.one_in(64):
        del payload[choices.below(len(payload)) :]
    return serialization.MAGIC + serialization._digest(bytes(payload)) + bytes(payload)


def _written(value: Any, choices: Choices) -> Any:
    if isinstance(value, Packed):
        return _written(np.frombuffer(packed(value, choices), np.uint8), choices)
    if isinstance(value, np.ndarray):
        shape = list(value.shape)
        if choices.one_in(128):
            shape = changed([*shape, 1], choices)
        dtype = value.dtype.newbyteorder("<")
        return {ARRAY: dtype.str, "data": value.astype(dtype).tobytes(), "shape": shape}
    if isinstance(value, np.generic):
        return value.item()
    return mapped(partial(_written, choices=choices), value)


def mutated(data: bytes, choices: Choices) -> bytes:
    """Change some values of packed data. Return b"" if msgpack cannot pack them."""
    fresh: Any = unpacked(data)
    for _ in range(choices.one_of(CHANGES)):
        # The kind and the version are the first check.
        if choices.one_in(32) or not isinstance(fresh, dict) or "fields" not in fresh:
            fresh = changed(fresh, choices, stored=True)
        else:
            fields = changed(fresh["fields"], choices, stored=True)
            fresh = Packed({**fresh, "fields": fields})
    try:
        return packed(fresh, choices)
    except (ValueError, TypeError, OverflowError):  # such as integers of more than 64 bits
        return b""


# --- targets --------------------------------------------------------------------------------------
class Loader:
    """A target: the models of a component. What is loaded annotates a Doc.

    docs: with the annotation that the component reads.
    """

    def __init__(self, component: Any, docs: list):
        self.component, self.docs = component, docs
        attributes = srsly.msgpack_loads(component.model.to_bytes())["attrs"]
        self.places = [
            (node, name, value)
            for node, values in zip(component.model.walk(), attributes, strict=True)
            for name, value in values.items()
            if isinstance(value, bytes) and value.startswith(serialization.MAGIC)
        ]

    def __call__(self, choices: Choices) -> None:
        node, name, value = choices.one_of(self.places)
        component, kept = self.component, node.attrs[name]
        loaded = type(kept).from_bytes(mutated(value, choices))
        again = loaded.to_bytes()
        if type(loaded).from_bytes(again).to_bytes() != again:
            raise AssertionError("other bytes after from_bytes and to_bytes")
        node.attrs[name] = loaded
        try:
            component._loaded("fuzz", ())
            if choices.one_in(4):
                doc = choices.one_of(self.docs).copy()
                check_spans(component(doc))
                for method in ("k_best", "n_best"):
                    if choices.one_in(4) and hasattr(component, method):
                        getattr(component, method)(doc, 1 + choices.below(4))
        finally:
            node.attrs[name] = kept
