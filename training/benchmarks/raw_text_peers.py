"""Split texts by one peer of raw_text.py, in a process in the peer's virtual environment.

    python raw_text_peers.py NAME TEXTS RESULT

TEXTS is a JSON object of lists of texts. RESULT contains the version of the peer, and an object
with the same keys and the sentences of each text, as [start, end] in characters. Settings follow
the documentation of the peer for plain text. Only the standard library and the peer are imported.
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
    """Return nupunkt with its layout rules: a blank line is a boundary."""
    from nupunkt import sentence_spans

    return sentence_spans


def pysbd() -> Callable[[str], Spans]:
    from pysbd import Segmenter

    splitter = Segmenter(language="en", clean=False, char_span=True)
    return lambda text: [(sentence.start, sentence.end) for sentence in splitter.segment(text)]


def spacy() -> Callable[[str], Spans]:
    """Return spaCy's sentencizer, which needs no model."""
    from spacy.lang.en import English

    nlp = English()
    nlp.add_pipe("sentencizer")
    return lambda text: [(sentence.start_char, sentence.end_char) for sentence in nlp(text).sents]


def syntok() -> Callable[[str], Spans]:
    """Return syntok's `analyze`, which keeps offsets."""
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
