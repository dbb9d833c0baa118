"""Attachments of prepositional phrases as HTML: for each phrase the verb and the noun that it could
belong to, and which of the two it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..attachment.sites import NOUN, VERB
from ..errors import StructlearnError
from ..groups import PP_ATTACHMENTS
from .html import (
    GRAY,
    Html,
    LabelledSpan,
    ShownSentence,
    by_sentence,
    extension,
    fragment,
    sentences,
    spans_html,
)

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span

COLORS: Mapping[str, str] = {VERB: "#E69F00", NOUN: "#56B4E9"}
"""Colours of verb and noun (Okabe & Ito 2008); a phrase has that of its head."""


def attachments_html(doclike: Doc | Span) -> Html:
    """The attachments of a Doc, or of the sentences that a Span touches, as HTML: one paragraph for
    each phrase, as `attachment_line` draws it.

    Returns "" where there are none. Raises SL142 if no attacher has run, SL140 if
    `doc._.pp_attachments` is not registered, SL141 for what is no Doc or Span.
    """
    found = sentences(doclike)
    doc = doclike.doc
    if PP_ATTACHMENTS not in doc.spans:
        raise StructlearnError(
            "SL142", text=doc.text[:40], what="PP attachments", component="pp_attacher"
        )
    groups = by_sentence(found, extension(doc, "pp_attachments"), lambda site: site.prep.i)
    lines = (
        attachment_line(sentence, site)
        for sentence, sites in zip(found, groups, strict=True)
        for site in sites
    )
    return fragment(doc, lines)


def attachment_line(sentence: ShownSentence, site: Any) -> str:
    """A site of `doc._.pp_attachments` as one line of HTML: the words from the verb to the end of
    the phrase, verb and noun with their probabilities, and the phrase in the colour of its head.

    What the phrase does not belong to is dotted. See `html.spans_html`.
    """
    doc = site.pp.doc
    spans = []
    for label, head in ((VERB, site.verb), (NOUN, site.noun)):
        chosen = label == site.label
        probability = site.prob
        if probability is not None and not chosen:
            # Two labels, so what is not given to the one is given to the other.
            probability = 1 - probability if site.label in COLORS else None
        note = f"{site.prep.text} -> {head.text}"
        if probability is not None:
            note += f" {probability:.4f}"
        place = sentence.place(doc[head.i : head.i + 1])
        spans.append(
            LabelledSpan(*place, label, probability, COLORS[label], note=note, other=not chosen)
        )
    chosen = next((span for span in spans if not span.other), None)
    label = f"\N{RIGHTWARDS ARROW} {'?' if site.head is None else site.head.text}"
    note = None if chosen is None else chosen.note
    color = GRAY if chosen is None else chosen.color
    spans.append(LabelledSpan(*sentence.place(site.pp), label, None, color, note=note))
    spans = [span for span in spans if span.start < span.end]
    first = min((span.start for span in spans), default=0)
    last = max((span.end for span in spans), default=0)
    return spans_html(
        sentence.words()[first:last],
        [span._replace(start=span.start - first, end=span.end - first) for span in spans],
    )
