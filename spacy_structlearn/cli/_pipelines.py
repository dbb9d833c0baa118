"""Finding and loading the pipeline of a command, by name or path."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import StructlearnError

if TYPE_CHECKING:
    from spacy.language import Language

BUILT_IN = "en_structlearn_sm"
HELP = f"Name or path of a pipeline; {BUILT_IN} is the built-in one."


def load(model: str | None) -> Language:
    """Load a pipeline by its name or path; None is the built-in one.

    Raises OSError (E050, E053) if it is not a pipeline, and StructlearnError if a file is missing
    or changed since the pipeline was saved, or if it cannot be loaded for another reason.
    """
    import spacy

    from .. import load
    from ..pipeline import digests, extensions

    find_msgpack_hooks_once()
    # A pipeline without our components would not register them.
    extensions.register()
    folder = directory(model)
    try:
        if is_built_in(model):
            return load()
        digests.check(folder)
        return spacy.load(model)
    except (OSError, StructlearnError):  # their messages name the file
        raise
    except Exception as error:  # spaCy, its libraries and other components raise any type
        problem = f"{type(error).__name__}: {error}"
        raise StructlearnError("SL084", path=folder, problem=problem) from error


def directory(model: str | None) -> Path:
    """Return the folder of a pipeline as `spacy.load` finds it; it need not exist."""
    from spacy.util import get_package_path, is_package

    if is_built_in(model):
        from .. import __file__ as here

        return Path(here).parent / "data" / BUILT_IN
    if is_package(model):
        # The files of a package are one folder deeper, under its name and version.
        found = sorted(get_package_path(model).glob(f"{model}-*/config.cfg"))
        if found:
            return found[0].parent
    return Path(model)


def find_msgpack_hooks_once() -> None:
    """Have srsly look up its msgpack hooks once in this process.

    Otherwise srsly searches all registered functions and entry points in every call. This takes
    about a millisecond for every span group, several times as long as reading or writing it.
    """
    from srsly.msgpack import msgpack_decoders, msgpack_encoders

    for registry in (msgpack_decoders, msgpack_encoders):
        registry.get_all = partial(dict, registry.get_all())


def is_built_in(model: str | None) -> bool:
    """Return whether this is the built-in pipeline, not a folder or package with its name."""
    from spacy.util import is_package

    return model is None or (
        model == BUILT_IN and not Path(model).exists() and not is_package(model)
    )
