"""Drawings of semantic roles: frames as text, as columns of a PropBank file, and as HTML.

Only `doc._.frames` is read, so frames of any origin can be drawn. White space tokens are never
drawn.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import StructlearnError
from ..roles.propositions import PREDICATE, PlainFrame
from .colors import color
from .html import Html, LabelledSpan, ShownSentence, enclosed, layer_html, spans_html

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span

Argument: TypeAlias = tuple[str, int, int]
"""Label, start and end in words."""

LONG = 250
"""Words in a sentence of which a frame shows only a part."""
AROUND = 10
"""Words on both sides that are shown then."""


def frame_text(
    words: Sequence[str], predicate: int, roleset: str | None, arguments: Iterable[Argument]
) -> str:
    """Format one sentence with a frame as `[ARG0 She] [V eat.01 ate] [ARG1 pizza] .`

    This is the notation of Carreras & Marquez (2005), "Introduction to the CoNLL-2005 shared task".
    Arguments may be nested.

    words: n strings. predicate: its index. roleset: shown before it, if known. arguments: in any
    order.
    """
    # If an argument begins with the predicate, the predicate opens last.
    spans = [*arguments, (PREDICATE, predicate, predicate + 1)]
    spans.sort(key=lambda span: (span[1], -span[2]))
    sense = f"{roleset} " if roleset else ""
    texts = [
        (start, end, f"[{label} {sense if (label, start) == (PREDICATE, predicate) else ''}")
        for label, start, end in spans
    ]
    return enclosed(words, texts, "]")


def frame_columns(n: int, frames: Iterable[PlainFrame]) -> list[list[str]]:
    """Format the frames of a sentence of n words as columns of a PropBank file.

    Returns n rows, each with the roleset of the word, or "-", and a cell for each frame: `(ARG0*`,
    `*`, `*)`, `(V*)`. Raises StructlearnError for arguments that overlap.
    """
    rows = [["-"] for _ in range(n)]
    for predicate, roleset, arguments in frames:
        cells = ["*"] * n
        free = 0
        spans = [*arguments, (PREDICATE, predicate, predicate + 1)]
        for label, start, end in sorted(spans, key=lambda span: span[1]):
            if start < free:
                problem = f"{label} begins inside of another argument, at word {start}"
                raise StructlearnError("SL117", n=n, problem=problem)
            free = end
            cells[start] = f"({label}*"
            cells[end - 1] += ")"
        if roleset:
            rows[predicate][0] = roleset
        for row, cell in zip(rows, cells, strict=True):
            row.append(cell)
    return rows


def frames_html(doclike: Doc | Span) -> Html:
    """Draw the frames of a Doc, or of the sentences that a Span touches; see `html.layer_html`.

    Each frame is drawn over its sentence, or over the words around it if that is very long.
    """
    return layer_html(doclike, "frames", frame_line)


def frame_line(sentence: ShownSentence, frame: Any) -> str:
    """Draw a frame of `doc._.frames` over its sentence; see `html.spans_html`."""
    name = f"{PREDICATE} {frame.roleset}" if frame.roleset else PREDICATE
    place = sentence.place(frame.predicate)
    spans = [LabelledSpan(*place, name, frame.prob, color(PREDICATE))]
    for span, label, probability in frame.arguments:
        spans.append(LabelledSpan(*sentence.place(span), label, probability, color(label)))
    first, last = window(len(sentence.positions), [(span.start, span.end) for span in spans])
    line = spans_html(sentence, spans, first, last)
    return f"{cut_mark(first)}{line}{cut_mark(len(sentence.positions) - last)}"


def window(n: int, spans: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Return the part (start, end) of a sentence of n words that is shown for these spans.

    Of a long sentence, this is what is around them. Otherwise, a sentence with many frames would
    take more space and time than its length.
    """
    full = [span for span in spans if span[0] < span[1]]
    if n <= LONG or not full:
        return 0, n
    first, last = min(start for start, _ in full), max(end for _, end in full)
    return max(first - AROUND, 0), min(last + AROUND, n)


def cut_mark(left_out: int) -> str:
    """Return what stands for this number of words."""
    return " \N{HORIZONTAL ELLIPSIS} " if left_out else ""


def plain_frame(frame: Any, positions: Sequence[int]) -> PlainFrame:
    """Convert a frame of `doc._.frames` from tokens of the Doc to words of its sentence.

    Other tokens are removed from arguments, and arguments without words are left out.
    positions: the indices of the words, ascending; the predicate is one of them.
    """
    predicate = bisect_left(positions, frame.predicate.start)
    arguments = []
    for argument in frame.arguments:
        start, end = (bisect_left(positions, i) for i in (argument.span.start, argument.span.end))
        if start < end:
            arguments.append((argument.label, start, end))
    return predicate, frame.roleset, arguments
