"""The most probable trees of the sentences of a Doc, for components that read several.

Like vectors, they are not part of the Doc: storing or copying it loses them. The trees of its spans
are then read instead.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from ...arrays import Coded, cumulative, ranges
from ...dependencies.arcs import likely
from ...groups import CONSTITUENT_CONSTRAINTS, CONSTITUENTS
from ...trees.nodes import Brackets
from ...trees.parse import Parse
from ...trees.tree import Tree
from ..doc_arrays import DocTrees, Tokens, coded_ids, ids_of_spans, read_tokens
from ..extensions.brackets import ROOT
from ..extensions.span_groups import aligned_group, scored_group, set_spans

Bracket = tuple[str, int, int, float]  # label, start, end, probability

CERTAIN = 0.995
"""Brackets with this probability are not lost when a tree is replaced."""

# By the first token of each sentence.
_TREES: WeakKeyDictionary[Doc, Mapping[int, list[Parse]]] = WeakKeyDictionary()


def set_alternatives(doc: Doc, trees: Mapping[int, list[Parse]]) -> None:
    """Keep the trees of the sentences of a Doc, by the first word of each, a token."""
    _TREES[doc] = trees


def is_given(doc: Doc, positions: Sequence[int], before: Tree, after: Tree) -> bool:
    """Whether a tree may not become another one: its sentence has constraints, or a bracket is lost
    that is certain, as those of constraints are. positions: the token of each word.
    """
    constraints = aligned_group(doc, CONSTITUENT_CONSTRAINTS) or ()
    if any(s.start <= positions[-1] and positions[0] < s.end for s in constraints):
        return True
    lost = {*before.spans()} - {*after.spans()}
    spans = (doc[positions[start] : positions[end - 1] + 1] for _, start, end in lost)
    return any((span._.constituent_prob or 0.0) >= CERTAIN for span in spans)


def replace_trees(doc: Doc, trees: Mapping[int, Sequence[Bracket]]) -> None:
    """Replace the trees of sentences, by the first word of each; their alternatives are forgotten.

    A bracket that was there before keeps its probability.
    """
    group, scores = scored_group(doc, CONSTITUENTS)
    rows = list(zip(ids_of_spans(group), [] if scores is None else scores.tolist(), strict=True))
    before = dict(rows)
    firsts = sorted(trees)
    ends = [0, *(max(end for _, _, end, _ in trees[first]) for first in firsts)]
    # Of each bracket the last tree that begins before it; sentences do not overlap.
    rows = [row for row in rows if row[0][2] > ends[bisect_right(firsts, row[0][1])]]
    for label, start, end, prob in chain.from_iterable(trees.values()):
        place = doc.vocab.strings.add(label), start, end
        rows.append((place, before.get(place, prob)))
    rows.sort(key=lambda row: (row[0][1], -row[0][2]))
    probs = np.array([prob for _, prob in rows], dtype=np.float32)
    set_spans(doc, CONSTITUENTS, [place for place, _ in rows], probs)
    doc.spans[CONSTITUENTS].attrs.update({**group.attrs, "scores": probs})
    _TREES[doc] = {key: own for key, own in _TREES.get(doc, {}).items() if key not in trees}


class SeveralTrees(NamedTuple):
    """One or several trees of each sentence of some Docs.

    rows: the words of the Docs. brackets: of all trees. origins, tree_ids: which word each word of
    a tree is, and its tree. weights: of the trees.
    """

    rows: Tokens
    brackets: Brackets
    origins: NDArray[np.int64]
    tree_ids: NDArray[np.int64]
    weights: NDArray[np.float64]


def several_trees(docs: Sequence[Doc]) -> SeveralTrees:
    """Return the trees of Docs: those that were kept or, where there are none, those of the spans.

    Their weights are those of `dependencies.arcs.likely`. A tree of the spans has the weight 1.
    """
    rows = read_tokens(docs, ["ORTH"], "")
    begins = rows.offsets[:-1]
    firsts = zip(rows.doc_ids[begins].tolist(), rows.positions[begins].tolist(), strict=True)
    beside = [_TREES.get(doc, {}) for doc in docs]
    trees = [
        (number, parse, weight)
        for number, (doc, first) in enumerate(firsts)
        for parse, weight in likely(beside[doc].get(first, ()))
    ]
    parses = [parse for _, parse, _ in trees]
    sizes = np.diff(rows.offsets)
    sentences = np.array([number for number, _, _ in trees], dtype=np.int64)
    without = np.setdiff1d(np.arange(len(sizes)), sentences)
    sentences = np.append(sentences, without)
    begins = cumulative(sizes[sentences])
    origins = ranges(rows.offsets[sentences], sizes[sentences])
    shifts = np.repeat(begins[: len(trees)], [len(parse.labels) for parse in parses])
    names = "starts", "ends", "labels", "tags"
    every = {name: [*chain.from_iterable(map(attrgetter(name), parses))] for name in names}
    starts, ends = (np.array(every[name], dtype=np.int64) + shifts for name in names[:2])
    labels, tags = every["labels"], every["tags"]
    words = coded_ids(docs, rows.columns[:, 0])
    if len(without):
        of_docs = np.repeat(np.arange(len(docs)), np.diff(rows.docs))
        wanted = np.unique(of_docs[without])  # only of Docs that have such sentences
        read = DocTrees([docs[i] for i in wanted.tolist()], whole=True)
        own, offsets = read.brackets, read.rows.offsets
        places = np.searchsorted(np.flatnonzero(np.isin(of_docs, wanted)), without)
        bounds = np.searchsorted(own.starts, offsets)
        counts = np.diff(bounds)[places]
        kept = ranges(bounds[places], counts)
        moved = np.repeat(begins[len(trees) : -1] - offsets[places], counts)
        starts = np.append(starts, own.starts[kept] + moved)
        ends = np.append(ends, own.ends[kept] + moved)
        labels += own.labels.at(kept)
        tags += own.tags.at(ranges(offsets[places], sizes[without]))
    brackets = Brackets(
        words.at(origins), Coded.of(tags), sizes[sentences], Coded.of(labels), starts, ends
    )
    tree_ids = np.repeat(np.arange(len(sentences)), sizes[sentences])
    weights = np.array([weight for *_, weight in trees] + [1.0] * len(without))
    return SeveralTrees(rows, brackets.rooted(ROOT), origins, tree_ids, weights)
