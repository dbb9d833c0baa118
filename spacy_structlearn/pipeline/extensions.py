"""Every extension attribute of the package, in one place: read-only views of `doc.spans`.

A prediction is stored once, as a SpanGroup. The getters here find what they need by bisection, so
a document of n spans costs O(log n) a look-up and never a scan. They are module-level functions,
because lambdas break pickling and `n_process` under spawn, and they are registered only where no
other package has taken the name.

`doc.retokenize()` leaves `doc.spans` as it was, so that its spans are of other tokens, or of none
(explosion/spaCy#12024). Where a getter finds a group of ours out of step, it calls `realign`. It
looks at the last span, the last of the parser's tags, and the number of tokens that were parsed, so
it does not find a merge and a split that undo each other's shift, and without a parser not what
happened behind the last span of a group.

Constituents are the brackets of `doc.spans["constituents"]`, single words, and whole sentences;
white space around them does not count. Their extensions have the names and the behaviour of
benepar's (Kitaev & Klein 2018), so that its users find what they know.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct
from typing import NamedTuple

import numpy as np
import srsly
from numpy.typing import NDArray
from spacy.tokens import Doc, Span, SpanGroup, Token

from ..attachment.sites import NOUN, VERB, Site
from ..errors import NonConstituentException, StructlearnError
from ..groups import (
    CONSTITUENT_TAGS,
    CONSTITUENTS,
    GROUPS,
    NP_CHUNKS,
    PARSE_FAILURES,
    PP_ATTACHMENTS,
    SENTENCE_STARTS,
    SRL,
    TAG_CANDIDATES,
)
from ..roles.propositions import PREDICATE, PlainFrame
from ..trees.tree import Tree

PP_ROLES = ("verb", "noun", "prep", "object")  # labels of the spans that follow each phrase
PP_SITE = 1 + len(PP_ROLES)  # so many spans are one attachment
ROOT = "TOP"  # the label above the tree, as in `trees.normalize`
N_TOKENS = "n_tokens"  # in `attrs` of the constituents: of the Doc that was parsed
UNKNOWN_TAG = "XX"  # the Penn Treebank's own, for words that have no tag
ESCAPES = str.maketrans(
    {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
)


def register() -> None:
    """Register all extensions; safe to call any number of times, in any process."""
    _add(Token, "sent_start_prob", sent_start_prob)
    _add(Token, "tag_probs", tag_probs)
    _add(Doc, "np_chunks", np_chunks)
    _add(Token, "np_iob", np_iob)
    _add(Span, "np_chunk_prob", np_chunk_prob)
    _add(Doc, "trees", trees)
    _add(Doc, "parse_failures", parse_failures)
    _add(Span, "labels", labels)
    _add(Span, "parse_string", parse_string)
    _add(Span, "tree", tree)
    _add(Span, "constituents", constituents)
    _add(Span, "children", children)
    _add(Span, "parent", parent)
    _add(Span, "is_constituent", is_constituent)
    _add(Span, "constituent_prob", constituent_prob)
    _add(Token, "labels", token_labels)
    _add(Token, "parse_string", token_parse_string)
    _add(Token, "constituents", token_constituents)
    _add(Token, "children", token_children)
    _add(Token, "parent", token_parent)
    _add(Doc, "pp_attachments", pp_attachments)
    _add(Token, "pp_head", pp_head)
    _add(Doc, "frames", frames)
    _add(Token, "srl", srl)


def _add(target: type, name: str, getter: Callable) -> None:
    if not target.has_extension(name):
        target.set_extension(name, getter=getter)


def sent_start_prob(token: Token) -> float | None:
    """The probability that a sentence begins with this token; 0 where it is below 0.01.

    None where no sentence splitter has run, or the probabilities are lost (documents joined by
    `Doc.from_docs`).
    """
    group = aligned_group(token.doc, SENTENCE_STARTS)
    scores = None if group is None else group_scores(group)
    if scores is None:
        return None
    index = _last_starting_by(group, token.i)
    return float(scores[index]) if index >= 0 and group[index].start == token.i else 0.0


def tag_probs(token: Token) -> dict[str, float] | None:
    """The tags that a token may have, the most probable one first, with the tagger's probabilities.

    Where it was sure, `token.tag_` alone has 1. Tags with less than 0.01 are left out. None for a
    token without a tag, where no tagger has run that knows probabilities, and where they are lost
    (documents joined by `Doc.from_docs`).
    """
    group = aligned_group(token.doc, TAG_CANDIDATES)
    scores = None if group is None else group_scores(group)
    if scores is None or not token.tag:
        return None
    last = _last_starting_by(group, token.i)
    first = last
    while first >= 0 and group[first].start == token.i:
        first -= 1
    found = {group[i].label_: float(scores[i]) for i in range(first + 1, last + 1)}
    return found or {token.tag_: 1.0}


def np_chunks(doc: Doc) -> tuple[Span, ...]:
    """The NP chunks of `doc` in order; empty where no chunker has run."""
    return tuple(aligned_group(doc, NP_CHUNKS) or ())


def np_iob(token: Token) -> str:
    """ "B" at the first token of an NP chunk, "I" inside one, "O" outside.

    Like `token.ent_iob_` it is "" where the document has no NP chunks annotated at all.
    """
    group = aligned_group(token.doc, NP_CHUNKS)
    if group is None:
        return ""
    index = _last_starting_by(group, token.i)
    if index < 0:
        return "O"
    chunk = group[index]
    if token.i == chunk.start:
        return "B"
    return "I" if token.i < chunk.end else "O"


def np_chunk_prob(span: Span) -> float | None:
    """The model's probability that exactly this span is an NP chunk.

    None if the span is none of the predicted chunks, or if the chunks carry no scores (gold
    annotation; documents joined by `Doc.from_docs`, which drops them).
    """
    group = aligned_group(span.doc, NP_CHUNKS)
    if group is None:
        return None
    index = _last_starting_by(group, span.start)
    if index < 0 or (group[index].start, group[index].end) != (span.start, span.end):
        return None
    scores = group_scores(group)
    return None if scores is None else float(scores[index])


# --- constituents ---------------------------------------------------------------------------------
class _Node(NamedTuple):
    """The words from token `start` to `end`, and their brackets, group[first:last], topmost first.

    Of white space alone, start == end.
    """

    doc: Doc
    group: SpanGroup
    start: int
    end: int
    first: int
    last: int


def trees(doc: Doc) -> tuple[Tree, ...]:
    """The tree of each sentence, with "TOP" above it, as a normalised treebank has them.

    Without sentence boundaries the Doc is one sentence. One of white space alone has no tree.
    RAISES: SL020 if no parser has run.
    """
    _parsed(doc)
    found = (tree(sentence) for sentence in sentences(doc))
    return tuple(
        top if top.label == ROOT and not top.is_leaf else Tree(ROOT, [top])
        for top in found
        if top is not None
    )


def parse_failures(doc: Doc) -> tuple[Span, ...]:
    """What the parser could not parse as it should: spans with one of two labels.

    "fallback": no parse was found, and the tree is a makeshift. "cut": a sentence that was too
    long, parsed in pieces under one bracket, whose probability is 0.
    """
    return tuple(aligned_group(doc, PARSE_FAILURES) or ())


def labels(span: Span) -> tuple[str, ...]:
    """The labels over exactly this span, the topmost first: several in a unary chain.

    Empty for a word with no phrase of its own, for white space, and for a sentence whose tree has
    several tops. RAISES: SL020 if no parser has run, SL021 if the span is no constituent; so do
    all that follow, unless they say otherwise.
    """
    node = _constituent(span)
    return tuple(node.group[index].label_ for index in range(node.first, node.last))


def parse_string(span: Span) -> str:
    """The tree in brackets, on one line; brackets of words are written -LRB-, -LSB-, ..., and white
    space within them, as in tokens that were merged, is written _.
    """
    node = _constituent(span)
    return str(_tree(node, _escaped)) if node.start < node.end else ""


def tree(span: Span) -> Tree | None:
    """The constituent as a Tree, with the words as they are; None for white space."""
    node = _constituent(span)
    return _tree(node) if node.start < node.end else None


def constituents(span: Span) -> Iterator[Span]:
    """This constituent and all below it in pre-order, words included, each (start, end) once."""
    node = _constituent(span)
    return (node.doc[start:end] for start, end in _preorder(node))


def children(span: Span) -> Iterator[Span]:
    """The constituents right below this one, left to right; a word has none."""
    return _children(_constituent(span))


def _children(node: _Node) -> Iterator[Span]:
    expected = node.start
    for start, end in _preorder(node):
        if start >= expected and (start, end) != (node.start, node.end):
            yield node.doc[start:end]
            expected = end


def parent(span: Span) -> Span | None:
    """The smallest constituent that is larger; None for a sentence, and for white space."""
    node = _constituent(span)
    if node.start == node.end:
        return None
    start, end = trimmed(_sentence(node.doc, node.start))
    for index in range(node.first - 1, -1, -1):
        bracket = node.group[index]
        if bracket.start < start:
            break
        if bracket.end >= node.end:
            return node.doc[bracket.start : bracket.end]
    return None if (start, end) == (node.start, node.end) else node.doc[start:end]


def is_constituent(span: Span) -> bool:
    """Whether the span is a constituent, a word or a sentence. Never raises."""
    if CONSTITUENTS not in span.doc.spans:
        return False
    node = _find(span)
    return node is not None and node.start < node.end


def constituent_prob(span: Span) -> float | None:
    """The model's probability of a bracket of exactly this span.

    Of several in a unary chain it is that with the label of the span, otherwise the topmost. None
    if there is no bracket, or if they carry no scores (gold annotation; documents joined by
    `Doc.from_docs`, which drops them). Never raises.
    """
    node = _find(span) if CONSTITUENTS in span.doc.spans else None
    if node is None or node.first == node.last:
        return None
    scores = group_scores(node.group)
    if scores is None:
        return None
    chain = range(node.first, node.last)
    labelled = (index for index in chain if node.group[index].label == span.label)
    return float(scores[next(labelled, node.first)])


def token_labels(token: Token) -> tuple[str, ...]:
    """The labels of the phrases over this one token, the topmost first."""
    return labels(token.doc[token.i : token.i + 1])


def token_parse_string(token: Token) -> str:
    """The token with its tag, and the phrases over it alone, in brackets."""
    return parse_string(token.doc[token.i : token.i + 1])


def token_constituents(token: Token) -> Iterator[Span]:
    """The token itself, as a span; none for white space."""
    return constituents(token.doc[token.i : token.i + 1])


def token_children(token: Token) -> Iterator[Span]:
    """None: below a token there is nothing."""
    return children(token.doc[token.i : token.i + 1])


def token_parent(token: Token) -> Span | None:
    """The smallest constituent of more than this token."""
    return parent(token.doc[token.i : token.i + 1])


def sentences(doc: Doc) -> Iterator[Span]:
    """The sentences; the whole Doc where there are no boundaries, as the components read it."""
    return doc.sents if doc.has_annotation("SENT_START") else iter([doc[:]])


def constituent_tags(doc: Doc, positions: Sequence[int]) -> list[str]:
    """The tags that the parser gave to these tokens; the tokens' own where it gave none.

    positions: indices of tokens, ascending.
    """
    found = {}
    group = aligned_group(doc, CONSTITUENT_TAGS)
    if group is not None and len(positions):
        for index in range(lower_bound(group, positions[0], positions[0] + 1), len(group)):
            tag = group[index]
            if tag.start > positions[-1]:
                break
            found[tag.start] = tag.label_
    return [found.get(i) or doc[i].tag_ or UNKNOWN_TAG for i in positions]


def _parsed(doc: Doc) -> SpanGroup:
    group = aligned_group(doc, CONSTITUENTS)
    if group is None:
        raise StructlearnError("SL020", text=doc.text[:40])
    return group


def _constituent(span: Span) -> _Node:
    node = _find(span)
    if node is None:
        raise NonConstituentException("SL021", text=span.text)
    return node


def _find(span: Span) -> _Node | None:
    """The constituent of this span, None if it is none."""
    doc, group = span.doc, _parsed(span.doc)
    start, end = trimmed(span)
    if start == end:
        return _Node(doc, group, start, end, 0, 0)
    first = last = lower_bound(group, start, end)
    while last < len(group) and (group[last].start, group[last].end) == (start, end):
        last += 1
    if first == last and end - start > 1 and trimmed(_sentence(doc, start)) != (start, end):
        return None
    return _Node(doc, group, start, end, first, last)


def trimmed(span: Span) -> tuple[int, int]:
    """Start and end without the white space at the ends; equal if there is nothing else."""
    doc, start, end = span.doc, span.start, span.end
    while start < end and doc[start].is_space:
        start += 1
    while start < end and doc[end - 1].is_space:
        end -= 1
    return start, end


def _sentence(doc: Doc, index: int) -> Span:
    """The sentence of a token."""
    return doc[index : index + 1].sent if doc.has_annotation("SENT_START") else doc[:]


def _preorder(node: _Node) -> Iterator[tuple[int, int]]:
    """(start, end) of a constituent and of all below it, words included, each once."""
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


def _tree(node: _Node, escape: Callable[[str], str] = str) -> Tree:
    positions = [i for i in range(node.start, node.end) if not node.doc[i].is_space]
    words = [escape(node.doc[i].text) for i in positions]
    tags = [escape(tag) for tag in constituent_tags(node.doc, positions)]
    spans = []
    for index in range(node.first, len(node.group)):
        bracket = node.group[index]
        if bracket.start >= node.end:
            break
        start, end = (bisect_left(positions, place) for place in (bracket.start, bracket.end))
        spans.append((bracket.label_, start, end))
    if node.first == node.last and len(words) > 1:
        spans.insert(0, (ROOT, 0, len(words)))
    return Tree.from_spans(words, tags, spans)


# --- attachments of prepositional phrases ---------------------------------------------------------
class PPAttachment(NamedTuple):
    """A prepositional phrase after a verb and its object, and which of the two it belongs to.

    pp: the phrase. label: "V" or "N". verb, noun, prep, object: the verb, the head of its object,
    the preposition, and the head of what follows it. prob: of the label; None where the group
    carries no scores (gold annotation; documents joined by `Doc.from_docs`, which drops them).
    """

    pp: Span
    label: str
    verb: Token
    noun: Token
    prep: Token
    object: Token
    prob: float | None

    @property
    def head(self) -> Token | None:
        """The verb or the noun that the phrase is attached to; None for any other label."""
        return {VERB: self.verb, NOUN: self.noun}.get(self.label)


def pp_attachments(doc: Doc) -> tuple[PPAttachment, ...]:
    """The attachments in the order of their prepositions; empty where no attacher has run.

    RAISES: SL027 if the group is not as the component writes it.
    """
    group = aligned_group(doc, PP_ATTACHMENTS)
    return () if group is None else tuple(_attachment(group, n) for n in range(_n_sites(group)))


def pp_head(token: Token) -> Token | None:
    """For a preposition the verb or the noun that its phrase is attached to.

    None for all other tokens, and where no attacher has run, found no choice to make, or is not
    confident enough to report it. RAISES: SL027 as `pp_attachments`.
    """
    group = aligned_group(token.doc, PP_ATTACHMENTS)
    if group is None:
        return None
    low, high = 0, _n_sites(group)
    while low < high:
        middle = (low + high) // 2
        if _preposition(group, middle).start < token.i:
            low = middle + 1
        else:
            high = middle
    if low == _n_sites(group) or _preposition(group, low).start != token.i:
        return None
    return _attachment(group, low).head


def site_spans(sites: Iterable[Site]) -> Iterator[tuple[str, int, int]]:
    """The spans of `doc.spans["pp_attachments"]`, as (label, start, end): five for each site."""
    for site in sites:
        yield site.label, site.start, site.end
        heads = (site.verb, site.noun, site.preposition, site.object)
        yield from ((role, head, head + 1) for role, head in zip(PP_ROLES, heads, strict=True))


def _n_sites(group: SpanGroup) -> int:
    number, rest = divmod(len(group), PP_SITE)
    if rest:
        raise StructlearnError("SL027", text=group.doc.text[:40])
    return number


def _preposition(group: SpanGroup, number: int) -> Span:
    return group[number * PP_SITE + 1 + PP_ROLES.index("prep")]


def _attachment(group: SpanGroup, number: int) -> PPAttachment:
    first = number * PP_SITE
    pp, *parts = (group[index] for index in range(first, first + PP_SITE))
    if tuple(part.label_ for part in parts) != PP_ROLES:
        raise StructlearnError("SL027", text=pp.doc.text[:40])
    scores = group_scores(group)
    prob = None if scores is None else float(scores[first])
    return PPAttachment(pp, pp.label_, *(part[0] for part in parts), prob)


# --- semantic roles -------------------------------------------------------------------------------
class FrameArgument(NamedTuple):
    """What takes part in a frame, or one piece of it.

    label: "ARG0" to "ARG5", "ARGA", "ARGM-TMP" ...; "R-" before it for a relative pronoun, "C-" for
    the later pieces of an argument in several. prob: of exactly this span with this label; None
    where the group carries no scores (gold annotation; documents joined by `Doc.from_docs`, which
    drops them).
    """

    span: Span
    label: str
    prob: float | None


class Frame(NamedTuple):
    """A predicate and its arguments, from left to right.

    roleset: the sense of the predicate, such as "give.01"; None if it is not known. prob: that it
    is a predicate; None where the group carries no scores.
    """

    predicate: Span
    roleset: str | None
    arguments: tuple[FrameArgument, ...]
    prob: float | None

    def get(self, label: str) -> Span | None:
        """The first argument with this label; None if there is none."""
        return next((part.span for part in self.arguments if part.label == label), None)


def frames(doc: Doc) -> tuple[Frame, ...]:
    """The frames in the order of their predicates; empty where no labeler has run.

    RAISES: SL033 if the group is not as the component writes it.
    """
    group = aligned_group(doc, SRL)
    found: list[Frame] = []
    index = 0
    while group is not None and index < len(group):
        found.append(_frame(group, index))
        index += 1 + len(found[-1].arguments)
    return tuple(found)


def srl(token: Token) -> Frame | None:
    """The frame whose predicate the token is; None for all other tokens, and where no labeler has
    run. RAISES: SL033 as `frames`.
    """
    group = aligned_group(token.doc, SRL)
    if group is None:
        return None
    # Predicates before `low` come before the token, those from `high` on do not.
    low, high = 0, len(group)
    while low < high:
        middle = (low + high) // 2
        first = _predicate(group, middle)
        if group[first].start < token.i:
            low = middle + 1
        else:
            high = first
    if low == len(group) or group[low].start != token.i:
        return None
    return _frame(group, low)


def frame_spans(frames: Iterable[PlainFrame]) -> Iterator[tuple[str, int, int, str]]:
    """The spans of `doc.spans["srl"]`, as (label, start, end, kb_id), in the order given.

    frames: by their predicates; the arguments of each by (start, -end).
    """
    for predicate, roleset, arguments in frames:
        yield PREDICATE, predicate, predicate + 1, roleset or ""
        yield from ((label, start, end, "") for label, start, end in arguments)


def _predicate(group: SpanGroup, index: int) -> int:
    """The index of the predicate whose frame the span at `index` belongs to."""
    while index >= 0 and group[index].label_ != PREDICATE:
        index -= 1
    if index < 0:
        raise StructlearnError("SL033", text=group.doc.text[:40])
    return index


def _frame(group: SpanGroup, first: int) -> Frame:
    """The frame that begins at the index `first`."""
    predicate, scores = group[first], group_scores(group)
    following = None
    arguments = []
    for index in range(first + 1, len(group)):
        span = group[index]
        if span.label_ == PREDICATE:
            following = span
            break
        prob = None if scores is None else float(scores[index])
        arguments.append(FrameArgument(span, span.label_, prob))
    disordered = following is not None and following.start < predicate.start
    if predicate.label_ != PREDICATE or disordered:
        raise StructlearnError("SL033", text=predicate.doc.text[:40])
    prob = None if scores is None else float(scores[first])
    return Frame(predicate, predicate.kb_id_ or None, tuple(arguments), prob)


# --- groups ---------------------------------------------------------------------------------------
def realign(doc: Doc, *others: str) -> None:
    """Put our groups in step with the tokens again, after `doc.retokenize()`.

    By where spans are in the text: chunks, constituents and their tags go where these places are
    no longer ends of tokens; all other spans, which others need beside them, grow to whole tokens.
    An attachment goes if two of its words are in one token now, and so does an argument that is now
    the predicate. Getters call it where they see the need, which they do by the last span of a
    group and the last of the tags alone. Call it yourself before a Doc is stored, copied or sent to
    another process (`n_process`), before its groups are read straight from `doc.spans`, and where
    tokens were both merged and split, or the groups are none of a parser's.

    others: keys of further groups, treated as chunks are.
    """
    starts = [token.idx for token in doc]
    ends = [token.idx + len(token) for token in doc]
    for key in dict.fromkeys((*GROUPS, *others)):
        if key not in doc.spans:
            continue
        group, grow = doc.spans[key], key in (PARSE_FAILURES, PP_ATTACHMENTS, SRL)
        kept, spans = [], []
        # The spans themselves cannot be asked: spaCy makes none beyond the end of the Doc.
        for index, stored in enumerate(srsly.msgpack_loads(group.to_bytes())["spans"]):
            span_id, kb_id, label, *tokens, start_char, end_char = _STORED_SPAN.unpack(stored)
            if tokens[0] == tokens[1]:  # empty: it has no place in the text
                continue
            start, last = bisect_right(starts, start_char) - 1, bisect_left(ends, end_char)
            if grow or (starts[start], ends[last]) == (start_char, end_char):
                kept.append(index)
                spans.append(Span(doc, start, last + 1, label, kb_id=kb_id, span_id=span_id))
        if key in _SWALLOWED:
            left = _SWALLOWED[key](spans)
            kept, spans = [kept[i] for i in left], [spans[i] for i in left]
        attrs = dict(group.attrs)
        if N_TOKENS in attrs:
            attrs[N_TOKENS] = len(doc)
        if (scores := group_scores(group)) is not None:
            attrs["scores"] = scores[kept]
        doc.spans[key] = SpanGroup(doc, name=key, attrs=attrs, spans=spans)


# A span in SpanGroup.to_bytes: id, kb_id, label, tokens from and to, characters from and to.
_STORED_SPAN = Struct(">QQQllll")


def _sites_left(spans: Sequence[Span]) -> list[int]:
    """The indices of the attachments whose words are tokens of their own."""
    sites = (range(first, first + PP_SITE) for first in range(0, len(spans), PP_SITE))
    return [
        index
        for site in sites
        if len({spans[part].start for part in site[1:] if part < len(spans)}) == len(PP_ROLES)
        for index in site
    ]


def _roles_left(spans: Sequence[Span]) -> list[int]:
    """The indices of the predicates, and of their arguments that are other tokens."""
    left, predicate = [], None
    for index, span in enumerate(spans):
        place = (span.start, span.end)
        if span.label_ == PREDICATE:
            predicate = place
        elif place == predicate:
            continue
        left.append(index)
    return left


_SWALLOWED = {PP_ATTACHMENTS: _sites_left, SRL: _roles_left}


def aligned_group(doc: Doc, key: str) -> SpanGroup | None:
    """`doc.spans[key]`, in step with the tokens as far as can be seen; None if there is none."""
    group = doc.spans.get(key)
    if group is None:
        return None
    # What happened behind the last span of a group that nests, the last of the tags shows, or the
    # number of tokens that were parsed.
    tags, brackets = (doc.spans.get(other) for other in (CONSTITUENT_TAGS, CONSTITUENTS))
    same = brackets is None or brackets.attrs.get(N_TOKENS, len(doc)) == len(doc)
    if same and _in_step(group) and (tags is None or _in_step(tags)):
        return group
    realign(doc, key)
    return doc.spans[key]


def align(doc: Doc) -> None:
    """Call `realign` if any span at all is out of step, in any group: before a Doc is stored.

    Others' groups count too, since a Doc with one that is not in step may not be read again.
    """
    if not all(_in_step(group, every=True) for group in doc.spans.values()):
        realign(doc, *doc.spans)


def _in_step(group: SpanGroup, *, every: bool = False) -> bool:
    """Whether the last span, or every one, is of the tokens that it was of when it was made.

    One look-up must not take longer in a Doc of more spans: hence only the last. That fails where
    tokens were merged and others split, and in a group that nests where tokens changed behind its
    last span. Empty spans are always in step.
    """
    for index in range(len(group) - 1, -1, -1):
        try:
            span = group[index]
        except IndexError:  # there are fewer tokens now
            return False
        if span.start == span.end:
            continue
        last = span.doc[span.end - 1]
        if (span.start_char, span.end_char) != (span[0].idx, last.idx + len(last)):
            return False
        if not every:
            break
    return True


def group_scores(group: SpanGroup) -> NDArray | None:
    """The scores of a group, one a span, or None where they are missing or of another length.

    Others may have written a list.
    """
    scores = group.attrs.get("scores")
    if not isinstance(scores, (np.ndarray, list, tuple)) or len(scores) != len(group):
        return None
    return np.asarray(scores)


def _last_starting_by(group: SpanGroup, start: int) -> int:
    """Index of the last span whose first token is at or before `start`, -1 if there is none.

    `group` is sorted by start, which is how it is written and how joining documents leaves it.
    """
    low, high = 0, len(group)
    while low < high:
        middle = (low + high) // 2
        if group[middle].start <= start:
            low = middle + 1
        else:
            high = middle
    return low - 1


def lower_bound(group: SpanGroup, start: int, end: int) -> int:
    """Index of the first span that is not before (start, end) in pre-order.

    `group` is sorted by start, then by end from last to first.
    """
    low, high = 0, len(group)
    while low < high:
        middle = (low + high) // 2
        span = group[middle]
        if (span.start, -span.end) < (start, -end):
            low = middle + 1
        else:
            high = middle
    return low
