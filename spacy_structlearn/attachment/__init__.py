"""Attachment of prepositional phrases: sites in trees, and trees with other attachments."""

from .moves import reattach

__all__ = ["reattach"]
