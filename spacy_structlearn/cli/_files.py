"""Files in and out, where "-" is standard input and output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from ..trees.brackets import readable, text_lines

STANDARD = "-"


@contextmanager
def written(target: str | Path) -> Iterator[BinaryIO]:
    """A binary file to write to, renamed to `target` at the end; nothing is left of a failure.

    Folders are made as needed. Several processes may write the same file.
    """
    if str(target) == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{token_hex(4)}.new")
    try:
        with fresh.open("wb") as file:
            yield file
        os.replace(fresh, target)
    finally:
        fresh.unlink(missing_ok=True)


def write_text(target: str | Path, text: str) -> None:
    """Write a text in UTF-8, as `written` does."""
    with written(target) as file:
        file.write(text.encode("utf8"))


def texts(source: str) -> Iterator[str]:
    """The text itself, or the lines of the file or of standard input that are not blank.

    RAISES: SL035 and SL121, see `trees.brackets.text_lines`.
    """
    if source == STANDARD:
        with readable(source):
            yield from not_blank(sys.stdin)
    elif is_file(source):
        yield from not_blank(text_lines(source))
    else:
        yield from not_blank([source])


def not_blank(lines: Iterable[str]) -> Iterator[str]:
    """The lines without the white space at their ends, if anything is left."""
    return (line.strip() for line in lines if line.strip())


def is_file(source: str) -> bool:
    """Whether this is the name of a file."""
    try:
        return Path(source).is_file()
    except OSError:  # a text too long to be the name of a file
        return False
