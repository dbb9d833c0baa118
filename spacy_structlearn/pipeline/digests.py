"""Digests of the files of a pipeline, by which damage is found before anything is loaded.

The models of this package have checksums, but other files of spaCy (tok2vec, tagger, tokenizer,
vocab) have none, and a changed JSON file or config is often still valid. config.cfg is included,
because a changed digit in it changes predictions; use `spacy.load(config=...)` to change settings
for one load. meta.json is only checked to be readable, because model cards and `spacy package`
rewrite it. Files added later, such as a README, are ignored. The digests find damage; they are not
signatures.

`fitting.save` writes digests of a whole pipeline, which `spacy_structlearn.load` and the commands
check. Each component of this package writes and checks digests of its own folder, so that
`spacy.load` finds damage there too.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import srsly

from ..errors import StructlearnError

DIGESTS = "digests.json"  # {"blake2b": {file: hexadecimal digest}}
DIGEST_SIZE = 16
META = "meta.json"


def write(folder: Path) -> None:
    """Write the digests of all current files of a pipeline or component."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    paths = {path.relative_to(folder).as_posix(): path for path in files}
    digests = {name: _digest(path) for name, path in paths.items() if name not in (DIGESTS, META)}
    # Bytes, so that line endings are the same on all systems.
    text = srsly.json_dumps({"blake2b": digests}, indent=2)
    (folder / DIGESTS).write_bytes(f"{text}\n".encode())


def check(folder: Path, *, exclude: Collection[str] = ()) -> None:
    """Compare the files of a pipeline with their digests, and check that meta.json is valid.

    exclude: components that are not loaded, whose files are ignored.
    Raises StructlearnError for the first missing or changed file, and OSError for a file that
    cannot be read.
    """
    held = _read(folder / DIGESTS)
    _compare(folder, held, exclude, folder / DIGESTS)
    if not held:
        return
    from spacy.schemas import ModelMetaSchema, validate
    from spacy.util import load_meta

    meta = folder / META
    if not meta.is_file():
        raise _damaged(meta, "is missing", folder / DIGESTS)
    try:
        problems = validate(ModelMetaSchema, load_meta(meta))
    except Exception as error:  # of spaCy, srsly or packaging
        problems = [f"{type(error).__name__}: {error}"]
    if problems:
        raise _damaged(meta, f"is damaged ({problems[0].strip()})", folder / DIGESTS)


def check_component(folder: Path, *, exclude: Collection[str] = ()) -> None:
    """Compare the files of a component with its own digests, or else with those of its pipeline.

    exclude: files that are not loaded and therefore ignored.
    Raises StructlearnError and OSError like `check`.
    """
    held, file = _read(folder / DIGESTS), folder / DIGESTS
    if not held:
        file = folder.parent / DIGESTS
        inside = f"{folder.name}/"
        held = {n.removeprefix(inside): d for n, d in _read(file).items() if n.startswith(inside)}
    _compare(folder, held, exclude, file)


def forget(folder: Path, component: str) -> None:
    """Remove the digests of a pipeline if they cover this component, which is being rewritten.

    Other files with that name are left alone.
    """
    with suppress(StructlearnError):
        if any(name.startswith(f"{component}/") for name in _read(folder / DIGESTS)):
            (folder / DIGESTS).unlink(missing_ok=True)


def _read(file: Path) -> dict[str, str]:
    """Read the digests of the files; empty if there is no file of digests."""
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


def _damaged(path: Path, problem: str, digests: Path) -> StructlearnError:
    return StructlearnError("SL083", path=path, problem=problem, digests=digests)


def _digest(path: Path) -> str:
    return blake2b(path.read_bytes(), digest_size=DIGEST_SIZE).hexdigest()
