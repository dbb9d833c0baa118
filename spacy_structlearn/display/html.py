"""Common parts of the drawings: strings that notebooks display, sentences without white space, and
labelled spans over the words of a sentence as HTML.

A span is one `<mark>` element around its words, so text wraps anywhere, can be copied, and is read
aloud in order. Its label stands before its words, and its colour below them; nested spans have
lines below each other. Nothing is positioned, so it works in both writing directions.
"""

from __future__ import annotations

import itertools
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from ..errors import StructlearnError
from ..groups import CONSTITUENTS, NP_CHUNKS, PP_ATTACHMENTS, SRL

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span

T = TypeVar("T")

WIDTHS = range(300, 1201, 50)
"""Pixels of boxes that decide on the layout of a drawing; see `either`."""

GRAY = "#AAAAAA"
"""The colour of labels without a colour of their own."""

POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">"
)
"""The element of a page that forbids scripts, and everything from elsewhere but links."""

_PARTS = ("style", "main")
_REORDERING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

# Black text on the colours of labels is legible in light and dark pages. Everything else has the
# colour of the text around it.
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
    """A drawing as an `<svg>` element, which a notebook displays."""

    __slots__ = ()

    @property
    def width(self) -> float:
        """The width in pixels."""
        return float(self.partition(' width="')[2].partition('"')[0])

    def _repr_svg_(self) -> str:
        return str(self)


class Html(str):
    """A drawing as a part of an HTML page, which a notebook displays."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(self)


class Page(str):
    """A whole HTML page. A notebook displays what is in it, because frames have a fixed height."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        style, body = (self.partition(f"<{t}>")[2].partition(f"</{t}>")[0] for t in _PARTS)
        # Nested, its style is for this page only. The page is the element of the class "body".
        inner = f'<style>.structlearn-page {{\n{style}}}</style>\n<div class="body">{body}</div>'
        return f'<div class="structlearn-page" lang="en">\n{inner}</div>\n'


class Rows(tuple[T, ...]):
    """Items with a method `as_row`: a table in notebooks, and a line for each as text."""

    __slots__ = ()

    def __repr__(self) -> str:
        rows = (item.as_row().items() for item in cast("tuple[Any, ...]", self))
        return "\n".join("; ".join(f"{k}: {text}" for k, text in row if text) for row in rows)

    def _repr_html_(self) -> str:
        rows = [item.as_row() for item in cast("tuple[Any, ...]", self)]
        lines = [("th", row) for row in rows[:1]] + [("td", row.values()) for row in rows]
        cells = ("".join(f"<{tag}>{escaped(x)}</{tag}>" for x in line) for tag, line in lines)
        return "<table>\n" + "".join(f"<tr>{line}</tr>\n" for line in cells) + "</table>\n"


class LabelledSpan(NamedTuple):
    """A span over the words of a sentence, from the word `start` to before the word `end`.

    label: the label, "" for none.
    probability: shown after the label, if known.
    color: a colour of CSS.
    note: the tooltip. None: label and probability with more digits.
    other: whether the span is dotted, because it was not chosen.
    """

    start: int
    end: int
    label: str
    probability: float | None = None
    color: str = GRAY
    note: str | None = None
    other: bool = False


class ShownSentence(NamedTuple):
    """A sentence of a Doc. positions: its tokens that are not white space, ascending."""

    span: Span
    positions: list[int]

    def words(self, start: int = 0, end: int | None = None) -> list[str]:
        """Return the words from start to end, without white space."""
        return [self.span.doc[i].text for i in self.positions[start:end]]

    def tags(self) -> list[str]:
        """Return the tag of each word."""
        return [self.span.doc[i].tag_ for i in self.positions]

    def text(self) -> str:
        """Return the original text in one line."""
        return " ".join(self.span.text.split())

    def place(self, span: Span) -> tuple[int, int]:
        """Return (start, end) of a span, in words of the sentence; equal if it has none of them."""
        return bisect_left(self.positions, span.start), bisect_left(self.positions, span.end)


def sentences(doclike: Doc | Span) -> list[ShownSentence]:
    """Return the sentences of a Doc, or those that a Span touches, if they have any words.

    A Doc without sentence boundaries is one sentence. Raises StructlearnError for other objects.
    """
    from spacy.tokens import Doc, Span

    if not isinstance(doclike, (Doc, Span)):
        raise StructlearnError("SL141", wanted="a Doc or a Span", kind=type(doclike).__name__)
    doc = doclike.doc
    # Spans have sentences, too, although their stubs do not say so.
    whole = cast("Doc", doclike)
    spans = whole.sents if doc.has_annotation("SENT_START") else [doc[:]]
    shown = (ShownSentence(span, [t.i for t in span if not t.is_space]) for span in spans)
    return [sentence for sentence in shown if sentence.positions]


