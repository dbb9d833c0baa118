"""The extension attributes of the package: views of `doc.spans`.

A Doc without a layer has empty values, like `doc.ents`: an empty tuple, iterator, string or dict,
or None. `"srl" in doc.spans` tells whether a component has run and found nothing.

A prediction is stored once, as a SpanGroup. The getters find what they need by bisection, so one
look-up in a document of n spans costs O(log n). They are module-level functions, or partials of
one, because lambdas cannot be pickled for `n_process` under spawn. A name that another package has
taken is left to that package.

`doc.retokenize()` does not update `doc.spans`: the spans then cover other tokens, or none
(explosion/spaCy#12024). A getter that finds a group out of step with the tokens calls `realign`.

Constituents are the brackets of `doc.spans["constituents"]`, single words, and whole sentences.
White space around them is ignored. Their extensions have the names and, for a Doc that was parsed,
the behaviour of benepar's (Kitaev & Klein 2018).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, update_wrapper
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
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
from .stored_spans import STORED_SPAN, stored_spans

PP_ROLES = ("verb", "noun", "prep", "object")  # labels of the spans that follow each phrase
PP_SITE = 1 + len(PP_ROLES)  # number of spans of one attachment
ROOT = "TOP"  # the label above the tree, as in `trees.normalize`
N_TOKENS = "n_tokens"  # key in `attrs` of the constituents: length of the Doc that was parsed
CUT = "cut"  # label in `doc._.parse_failures` of a sentence that was parsed in pieces
UNKNOWN_TAG = "XX"  # the Penn Treebank's tag for words without a tag
ESCAPES = str.maketrans(
    {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
)


# --- sentences, tags and chunks -------------------------------------------------------------------
def sent_start_prob(token: Token) -> float | None:
    """Get the probability that a sentence begins with this token; values below 0.01 become 0.

    None if no sentence splitter has run, or if the scores are missing (see `group_scores`).
    """
    group, scores = scored_group(token.doc, SENTENCE_STARTS)
    if scores is None:
        return None
    index = _last_starting_by(group, token.i)
    return float(scores[index]) if index >= 0 and group[index].start == token.i else 0.0


def tag_probs(token: Token) -> dict[str, float] | None:
    """Get the tags that a token may have and their probabilities, the most probable tag first.

    If the tagger was certain, `token.tag_` alone has probability 1. Tags below 0.01 are left out.
    None for a token without a tag, if no tagger with probabilities has run, or if the scores are
    missing.
    """
    group, scores = scored_group(token.doc, TAG_CANDIDATES)
    if scores is None or not token.tag:
        return None
    first = last = _last_starting_by(group, token.i)
    while first >= 0 and group[first].start == token.i:
        first -= 1
    probabilities = {group[i].label_: float(scores[i]) for i in range(first + 1, last + 1)}
    return probabilities or {token.tag_: 1.0}


def np_chunks(doc: Doc) -> tuple[Span, ...]:
    """Get the NP chunks in order; empty if no chunker has run."""
    return tuple(aligned_group(doc, NP_CHUNKS) or ())


def np_iob(token: Token) -> str:
    """Get "B" for the first token of an NP chunk, "I" inside a chunk, and "O" outside.

    Like `token.ent_iob_`, it is "" if the document has no NP chunks annotated at all.
    """
    group = aligned_group(token.doc, NP_CHUNKS)
    if group is None:
        return ""
    index = _last_starting_by(group, token.i)
    if index < 0 or token.i >= group[index].end:
        return "O"
    return "B" if token.i == group[index].start else "I"


def np_chunk_prob(span: Span) -> float | None:
    """Get the model's probability that exactly this span is an NP chunk.

    None if the span is not one of the predicted chunks, or if the scores are missing.
    """
    group, scores = scored_group(span.doc, NP_CHUNKS)
    index = -1 if scores is None else _last_starting_by(group, span.start)
    if index < 0 or (group[index].start, group[index].end) != (span.start, span.end):
        return None
    return float(scores[index])


# --- constituents ---------------------------------------------------------------------------------
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

    A Doc without sentence boundaries is one sentence. A sentence of white space has no tree. Empty
    if no parser has run.
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
    """Get the tree in brackets, on one line; "" for white space.

    Brackets in words are written as -LRB-, -LSB- and so on, white space in merged tokens as _.
    """
    node = _constituent(span)
    return str(_tree(node, _escaped)) if node.start < node.end else ""


def tree(span: Span) -> Tree | None:
    """Get the constituent as a Tree, with the words unchanged; None for white space.

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
    start, end = trimmed(_sentence(node.doc, node.start))
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


def _of_token(getter: Callable[[Span], Any], token: Token) -> Any:
    """Call the getter of spans for one token."""
    return getter(token.doc[token.i : token.i + 1])


