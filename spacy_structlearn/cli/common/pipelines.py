"""Finding and loading the pipeline of a command, by name or path."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ...errors import StructlearnError
from ...pipeline.storage.built_in import BUILT_IN, directory

if TYPE_CHECKING:
    from spacy.language import Language

HELP = f"Name or path of a pipeline; {BUILT_IN} is the built-in one."
ModelArgument: TypeAlias = Annotated[str, typer.Argument(metavar="MODEL", help=HELP)]
ModelOption: TypeAlias = Annotated[str | None, typer.Option(help=HELP)]


def load(model: str | None) -> Language:
    """Load a pipeline by its name or path; None is the built-in one.

    Raises OSError (E050, E053) if it is not a pipeline, and StructlearnError if a file is missing
    or changed since the pipeline was saved, or if it cannot be loaded for another reason.
    """
    from ... import load
    from ...pipeline import extensions

    find_msgpack_hooks_once()
    # A pipeline without our components would not register them.
    extensions.register()
    name = BUILT_IN if model is None else model
    try:
        return load(name)
    except (OSError, StructlearnError, MemoryError):  # their messages name the file
        raise
    except Exception as error:  # spaCy, its libraries and other components raise any type
        problem = f"{type(error).__name__}: {error}"
        raise StructlearnError("SL084", path=directory(name), problem=problem) from error


def find_msgpack_hooks_once() -> None:
    """Have srsly look up its msgpack hooks once in this process.

    Otherwise srsly searches all registered functions and entry points in every call. This takes
    about a millisecond for every span group, several times as long as reading or writing it.
    """
    from srsly.msgpack import msgpack_decoders, msgpack_encoders

    for registry in (msgpack_decoders, msgpack_encoders):
        registry.get_all = partial(dict, registry.get_all())
