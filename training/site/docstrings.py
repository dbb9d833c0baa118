"""Docstrings of the package as Markdown, for mkdocstrings."""

from __future__ import annotations

from typing import Any

from griffe import Extension

from training.reference import of_docstring


class Lists(Extension):
    """Makes a list of the arguments that a docstring explains."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = of_docstring(obj.docstring.value)
