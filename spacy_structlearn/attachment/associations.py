"""Associations of verbs and nouns with prepositions, and of prepositions with their objects.

They are estimated from counts of unambiguous phrases in raw text. The lexical
association of a word w and a preposition p is

    log P(p | w) / P(p),    P(p | w) = (C(w, p) + a P(p)) / (C(w) + a),

as in Hindle & Rooth (1993), with the frequency of the preposition among all verbs (nouns) as the
prior. A phrase also tells itself whether it belongs to verbs or to nouns, log P(n2 | p, V) / P(n2 |
p, N) (Ratnaparkhi 1998). The values are rounded to a few levels, which a classifier of nominal data
can read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels.index import KeyIndex, mix_pairs
from ..learning.keys import gaps, narrow, of_gaps
from ..learning.stored import Stored
from .sites import NOUN, VERB

Symbols = NDArray[np.uint64]
Floats = NDArray[np.float64]
# Of a count: what is counted for verbs and for nouns. Part of the format of models.
SEEDS = {VERB: (1, 2), NOUN: (3, 4)}
_ANY = 0  # the symbol of any word
STEPS = 8  # of counts, in each doubling
_PRIOR = 20.0  # a
_OBJECT_PRIOR = 5.0
_LEVELS = np.array([-1.5, -0.8, -0.35, 0.0, 0.35, 0.8, 1.5, 2.5])


class Associations(Stored):
    """Counts of unambiguous prepositional phrases.

    keys: uint64 (n), ascending: hashes of what was counted.
    counts: uint8 (n), log2(1 + count) in eighths, rounded.
    key_bits: the upper bits of keys that are compared; the others are zero.
    """

    kind = "pp_associations"
    version = 2
    readable = (1, 2)

    def __init__(
        self,
        keys: Symbols | None = None,
        counts: NDArray[np.uint8] | None = None,
        key_bits: int = 64,
    ):
        self.key_bits = key_bits
        self.keys = np.empty(0, np.uint64) if keys is None else keys
        self.counts = np.empty(0, np.uint8) if counts is None else counts
        if self.counts.shape != self.keys.shape or (self.keys[1:] <= self.keys[:-1]).any():
            raise ValueError("its keys and counts do not fit together")
        self._index = KeyIndex(np.ascontiguousarray(self.keys), key_bits)

    def __len__(self) -> int:
        return len(self.keys)

    def compact(self) -> Associations:
        """Return smaller associations with almost the same levels; see `learning.keys`."""
        keys, bits = narrow(self.keys, self.key_bits)
        return Associations(keys, self.counts, bits)

    def to_fields(self) -> tuple[int, dict[str, Any]]:
        return self.version, self.fields() | {"keys": gaps(self.keys, self.key_bits)}

    @classmethod
    def from_fields(cls, version: int, fields: dict[str, Any]) -> Associations:
        keys = of_gaps(fields["keys"], fields.get("key_bits", 64))
        return super().from_fields(version, fields | {"keys": keys})

    def columns(
        self, verbs: Symbols, nouns: Symbols, prepositions: Symbols, objects: Symbols
    ) -> Symbols:
        """Return the levels of three associations of each site, symbols for a classifier.

        verbs, nouns, prepositions, objects: uint64 (n), symbols of V, N1, P, N2.
        Returns uint64 (n, 3): of verb and preposition, noun and preposition, and of the phrase with
        verbs instead of nouns.
        """
        values = [
            self._of_head(VERB, verbs, prepositions),
            self._of_head(NOUN, nouns, prepositions),
            self._of_object(prepositions, objects),
        ]
        return np.stack([np.searchsorted(_LEVELS, v) + 1 for v in values], axis=1).astype(np.uint64)

    def _of_head(self, label: str, words: Symbols, prepositions: Symbols) -> Floats:
        """Return log P(p | w) / P(p)."""
        seed, _ = SEEDS[label]
        anything = np.full_like(words, _ANY)
        prior = (self._count(seed, anything, prepositions) + 0.5) / (
            self._count(seed, anything, anything) + 1
        )
        both, alone = self._count(seed, words, prepositions), self._count(seed, words, anything)
        return np.log((both + _PRIOR * prior) / (alone + _PRIOR) / prior)

    def _of_object(self, prepositions: Symbols, objects: Symbols) -> Floats:
        """Return log P(n2 | p, V) / P(n2 | p, N)."""
        anything = np.full_like(objects, _ANY)
        (verb, verbs), (noun, nouns) = (
            (self._count(seed, prepositions, objects), self._count(seed, prepositions, anything))
            for _, seed in SEEDS.values()
        )
        prior = (verb + noun + 0.5) / (verbs + nouns + 1000)
        a = 100 * _OBJECT_PRIOR
        return np.log((verb + a * prior) / (verbs + a) * (nouns + a) / (noun + a * prior))

    def _count(self, seed: int, first: Symbols, second: Symbols) -> Floats:
        places = self._index.find(keys_of(seed, first, second))
        logs = np.append(self.counts, 0)[places].astype(np.float64)
        return np.exp2(logs / STEPS) - 1


def keys_of(seed: int, first: Symbols, second: Symbols) -> Symbols:
    """Return the key of each count of two symbols, (n)."""
    firsts = mix_pairs(np.full(len(first), seed, dtype=np.uint64), np.ascontiguousarray(first))
    return mix_pairs(firsts, np.ascontiguousarray(second))