def sentences(doc: Doc) -> Iterator[Span]:
    """Iterate over the sentences; a Doc without sentence boundaries is one sentence."""
    return doc.sents if doc.has_annotation("SENT_START") else iter([doc[:]])


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
    tags = {}
    group = aligned_group(doc, CONSTITUENT_TAGS)
    if group is not None and len(positions):
        for index in range(lower_bound(group, positions[0], positions[0] + 1), len(group)):
            tag = group[index]
            if tag.start > positions[-1]:
                break
            tags[tag.start] = tag.label_
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
    if first == last and end - start > 1 and trimmed(_sentence(doc, start)) != (start, end):
        return None
    return _Constituent(doc, group, start, end, first, last)


def trimmed(span: Span) -> tuple[int, int]:
    """Get start and end without white space at the ends; equal if there is nothing else."""
    doc, start, end = span.doc, span.start, span.end
    while start < end and doc[start].is_space:
        start += 1
    while start < end and doc[end - 1].is_space:
        end -= 1
    return start, end


def _sentence(doc: Doc, index: int) -> Span:
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
    """A prepositional phrase after a verb and its object, and the one that it attaches to.

    label: "V" or "N".
    noun, object: the heads of the objects of the verb and of the preposition. For phrases behind
        another one, the noun may be the object of that one.
    prob: probability of the label; None if the scores are missing.
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
        """The verb or noun that the phrase attaches to; None for labels other than V and N."""
        return {VERB: self.verb, NOUN: self.noun}.get(self.label)


def pp_attachments(doc: Doc) -> tuple[PPAttachment, ...]:
    """Get the attachments in the order of their prepositions; empty if no attacher has run.

    Raises StructlearnError if the group is malformed.
    """
    group = aligned_group(doc, PP_ATTACHMENTS)
    return () if group is None else tuple(_attachment(group, n) for n in range(_n_sites(group)))


def pp_head(token: Token) -> Token | None:
    """Get the verb or noun that the phrase of a preposition attaches to.

    None for all other tokens, if no attacher has run, and for prepositions without a site or below
    `min_confidence`. Raises StructlearnError if the group is malformed.
    """
    group = aligned_group(token.doc, PP_ATTACHMENTS)
    if group is None:
        return None
    preps = range(1 + PP_ROLES.index("prep"), _n_sites(group) * PP_SITE, PP_SITE)
    number = bisect_left(preps, token.i, key=lambda index: group[index].start)
    if number == len(preps) or group[preps[number]].start != token.i:
        return None
    return _attachment(group, number).head


def site_spans(sites: Iterable[Site]) -> Iterator[tuple[str, int, int]]:
    """Iterate over the spans of `doc.spans["pp_attachments"]`: (label, start, end), five a site."""
    for site in sites:
        yield site.label, site.start, site.end
        yield from ((role, head, head + 1) for role, head in zip(PP_ROLES, site[:4], strict=True))


def _n_sites(group: SpanGroup) -> int:
    number, rest = divmod(len(group), PP_SITE)
    if rest:
        raise StructlearnError("SL027", text=group.doc.text[:40])
    return number


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
    """An argument of a frame, or one piece of a discontinuous argument.

    label: "ARG0" to "ARG5", "ARGA", "ARGM-TMP" and so on, with the prefix "R-" for relative
        pronouns and "C-" for the second and later pieces of an argument.
    prob: probability of exactly this span with this label; None if the scores are missing.
    """

    span: Span
    label: str
    prob: float | None


class Frame(NamedTuple):
    """A predicate and its arguments. Notebooks draw it over its sentence.

    For JSON, use `spacy_structlearn.as_dict(doc)`, because a frame contains Spans.
    roleset: the sense of the predicate, such as "give.01"; None if it is not known.
    prob: probability that the token is a predicate; None if the scores are missing.
    """

    predicate: Span
    roleset: str | None
    arguments: tuple[FrameArgument, ...]
    prob: float | None

    def get(self, label: str) -> Span | None:
        """Get the first argument with this label; None if there is none."""
        return next((part.span for part in self.arguments if part.label == label), None)

    def _repr_html_(self) -> str:
        from ..display.frames import frame_line
        from ..display.html import fragment, sentences

        return fragment(
            self.predicate.doc, [frame_line(s, self) for s in sentences(self.predicate)]
        )


def frames(doc: Doc) -> tuple[Frame, ...]:
    """Get the frames in the order of their predicates; empty if no labeler has run.

    Raises StructlearnError if the group is malformed.
    """
    group = aligned_group(doc, SRL) or ()
    all_frames: list[Frame] = []
    index = 0
    while index < len(group):
        all_frames.append(_frame(group, index))
        index += 1 + len(all_frames[-1].arguments)
    return tuple(all_frames)


def srl(token: Token) -> Frame | None:
    """Get the frame whose predicate is this token; None for all other tokens.

    Raises StructlearnError if the group is malformed.
    """
    group = aligned_group(token.doc, SRL)
    if group is None:
        return None
    # Spans of one frame have the same predicate, and frames are sorted by it.
    place = bisect_left(
        range(len(group)), token.i, key=lambda index: group[_predicate(group, index)].start
    )
    if place == len(group) or group[place].start != token.i:
        return None
    return _frame(group, place)


def frame_spans(frames: Iterable[PlainFrame]) -> Iterator[tuple[str, int, int, str]]:
    """Iterate over the spans of `doc.spans["srl"]` as (label, start, end, kb_id).

    frames: sorted by predicate, the arguments of each by (start, -end).
    """
    for predicate, roleset, arguments in frames:
        yield PREDICATE, predicate, predicate + 1, roleset or ""
        yield from ((label, start, end, "") for label, start, end in arguments)


def _predicate(group: SpanGroup, index: int) -> int:
    """Find the index of the predicate in whose frame the span at `index` is."""
    while index >= 0 and group[index].label_ != PREDICATE:
        index -= 1
    if index < 0:
        raise StructlearnError("SL033", text=group.doc.text[:40])
    return index


def _frame(group: SpanGroup, first: int) -> Frame:
    """Read the frame that begins at the index `first`."""
    predicate, scores = group[first], group_scores(group)
    sound = predicate.label_ == PREDICATE
    arguments = []
    for index in range(first + 1, len(group)):
        span = group[index]
        if span.label_ == PREDICATE:
            sound = sound and span.start >= predicate.start
            break
        prob = None if scores is None else float(scores[index])
        arguments.append(FrameArgument(span, span.label_, prob))
    if not sound:
        raise StructlearnError("SL033", text=predicate.doc.text[:40])
    prob = None if scores is None else float(scores[first])
    return Frame(predicate, predicate.kb_id_ or None, tuple(arguments), prob)


# --- groups ---------------------------------------------------------------------------------------
def set_spans(
    doc: Doc,
    key: str,
    spans: Iterable[tuple[str | int, int, int] | tuple[str | int, int, int, str]],
    scores: NDArray | None = None,
) -> None:
    """Replace `doc.spans[key]` by spans given as (label, start, end) or (label, start, end, kb_id).

    scores: float32, one per span.
    """
    # Made by `map`, since documents have many spans. The arguments after the label are vectors.
    labels, starts, ends, *kb_ids = list(zip(*spans, strict=True)) or ((), (), ())
    none = repeat(None)
    group = list(map(Span, repeat(doc), starts, ends, labels, none, none, *kb_ids))
    attrs = None if scores is None else {"scores": scores}
    doc.spans[key] = SpanGroup(doc, name=key, spans=group, attrs=attrs)


def realign(doc: Doc, *others: str) -> None:
    """Align the groups of this package with the tokens again, after `doc.retokenize()`.

    Spans are found by their characters. Chunks, constituents and their tags are dropped if they no
    longer begin and end at token boundaries. All other spans grow to whole tokens. An attachment is
    dropped if two of its words are now in one token, an argument if it is now the predicate itself.
    Getters call this when they see the need. Call it yourself before a Doc is stored, copied or
    sent to another process (`n_process`), before its groups are read from `doc.spans`, and if
    tokens were both merged and split or there is no parser.

    others: keys of further groups, which are treated like chunks.
    """
    starts = [token.idx for token in doc]
    ends = [token.idx + len(token) for token in doc]
    for key in dict.fromkeys((*GROUPS, *others)):
        if key not in doc.spans:
            continue
        group, grow = doc.spans[key], key in (PARSE_FAILURES, PP_ATTACHMENTS, SRL)
        kept, spans = [], []
        # Read the stored form: spaCy makes no Span objects beyond the end of the Doc.
        stored = np.frombuffer(stored_spans(group.to_bytes()), dtype=STORED_SPAN)
        for index, (_, span_id, kb_id, label, *tokens, start_char, end_char) in enumerate(
            stored.tolist()
        ):
            if tokens[0] == tokens[1]:  # empty: it covers no characters
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


def _sites_left(spans: Sequence[Span]) -> list[int]:
    """Get the indices of the attachments whose words are still separate tokens."""
    sites = (range(first, first + PP_SITE) for first in range(0, len(spans), PP_SITE))
    return [
        index
        for site in sites
        if len({spans[part].start for part in site[1:] if part < len(spans)}) == len(PP_ROLES)
        for index in site
    ]


def _roles_left(spans: Sequence[Span]) -> list[int]:
    """Get the indices of the predicates, and of the arguments that are not their predicate."""
    left, predicate = [], None
    for index, span in enumerate(spans):
        place = (span.start, span.end)
        if span.label_ == PREDICATE or place != predicate:
            left.append(index)
        if span.label_ == PREDICATE:
            predicate = place
    return left


_SWALLOWED = {PP_ATTACHMENTS: _sites_left, SRL: _roles_left}


def aligned_group(doc: Doc, key: str) -> SpanGroup | None:
    """Get `doc.spans[key]`, realigned if it is seen to be out of step; None if there is none."""
    group = doc.spans.get(key)
    if group is None:
        return None
    # Checks of single spans keep look-ups fast. They miss a merge and a split whose shifts cancel
    # and, without a parser, changes after the last span of a group.
    tags, brackets = (doc.spans.get(other) for other in (CONSTITUENT_TAGS, CONSTITUENTS))
    same = brackets is None or brackets.attrs.get(N_TOKENS, len(doc)) == len(doc)
    if same and _in_step(group) and (tags is None or _in_step(tags)):
        return group
    realign(doc, key)
    return doc.spans[key]


def align(doc: Doc) -> None:
    """Call `realign` if any span of any group is out of step. For Docs that are to be stored.

    The groups of other components count too: spaCy may fail to read a Doc with one out of step.
    """
    if not all(_in_step(group, every=True) for group in doc.spans.values()):
        realign(doc, *doc.spans)


def _in_step(group: SpanGroup, *, every: bool = False) -> bool:
    """Check whether the last span, or every span, still covers the tokens that it was made from.

    Empty spans are always in step.
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
    """Get the scores of a group, one per span. None if they are missing or of another length.

    Gold annotation has no scores, and `Doc.from_docs` drops them. Other components may have written
    a list.
    """
    scores = group.attrs.get("scores")
    if not isinstance(scores, (np.ndarray, list, tuple)) or len(scores) != len(group):
        return None
    return np.asarray(scores)


