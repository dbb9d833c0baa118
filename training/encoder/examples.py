"""Sentences with the sites and labels that the heads of an encoder learn.

A site is a row of token numbers, -1 where there is no token: see `spacy_structlearn.encoder`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Span

from spacy_structlearn.attachment.sites import sites
from spacy_structlearn.encoder.spans import JOIN, place, span_sites
from spacy_structlearn.groups import SRL
from spacy_structlearn.pipeline.extensions.brackets import sentences, tree
from spacy_structlearn.pipeline.extensions.roles import frames
from spacy_structlearn.pipeline.training.gold_sites import NONE, UNKNOWN
from spacy_structlearn.trees.chunks import base_noun_phrases

# The heads, and the number of tokens of their sites.
HEADS = {"tags": 1, "chunks": 1, "rolesets": 1, "spans": 4, "arguments": 3, "attachments": 4}
RARE = {"spans": 2}  # rarer labels are those of their topmost part
RANDOM_SPANS = 30  # negative examples of arguments of each predicate, beyond the phrases


@dataclass
class Sentence:
    """words: of the sentence. labels: the gold label of each site by head; the spans are those of
    the tree, and all other spans have none."""

    words: list[str]
    labels: dict[str, dict[tuple[int, ...], str]] = field(default_factory=dict)


def span_site(start: int, end: int, length: int) -> tuple[int, int, int, int]:
    """Return the site of a span: the tokens before it, first, last, and after it."""
    return start - 1, start, end - 1, end if end < length else -1


def of_doc(doc: Doc) -> Iterator[Sentence]:
    """Yield the sentences of a Doc with trees; frames and tags are optional."""
    own = {frame.predicate.start: frame for frame in frames(doc)}
    for sent in sentences(doc):
        yield _of_sentence(sent, own if SRL in doc.spans else None)


def _of_sentence(sent: Span, own: dict[int, Any] | None) -> Sentence:
    top = tree(sent)
    places = {token.i: place for place, token in enumerate(t for t in sent if not t.is_space)}
    words, n = top.words(), len(top.words())
    chains: dict[tuple[int, int], list[str]] = {}
    for label, start, end in top.spans():
        chains.setdefault((start, end), []).append(label)
    chunks = ["O"] * n
    for start, end in base_noun_phrases(top):
        chunks[start:end] = ["B", *["I"] * (end - start - 1)]
    labels: dict[str, dict[tuple[int, ...], str]] = {
        "tags": {(i,): tag for i, tag in enumerate(top.tags())},
        "chunks": {(i,): chunk for i, chunk in enumerate(chunks)},
        "spans": {span_site(*span, n): JOIN.join(chain) for span, chain in chains.items()},
        "attachments": {site[:4]: site.label for site in sites(top)},
    }
    if own is not None:
        found = {places[i]: own[i] for i in places if i in own}
        labels["rolesets"] = {
            (i,): found[i].roleset or UNKNOWN if i in found else NONE for i in range(n)
        }
        arguments = labels["arguments"] = {}
        phrases = {*chains, *((i, i + 1) for i in range(n))}
        for i, frame in found.items():
            arguments |= {(i, start, end - 1): NONE for start, end in phrases}
            for argument in frame.arguments:
                inside = [places[t.i] for t in argument.span if t.i in places]
                if inside:
                    arguments[i, inside[0], inside[-1]] = argument.label
    return Sentence(words, labels)


def inventory(data: Iterable[Sentence]) -> dict[str, list[str]]:
    """Return the labels of each head; that of no site first, others by frequency."""
    counts: dict[str, Counter[str]] = {head: Counter() for head in HEADS}
    for sentence in data:
        for head, labels in sentence.labels.items():
            counts[head].update(labels.values())
    found = {}
    for head, own in counts.items():
        kept = [label for label, n in own.most_common() if label and n >= RARE.get(head, 1)]
        has_none = head in ("spans", "rolesets", "arguments")
        found[head] = [NONE, *kept] if has_none else sorted(kept)
    return found


class Coder:
    """Turns labels into numbers. labels: of each head."""

    def __init__(self, labels: dict[str, list[str]]):
        self.labels = labels
        self._numbers = {
            head: {label: i for i, label in enumerate(own)} for head, own in labels.items()
        }

    def number(self, head: str, label: str) -> int:
        """Return the number of a label; unknown chains are those of their topmost label."""
        own = self._numbers[head]
        return own.get(label, own.get(label.split(JOIN)[0], 0))

    def sites(
        self, sentence: Sentence, head: str, draw: np.random.Generator | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the sites (n, slots) and labels (n) of a head.

        Of spans all are sites. draw: adds random spans to the arguments.
        """
        own = sentence.labels[head]
        if head == "spans":
            table = span_sites([len(sentence.words)])
            labels = np.zeros(len(table), dtype=np.int64)
            n = len(sentence.words)
            for site, label in own.items():
                start, end = site[1], site[2] + 1
                labels[place(start, end, n)] = self.number(head, label)
            return table, labels
        table = np.array(list(own), dtype=np.int64).reshape(-1, HEADS[head])
        labels = np.array([self.number(head, label) for label in own.values()], dtype=np.int64)
        if head == "arguments" and draw is not None and len(own):
            predicates = np.repeat(np.unique(table[:, 0]), RANDOM_SPANS)
            bounds = np.sort(draw.integers(0, len(sentence.words), (len(predicates), 2)), axis=1)
            more = [s for s in map(tuple, np.c_[predicates, bounds].tolist()) if s not in own]
            table = np.concatenate([table, np.array(more, dtype=np.int64).reshape(-1, 3)])
            labels = np.concatenate([labels, np.zeros(len(more), dtype=np.int64)])
        return table, labels
