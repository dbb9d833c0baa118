"""Drawings of semantic roles: frames as text, as columns of a PropBank file, and as HTML in the
span style of spaCy's displacy.

Only `doc._.frames` is read, so frames of any origin can be drawn. White space tokens are never
drawn.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import StructlearnError
from ..groups import SRL
from ..roles.propositions import PREDICATE, PlainFrame, base_label
from .html import (
    GRAY,
    POLICY,
    Html,
    LabelledSpan,
    Page,
    ShownSentence,
    by_layer,
    direction,
    enclosed,
    escaped,
    printable,
    spans_html,
)

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span

Argument: TypeAlias = tuple[str, int, int]
"""Label, start and end in words."""

COLORS: Mapping[str, str] = {
    "V": "#D55E00",
    "ARG0": "#56B4E9",
    "ARG1": "#009E73",
    "ARG2": "#E69F00",
    "ARG3": "#CC79A7",
    "ARG4": "#B39DDB",
    "ARG5": "#A1887F",
    "ARGA": "#4DB6AC",
    "ARGM": "#AAAAAA",
}
"""Colours by label; "ARGM" is for all modifiers. The first five are from Okabe & Ito (2008), for
readers with colour blindness. Black text is legible on each of them.
"""

LONG = 250
"""Words in a sentence of which a frame shows only a part."""
AROUND = 10
"""Words on both sides that are shown then."""

_RESERVED = re.compile(rb"[^A-Za-z0-9_.~-]")

# In displacy's own templates, a label may cover the next one. Here it takes space in the line, in a
# box of height 0 before its word.
_TEMPLATES = {
    "span": (
        '<span style="font-weight: bold; display: inline-block; position: relative; '
        'vertical-align: top; height: {total_height}px;">'
        "{span_starts}{text}{span_slices}</span>\n"
    ),
    "slice": (
        '<span style="background: {bg}; top: {top_offset}px; height: 4px; left: -1px; '
        'width: calc(100% + 2px); position: absolute;"></span>'
    ),
    "start": (
        '<span style="display: block; height: 0; line-height: 0; font-size: 0.65em; '
        'white-space: nowrap; padding-inline-end: 0.6em;"><span style="background: {bg}; '
        "color: #000; position: relative; z-index: 10; top: calc({top_offset}px + 2px); "
        'padding: 2px 3px; border-radius: 3px;">{label}{kb_link}</span></span>'
    ),
}


def frame_text(
    words: Sequence[str], predicate: int, roleset: str | None, arguments: Iterable[Argument]
) -> str:
    """Format one sentence with a frame as `[ARG0 She] [V eat.01 ate] [ARG1 pizza] .`

    This is the notation of Carreras & Marquez (2005), "Introduction to the CoNLL-2005 shared task".
    Arguments may be nested.

    words: n strings.
    predicate: index of the predicate.
    roleset: shown before the predicate, if known.
    arguments: in any order.
    Raises StructlearnError for a predicate or argument outside the words.
    """
    # If an argument begins with the predicate, the predicate opens last.
    spans = sorted(_spans(len(words), predicate, arguments), key=lambda s: (s[1], -s[2]))
    sense = f"{roleset} " if roleset else ""
    texts = [
        (start, end, f"[{label} {sense if (label, start) == (PREDICATE, predicate) else ''}")
        for label, start, end in spans
    ]
    return enclosed(words, texts, "]")


def frame_columns(n: int, frames: Iterable[PlainFrame]) -> list[list[str]]:
    """Format the frames of a sentence of n words as columns of a PropBank file.

    Returns n rows, each with the roleset of the word, or "-", and a cell for each frame: `(ARG0*`,
    `*`, `*)`, `(V*)`. Raises StructlearnError for predicates and arguments outside the words, and
    for arguments that overlap.
    """
    rows = [["-"] for _ in range(n)]
    for predicate, roleset, arguments in frames:
        cells = ["*"] * n
        free = 0
        for label, start, end in sorted(_spans(n, predicate, arguments), key=lambda span: span[1]):
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


def frames_html(
    doclike: Doc | Span,
    *,
    page: bool = False,
    minify: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Html | Page:
    """Draw the frames of a Doc, or of the predicates in a Span, in the span style of displacy.

    Each frame is drawn over its sentence, with its arguments underlined and labelled, but only over
    the words around it if the sentence is very long.

    page: whether to make a whole HTML page.
    minify: whether to remove redundant white space.
    options: as for `displacy.render(style="span")`. `colors` maps labels to colours and overrides
        `COLORS`; a colour of ARG1 also applies to R-ARG1 and C-ARG1, and one of ARGM to all
        modifiers. `kb_url_template`, such as "https://.../{}.html", turns rolesets into links.
    Returns "" if there are no frames and `page` is not set. Raises StructlearnError if no labeler
    has run or `doc._.frames` is not registered.
    """
    from spacy import displacy

    doc = doclike.doc
    if SRL not in doc.spans:
        raise StructlearnError("SL118", text=doc.text[:40])
    if not doc.has_extension("frames"):
        raise StructlearnError("SL119")
    options = options or {}
    link = options.get("kb_url_template")
    inside = {token.i for token in doclike if not token.is_space}
    figures = [
        _figure(sentence, frame, link)
        for sentence, layers in by_layer(doclike, "frames")
        for frame in layers["frames"]
        if frame.predicate.start in inside
    ]
    # Labels are not case-sensitive in displacy.
    known = {**COLORS, **{name.upper(): of for name, of in options.get("colors", {}).items()}}
    labels = {span["label"] for figure in figures for span in figure["spans"]}
    drawn = displacy.render(
        figures,
        style="span",
        manual=True,
        page=page,
        minify=minify,
        jupyter=False,  # or it shows the drawing and returns nothing
        options={
            "template": _TEMPLATES,
            **options,
            "colors": {label: color for label in labels if (color := _color(label, known))},
        },
    )
    return Page(drawn.replace("<head>", f"<head>{POLICY}", 1)) if page else Html(drawn)


def _figure(sentence: ShownSentence, frame: Any, link: str | None) -> dict[str, Any]:
    """Make the input of displacy. Labels and links are escaped, as displacy only escapes words."""
    predicate, roleset, arguments = plain_frame(frame, sentence.positions)
    n = len(sentence.positions)
    parts = _spans(n, predicate, arguments)
    first, last = window(n, [(start, end) for _, start, end in parts])
    before, after = (cut_mark(left_out).split() for left_out in (first, n - last))
    words = [*before, *map(printable, sentence.words(first, last)), *after]
    offset = first - len(before)
    spans = [
        {
            "start_token": start - offset,
            "end_token": end - offset,
            "label": escaped(label),
            "kb_id": escaped(roleset or "") if label == PREDICATE else "",
            "kb_url": escaped(link.format(_quoted(roleset))) if link and roleset else "#",
        }
        for label, start, end in parts
    ]
    doc = sentence.span.doc
    settings = {"lang": escaped(doc.lang_), "direction": direction(doc)}
    return {"text": " ".join(words), "tokens": words, "spans": spans, "settings": settings}


def _quoted(text: str) -> str:
    """Quote a text as a part of an address (RFC 3986)."""
    return _RESERVED.sub(lambda found: b"%%%02X" % ord(found[0]), text.encode()).decode()


def frame_line(sentence: ShownSentence, frame: Any) -> str:
    """Draw a frame of `doc._.frames` over its sentence; see `html.spans_html`."""
    name = f"{PREDICATE} {frame.roleset}" if frame.roleset else PREDICATE
    place = sentence.place(frame.predicate)
    spans = [LabelledSpan(*place, name, frame.prob, COLORS[PREDICATE])]
    for span, label, probability in frame.arguments:
        color = _color(label, COLORS) or GRAY
        spans.append(LabelledSpan(*sentence.place(span), label, probability, color))
    first, last = window(len(sentence.positions), [(span.start, span.end) for span in spans])
    spans = [span._replace(start=span.start - first, end=span.end - first) for span in spans]
    line = spans_html(sentence.words(first, last), spans)
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


def _spans(n: int, predicate: int, arguments: Iterable[Argument]) -> list[Argument]:
    """Append the predicate to the arguments, and check that all lie within n words."""
    spans = [*arguments, (PREDICATE, predicate, predicate + 1)]
    for label, start, end in spans:
        if not 0 <= start < end <= n:
            problem = f"{label} goes from word {start} to {end}"
            raise StructlearnError("SL117", n=n, problem=problem)
    return spans


def _color(label: str, known: Mapping[str, str]) -> str | None:
    """Find the colour of a label, or of the label without R- and C-, or of its part before "-"."""
    base = base_label(label.upper())
    names = (label.upper(), base, base.partition("-")[0])
    return next((known[name] for name in names if name in known), None)
