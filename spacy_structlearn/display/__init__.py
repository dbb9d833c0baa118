"""Drawings of trees, chunks, attachments, frames and learned networks.

In a notebook, what the functions return shows itself as a picture; after
`%load_ext spacy_structlearn.display` so do trees, Bayes nets, and Docs that our components have
annotated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from ..classification import BayesNet
    from .html import Svg


def load_ipython_extension(ipython: Any) -> None:
    """Let IPython show every `Tree` and fitted `BayesNet` as SVG, and every Doc with one of our
    layers as HTML.
    """
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
    """The network; None, so that it is shown as always, where nothing was learned."""
    from .networks import network_svg

    return network_svg(net.parents) if net.parents else None


def _doc_html(doc: Doc) -> str | None:
    """The page of a Doc in a frame; None, so that it is shown as always, where it has no layers."""
    from . import page

    if not any(key in doc.spans for key in page.LAYERS):
        return None
    return page.page(doc)._repr_html_()
