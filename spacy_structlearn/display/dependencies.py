"""The arcs of a dependency tree, drawn by displaCy."""

from __future__ import annotations

from zlib import crc32

from spacy.displacy.render import DependencyRenderer

from .html import ShownSentence, direction, either, escaped, printable, tagged
from .trees import pixels

LEAST_DISTANCE = 110  # between two words, in pixels
_OPTIONS = {
    "compact": True,
    "word_spacing": 32,
    "bg": "none",
    "color": "inherit",
    "font": "inherit",
}


def has_arcs(sentence: ShownSentence) -> bool:
    """Return whether all words of a sentence have a dependency label."""
    return all(sentence.span.doc[i].dep for i in sentence.positions)


def arcs_html(sentence: ShownSentence, name: str, attributes: str) -> str:
    """Draw the arcs between the words of a sentence, without white space; see `html.either`.

    name: the identifier of the drawing, unique on its page.
    """
    doc, places = sentence.span.doc, {i: place for place, i in enumerate(sentence.positions)}
    # displaCy escapes words, and neither tags nor labels.
    tags = [escaped(doc[i].pos_ or tag) for i, tag in zip(places, sentence.tags(), strict=True)]
    words = [
        {"text": printable(word), "tag": tag}
        for word, tag in zip(sentence.words(), tags, strict=True)
    ]
    arcs, lines = [], []
    for i, place in places.items():
        head, label = places.get(doc[i].head.i, place), escaped(doc[i].dep_)
        line = f"><span>{tagged(doc[i].text, doc[i].pos_ or doc[i].tag_)}</span> <b>{label}</b>"
        if head != place:
            start, end = sorted((head, place))
            towards = "left" if place < head else "right"
            arcs.append({"start": start, "end": end, "label": label, "dir": towards})
            line += f" \N{LEFTWARDS ARROW} {escaped(doc[i].head.text)}"
        lines.append(line)
    texts = [text for word in words for text in word.values()]
    distance = max([LEAST_DISTANCE, *(pixels(text, 16) for text in texts)])
    renderer = DependencyRenderer(_OPTIONS | {"distance": distance})
    renderer.direction, renderer.lang = direction(doc), escaped(doc.lang_)
    # A notebook shows several pages, which must not use the arcs of each other.
    name += f"-{crc32(repr((words, arcs)).encode('utf8', 'replace')):x}"
    svg = renderer.render_svg(name, words, arcs).strip()
    # Its height is that of round arcs; ours are a third as high.
    blank = int(renderer.offset_y - renderer.highest_level * distance / 6) - 20
    svg = svg.replace('style="', f'style="margin-top: {-blank}px; ', 1)
    return either("Dependencies", svg + "\n", renderer.width, lines, attributes)
