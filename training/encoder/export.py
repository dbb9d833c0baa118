"""Export a fine-tuned encoder and its heads for the package, which needs no torch.

    python -m training.encoder.export training/work/teacher.pt --documents 3

This prints how much the vectors of some of EWT's tuning documents differ from those in torch, in
float and int8, and how many pieces are read in a second of CPU time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spacy_structlearn.encoder.graph import LEVELS
from spacy_structlearn.encoder.pieces import WordPieces
from spacy_structlearn.encoder.scorer import SiteScorer
from spacy_structlearn.encoder.session import Encoder
from training.common.command import options
from training.common.ewt import build_docs, read_docs
from training.encoder.examples import of_doc
from training.encoder.network import Network, _buckets, load

BATCHES = (1, 125, 250, 500, 1000)  # pieces

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
        weights["relative"] = _array(encoder.relative(_buckets(distances))).T
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


def compare(
    network: Network, pieces: WordPieces, sentences: Sequence[Sequence[str]]
) -> Iterator[dict[str, Any]]:
    """Yield differences from the vectors in torch, and pieces per CPU second."""
    network.eval()
    with torch.inference_mode():
        wanted = np.concatenate([network.vectors(pieces.batch([s])).numpy() for s in sentences])
    n = sum(len(pieces.word(word)[0]) for words in sentences for word in words)
    for quantized in (False, True):
        encoder = exported(network, pieces, quantized=quantized)
        found = np.concatenate(encoder.vectors(sentences))
        sizes = np.linalg.norm(found, axis=1) * np.linalg.norm(wanted, axis=1)
        cosine = (found * wanted).sum(axis=1) / sizes
        row = {
            "quantized": quantized,
            "mb": len(encoder.to_bytes()) / 1e6,
            "difference": float(np.abs(found - wanted).max()),
            "cosine": float(cosine.mean()),
            "least_cosine": float(cosine.min()),
        }
        for batch in BATCHES:
            start = process_time()
            encoder.vectors(sentences, batch_pieces=batch)
            row[f"pieces_per_cpu_s.{batch}"] = n / (process_time() - start)
        yield row


def main() -> None:
    parser = options(__doc__, "corpora", "work")
    parser.add_argument("network", type=Path)
    parser.add_argument("--documents", type=int, default=3, help="number of documents")
    args = parser.parse_args()
    torch.set_num_threads(1)
    network, _, pieces = load(args.network)
    docs = read_docs(build_docs(args.corpora, args.work)["tune"])[: args.documents]
    for row in compare(network, pieces, [s.words for doc in docs for s in of_doc(doc)]):
        print({key: round(value, 5) for key, value in row.items()}, flush=True)


if __name__ == "__main__":
    main()
