"""Predicates over arrays of symbol ids: the observation side of every feature of a chain.

A feature of Sha & Pereira (2003, section 4.1) is a predicate on the input around position i times
a predicate on the labels there. A template such as "TAG[-1]|TAG[0]" describes the former: the
symbols of named columns at offsets from i, taken together. Each predicate is known by a 64-bit
key, a hash of the template's text and of the symbol ids in order, so that a model holds no strings
of the text it was trained on. Positions outside of the sentence hold padding symbols, one for
each distance: -2, -1, n, n + 1, ... The keys are part of the model format and must never change.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..errors import StructlearnError
from ..kernels.index import KeyIndex
from . import _chain

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
    key_bits: how many bits of the keys, the upper ones, are kept; the others are zero.
    Attributes: texts; terms, of each template the set of its (column name, offset); columns, the
        names in order of first appearance.
    Raises StructlearnError SL201 for a malformed template, SL202 for one given twice, SL209.
    """

    def __init__(self, templates: Sequence[str], key_bits: int = 64):
        if not 8 <= key_bits <= 64:
            raise StructlearnError("SL209", name="key_bits", wanted="8 to 64", value=key_bits)
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

    def __hash__(self) -> int:
        return hash(self.texts)

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        return f"Templates({list(self.texts)!r})"

    def keys(
        self,
        columns: NDArray[np.uint64],
        offsets: NDArray[np.int64],
        chosen: Iterable[int] | None = None,
    ) -> NDArray[np.uint64]:
        """The 64-bit key of each template's predicate at each token.

        columns: uint64 (n_tokens, n_columns), symbol ids, one column for each of `.columns`.
        offsets: int64 (n_sentences + 1), where sentences begin and end; they may be empty.
        chosen: the places of some templates; None: all.
        Returns uint64 (n_tokens, n_templates), the same on every platform.
        Raises StructlearnError SL203 or SL204 if the shapes do not fit.
        """
        columns, offsets = self.check(columns, offsets)
        hasher = self._hasher if chosen is None else self._make_hasher(chosen)
        keys = np.empty((len(columns), hasher.n_templates), dtype=np.uint64)
        hasher.keys(columns, offsets, keys)
        return keys

    def scores(
        self,
        index: KeyIndex,
        columns: NDArray[np.uint64],
        offsets: NDArray[np.int64],
        weights: NDArray[np.floating],
        unknown: NDArray[np.float64] | None = None,
        dtype: DTypeLike = np.float64,
    ) -> NDArray[np.floating]:
        """The sum of the weights of the predicates at each token, (n_tokens, n) of type `dtype`.

        index: of the known predicates. weights: float32 or float64 (n_predicates, n). unknown:
        float64 (n_templates, n), for those that are not known. dtype: float64 or float32. The
        rest: as in `keys`.
        """
        columns, offsets = self.check(columns, offsets)
        scores = np.empty((len(columns), weights.shape[1]), dtype=dtype)
        _chain.predicate_scores(self._hasher, index, columns, offsets, weights, unknown, scores)
        return scores

    def check(
        self, columns: NDArray[np.uint64], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """`columns` and `offsets` as contiguous arrays; SL203 or SL204 if they do not fit."""
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
        """Readable names of predicates on single symbols, such as "ORTH[-1]=the", by their keys.

        texts: by column name, the strings of symbol ids. The padding has no names.
        """
        names = {}
        for template, terms in enumerate(self._parsed):
            if len(terms) != 1 or terms[0][0] not in texts:
                continue
            known = texts[terms[0][0]]
            # Each symbol in the middle of a sentence of its own, as far in as the template looks.
            reach = abs(terms[0][1])
            ids = np.array(list(known), dtype=np.uint64)
            columns = np.repeat(ids, 2 * reach + 1)[:, None]
            columns = np.repeat(columns, len(self.columns), axis=1)
            offsets = np.arange(len(ids) + 1, dtype=np.int64) * (2 * reach + 1)
            keys = self.keys(columns, offsets, [template])[reach :: 2 * reach + 1, 0]
            text = self.texts[template]
            pairs = zip(keys.tolist(), known.values(), strict=True)
            names.update((key, f"{text}={symbol}") for key, symbol in pairs)
        return names

    def _make_hasher(self, chosen: Iterable[int]) -> _chain.Hasher:
        chosen = list(chosen)
        terms = [term for i in chosen for term in self._parsed[i]]
        reach = max((abs(offset) for _, offset in terms), default=0)
        distances = range(1, reach + 1)
        return _chain.Hasher(
            np.array([_hash(self.texts[i]) for i in chosen], dtype=np.uint64),
            np.cumsum([0, *(len(self._parsed[i]) for i in chosen)]).astype(np.int32),
            np.array([self.columns.index(name) for name, _ in terms], dtype=np.int32),
            np.array([offset for _, offset in terms], dtype=np.int32),
            np.array([_hash(f"padding[{-k}]") for k in distances], dtype=np.uint64),
            np.array([_hash(f"padding[+{k}]") for k in distances], dtype=np.uint64),
            2**64 - 2 ** (64 - self.key_bits),
        )


def check_offsets(offsets: NDArray[np.int64], n_tokens: int) -> NDArray[np.int64]:
    """`offsets` as contiguous int64, if they delimit `n_tokens` tokens (else SL203)."""
    offsets = np.ascontiguousarray(offsets, dtype=np.int64)
    sound = offsets.ndim == 1 and len(offsets) and offsets[0] == 0 and offsets[-1] == n_tokens
    if not sound or (np.diff(offsets) < 0).any():
        raise StructlearnError("SL203", n_tokens=n_tokens)
    return offsets


def find_symbols(symbols: NDArray[np.uint64], known: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Place of each symbol in `known` (ascending), len(known) if it is not there; int64."""
    places = np.searchsorted(known, symbols)
    found = places < len(known)
    found[found] = known[places[found]] == symbols[found]
    return np.where(found, places, len(known))


def _parse(text: str) -> list[tuple[str, int]]:
    if text == _BIAS:
        return []
    terms = [_TERM.fullmatch(term) for term in str(text).split("|")]
    if None in terms:
        raise StructlearnError("SL201", text=text)
    return [(term[1], int(term[2])) for term in terms if term]


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf8"), digest_size=8).digest(), "little")


UNKNOWN = _hash("vocabulary[unknown]")
"""The symbol that stands for all that a closed vocabulary does not have."""
