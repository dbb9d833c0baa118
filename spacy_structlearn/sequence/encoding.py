"""Spans to IOB2 tags and back (Ramshaw & Marcus 1995; Tjong Kim Sang & Veenstra 1999).

Reading is lenient, with the rule of the CoNLL evaluation script (conlleval): a chunk begins at
B-T, and at I-T when the tag before it is O, of another label, or not there; it goes on through
I-T. So every sequence of tags has one reading, and correct ones keep theirs.
"""

from collections.abc import Iterable, Sequence

from ..errors import StructlearnError

Span = tuple[str, int, int]
"""Label, first token, and the token after the last."""


def encode(spans: Iterable[Span], length: int) -> list[str]:
    """IOB2 tags of `length` tokens.

    spans: (label, start, end), in any order; end is the token after the last.
    Raises StructlearnError SL211 for a span that is empty, has no label, or does not fit, SL212
    for two spans that overlap.
    """
    tags = ["O"] * length
    previous: Span | None = None
    for span in sorted(spans, key=lambda span: span[1:]):
        label, start, end = span
        if not (label and 0 <= start < end <= length):
            raise StructlearnError("SL211", span=tuple(span), length=length)
        if previous is not None and start < previous[2]:
            raise StructlearnError("SL212", first=tuple(previous), second=tuple(span))
        tags[start] = f"B-{label}"
        tags[start + 1 : end] = [f"I-{label}"] * (end - start - 1)
        previous = span
    return tags


def decode(tags: Sequence[str]) -> list[Span]:
    """The chunks of IOB2 tags, in order, as (label, start, end).

    Raises StructlearnError SL210 for a tag other than O, B-label and I-label.
    """
    spans: list[Span] = []
    open_label: str | None = None
    start = 0
    for i, tag in enumerate(tags):
        prefix, label = split_tag(tag)
        goes_on = prefix == "I" and label == open_label
        if open_label is not None and not goes_on:
            spans.append((open_label, start, i))
        if not goes_on:
            open_label, start = (None if prefix == "O" else label), i
    if open_label is not None:
        spans.append((open_label, start, len(tags)))
    return spans


def split_tag(tag: str) -> tuple[str, str]:
    """Prefix (O, B or I) and label of an IOB2 tag; the label of O is empty (else SL210)."""
    prefix, _, label = tag.partition("-")
    if tag == "O" or (prefix in ("B", "I") and label):
        return prefix, label
    raise StructlearnError("SL210", tag=tag)
