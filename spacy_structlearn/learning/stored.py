"""Stored models: bytes, equality, pickling and changed copies, made of the constructor's arguments.

A model is its constructor's arguments, each kept as the attribute of the same name. A subclass says
what its bytes are called (`kind`) and may change how its fields are written (`to_fields`) and read
(`from_fields`); files are those of `serialization`.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from inspect import signature
from typing import Any, ClassVar, TypeVar

import numpy as np

from .. import serialization
from .annotations import annotations, fitting

M = TypeVar("M", bound="Stored")


class Stored:
    """The base of what is learned.

    kind: what its bytes are called. version: that `to_bytes` writes. readable: the versions that
    `from_bytes` reads. passed: codes of errors in reading that come through as they are.
    """

    kind: ClassVar[str]
    version: ClassVar[int] = 1
    readable: ClassVar[Collection[int]] = (1,)
    passed: ClassVar[tuple[str, ...]] = ()

    def fields(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {name: getattr(self, name) for name in _arguments(type(self))}

    def replaced(self: M, **changes: Any) -> M:
        """A model with other values of some arguments; the other ones are shared."""
        return type(self)(**self.fields() | changes)

    def to_fields(self) -> tuple[int, dict[str, Any]]:
        """The version and what is written, of what `serialization.pack` can store."""
        return self.version, {
            name: serialization.nested(value.to_bytes()) if isinstance(value, Stored) else value
            for name, value in self.fields().items()
        }

    @classmethod
    def from_fields(cls: type[M], version: int, fields: dict[str, Any]) -> M:
        """The model of what `to_fields` gave, or an earlier version of it.

        Raises an error in `serialization.DAMAGE` for anything else.
        """
        for name, kind in annotations(cls.__init__).items():
            if name in fields and isinstance(kind, type) and issubclass(kind, Stored):
                fields[name] = kind.from_bytes(fields[name].tobytes())
        return cls(**fitting(cls.__init__, fields))

    def to_bytes(self) -> bytes:
        """The model as bytes, the same for equal models; see `serialization.pack`."""
        return serialization.pack(self.kind, *self.to_fields())

    @classmethod
    def from_bytes(cls: type[M], data: bytes) -> M:
        """The model that `to_bytes` wrote.

        Raises StructlearnError SL050 to SL054 if the bytes are not those of such a model.
        """
        version, fields = serialization.unpack(data, cls.kind, cls.readable)
        with serialization.reading(cls.kind, *cls.passed):
            return cls.from_fields(version, fields)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return same(self.fields(), other.fields())  # type: ignore[attr-defined]

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal; arrays are if their types, shapes and elements are."""
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