def scored_group(doc: Doc, key: str) -> tuple[SpanGroup | None, NDArray | None]:
    """Get a group and its scores; None if missing."""
    group = aligned_group(doc, key)
    return group, None if group is None else group_scores(group)


def span_probs(doc: Doc) -> dict[str, list[float]]:
    """Get the probabilities of all span groups of this package that have any, by their key.

    They are stored with the groups, except by `Doc.to_json`. With underscore=["span_probs"], it
    stores them too, and `Doc.from_json` restores them, where the extensions are registered.
    """
    found = ((key, group_scores(doc.spans[key])) for key in GROUPS if key in doc.spans)
    return {key: scores.tolist() for key, scores in found if scores is not None}


def set_span_probs(doc: Doc, probs: Mapping[str, Sequence[float]]) -> None:
    """Set the probabilities of span groups, given by their key."""
    for key, scores in probs.items():
        doc.spans[key].attrs["scores"] = np.array(scores, dtype=np.float32)


def _last_starting_by(group: SpanGroup, start: int) -> int:
    """Get the index of the last span that starts at or before `start`; -1 if there is none."""
    return bisect_right(range(len(group)), start, key=lambda index: group[index].start) - 1


def lower_bound(group: SpanGroup, start: int, end: int) -> int:
    """Get the index of the first span that is not before (start, end) in pre-order.

    `group` is sorted by start, then by end from last to first.
    """

    def place(index: int) -> tuple[int, int]:
        span = group[index]
        return span.start, -span.end

    return bisect_left(range(len(group)), (start, -end), key=place)


