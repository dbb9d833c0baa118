"""What the drawings have in common: strings that a notebook shows as pictures, the sentences of a
Doc without white space, and labelled spans over the words of a sentence as HTML.

A span is one `<mark>` element around its words, so text wraps anywhere, can be copied, and is read
aloud in its order. Its label stands before its words, its colour below them; spans within one
another have lines below one another. Nothing is positioned, so it works in both directions.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..errors import StructlearnError

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span

T = TypeVar("T")

GRAY = "#AAAAAA"
"""The colour of a label that has none of its own."""

# Colours come from the page around: black text on the colours of labels can be read in both
# schemes, and all else takes the colour of the text.
STYLE = """\
.structlearn p, .structlearn li { line-height: 2.2; overflow-wrap: anywhere; }
.structlearn mark { background: none; color: inherit; border-bottom: 3px solid var(--c);
  padding-bottom: calc(var(--h, 0) * 5px); box-decoration-break: clone;
  -webkit-box-decoration-break: clone; }
.structlearn mark > b { background: var(--c); color: #000; border-radius: 3px;
  padding: 1px 4px; font-size: 0.7em; white-space: nowrap; vertical-align: 0.1em;
  direction: ltr; unicode-bidi: isolate; }
.structlearn mark.other { border-bottom-style: dotted; }
.structlearn mark.other > b { background: none; color: inherit;
  box-shadow: inset 0 0 0 1px var(--c); }
.structlearn mark > b > i { font-style: normal; font-weight: normal; }
.structlearn sub { font-size: 0.65em; opacity: 0.75; vertical-align: -0.3em; line-height: 0;
  direction: ltr; unicode-bidi: isolate; }
"""


class Svg(str):
    """A drawing as an `<svg>` element with a width; a notebook shows the picture."""

    __slots__ = ()

    @property
    def width(self) -> float:
        """In pixels."""
        return float(self.partition(' width="')[2].partition('"')[0])

    def _repr_svg_(self) -> str:
        return str(self)


class Html(str):
    """A drawing as HTML to be put into a page; a notebook shows what it looks like."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(self)


