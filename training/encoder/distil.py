"""What a smaller network learns from a larger one: its scores, and a start from its own kind.

The targets of a student are the probabilities of a teacher, mixed with the labels (Hinton, Vinyals
& Dean 2015). A student starts from some layers of a network that is already fine-tuned (Sajjad et
al. 2023), with those units of each feed-forward network that contribute most to its output.

The upper layers are the ones to leave out. After two passes over 1,500 sentences, the loss of a
student with 1,024 of 1,536 units is 2.39 with the first four of six layers, 2.52 with the layers 0,
1, 2 and 5, and 2.26 with the first five; with the first three and all units it is 2.45.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from spacy_structlearn.arrays import cumulative
from spacy_structlearn.encoder.pieces import WordPieces
from training.encoder.examples import Sentence
from training.encoder.export import exported
from training.encoder.network import Network, load

SHARE = 0.8  # of the teacher in the targets
READ = 256  # sentences that the teacher reads at once
SAMPLE = 500  # sentences on which units are compared


class Teacher:
    """The scores of a network for sentences.

    path: of the network. labels: of the heads of the student. store: file of the vectors of the
    network, which are computed in int8 unless they are there.
    """

    def __init__(
        self, path: Path, labels: dict[str, list[str]], data: Sequence[Sentence], store: Path
    ):
        network, own, pieces = load(path)
        self.heads = network.heads.eval()
        for name, wanted in labels.items():
            output, known = self.heads[name].output, {x: i for i, x in enumerate(own[name])}
            # A label that the teacher does not know has no probability.
            rows = [known.get(label, len(known)) for label in wanted]
            weight = torch.cat([output.weight, torch.zeros(1, output.in_features)])
            output.weight = nn.Parameter(weight[rows])
            output.bias = nn.Parameter(torch.cat([output.bias, torch.tensor([-1e4])])[rows])
        width = network.encoder.shape.width
        self.ends = cumulative(np.array([len(sentence.words) for sentence in data]))
        if not store.exists():
            encoder, beside = exported(network, pieces), store.with_suffix(".part.npy")
            size = int(self.ends[-1]), width
            table = np.lib.format.open_memmap(beside, "w+", np.float16, size)
            bar = tqdm(total=len(table), desc="teacher", unit="words", mininterval=20, ascii=True)
            for first in range(0, len(data), READ):
                words = [sentence.words for sentence in data[first : first + READ]]
                found = np.concatenate(encoder.vectors(words, threads=torch.get_num_threads()))
                table[self.ends[first] :][: len(found)] = found
                bar.update(len(found))
            table.flush()
            beside.replace(store)
        self.vectors = np.load(store, mmap_mode="r")
        if self.vectors.shape != (self.ends[-1], width):
            raise SystemExit(f"{store} has the vectors of other sentences: delete it")

    def of(self, numbers: Sequence[int]) -> Tensor:
        """Return the vectors of the words of sentences, by their numbers."""
        found = [self.vectors[self.ends[i] : self.ends[i + 1]] for i in numbers]
        return torch.from_numpy(np.concatenate(found).astype(np.float32))

    def targets(self, head: str, vectors: Tensor, sites: Tensor, labels: Tensor) -> Tensor:
        """Return the probabilities that a head of the student learns for the sites."""
        with torch.inference_mode():
            found = self.heads[head](vectors, sites).softmax(dim=1).mul_(SHARE)
            found[torch.arange(len(labels)), labels] += 1 - SHARE
        return found.clone()


def narrow(
    network: Network,
    pieces: WordPieces,
    data: Sequence[Sentence],
    layers: Sequence[int],
    inner: int | None = None,
    hidden: int | None = None,
) -> None:
    """Keep some layers of a network, and some units of each feed-forward network and of each head.

    layers: their numbers. inner, hidden: the numbers of units that stay; None: all. They are those
    that add most to the output, in feed-forward networks by the mean size of their values in
    sentences of `data`.
    """
    encoder, sums = network.encoder, dict[nn.Linear, Tensor]()
    encoder.layers = nn.ModuleList(encoder.layers[number] for number in layers)

    def count(outer: nn.Linear, given: tuple[Tensor]) -> None:
        sums[outer] = sums.get(outer, torch.zeros(())) + given[0].abs().sum(dim=(0, 1))

    handles = [layer.outer.register_forward_pre_hook(count) for layer in encoder.layers]
    network.eval()
    with torch.no_grad():
        for number in np.random.default_rng(0).permutation(len(data))[:SAMPLE]:
            network.vectors(pieces.batch([data[number].words]))
        for layer, handle in zip(encoder.layers, handles, strict=True):
            handle.remove()
            added = sums[layer.outer] * layer.outer.weight.norm(dim=0)
            kept = _largest(added, inner)
            layer.inner.weight = nn.Parameter(layer.inner.weight[kept].clone())
            layer.inner.bias = nn.Parameter(layer.inner.bias[kept].clone())
            layer.outer.weight = nn.Parameter(layer.outer.weight[:, kept].clone())
        for head in network.heads.values():
            # The values of the units have the same size, before the gain.
            kept = _largest(head.norm.weight.abs() * head.output.weight.norm(dim=0), hidden)
            by_slot = head.input.weight.unflatten(0, (head.slots, -1))[:, kept]
            head.input.weight = nn.Parameter(by_slot.flatten(0, 1).clone())
            head.input.bias = nn.Parameter(head.input.bias.view(head.slots, -1)[:, kept].flatten())
            head.edges = nn.Parameter(head.edges[:, kept].clone())
            gain, offset = head.norm.weight[kept], head.norm.bias[kept]
            head.norm = nn.LayerNorm(len(kept))
            head.norm.load_state_dict({"weight": gain, "bias": offset})
            head.output.weight = nn.Parameter(head.output.weight[:, kept].clone())
    network.hidden, inner = len(kept), len(encoder.layers[0].inner.weight)
    encoder.shape = replace(encoder.shape, layers=len(layers), inner=inner)


def _largest(values: Tensor, number: int | None) -> Tensor:
    """Return the places of the largest values, ascending. None: all."""
    return values.topk(number or len(values)).indices.sort().values
