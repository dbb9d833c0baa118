"""The sites of gold Docs and their labels, from which site scorers learn (`encoder.training`).

"tags", "chunks" and "rolesets" have a site for each token, "spans" for all spans of a sentence with
a tree, "arguments" (predicate, first, last) for the phrases and words of the sentence of a
predicate, "attachments" (v, n1, p, n2) for prepositional phrases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from spacy.tokens import Doc
from spacy.training import Example

from ...arrays import cumulative
from ...attachment.sites import NOUN, VERB
from ...encoder.spans import JOIN, n_spans, place, span_sites
from ...encoder.training import SiteExamples
from ...groups import CONSTITUENTS, SRL
from ...trees.tree import Tree
from ..doc_arrays import gold_trees, has_gold_tokens, read_tokens, read_vectors
from ..extensions.attachments import pp_attachments
from ..extensions.roles import frames

if TYPE_CHECKING:
    from .batch_trainable import BatchTrainable

NONE = ""  # the label of no phrase, no predicate and no argument
UNKNOWN = "?"  # the roleset of a predicate whose roleset is not known

Labelled = dict[tuple[int, ...], str]


def site_examples(component: BatchTrainable, example: Example) -> dict[str, SiteExamples]:
    """Return the sites of each head of a component for which there is gold annotation.

    Empty if the predicted Doc has other tokens than the reference. Raises StructlearnError if it
    has no vectors.
    """
    if not has_gold_tokens(example):
        return {}
    gold, name, found = _Gold(component, example.reference), component.name, {}
    for head, slots in component.heads.items():
        labels: Labelled = getattr(gold, head)()
        if labels:
            tokens = read_tokens([example.predicted], ["ORTH"], name)
            vectors = read_vectors([example.predicted], tokens, name)
            sites = np.array(list(labels), dtype=np.int64).reshape(-1, slots)
            lengths = [len(tree.words()) for _, tree in gold.trees] if head == "spans" else ()
            found[head] = SiteExamples(vectors, sites, list(labels.values()), lengths)
    return found


class _Gold:
    """The labels of the sites of a Doc; a method for each head."""

    def __init__(self, component: BatchTrainable, doc: Doc):
        self.doc, self.key = doc, component.key
        # The number of words before each token, and of all.
        is_word = np.array([not token.is_space for token in doc], dtype=np.int64)
        self.places: list[int] = cumulative(is_word).tolist()
        has_trees = {"spans", "arguments"} & component.heads.keys() and CONSTITUENTS in doc.spans
        self.trees = gold_trees(doc, component.name) if has_trees else []

    def tags(self) -> Labelled:
        words = (token for token in self.doc if not token.is_space)
        return {(i,): token.tag_ for i, token in enumerate(words) if token.tag_}

    def chunks(self) -> Labelled:
        if self.key not in self.doc.spans:
            return {}
        labels: Labelled = {(i,): "O" for i in range(self.places[-1])}
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

    def rolesets(self) -> Labelled:
        if SRL not in self.doc.spans:
            return {}
        labels: Labelled = {(i,): NONE for i in range(self.places[-1])}
        for frame in frames(self.doc):
            labels[(self.places[frame.predicate.start],)] = frame.roleset or UNKNOWN
        return labels

    def arguments(self) -> Labelled:
        labels: Labelled = {}
        own = frames(self.doc) if SRL in self.doc.spans else ()
        for sentence, tree in self.trees:
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
            n = len(tree.words())
            labels = [NONE] * n_spans(n)
            for (start, end), label in _chains(tree).items():
                labels[place(start, end, n)] = label
            sites = span_sites([n])
            rows = np.where(sites < 0, -1, sites + self.places[sentence.start]).tolist()
            found |= zip(map(tuple, rows), labels, strict=True)
        return found


def _chains(tree: Tree) -> dict[tuple[int, int], str]:
    """Return the labels of spans, those of unary chains joined, without the root."""
    chains: dict[tuple[int, int], str] = {}
    for label, start, end in tree.spans()[1:]:
        held = chains.get((start, end))
        chains[start, end] = label if held is None else f"{held}{JOIN}{label}"
    return chains
