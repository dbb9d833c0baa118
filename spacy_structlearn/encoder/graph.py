"""The computation of an encoder as an ONNX graph: BERT (Devlin et al. 2019) and MPNet (Song et al.
2020).

Only the weights are stored, and the graph is written from them: a model file cannot bring operators
or files of its own. Matrices of int8 have a scale for each column, and their values are at most
`LEVELS`, so that pairs of products fit into 16 bits, in which some processors add them. What they
are multiplied with is rounded to 8 bits, with a unit for each piece, so that the vectors of a
sentence are the same in every batch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEVELS = 63  # of matrices, on each side of zero
SCALED = ("pieces", "qkv", "out", "inner", "outer")  # may be int8
_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7}  # of ONNX
_MICROSOFT = "com.microsoft"
# The zero of rounded values: of values about symmetric, and of those of Gelu, at least -0.17.
_MIDDLE, _LOW, _LEAST_GELU = 128, 20, -0.17

Weights = Mapping[str, NDArray[Any]]


def shapes(
    pieces: int, cases: int, width: int, layers: int, positions: int, inner: int
) -> dict[str, tuple]:
    """Return the shapes of the weights of an encoder.

    inner: the width of its feed-forward networks.
    Matrices of int8, and pieces of int8, also have "NAME.scale": of each column, of each piece.
    Optional: "relative", (heads, 2 * positions - 1), added to the attention by distance.
    """
    rows, norms = {"pieces": pieces, "positions": positions, "cases": cases}, ["norm"]
    found: dict[str, tuple] = {name: (n, width) for name, n in rows.items()}
    for layer in range(layers):
        norms += f"{layer}.norm1", f"{layer}.norm2"
        sizes = {"qkv": (width, 3 * width), "out": (width, width)}
        sizes |= {"inner": (width, inner), "outer": (inner, width)}
        for name, size in sizes.items():
            found[f"{layer}.{name}"], found[f"{layer}.{name}.bias"] = size, size[1:]
    return found | {f"{norm}.{part}": (width,) for norm in norms for part in ("gain", "offset")}


def onnx(weights: Weights, layers: int, heads: int, epsilon: float) -> bytes:
    """Return the model of ONNX from "pieces", "cases" (int64 (sentences, length)), "lengths" (int32
    (sentences)), "places" (int64 (length)), "rows" (int64 (rows)) and, with relative positions,
    "distances" (int64 (length, length)) to "vectors", float32 (rows, width). rows: the pieces whose
    vectors are wanted, of sentences * length. The last layer computes no others.
    """
    graph = _Graph(weights, epsilon)
    add, last = graph.add, graph.constant([-1], np.int64)
    x = add("Gather", "pieces:weights", "pieces")
    if "pieces.scale" in weights:  # of int8
        scale = add("Unsqueeze", add("Gather", "pieces.scale:weights", "pieces"), last)
        x = add("Mul", add("Cast", x, to=1), scale)
    x = add("Add", x, add("Gather", "positions:weights", "places"))
    x = graph.norm("norm", x, add("Gather", "cases:weights", "cases"))
    bias = ""
    inputs = {"pieces": "ST", "cases": "ST", "places": "T", "lengths": "S", "rows": "R"}
    if "relative" in weights:
        inputs["distances"] = "TT"
        bias = add("Gather", "relative:weights", "distances", axis=1)
        bias = add("Unsqueeze", bias, graph.constant([0], np.int64))
    by_piece = graph.constant([-1, weights["positions"].shape[1]], np.int64)
    by_sentence = add("Concat", add("Shape", "pieces"), last, axis=0)
    x = add("Reshape", x, by_piece)
    for layer in range(layers):
        qkv = add("Reshape", graph.product(f"{layer}.qkv", x), by_sentence)
        parts = add("Split", qkv, outputs=3, axis=-1, num_outputs=3)
        own: dict[str, Any] = {"domain": _MICROSOFT, "num_heads": heads}
        found = add("MultiHeadAttention", *parts, "", "lengths", bias, **own)
        found = add("Reshape", found, by_piece)
        if layer == layers - 1:
            found, x = (add("Gather", values, "rows") for values in (found, x))
        found = graph.product(f"{layer}.out", found)
        x = graph.norm(f"{layer}.norm1", found, x)
        inner = add("Gelu", graph.product(f"{layer}.inner", x), domain=_MICROSOFT)
        x = graph.norm(f"{layer}.norm2", graph.product(f"{layer}.outer", inner, zero=_LOW), x)
    return graph.model(inputs, x)


class _Graph:
    """A graph that is written. A value is given by its name; "NAME:weights" are weights."""

    def __init__(self, weights: Weights, epsilon: float):
        self._weights, self._epsilon = weights, float(epsilon)
        self._nodes: list[bytes] = []
        self._tensors: dict[str, bytes] = {}

    def constant(self, value: Any, kind: Any = np.float32, name: str = "") -> str:
        """Add a constant."""
        array = np.ascontiguousarray(value, dtype=kind)
        name = name or f"constant {array.dtype} {value}"
        about = [(2, _TYPES[str(array.dtype)]), (8, name), (9, array.tobytes())]
        self._tensors[name] = _message([*((1, size) for size in np.shape(value)), *about])
        return name

    def add(
        self, operator: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any
    ) -> Any:
        """Add a node, and return the name of its output, or the names of its outputs."""
        for name in inputs:
            if name.endswith(":weights") and name not in self._tensors:
                scaled = name.replace(":weights", ".scale") in self._weights
                array = self._weights[name.removesuffix(":weights")]
                self.constant(array, np.int8 if scaled else np.float32, name)
        names = [f"value {len(self._nodes)} {number}" for number in range(outputs)]
        edges = [*((1, name) for name in inputs), *((2, name) for name in names)]
        given = []
        for key, value in attributes.items():
            field, kind = (2, 1) if isinstance(value, float) else (3, 2)
            given.append((5, _message([(1, key), (field, value), (20, kind)])))
        self._nodes.append(_message([*edges, (4, operator), *given, (7, domain)]))
        return names[0] if outputs == 1 else names

    def norm(self, name: str, x: str, y: str) -> str:
        """Add the layer norm of a sum."""
        parts = f"{name}.gain:weights", f"{name}.offset:weights"
        total = self.add("Add", x, y)
        return self.add("LayerNormalization", total, *parts, axis=-1, epsilon=self._epsilon)

    def product(self, name: str, x: str, zero: int = _MIDDLE) -> str:
        """Add the product of x, of two dimensions, with a matrix, and its bias.

        zero: what the zero of x is rounded to.
        """
        add, constant, matrix = self.add, self.constant, f"{name}:weights"
        scale, bias = f"{name}.scale", f"{name}.bias:weights"
        if scale not in self._weights:
            return add("Add", add("MatMul", x, matrix), bias)
        last, least = constant([-1], np.int64), 1e-9 if zero == _MIDDLE else -_LEAST_GELU / zero
        size = add("ReduceMax", add("Abs", x) if zero == _MIDDLE else x, last, keepdims=1)
        unit = add("Max", add("Mul", size, constant(1 / (255 - zero))), constant(least))
        row, zeros = add("Reshape", unit, last), constant(zero, np.uint8)
        levels = add("QuantizeLinear", x, row, add("Expand", zeros, add("Shape", row)), axis=0)
        given = levels, matrix, constant(1.0), f"{scale}:weights", zeros
        found = add("MatMulIntegerToFloat", *given, domain=_MICROSOFT)
        return add("Add", add("Mul", found, unit), bias)

    def model(self, inputs: Mapping[str, str], output: str) -> bytes:
        """Return the model. inputs: names of their sizes. output: is named "vectors"."""
        self._nodes.append(_message([(1, output), (2, "vectors"), (4, "Identity")]))
        values = [(11, name, 6 if name == "lengths" else 7, own) for name, own in inputs.items()]
        parts: list[tuple[int, Any]] = [(1, node) for node in self._nodes]
        parts += [(2, "encoder"), *((5, tensor) for tensor in self._tensors.values())]
        for field, name, kind, sizes in (*values, (12, "vectors", 1, "RW")):
            shape = _message((1, _message([(2, size)])) for size in sizes)
            tensor = _message([(1, _message([(1, kind), (2, shape)]))])
            parts.append((field, _message([(1, name), (2, tensor)])))
        used = [(8, _message([(1, name), (2, n)])) for name, n in (("", 18), (_MICROSOFT, 1))]
        return _message([(1, 8), (7, _message(parts)), *used])


def _message(fields: Iterable[tuple[int, Any]]) -> bytes:
    """Write a message of Protocol Buffers: integers, floats of 32 bits, texts and messages."""
    parts: list[bytes] = []
    for number, value in fields:
        if isinstance(value, int):
            parts += _varint(number << 3), _varint(value % 2**64)
        elif isinstance(value, float):
            parts += _varint(number << 3 | 5), struct.pack("<f", value)
        else:
            data = value.encode() if isinstance(value, str) else value
            parts += _varint(number << 3 | 2), _varint(len(data)), data
    return b"".join(parts)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
