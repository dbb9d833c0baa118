"""The pipeline that a command works with, by name or path."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import StructlearnError

if TYPE_CHECKING:
    from spacy.language import Language

BUILT_IN = "en_structlearn_sm"
HELP = f"A pipeline: name or path; {BUILT_IN} is the built-in one."


def load(model: str | None) -> Language:
    """Load a pipeline: None is the built-in one, and so is its name where nothing else has it.

    RAISES: OSError (E050, E053) for what is no pipeline; SL083 for a file that is missing or has
    changed since the pipeline was saved; SL084 if it cannot be loaded for another reason.
    """
    import spacy

    from .. import load
    from ..pipeline import digests, extensions

    find_msgpack_hooks_once()
    # A pipeline of other components alone would not have registered them.
    extensions.register()
    folder = directory(model)
    try:
        if is_built_in(model):
            return load()
        digests.check(folder)
        return spacy.load(model)
    except (OSError, StructlearnError):  # these name what they speak of
        raise
    except Exception as error:  # spaCy, its libraries and components of others: all have their own
        problem = f"{type(error).__name__}: {error}"
        raise StructlearnError("SL084", path=folder, problem=problem) from error


def directory(model: str | None) -> Path:
    """The folder of a pipeline, found as `spacy.load` does; there may be none of the name."""
    from spacy.util import get_package_path, is_package

    if is_built_in(model):
        from .. import __file__ as here

        return Path(here).parent / "data" / BUILT_IN
    if is_package(model):
        # The package holds its files one folder deeper, under its name and version.
        found = sorted(get_package_path(model).glob(f"{model}-*/config.cfg"))
        if found:
            return found[0].parent
    return Path(model)


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
