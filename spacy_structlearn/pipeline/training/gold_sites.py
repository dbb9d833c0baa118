"""The sites of gold Docs and their labels, from which site scorers learn (`encoder.training`).

"tags", "chunks" and "rolesets" have a site for each token, "spans" for all spans of a sentence with
a tree, "arguments" (predicate, first, last) for the phrases and words of the sentence of a
predicate, "attachments" (v, n1, p, n2) for prepositional phrases, "arcs" (dependent, head to the
left, head to the right) for the possible arcs of trees. White space does not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from spacy.tokens import Doc, Span, Token
from spacy.training import Example

from ...arrays import cumulative
from ...attachment.sites import NOUN, VERB
from ...dependencies.choosing import gold_arcs
from ...dependencies.phrases import PhraseTrees
from ...encoder.spans import JOIN, span_sites
from ...encoder.training import SiteExamples
from ...groups import CONSTITUENTS, NP_CHUNKS, SRL
from ...trees.nodes import Brackets
from ...trees.tree import Tree
from ..doc_arrays import gold_trees, has_gold_tokens, read_tokens, read_vectors
from ..extensions.chunks import pp_attachments
from ..extensions.roles import frames
from ..extensions.span_groups import words_of

if TYPE_CHECKING:
    from .batch_trainable import BatchTrainable

# The heads of an encoder, and the number of tokens of their sites.
HEADS = {"tags": 1, "chunks": 1, "rolesets": 1, "spans": 4, "arguments": 3, "attachments": 4}
HEADS |= {"arcs": 3}
NONE = ""  # the label of no phrase, no predicate, no argument and no arc
UNKNOWN = "?"  # the roleset of a predicate whose roleset is not known

Labelled = dict[tuple[int, ...], str]


def site_examples(component: BatchTrainable, example: Example) -> dict[str, SiteExamples]:
    """Return the sites of each head of a component for which there is gold annotation.

    Empty if the predicted Doc has other tokens than the reference. Raises StructlearnError if it
    has no vectors.
    """
    if not has_gold_tokens(example):
        return {}
    found = gold_sites(example.reference, component.heads, component.key, component.name)
    if found:
        own, name = [example.predicted], component.name
        vectors = read_vectors(own, read_tokens(own, ["ORTH"], name), name, component.site_scorers)
        found = {head: own._replace(vectors=vectors) for head, own in found.items()}
    return found


def gold_sites(
    doc: Doc, heads: Iterable[str] = HEADS, chunks: str = NP_CHUNKS, component: str = ""
) -> dict[str, SiteExamples]:
    """Return the sites of each head for which a Doc has gold annotation, without vectors.

    The sites of one sentence follow those of another. chunks: the key of their span group.
    component: its name, for messages.
    """
    gold, found = _Gold(doc, chunks, component), {}
    for head in heads:
        labels: Labelled = getattr(gold, head)()
        if labels:
            lengths = [len(tree.words()) for _, tree in gold.trees] if head == "spans" else ()
            found[head] = SiteExamples(np.array(list(labels)), list(labels.values()), lengths)
    return found


def gold_words(pairs: Iterable[tuple[Span, Any]], doc: Doc) -> tuple[list[Token], list[int]]:
    """Return the words of sentences of a Doc, and the number of the head of each, -1 if it has no
    gold head among them."""
    words = [doc[i] for sentence, _ in pairs for i in words_of(sentence)]
    places = {token.i: place for place, token in enumerate(words)}
    return words, [places.get(token.head.i, -1) if token.dep else -1 for token in words]


class _Gold:
    """The labels of the sites of a Doc; a method for each head."""

    def __init__(self, doc: Doc, chunks: str, component: str):
        self.doc, self.key, self.component = doc, chunks, component
        # The number of words before each token, and of all.
        is_word = np.array([not token.is_space for token in doc], dtype=np.int64)
        self.places: list[int] = cumulative(is_word).tolist()
        self.words: list[tuple[int, ...]] = [(i,) for i in range(self.places[-1])]

    @cached_property
    def trees(self) -> list[tuple[Span, Tree]]:
        return gold_trees(self.doc, self.component) if CONSTITUENTS in self.doc.spans else []

    def tags(self) -> Labelled:
        return {(self.places[t.i],): t.tag_ for t in self.doc if t.tag_ and not t.is_space}

    def chunks(self) -> Labelled:
        if self.key not in self.doc.spans:
            return {}
        labels: Labelled = dict.fromkeys(self.words, "O")
        for span in self.doc.spans[self.key]:
            start, end = self.places[span.start], self.places[span.end]
            labels |= {(i,): "I" if i > start else "B" for i in range(start, end)}
        return labels

    def attachments(self) -> Labelled:
        return {
            tuple(self.places[token.i] for token in heads): label
            for _, label, *heads, _ in pp_attachments(self.doc)
            if label in (NOUN, VERB)
        }

    def arcs(self) -> Labelled:
        """Subtypes of labels are left out."""
        if not self.trees or not self.doc.has_annotation("DEP"):
            return {}
        words, heads = gold_words(self.trees, self.doc)
        phrases = PhraseTrees(Brackets.of(tree for _, tree in self.trees))
        sites, right = gold_arcs(phrases, np.array(heads))
        labels = [t.dep_.partition(":")[0] or t.dep_ for t in words]
        found = [labels[i] if r else NONE for i, r in zip(sites[:, 0], right, strict=True)]
        numbers = np.array([*(self.places[token.i] for token in words), -1])
        return dict(zip(map(tuple, numbers[sites].tolist()), found, strict=True))

    def rolesets(self) -> Labelled:
        if SRL not in self.doc.spans:
            return {}
        own = {(self.places[f.predicate.start],): f.roleset or UNKNOWN for f in frames(self.doc)}
        return dict.fromkeys(self.words, NONE) | own

    def arguments(self) -> Labelled:
        labels: Labelled = {}
        own = frames(self.doc)
        for sentence, tree in self.trees if own else ():
            first = self.places[sentence.start]
            words = ((i, i + 1) for i in range(len(tree.words())))
            phrases = [(first + i, first + j - 1) for i, j in sorted({*_chains(tree), *words})]
            for frame in own:
                if not sentence.start <= frame.predicate.start < sentence.end:
                    continue
                predicate = self.places[frame.predicate.start]
                labels |= {(predicate, *phrase): NONE for phrase in phrases}
                for argument in frame.arguments:
                    start, end = (self.places[i] for i in (argument.span.start, argument.span.end))
                    labels[predicate, start, end - 1] = argument.label
        return labels

    def spans(self) -> Labelled:
        found: Labelled = {}
        for sentence, tree in self.trees:
            sites, chains = span_sites([len(tree.words())]), _chains(tree)
            labels = [chains.get((i, j + 1), NONE) for _, i, j, _ in sites.tolist()]
            rows = np.where(sites < 0, -1, sites + self.places[sentence.start]).tolist()
            found |= zip(map(tuple, rows), labels, strict=True)
        return found


def _chains(tree: Tree) -> dict[tuple[int, int], str]:
    """Return the labels of spans, those of unary chains joined, without the root."""
    chains: dict[tuple[int, int], list[str]] = {}
    for label, start, end in tree.spans()[1:]:
        chains.setdefault((start, end), []).append(label)
    return {span: JOIN.join(labels) for span, labels in chains.items()}
