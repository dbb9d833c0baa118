"""Sentences with the sites and labels that the heads of an encoder learn.

A site is a row of token numbers, -1 where there is no token: see `spacy_structlearn.encoder`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from spacy_structlearn.arrays import cumulative
from spacy_structlearn.attachment.sites import sites
from spacy_structlearn.encoder.spans import JOIN
from spacy_structlearn.groups import NP_CHUNKS, PP_ATTACHMENTS
from spacy_structlearn.pipeline.doc_arrays import gold_trees
from spacy_structlearn.pipeline.extensions import site_spans
from spacy_structlearn.pipeline.extensions.brackets import sentences
from spacy_structlearn.pipeline.extensions.span_groups import set_spans, words_of
from spacy_structlearn.pipeline.training.gold_sites import HEADS, NONE, gold_sites
from spacy_structlearn.trees.chunks import base_noun_phrases

RARE = {"spans": 2}  # rarer labels are those of their topmost part


class Sentence(NamedTuple):
    """words: of the sentence. sites: of each head with gold labels, int16 (n, slots), and these."""

    words: list[str]
    sites: dict[str, tuple[NDArray[np.int16], Sequence[str]]]


def of_doc(doc: Doc) -> Iterator[Sentence]:
    """Yield the sentences of a Doc with trees; frames and tags are optional."""
    _complete(doc)
    own = [[doc[i].text for i in words_of(sentence)] for sentence in sentences(doc)]
    ends = cumulative(np.array(list(map(len, own)), dtype=np.int64))
    found: list[dict] = [{} for _ in own]
    for head, (rows, labels, *_) in gold_sites(doc).items():
        number = np.searchsorted(ends, rows.max(axis=1), "right") - 1
        bounds = np.searchsorted(number, np.arange(len(own) + 1)).tolist()
        for of, first, (begin, end) in zip(found, ends.tolist(), pairwise(bounds), strict=False):
            if begin < end:
                table = np.where(rows[begin:end] < 0, -1, rows[begin:end] - first)
                of[head] = table.astype(np.int16), labels[begin:end]
    yield from (Sentence(words, of) for words, of in zip(own, found, strict=True) if words)


def _complete(doc: Doc) -> None:
    """Add the chunks and attachments of the trees, if there are none."""
    if NP_CHUNKS in doc.spans and PP_ATTACHMENTS in doc.spans:
        return
    pairs = [(words_of(sentence), tree) for sentence, tree in gold_trees(doc, "")]
    chunks = [(at, "NP", *chunk) for at, tree in pairs for chunk in base_noun_phrases(tree)]
    attached = [(at, *span) for at, tree in pairs for span in site_spans(sites(tree))]
    for key, spans in ((NP_CHUNKS, chunks), (PP_ATTACHMENTS, attached)):
        if key not in doc.spans:
            set_spans(doc, key, [(label, at[i], at[j - 1] + 1) for at, label, i, j in spans])


def inventory(data: Iterable[Sentence]) -> dict[str, list[str]]:
    """Return the labels of each head; that of no site first, others by frequency."""
    counts: dict[str, Counter[str]] = {head: Counter() for head in HEADS}
    for sentence in data:
        for head, (_, labels) in sentence.sites.items():
            counts[head].update(labels)
    found = {}
    for head, own in counts.items():
        kept = [label for label, n in own.most_common() if label and n >= RARE.get(head, 1)]
        has_none = head in ("spans", "rolesets", "arguments", "arcs")
        found[head] = [NONE, *kept] if has_none else sorted(kept)
    return found


class Coder:
    """Turns labels into numbers. labels: of each head."""

    def __init__(self, labels: dict[str, list[str]]):
        self._numbers = {
            head: {label: i for i, label in enumerate(own)} for head, own in labels.items()
        }

    def numbers(self, head: str, labels: Sequence[str]) -> NDArray[np.int64]:
        """Return the numbers of labels; unknown chains are those of their topmost label."""
        known = self._numbers[head]
        found = [known.get(own, known.get(own.partition(JOIN)[0], 0)) for own in labels]
        return np.array(found, dtype=np.int64)
