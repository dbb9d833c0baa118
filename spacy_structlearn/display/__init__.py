"""Drawings of trees, chunks, attachments and frames.

Notebooks display the drawings, and frames. After `%load_ext spacy_structlearn.display`, they also
display trees, and Docs and sentences that components of this package have annotated. Other Spans
are displayed as text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span


def load_ipython_extension(ipython: Any) -> None:
    """Let IPython display trees as SVG, and annotated Docs and sentences as HTML."""
    for mime, kind, draw in _drawings():
        ipython.display_formatter.formatters[mime].for_type(kind, draw)


def unload_ipython_extension(ipython: Any) -> None:
    """Undo `load_ipython_extension`."""
    for mime, kind, _ in _drawings():
        ipython.display_formatter.formatters[mime].pop(kind, None)


def _drawings() -> list[tuple[str, type, Callable[[Any], str | None]]]:
    from spacy.tokens import Doc, Span

    from ..trees.tree import Tree
    from .trees import tree_svg

    svg = "image/svg+xml"
    html = "text/html"
    return [
        (svg, Tree, tree_svg),
        (html, Doc, _doc_html),
        (html, Span, _sentence_html),
    ]


def _doc_html(doclike: Doc | Span) -> str | None:
    """Draw a Doc as a page in a frame; None, for the usual display, if it has no layers."""
    from . import page

    if not any(key in doclike.doc.spans for key in page.LAYERS):
        return None
    return page.page(doclike)._repr_html_()


def _sentence_html(span: Span) -> str | None:
    """Draw sentences like a Doc; None for a Span that is only a part of one."""
    from .html import sentences

    whole = [shown.span for shown in sentences(span)]
    if not whole or (span.start, span.end) != (whole[0].start, whole[-1].end):
        return None
    return _doc_html(span)
