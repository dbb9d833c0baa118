"""Conversion of Docs to arrays of symbol ids, sentence by sentence: the input of all learners.

White space tokens are left out, because treebanks have none; the positions of the other tokens are
kept. The ids are spaCy's 64-bit hashes, which are the same on all machines. Strings are used once
for each distinct word, and only for columns that spaCy does not have (`layout.words`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IDS, IS_SPACE, SENT_START
from spacy.lang.lex_attrs import word_shape
from spacy.strings import hash_string
from spacy.tokens import Doc

from ..errors import StructlearnError
from ..kernels.index import number_keys
from ..learning.settings import quoted
from ..sequence.layout.words import is_word_column, word_columns
from ..words.classes import FORMS

# Attributes that are set by a component before ours; the others are lexical.
SET_BY_COMPONENTS = ("TAG", "POS", "LEMMA", "MORPH", "DEP", "ENT_TYPE")


class Tokens(NamedTuple):
    """The tokens of some Docs that are not white space, in order.

    columns: uint64 (n, k), one column per attribute.
    offsets: int64 (s + 1), begin of each sentence; no sentence is empty.
    positions: int64 (n), index of each token in its Doc.
    docs: int64 (d + 1), first sentence of each Doc.
    """

    columns: np.ndarray
    offsets: np.ndarray
    positions: np.ndarray
    docs: np.ndarray


def check_attributes(attributes: Sequence[str], component: str) -> None:
    """Raise StructlearnError unless all names are token attributes of spaCy or word columns."""
    for name in attributes:
        # spaCy lists "", too.
        if not name or (name not in IDS and not is_word_column(name)):
            raise StructlearnError("SL003", attribute=name, component=component)


def check_encoding(settings: Any, component: str, known: Sequence[str]) -> None:
    """Raise StructlearnError unless the encoding of labels is one that a component reads."""
    # Learners of third parties may have no such setting.
    encoding = getattr(settings, "encoding", None)
    if encoding is not None and encoding not in known:
        wanted = " or ".join(map(repr, known))
        given = {"learner": component, "name": "encoding", "value": quoted(encoding)}
        raise StructlearnError("SL043", wanted=wanted, **given)


def read_tokens(
    docs: Sequence[Doc], attributes: Sequence[str], component: str, *, optional: Sequence[str] = ()
) -> Tokens:
    """Read the symbol ids of token attributes.

    A Doc without sentence boundaries is one sentence.
    attributes: spaCy's ("ORTH", "TAG", "SHAPE") or those of `layout.words` ("SUFFIX2", "FLAGS").
    component: its name, for error messages.
    optional: attributes that may be missing.
    Raises StructlearnError if an attribute set by another component is missing in a whole Doc.
    """
    made = [name for name in attributes if is_word_column(name)]
    read = [name for name in attributes if name not in made]
    ids = [IDS[name] for name in (*read, *["ORTH"] * bool(made))]
    # One table for all Docs, because operations on each of many short Docs are slow.
    tables = [doc.to_array([*ids, IS_SPACE, SENT_START]) for doc in docs]
    table = np.concatenate([np.zeros((0, len(ids) + 2), dtype=np.uint64), *tables])
    lengths = np.fromiter(map(len, tables), dtype=np.int64, count=len(tables))
    doc_of = np.repeat(np.arange(len(docs)), lengths)
    firsts = np.cumsum(lengths) - lengths
    kept = np.flatnonzero(table[:, -2] == 0)
    columns = np.ascontiguousarray(table[kept, : len(read)])
    doc_of_kept = doc_of[kept]
    _check_annotated(docs, columns, doc_of_kept, read, component, optional)
    if made:
        lexical, columns = columns, np.empty((len(kept), len(attributes)), dtype=np.uint64)
        words, numbers = distinct_words(docs, table[kept, len(read)])
        columns[:, [attributes.index(name) for name in read]] = lexical
        columns[:, [attributes.index(name) for name in made]] = word_columns(words, made)[numbers]
    # Number the sentences over all tokens, because one may begin with white space.
    begins = table[:, -1] == 1
    begins[firsts[lengths > 0]] = True
    sentence = np.cumsum(begins)[kept]
    starts = np.flatnonzero(np.diff(sentence, prepend=-1))
    return Tokens(
        columns=columns,
        offsets=np.append(starts, len(kept)).astype(np.int64),
        positions=kept - firsts[doc_of_kept],
        docs=np.searchsorted(doc_of_kept[starts], np.arange(len(docs) + 1)).astype(np.int64),
    )


def distinct_words(
    docs: Sequence[Doc], orth: NDArray[np.uint64]
) -> tuple[list[str], NDArray[np.int32]]:
    """Find the distinct words, or other strings, of some tokens.

    orth: uint64 (n), of tokens of the Docs.
    Returns the words, and the index of the word of each token, int32 (n). The vocabs are those of
    the Docs: a component that comes from another pipeline keeps the vocab of that pipeline.
    """
    orth = np.ascontiguousarray(orth)
    firsts, numbers = number_keys(orth)
    keys = orth[firsts].tolist()
    stores = list({id(doc.vocab): doc.vocab.strings for doc in docs}.values())
    if len(stores) == 1:
        return [stores[0][key] for key in keys], numbers
    return [next((store[key] for store in stores if key in store), "") for key in keys], numbers


def _check_annotated(
    docs: Sequence[Doc],
    columns: np.ndarray,
    doc_of: np.ndarray,
    attributes: Sequence[str],
    component: str,
    optional: Sequence[str],
) -> None:
    n_tokens = np.bincount(doc_of, minlength=len(docs))
    for column, name in enumerate(attributes):
        if name not in SET_BY_COMPONENTS or name in optional:
            continue
        n_set = np.bincount(doc_of[columns[:, column] != 0], minlength=len(docs))
        for i in np.flatnonzero((n_set == 0) & (n_tokens > 0)):
            # A text without entities may be annotated too, which only the IOB codes show.
            if name != "ENT_TYPE" or not docs[i].has_annotation("ENT_IOB"):
                raise StructlearnError(
                    "SL001",
                    component=component,
                    attribute=f"token.{name.lower()}_",
                    text=docs[i].text[:40],
                )


def template_columns(
    columns: NDArray[np.uint64], parameters: Any, settings: Any, *, training: bool = False
) -> NDArray[np.uint64]:
    """Compute the columns that the templates of a chain model read, uint64 (n, k).

    columns: the columns of the settings' `attributes`.
    parameters: the chain model, whose word classes are used if it has any.
    training: keep all symbols, of which learners make vocabularies, not only known symbols.
    """
    if not training:
        return parameters.derive(columns)
    if parameters.is_empty or parameters.classes is None:
        return settings.derive(columns)
    return parameters.derive(columns, closed=False)


def form_ids(words: Iterable[str]) -> NDArray[np.uint64]:
    """Return the ids of the forms of words, uint64 (n, 3), by which `WordClasses` are looked up."""
    forms = list(map(_form_ids, words))
    return np.array(forms, dtype=np.uint64).reshape(-1, len(FORMS))


@lru_cache(maxsize=16384)
def _form_ids(word: str) -> tuple[int, int, int]:
    return hash_string(word), hash_string(word.lower()), hash_string(word_shape(word))
