"""What gold and predicted Docs have of each layer, as items that are compared by characters, so
that the tokens and the sentences may differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Set
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Span
from spacy.training import Example

from ...evaluation.dependencies import compared_label
from ...evaluation.evalb import COLLINS
from ...evaluation.prf import letter_offsets, letters
from ...evaluation.srl import joined_arguments
from ...groups import CONSTITUENTS, NP_CHUNKS, PP_ATTACHMENTS, SRL
from ...roles.propositions import PREDICATE
from ..extensions import (
    constituent_tags,
    frames,
    pp_attachments,
    sentences,
)
from ..extensions.span_groups import scored_group

LAYERS = {
    "tag": "Tags",
    "sents": "Sentences",
    "constituents": "Phrases",
    "np_chunk": "Chunks",
    "pp_attachment": "PP attachments",
    "predicate": "Predicates",
    "srl": "Roles",
    "dep": "Dependencies",
}
"""The layers and their titles."""
Place = tuple[int, int]
Item = tuple[str, Place, Any]
"""A label, the characters of a span, and what else must be right: the pieces of an argument, or the
head of a word."""


class Sentence(NamedTuple):
    """A gold sentence, and the predicted tokens of its characters.

    gold_items, items: those of each layer that both Docs have.
    probabilities: of predicted items, in each layer that has any.
    phrases: the characters of the phrases and words of the predicted Doc; empty without trees.
    """

    gold: Span
    predicted: Span
    gold_items: dict[str, Counter[Item]]
    items: dict[str, Counter[Item]]
    probabilities: dict[str, list[tuple[Item, float]]]
    phrases: Set[Place]

    def counts(self, layer: str) -> tuple[int, int, int]:
        """Return the numbers of right, gold and predicted items."""
        gold, found = self.gold_items[layer], self.items[layer]
        return (gold & found).total(), gold.total(), found.total()

    @property
    def wrong(self) -> int:
        """The number of missing and extra items of all layers."""
        return sum(a + b - 2 * right for right, a, b in map(self.counts, self.items))


def by_sentence(examples: Iterable[Example]) -> Iterator[Sentence]:
    """Yield the gold sentences of examples whose Docs have the same text."""
    for example in examples:
        gold, doc = example.reference, example.predicted
        tags = constituent_tags(gold, range(len(gold)))
        kept = [
            tag not in COLLINS.deleted
            for token, tag in zip(gold, tags, strict=True)
            for _ in letters(token.text)
        ]
        wanted, given = _layers(gold, kept), _layers(doc, kept)
        starts, own = _offsets(gold), _offsets(doc)
        spans = [span for span in sentences(gold) if starts[span.start] < starts[span.end]]
        edges = np.array([starts[span.start] for span in spans])
        groups = [_divided(side, edges, wanted.keys() & given.keys()) for side in (wanted, given)]
        phrases = {(start, end) for _, start, end, _ in _spans(doc, CONSTITUENTS, own)}
        if phrases:
            phrases.update(pairwise(own))
        for span, before, after in zip(spans, *groups, strict=True):
            first, last = np.searchsorted(own, [starts[span.start], starts[span.end]], "right") - 1
            last += int(own[last] < starts[span.end])
            yield Sentence(
                span,
                doc[first:last],
                _counted(before),
                _counted(after),
                {n: p for n in after if (p := [(i, p) for i, p in after[n] if p is not None])},
                phrases,
            )


_Items = dict[str, list[tuple[Item, "float | None"]]]


def _divided(layers: _Items, edges: NDArray[np.int64], names: Iterable[str]) -> list[_Items]:
    """Divide the items of some layers by the sentence of their first character."""
    names = [name for name in LAYERS if name in names]
    groups: list[_Items] = [{name: [] for name in names} for _ in edges]
    for name in names:
        for pair in layers[name]:
            groups[int(np.searchsorted(edges, pair[0][1][0], "right")) - 1][name].append(pair)
    return groups


def _layers(doc: Doc, kept: list[bool]) -> _Items:
    """Read the layers that a Doc has. kept: whether each character counts in brackets."""
    offsets = _offsets(doc)
    words = [token for token in doc if offsets[token.i] < offsets[token.i + 1]]
    found: _Items = {}

    def at(span: Span | Iterable[int]) -> Place:
        start, end = (span.start, span.end) if isinstance(span, Span) else span
        return offsets[start], offsets[end]

    def word(i: int) -> Place:
        return at((i, i + 1))

    if doc.has_annotation("TAG"):
        found["tag"] = [((token.tag_, word(token.i), ""), None) for token in words]
    if doc.has_annotation("SENT_START"):
        found["sents"] = [(("sentence", at(span), ""), None) for span in doc.sents]
    if doc.has_annotation("DEP"):
        found["dep"] = [
            ((compared_label(token.dep_), word(token.i), word(token.head.i)), None)
            for token in words
        ]
    if CONSTITUENTS in doc.spans:
        places = [i for i, keeps in enumerate(kept) if keeps]
        before = [0, *accumulate(kept)]
        found["constituents"] = [
            ((label, (places[before[start]], places[before[end] - 1] + 1), ""), p)
            for name, start, end, p in _spans(doc, CONSTITUENTS, offsets)
            if before[start] < before[end] and (label := COLLINS.bracket_label(name)) is not None
        ]
    if NP_CHUNKS in doc.spans:
        chunks = _spans(doc, NP_CHUNKS, offsets)
        found["np_chunk"] = [((label, (a, b), ""), p) for label, a, b, p in chunks]
    if PP_ATTACHMENTS in doc.spans:
        sites = pp_attachments(doc)
        found["pp_attachment"] = [((a.label, word(a.prep.i), ""), a.prob) for a in sites]
    if SRL in doc.spans:
        found |= {"predicate": [], "srl": []}
        for frame in frames(doc):
            place = word(frame.predicate.start)
            found["predicate"].append((("predicate", place, ""), frame.prob))
            spans = [(a.label, a.span.start, a.span.end) for a in frame.arguments]
            known = {span: a.prob for span, a in zip(spans, frame.arguments, strict=True)}
            for label, pieces in joined_arguments(spans):
                if label != PREDICATE:
                    p = known.get((label, *pieces[0])) if len(pieces) == 1 else None
                    found["srl"].append(((label, place, tuple(map(at, pieces))), p))
    return found


def _counted(layers: _Items) -> dict[str, Counter[Item]]:
    return {name: Counter(item for item, _ in pairs) for name, pairs in layers.items()}


def _spans(doc: Doc, key: str, offsets: list[int]) -> Iterator[tuple[str, int, int, float | None]]:
    """Yield the spans of a group that have characters, with their probabilities."""
    group, scores = scored_group(doc, key)
    probabilities = [None] * len(group) if scores is None else scores.tolist()
    for span, p in zip(group, probabilities, strict=True):
        if offsets[span.start] < offsets[span.end]:
            yield span.label_, offsets[span.start], offsets[span.end], p


def _offsets(doc: Doc) -> list[int]:
    return letter_offsets(token.text for token in doc)
