"""Stored models: bytes, equality, pickling and changed copies.

A model is defined by the arguments of its constructor, each of which is an attribute of the same
name. A subclass names the kind of its bytes and may change how fields are written (`to_fields`) and
read (`from_fields`). The format is that of `serialization`.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from inspect import signature
from typing import Any, ClassVar, TypeVar

import numpy as np

from .. import serialization
from .annotations import fitting, hints

M = TypeVar("M", bound="Stored")


class Stored:
    """The base class of models.

    kind: the name of its bytes.
    version: the version that `to_bytes` writes.
    readable: the versions that `from_bytes` reads.
    passed: codes of errors that reading does not replace.
    """

    kind: ClassVar[str]
    version: ClassVar[int] = 1
    readable: ClassVar[Collection[int]] = (1,)
    passed: ClassVar[tuple[str, ...]] = ()

    def fields(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {name: getattr(self, name) for name in _arguments(type(self))}  # type: ignore[arg-type]  # a class has a hash

    def replaced(self: M, **changes: Any) -> M:
        """Return a model with other values of some arguments; the others are shared."""
        return type(self)(**self.fields() | changes)

    def to_fields(self) -> tuple[int, dict[str, Any]]:
        """Return the version and the fields for `serialization.pack`."""
        return self.version, self.fields()

    @classmethod
    def from_fields(cls: type[M], version: int, fields: dict[str, Any]) -> M:
        """Return the model of the fields of `to_fields` or an earlier version.

        Raises an error in `serialization.DAMAGE` if they are invalid.
        """
        for name, kind in hints(cls.__init__).items():
            if name in fields and isinstance(kind, type) and issubclass(kind, Stored):
                fields[name] = kind.from_bytes(fields[name])
        return cls(**fitting(cls.__init__, fields))

    def to_bytes(self) -> bytes:
        """Return the model as bytes, which are equal for equal models."""
        return serialization.pack(self.kind, *self.to_fields())

    @classmethod
    def from_bytes(cls: type[M], data: serialization.Bytes) -> M:
        """Return the model of `to_bytes`. Raises StructlearnError if the bytes are not valid."""
        version, fields = serialization.unpack(data, cls.kind, cls.readable)
        with serialization.reading(cls.kind, *cls.passed):
            return cls.from_fields(version, fields)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return same(self.fields(), other.fields())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        about = self.describe() if hasattr(self, "describe") else ""
        return f"<{type(self).__name__} {' '.join(about.split())[:90]}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, including the types and shapes of arrays."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, (list, tuple)) and type(one) is type(other):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(type(one) is type(other) and one == other)


@cache
def _arguments(kind: type) -> tuple[str, ...]:
    return tuple(signature(kind).parameters)
