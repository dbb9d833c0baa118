"""Printing a Doc for `parse` and `apply`: as brackets, columns or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span, Token

    from ..pipeline.extensions import PPAttachment


class Format(str, Enum):
    """The output formats of `parse`."""

    text = "text"
    conll = "conll"
    jsonl = "jsonl"


def printed(doc: Doc, format: Format) -> Iterator[str]:
    """Yield the lines of a Doc; raise SL117 if overlapping frames do not fit into columns."""
    from ..display.chunks import bracketed
    from ..display.frames import frame_columns, frame_text, plain_frame
    from ..display.html import by_layer
    from ..pipeline.extensions import CONSTITUENTS, SRL

    if format is Format.jsonl:
        import srsly

        yield srsly.json_dumps(as_json(doc))
        return
    for sentence, layers in by_layer(doc, "np_chunks", "pp_attachments", "frames"):
        words, tags = sentence.words(), sentence.tags()
        plain = [
            plain_frame(frame, sentence.positions)
            for frame in layers.get("frames", ())
            if not frame.predicate[0].is_space
        ]
        if format is Format.conll:
            n = len(words)
            columns = frame_columns(n, plain) if SRL in doc.spans else [[]] * n
            for i, word, tag, cells in zip(sentence.positions, words, tags, columns, strict=True):
                iob = doc[i]._.np_iob
                yield "\t".join((word, tag, f"{iob}-NP" if iob in ("B", "I") else "O", *cells))
            yield ""
            continue
        if CONSTITUENTS in doc.spans:
            yield sentence.span._.tree.pretty()
        # White space at the ends of a chunk is left out.
        spans = [(chunk.label_, *sentence.place(chunk)) for chunk in layers.get("np_chunks", ())]
        yield bracketed(words, tags, [span for span in spans if span[1] < span[2]])
        yield from map(_attachment_as_text, layers.get("pp_attachments", ()))
        yield from (frame_text(words, *frame) for frame in plain)


def _attachment_as_text(site: PPAttachment) -> str:
    """Format a site as "with -> ate (V 0.93)"."""
    prob = "" if site.prob is None else f" {site.prob:.2f}"
    return f"{site.prep.text} -> {site.head or '?'} ({site.label}{prob})"


def as_json(doc: Doc) -> dict[str, Any]:
    """Return a Doc as plain data, with the positions of spans in characters.

    Layers that no component has set are missing.
    """
    from ..display.html import sentences
    from ..pipeline.extensions import CONSTITUENTS, PP_ATTACHMENTS, PP_ROLES, SRL

    positions = [sentence.positions for sentence in sentences(doc)]
    data = {
        "text": doc.text,
        "tokens": [{**_place(_span(t)), "tag": t.tag_} for t in doc if not t.is_space],
        "sents": [_place(doc[own[0] : own[-1] + 1]) for own in positions],
        "np_chunks": [_labelled(c, c.label_, c._.np_chunk_prob) for c in doc._.np_chunks],
    }
    if CONSTITUENTS in doc.spans:
        data["trees"] = [str(tree) for tree in doc._.trees]
        brackets = doc.spans[CONSTITUENTS]
        data["constituents"] = [_labelled(b, b.label_, b._.constituent_prob) for b in brackets]
        data["parse_failures"] = [
            {**_place(span), "label": span.label_} for span in doc._.parse_failures
        ]
    if PP_ATTACHMENTS in doc.spans:
        data["pp_attachments"] = [
            {
                **_labelled(site.pp, site.label, site.prob),
                **{role: _place(_span(getattr(site, role))) for role in PP_ROLES},
            }
            for site in doc._.pp_attachments
        ]
    if SRL in doc.spans:
        data["frames"] = [
            {
                "predicate": _place(_span(frame.predicate[0])),
                "roleset": frame.roleset,
                "prob": _rounded(frame.prob),
                "arguments": [_labelled(a.span, a.label, a.prob) for a in frame.arguments],
            }
            for frame in doc._.frames
        ]
    return data


def _place(span: Span) -> dict[str, int]:
    return {"start": span.start_char, "end": span.end_char}


def _span(token: Token) -> Span:
    return token.doc[token.i : token.i + 1]


def _labelled(span: Span, label: str, prob: float | None) -> dict[str, Any]:
    return {**_place(span), "label": label, "prob": _rounded(prob)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def print_scores(scores: Mapping[str, Any]) -> None:
    """Print the scores that are numbers: four digits for fractions, one for speeds and losses."""
    from wasabi import msg

    rows = [
        (name, f"{value:.4f}" if abs(value) <= 1 else f"{value:,.1f}")
        for name, value in scores.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    if rows:
        msg.table(rows, header=("score", "value"), divider=True, aligns=("l", "r"))
