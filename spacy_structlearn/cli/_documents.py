"""A Doc as `parse` and `apply` print it: brackets, columns, or JSON."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span, Token

    from ..pipeline.extensions import Frame, PPAttachment


class Format(str, Enum):
    """How `parse` prints."""

    text = "text"
    conll = "conll"
    jsonl = "jsonl"


def printed(doc: Doc, format: Format) -> Iterator[str]:
    """The lines of one Doc. RAISES: SL117 where frames that overlap make no columns."""
    from ..display.frames import frame_columns, frame_text, plain_frame
    from ..pipeline.extensions import CONSTITUENTS, SRL

    if format is Format.jsonl:
        import srsly

        yield srsly.json_dumps(as_json(doc))
        return
    attachments = {found.prep.i: _attachment_as_text(found) for found in doc._.pp_attachments}
    chunks = {chunk.start: chunk for chunk in doc._.np_chunks}
    frames: dict[int, list[Frame]] = defaultdict(list)  # by the token that is the predicate
    for frame in doc._.frames:
        frames[frame.predicate.start].append(frame)
    for sentence in _sentences(doc):
        tokens = [token for token in sentence if not token.is_space]
        if not tokens:
            continue
        positions = [t.i for t in tokens]
        found = [plain_frame(frame, positions) for i in positions for frame in frames.get(i, ())]
        if format is Format.conll:
            n = len(tokens)
            columns = frame_columns(n, found) if SRL in doc.spans else [[]] * n
            for token, cells in zip(tokens, columns, strict=True):
                yield "\t".join((token.text, token.tag_, _iob(token), *cells))
            yield ""
        else:
            if CONSTITUENTS in doc.spans:
                yield sentence._.tree.pretty()
            inside = (chunks[i] for i in range(sentence.start, sentence.end) if i in chunks)
            yield _as_text(tokens, positions, inside)
            yield from (attachments[i] for i in positions if i in attachments)
            words = [t.text for t in tokens]
            yield from (frame_text(words, *frame) for frame in found)


def _sentences(doc: Doc) -> list[Span]:
    """The sentences; the whole text where the pipeline sets none, as the components read it."""
    return list(doc.sents) if doc.has_annotation("SENT_START") else [doc[:]]


def _iob(token) -> str:
    return "O" if token._.np_iob in ("", "O") else f"{token._.np_iob}-NP"


def _as_text(tokens: list[Token], positions: list[int], chunks: Iterable[Span]) -> str:
    """positions: of the tokens in the Doc. White space at the ends of a chunk is left out."""
    from ..display.chunks import bracketed

    places = (
        (chunk.label_, *(bisect_left(positions, i) for i in (chunk.start, chunk.end)))
        for chunk in chunks
    )
    spans = [(label, start, end) for label, start, end in places if start < end]
    return bracketed([t.text for t in tokens], [t.tag_ for t in tokens], spans)


def _attachment_as_text(found: PPAttachment) -> str:
    """Such as "with -> ate (V 0.93)"."""
    prob = "" if found.prob is None else f" {found.prob:.2f}"
    return f"{found.prep.text} -> {found.head or '?'} ({found.label}{prob})"


def as_json(doc: Doc) -> dict[str, Any]:
    """The Doc as plain data, spans by the characters where they start and end.

    What no component has set, attachments of a pipeline without an attacher, is not there.
    """
    from ..pipeline.extensions import CONSTITUENTS, PP_ATTACHMENTS, SRL

    return {
        "text": doc.text,
        "tokens": [{**_place(t), "tag": t.tag_} for t in doc if not t.is_space],
        "sents": [place for sentence in _sentences(doc) if (place := _words_of(sentence))],
        "np_chunks": [
            {
                "start": chunk.start_char,
                "end": chunk.end_char,
                "label": chunk.label_,
                "prob": _rounded(chunk._.np_chunk_prob),
            }
            for chunk in doc._.np_chunks
        ],
        **(_parse_as_json(doc) if CONSTITUENTS in doc.spans else {}),
        **(_attachments_as_json(doc) if PP_ATTACHMENTS in doc.spans else {}),
        **(_frames_as_json(doc) if SRL in doc.spans else {}),
    }


def _parse_as_json(doc: Doc) -> dict[str, list]:
    from ..pipeline.extensions import CONSTITUENTS

    return {
        "trees": [str(tree) for tree in doc._.trees],
        "constituents": [
            {
                "start": bracket.start_char,
                "end": bracket.end_char,
                "label": bracket.label_,
                "prob": _rounded(bracket._.constituent_prob),
            }
            for bracket in doc.spans[CONSTITUENTS]
        ],
        "parse_failures": [
            {"start": span.start_char, "end": span.end_char, "label": span.label_}
            for span in doc._.parse_failures
        ],
    }


def _attachments_as_json(doc: Doc) -> dict[str, list]:
    from ..pipeline.extensions import PP_ROLES

    return {
        "pp_attachments": [
            {
                "start": found.pp.start_char,
                "end": found.pp.end_char,
                "label": found.label,
                "prob": _rounded(found.prob),
                **{role: _place(getattr(found, role)) for role in PP_ROLES},
            }
            for found in doc._.pp_attachments
        ]
    }


def _frames_as_json(doc: Doc) -> dict[str, list]:
    return {
        "frames": [
            {
                "predicate": _place(frame.predicate[0]),
                "roleset": frame.roleset,
                "prob": _rounded(frame.prob),
                "arguments": [
                    {
                        "start": argument.span.start_char,
                        "end": argument.span.end_char,
                        "label": argument.label,
                        "prob": _rounded(argument.prob),
                    }
                    for argument in frame.arguments
                ],
            }
            for frame in doc._.frames
        ]
    }


def _words_of(sentence: Span) -> dict[str, int] | None:
    """Where its first word begins and its last one ends; None for white space alone."""
    from ..pipeline.extensions import trimmed

    start, end = trimmed(sentence)
    if start == end:
        return None
    words = sentence.doc[start:end]
    return {"start": words.start_char, "end": words.end_char}


def _place(token: Token) -> dict[str, int]:
    return {"start": token.idx, "end": token.idx + len(token)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def number(value: float) -> str:
    """A score as tables show it: a share with four digits, a speed or a loss with fewer."""
    return f"{value:.4f}" if abs(value) <= 1 else f"{value:,.1f}"
