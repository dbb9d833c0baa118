"""Reading and writing files, where "-" is standard input or output."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, cast

from ... import writing
from ...errors import StructlearnError
from ...reading import bounded_lines, special
from ...trees.brackets import readable, text_lines
from .terminal import VisibleBytes

STANDARD = "-"
# Digits may follow, as in .mp3. A single letter usually ends an abbreviation.
_ENDING = re.compile(r"[^.]\.(?=\w{2,5}$)(?:[a-z]+|[A-Z]+)[0-9]*$", re.ASCII)


@contextmanager
def written(target: str | Path, *, lock: bool = True) -> Iterator[BinaryIO]:
    """Open a binary file for output, alone; see `writing`.

    On a terminal, hidden characters are written as escapes (see `_terminal`).
    lock: False for a part of a target whose lock is held.
    """
    if str(target) == STANDARD:
        out = sys.stdout.buffer
        yield cast(BinaryIO, VisibleBytes(out)) if sys.stdout.isatty() else out
        out.flush()
        return
    target = Path(target)
    alone = writing.locked(target) if lock and not special(target) else nullcontext()
    with alone, writing.written(target) as file:
        yield file


def write_text(target: str | Path, text: str, *, lock: bool = True) -> None:
    """Write a text in UTF-8; see `written`."""
    with written(target, lock=lock) as file:
        file.write(text.encode("utf8"))


def check_targets(
    targets: Sequence[str | Path | None], sources: Iterable[str | Path | None]
) -> None:
    """Raise SL058 if a file would be written twice by a command, or written and read."""
    files = [target for target in targets if target is not None and not special(target)]
    for i, target in enumerate(files):
        if any(same(target, other) for other in files[i + 1 :]):
            raise StructlearnError("SL058", path=target, other="another output")
        if str(target) != STANDARD and any(same(target, source) for source in sources if source):
            raise StructlearnError("SL058", path=target, other="an input")


def same(one: str | Path, other: str | Path) -> bool:
    """Return whether two paths are of the same file, which need not exist."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):  # ValueError: a null character
        return os.path.realpath(one) == os.path.realpath(other)


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
