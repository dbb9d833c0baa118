"""Spans to tags and back: IOB2 (Tjong Kim Sang & Veenstra 1999) and IOBES.

Reading is lenient: a tag continues the chunk of the tag before if it is I or E, the tag before is B
or I, and their labels are the same. Any other tag but O begins a chunk. This reads every sequence
of tags in one way, which agrees with seqeval and, on the tags that it knows, with conlleval.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ...errors import StructlearnError
from ...learning.settings import check_argument
from .data import Mask

Span = tuple[str, int, int]
"""Label, first token, and the token after the last."""

SCHEMES: dict[str, str] = {"IOB2": "BI", "IOBES": "BIES"}
"""The prefixes of each scheme, besides O."""

PLAIN = "none"
"""Each token has a label, and there are no chunks."""

# In sequences that `encode` writes: prefixes that must continue a chunk, and prefixes that must be
# continued.
_GOES_ON = {"IOB2": "I", "IOBES": "IE"}
_UNFINISHED = {"IOB2": "", "IOBES": "BI"}


def encode(spans: Iterable[Span], length: int, scheme: str = "IOB2") -> list[str]:
    """Return the tags of `length` tokens.

    spans: (label, start, end), in any order; end is the token after the last.
    Raises StructlearnError if a span is empty, has no label or does not fit, or if two overlap.
    """
    check_argument("encoding", scheme, str, choices=SCHEMES)
    tags = ["O"] * length
    previous: Span | None = None
    for span in sorted(spans, key=lambda span: span[1:]):
        label, start, end = span
        if not (label and 0 <= start < end <= length):
            raise StructlearnError("SL211", span=tuple(span), length=length)
        if previous is not None and start < previous[2]:
            raise StructlearnError("SL212", first=tuple(previous), second=tuple(span))
        tags[start:end] = [f"I-{label}"] * (end - start)
        tags[start] = f"B-{label}"
        if scheme == "IOBES":
            tags[end - 1] = f"E-{label}" if end - start > 1 else f"S-{label}"
        previous = span
    return tags


def decode(tags: Sequence[str], scheme: str = "IOB2") -> list[Span]:
    """Return the chunks of the tags, in order, as (label, start, end).

    Raises StructlearnError if a tag is not in the scheme.
    """
    check_argument("encoding", scheme, str, choices=SCHEMES)
    spans: list[Span] = []
    before = ("O", "")
    start = 0
    for i, tag in enumerate(tags):
        here = split_tag(tag, scheme)
        if not _same_chunk(before, here):
            if before[0] != "O":
                spans.append((before[1], start, i))
            start = i
        before = here
    if before[0] != "O":
        spans.append((before[1], start, len(tags)))
    return spans


def split_tag(tag: str, scheme: str = "IOB2") -> tuple[str, str]:
    """Return prefix and label of a tag of the scheme; the label of O is empty."""
    prefix, _, label = tag.partition("-")
    if tag == "O" or (label and len(prefix) == 1 and prefix in SCHEMES[scheme]):
        return prefix, label
    raise StructlearnError("SL210", tag=tag, scheme=scheme, prefixes=", ".join(SCHEMES[scheme]))


def tag_set(labels: Iterable[str], scheme: str = "IOB2") -> tuple[str, ...]:
    """Return O and the tags of each label in the scheme; with `PLAIN`, the labels themselves."""
    if scheme == PLAIN:
        return tuple(labels)
    check_argument("encoding", scheme, str, choices=SCHEMES)
    return ("O", *(f"{prefix}-{label}" for label in labels for prefix in SCHEMES[scheme]))


def is_of(tags: Sequence[str], scheme: str | None) -> bool:
    """Return whether all are tags of the scheme; never if it is None or `PLAIN`."""
    if scheme in (None, PLAIN):
        return False
    try:
        return all(split_tag(tag, scheme) for tag in tags)
    except StructlearnError:
        return False


def same_chunk(tags: Sequence[str], scheme: str = "IOB2") -> Mask:
    """Return bool (n, n): whether the column's tag continues the chunk of the row's."""
    return _table(tags, scheme, _same_chunk)


def successions(tags: Sequence[str], scheme: str = "IOB2") -> Mask:
    """Return bool (n, n): whether `encode` can write the column's tag after the row's."""

    def may_follow(before: tuple[str, str], here: tuple[str, str]) -> bool:
        apart = before[0] not in _UNFINISHED[scheme] and here[0] not in _GOES_ON[scheme]
        return apart or _same_chunk(before, here)

    return _table(tags, scheme, may_follow)


def endings(tags: Sequence[str], scheme: str = "IOB2") -> Mask:
    """Return bool (n): whether a sentence that `encode` writes may end with each tag."""
    unfinished = _UNFINISHED[scheme]
    return np.array([split_tag(tag, scheme)[0] not in unfinished for tag in tags], dtype=np.bool_)


def _table(tags: Sequence[str], scheme: str, rule: Callable[..., bool]) -> Mask:
    parts = [split_tag(tag, scheme) for tag in tags]
    table = [[rule(before, here) for here in parts] for before in parts]
    return np.array(table, dtype=np.bool_).reshape(len(parts), len(parts))


def _same_chunk(before: tuple[str, str], here: tuple[str, str]) -> bool:
    return here[0] in "IE" and before[0] in "BI" and here[1] == before[1]
