"""Constituency parses, NP chunks, PP attachment and PropBank roles for spaCy, on a CPU."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING

from .about import __version__

if TYPE_CHECKING:
    from spacy.language import Language

    from .pipeline.as_data import as_dict

__all__ = ["__version__", "as_dict", "load"]

_HERE = Path(__file__).parent

# A checkout on sys.path hides the installed package, and its kernels may not be built. Without this
# check the ImportError would name an internal module.
if not any((_HERE / "sequence" / f"_chain{suffix}").is_file() for suffix in EXTENSION_SUFFIXES):
    raise ImportError(
        f"spacy_structlearn was imported from {_HERE}, where its kernels are not built: run from "
        "another directory to use the installed package, or build them here with "
        "`pip install -e .`"
    )


def load(**kwargs: object) -> Language:
    """Load the default English pipeline, which is part of the package, without any download.

    kwargs: the keywords of `spacy.load` (`exclude`, `disable`, `enable`, `vocab`, `config`).
    Returns the pipeline. Raises StructlearnError if a file of a component that is not excluded is
    missing or damaged.
    """
    import spacy

    from .pipeline import digests

    folder = _HERE / "data" / "en_structlearn_sm"
    exclude = kwargs.get("exclude", ())
    digests.check(folder, exclude=[exclude] if isinstance(exclude, str) else exclude)
    return spacy.load(folder, **kwargs)


def __getattr__(name: str) -> object:
    if name == "as_dict":  # imported when it is used, because it imports spaCy
        from .pipeline.as_data import as_dict

        return as_dict
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
