"""Colours of labels, the same ones in our drawings and in those of displaCy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zlib import crc32

from spacy.tokens import Doc

from ..errors import StructlearnError
from ..roles.propositions import base_label

COLORS: Mapping[str, str] = {
    **{"V": "#D55E00", "ARG0": "#56B4E9", "ARG1": "#009E73", "ARG2": "#E69F00", "ARG3": "#CC79A7"},
    **{"ARG4": "#B39DDB", "ARG5": "#A1887F", "ARGA": "#4DB6AC", "ARGM": "#AAAAAA"},
    **{"NP": "#56B4E9", "VP": "#E69F00", "PP": "#009E73", "S": "#B39DDB", "SBAR": "#CC79A7"},
}
"""Colours by label; "ARGM" is for all modifiers. The first five are from Okabe & Ito (2008), for
readers with colour blindness. Black text is legible on each of them.
"""
_OTHERS = sorted(set(COLORS.values()))


def color(label: str) -> str:
    """Return the colour of a label, as "#rrggbb".

    It is that of the label, of the label without R- and C-, or of its part before "-". All other
    labels have one of the same colours, which depends on the label only.
    """
    base = base_label(label.upper())
    names = (label.upper(), base, base.partition("-")[0])
    found = next((COLORS[name] for name in names if name in COLORS), None)
    return found or _OTHERS[crc32(names[-1].encode("utf8", "replace")) % len(_OTHERS)]


def span_options(doc: Doc, key: str) -> dict[str, Any]:
    """Return the options of `displacy.render(doc, style="span")` that draw a layer in colour.

    key: of a group in `doc.spans`, such as "np_chunks", "srl" or "constituents".
    Raises StructlearnError for other objects than Docs, and if the group is missing.
    """
    if not isinstance(doc, Doc):
        raise StructlearnError("SL141", wanted="a Doc", kind=type(doc).__name__)
    if key not in doc.spans:
        raise StructlearnError("SL142", text=doc.text[:40], what=repr(key), component="component")
    labels = sorted({span.label_ for span in doc.spans[key]})
    return {"spans_key": key, "colors": {label: color(label) for label in labels}}
