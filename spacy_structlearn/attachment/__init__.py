"""Attachment of prepositional phrases: its sites in a tree."""

from .sites import reattach

__all__ = ["reattach"]
