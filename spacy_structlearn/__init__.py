"""Constituency parses, NP chunks, PP attachment and PropBank roles for spaCy, on a CPU."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .about import __version__
from .pipeline.storage.built_in import BUILT_IN

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.vocab import Vocab
    from thinc.api import Config

    from .pipeline.extensions.as_data import as_dict
    from .pipeline.extensions.matcher import ConstituentMatcher

__all__ = ["ConstituentMatcher", "__version__", "as_dict", "explain", "load"]

_HERE = Path(__file__).parent

# A checkout on sys.path hides the installed package, and its kernels may not be built. Without this
# check the ImportError would name an internal module.
_KERNEL = _HERE / "sequence" / "chain" / "_chain"
if not any(Path(f"{_KERNEL}{suffix}").is_file() for suffix in EXTENSION_SUFFIXES):
    raise ImportError(
        f"spacy_structlearn was imported from {_HERE}, where its kernels are not built: run from "
        "another directory to use the installed package, or build them here with "
        "`pip install -e .`"
    )


def load(
    name: str | Path = BUILT_IN,
    *,
    vocab: Vocab | bool = True,
    disable: str | Iterable[str] = (),
    enable: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    config: dict[str, Any] | Config | None = None,
) -> Language:
    """Load a pipeline, without any download. Default: the English one of the package.

    In contrast to `spacy.load`, this knows the names of the built-in pipelines, and first compares
    all files with the digests that were saved with them.
    name: name of a built-in pipeline or of an installed package, or path of a folder.
    vocab: the vocab to use. True: a new one.
    disable: components that are loaded, but not run.
    enable: the only components that are run.
    exclude: components that are not loaded.
    config: changes of the config, nested or with names such as "components.np_chunker.threads".
    Returns the pipeline. Raises StructlearnError if a file of a component that is not excluded is
    missing or damaged, and OSError (E050) if there is no such pipeline.
    """
    import spacy

    from .learning.settings import check_argument
    from .pipeline.storage import digests
    from .pipeline.storage.built_in import directory, is_built_in

    check_argument("name", name, str | Path)
    lists = {"disable": disable, "enable": enable, "exclude": exclude}
    # spaCy tells arguments that are not given from empty ones.
    given: dict[str, Any] = {key: value for key, value in lists.items() if value != ()}
    for key, value in given.items():
        check_argument(key, value, Iterable)
        given[key] = [value] if isinstance(value, str) else [*value]
        check_argument(key, given[key], list[str])
    folder = directory(name)
    where = folder if is_built_in(name) else name
    while True:
        held = digests.read(folder)
        try:
            digests.check(folder, exclude=given.get("exclude", ()))
            nlp = spacy.load(where, vocab=vocab, config=config or {}, **given)
        except Exception as error:
            if digests.read(folder) == held:
                close = _close(str(name)) if "E050" in str(error) else ()
                if close:
                    raise OSError(f"{error} Did you mean {close[0]!r}?") from None
                raise
        else:
            if digests.read(folder) == held:  # not replaced while it was read
                return nlp


def _close(name: str) -> list[str]:
    """Return the names of pipelines that are spelled like this one, the closest first."""
    from difflib import get_close_matches

    from spacy.util import get_installed_models

    from .pipeline.storage.built_in import names

    return get_close_matches(name, [*names(), *get_installed_models()])


def explain(label: str) -> str | None:
    """Get a short explanation of a label: "noun phrase" for "NP", "transfer" for "give.01".

    Explains the labels of phrases, tags, chunks, attachments, semantic roles and failed parses, and
    the rolesets of the built-in pipeline. Any other label gets the explanation of `spacy.explain`,
    or None.
    """
    from .glossary import explanation
    from .learning.settings import check_argument

    check_argument("label", label, str)
    text = explanation(label)
    if text is None:
        import spacy  # which takes a second, and most labels are ours

        text = spacy.explain(label)
    return text


def __getattr__(name: str) -> object:
    # Imported when they are used, because they import spaCy.
    if name == "ConstituentMatcher":
        from .pipeline.extensions.matcher import ConstituentMatcher

        return ConstituentMatcher
    if name == "as_dict":
        from .pipeline.extensions.as_data import as_dict

        return as_dict
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
