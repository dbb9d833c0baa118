"""Saved states of minimisers, from which they continue bit for bit."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import numpy as np

from ..serialization import Bytes, pack, reading, restore, unpack

R = TypeVar("R", bound="Resumable")
_VERSION = 1


class Resumable:
    """A minimiser whose state consists of its settings and further attributes."""

    _KIND: ClassVar[str]
    _SETTINGS: ClassVar[tuple[str, ...]]
    _STATE: ClassVar[tuple[str, ...]]

    def to_bytes(self) -> bytes:
        """Return the whole state; see `serialization.pack`."""
        parts = {"settings": self._SETTINGS, "state": self._STATE}
        fields = {
            part: {name: getattr(self, name) for name in names} for part, names in parts.items()
        }
        return pack(self._KIND, _VERSION, fields)

    @classmethod
    def from_bytes(cls: type[R], data: Bytes, *arguments: Any) -> R:
        """Return the minimiser with the state of `to_bytes`.

        arguments: the same positional arguments of the constructor; none: the point x.
        Raises StructlearnError if the bytes are not a valid state.
        """
        _, fields = unpack(data, cls._KIND, {_VERSION})
        with reading(cls._KIND):
            state = fields["state"]
            settings = fields["settings"]
            if not all(isinstance(value, (int, float, np.ndarray)) for value in settings.values()):
                raise TypeError("its settings are not numbers")
            optimizer = cls(*arguments or (state["x"],), **settings)
            shapes = optimizer._shapes()
            restore(optimizer, cls._STATE, state)
            if optimizer._shapes() != shapes or not optimizer._is_sound():
                raise ValueError("its numbers or vectors do not belong together")
        return optimizer

    def _shapes(self) -> list[tuple[int, ...]]:
        parts = (getattr(self, name) for name in self._STATE)
        return [part.shape for part in parts if isinstance(part, np.ndarray)]

    def _is_sound(self) -> bool:
        """Whether the restored state is consistent."""
        return True
