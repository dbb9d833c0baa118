"""The extension attributes of the package: views of `doc.spans`.

A Doc without a layer has empty values, like `doc.ents`: an empty tuple, iterator, string or dict,
or None. `"srl" in doc.spans` tells whether a component has run and found nothing.

A prediction is stored once, as a SpanGroup. The getters find what they need by bisection, so one
look-up in a document of n spans costs O(log n). They are module-level functions, or partials of
one, because lambdas cannot be pickled for `n_process` under spawn. A name that another package has
taken is left to that package. All of them can be called as functions of this module, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any

from spacy.tokens import Doc, Span, Token

from .brackets import (
    children,
    constituent_prob,
    constituent_tags,
    constituents,
    is_constituent,
    labels,
    parent,
    parse_failures,
    parse_string,
    sentences,
    tree,
    trees,
)
from .chunks import (
    PPAttachment,
    dep_prob,
    head,
    np_chunk_prob,
    np_chunks,
    np_iob,
    pp_attachments,
    pp_head,
    sent_start_prob,
    site_spans,
    tag_probs,
)
from .phrases_and_clauses import Clause, clauses, measures, phrases
from .propositions import Part, Proposition, propositions, to_frame
from .roles import Frame, FrameArgument, frame_spans, frames, srl
from .span_groups import (
    align,
    aligned_group,
    as_doc,
    group_scores,
    realign,
    set_span_probs,
    set_spans,
    span_probs,
)

# Besides the extensions themselves.
__all__ = [
    "Clause",
    "Frame",
    "FrameArgument",
    "PPAttachment",
    "Part",
    "Proposition",
    "align",
    "aligned_group",
    "as_doc",
    "constituent_tags",
    "frame_spans",
    "group_scores",
    "realign",
    "sentences",
    "set_spans",
    "site_spans",
    "to_frame",
]


def _of_token(getter: Callable[[Span], Any], token: Token) -> Any:
    """Call the getter of spans for one token."""
    return getter(token.doc[token.i : token.i + 1])


_OF_SPANS_AND_TOKENS = (labels, parse_string, constituents, children, parent)
_OF_TOKENS = [update_wrapper(partial(_of_token, of), of) for of in _OF_SPANS_AND_TOKENS]
OF_SPANS_AND_TOKENS = tuple(getter.__name__ for getter in _OF_SPANS_AND_TOKENS)
_OF_SPANS = (tree, is_constituent, constituent_prob, np_chunk_prob, head)
_OF_PARTS = (clauses, propositions, measures)
GETTERS: dict[type, tuple[Callable, ...]] = {
    Doc: (np_chunks, trees, parse_failures, pp_attachments, frames, span_probs, *_OF_PARTS),
    Span: (*_OF_SPANS_AND_TOKENS, *_OF_SPANS, *_OF_PARTS),
    Token: (*_OF_TOKENS, sent_start_prob, tag_probs, np_iob, pp_head, srl, dep_prob),
}
METHODS: dict[type, tuple[Callable, ...]] = {Doc: (phrases,), Span: (phrases,), Token: ()}
SETTERS = {span_probs: set_span_probs}


def register() -> None:
    """Register all extensions whose names are free; safe to call repeatedly, in any process."""
    for target in (Doc, Span, Token):
        given: dict[str, dict[str, Any]] = {}
        given |= {of.__name__: {"getter": of, "setter": SETTERS.get(of)} for of in GETTERS[target]}
        given |= {of.__name__: {"method": of} for of in METHODS[target]}
        for name, functions in given.items():
            if not target.has_extension(name):
                target.set_extension(name, **functions)
