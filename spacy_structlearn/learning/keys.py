"""Keys of which a model keeps only the upper bits.

Keys are hashes of 64 bits. Of n ascending keys, about 26 + log2(n) upper bits are kept, the others
are zero, and a file has the gaps between them in 32 bits each. A hash that is not among the keys
agrees with one of them once in about 2^26 times.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
StoredKeys = NDArray[np.uint32] | NDArray[np.uint64]
_SPARE_BITS = 26


def mask(bits: int) -> int:
    """Return the number of 64 bits whose upper bits are set. bits: how many of them."""
    return 2**64 - 2 ** (64 - bits)


def narrow(keys: Keys, bits: int = 64) -> tuple[Keys, int]:
    """Return ascending keys without their lower bits, and the number of bits that they have.

    bits: at most this many are kept.
    """
    kept = min(bits, _SPARE_BITS + len(keys).bit_length())
    while True:
        own = keys >> np.uint64(64 - kept)
        steps = np.diff(own, prepend=np.uint64(0))
        if kept == bits or (steps[1:].all() and steps.max(initial=0) < 2**32):
            return own << np.uint64(64 - kept), kept
        kept += 1


def gaps(keys: Keys, bits: int) -> StoredKeys:
    """Return what is stored of keys with this many bits: their gaps, or the keys if one does not
    fit."""
    found = np.diff(keys >> np.uint64(64 - bits), prepend=np.uint64(0))
    return found.astype(np.uint32) if bits < 64 and found.max(initial=0) < 2**32 else keys


def of_gaps(stored: StoredKeys, bits: int) -> Keys:
    """Return the keys of `gaps`. Raises ValueError for arrays that it does not return."""
    if not 1 <= bits <= 64:
        raise ValueError("keys have too few or too many bits")
    keys: Any = stored
    if bits < 64 and stored.dtype == np.uint32 and stored.ndim == 1:
        keys = np.cumsum(stored, dtype=np.uint64)
        if keys[-1:].max(initial=0) >= 2**bits:
            raise ValueError("keys have too many bits")
        keys <<= np.uint64(64 - bits)
    if keys.dtype != np.uint64 or keys.ndim != 1 or not (keys[1:] > keys[:-1]).all():
        raise ValueError("its keys are not ascending")
    if (keys & np.uint64(mask(bits)) != keys).any():
        raise ValueError("keys have too many bits")
    return keys
