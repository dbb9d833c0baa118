"""Attachments of prepositional phrases as HTML: the verb and the noun that each phrase could attach
to, and the one that it attaches to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..attachment.sites import NOUN, VERB
from .html import Html, LabelledSpan, ShownSentence, layer_html, spans_html

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span

COLORS: Mapping[str, str] = {VERB: "#E69F00", NOUN: "#56B4E9"}
"""Colours of verb and noun (Okabe & Ito 2008). A phrase has the colour of its head."""


def attachments_html(doclike: Doc | Span) -> Html:
    """Draw the attachments of a Doc, or of the sentences that a Span touches; see
    `html.layer_html`.
    """
    return layer_html(doclike, "pp_attachments", attachment_line)


def attachment_line(sentence: ShownSentence, site: Any) -> str:
    """Draw a site of `doc._.pp_attachments`, from the verb to the end of the phrase.

    The head that was not chosen is dotted. See `html.spans_html`.
    """
    label = f"\N{RIGHTWARDS ARROW} {'?' if site.head is None else site.head.text}"
    phrase = LabelledSpan(*sentence.place(site.pp), label)
    spans = []
    for label, head in ((VERB, site.verb), (NOUN, site.noun)):
        is_chosen = label == site.label
        probability = site.prob
        if probability is not None and not is_chosen:
            # The probabilities of the two labels sum to 1.
            probability = 1 - probability if site.label in COLORS else None
        note = f"{site.prep.text} -> {head.text}"
        if probability is not None:
            note += f" {probability:.4f}"
        if is_chosen:
            phrase = phrase._replace(note=note, color=COLORS[label])
        place = sentence.place(head.doc[head.i : head.i + 1])
        spans.append(
            LabelledSpan(*place, label, probability, COLORS[label], note=note, other=not is_chosen)
        )
    spans = [span for span in (*spans, phrase) if span.start < span.end]
    first = min((span.start for span in spans), default=0)
    last = max((span.end for span in spans), default=0)
    return spans_html(sentence, spans, first, last)
