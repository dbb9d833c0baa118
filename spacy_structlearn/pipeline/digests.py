"""Digests of the files of a pipeline, by which damage is found before anything is loaded.

Our models have checksums of their own, but what spaCy writes beside them (tok2vec, tagger,
tokenizer, vocab) has none, and of a JSON or a config that is still one nobody can tell that it has
changed. config.cfg counts too: a digit changed in it changes predictions, and settings for one load
are given to `spacy.load(config=...)`. meta.json does not, as long as spaCy can read it: cards and
`spacy package` write it anew. Files that were added later (a README) do not count. The digests find
damage; they are no signature.

There are digests of a whole pipeline, which `fitting.save` writes, and `spacy_structlearn.load` and
the commands check; and of the folder of each component of ours, which the component writes and
checks itself, so that `spacy.load` finds damage there too. What `spacy.load` reads beside them is
spaCy's, which has no digests of it.
"""

from __future__ import annotations

from collections.abc import Collection
from hashlib import blake2b
from pathlib import Path

import srsly

from ..errors import StructlearnError

DIGESTS = "digests.json"  # in the folder: {"blake2b": {file: hexadecimal digest}}
DIGEST_SIZE = 16
META = "meta.json"


def write(folder: Path) -> None:
    """Write the digests of all files that are in the folder of a pipeline or component now."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    found = {path.relative_to(folder).as_posix(): path for path in files}
    digests = {name: _digest(path) for name, path in found.items() if name not in (DIGESTS, META)}
    # Bytes, so that the lines end alike on every system.
    text = srsly.json_dumps({"blake2b": digests}, indent=2)
    (folder / DIGESTS).write_bytes(f"{text}\n".encode())


def check(folder: Path, *, exclude: Collection[str] = ()) -> None:
    """Compare the files of a pipeline with their digests, and see whether its meta.json is one.

    exclude: components whose files do not count, because they are not loaded.
    RAISES: SL083 for the first file that is missing or has changed; OSError for one that cannot be
    read.
    """
    held = _read(folder / DIGESTS)
    _compare(folder, held, exclude, folder / DIGESTS)
    if held:
        _check_meta(folder / META, folder / DIGESTS)


def check_component(folder: Path, *, exclude: Collection[str] = ()) -> None:
    """Compare the files of a component with its own digests, or else with those of its pipeline.

    exclude: files that do not count, because they are not loaded. RAISES: as `check`.
    """
    held, file = _read(folder / DIGESTS), folder / DIGESTS
    if not held:
        file = folder.parent / DIGESTS
        inside = f"{folder.name}/"
        held = {n.removeprefix(inside): d for n, d in _read(file).items() if n.startswith(inside)}
    _compare(folder, held, exclude, file)


def forget(folder: Path, component: str) -> None:
    """Remove the digests of a pipeline that has this component, because it is written anew.

    What is no such file is left alone.
    """
    try:
        stale = any(name.startswith(f"{component}/") for name in _read(folder / DIGESTS))
    except StructlearnError:
        return
    if stale:
        (folder / DIGESTS).unlink(missing_ok=True)


def _read(file: Path) -> dict[str, str]:
    """The digests of the files; none where there is no file of digests."""
    if not file.is_file():
        return {}
    try:
        digests = dict(srsly.json_loads(file.read_bytes())["blake2b"])
    except (ValueError, TypeError, KeyError) as error:
        raise _damaged(file, f"is damaged ({type(error).__name__})", file) from error
    if not digests:
        raise _damaged(file, "is damaged (it is empty)", file)
    return digests


def _compare(folder: Path, digests: dict[str, str], exclude: Collection[str], file: Path) -> None:
    for name, digest in digests.items():
        if name.split("/")[0] in exclude:
            continue
        path = folder / name
        if not path.is_file():
            raise _damaged(path, "is missing", file)
        if _digest(path) != digest:
            raise _damaged(path, "is not what was saved: it was cut short or changed", file)


def _check_meta(path: Path, digests: Path) -> None:
    """Raise SL083 if spaCy cannot take a pipeline's description from this file."""
    from spacy.schemas import ModelMetaSchema, validate
    from spacy.util import load_meta

    if not path.is_file():
        raise _damaged(path, "is missing", digests)
    try:
        problems = validate(ModelMetaSchema, load_meta(path))
    except Exception as error:  # of spaCy, of the reader of JSON, or of that of versions
        problems = [f"{type(error).__name__}: {error}"]
    if problems:
        raise _damaged(path, f"is damaged ({problems[0].strip()})", digests)


def _damaged(path: Path, problem: str, digests: Path) -> StructlearnError:
    return StructlearnError("SL083", path=path, problem=problem, digests=digests)


def _digest(path: Path) -> str:
    return blake2b(path.read_bytes(), digest_size=DIGEST_SIZE).hexdigest()
