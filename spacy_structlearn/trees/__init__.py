"""Trees, reading and writing them, and all that asks questions of a tree."""

from .pp import reattach

__all__ = ["reattach"]
