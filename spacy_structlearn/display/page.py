"""An HTML page with the tree, chunks, attachments and frames of each sentence of some Docs.

The page is self-contained, without scripts, fonts or images from elsewhere, and a content security
policy forbids them. It supports light and dark colour schemes. A tree is upright where it has room;
elsewhere, as on phones, each of its phrases has a line. Each sentence is a `<details>` element.
Only the first ones are open, because a browser lays out only what is open.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..errors import StructlearnError
from ..groups import CONSTITUENTS, NP_CHUNKS, PP_ATTACHMENTS, SRL
from ..trees.tree import Tree
from . import attachments, chunks, dependencies, frames, html
from .html import POLICY, Page, ShownSentence, by_layer, escaped
from .trees import tree_lines, tree_svg

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span

LAYERS = (CONSTITUENTS, NP_CHUNKS, PP_ATTACHMENTS, SRL)
"""The keys of the layers in `doc.spans`."""
OPEN_SENTENCES = 10
"""The number of sentences that are open at first."""
MOST_WORDS = 300
"""Longer sentences are not drawn whole, because the drawings are a hundred times as long."""
FIRST_WORDS = 50
"""The words of them that are drawn."""

FAILURES = {
    "fallback": "No parse was found; this is a fallback tree.",
    "cut": "This sentence was too long and was parsed in pieces.",
    "constraints": "This tree does not meet all constraints.",
}

_STYLE = """\
:root { color-scheme: light dark; }
* { box-sizing: border-box; }
body, .body { margin: 0 auto; max-width: 80rem; padding: 1rem; color-scheme: light dark;
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  --page: #ffffff; background: #ffffff; color: #1f2328; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0.5rem 0 1rem; overflow-wrap: anywhere; }
h2, h3, h4 { line-height: 1.35; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2rem 0 0.5rem; }
h3, section.alone h2 { font-size: 1.05rem; margin: 0; display: inline; }
h4, section.alone h3 { display: block; font-size: 0.85rem; margin: 1.25rem 0 0.25rem;
  opacity: 0.8; text-transform: uppercase; letter-spacing: 0.04em; }
a { color: #0550ae; }
summary { cursor: pointer; padding: 0.35rem 0; }
:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
.sentence { border: 1px solid #d0d7de; border-radius: 8px; margin: 0.75rem 0;
  padding: 0.4rem 0.9rem; }
.sentence[open] { padding-bottom: 0.9rem; }
/* Shadows where a box scrolls on; at its ends, what scrolls covers them. */
.scroll { overflow-x: auto; scrollbar-width: thin; padding: 0.25rem 0; margin: 0;
  background: linear-gradient(90deg, var(--page) 40%, transparent) 0 0 / 2.5rem 100% local,
    linear-gradient(270deg, var(--page) 40%, transparent) 100% 0 / 2.5rem 100% local,
    linear-gradient(90deg, #888a, transparent) 0 0 / 0.9rem 100%,
    linear-gradient(270deg, #888a, transparent) 100% 0 / 0.9rem 100%;
  background-repeat: no-repeat; }
/* --u is for the upright layout, --l for the lines. */
.room { container-type: inline-size; }
.either { --u: none; --l: block; }
.upright { display: var(--u); }
.lines { display: var(--l); columns: 26rem; column-gap: 2rem; }
.turn:has(:checked) ~ .upright { display: var(--l); }
.turn:has(:checked) ~ .lines { display: var(--u); }
.turn { float: inline-end; margin-top: -1.5rem; font-size: 0.8rem; }
.upright > svg { display: block; margin: 0 auto; }
.lines > div { --i: calc(var(--d, 0) * 0.8rem); padding-inline-start: var(--i);
  min-width: calc(var(--i) + 9rem); break-inside: avoid; overflow-wrap: anywhere;
  background: repeating-linear-gradient(90deg, #8886 0 1px, transparent 1px 0.8rem)
    0 0 / var(--i) 100% no-repeat; }
.lines:dir(rtl) > div { background-position: 100% 0; }
.lines b { font-size: 0.8em; }
.lines i { font-style: normal; font-weight: normal; opacity: 0.8; }
.lines span { padding-inline-start: 0.25rem; }
.guide { font-size: 0.9rem; }
ul { margin: 0; padding: 0; list-style: none; }
p { margin: 0.25rem 0; }
.note { font-style: italic; }
nav ol { margin: 0; padding-inline-start: 1.75rem; }
nav li { margin: 0.25rem 0; overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) {
  body, .body { --page: #0d1117; background: #0d1117; color: #e6edf3; }
  a { color: #79b8ff; }
  .sentence { border-color: #3d444d; }
}
""" + "".join(
    f"@container (width >= {w}px) {{ .w{w} {{ --u: block; --l: none; }} }}\n" for w in html.WIDTHS
)

_GUIDE = """\
<details class="guide">
<summary>How to read this page</summary>
<p>Numbers are probabilities according to the model. Point at a number for more digits.</p>
<p><strong>Tree</strong>: The probability with the label of a phrase is that of this phrase over
exactly these words. Where a tree has no room, each of its phrases has a line instead.</p>
<p><strong>Chunks</strong>: Noun phrases without other noun phrases inside. The tag of each word
follows it.</p>
<p><strong>Attachments</strong>: A prepositional phrase after a verb and its object attaches to the
verb (V) or to the noun (N). The other one is dotted.</p>
<p><strong>Roles</strong>: Who did what to whom, for each predicate (V, with its sense). ARG0 is the
agent and ARG1 the patient. The meaning of higher numbers depends on the predicate. ARGM-LOC is a
place, ARGM-TMP a time, ARGM-MNR a manner, and so on.</p>
<p><strong>Dependencies</strong>: An arrow from each word to the words that depend on it, with the
relation.</p>
</details>
"""


# A Doc, and its sentences with the items of each layer that the Doc has.
_Drawn = tuple["Doc", list[tuple[ShownSentence, dict[str, list[Any]]]]]


def page(
    docs: Doc | Span | Iterable[Doc | Span], *, title: str = "Sentences and their structure"
) -> Page:
    """Draw all predictions of the components of this package on an HTML page.

    Layers that a Doc does not have are left out. A Doc without layers is drawn with its tags.

    docs: a Doc or Span, or several of them, such as `nlp.pipe(texts)`. A Span stands for the
        sentences that it touches.
    title: the title and heading.
    Raises StructlearnError if the extensions of a layer are not registered, and for other objects
    than Docs and Spans.
    """
    from spacy.tokens import Doc, Span

    given = [docs] if isinstance(docs, (Doc, Span, str)) or not isinstance(docs, Iterable) else docs
    drawn = []
    for doclike in given:
        if not isinstance(doclike, (Doc, Span)):
            raise StructlearnError("SL141", wanted="Docs or Spans", kind=type(doclike).__name__)
        drawn.append((doclike.doc, by_layer(doclike)))
    open_sentences = OPEN_SENTENCES
    sections = []
    for number, item in enumerate(drawn, 1):
        sections.append("".join(_document(item, number, len(drawn) == 1, open_sentences)))
        open_sentences -= len(item[1])
    body = "".join(sections) or "<p>There are no documents.</p>"
    return whole(title, f"{_GUIDE}{_navigation(drawn)}{body}")


def whole(title: str, body: str, style: str = "") -> Page:
    """Return a page with a title and heading. style: CSS besides that of all pages."""
    name = escaped(title)
    return Page(f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{POLICY}
<title>{name}</title>
<style>
{_STYLE}{html.STYLE}{style}</style>
</head>
<body>
<main>
<h1 dir="auto">{name}</h1>
{body}
</main>
</body>
</html>
""")


def _navigation(drawn: list[_Drawn]) -> str:
    if len(drawn) < 2:
        return ""
    items = []
    for number, (_, shown) in enumerate(drawn, 1):
        text = shown[0][0].text() if shown else ""
        short = text if len(text) <= 80 else f"{text[:79]}\N{HORIZONTAL ELLIPSIS}"
        name = f'<span dir="auto">{escaped(short)}</span>' if short else "(empty)"
        items.append(f'<li><a href="#d{number}">{name}</a></li>')
    return (
        '<nav aria-label="Documents">\n<details>\n'
        f"<summary>{len(drawn)} documents</summary>\n<ol>\n"
        + "\n".join(items)
        + "\n</ol>\n</details>\n</nav>\n"
    )


def _document(item: _Drawn, number: int, alone: bool, open_sentences: int) -> Iterator[str]:
    doc, shown = item
    # A single document has no heading, so all other headings are one level higher.
    level = 2 if alone else 3
    yield f'<section id="d{number}"' + (' class="alone"' if alone else "") + ">\n"
    if not alone:
        yield f"<h2>Document {number}</h2>\n"
    if not shown:
        yield "<p>This document is empty.</p>\n"
    attributes = f'lang="{escaped(doc.lang_)}" dir="{html.direction(doc)}"'
    for index, (sentence, layers) in enumerate(shown):
        state = " open" if index < open_sentences else ""
        text = escaped(sentence.text())
        yield (
            f'<details class="sentence structlearn" id="d{number}s{index + 1}"{state}>\n'
            f"<summary {attributes}><h{level}>{text}</h{level}></summary>\n"
        )
        yield from drawings(sentence, layers, level + 1, f"arcs-d{number}s{index + 1}")
        yield "</details>\n"
    yield "</section>\n"


def drawings(
    sentence: ShownSentence, layers: dict[str, list[Any]], level: int, name: str
) -> Iterator[str]:
    """Yield the layers of `by_layer` of a sentence as HTML, with headings.

    level: of the headings. name: the id of the drawing of dependencies in the page.
    """
    doc = sentence.span.doc
    attributes = f'lang="{escaped(doc.lang_)}" dir="{html.direction(doc)}"'
    n = len(sentence.positions)
    if n > MOST_WORDS:
        sentence, layers = _beginning(sentence, layers)
        yield f'<p class="note">Only the first {FIRST_WORDS} of {n:,} words are drawn.</p>\n'
    drawn = [*_layers(sentence, layers, attributes)]
    if dependencies.has_arcs(sentence):
        drawn.append(("Dependencies", dependencies.arcs_html(sentence, name, attributes)))
    for heading, body in drawn:
        yield f"<h{level}>{heading}</h{level}>\n{body}\n"


def _beginning(
    sentence: ShownSentence, layers: dict[str, list[Any]]
) -> tuple[ShownSentence, dict[str, list[Any]]]:
    """Return the first words of a sentence, and the items of its layers that begin there."""
    end = sentence.positions[FIRST_WORDS]
    begun = {
        name: [item for item in items if html.first_token(name, item) < end]
        for name, items in layers.items()
    }
    return sentence._replace(positions=sentence.positions[:FIRST_WORDS]), begun


def _layers(
    sentence: ShownSentence, layers: dict[str, list[Any]], attributes: str
) -> Iterator[tuple[str, str]]:
    """Yield heading and HTML of each layer of a sentence."""
    if "brackets" in layers:
        yield "Tree", "".join(_tree(sentence, layers, attributes))
    if "np_chunks" in layers:
        yield "Chunks", f"<p {attributes}>{chunks.chunk_line(sentence, layers['np_chunks'])}</p>"
    elif "brackets" not in layers and any(sentence.tags()):
        yield "Tags", f"<p {attributes}>{chunks.chunk_line(sentence, [])}</p>"
    for heading, name, line in (
        ("Attachments", "pp_attachments", attachments.attachment_line),
        ("Roles", "frames", frames.frame_line),
    ):
        if items := layers.get(name):
            lines = "\n".join(f"<li>{line(sentence, item)}</li>" for item in items)
            yield heading, f"<ul {attributes}>\n{lines}\n</ul>"


def _tree(sentence: ShownSentence, layers: dict[str, list[Any]], attributes: str) -> Iterator[str]:
    tree: Tree = sentence.span._.tree
    if (n := len(sentence.positions)) < len(words := tree.words()):
        spans = [(label, start, min(end, n)) for label, start, end in tree.spans() if start < n]
        tree = Tree.from_spans(words[:n], tree.tags()[:n], spans)
    for kind in dict.fromkeys(span.label_ for span in layers["parse_failures"]):
        yield f'<p class="note">{escaped(FAILURES.get(kind, kind))}</p>\n'
    # The topmost bracket of a unary chain comes first in both. The bracket over a tree with several
    # tops is only in the tree.
    scores: dict[tuple[str, int, int], deque[float | None]] = defaultdict(deque)
    for span, score in layers["brackets"]:
        scores[(span.label_, *sentence.place(span))].append(score)
    probabilities = [scores[key].popleft() if scores[key] else None for key in tree.spans()]
    right_to_left = html.direction(sentence.span.doc) == "rtl"
    svg = tree_svg(tree, probabilities=probabilities, right_to_left=right_to_left)
    yield html.either(
        "Tree", svg, svg.width, tree_lines(tree, probabilities=probabilities), attributes
    )
