"""Decisions read from the bytes of a fuzzed input, and changes of values and files by them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

INTEGERS = (0, 1, -1, 2, 3, -2, 7, 64, 255, 2**15, 2**31 - 1, -(2**31), 2**32, 2**62, -(2**63))
FLOATS = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 1e-320, 1e30, 1e308, -1e308)
DTYPES = ("i1", "u1", "i4", "u4", "i8", "u8", "f4", "f8", "?", ">f8", "c16", "O")
STRINGS = ("", "x", "TOP", "\x00", "\ud800", "\U0001f355", "-LRB-", "a b", "x" * 3000, "NaN", "0")
CHANGES = (1, 1, 1, 1, 2, 2, 3, 5)  # numbers of changes of an input
PIECES = (
    b"(", b")", b"((", b" ", b"\n", b"\n\n", b"\t", b"\r", b"\x00", b"\xff", b"\xef\xbb\xbf", b"*",
    b"(A1*", b"(V*)", b"-", b"-LRB-", b"-NONE-", b"*T*-1", b"B-NP", b"I-NP", b"O", b"V", b"TOP",
    b"(NP (DT the))", b"-DOCSTART- -X- O", b"#", b"1-2", b"0", b"9" * 5000, b"_", b'"', b"null",
    "\U0001f355".encode(), "\u2028".encode(), "\x85".encode(), b'{"text": ', b"}",
    b"(" * 400, b"(X " * 2000, b")" * 400, b"x" * 5000, b"\n" * 300,
)  # fmt: skip


class Refused(Exception):
    """An input was refused by a documented error."""


class Choices:
    """Numbers from bytes, then zeros, so that short inputs change little."""

    def __init__(self, data: bytes):
        self.data = data
        self.at = 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1] if self.at <= len(self.data) else 0

    def below(self, n: int) -> int:
        """Return a number from 0 to n - 1."""
        if n <= 256:
            return self.byte() % n if n > 1 else 0
        return int.from_bytes(bytes((self.byte(), self.byte(), self.byte())), "big") % n

    def one_of(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def one_in(self, n: int) -> bool:
        """Return True once in n times, and False after the end of the bytes."""
        return self.below(n) == n - 1


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """Call a function for each item of a tuple, a list or a dict. Other values stay."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(function, value))
    if isinstance(value, dict):
        return {key: function(item) for key, item in value.items()}
    return value


def changed(value: Any, choices: Choices, *, stored: bool = False) -> Any:
    """Return another value, or change one of its items. stored: one that a file can contain."""
    if isinstance(value, np.ndarray):
        return changed_array(value, choices, stored=stored)
    if isinstance(value, (list, tuple, dict)) and value and not choices.one_in(32):
        if hasattr(value, "_fields"):  # a recorded object
            return value._replace(args=changed_items(value.args, choices))
        return changed_items(value, choices, stored=stored)
    if choices.one_in(8) or not isinstance(value, (int, float, np.number, str)):
        return choices.one_of((None, True, 0, -1, 1.5, "", "x", [], {}, np.zeros(3)))
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        place = choices.below(len(value) + 1)
        return choices.one_of((*STRINGS, value[:place], value + "x", value.lower(), value[::-1]))
    return changed_number(value, choices)


def changed_number(value: Any, choices: Choices, near: Sequence[int] = ()) -> Any:
    """Return another number of the same kind. near: numbers that are as likely as its own."""
    if isinstance(value, (float, np.floating)):
        return choices.one_of((*FLOATS, float(value) / 2, 2 * float(value), -float(value)))
    near = (int(value) + 1, int(value) - 1, 2 * int(value), -int(value), *near)
    return choices.one_of((*INTEGERS, *near, *near, *near))


