"""CoNLL-2000: its sentences, and the features and settings shared by CRFsuite and our CRF.

Functions import the package only when they need it, so that it does not add to the memory of peers.
"""

from __future__ import annotations

import gzip
from hashlib import blake2b
from pathlib import Path

import numpy as np

N_TRAIN = 7936
L2 = 2.0  # of |w|^2 / 2
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

    ids: dict[str, int] = {}

    def symbol(text: str) -> int:
        if text not in ids:
            ids[text] = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
        return ids[text]

    columns = np.array(
        [(symbol(word), symbol(tag)) for rows in sentences for word, tag, _ in rows],
        dtype=np.uint64,
    )
    offsets = np.cumsum([0, *map(len, sentences)])
    return SequenceData(columns, offsets, tuple(iob for rows in sentences for _, _, iob in rows))


def ours_settings(threads: int = 1):
    """Return the settings of the CRF that is compared with CRFsuite."""
    from spacy_structlearn.sequence.settings import CRFSettings

    return CRFSettings(
        l2=L2,
        max_iterations=500,
        tolerance=1e-6,
        threads=threads,
    )


def attributes(rows: Sentence) -> list[list[str]]:
    """Return the same predicates as strings."""
    n = len(rows)

    def at(column: int, i: int) -> str:
        return rows[i][column] if 0 <= i < n else f"<{i if i < 0 else i - n + 1}>"

    templates = [[("w", k)] for k in (0, -1, 1, -2, 2)] + [
        [("w", -1), ("w", 0)],
        [("w", 0), ("w", 1)],
        *([("t", k)] for k in (0, -1, 1, -2, 2)),
        *([("t", k), ("t", k + 1)] for k in (-1, -2, 0, 1)),
        *([("t", k), ("t", k + 1), ("t", k + 2)] for k in (-2, -1, 0)),
    ]
    names = ["|".join(f"{c}[{k}]" for c, k in template) for template in templates]
    columns = {"w": 0, "t": 1}
    sequence = []
    for i in range(n):
        texts = [
            f"{name}={'|'.join(at(columns[c], i + k) for c, k in template)}"
            for name, template in zip(names, templates, strict=True)
        ]
        sequence.append([*texts, "bias"])
    return sequence
