"""How probabilities are stored: nonzero values only, exactly or by their logarithms.

Files have either a bit mask of the places of these values or the gaps between them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

STORAGES = ("float32", "float16")
_LARGEST_LOG = float(np.log(np.finfo(np.float32).max)) - 1e-6


class Entries(NamedTuple):
    """The nonzero values of a vector, float32, and their indexes, int64, ascending."""

    places: NDArray[np.int64]
    values: NDArray[np.float32]

    @classmethod
    def of(cls, vector: NDArray[np.float32]) -> Entries:
        """The entries of a vector, float32 (n)."""
        places = np.flatnonzero(vector)
        return cls(places, vector[places])

    def dense(self, size: int) -> NDArray[np.float32]:
        """The vector, float32 (size)."""
        full = np.zeros(size, dtype=np.float32)
        full[self.places] = self.values
        return full


def sparse(values: NDArray[np.float32], storage: str) -> dict[str, Any]:
    """Pack an array: its nonzero entries, and their positions in the fewest bytes."""
    return pack(Entries.of(values.reshape(-1)), values.size, storage)


def pack(entries: Entries, size: int, storage: str) -> dict[str, Any]:
    """Return the fields of a file for the entries of a sparse array of `size` values."""
    places = entries.places
    fields: dict[str, Any] = {"values": _encoded(entries.values, storage)}
    gaps = np.diff(places, prepend=-1) - 1
    narrow = not len(gaps) or gaps.max() < 256
    if 8 * len(places) * (1 if narrow else 2) < size and (narrow or gaps.max() < 65536):
        fields["gaps"] = gaps.astype(np.uint8 if narrow else np.uint16)
    else:
        mask = np.zeros(size, dtype=np.bool_)
        mask[places] = True
        fields["mask"] = np.packbits(mask, bitorder="little")
    return fields


def unpack(fields: dict[str, Any], size: int) -> Entries:
    """The entries that `sparse` packed. Raises ValueError for damaged fields."""
    stored = fields["values"]
    if "gaps" in fields:
        gaps = fields["gaps"]
        if gaps.dtype not in (np.uint8, np.uint16) or gaps.shape != stored.shape:
            raise ValueError("places that do not fit the values")
        places = np.cumsum(gaps.astype(np.int64) + 1) - 1
    else:
        mask = fields["mask"]
        if mask.dtype != np.uint8 or mask.shape != ((size + 7) // 8,):
            raise ValueError("a bit mask of the wrong length")
        places = np.flatnonzero(np.unpackbits(mask, count=size, bitorder="little"))
    if stored.shape != places.shape or (len(places) and places[-1] >= size):
        raise ValueError("values that do not fit their places")
    return Entries(places, _decoded(stored))


def signed(entries: Entries, size: int, storage: str) -> dict[str, Any]:
    """Pack a vector of this size with signs: its magnitudes as `sparse` does, and the signs."""
    magnitudes = entries._replace(values=np.abs(entries.values, dtype=np.float32))
    negative = np.packbits(entries.values < 0, bitorder="little")
    return {"magnitudes": pack(magnitudes, size, storage), "negative": negative}


def from_signed(fields: dict[str, Any], size: int) -> Entries:
    """The values that `signed` packed. Raises ValueError for damaged fields."""
    places, values = Entries.of(unpack(fields["magnitudes"], size).dense(size))
    negative = fields["negative"]
    if negative.dtype != np.uint8 or negative.shape != ((len(places) + 7) // 8,):
        raise ValueError("signs that do not fit the weights")
    signs = np.unpackbits(negative, count=len(places), bitorder="little")
    return Entries(places, np.where(signs, -values, values))


def rounded(values: NDArray[np.float32], storage: str) -> NDArray[np.float32]:
    """Return the values as they are after being stored and read."""
    rounded = np.zeros_like(values)
    nonzero = values != 0
    rounded[nonzero] = _decoded(_encoded(values[nonzero], storage))
    return rounded


def _encoded(values: NDArray[np.float32], storage: str) -> NDArray[Any]:
    """Encode positive values: as they are, or as their negative logarithms."""
    if storage == "float32":
        return values
    return (-np.log(values.astype(np.float64))).astype(np.float16)


def _decoded(stored: NDArray[Any]) -> NDArray[np.float32]:
    if stored.dtype == np.float32:
        return stored
    if stored.dtype != np.float16:
        raise ValueError("probabilities of the wrong type")
    # Rounding to float16 may exceed the logarithm of the largest float32.
    return np.exp(np.minimum(-stored.astype(np.float64), _LARGEST_LOG)).astype(np.float32)