# --- registration ---------------------------------------------------------------------------------
_OF_SPANS_AND_TOKENS = (labels, parse_string, constituents, children, parent)
_OF_TOKENS = [update_wrapper(partial(_of_token, of), of) for of in _OF_SPANS_AND_TOKENS]
OF_SPANS_AND_TOKENS = tuple(getter.__name__ for getter in _OF_SPANS_AND_TOKENS)
GETTERS: dict[type, tuple[Callable, ...]] = {
    Doc: (np_chunks, trees, parse_failures, pp_attachments, frames, span_probs),
    Span: (*_OF_SPANS_AND_TOKENS, tree, is_constituent, constituent_prob, np_chunk_prob),
    Token: (*_OF_TOKENS, sent_start_prob, tag_probs, np_iob, pp_head, srl),
}
SETTERS = {span_probs: set_span_probs}


def register() -> None:
    """Register all extensions whose names are free; safe to call repeatedly, in any process."""
    from . import phrases  # which reads the extensions of this module

    of_parts = {Doc: phrases.GETTERS, Span: phrases.GETTERS, Token: ()}
    for target, getters in GETTERS.items():
        for getter in (*getters, *of_parts[target]):
            if not target.has_extension(getter.__name__):
                setter = SETTERS.get(getter)
                target.set_extension(getter.__name__, getter=getter, setter=setter)
    for target in (Doc, Span):
        for method in phrases.METHODS:
            if not target.has_extension(method.__name__):
                target.set_extension(method.__name__, method=method)
