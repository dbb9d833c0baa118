"""Export a fine-tuned encoder and its heads for the package, which needs no torch, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import spacy_structlearn
from spacy_structlearn.encoder.graph import LEVELS
from spacy_structlearn.encoder.pieces import WordPieces
from spacy_structlearn.encoder.scorer import Potentials, SiteScorer
from spacy_structlearn.encoder.session import Encoder
from spacy_structlearn.pipeline.token_encoder import TokenEncoder
from spacy_structlearn.pipeline.training.gold_sites import HEADS
from spacy_structlearn.pipeline.universal.tree_dependencies import ARCS
from training.encoder.network import Network, Shape, buckets

POSITIONS = 512


def exported(
    network: Network, pieces: WordPieces, *, quantized: bool = True, float16: bool = True
) -> Encoder:
    """Return the encoder of a network.

    quantized: pieces and matrices in int8. float16: the other tables and matrices.
    """
    encoder, shape = network.encoder, network.encoder.shape
    weights = {
        "pieces": _array(encoder.pieces.weight),
        "positions": _array(encoder.positions.weight)[shape.first :][:POSITIONS],
        "cases": _array(encoder.cases.weight),
        **_norm("norm", encoder.norm),
    }
    if encoder.relative is not None:
        # By the distance of a query from a key.
        n = len(weights["positions"])
        distances = torch.arange(1 - n, n)
        weights["relative"] = _array(encoder.relative(buckets(distances))).T
    for number, layer in enumerate(encoder.layers):
        for name in ("qkv", "out", "inner", "outer"):
            linear = getattr(layer, name)
            weights[f"{number}.{name}"] = _array(linear.weight).T
            weights[f"{number}.{name}.bias"] = _array(linear.bias)
        for name in ("norm1", "norm2"):
            weights |= _norm(f"{number}.{name}", getattr(layer, name))
    if quantized:
        for name in [name for name, array in weights.items() if _is_matrix(name, array)]:
            # A scale for each piece, and for each column of a matrix.
            matrix, axis, levels = weights[name], *((1, 127) if name == "pieces" else (0, LEVELS))
            scale = np.maximum(np.abs(matrix).max(axis=axis), 1e-9) / levels
            weights[f"{name}.scale"] = scale
            weights[name] = np.round(matrix / np.expand_dims(scale, axis)).astype(np.int8)
    for name, array in weights.items():
        if float16 and array.ndim == 2 and array.dtype != np.int8:
            weights[name] = array.astype(np.float16)
    weights = {name: np.ascontiguousarray(array) for name, array in weights.items()}
    special = [pieces.begin, pieces.end, pieces.unknown]
    return Encoder(pieces.pieces, special, weights, shape.layers, shape.heads, shape.epsilon)


def _is_matrix(name: str, array: NDArray[Any]) -> bool:
    return array.ndim == 2 and name not in ("positions", "cases", "relative")


def _array(tensor: torch.Tensor) -> NDArray[np.float32]:
    return tensor.detach().float().numpy()


def _norm(name: str, norm: Any) -> dict[str, NDArray[np.float32]]:
    return {f"{name}.gain": _array(norm.weight), f"{name}.offset": _array(norm.bias)}


def scorers(network: Network, labels: dict[str, list[str]]) -> dict[str, SiteScorer]:
    """Return the heads of a network."""
    found = {}
    for name, head in network.heads.items():
        slots, hidden = head.edges.shape
        matrix = _array(head.input.weight).reshape(slots, hidden, -1).transpose(0, 2, 1)
        # The bias is added to each slot, but not to the edges.
        bias = _array(head.input.bias).reshape(slots, hidden)
        found[name] = SiteScorer(
            labels[name],
            matrix,
            _array(head.edges) - bias,
            bias.sum(axis=0),
            _array(head.norm.weight),
            _array(head.norm.bias),
            _array(head.output.weight),
            _array(head.output.bias),
            storage="int8",
        )
    return found


def of_pipeline(path: Path) -> tuple[Network, dict[str, list[str]], WordPieces]:
    """Return the network of a pipeline with an encoder of BERT, its labels and its vocabulary.

    Heads that are learned after an encoder, those of arcs, are not among them.
    """
    nlp = spacy_structlearn.load(path)
    (encoder,) = (pipe.parameters for _, pipe in nlp.pipeline if isinstance(pipe, TokenEncoder))
    if "relative" in encoder.weights:
        raise SystemExit(f"{path} has an encoder with relative positions: train from its network")
    own: dict[str, SiteScorer] = {}
    for _, component in nlp.pipeline:
        own |= getattr(component, "potentials", Potentials()).scorers
    heads = {head: own[head] for head in HEADS if head in own and head != ARCS}
    state = {}
    for name, array in encoder.weights.items():
        if name.endswith(".scale"):
            continue
        scale = encoder.weights.get(f"{name}.scale", np.float32(1))
        table = (array.T * scale if name == "pieces" else array * scale).astype(np.float32)
        if name == "pieces" or _is_matrix(name, array):
            table = table.T
        layer = "layers." if name[0].isdigit() else ""
        for old, new in ((".gain", ".weight"), (".offset", ".bias")):
            name = name.replace(old, new)
        last = "" if name.endswith((".weight", ".bias")) else ".weight"
        state[f"encoder.{layer}{name}{last}"] = table
    for name, head in heads.items():
        bias = np.tile(head.shift / head.slots, (head.slots, 1))
        parts = {
            "input.weight": head.input.transpose(0, 2, 1).reshape(-1, head.width),
            "input.bias": bias.ravel(),
            "edges": head.edges + bias,
            "norm.weight": head.gain,
            "norm.bias": head.offset,
            "output.weight": head.output,
            "output.bias": head.bias,
        }
        state |= {f"heads.{name}.{part}": array for part, array in parts.items()}
    shape = Shape(
        *(len(encoder.pieces), encoder.width, encoder.layers, encoder.heads),
        positions=len(encoder.weights["positions"]),
        epsilon=encoder.epsilon,
        inner=encoder.weights["0.inner"].shape[1],
    )
    labels = {name: list(head.labels) for name, head in heads.items()}
    network = Network(shape, next(iter(heads.values())).input.shape[2], labels)
    network.load_state_dict({name: torch.tensor(array) for name, array in state.items()})
    return network, labels, WordPieces(encoder.pieces, *encoder.special)
