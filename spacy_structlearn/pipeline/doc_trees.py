"""Trees made of the annotation of a Doc: gold ones, and those with other attachments."""

from __future__ import annotations

import logging
from bisect import bisect_left

from spacy.tokens import Doc, Span

from ..attachment.sites import reattach
from ..errors import StructlearnError
from ..trees.normalize import normalize
from ..trees.tree import Tree
from . import extensions
from .extensions import CONSTITUENT_TAGS, CONSTITUENTS, lower_bound

logger = logging.getLogger("spacy_structlearn")


def gold_trees(doc: Doc, component: str) -> list[tuple[Span, Tree]]:
    """The gold sentences that have a complete tree; the number of the others is logged."""
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
    """The normalised tree of a gold sentence, None if it is not complete."""
    doc = sentence.doc
    if CONSTITUENT_TAGS not in doc.spans and not all(t.tag_ or t.is_space for t in sentence):
        return None
    group = doc.spans[CONSTITUENTS]
    # From the largest bracket on that begins in the sentence.
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
    # Several words and no bracket at all: annotation that is missing, not a tree.
    bare = tree.label == extensions.ROOT and all(child.is_leaf for child in tree.children)
    return None if bare and not tree.is_leaf else normalize(tree, strip_functions=False)


def reattached(doc: Doc, min_confidence: float = 0.0) -> tuple[Tree, ...]:
    """The trees of a Doc, as `doc._.trees`, with prepositional phrases where the Doc's attachments
    say; the Doc stays as it is. See `attachment.reattach` for what can be moved.

    min_confidence: attachments that are less probable change nothing.
    RAISES: SL020 if the Doc has no trees.
    """
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
