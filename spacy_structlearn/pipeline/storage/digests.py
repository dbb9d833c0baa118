"""Digests of the files of a pipeline, by which damage is found when they are loaded.

`fitting.save` writes digests of all files of a pipeline, which `spacy_structlearn.load` and the
commands check. `spacy.load` finds damage, too, because each component of this package checks its
own files and those of spaCy. meta.json is only checked to be readable, because model cards and
`spacy package` rewrite it. Files added later, such as a README, are ignored. The digests find
damage; they are not signatures.

`nlp.to_disk` alone writes no digests. Then the components find damage to their own files, see
`component`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

import srsly

from ...errors import StructlearnError
from ...reading import check_folder, check_regular, read_bytes, special
from ...writing import locked

DIGESTS = "digests.json"  # {"blake2b": {file: hexadecimal digest}}
DIGEST_SIZE = 16
META = "meta.json"
SPACYS = frozenset({"config.cfg", "tokenizer", "vocab"})
"""The files and folders of spaCy itself in a pipeline, apart from META."""


def write(folder: Path) -> None:
    """Write the digests of all current files of a pipeline."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    paths = {path.relative_to(folder).as_posix(): path for path in files}
    digests = {name: _digest(path) for name, path in paths.items() if name not in (DIGESTS, META)}
    # Bytes, so that line endings are the same on all systems.
    text = srsly.json_dumps({"blake2b": digests}, indent=2)
    (folder / DIGESTS).write_bytes(f"{text}\n".encode())


def check(folder: Path, *, exclude: Collection[str] = ()) -> None:
    """Compare the files of a pipeline with their digests, and check that meta.json is valid.

    exclude: components that are not loaded, whose files are ignored.
    Raises StructlearnError for the first missing or changed file, and for a pipe, a device or a
    socket in the folder; OSError for a file that cannot be read.
    """
    # Other folders may be large.
    if any(os.path.lexists(folder / name) for name in ("config.cfg", META)):
        check_folder(folder)
    held = read(folder)
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


def check_component(folder: Path, *, exclude: Collection[str] = ()) -> bool:
    """Compare the files of a component, and those of spaCy, with the digests of its pipeline.

    exclude: files that are not loaded and therefore ignored.
    Returns whether there are digests of the component. Raises StructlearnError and OSError like
    `check`.
    """
    around = folder.parent / DIGESTS
    pipeline = read(folder.parent)
    inside = f"{folder.name}/"
    files = {n.removeprefix(inside): d for n, d in pipeline.items() if n.startswith(inside)}
    if files:
        _compare(folder, files, exclude, around)
        spacys = {name: d for name, d in pipeline.items() if name.split("/")[0] in SPACYS}
        _compare(folder.parent, spacys, (), around)
    return bool(files)


# The folder of the pipeline that this process saved last, and the files of its components by name.
_saved: tuple[Path, dict[str, list[tuple[int, ...]]]] = Path(), {}


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let no other process save a pipeline in the folder around that of a component.

    `Language.to_disk` saves the components one after another. Two processes would leave a mixture.
    Raises SL098 if another one is saving, or has saved components over those of this process.
    """
    global _saved
    around = folder.parent.resolve()
    if _saved[0] != around or folder.name in _saved[1]:
        _saved = around, {}  # another pipeline, or the same one anew
    saved = _saved[1]
    with locked(around, around / ".lock"):
        for name, states in saved.items():
            if (now := _states(around / name)) and now != states:
                _saved = Path(), {}
                raise StructlearnError("SL098", path=around, process="another process")
        yield
        saved[folder.name] = _states(folder)


def _states(folder: Path) -> list[tuple[int, ...]]:
    files = (path.stat() for path in sorted(folder.glob("*")))
    return [(file.st_ino, file.st_size, file.st_mtime_ns) for file in files]


def forget(folder: Path, component: str) -> None:
    """Remove the digests of a pipeline if they cover this component, which is being rewritten.

    Other files with that name are left alone.
    """
    with suppress(StructlearnError):
        if any(name.startswith(f"{component}/") for name in read(folder)):
            (folder / DIGESTS).unlink(missing_ok=True)


def remove_links(folder: Path) -> None:
    """Remove what a component would write through in its folder: links, pipes, devices, sockets.

    The folder itself may be a link, unless it is in a pipeline, whose folder was what was given.
    """
    if folder.is_symlink() and (folder.parent / META).exists():
        folder.unlink()
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_symlink() or special(path):
            path.unlink()


def read(folder: Path) -> dict[str, str]:
    """Read the digests of the files of a pipeline; empty if there are none."""
    file = folder / DIGESTS
    check_regular(file)
    if not os.path.lexists(file):
        return {}
    if not file.is_file():
        raise _damaged(file, "is not a file", file)
    try:
        digests = dict(json.loads(file.read_bytes())["blake2b"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged(file, f"is damaged ({type(error).__name__})", file) from error
    if not digests:
        raise _damaged(file, "is damaged (it is empty)", file)
    return digests


def _compare(folder: Path, digests: dict[str, str], exclude: Collection[str], file: Path) -> None:
    for name, digest in digests.items():
        if name.split("/")[0] in exclude:
            continue
        path = folder / name
        check_regular(path)
        if not path.is_file():
            raise _damaged(path, "is missing", file)
        if _digest(path) != digest:
            raise _damaged(path, "is not what was saved: it was cut short or changed", file)


def _damaged(path: Path, problem: str, digests: Path) -> StructlearnError:
    return StructlearnError("SL083", path=path, problem=problem, digests=digests)


def _digest(path: Path) -> str:
    # Every component compares the files of spaCy again, and vectors are large.
    state = path.stat()
    return _computed(path, state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)


@lru_cache(maxsize=1000)
def _computed(path: Path, *state: int) -> str:
    return blake2b(read_bytes(path), digest_size=DIGEST_SIZE).hexdigest()
