"""Spans as spaCy stores them, in `SpanGroup.to_bytes` and in a DocBin.

They are read without Span objects, which take time, and which spaCy does not make beyond the end of
a Doc.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from srsly import msgpack

# A span in SpanGroup.to_bytes, after msgpack's mark of 40 bytes.
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
