"""The pipeline that a command works with, by name or path."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spacy.language import Language

BUILT_IN = "en_structlearn_sm"
HELP = f"A pipeline: name or path; {BUILT_IN} is the built-in one."


def load(model: str | None) -> Language:
    """Load a pipeline: None or its name is the built-in one, whether or not it is installed too.

    RAISES: OSError (E050, E053) for what is no pipeline.
    """
    import spacy

    from .. import load
    from ..pipeline import extensions

    find_msgpack_hooks_once()
    # A pipeline of other components alone would not have registered them.
    extensions.register()
    return load() if is_built_in(model) else spacy.load(model)


def find_msgpack_hooks_once() -> None:
    """Have srsly look up its msgpack hooks once in this process.

    It does so in every call, among all functions and entry points that are registered: about a
    millisecond for every span group that is read or written, several times what the rest takes.
    """
    from srsly.msgpack import msgpack_decoders, msgpack_encoders

    for registry in (msgpack_decoders, msgpack_encoders):
        registry.get_all = partial(dict, registry.get_all())


def is_built_in(model: str | None) -> bool:
    """Whether this names the built-in pipeline; a directory or a package of its name is preferred.

    The package is what `structlearn package` makes of it, or what it was replaced with.
    """
    if model is None:
        return True
    from spacy.util import is_package

    return model == BUILT_IN and not Path(model).exists() and not is_package(model)
