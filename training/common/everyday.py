"""The texts of tests/everyday, whose sentences are marked by hand: see the README there."""

from __future__ import annotations

from pathlib import Path

MARK = "‖"
"""Stands before each sentence but the first of a text. It is not part of the text."""


def read_everyday(folder: Path) -> list[tuple[str, str, list[tuple[int, int]]]]:
    """The name, the raw text and the sentences of each text in a folder, sorted by name.

    A sentence is its start and end in characters, without white space at both ends.
    """
    paths = sorted(folder.glob("*.txt"))
    return [(path.stem, *parse_marked(path.read_text(encoding="utf8"))) for path in paths]


def parse_marked(marked: str) -> tuple[str, list[tuple[int, int]]]:
    """The raw text and the sentences of a text with marks. One final line break is left out."""
    parts = marked.removesuffix("\n").split(MARK)
    sentences, offset = [], 0
    for part in parts:
        start = offset + len(part) - len(part.lstrip())
        sentences.append((start, offset + len(part.rstrip())))
        offset += len(part)
    return "".join(parts), sentences
