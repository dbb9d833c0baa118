"""Chunks as text, in the bracketed notation of the chunking literature, and as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..errors import StructlearnError
from ..groups import NP_CHUNKS
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

COLORS: Mapping[str, str] = {"NP": "#56B4E9", "VP": "#E69F00", "PP": "#009E73"}
"""Colours by label (Okabe & Ito 2008), for a group that has more than noun phrases too."""


def bracketed(
    words: Sequence[str], tags: Sequence[str], spans: Sequence[tuple[str, int, int]]
) -> str:
    """One sentence as `[NP The/DT cat/NN ] sat/VBD`.

    words, tags: n strings each; an empty tag is left out with its slash. spans: (label, start,
    end) over the words, sorted and not overlapping.
    """
    opening = {start: label for label, start, _ in spans}
    closing = {end - 1 for _, _, end in spans}
    pieces = []
    for index, (word, tag) in enumerate(zip(words, tags, strict=True)):
        if index in opening:
            pieces.append(f"[{opening[index]}")
        pieces.append(f"{word}/{tag}" if tag else word)
        if index in closing:
            pieces.append("]")
    return " ".join(pieces)


def chunks_html(doclike: Doc | Span) -> Html:
    """The chunks of a Doc, or of the sentences that a Span touches, as HTML: one paragraph for each
    sentence, with tags behind the words and probabilities as text and as tooltips.

    Returns "" where there are no words. Raises SL142 if no chunker has run, SL140 if
    `doc._.np_chunks` is not registered, SL141 for what is no Doc or Span.
    """
    found = sentences(doclike)
    doc = doclike.doc
    if NP_CHUNKS not in doc.spans:
        raise StructlearnError(
            "SL142", text=doc.text[:40], what="NP chunks", component="np_chunker"
        )
    groups = by_sentence(found, extension(doc, "np_chunks"), lambda chunk: chunk.start)
    return fragment(doc, map(chunk_line, found, groups))


def chunk_line(sentence: ShownSentence, chunks: Iterable[Span]) -> str:
    """The chunks of a sentence as one line of HTML; see `html.spans_html`."""
    spans = []
    for chunk in chunks:
        start, end = sentence.place(chunk)
        if start < end:
            color = COLORS.get(chunk.label_, GRAY)
            probability = chunk._.np_chunk_prob
            spans.append(LabelledSpan(start, end, chunk.label_, probability, color))
    return spans_html(sentence.words(), spans, sentence.tags())
