"""Drawings of trees, chunks, attachments, frames and Bayesian networks.

Notebooks display the drawings. After `%load_ext spacy_structlearn.display`, they also display
trees, Bayesian networks, and Docs that components of this package have annotated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from ..classification import BayesNet
    from .html import Svg


def load_ipython_extension(ipython: Any) -> None:
    """Let IPython display trees and fitted Bayesian networks as SVG, and annotated Docs as HTML."""
    from spacy.tokens import Doc

    from ..classification import BayesNet
    from ..trees.tree import Tree
    from .trees import tree_svg

    formatters = ipython.display_formatter.formatters
    formatters["image/svg+xml"].for_type(Tree, tree_svg)
    formatters["image/svg+xml"].for_type(BayesNet, _net_svg)
    formatters["text/html"].for_type(Doc, _doc_html)


def unload_ipython_extension(ipython: Any) -> None:
    """Undo `load_ipython_extension`."""
    from spacy.tokens import Doc

    from ..classification import BayesNet
    from ..trees.tree import Tree

    formatters = ipython.display_formatter.formatters
    for type_ in (Tree, BayesNet):
        formatters["image/svg+xml"].pop(type_, None)
    formatters["text/html"].pop(Doc, None)


def _net_svg(net: BayesNet) -> Svg | None:
    """Draw a network; None, for the usual display, if it has learned nothing."""
    from .networks import network_svg

    return network_svg(net.parents) if net.parents else None


def _doc_html(doc: Doc) -> str | None:
    """Draw a Doc as a page in a frame; None, for the usual display, if it has no layers."""
    from . import page

    if not any(key in doc.spans for key in page.LAYERS):
        return None
    return page.page(doc)._repr_html_()
