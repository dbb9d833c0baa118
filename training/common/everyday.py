"""The texts of tests/everyday with manually marked sentences: see the README there."""

from __future__ import annotations

from pathlib import Path

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