def by_sentence(
    sentences: Sequence[ShownSentence], items: Iterable[T], token: Callable[[T], int]
) -> list[list[T]]:
    """Divide items by sentence, and leave out those that are in none of the sentences.

    token: function from an item to the index of one of its tokens.
    """
    starts = [sentence.span.start for sentence in sentences]
    groups: list[list[T]] = [[] for _ in sentences]
    for item in items:
        i = token(item)
        number = bisect_right(starts, i) - 1
        if number >= 0 and i < sentences[number].span.end:
            groups[number].append(item)
    return groups


# For each extension, and the brackets: the key in doc.spans, the token that places an item, and who
# sets the layer.
_LAYERS = {
    "parse_failures": (CONSTITUENTS, lambda span: span.start, ("trees", "constituency_parser")),
    "brackets": (CONSTITUENTS, lambda item: item[0].start, ("trees", "constituency_parser")),
    "np_chunks": (NP_CHUNKS, lambda chunk: chunk.start, ("NP chunks", "np_chunker")),
    "pp_attachments": (PP_ATTACHMENTS, lambda s: s.prep.i, ("PP attachments", "pp_attacher")),
    "frames": (SRL, lambda frame: frame.predicate.start, ("frames", "srl_labeler")),
}


def by_layer(
    doclike: Doc | Span, *names: str, required: bool = False
) -> list[tuple[ShownSentence, dict[str, list[Any]]]]:
    """Return the sentences of `sentences`, each with its items of some layers that the Doc has.

    names: of the extensions; default: all. required: whether the Doc must have the layers.
    Raises StructlearnError like `sentences` and `extension`, and if a required layer is missing.
    """
    shown, doc = sentences(doclike), doclike.doc
    layers = {}
    for name in names or _LAYERS:
        key, token, (what, component) = _LAYERS[name]
        if key in doc.spans:
            items = brackets(doc) if name == "brackets" else extension(doc, name)
            layers[name] = by_sentence(shown, items, token)
        elif required:
            raise StructlearnError("SL142", text=doc.text[:40], what=what, component=component)
    return [
        (sentence, {name: groups[index] for name, groups in layers.items()})
        for index, sentence in enumerate(shown)
    ]


def brackets(doc: Doc) -> Iterable[tuple[Span, float | None]]:
    """Return the brackets with their probabilities, None if unknown."""
    if len(doc):
        # Getters realign the groups if tokens were merged since.
        extension(doc[:1], "is_constituent")
    group = doc.spans[CONSTITUENTS]
    scores = group.attrs.get("scores")
    if scores is None or len(scores) != len(group):
        return ((span, None) for span in group)
    return zip(group, map(float, scores), strict=True)


def first_token(name: str, item: Any) -> int:
    """Return the index of the token that places an item of a layer of `by_layer`."""
    _, token, _ = _LAYERS[name]
    return token(item)


def extension(doclike: Doc | Span, name: str) -> Any:
    """Return `doclike._.<name>`; raise StructlearnError if it is not registered."""
    if not doclike.has_extension(name):
        raise StructlearnError("SL140", name=name)
    return doclike._.get(name)


def direction(doc: Doc) -> str:
    """Return the writing direction of the language of a Doc, "ltr" or "rtl"."""
    return "rtl" if doc.vocab.writing_system.get("direction") == "rtl" else "ltr"


def fragment(doc: Doc, lines: Iterable[str]) -> Html:
    """Make paragraphs of lines of HTML, with their style and direction; "" if there are none."""
    paragraphs = "\n".join(f"<p>{line}</p>" for line in lines)
    if not paragraphs:
        return Html("")
    return Html(
        f'<div class="structlearn" lang="{escaped(doc.lang_)}" dir="{direction(doc)}">\n'
        f"<style>\n{STYLE}</style>\n{paragraphs}\n</div>\n"
    )


def layer_html(doclike: Doc | Span, name: str, line: Callable[[ShownSentence, Any], str]) -> Html:
    """Draw a layer of a Doc, or of the sentences that a Span touches, one item per paragraph.

    Returns "" if there are none. Raises StructlearnError if the component of the layer has not run,
    if its extension is not registered, and for other objects than Docs and Spans.
    """
    pairs = by_layer(doclike, name, required=True)
    return fragment(
        doclike.doc, (line(own, item) for own, layers in pairs for item in layers[name])
    )


