"""The texts of tests/everyday with manually marked sentences, and the pairs of attachments: see the
README there.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from spacy.language import Language

from training.common.recording import ROOT

PAIRS = ROOT / "tests" / "everyday" / "attachments.tsv"

MARK = "‖"
"""Marks the beginning of each sentence except for the first. It is not part of the text."""


def read_everyday(folder: Path) -> list[tuple[str, str, list[tuple[int, int]]]]:
    """Return the name, raw text and sentences of each text in a folder, sorted by name.

    A sentence is a span of characters without leading and trailing white space.
    """
    paths = sorted(folder.glob("*.txt"))
    return [(path.stem, *parse_marked(path.read_text(encoding="utf8"))) for path in paths]


def parse_marked(marked: str) -> tuple[str, list[tuple[int, int]]]:
    """Return the raw text and the sentences of a marked text, without the final line break."""
    parts = marked.removesuffix("\n").split(MARK)
    sentences, offset = [], 0
    for part in parts:
        start = offset + len(part) - len(part.lstrip())
        sentences.append((start, offset + len(part.rstrip())))
        offset += len(part)
    return "".join(parts), sentences


class Reading(NamedTuple):
    """A sentence with a prepositional phrase whose attachment is certain.

    label: "V" (the verb) or "N" (its object). start, end: the characters of the phrase.
    """

    text: str
    start: int
    end: int
    label: str


def read_pairs() -> list[Reading]:
    """Return the sentences of the pairs, in turn attached to the verb and to the noun."""
    found = []
    for line in PAIRS.read_text(encoding="utf8").splitlines():
        for label, marked in zip("VN", line.split("\t"), strict=True):
            before, rest = marked.split("[")
            phrase, after = rest.split("]")
            end = len(before) + len(phrase)
            found.append(Reading(before + phrase + after, len(before), end, label))
    return found


def score_pairs(nlp: Language) -> dict[str, float]:
    """Return the share of the phrases of each reading that a pipeline attaches right, from raw
    text, and the number of sentences of each. A phrase without attachment is not right.
    """
    readings = read_pairs()
    right = {"V": 0, "N": 0}
    for reading, doc in zip(readings, nlp.pipe(r.text for r in readings), strict=True):
        found = {a.prep.idx: a.label for a in doc._.pp_attachments}
        right[reading.label] += found.get(reading.start) == reading.label
    n = {label: sum(r.label == label for r in readings) for label in right}
    return {"pairs.n": n["V"], "pairs.verb": right["V"] / n["V"], "pairs.noun": right["N"] / n["N"]}
