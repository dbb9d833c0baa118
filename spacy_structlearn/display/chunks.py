"""Chunks as text: the bracketed notation of the chunking literature."""

from __future__ import annotations

from collections.abc import Sequence


def bracketed(
    words: Sequence[str], tags: Sequence[str], spans: Sequence[tuple[str, int, int]]
) -> str:
    """One sentence as `[NP The/DT cat/NN ] sat/VBD`.

    words, tags: n strings each; an empty tag is left out with its slash. spans: (label, start,
    end) over the words, sorted and not overlapping.
    """
    opening = {start: label for label, start, _ in spans}
    closing = {end - 1 for _, _, end in spans}
    pieces = []
    for index, (word, tag) in enumerate(zip(words, tags, strict=True)):
        if index in opening:
            pieces.append(f"[{opening[index]}")
        pieces.append(f"{word}/{tag}" if tag else word)
        if index in closing:
            pieces.append("]")
    return " ".join(pieces)
