"""Extensions of constituents.

Constituents are the brackets of `doc.spans["constituents"]`, single words, and whole sentences.
White space around them is ignored. Their extensions have the names and, for a Doc that was parsed,
the behaviour of benepar's (Kitaev & Klein 2018).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, cast

from spacy.tokens import Doc, Span, SpanGroup

from ...errors import NonConstituentException
from ...groups import CONSTITUENT_TAGS, CONSTITUENTS, PARSE_FAILURES
from ...trees.tree import Tree
from .span_groups import N_TOKENS, aligned_group, group_scores, lower_bound, spans_from, words_of

ROOT = "TOP"  # the label above the tree, as in `trees.normalize`
CUT = "cut"  # label in `doc._.parse_failures` of a sentence that was parsed in pieces
UNKNOWN_TAG = "XX"  # the Penn Treebank's tag for words without a tag
ESCAPES = str.maketrans(
    {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
)


class _Constituent(NamedTuple):
    """The tokens from `start` to `end`, and their brackets group[first:last], topmost first.

    start == end if there is only white space, or no parser has run.
    """

    doc: Doc
    group: SpanGroup
    start: int
    end: int
    first: int
    last: int


def trees(doc: Doc) -> tuple[Tree, ...]:
    """Get the tree of each sentence, with "TOP" above it as in a normalised treebank.

    A Doc without sentence boundaries is one sentence. A sentence of white space, or one of several
    words that was not parsed (see `Doc.from_docs`), has no tree. Empty if no parser has run.
    """
    tops = filter(None, map(tree, sentences(doc)))
    return tuple(
        top if top.label == ROOT and not top.is_leaf else Tree(ROOT, [top]) for top in tops
    )


def parse_failures(doc: Doc) -> tuple[Span, ...]:
    """Get the spans that the parser could not parse properly, with one of three labels.

    "fallback": no parse was found, and the tree is a fallback tree.
    "cut": the sentence was too long. It was parsed in pieces, under one bracket of probability 0.
    No attachment or frame goes beyond a piece.
    "constraints": the tree of the sentence does not meet all of its constraints. No tree does, or
    they are not of its words alone.
    """
    return tuple(aligned_group(doc, PARSE_FAILURES) or ())


def labels(span: Span) -> tuple[str, ...]:
    """Get the labels of exactly this span, the topmost first; a unary chain has several.

    Empty for a word without a phrase of its own, for white space, and for a sentence whose tree has
    several tops. Raises NonConstituentException if the span is not a constituent. This and the
    getters below are empty if no parser has run.
    """
    node = _constituent(span)
    return tuple(node.group[index].label_ for index in range(node.first, node.last))


def parse_string(span: Span) -> str:
    """Get the tree in brackets, on one line; "" for white space and for what was not parsed.

    Brackets in words are written as -LRB-, -LSB- and so on, white space in merged tokens as _.
    """
    node = _constituent(span)
    return str(_tree(node, _escaped)) if node.start < node.end else ""


def tree(span: Span) -> Tree | None:
    """Get the constituent as a Tree, with the words unchanged; None as in `parse_string`.

    Raises NonConstituentException if the span is not a constituent.
    """
    node = _constituent(span)
    return _tree(node) if node.start < node.end else None


def constituents(span: Span) -> Iterator[Span]:
    """Iterate over this constituent and all below it in pre-order, each (start, end) once.

    Words are included.
    """
    node = _constituent(span)
    return (node.doc[start:end] for start, end in _preorder(node))


def children(span: Span) -> Iterator[Span]:
    """Iterate over the constituents directly below this one, left to right; a word has none."""
    node = _constituent(span)
    spans, expected = [], node.start
    for start, end in _preorder(node):
        if start >= expected and (start, end) != (node.start, node.end):
            spans.append(node.doc[start:end])
            expected = end
    return iter(spans)


def parent(span: Span) -> Span | None:
    """Get the smallest larger constituent; None for a sentence and for white space."""
    node = _constituent(span)
    if node.start == node.end:
        return None
    start, end = trimmed(sentence_of(node.doc, node.start))
    for index in range(node.first - 1, -1, -1):
        bracket = node.group[index]
        if bracket.start < start:
            break
        if bracket.end >= node.end:
            return node.doc[bracket.start : bracket.end]
    return None if (start, end) == (node.start, node.end) else node.doc[start:end]


def is_constituent(span: Span) -> bool:
    """Check whether the span is a constituent, a word or a sentence. Never raises."""
    node = _find(span)
    return node is not None and node.start < node.end


def constituent_prob(span: Span) -> float | None:
    """Get the model's probability of a bracket of exactly this span.

    In a unary chain, this is the bracket with the label of the span, or else the topmost one. None
    if there is no bracket or the scores are missing. Never raises.
    """
    node = _find(span)
    if node is None or node.first == node.last:
        return None
    scores = group_scores(node.group)
    if scores is None:
        return None
    chain = range(node.first, node.last)
    labelled = (index for index in chain if node.group[index].label == span.label)
    return float(scores[next(labelled, node.first)])


def sentences(part: Doc | Span) -> Iterator[Span]:
    """Iterate over the sentences of a Doc, or those that a Span overlaps, which is not empty.

    A Doc without sentence boundaries is one sentence.
    """
    whole = cast(Doc, part)  # the stub of Span lacks `sents`
    return whole.sents if part.doc.has_annotation("SENT_START") else iter([part.doc[:]])


def pieces(doc: Doc) -> Iterator[Span]:
    """Iterate over what was parsed by itself: the sentences, or the pieces of one that was cut.

    Where the parser could not join the words of a piece either, these are pieces too.
    """
    joined = cut_sentences(doc)
    for sentence in sentences(doc):
        if joined and trimmed(sentence) in joined:
            yield from children(sentence)
        else:
            yield sentence


def cut_sentences(doc: Doc) -> set[tuple[int, int]]:
    """Get (start, end) of the sentences that were cut, and whose pieces one bracket joins."""
    found = set()
    for span in parse_failures(doc):
        node = _find(span) if span.label_ == CUT else None
        if node is not None and node.last - node.first == 1:
            found.add((node.start, node.end))
    return found


def constituent_tags(doc: Doc, positions: Sequence[int]) -> list[str]:
    """Get the parser's tags of these tokens, or `token.tag_` where the parser gave none.

    positions: indices of tokens, ascending.
    """
    tags: dict[int, str] = {}
    group = aligned_group(doc, CONSTITUENT_TAGS)
    if group is not None and len(positions):
        first = lower_bound(group, positions[0], positions[0] + 1)
        tags = {tag.start: tag.label_ for tag in spans_from(group, first, positions[-1] + 1)}
    return [tags.get(i) or doc[i].tag_ or UNKNOWN_TAG for i in positions]


def _constituent(span: Span) -> _Constituent:
    node = _find(span)
    if node is None:
        raise NonConstituentException("SL021", text=span.text)
    return node


def _find(span: Span) -> _Constituent | None:
    """Find the constituent of this span; None if it is not one. Without a parser, it is empty."""
    doc, group = span.doc, aligned_group(span.doc, CONSTITUENTS)
    start, end = trimmed(span)
    if group is None or start == end:
        return _Constituent(doc, group or SpanGroup(doc), start, start, 0, 0)
    first = last = lower_bound(group, start, end)
    while last < len(group) and (group[last].start, group[last].end) == (start, end):
        last += 1
    if first == last and end - start > 1:
        if trimmed(sentence_of(doc, start)) != (start, end):
            return None
        if not _is_parsed(doc, group, first, start, end):
            return _Constituent(doc, group, start, start, 0, 0)
    return _Constituent(doc, group, start, end, first, last)


def _is_parsed(doc: Doc, group: SpanGroup, first: int, start: int, end: int) -> bool:
    """Check whether a sentence has a bracket, or is a failure of the parser, which may have none.

    Parts of `Doc.from_docs`, whose groups have no attributes, may not be parsed.
    first: see `_Constituent`.
    """
    if N_TOKENS in group.attrs or (first < len(group) and group[first].start < end):
        return True
    return any(span.start < end and start < span.end for span in doc.spans.get(PARSE_FAILURES, ()))


def trimmed(span: Span) -> tuple[int, int]:
    """Get start and end without white space at the ends; equal if there is nothing else."""
    doc, start, end = span.doc, span.start, span.end
    while start < end and doc[start].is_space:
        start += 1
    while start < end and doc[end - 1].is_space:
        end -= 1
    return start, end


def sentence_of(doc: Doc, index: int) -> Span:
    """Get the sentence of a token."""
    return doc[index : index + 1].sent if doc.has_annotation("SENT_START") else doc[:]


def _preorder(node: _Constituent) -> Iterator[tuple[int, int]]:
    """Iterate over (start, end) of a constituent and all below it, words included, each once."""
    if node.start == node.end:
        return
    last = (node.start, node.end)
    yield last
    index = node.last
    for position in range(node.start, node.end):
        if node.doc[position].is_space:
            continue
        while index < len(node.group) and (bracket := node.group[index]).start <= position:
            if (bracket.start, bracket.end) != last:
                last = (bracket.start, bracket.end)
                yield last
            index += 1
        if last != (position, position + 1):
            last = (position, position + 1)
            yield last


def _escaped(text: str) -> str:
    return "_".join(text.translate(ESCAPES).split())


def _tree(node: _Constituent, escape: Callable[[str], str] = str) -> Tree:
    positions = words_of(node.doc[node.start : node.end])
    words = [escape(node.doc[i].text) for i in positions]
    tags = [escape(tag) for tag in constituent_tags(node.doc, positions)]
    spans = []
    for bracket in spans_from(node.group, node.first, node.end):
        start, end = (bisect_left(positions, token) for token in (bracket.start, bracket.end))
        spans.append((bracket.label_, start, end))
    if node.first == node.last and len(words) > 1:
        spans.insert(0, (ROOT, 0, len(words)))
    return Tree.from_spans(words, tags, spans)
