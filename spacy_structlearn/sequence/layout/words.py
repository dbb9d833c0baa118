"""Columns of the spelling of words: prefixes, suffixes and kinds of characters.

PREFIX2 and SUFFIX3 are symbols of the first two and the last three characters, in lower case
(lengths 1 to 16; Ratnaparkhi 1996, table 1). They are 0 if the word is not longer, because the word
is a symbol already. FLAGS is one symbol of the kinds of characters in the word. The symbols are
part of the model format and must never change.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from . import _words
from .data import Symbols

FLAGS = "FLAGS"
"""Bits: 1 a digit, 2 a hyphen, 4 a capital first, 8 only capitals, 16 a capital later, 32 neither
letters nor digits, 64 a period before the last character, 128 an @, 256 a slash, 512 a digit last,
1024 a lower-case letter, 2048 an apostrophe."""

_AFFIX = re.compile(r"(PREFIX|SUFFIX)([1-9]|1[0-6])")


def is_word_column(name: str) -> bool:
    """Return whether the name is that of a column of this module."""
    return name == FLAGS or _AFFIX.fullmatch(name) is not None


def word_columns(words: Sequence[str], names: Sequence[str]) -> Symbols:
    """Return the symbols of each word, uint64 (n_words, n_names)."""
    columns = np.empty((len(words), len(names)), dtype=np.uint64)
    lengths = {}
    for place, name in enumerate(names):
        match = _AFFIX.fullmatch(name)
        if match is None:
            flags = np.empty(len(words), dtype=np.uint64)
            _words.flags(list(words), flags)
            columns[:, place] = flags
        else:
            lengths[place] = int(match[2]) * (1 if match[1] == "PREFIX" else -1)
    if lengths:
        affixes = np.empty((len(words), len(lengths)), dtype=np.uint64)
        of = np.array(list(lengths.values()), dtype=np.int32)
        _words.affixes([word.lower() for word in words], of, affixes)
        columns[:, list(lengths)] = affixes
    return columns
