"""The arcs of a dependency tree, drawn by displaCy."""

from __future__ import annotations

from spacy.displacy.render import DependencyRenderer

from .html import ShownSentence, direction, escaped, printable

_OPTIONS = {"compact": True, "distance": 110, "bg": "none", "color": "inherit", "font": "inherit"}


def has_arcs(sentence: ShownSentence) -> bool:
    """Return whether all words of a sentence have a dependency label."""
    return all(sentence.span.doc[i].dep for i in sentence.positions)


def arcs_svg(sentence: ShownSentence, name: str) -> str:
    """Return the drawing of the arcs between the words of a sentence, without white space.

    name: the identifier of the drawing, unique on its page.
    """
    doc, places = sentence.span.doc, {i: place for place, i in enumerate(sentence.positions)}
    # displaCy escapes words, and neither tags nor labels.
    tags = [escaped(doc[i].pos_ or tag) for i, tag in zip(places, sentence.tags(), strict=True)]
    words = [
        {"text": printable(word), "tag": tag}
        for word, tag in zip(sentence.words(), tags, strict=True)
    ]
    arcs = []
    for i, place in places.items():
        head = places.get(doc[i].head.i, place)
        if head != place:
            start, end = sorted((head, place))
            towards = "left" if place < head else "right"
            arcs.append({"start": start, "end": end, "label": escaped(doc[i].dep_), "dir": towards})
    renderer = DependencyRenderer(_OPTIONS)
    renderer.direction, renderer.lang = direction(doc), escaped(doc.lang_)
    return renderer.render_svg(name, words, arcs).strip()
