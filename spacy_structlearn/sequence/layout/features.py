"""Predicates over arrays of symbol ids: the input side of the features of a chain.

A feature of Sha & Pereira (2003, section 4.1) is a predicate on the input around position i times
a predicate on the labels there. A template such as "TAG[-1]|TAG[0]" describes input predicates: the
symbols of named columns at offsets from i, taken together. The 64-bit key of a predicate is a hash
of the template's text and the symbol ids in order, so a model holds no strings of its training
text. Positions outside the sentence hold padding symbols, one for each distance: -2, -1, n, n + 1.
The keys are part of the model format and must never change.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ...arrays import check_offsets, find_symbols
from ...errors import StructlearnError
from ...kernels.index import KeyIndex, number_keys
from ...learning.settings import check_argument
from ...words.classes import source_columns
from . import _predicates
from .data import AnyFloats, Ints, Symbols

_TERM = re.compile(r"([^\W\d]\w*)\[(0|-?[1-9]\d{0,2})\]")
_BIAS = "bias"

SHA_PEREIRA: tuple[str, ...] = (
    "ORTH[0]",
    "ORTH[-1]",
    "ORTH[1]",
    "ORTH[-2]",
    "ORTH[2]",
    "ORTH[-1]|ORTH[0]",
    "ORTH[0]|ORTH[1]",
    "TAG[0]",
    "TAG[-1]",
    "TAG[1]",
    "TAG[-2]",
    "TAG[2]",
    "TAG[-1]|TAG[0]",
    "TAG[-2]|TAG[-1]",
    "TAG[0]|TAG[1]",
    "TAG[1]|TAG[2]",
    "TAG[-2]|TAG[-1]|TAG[0]",
    "TAG[-1]|TAG[0]|TAG[1]",
    "TAG[0]|TAG[1]|TAG[2]",
    _BIAS,
)
"""The 19 predicates of Sha & Pereira (2003, table 1) and a bias."""


class Templates:
    """A list of predicate templates over named columns of symbol ids.

    templates: texts like "ORTH[0]", "TAG[-1]|TAG[0]" or "bias". Column names are identifiers;
        offsets count tokens, to the right if positive, up to 999.
    key_bits: number of upper bits of the keys to keep; the others are zero.
    Attributes: texts; terms, the set of (column name, offset) of each template; columns, the names
        in order of first appearance.
    Raises StructlearnError if a template is malformed or occurs twice.
    """

    def __init__(self, templates: Sequence[str], key_bits: int = 64):
        check_argument("key_bits", key_bits, ge=8, le=64)
        self.key_bits = key_bits
        self.texts: tuple[str, ...] = tuple(templates)
        parsed = [_parse(text) for text in self.texts]
        for i, text in enumerate(self.texts):
            if text in self.texts[:i]:
                raise StructlearnError("SL202", text=text)
        self.columns: tuple[str, ...] = tuple(
            dict.fromkeys(name for terms in parsed for name, _ in terms)
        )
        self.terms = tuple(frozenset(terms) for terms in parsed)
        self._parsed = parsed
        self._hasher = self._make_hasher(range(len(parsed)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Templates)
            and self.texts == other.texts
            and self.key_bits == other.key_bits
        )

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.texts)

    def keys(self, columns: Symbols, offsets: Ints, chosen: Iterable[int] | None = None) -> Symbols:
        """Return the key of each template's predicate, uint64 (n_tokens, n_templates).

        columns: uint64 (n_tokens, n_columns), symbol ids of `.columns`.
        offsets: int64 (n_sentences + 1), where sentences begin and end; they may be empty.
        chosen: places of some templates; None: all.
        Raises StructlearnError if the shapes do not fit together.
        """
        columns, offsets = self.check(columns, offsets)
        hasher = self._hasher if chosen is None else self._make_hasher(chosen)
        keys = np.empty((len(columns), hasher.n_templates), dtype=np.uint64)
        hasher.keys(columns, offsets, keys)
        return keys

    def frequent_keys(self, columns: Symbols, offsets: Ints, min_count: int) -> Symbols:
        """Return the keys of the predicates true at so many tokens, ascending; see `keys`."""
        frequent = [np.empty(0, dtype=np.uint64)]
        # A template at a time: its keys alone take 8 bytes a token.
        for template in range(len(self)):
            keys = self.keys(columns, offsets, [template])[:, 0]
            firsts, ids = number_keys(keys)
            distinct = keys[firsts]
            frequent.append(distinct[np.bincount(ids, minlength=len(distinct)) >= min_count])
        return np.unique(np.concatenate(frequent))

    def scores(
        self,
        index: KeyIndex,
        columns: Symbols,
        offsets: Ints,
        weights: AnyFloats,
        dtype: DTypeLike = np.float64,
    ) -> NDArray[Any]:
        """Return the sum of the weights of the predicates at each token, (n_tokens, n).

        index: index of the known predicates.
        weights: float32 or float64 (n_predicates, n).
        dtype: type of the sums, float64 or float32.
        """
        columns, offsets = self.check(columns, offsets)
        scores = np.empty((len(columns), weights.shape[1]), dtype=dtype)
        _predicates.predicate_scores(self._hasher, index, columns, offsets, weights, scores)
        return scores

    def check(self, columns: Symbols, offsets: Ints) -> tuple[Symbols, Ints]:
        """Return contiguous arrays; raise StructlearnError if they do not fit together."""
        columns = np.ascontiguousarray(columns, dtype=np.uint64)
        offsets = check_offsets(offsets, len(columns))
        if columns.ndim != 2 or columns.shape[1] != len(self.columns):
            raise StructlearnError(
                "SL204",
                n_tokens=offsets[-1],
                n_columns=len(self.columns),
                columns=", ".join(self.columns) or "nothing",
                shape=columns.shape,
            )
        return columns, offsets

    def names(self, texts: Mapping[str, Mapping[int, str]]) -> dict[int, str]:
        """Return readable names of predicates on single symbols, "ORTH[-1]=the", by their keys.

        texts: strings of symbol ids, by column name. The padding has no names.
        """
        names: dict[int, str] = {}
        for template, terms in enumerate(self._parsed):
            if len(terms) == 1 and terms[0][0] in texts:
                known = texts[terms[0][0]]
                keys = self.symbol_keys(template, np.array(list(known), dtype=np.uint64))
                pairs = zip(keys.tolist(), known.values(), strict=True)
                names.update((key, f"{self.texts[template]}={symbol}") for key, symbol in pairs)
        return names

    def symbol_keys(self, template: int, symbols: Symbols) -> Symbols:
        """Return the key of each symbol for a template that reads a single symbol."""
        # Each symbol stands in a sentence of its own, as far in as the template looks.
        [(_, offset)] = self._parsed[template]
        width = 2 * abs(offset) + 1
        columns = np.repeat(np.repeat(symbols, width)[:, None], len(self.columns), axis=1)
        offsets = np.arange(len(symbols) + 1) * width
        return self.keys(columns, offsets, [template])[abs(offset) :: width, 0]

    def _make_hasher(self, chosen: Iterable[int]) -> _predicates.Hasher:
        chosen = list(chosen)
        terms = [term for i in chosen for term in self._parsed[i]]
        reach = max((abs(offset) for _, offset in terms), default=0)
        distances = range(1, reach + 1)
        return _predicates.Hasher(
            np.array([symbol_of(self.texts[i]) for i in chosen], dtype=np.uint64),
            np.cumsum([0, *(len(self._parsed[i]) for i in chosen)]).astype(np.int32),
            np.array([self.columns.index(name) for name, _ in terms], dtype=np.int32),
            np.array([offset for _, offset in terms], dtype=np.int32),
            np.array([symbol_of(f"padding[{-k}]") for k in distances], dtype=np.uint64),
            np.array([symbol_of(f"padding[+{k}]") for k in distances], dtype=np.uint64),
            2**64 - 2 ** (64 - self.key_bits),
        )


def close(columns: Symbols, names: Sequence[str], vocabularies: Mapping[str, Symbols]) -> Symbols:
    """Return columns with `UNKNOWN` in place of symbols outside the vocabularies, by name."""
    for place, name in enumerate(names):
        if name in vocabularies:
            known = vocabularies[name]
            unknown = find_symbols(columns[:, place], known) == len(known)
            columns = columns.copy()
            columns[unknown, place] = UNKNOWN
    return columns


def check_single_symbols(templates: Templates) -> None:
    """Raise StructlearnError unless templates read a single symbol, of a column of the text."""
    for text, terms in zip(templates.texts, templates.terms, strict=True):
        if len(terms) > 1:
            raise StructlearnError("SL255", template=text)
    for name in templates.columns:
        if name not in source_columns(templates.columns):
            raise StructlearnError("SL258", column=name)


def _parse(text: str) -> list[tuple[str, int]]:
    if text == _BIAS:
        return []
    terms = [_TERM.fullmatch(term) for term in str(text).split("|")]
    if None in terms:
        raise StructlearnError("SL201", text=text)
    return [(term[1], int(term[2])) for term in terms if term]


def symbol_of(text: str) -> int:
    """Return the symbol of a text, 64 bits."""
    digest = blake2b(text.encode("utf8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


UNKNOWN = symbol_of("vocabulary[unknown]")
"""The symbol of everything outside a closed vocabulary."""