def spans_html(
    sentence: ShownSentence,
    spans: Iterable[LabelledSpan],
    start: int = 0,
    end: int | None = None,
    tags: bool = False,
) -> str:
    """Draw the words of a sentence from start to end, spaced as in its text, with labelled spans.

    The result belongs into an element of the class "structlearn"; the page needs `STYLE`. All texts
    are escaped.
    spans: in any order, and inside of start and end; empty ones are left out. Where two cross, one
        of them is drawn in pieces.
    tags: whether tags follow the words.
    """
    doc, shown = sentence.span.doc, sentence.positions[start:end]
    words = [tagged(doc[i].text, doc[i].tag_ if tags else "") for i in shown]
    gaps = [" " if doc[i].whitespace_ or doc[i + 1 : i + 2].text.isspace() else "" for i in shown]
    pieces = _nested([span for span in spans if span.start < span.end])
    marks = [(own - start, stop - start, _opened(*more)) for own, stop, *more in pieces]
    return enclosed(words, marks, "</mark>", gaps)


def tagged(word: str, tag: str) -> str:
    """Return a word with its tag as HTML; without a tag that is "" or the word itself."""
    return escaped(word) + (f"<sub>{escaped(tag)}</sub>" if tag not in ("", word) else "")


def either(name: str, upright: str, width: float, lines: Iterable[str], attributes: str) -> str:
    """Return a drawing in two layouts, of which a page shows the upright one where it has room.

    A box lets readers of the page see the other one.
    name: of both. width: of the upright one, in pixels. lines: items of a list.
    attributes: of both elements.
    """
    room = next((f" w{w}" for w in WIDTHS if w >= width), "")
    # Scrolling elements must be reachable by keyboard, and therefore need a role and a name.
    box = f'aria-label="{escaped(name)}" tabindex="0" {attributes}'
    listed = "\n".join(f'<div role="listitem"{line}</div>' for line in lines)
    return (
        f'<div class="room">\n<div class="either{room}">\n'
        '<label class="turn"><input type="checkbox"> Other layout</label>\n'
        f'<div class="scroll upright" role="group" {box}>\n{upright}</div>\n'
        f'<div class="scroll lines" role="list" {box}>\n{listed}</div>\n</div>\n</div>'
    )


def enclosed(
    words: Iterable[str],
    spans: Iterable[tuple[int, int, str]],
    close: str,
    gaps: Sequence[str] | None = None,
) -> str:
    """Join words, with texts before and after spans over them.

    spans: (start, end, text before it); of those with the same start, outer ones come first.
    gaps: what follows each word; None: blanks.
    """
    pieces = [["", word, ""] for word in words]
    for start, end, text in spans:
        pieces[start][0] += text
        pieces[end - 1][2] += close
    pairs = zip(map("".join, pieces), gaps or [" "] * len(pieces), strict=True)
    return "".join(itertools.chain.from_iterable(pairs)).rstrip(" ")


def _nested(spans: list[LabelledSpan]) -> list[list[Any]]:
    """Cut spans where they cross, and sort the pieces in pre-order.

    Returns start, end, span, whether this is its first piece, and the height of each piece: the
    number of levels of pieces nested in it.
    """
    pending = [(span.start, -span.end, number, True) for number, span in enumerate(spans)]
    heapify(pending)
    pieces: list[list[Any]] = []
    opened: list[list[Any]] = []  # the pieces that are open at this place, outermost first
    while pending:
        start, minus_end, number, is_first = heappop(pending)
        end = -minus_end
        while opened and opened[-1][1] <= start:
            opened.pop()
        if opened and end > (limit := opened[-1][1]):
            heappush(pending, (limit, -end, number, False))
            end = limit
        for height, piece in enumerate(reversed(opened), 1):
            piece[-1] = max(piece[-1], height)
        opened.append([start, end, spans[number], is_first, 0])
        pieces.append(opened[-1])
    return pieces


def _opened(span: LabelledSpan, is_first: bool, height: int) -> str:
    note = span.note
    if note is None:
        note = span.label if span.probability is None else f"{span.label} {span.probability:.4f}"
    style = f"--c:{escaped(span.color)}" + (f";--h:{height}" if height else "")
    kind = ' class="other"' if span.other else ""
    figure = "" if span.probability is None else f" <i>{span.probability:.2f}</i>"
    label = f"<b>{escaped(span.label)}{figure}</b> " if is_first and span.label else ""
    return f'<mark{kind} style="{style}" title="{escaped(note)}">{label}'


def escaped(text: str) -> str:
    """Return a text as content or in a quoted attribute of HTML and SVG; see `printable`."""
    return escape(printable(text))


def printable(text: str) -> str:
    """Replace white space by blanks, and characters that XML forbids or that break a drawing.

    Those are control characters, surrogates, and embeddings, overrides and isolates of direction,
    which would change the order of what follows. Marks of direction and joiners are kept.
    """
    if text.isprintable():
        return text
    return "".join(
        " "
        if character.isspace()
        else "\N{REPLACEMENT CHARACTER}"
        if unicodedata.category(character) in ("Cc", "Cs", "Cn") or character in _REORDERING
        else character
        for character in text
    )