class Page(str):
    """A whole HTML page; a notebook shows it in a frame, so that its style stays its own."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(str(self))}" title="Drawings" '
            'style="width: 100%; height: 40rem; border: 1px solid #888"></iframe>'
        )


class LabelledSpan(NamedTuple):
    """A span over the words of a sentence: `start` is its first word, `end` the one after its last.

    label: "" for none. probability: written behind the label, if known. color: of CSS. note: the
    tooltip; by default label and probability with more digits. other: dotted, for what was not
    chosen.
    """

    start: int
    end: int
    label: str
    probability: float | None = None
    color: str = GRAY
    note: str | None = None
    other: bool = False


class ShownSentence(NamedTuple):
    """A sentence of a Doc. positions: the tokens that are not white space, ascending."""

    span: Span
    positions: list[int]

    def words(self) -> list[str]:
        """The words, without white space."""
        doc = self.span.doc
        return [doc[i].text for i in self.positions]

    def tags(self) -> list[str]:
        """The tag of each word."""
        doc = self.span.doc
        return [doc[i].tag_ for i in self.positions]

    def text(self) -> str:
        """The sentence as it was written, in one line."""
        return " ".join(self.span.text.split())

    def place(self, span: Span) -> tuple[int, int]:
        """First word and the word after the last of a span, counted among the words of the
        sentence; equal if it has none of them.
        """
        return bisect_left(self.positions, span.start), bisect_left(self.positions, span.end)


def sentences(doclike: Doc | Span) -> list[ShownSentence]:
    """The sentences of a Doc, or those that a Span touches, without those of white space alone.

    Without sentence boundaries the Doc is one sentence. Raises SL141 for anything else.
    """
    from spacy.tokens import Doc, Span

    if not isinstance(doclike, (Doc, Span)):
        raise StructlearnError("SL141", kind=type(doclike).__name__)
    doc = doclike if isinstance(doclike, Doc) else doclike.doc
    spans = doclike.sents if doc.has_annotation("SENT_START") else [doc[:]]
    found = []
    for span in spans:
        positions = [token.i for token in span if not token.is_space]
        if positions:
            found.append(ShownSentence(span, positions))
    return found


def by_sentence(
    sentences: Sequence[ShownSentence], items: Iterable[T], token: Callable[[T], int]
) -> list[list[T]]:
    """The items of each sentence. token: the index of a token of an item; items with a token that
    is in none of the sentences are left out.
    """
    starts = [sentence.span.start for sentence in sentences]
    found: list[list[T]] = [[] for _ in sentences]
    for item in items:
        i = token(item)
        number = bisect_right(starts, i) - 1
        if number >= 0 and i < sentences[number].span.end:
            found[number].append(item)
    return found


def extension(doclike: Doc | Span, name: str) -> Any:
    """`doclike._.<name>`; raises SL140 if that is not registered."""
    if not doclike.has_extension(name):
        raise StructlearnError("SL140", name=name)
    return doclike._.get(name)


def direction(doc: Doc) -> str:
    """ "rtl" where the language of the Doc is written from right to left, otherwise "ltr"."""
    return doc.vocab.writing_system.get("direction", "ltr")


def fragment(doc: Doc, lines: Iterable[str]) -> Html:
    """Paragraphs with the style that they need, in the direction of the Doc; "" if there are none.

    lines: HTML.
    """
    paragraphs = "\n".join(f"<p>{line}</p>" for line in lines)
    if not paragraphs:
        return Html("")
    return Html(
        f'<div class="structlearn" lang="{escape(doc.lang_)}" dir="{direction(doc)}">\n'
        f"<style>\n{STYLE}</style>\n{paragraphs}\n</div>\n"
    )


def spans_html(
    words: Sequence[str], spans: Iterable[LabelledSpan], tags: Sequence[str] | None = None
) -> str:
    """Words with labelled spans over them, as HTML that needs `STYLE` and an element of the class
    "structlearn" around it. All texts are escaped.

    words: n strings. spans: in any order, within one another or not; where two overlap, one of
    them is drawn in pieces. tags: n strings, drawn behind the words; not if "", or the word
    itself, as of most punctuation.
    """
    pieces, heights = _nested(list(spans))
    opening: list[list[str]] = [[] for _ in words]
    closing = [0] * len(words)
    for (start, end, span, is_first), height in zip(pieces, heights, strict=True):
        opening[start].append(_opened(span, height, is_first))
        closing[end - 1] += 1
    written = []
    for i, word in enumerate(words):
        has_tag = tags and tags[i] not in ("", word)
        tag = f"<sub>{escape(printable(tags[i]))}</sub>" if has_tag else ""
        opened = "".join(opening[i])
        written.append(f"{opened}{escape(printable(word))}{tag}{'</mark>' * closing[i]}")
    return " ".join(written)


def _nested(
    spans: list[LabelledSpan],
) -> tuple[list[tuple[int, int, LabelledSpan, bool]], list[int]]:
    """The spans in pre-order, cut where they would cross another one: (start, end, span, whether it
    is the first piece); and for each how many lie within one another in it, itself left out.
    """
    pending = [(span.start, -span.end, number, True) for number, span in enumerate(spans)]
    heapify(pending)
    pieces = []
    parents: list[int] = []
    opened: list[int] = []  # the pieces around the place, outermost first
    while pending:
        start, minus_end, number, is_first = heappop(pending)
        end = -minus_end
        while opened and pieces[opened[-1]][1] <= start:
            opened.pop()
        if opened and end > (limit := pieces[opened[-1]][1]):
            heappush(pending, (limit, -end, number, False))
            end = limit
        parents.append(opened[-1] if opened else -1)
        opened.append(len(pieces))
        pieces.append((start, end, spans[number], is_first))
    heights = [0] * len(pieces)
    for i in reversed(range(len(pieces))):
        if parents[i] >= 0:
            heights[parents[i]] = max(heights[parents[i]], heights[i] + 1)
    return pieces, heights


def _opened(span: LabelledSpan, height: int, is_first: bool) -> str:
    note = span.note
    if note is None:
        note = span.label if span.probability is None else f"{span.label} {span.probability:.4f}"
    style = f"--c:{escape(span.color)}" + (f";--h:{height}" if height else "")
    kind = ' class="other"' if span.other else ""
    figure = "" if span.probability is None else f" <i>{span.probability:.2f}</i>"
    label = f"<b>{escape(printable(span.label))}{figure}</b> " if is_first and span.label else ""
    return f'<mark{kind} style="{style}" title="{escape(printable(note))}">{label}'


def printable(text: str) -> str:
    """The text with white space as blanks, and without characters that would break a drawing or
    that XML forbids.
    """
    if text.isprintable():
        return text
    return "".join(
        " "
        if character.isspace()
        else "\N{REPLACEMENT CHARACTER}"
        if unicodedata.category(character) in ("Cc", "Cs", "Cn")
        else character
        for character in text
    )
