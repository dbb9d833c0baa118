"""Files in and out, where "-" is standard input and output."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from ..trees.brackets import readable, text_lines

STANDARD = "-"
CONFIGS = Path(__file__).parent.parent / "pipeline" / "configs"
BASE = "base"  # of these, what all others add to
# Digits may follow, as in .mp3. One letter is more often the end of an abbreviation.
_ENDING = re.compile(r"[^.]\.(?=\w{2,5}$)(?:[a-z]+|[A-Z]+)[0-9]*$", re.ASCII)


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


def lines_of(source: str) -> Iterator[str]:
    """The lines of a text file, plain or .gz, or of standard input.

    RAISES: SL035 and SL121, see `trees.brackets.text_lines`.
    """
    if source == STANDARD:
        with readable(source):
            yield from sys.stdin
    else:
        yield from text_lines(source)


def looks_like_a_path(text: str) -> bool:
    """Whether this is meant as the name of a file, be there one or not.

    It has no white space, and begins with /, ./, ../ or ~/, or stands in a folder that is there, or
    ends in a period and 2 to 5 small or 2 to 5 capital letters. "Hello.", "e.g.", "Ph.D" and
    "and/or" are texts.
    """
    if re.search(r"\s", text):
        return False
    return (
        text.startswith(("/", "./", "../", "~/"))
        or os.path.isdir(os.path.dirname(text))
        or _ENDING.search(text) is not None
    )
