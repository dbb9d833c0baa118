"""Reading and writing files, where "-" is standard input or output."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, cast

from ...cleanup import ensured, errors_naming, remove, unfinished
from ...errors import StructlearnError
from ...reading import bounded_lines, special
from ...trees.brackets import readable, text_lines
from .terminal import VisibleBytes

STANDARD = "-"
# Digits may follow, as in .mp3. A single letter usually ends an abbreviation.
_ENDING = re.compile(r"[^.]\.(?=\w{2,5}$)(?:[a-z]+|[A-Z]+)[0-9]*$", re.ASCII)


@contextmanager
def written(target: str | Path) -> Iterator[BinaryIO]:
    """Open a binary file that is renamed to `target` at the end; see `cleanup.unfinished`.

    On a terminal, hidden characters are written as escapes (see `_terminal`). Missing folders are
    created. Several processes may write the same file. A pipe or a device is written, not replaced.
    """
    if str(target) == STANDARD:
        out = sys.stdout.buffer
        yield cast(BinaryIO, VisibleBytes(out)) if sys.stdout.isatty() else out
        out.flush()
        return
    target = Path(target)
    if special(target):
        with target.open("wb") as file:
            yield file
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    name = f".{target.name}.{os.urandom(4).hex()}.new"
    with unfinished(target.with_name(name), target) as fresh, fresh.open("wb") as file:
        yield file


@contextmanager
def alone(target: Path, lock: Path) -> Iterator[None]:
    """Hold a lock file while `target` is written; it is removed at the end.

    A killed process holds nothing. Raises SL098 if another process holds it.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    held = None
    while held is None:
        with errors_naming(target, lock):
            held = _held(lock)
        if held is None:
            raise StructlearnError("SL098", path=target)
        # The last holder may have removed the file after it was opened here.
        if not lock.exists() or not os.path.samestat(os.fstat(held), lock.stat()):
            os.close(held)
            held = None
    try:
        with ensured(partial(remove, lock)):
            yield
    finally:
        os.close(held)


def _held(lock: Path) -> int | None:
    """Open a lock file. Return None if another process holds it."""
    if sys.platform == "win32":
        with suppress(FileExistsError):
            return os.open(lock, os.O_CREAT | os.O_EXCL | os.O_TEMPORARY)
        return None
    import fcntl

    file = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    except OSError:  # the file system has no locks
        pass
    return file


def write_text(target: str | Path, text: str) -> None:
    """Write a text in UTF-8; see `written`."""
    with written(target) as file:
        file.write(text.encode("utf8"))


def lines_of(source: str) -> Iterator[str]:
    """Yield the lines of a text file (plain or .gz) or of standard input; see `text_lines`."""
    if source == STANDARD:
        with readable(source):
            # As files are read, whatever the locale is.
            lines = cast(TextIOWrapper, sys.stdin)
            lines.reconfigure(encoding="utf-8-sig", errors="strict")
            yield from bounded_lines(lines, source)
    else:
        yield from text_lines(source)


def looks_like_a_path(text: str) -> bool:
    """Return whether the text looks like the name of a file, which need not exist; see `parse`.

    "Hello.", "e.g.", "Ph.D" and "and/or" are texts.
    """
    return not re.search(r"\s", text) and (
        text.startswith(("/", "./", "../", "~/"))
        or os.path.isdir(os.path.dirname(text))
        or _ENDING.search(text) is not None
    )