def changed_items(value: Any, choices: Choices, *, stored: bool = False) -> Any:
    """Change an item of a list, a tuple or a dict, or remove, repeat or swap one."""
    if not value:
        return value
    keys = list(value) if isinstance(value, dict) else range(len(value))
    items = [value[key] for key in keys]
    place, other = choices.below(len(items)), choices.below(len(items))
    kind = choices.below(16)
    if kind == 1:
        items[place], items[other] = items[other], items[place]
    elif kind > 1:
        items[place] = changed(items[place], choices, stored=stored)
    if isinstance(value, dict):
        fresh = dict(zip(keys, items, strict=True))
        if kind == 0:
            fresh[choices.one_of(STRINGS)] = fresh.pop(keys[place])
        return type(value)(fresh)
    if kind == 0:
        items[place : place + 1] = [items[other]] * choices.below(3)
    return type(value)(items)


def changed_array(array: NDArray, choices: Choices, *, stored: bool = False) -> Any:
    """Return an array with one error, or None. stored: a contiguous array of a simple type."""
    if choices.one_in(2 if stored else 4):
        return _resampled(array, choices)
    kind = choices.below(10 if stored else 12)
    if kind < 5 or not array.ndim:
        return _poked(array, choices)
    axis = choices.below(array.ndim)
    if kind == 5:
        return np.delete(array, slice(choices.byte() % 4 + 1), axis)
    if kind == 6:
        return np.repeat(array, choices.below(3), axis)
    if kind == 7:
        return np.full_like(array, _number(array, choices))
    if kind == 8 and array.dtype != object:
        with np.errstate(all="ignore"):
            return np.real(array).astype(choices.one_of(DTYPES[: 9 if stored else None]))
    if kind < 10:
        return array.reshape((array.size, 1) if choices.one_in(2) else (1, array.size))
    strided = np.repeat(array, 2, axis=-1)[..., ::2]
    return choices.one_of((strided, None, array.tolist()))


def _resampled(array: NDArray, choices: Choices) -> NDArray:
    """Return an array of other values that are likely to be valid: its own, or small floats."""
    rng = np.random.default_rng(choices.below(2**16))
    if array.dtype.kind == "f" and choices.one_in(2):
        return (choices.one_of((0.1, 1, 30)) * rng.standard_normal(array.shape)).astype(array.dtype)
    return rng.choice(array.ravel(), array.shape) if array.size else array


def _poked(array: NDArray, choices: Choices) -> NDArray:
    """Change a few elements."""
    fresh = array.copy()
    flat = fresh.reshape(-1)
    for _ in range(1 + choices.below(3) if flat.size else 0):
        # Errors in offsets are most effective at their ends.
        place = choices.one_of((0, -1, 1 % flat.size, choices.below(flat.size)))
        flat[place] = _number(array, choices, flat[place])
    return fresh


def _number(array: NDArray, choices: Choices, old: Any = 0) -> Any:
    """Return a number that the type of the array can represent."""
    if array.dtype.kind in "fc":
        with np.errstate(all="ignore"):
            return array.dtype.type(changed_number(float(np.real(old)), choices))
    if array.dtype.kind not in "iu":
        return not old if array.dtype.kind == "b" else old
    value = changed_number(old, choices, (array.size, array.size - 1, *array.shape[:1]))
    limits = np.iinfo(array.dtype)
    return min(max(value, int(limits.min)), int(limits.max))


def changed_bytes(data: bytes, choices: Choices) -> bytes:
    """Make a few changes: remove, repeat, move or replace bytes, or insert strings."""
    fresh = bytearray(data)
    for _ in range(choices.one_of(CHANGES)):
        place, other = choices.below(len(fresh) + 1), choices.below(len(fresh) + 1)
        length = choices.one_of((1, 1, 2, 5, 20, 200))
        own = fresh[other : other + length]
        inserted = (b"", bytes([choices.byte()]), own, *[choices.one_of(PIECES)] * 2)
        fresh[place : place + choices.one_of((0, length))] = choices.one_of(inserted)
    return bytes(fresh)
