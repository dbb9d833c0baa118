"""CoNLL-2000: its sentences, also as arrays."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

N_TRAIN = 7936
Sentence = list[tuple[str, str, str]]  # word, tag, B-NP / I-NP / O


def read(path: Path, stop: int | None = None) -> list[Sentence]:
    """Read sentences with NP chunks only."""
    sentences, rows = [], []
    with gzip.open(path, "rt", encoding="utf8") as lines:
        for line in lines:
            if line.strip():
                word, tag, iob = line.split()
                rows.append((word, tag, iob if iob.endswith("-NP") else "O"))
            elif rows:
                sentences.append(rows)
                rows = []
                if len(sentences) == stop:
                    break
    return sentences


def ours_data(sentences: list[Sentence]):
    """Return the sentences as arrays of symbol ids, hashing each string once."""
    from spacy_structlearn.sequence.layout.data import SequenceData
    from spacy_structlearn.sequence.layout.features import symbol_of

    ids: dict[str, int] = {}

    def symbol(text: str) -> int:
        if text not in ids:
            ids[text] = symbol_of(text)
        return ids[text]

    columns = np.array(
        [(symbol(word), symbol(tag)) for rows in sentences for word, tag, _ in rows],
        dtype=np.uint64,
    )
    offsets = np.cumsum([0, *map(len, sentences)])
    return SequenceData(columns, offsets, tuple(iob for rows in sentences for _, _, iob in rows))
