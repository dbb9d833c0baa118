"""The span groups of this package: written, read, and kept in step with the tokens.

`doc.retokenize()` does not update `doc.spans`: the spans then cover other tokens, or none
(explosion/spaCy#12024). A getter that finds a group out of step with the tokens calls `realign`.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat, takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Span, SpanGroup
from srsly import msgpack

from ...errors import StructlearnError
from ...groups import CONSTITUENT_TAGS, CONSTITUENTS, GROUPS, PARSE_FAILURES, PP_ATTACHMENTS, SRL
from ...roles.propositions import PREDICATE

PP_ROLES = ("verb", "noun", "prep", "object")  # labels of the spans that follow each phrase
PP_SITE = 1 + len(PP_ROLES)  # number of spans of one attachment
N_TOKENS = "n_tokens"  # key in `attrs` of the constituents: length of the Doc that was parsed


Columns = tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]


class _Written(SpanGroup):
    """A group that keeps the columns of its spans until it is changed, because spaCy makes a Span
    for each one that is read. To set the label of this Span does not change the group."""

    columns: Any = None


def _forgetting(name: str) -> Any:
    def method(self: _Written, *args: Any) -> Any:
        self.columns = None
        return getattr(SpanGroup, name)(self, *args)

    return method


for _name in ("__setitem__", "__delitem__", "__iadd__", "append", "extend", "from_bytes"):
    setattr(_Written, _name, _forgetting(_name))


def span_columns(spans: Iterable[Span]) -> Columns:
    """Get the labels of spans as ids, uint64 (n), and their starts and ends, int64 (n)."""
    found = getattr(spans, "columns", None)
    if found is None:
        rows = [(span.label, span.start, span.end) for span in spans]
        found = list(zip(*rows, strict=True)) or ((), (), ())
    kinds = (np.uint64, np.int64, np.int64)
    columns: Any = tuple(np.asarray(*pair) for pair in zip(found, kinds, strict=True))
    if isinstance(spans, _Written):
        spans.columns = columns
    return columns


def set_spans(
    doc: Doc,
    key: str,
    spans: Iterable[tuple[str | int, int, int] | tuple[str | int, int, int, str]],
    scores: NDArray | None = None,
) -> None:
    """Replace `doc.spans[key]` by spans given as (label, start, end) or (label, start, end, kb_id).

    label: a string, or its id in the vocab.
    scores: float32, one per span.
    """
    # Made by `map`, since documents have many spans. The arguments after the label are vectors.
    labels, starts, ends, *kb_ids = list(zip(*spans, strict=True)) or ((), (), ())
    add, none = doc.vocab.strings.add, repeat(None)
    ids = {label: add(label) if isinstance(label, str) else label for label in {*labels}}
    labels = tuple(map(ids.__getitem__, labels))
    made = list(map(Span, repeat(doc), starts, ends, labels, none, none, *kb_ids))
    attrs: dict[str, Any] = {} if scores is None else {"scores": scores}
    group = _Written(doc, name=key, spans=made, attrs=attrs)
    group.columns = labels, starts, ends
    doc.spans[key] = group


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


def as_doc(span: Span) -> Doc:
    """Copy a part of a Doc, such as a sentence, with all layers of this package.

    `Span.as_doc` of spaCy copies no span groups. Spans that end outside of the part are left out:
    an attachment with all of its words, and a predicate with all of its arguments.
    """
    copied = span.as_doc(copy_user_data=True)
    for key in GROUPS:
        if key not in span.doc.spans:
            continue
        group, scores = scored_group(span.doc, key)
        inside = [span.start <= own.start and own.end <= span.end for own in group]
        if key == PP_ATTACHMENTS:
            sites = [all(inside[i : i + PP_SITE]) for i in range(0, len(inside), PP_SITE)]
            inside = [site for site in sites for _ in range(PP_SITE)]
        if key == SRL:
            predicate = False
            for i, own in enumerate(group):
                predicate = inside[i] if own.label_ == PREDICATE else predicate
                inside[i] &= predicate
        rows = [
            (own.label, own.start - span.start, own.end - span.start, own.kb_id_)
            for own, kept in zip(group, inside, strict=True)
            if kept
        ]
        set_spans(copied, key, rows, None if scores is None else scores[inside])
        if N_TOKENS in group.attrs:
            copied.spans[key].attrs[N_TOKENS] = len(copied)
    return copied


def scored_group(doc: Doc, key: str) -> tuple[SpanGroup, NDArray | None]:
    """Get a group, which is empty if it is missing, and its scores; None if these are missing."""
    group = aligned_group(doc, key)
    return (SpanGroup(doc), None) if group is None else (group, group_scores(group))


def rounded(prob: float | None) -> float | None:
    """Round a probability for JSON."""
    return None if prob is None else round(prob, 4)


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


def last_starting_by(group: SpanGroup, start: int) -> int:
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


def spans_from(group: SpanGroup, index: int, end: int) -> Iterator[Span]:
    """Iterate over the spans from an index on that start before `end`; `group` is sorted."""
    return takewhile(
        lambda span: span.start < end, map(group.__getitem__, range(index, len(group)))
    )


def bounds(part: Doc | Span) -> tuple[Doc, int, int]:
    """Get the Doc, and the tokens where the part of it starts and ends.

    Raises StructlearnError for other objects.
    """
    if not isinstance(part, (Doc, Span)):
        raise StructlearnError("SL141", wanted="a Doc or a Span", kind=type(part).__name__)
    return (part, 0, len(part)) if isinstance(part, Doc) else (part.doc, part.start, part.end)


def words_of(part: Doc | Span) -> list[int]:
    """Get the indices in the Doc of the tokens that are not white space."""
    return [token.i for token in part if not token.is_space]


# --- stored spans ---------------------------------------------------------------------------------
STORED_SPAN = np.dtype(
    [("mark", "V2"), ("id", ">u8"), ("kb_id", ">u8"), ("label", ">u8")]
    + [(name, ">i4") for name in ("start", "end", "start_char", "end_char")]
)
_MARK = b"\xc4\x28"
_SPANS = re.compile(rb"\xa5spans(?:[\x90-\x9f]|\xdc..|\xdd....)", re.DOTALL)


def stored_groups(groups: bytes) -> dict[str, bytes]:
    """Return the groups of a Doc by their keys, each as in SpanGroup.to_bytes.

    groups: as in `DocBin.span_groups`; empty if the Doc has none.
    """
    found = dict(_unpacked(groups)) if groups else {}
    return {key: group for group, keys in found.items() for key in keys}


def stored_spans(group: bytes) -> bytes:
    """Return the spans of a stored group, each as `STORED_SPAN`. They are at its end."""
    found = _SPANS.search(group)
    spans = group[found.end() :] if found else b""
    if spans and len(spans) % STORED_SPAN.itemsize == 0 and spans.startswith(_MARK):
        return spans
    return b"".join(_MARK + span for span in _unpacked(group)["spans"])


def _unpacked(data: bytes) -> Any:
    # Without hooks: srsly would look them up each time.
    return msgpack.unpackb(data, object_pairs_hook=dict, raw=False)
