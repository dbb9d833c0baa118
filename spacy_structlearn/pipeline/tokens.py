"""From Docs to arrays of symbol ids, sentence by sentence: all that a family of learners reads.

White space tokens are left out, because treebanks have none and no model should see them; a map
back to the tokens of each Doc is kept. Strings are never touched: the ids are spaCy's own 64-bit
hashes, equal on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from spacy.attrs import IDS, IS_SPACE, SENT_START
from spacy.tokens import Doc

from ..errors import StructlearnError

# Attributes that a pipeline component before ours has to set; the others are lexical.
SET_BY_COMPONENTS = {
    "TAG": "token.tag",
    "POS": "token.pos",
    "LEMMA": "token.lemma",
    "MORPH": "token.morph",
    "DEP": "token.dep",
    "ENT_TYPE": "token.ent_type",
}


@dataclass(frozen=True)
class Tokens:
    """The tokens of some Docs that are not white space, in order.

    columns: uint64[n, k], one column an attribute. offsets: int64[s + 1], where each sentence
    begins; no sentence is empty. positions: int64[n], the index of each token in its Doc.
    docs: int64[d + 1], the first sentence of each Doc.
    """

    columns: np.ndarray
    offsets: np.ndarray
    positions: np.ndarray
    docs: np.ndarray


def check_attributes(attributes: Sequence[str], component: str) -> None:
    """Raise SL003 for a name that is no token attribute of spaCy."""
    for name in attributes:
        if name not in IDS:
            raise StructlearnError("SL003", attribute=name, component=component)


def read_tokens(docs: Sequence[Doc], attributes: Sequence[str], component: str) -> Tokens:
    """The symbol ids of `attributes` (spaCy's names: "ORTH", "TAG", "SHAPE", ...).

    Sentences are those of the Doc; a Doc without sentence boundaries is one sentence.
    RAISES: SL001 if an attribute that another component sets is missing from a whole Doc.
    """
    ids = [IDS[name] for name in attributes]
    columns, lengths, positions, first = [], [], [], [0]
    for doc in docs:
        table = doc.to_array([*ids, IS_SPACE, SENT_START])
        kept = np.flatnonzero(table[:, -2] == 0)
        rows = table[kept]
        _check_annotated(doc, rows, attributes, component)
        columns.append(rows[:, : len(ids)])
        positions.append(kept)
        lengths.append(_sentence_lengths(doc, table[:, -1], kept))
        first.append(first[-1] + len(lengths[-1]))
    empty = np.zeros((0, len(ids)), dtype=np.uint64)
    return Tokens(
        columns=np.ascontiguousarray(np.concatenate([empty, *columns]), dtype=np.uint64),
        offsets=np.cumsum(np.concatenate([[0], *lengths]), dtype=np.int64),
        positions=np.concatenate([np.zeros(0, dtype=np.int64), *positions]),
        docs=np.asarray(first, dtype=np.int64),
    )


def _sentence_lengths(doc: Doc, sent_starts: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Number of kept tokens of each sentence that has any."""
    if not len(kept):
        return np.zeros(0, dtype=np.int64)
    if not doc.has_annotation("SENT_START"):
        return np.array([len(kept)], dtype=np.int64)
    # A boundary may fall on a white space token: number the sentences over all tokens first.
    sentence = np.cumsum(sent_starts == 1)[kept]
    return np.unique(sentence, return_counts=True)[1]


def _check_annotated(doc: Doc, rows: np.ndarray, attributes: Sequence[str], component: str) -> None:
    for column, name in enumerate(attributes):
        if name not in SET_BY_COMPONENTS or not len(rows) or rows[:, column].any():
            continue
        # A text without entities is annotated too, which shows in their IOB codes alone.
        if name != "ENT_TYPE" or not doc.has_annotation("ENT_IOB"):
            raise StructlearnError(
                "SL001",
                component=component,
                attribute=f"{SET_BY_COMPONENTS[name]}_",
                text=doc.text[:40],
            )
