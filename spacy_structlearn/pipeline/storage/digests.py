"""Digests of the files of a pipeline, by which damage is found before anything is loaded.

The models of this package have checksums, but other files of spaCy (tok2vec, tagger, tokenizer,
vocab) have none, and a changed JSON file or config is often still valid. config.cfg is included,
because a changed digit in it changes predictions; use `spacy.load(config=...)` to change settings
for one load. meta.json is only checked to be readable, because model cards and `spacy package`
rewrite it. Files added later, such as a README, are ignored. The digests find damage; they are not
signatures.

`fitting.save` writes digests of a whole pipeline, which `spacy_structlearn.load` and the commands
check. Each component of this package writes and checks digests of its own folder, so that
`spacy.load` finds damage there too. With the digests it writes what kind of component it is, so
that it does not load the files of another kind. In a pipeline with digests a component checks them
as well, of its own files and of `SPACYS`. `nlp.to_disk` alone writes no digests of SPACYS: the
vocab is written after the components.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import srsly

from ...errors import StructlearnError
from ...reading import check_folder, check_regular, read_bytes, special

DIGESTS = "digests.json"  # {"blake2b": {file: hexadecimal digest}, "component": kind or missing}
DIGEST_SIZE = 16
META = "meta.json"
SPACYS = frozenset({"config.cfg", "tokenizer", "vocab"})
"""The files and folders of spaCy itself in a pipeline, apart from META."""
_BYTES = "digest"  # of the bytes of a component
_COMPONENT = "component"


def write(folder: Path, component: str | None = None) -> None:
    """Write the digests of all current files of a pipeline or component.

    component: the kind of the component, such as "np_chunker".
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    paths = {path.relative_to(folder).as_posix(): path for path in files}
    digests = {name: _digest(path) for name, path in paths.items() if name not in (DIGESTS, META)}
    content = {"blake2b": digests} | ({_COMPONENT: component} if component else {})
    # Bytes, so that line endings are the same on all systems.
    text = srsly.json_dumps(content, indent=2)
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
    held, _ = _read(folder / DIGESTS)
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


def check_component(
    folder: Path, component: str, kind: str, *, exclude: Collection[str] = ()
) -> None:
    """Compare the files of a component with its own digests and with those of its pipeline.

    component, kind: its name and kind, such as "np_chunker".
    exclude: files that are not loaded and therefore ignored.
    Raises StructlearnError and OSError like `check`, and for the files of another kind.
    """
    held, found = _read(folder / DIGESTS)
    _compare(folder, held, exclude, folder / DIGESTS)
    _check_kind(folder / DIGESTS, component, kind, found)
    around = folder.parent / DIGESTS
    pipeline, _ = _read(around)
    inside = f"{folder.name}/"
    own = {n.removeprefix(inside): d for n, d in pipeline.items() if n.startswith(inside)}
    if own:
        _compare(folder, own, exclude, around)
        spacys = {name: d for name, d in pipeline.items() if name.split("/")[0] in SPACYS}
        _compare(folder.parent, spacys, (), around)


def forget(folder: Path, component: str) -> None:
    """Remove the digests of a pipeline if they cover this component, which is being rewritten.

    Other files with that name are left alone.
    """
    with suppress(StructlearnError):
        if any(name.startswith(f"{component}/") for name in _read(folder / DIGESTS)[0]):
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


# --- bytes ----------------------------------------------------------------------------------------
def sealed(parts: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Add the kind of a component and a digest to the parts of its bytes."""
    whole = {**parts, _COMPONENT: kind}
    return {**whole, _BYTES: _digest_of(whole)}


def check_sealed(stored: Mapping[str, Any], place: object, component: str, kind: str) -> None:
    """Check the result of `sealed`; parts without a digest, of earlier versions, are accepted.

    Raises ValueError if they are damaged, and StructlearnError for those of another kind.
    """
    whole = dict(stored)
    if whole.pop(_BYTES, None) not in (None, _digest_of(whole)):
        raise ValueError("its digest is wrong")
    _check_kind(place, component, kind, whole.get(_COMPONENT))


def _digest_of(parts: Mapping[str, Any]) -> str:
    digest = blake2b(digest_size=DIGEST_SIZE)
    for name in sorted(parts):
        part = parts[name]
        data = part if isinstance(part, bytes) else str(part).encode("utf8", "surrogatepass")
        digest.update(f"{name} {len(data)}\n".encode("utf8", "surrogatepass"))
        digest.update(data)
    return digest.hexdigest()


# --- files ----------------------------------------------------------------------------------------
def _check_kind(place: object, component: str, kind: str, found: Any) -> None:
    if found not in (None, kind):
        raise StructlearnError("SL089", place=place, component=component, found=found, wanted=kind)


def _read(file: Path) -> tuple[dict[str, str], Any]:
    """Read the digests of the files, and the kind of component; empty if there is no such file."""
    check_regular(file)
    if not os.path.lexists(file):
        return {}, None
    if not file.is_file():
        raise _damaged(file, "is not a file", file)
    try:
        content = dict(srsly.json_loads(file.read_bytes()))
        digests = dict(content["blake2b"])
    except (ValueError, TypeError, KeyError) as error:
        raise _damaged(file, f"is damaged ({type(error).__name__})", file) from error
    if not digests:
        raise _damaged(file, "is damaged (it is empty)", file)
    return digests, content.get(_COMPONENT)


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
    state = path.stat()
    return _computed(path, state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)


@lru_cache(maxsize=1000)
def _computed(path: Path, *state: int) -> str:
    # Every component compares the files of spaCy again, and vectors are large.
    return blake2b(read_bytes(path), digest_size=DIGEST_SIZE).hexdigest()
