"""What the files of an output folder of `apply` were made from: a pipeline, settings and inputs.

Runs that agree share a folder: shards, a run that continues, and one with more inputs. What another
run has made is never taken for a result of this one.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import StructlearnError
from ...reading import special
from ...writing import locked
from .files import STANDARD, write_text
from .terminal import warn
from .texts import MANIFEST, Source, counted

if TYPE_CHECKING:
    from spacy.language import Language

PATIENCE = 10.0  # seconds, while another process reads and writes the manifest
_PART = re.compile(r"(.*)\.\d{4,}\.(?:spacy|jsonl)", re.DOTALL)


def describe(
    nlp: Language, settings: dict[str, Any], sources: Iterable[Source], began: int
) -> dict[str, Any]:
    """Return the manifest of a run: the pipeline, the settings, and each input by its name.

    began: the time of the run in ns, since a stream is another one in each run.
    """
    if nlp.path is None:
        digest = blake2b(nlp.to_bytes(), digest_size=16)
    else:
        digest = blake2b(digest_size=16)
        for path in sorted(path for path in nlp.path.rglob("*") if path.is_file()):
            data = path.read_bytes()
            digest.update(f"{path.relative_to(nlp.path).as_posix()} {len(data)} ".encode() + data)
    name = "{lang}_{name} {version}".format(**nlp.meta)
    return {
        "pipeline": {"name": name, "digest": digest.hexdigest()},
        "settings": settings,
        "inputs": {source.name: _state(source.path, began) for source in sources},
    }


def agree(output: Path, run: dict[str, Any], lock: Path, *, force: bool) -> None:
    """Compare a run with those that have files in a folder, and record it.

    lock: that of the run, which is held.
    force: Remove what this run would make in another way, if it makes it again.
    Raises SL068 or SL100 for another run, SL078 for a damaged manifest, and SL098 if there is
    something to be removed while other processes write.
    """
    with ExitStack() as stack:
        _wait(stack, output)
        before = _read(output / MANIFEST)
        parts: dict[str, list[Path]] = {}
        for path in output.rglob("*"):
            if match := _PART.fullmatch(path.relative_to(output).as_posix()):
                parts.setdefault(match[1], []).append(path)
        inputs = run["inputs"]
        recorded = {name: state for name, state in before["inputs"].items() if name in parts}
        changes = [*differences(before, run)]
        stale: set[str] = set()
        for kind, name, found, value in changes:
            own = {name} if kind == "inputs" else {*recorded, *inputs}
            if not force and not own.isdisjoint(parts):
                raise _changed(output, kind, name, found, value)
            stale |= own & parts.keys()
        if lost := stale - inputs.keys():
            raise StructlearnError("SL100", path=output, name=min(lost))
        # Nobody who is at work now has begun with what was before.
        if any(found is not None for _, _, found, _ in changes):
            for held in output.glob(".shard-*.lock"):
                if held != lock:
                    stack.enter_context(locked(output, held))
        for path in (path for name in stale for path in parts[name]):
            path.unlink()
        if others := recorded.keys() - inputs.keys():
            warn(f"{output} also has what was made from {counted(len(others), 'other input')}")
        manifest = {**run, "inputs": dict(sorted({**recorded, **inputs}.items()))}
        if manifest != before:
            write_text(output / MANIFEST, f"{json.dumps(manifest, indent=2)}\n", lock=False)


def check_unchanged(output: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise SL068 if the pipeline or an input changed during a run."""
    for difference in differences(before, now):
        raise _changed(output, *difference)


def differences(
    before: dict[str, Any], now: dict[str, Any]
) -> Iterator[tuple[str, str, object, object]]:
    """Yield the values of a manifest that differ, as (kind, name, before, now)."""
    for kind, values in now.items():
        for name, value in values.items():
            if before[kind].get(name) != value:
                yield kind, name, before[kind].get(name), value


def _changed(output: Path, kind: str, name: str, found: Any, value: Any) -> StructlearnError:
    if kind == "inputs" and found:
        field = next(key for key in value if found.get(key) != value[key])
        name, found, value = f"the {field} of {name}", found.get(field), value[field]
    return StructlearnError("SL068", path=output, kind=kind, name=name, found=found, value=value)


def _state(path: str, began: int) -> dict[str, Any]:
    if path == STANDARD or special(path):
        return {"path": path, "size": None, "time": began}
    state = Path(path).stat()
    return {"path": str(Path(path).resolve()), "size": state.st_size, "time": state.st_mtime_ns}


def _wait(stack: ExitStack, output: Path) -> None:
    """Hold the lock of the manifest, which others hold for a moment."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            stack.enter_context(locked(output, output / f".{MANIFEST}.lock"))
            return
        except StructlearnError:
            if time.monotonic() > end:
                raise
        time.sleep(0.05)


def _read(path: Path) -> dict[str, Any]:
    """Read a manifest; an empty one if there is no file."""
    kinds = ("pipeline", "settings", "inputs")
    if not path.is_file():
        return {kind: {} for kind in kinds}
    try:
        found = json.loads(path.read_bytes())
        if all(isinstance(found[kind], dict) for kind in kinds):
            return found
        raise TypeError("its parts are not objects")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise StructlearnError("SL078", path=path, problem=problem) from None
