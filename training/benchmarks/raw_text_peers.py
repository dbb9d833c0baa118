"""The sentences of one peer of raw_text.py; a process of its own, in the peer's own environment.

    python raw_text_peers.py NAME TEXTS RESULT

TEXTS is a JSON table of lists of texts; RESULT gets the version of the peer, and a table of the
same keys with the sentences of each text, as [start, end] in characters. Each peer has the settings
that its own documentation gives for plain text; nothing but the standard library and the peer is
imported.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

Spans = list[tuple[int, int]]


def blingfire() -> Callable[[str], Spans]:
    from blingfire import text_to_sentences_and_offsets

    return lambda text: text_to_sentences_and_offsets(text)[1]


def nupunkt() -> Callable[[str], Spans]:
    """With its rules of layout: a blank line is a boundary."""
    from nupunkt import sentence_spans

    return sentence_spans


def pysbd() -> Callable[[str], Spans]:
    from pysbd import Segmenter

    splitter = Segmenter(language="en", clean=False, char_span=True)
    return lambda text: [(sentence.start, sentence.end) for sentence in splitter.segment(text)]


def spacy() -> Callable[[str], Spans]:
    """Its rules, which need no model."""
    from spacy.lang.en import English

    nlp = English()
    nlp.add_pipe("sentencizer")
    return lambda text: [(sentence.start_char, sentence.end_char) for sentence in nlp(text).sents]


def syntok() -> Callable[[str], Spans]:
    """`analyze`, which keeps offsets."""
    from syntok.segmenter import analyze

    return lambda text: [
        (tokens[0].offset, tokens[-1].offset + len(tokens[-1].value))
        for paragraph in analyze(text)
        for tokens in paragraph
    ]


SPLITTERS = {function.__name__: function for function in (blingfire, nupunkt, pysbd, spacy, syntok)}


def main() -> None:
    name, texts, result = sys.argv[1:]
    split = SPLITTERS[name]()
    given = json.loads(Path(texts).read_text(encoding="utf8"))
    sentences = {key: [split(text) for text in own] for key, own in given.items()}
    found = {"version": version(name), "sentences": sentences}
    Path(result).write_text(json.dumps(found), encoding="utf8")


if __name__ == "__main__":
    main()
