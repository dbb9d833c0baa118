"""Labelled sentences, the training data of all chain models."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Arrays of symbol ids; offsets and places; ids of labels, states and rows; weights and scores.
Symbols = NDArray[np.uint64]
Ints = NDArray[np.int64]
Ids = NDArray[np.int32]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
AnyInts = NDArray[np.integer]
AnyFloats = NDArray[np.floating]


class SequenceData(NamedTuple):
    """Labelled sentences.

    columns: uint64 (n_tokens, n_columns), symbol ids.
    offsets: int64 (n_sentences + 1), where sentences begin and end.
    tags: the label of each token, in the encoding of the settings.
    """

    columns: Symbols
    offsets: Ints
    tags: tuple[str, ...]


Parts = Sequence[SequenceData]


def arranged(data: Parts) -> list[SequenceData]:
    """Return single sentences in an order that depends only on their contents.

    This is for training that depends on the order of sentences, which spaCy shuffles: the first
    token of every type counts as unknown (see `hmm.close_columns`).
    """
    sentences = [
        SequenceData(part.columns[begin:end], np.array([0, end - begin]), part.tags[begin:end])
        for part in data
        for begin, end in pairwise(np.asarray(part.offsets).tolist())
    ]
    return sorted(sentences, key=_digest)


def _digest(sentence: SequenceData) -> bytes:
    digest = blake2b(sentence.columns.astype("<u8").tobytes(), digest_size=8)
    digest.update(" ".join(sentence.tags).encode())
    return digest.digest()


def concatenate(data: Parts, tags: Sequence[str]) -> tuple[Symbols, Ints, Ids]:
    """Return columns, offsets and label ids of all sentences; ids are places in `tags`.

    Raises KeyError if a tag is not in `tags`.
    """
    ids = {tag: index for index, tag in enumerate(tags)}
    shifts = np.cumsum([0, *(len(part.tags) for part in data)])
    offsets = [part.offsets[1:] + shift for part, shift in zip(data, shifts[:-1], strict=True)]
    return (
        np.concatenate([part.columns for part in data]),
        np.concatenate([[0], *offsets]).astype(np.int64),
        np.array([ids[tag] for part in data for tag in part.tags], dtype=np.int32),
    )
