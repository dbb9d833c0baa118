"""Chunks as text, in the bracketed notation of the chunking literature, and as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .colors import color
from .html import Html, LabelledSpan, ShownSentence, by_layer, enclosed, fragment, spans_html

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span


def bracketed(
    words: Sequence[str], tags: Sequence[str], spans: Sequence[tuple[str, int, int]]
) -> str:
    """Format one sentence as `[NP The/DT cat/NN ] sat/VBD`.

    words, tags: n strings each. An empty tag is left out with its slash.
    spans: (label, start, end) over the words, sorted and without overlap.
    """
    tagged = [f"{word}/{tag}" if tag else word for word, tag in zip(words, tags, strict=True)]
    return enclosed(tagged, ((start, end, f"[{label} ") for label, start, end in spans), " ]")


def chunks_html(doclike: Doc | Span) -> Html:
    """Draw the chunks of a Doc, or of the sentences that a Span touches, one paragraph each.

    Tags follow the words. Probabilities are shown as text and as tooltips. Returns "" if there are
    no words. Raises StructlearnError if no chunker has run, if `doc._.np_chunks` is not registered,
    and for other objects than Docs and Spans.
    """
    pairs = by_layer(doclike, "np_chunks", required=True)
    lines = (chunk_line(sentence, layers["np_chunks"]) for sentence, layers in pairs)
    return fragment(doclike.doc, lines)


def chunk_line(sentence: ShownSentence, chunks: Iterable[Span]) -> str:
    """Draw the chunks of a sentence; see `html.spans_html`."""
    spans = []
    for chunk in chunks:
        label, probability = chunk.label_, chunk._.np_chunk_prob
        spans.append(LabelledSpan(*sentence.place(chunk), label, probability, color(label)))
    return spans_html(sentence, spans, tags=True)
