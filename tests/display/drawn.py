"""Docs to draw, and HTML read back."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from html.parser import HTMLParser

import numpy as np
import spacy
from spacy.tokens import Doc

from spacy_structlearn.attachment.sites import Site
from spacy_structlearn.pipeline import extensions
from spacy_structlearn.pipeline.extensions import set_spans

extensions.register()

VOCABS = {lang: spacy.blank(lang).vocab for lang in ("en", "he")}
WORDS = ["She", "ate", "the", "pizza", "with", "a", "fork", ".", "It", "rained", "."]
TAGS = ["PRP", "VBD", "DT", "NN", "IN", "DT", "NN", ".", "PRP", "VBD", "."]
LAYERS = {
    "constituents": [
        ("S", 0, 8), ("NP", 0, 1), ("VP", 1, 7), ("NP", 2, 4), ("PP", 4, 7), ("NP", 5, 7),
        ("S", 8, 11), ("NP", 8, 9), ("VP", 9, 10),
    ],
    "np_chunks": [("NP", 0, 1), ("NP", 2, 4), ("NP", 5, 7), ("NP", 8, 9)],
    "pp_attachments": list(extensions.site_spans([Site(1, 3, 4, 6, 4, 7, "V")])),
    "srl": list(
        extensions.frame_spans(
            [
                (1, "eat.01", [("ARG0", 0, 1), ("ARG1", 2, 4), ("ARGM-MNR", 4, 7)]),
                (9, None, [("ARG1", 8, 9)]),
            ]
        )
    ),
}  # fmt: skip


def annotated(words, layers, *, starts=(0,), tags=None, lang="en", scores=True) -> Doc:
    """A Doc with these span groups. starts: the first token of each sentence, None: no sentences.
    scores: the span i of each group has the probability 0.99 - i / 100.
    """
    sent_starts = None if starts is None else [i in starts for i in range(len(words))]
    doc = Doc(VOCABS[lang], words=words, tags=tags, sent_starts=sent_starts)
    for key, spans in layers.items():
        set_spans(doc, key, spans)
        if scores:
            numbers = [0.99 - i / 100 for i in range(len(spans))]
            doc.spans[key].attrs["scores"] = np.array(numbers, "float32")
    return doc


def pizza(*keys, **settings) -> Doc:
    """Two sentences with the layers of these keys; with all where there are none."""
    layers = {key: LAYERS[key] for key in keys or LAYERS}
    return annotated(WORDS, layers, starts=(0, 8), tags=TAGS, **settings)


def repeated(times):
    """A sentence of eight words several times, as one that was parsed in pieces."""
    n = 8 * times
    layers = {"constituents": [("S", 0, n)], "np_chunks": [], "pp_attachments": [], "srl": []}
    for first in range(0, n, 8):
        for key, spans in layers.items():
            own = [span for span in LAYERS[key] if span[1] < 8]
            spans += [(label, s + first, e + first, *kb) for label, s, e, *kb in own]
    doc = annotated(WORDS[:8] * times, layers, tags=TAGS[:8] * times)
    set_spans(doc, "parse_failures", [("cut", 0, n)])
    return doc


class _Builder(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.builder = ET.TreeBuilder()
        self.open = []
        self.builder.start("root", {})

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), f"an attribute of {tag} is given twice"
        self.builder.start(tag, {name: value or "" for name, value in attrs})
        if tag in ("meta", "input"):
            self.builder.end(tag)
        else:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.builder.end(tag)

    def handle_data(self, data):
        self.builder.data(data)


def read_html(html: str) -> ET.Element:
    """The elements of a page or of a part of one, below one root; fails if one is not closed in
    order.
    """
    parser = _Builder()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    parser.builder.end("root")
    return parser.builder.close()


def text(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def marks(element: ET.Element) -> list[tuple[str, str, str]]:
    """For each mark its label with probability, the words in it without labels and tags, and its
    tooltip.
    """
    found = []
    for mark in element.iter("mark"):
        label = mark.find("b")
        words = [word for word, _ in placed_words(mark)]
        found.append(("" if label is None else text(label), " ".join(words), mark.get("title")))
    return found


def placed_words(element: ET.Element) -> Iterator[tuple[str, list[str]]]:
    """Each word in an element, labels and tags left out, with the tooltips of all marks around it
    in the element, outermost first.
    """
    stack: list[tuple[ET.Element | str | None, list[str]]] = [(element, [])]
    while stack:
        part, around = stack.pop()
        if isinstance(part, str):
            yield from ((word, around) for word in part.split())
        elif part is not None:
            inside = [*around, part.get("title", "")] if part.tag == "mark" else around
            for child in reversed(part):
                stack.append((child.tail, inside))
                if child.tag not in ("b", "sub"):
                    stack.append((child, inside))
            stack.append((part.text, inside))


def contrast(one: str, other: str) -> float:
    """Contrast of two sRGB colours "#rrggbb", 1 to 21 (Web Content Accessibility Guidelines)."""
    dark, light = sorted(map(_luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
