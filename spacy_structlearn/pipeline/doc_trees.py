"""Trees from the annotation of a Doc: gold trees, and trees with other attachments."""

from __future__ import annotations

import logging
from bisect import bisect_left

from spacy.tokens import Doc, Span
from spacy.training import Example

from ..attachment.sites import reattach
from ..errors import StructlearnError
from ..trees.normalize import normalize
from ..trees.tree import Tree
from . import extensions
from .extensions import CONSTITUENT_TAGS, CONSTITUENTS, lower_bound

logger = logging.getLogger("spacy_structlearn")


def has_gold_tokens(example: Example) -> bool:
    """Check whether the predicted Doc has the tokens of the reference."""
    return [t.text for t in example.predicted] == [t.text for t in example.reference]


def gold_trees(doc: Doc, component: str) -> list[tuple[Span, Tree]]:
    """Get the gold sentences with a complete tree, and log the number of the others."""
    found, left_out = [], 0
    for sentence in extensions.sentences(doc):
        tree = _gold_tree(sentence)
        if tree is not None:
            found.append((sentence, tree))
        elif not sentence.text.isspace():
            left_out += 1
    if left_out:
        logger.warning(
            "%s: %d of the sentences of %r have no complete tree and are not trained on",
            component,
            left_out,
            doc.text[:40],
        )
    return found


def _gold_tree(sentence: Span) -> Tree | None:
    """Get the normalised tree of a gold sentence; None if it is not complete."""
    doc = sentence.doc
    if CONSTITUENT_TAGS not in doc.spans and not all(t.tag_ or t.is_space for t in sentence):
        return None
    group = doc.spans[CONSTITUENTS]
    # Starts at the largest bracket that begins in the sentence.
    for index in range(lower_bound(group, sentence.start, len(doc)), len(group)):
        if group[index].start >= sentence.end:
            break
        if group[index].end > sentence.end:
            return None
    try:
        tree = extensions.tree(sentence)
    except StructlearnError:
        return None
    if tree is None:
        return None
    # Several words without any bracket: the annotation is missing.
    bare = tree.label == extensions.ROOT and all(child.is_leaf for child in tree.children)
    return None if bare and not tree.is_leaf else normalize(tree, strip_functions=False)


def reattached(doc: Doc, min_confidence: float = 0.0) -> tuple[Tree, ...]:
    """Get the trees of a Doc, with prepositional phrases moved according to its attachments.

    The Doc does not change. See `attachment.sites.reattach` for the phrases that can be moved.
    min_confidence: attachments with a lower probability are ignored.
    Raises StructlearnError if the Doc has no trees.
    """
    if CONSTITUENTS not in doc.spans:
        raise StructlearnError("SL020", text=doc.text[:40])
    attachments = extensions.pp_attachments(doc)
    sure = [a for a in attachments if a.prob is None or a.prob >= min_confidence]
    prepositions = [a.prep.i for a in sure]
    found = []
    sentences = (s for s in extensions.sentences(doc) if not all(t.is_space for t in s))
    for sentence, tree in zip(sentences, extensions.trees(doc), strict=True):
        positions = [token.i for token in sentence if not token.is_space]
        own = slice(*(bisect_left(prepositions, i) for i in (sentence.start, sentence.end)))
        moves = [
            (bisect_left(positions, a.pp.start), bisect_left(positions, a.pp.end), a.label)
            for a in sure[own]
            if a.head is not None
        ]
        found.append(reattach(tree, moves))
    return tuple(found)
