"""Docs as lines of `parse` and `apply`: brackets, columns or JSON."""

from __future__ import annotations

from collections.abc import Iterator

from spacy.tokens import Doc

from ...display.chunks import bracketed
from ...display.frames import cut_mark, frame_text, window
from ...display.html import by_layer
from ...groups import CONSTITUENTS
from ...pipeline.extensions import PPAttachment, trees
from ...pipeline.extensions.as_data import as_dict
from ...pipeline.readers.columns import column_lines, plain_frames
from .json_lines import dumps
from .texts import Format


def printed(doc: Doc, format: Format, number: int = 0) -> Iterator[str]:
    """Yield the lines of a Doc; raise SL020 without the trees that are asked for.

    Raises SL117 if overlapping frames do not fit into columns.

    number: its name in PropBank's columns; in CoNLL-U, names are counted from 1.
    """
    if format is Format.trees:
        yield from map(str, trees(doc))
        return
    if format is Format.jsonl:
        yield dumps(as_dict(doc))
        return
    if format is Format.conllu:
        from ...pipeline.universal.conllu import conllu_lines

        yield from conllu_lines(doc, str(number + 1))
        return
    if format is Format.conll:
        yield from column_lines(doc, number)
        return
    for sentence, layers in by_layer(doc, "np_chunks", "pp_attachments", "frames"):
        words = sentence.words()
        if CONSTITUENTS in doc.spans:
            yield sentence.span._.tree.pretty()
        # White space at the ends of a chunk is left out.
        chunks = [(chunk.label_, *sentence.place(chunk)) for chunk in layers.get("np_chunks", ())]
        yield bracketed(words, sentence.tags(), [chunk for chunk in chunks if chunk[1] < chunk[2]])
        yield from map(_attachment_as_text, layers.get("pp_attachments", ()))
        for predicate, roleset, arguments in plain_frames(sentence, layers):
            spans = [span[1:] for span in arguments]
            first, last = window(len(words), [*spans, (predicate, predicate + 1)])
            shown = [(label, start - first, end - first) for label, start, end in arguments]
            line = frame_text(words[first:last], predicate - first, roleset, shown)
            yield f"{cut_mark(first)}{line}{cut_mark(len(words) - last)}".strip()


def _attachment_as_text(site: PPAttachment) -> str:
    """Format a site as "with -> ate (V 0.93)"."""
    prob = "" if site.prob is None else f" {site.prob:.2f}"
    return f"{site.prep.text} -> {site.head or '?'} ({site.label}{prob})"
