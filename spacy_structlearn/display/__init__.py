"""Drawings of trees, chunks, attachments and frames.

Notebooks display the drawings, and frames. After `%load_ext spacy_structlearn.display`, they also
display trees, and Docs and sentences that components of this package have annotated. Other Spans
are displayed as text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span


def load_ipython_extension(ipython: Any) -> None:
    """Let IPython display trees as SVG, and annotated Docs and sentences as HTML."""
    from spacy.tokens import Doc, Span

    from ..trees.tree import Tree
    from .trees import tree_svg

    formatters = ipython.display_formatter.formatters
    formatters["image/svg+xml"].for_type(Tree, tree_svg)
    formatters["text/html"].for_type(Doc, _doc_html)
    formatters["text/html"].for_type(Span, _sentence_html)


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
