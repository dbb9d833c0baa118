"""Encoders and heads in torch: BERT (Devlin et al. 2019) and MPNet (Song et al. 2020)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from spacy_structlearn.encoder.pieces import N_CASES, Batch, WordPieces
from spacy_structlearn.pipeline.training.gold_sites import HEADS

DROPOUT = 0.1
HEAD_DROPOUT = 0.2
MASKS = 2**22  # elements of the pool of masks
BUCKETS, FURTHEST = 32, 128  # of relative positions


@dataclass(frozen=True)
class Shape:
    """The shape of an encoder. first: the first position. relative: has biases of relative
    positions. inner: the width of the feed-forward networks, 0 for four times the width."""

    pieces: int
    width: int
    layers: int
    heads: int = 12
    positions: int = 512
    first: int = 0
    relative: bool = False
    epsilon: float = 1e-12
    inner: int = 0


class Dropout(nn.Module):
    """Dropout whose masks are slices of a pool: drawing each anew would take a third of the time
    of training on a CPU."""

    def __init__(self, rate: float):
        super().__init__()
        self.rate = rate
        self.pool = torch.empty(0)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        size = x.numel()
        if len(self.pool) < 2 * size or torch.rand(()) < 1e-3:
            kept = torch.rand(max(MASKS, 4 * size)) >= self.rate
            self.pool = kept.to(torch.bfloat16) / (1.0 - self.rate)
        start = int(torch.randint(len(self.pool) - size, ()))
        return x * self.pool[start : start + size].view(x.shape).to(x.dtype)


class Layer(nn.Module):
    """Attention and feed-forward network, each with a residual and a norm."""

    def __init__(self, shape: Shape):
        super().__init__()
        width, inner = shape.width, shape.inner or 4 * shape.width
        self.heads = shape.heads
        self.dropout = Dropout(DROPOUT)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner, self.outer = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norm1 = nn.LayerNorm(width, eps=shape.epsilon)
        self.norm2 = nn.LayerNorm(width, eps=shape.epsilon)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            self.qkv(x)
            .view(batch, length, 3, self.heads, width // self.heads)
            .permute(2, 0, 3, 1, 4)
        )
        # On a CPU, the gradient of the attention of torch takes four times as long.
        found = ((q @ k.mT) * k.shape[-1] ** -0.5 + bias).softmax(dim=-1).to(v.dtype) @ v
        found = found.transpose(1, 2).reshape(batch, length, width)
        x = self.norm1(x + self.dropout(self.out(found)))
        found = self.outer(functional.gelu(self.inner(x)))
        return self.norm2(x + self.dropout(found))


class Encoder(nn.Module):
    """Vectors of pieces, from their numbers, cases and positions."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.pieces = nn.Embedding(shape.pieces, shape.width)
        self.positions = nn.Embedding(shape.positions, shape.width)
        self.cases = nn.Embedding(N_CASES, shape.width)
        nn.init.zeros_(self.cases.weight)
        self.relative = nn.Embedding(BUCKETS, shape.heads) if shape.relative else None
        self.norm = nn.LayerNorm(shape.width, eps=shape.epsilon)
        self.dropout = Dropout(DROPOUT)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))

    def forward(self, pieces: Tensor, cases: Tensor, lengths: Tensor) -> Tensor:
        """Return float (batch, length, width). pieces, cases: int (batch, length)."""
        places = torch.arange(pieces.shape[1], device=pieces.device)
        x = self.pieces(pieces) + self.positions(places + self.shape.first) + self.cases(cases)
        x = self.dropout(self.norm(x))
        # Pieces behind the end of a sentence are not read.
        bias = torch.where(places[None] < lengths[:, None], 0.0, -1e4)[:, None, None, :]
        if self.relative is not None:
            distance = places[:, None] - places[None]
            bias = bias + self.relative(buckets(distance)).permute(2, 0, 1)[None]
        if torch.is_autocast_enabled("cpu"):
            bias = bias.bfloat16()
        for layer in self.layers:
            x = layer(x, bias)
        return x


def buckets(distance: Tensor) -> Tensor:
    """Return the bucket of each distance: exact up to 8, then by logarithm (Raffel et al. 2020)."""
    half, exact = BUCKETS // 2, BUCKETS // 4
    size = distance.abs()
    ratio = torch.log(size.clamp(min=1) / exact) / math.log(FURTHEST / exact)
    far = (exact + (ratio * (half - exact)).long()).clamp(max=half - 1)
    return (distance < 0).long() * half + torch.where(size < exact, size, far)


class Scorer(nn.Module):
    """Scores of the labels of sites, as `spacy_structlearn.encoder.scorer.SiteScorer`."""

    def __init__(self, width: int, slots: int, hidden: int, labels: int):
        super().__init__()
        self.slots = slots
        self.dropout = Dropout(HEAD_DROPOUT)
        self.input = nn.Linear(width, slots * hidden)
        self.edges = nn.Parameter(torch.zeros(slots, hidden))
        self.norm = nn.LayerNorm(hidden)
        self.output = nn.Linear(hidden, labels)

    def forward(self, vectors: Tensor, sites: Tensor) -> Tensor:
        """Return (n_sites, n_labels). vectors: (tokens, width). sites: (n_sites, slots), the
        number of tokens stands for no token."""
        parts = self.input(self.dropout(vectors)).float()
        parts = parts.view(len(vectors), self.slots, -1)
        parts = torch.cat([parts, self.edges[None]])
        found = sum(parts[:, slot].index_select(0, sites[:, slot]) for slot in range(self.slots))
        found = functional.relu(self.norm(found))
        return self.output(self.dropout(found)).float()


class Network(nn.Module):
    """An encoder with a head for each kind of labels."""

    def __init__(self, shape: Shape, hidden: int, labels: Mapping[str, Sequence[str]]):
        super().__init__()
        self.encoder, self.hidden = Encoder(shape), hidden
        self.heads = nn.ModuleDict(
            {
                name: Scorer(shape.width, HEADS[name], hidden, len(own))
                for name, own in labels.items()
            }
        )

    def vectors(self, batch: Batch) -> Tensor:
        """Return the vectors of the tokens of a batch, float32 (tokens, width).

        The first half is that of the last piece of a token, the second of its first piece: the
        halves that look back and forward in Kitaev & Klein (2018).
        """
        x = self.encoder(*map(torch.from_numpy, batch[:3])).float().flatten(0, 1)
        half = x.shape[1] // 2
        lasts, firsts = torch.from_numpy(batch.lasts), torch.from_numpy(batch.firsts)
        return torch.cat([x[lasts, :half], x[firsts, half:]], dim=1)


def save(network: Network, labels: dict[str, list[str]], pieces: WordPieces, path: Path) -> None:
    """Save a network with its shape, labels and vocabulary."""
    state = {
        "shape": asdict(network.encoder.shape),
        "hidden": network.hidden,
        "labels": labels,
        "pieces": pieces.pieces,
        "special": [pieces.begin, pieces.end, pieces.unknown],
        "weights": network.state_dict(),
    }
    beside = path.with_suffix(".part")
    torch.save(state, beside)
    beside.replace(path)


def load(path: Path) -> tuple[Network, dict[str, list[str]], WordPieces]:
    """Load a network, its labels and its vocabulary."""
    state = torch.load(path, weights_only=True)
    network = Network(Shape(**state["shape"]), state["hidden"], state["labels"])
    network.load_state_dict(state["weights"])
    return network, state["labels"], WordPieces(state["pieces"], *state["special"])
