"""Digests of the files of a pipeline, by which damage is found before anything is loaded.

Our models have checksums of their own, but what spaCy writes beside them (tok2vec, tagger,
tokenizer, vocab) has none, and of a JSON or a config that is still one nobody can tell that it has
changed. config.cfg counts too: a digit changed in it changes predictions, and settings for one load
are given to `spacy.load(config=...)`. meta.json does not: cards and `spacy package` write it anew.
Files that were added later (a README) do not count. The digests find damage; they are no signature.
"""

from __future__ import annotations

from collections.abc import Collection
from hashlib import blake2b
from pathlib import Path

import srsly

from ..errors import StructlearnError

DIGESTS = "digests.json"  # in the folder of the pipeline: {"blake2b": {file: hexadecimal digest}}
DIGEST_SIZE = 16
META = "meta.json"


def write(folder: Path) -> None:
    """Write the digests of all files that are in the folder of a pipeline now."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    found = {path.relative_to(folder).as_posix(): path for path in files}
    digests = {name: _digest(path) for name, path in found.items() if name not in (DIGESTS, META)}
    # Bytes, so that the lines end alike on every system.
    text = srsly.json_dumps({"blake2b": digests}, indent=2)
    (folder / DIGESTS).write_bytes(f"{text}\n".encode())


def check(folder: Path, *, exclude: Collection[str] = ()) -> None:
    """Compare the files of a pipeline with their digests; nothing is done where there are none.

    exclude: components whose files do not count, because they are not loaded.
    RAISES: SL083 for the first file that is missing or has changed; OSError for one that cannot be
    read.
    """
    file = folder / DIGESTS
    if not file.is_file():
        return
    try:
        digests = dict(srsly.json_loads(file.read_bytes())["blake2b"])
    except (ValueError, TypeError, KeyError) as error:
        problem = f"is damaged ({type(error).__name__})"
        raise StructlearnError("SL083", path=file, problem=problem, digests=file) from error
    for name, digest in digests.items():
        if name.split("/")[0] in exclude:
            continue
        path = folder / name
        if not path.is_file():
            raise StructlearnError("SL083", path=path, problem="is missing", digests=file)
        if _digest(path) != digest:
            problem = "is not what was saved: it was cut short or changed"
            raise StructlearnError("SL083", path=path, problem=problem, digests=file)


def _digest(path: Path) -> str:
    return blake2b(path.read_bytes(), digest_size=DIGEST_SIZE).hexdigest()
