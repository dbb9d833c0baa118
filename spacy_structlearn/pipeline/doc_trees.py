"""Trees from the annotation of Docs: gold trees, trees with other attachments, and the trees of
many Docs as arrays.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IS_SPACE
from spacy.tokens import Doc, Span
from spacy.training import Example

from ..arrays import cumulative, ranges
from ..attachment.sites import VERB, is_attached, reattach
from ..errors import StructlearnError
from ..groups import CONSTITUENT_TAGS, CONSTITUENTS
from ..roles.phrases import Brackets
from ..trees.normalize import normalize
from ..trees.tree import Tree
from .extensions import brackets
from .extensions.attachments import pp_attachments
from .extensions.brackets import ROOT
from .extensions.span_groups import lower_bound, scored_group

logger = logging.getLogger("spacy_structlearn")


def has_gold_tokens(example: Example) -> bool:
    """Check whether the predicted Doc has the tokens of the reference."""
    return [t.text for t in example.predicted] == [t.text for t in example.reference]


def gold_trees(doc: Doc, component: str) -> list[tuple[Span, Tree]]:
    """Get the gold sentences with a complete tree, and log the number of the others."""
    found, left_out = [], 0
    for sentence in brackets.sentences(doc):
        tree = _gold_tree(sentence)
        if tree is not None:
            found.append((sentence, tree))
        elif not all(token.is_space for token in sentence):
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
        tree = brackets.tree(sentence)
    except StructlearnError:
        return None
    if tree is None:
        return None
    # Several words without any bracket: the annotation is missing.
    bare = tree.label == ROOT and all(child.is_leaf for child in tree.children)
    return None if bare and not tree.is_leaf else normalize(tree, strip_functions=False)


def reattached(doc: Doc, min_confidence: float = 0.0) -> tuple[Tree, ...]:
    """Get the trees of a Doc, with prepositional phrases moved according to its attachments.

    The Doc does not change. See `attachment.sites.reattach` for the phrases that can be moved.
    min_confidence: attachments with a lower probability are ignored.
    Raises StructlearnError if the Doc has no trees.
    """
    if CONSTITUENTS not in doc.spans:
        raise StructlearnError("SL020", text=doc.text[:40])
    moves = _moves(doc, min_confidence)
    prepositions = [preposition for preposition, *_ in moves]

    def moved(span: Span, tree: Tree) -> Tree:
        positions = [token.i for token in span if not token.is_space]
        own = slice(*(bisect_left(prepositions, i) for i in (span.start, span.end)))
        wanted = [
            (bisect_left(positions, start), bisect_left(positions, end), label)
            for _, start, end, label in moves[own]
        ]
        return reattach(tree, wanted)

    found, joined = [], brackets.cut_sentences(doc)
    sentences = (s for s in brackets.sentences(doc) if not all(t.is_space for t in s))
    for sentence, tree in zip(sentences, brackets.trees(doc), strict=True):
        if brackets.trimmed(sentence) not in joined:
            found.append(moved(sentence, tree))
            continue
        # Every move reads the whole tree, so pieces, between which nothing moves, are read alone.
        whole = brackets.tree(sentence)
        pieces = zip(brackets.children(sentence), whole.children, strict=True)
        top = Tree(whole.label, [moved(*piece) for piece in pieces])
        found.append(top if top.label == ROOT else Tree(ROOT, [top]))
    return tuple(found)


def _moves(doc: Doc, min_confidence: float) -> list[tuple[int, int, int, str]]:
    """Get the prepositional phrases with an attachment as (preposition, start, end, label).

    Phrases attached to the noun in an earlier phrase are left out: `reattach` does not move them.
    """
    found = []
    objects: dict[int, int] = {}  # of each verb: the noun of its first site
    for a in pp_attachments(doc):
        is_object = objects.setdefault(a.verb.i, a.noun.i) == a.noun.i
        sure = a.prob is None or a.prob >= min_confidence
        if sure and a.head is not None and (is_object or a.label == VERB):
            found.append((a.prep.i, a.pp.start, a.pp.end, a.label))
    return found


class DocTrees:
    """The trees of Docs as arrays, for many Docs at once.

    min_confidence: as for `reattached`; None: the trees are those of `extensions.trees`.

    A sentence that the parser cut has a tree for each piece. Otherwise a predicate would have all
    other pieces as possible arguments, and time would grow with the square of the length.

    brackets: the trees. Their words are the tokens that are no white space.
    positions: int (n_words), the token of its Doc that each word is.
    doc_ids: int (n_words), the number of its Doc.
    scored: bool (n_docs), whether the brackets of each Doc have probabilities.
    Raises StructlearnError if the brackets of a Doc are no trees.
    """

    def __init__(self, docs: Sequence[Doc], min_confidence: float | None = None):
        self._firsts = cumulative(np.array([len(doc) for doc in docs]))
        labels: list[str] = []
        spans: list[tuple[int, int]] = []
        sentences: list[tuple[int, int]] = []
        probabilities: list[NDArray] = []
        self.scored = np.zeros(len(docs), dtype=bool)
        for number, (doc, first) in enumerate(zip(docs, self._firsts.tolist(), strict=False)):
            group, scores = scored_group(doc, CONSTITUENTS)
            own = list(group or ())
            # Without probabilities, brackets are certain.
            certainty = np.ones(len(own)) if scores is None else scores
            if joined := brackets.cut_sentences(doc):
                rows = [i for i, span in enumerate(own) if (span.start, span.end) not in joined]
                own, certainty = [own[row] for row in rows], certainty[rows]
            labels += [span.label_ for span in own]
            spans += [(first + span.start, first + span.end) for span in own]
            sentences += [(first + s.start, first + s.end) for s in brackets.pieces(doc)]
            self.scored[number] = scores is not None
            probabilities.append(certainty)
        spans, sentences = (
            np.array(pairs, dtype=np.intp).reshape(-1, 2) for pairs in (spans, sentences)
        )
        # Only the topmost bracket of a unary chain.
        self._keys, rows = np.unique(self._key(*spans.T), return_index=True)
        self._probabilities = np.concatenate(probabilities)[rows].astype(np.float64)
        is_space = np.concatenate([doc.to_array(IS_SPACE) for doc in docs]).astype(bool)
        tokens = ranges(sentences[:, 0], sentences[:, 1] - sentences[:, 0])
        tokens = tokens[~is_space[tokens]]
        self.doc_ids = np.searchsorted(self._firsts, tokens, "right") - 1
        self.positions = tokens - self._firsts[self.doc_ids]
        # The number of words before each token.
        before = cumulative(~is_space)
        if _are_plain(spans, sentences, is_space, before):
            self.brackets = _plain_brackets(
                docs, is_space, labels, before[spans], before[sentences]
            )
            if min_confidence is not None:
                self._reattach(docs, min_confidence, before)
        else:
            own = (
                brackets.trees(doc) if min_confidence is None else reattached(doc, min_confidence)
                for doc in docs
            )
            self.brackets = Brackets.of(chain.from_iterable(own))

    def tokens(self, starts: NDArray, ends: NDArray) -> tuple[NDArray, NDArray]:
        """Get (start, end) in tokens of their Docs for spans of words."""
        return self.positions[starts], self.positions[ends - 1] + 1

    def probabilities(self, starts: NDArray, ends: NDArray) -> NDArray[np.float64]:
        """Get the parser's probability of a bracket over each span of words.

        1 for words, for phrases that were moved after parsing, and without probabilities.
        """
        firsts = self._firsts[self.doc_ids[starts]]
        wanted = self._key(*(firsts + place for place in self.tokens(starts, ends)))
        if not len(self._keys):
            return np.ones(len(wanted))
        rows = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return np.where(self._keys[rows] == wanted, self._probabilities[rows], 1.0)

    def _key(self, starts: NDArray, ends: NDArray) -> NDArray:
        return starts * (self._firsts[-1] + 1) + ends

    def _reattach(self, docs: Sequence[Doc], min_confidence: float, before: NDArray) -> None:
        """Move prepositional phrases; see `reattached`."""
        words, tags, sizes, labels, starts, ends = self.brackets
        firsts = cumulative(sizes)
        found = [
            (first + preposition, first + start, first + end, label)
            for doc, first in zip(docs, self._firsts.tolist(), strict=False)
            for preposition, start, end, label in _moves(doc, min_confidence)
        ]
        if not found:
            return
        *places, names = zip(*found, strict=True)
        prepositions, *bounds = before[np.array(places)]
        numbers = np.minimum(np.searchsorted(firsts, prepositions, "right"), len(sizes)) - 1
        # In words of the sentence of the preposition.
        bounds = np.clip(bounds, firsts[numbers], firsts[numbers + 1]) - firsts[numbers]
        moves: defaultdict[int, list[tuple[int, int, str]]] = defaultdict(list)
        for number, start, end, name in zip(numbers.tolist(), *bounds.tolist(), names, strict=True):
            moves[number].append((start, end, name))
        first_brackets = np.searchsorted(starts, firsts).tolist()
        changed, kept = [], np.ones(len(labels), dtype=bool)
        for number, wanted in moves.items():
            first, last = firsts[number : number + 2].tolist()
            own = slice(*first_brackets[number : number + 2])
            places = [(starts[own] - first).tolist(), (ends[own] - first).tolist()]
            spans = list(zip(labels[own], *places, strict=True))
            if all(is_attached(spans, *move) for move in wanted):
                continue
            part = slice(first, last)
            tree = reattach(Tree.from_spans(words[part], tags[part], spans), wanted)
            changed += [(label, first + start, first + end) for label, start, end in tree.spans()]
            kept[own] = False
        if changed:
            more = list(zip(*changed, strict=True))
            labels = [label for label, own in zip(labels, kept, strict=True) if own] + [*more[0]]
            starts, ends = (
                np.concatenate([old[kept], new])
                for old, new in zip((starts, ends), more[1:], strict=True)
            )
            order = np.lexsort((-ends, starts))
            labels = [labels[row] for row in order.tolist()]
            self.brackets = Brackets(words, tags, sizes, labels, starts[order], ends[order])


def _are_plain(
    spans: NDArray[np.intp],
    sentences: NDArray[np.intp],
    is_space: NDArray[np.bool_],
    before: NDArray,
) -> bool:
    """Whether all brackets are in order, begin and end with a word, and lie within a sentence, and
    each word is in one sentence.
    """
    starts, ends = spans.T
    firsts, lasts = before[sentences].T
    whole = np.array_equal(firsts[1:], lasts[:-1]) and lasts[-1:].sum() == before[-1]
    if not whole or (starts >= ends).any() or (is_space[starts] | is_space[ends - 1]).any():
        return False
    own = np.searchsorted(sentences[:, 0], starts, "right") - 1
    later, same = starts[1:] > starts[:-1], starts[1:] == starts[:-1]
    in_order = later | (same & (ends[1:] <= ends[:-1]))
    return bool(in_order.all() and (ends <= sentences[own, 1]).all())


def _plain_brackets(
    docs: Sequence[Doc],
    is_space: NDArray[np.bool_],
    labels: Sequence[str],
    spans: NDArray,
    sentences: NDArray,
) -> Brackets:
    """Get the brackets of Docs that are plain, with "TOP" above each tree.

    spans, sentences: (start, end) in words.
    """
    words, tags, first = [], [], 0
    for doc in docs:
        own = np.flatnonzero(~is_space[first : first + len(doc)]).tolist()
        words += [doc[i].text for i in own]
        tags += brackets.constituent_tags(doc, own)
        first += len(doc)
    starts, ends = spans.T
    sentences = sentences[sentences[:, 0] < sentences[:, 1]]
    firsts = np.searchsorted(starts, sentences[:, 0])
    names = np.array([*labels, ""], dtype=object)
    tops = np.append(spans, [[-1, -1]], axis=0)[firsts]
    bare = (names[firsts] != ROOT) | (tops != sentences).any(axis=1)
    return Brackets(
        words,
        tags,
        sentences[:, 1] - sentences[:, 0],
        np.insert(names[:-1], firsts[bare], ROOT).tolist(),
        np.insert(starts, firsts[bare], sentences[bare, 0]),
        np.insert(ends, firsts[bare], sentences[bare, 1]),
    )
