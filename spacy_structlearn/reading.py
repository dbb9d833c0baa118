"""Reading of files that may be damaged or hostile: no read waits forever or takes endless memory.

A pipe, a device or a socket in place of a file is refused, because opening it may wait, and a
device may have no end. Links are followed. A compressed file must not expand to much more than
itself: at most `EXPANDED` bytes, or `RATIO` times the size of the file. Treebanks and columns
expand about ten times.
"""

from __future__ import annotations

import gc
import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import StructlearnError

EXPANDED = 1 << 24  # bytes
RATIO = 100
LONGEST_LINE = 1 << 27  # characters; JSON of a parsed text takes about 40 times its length
_CHUNK = 1 << 20
_SPECIAL = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}

Place = str | os.PathLike[str]


def special(path: Place) -> str | None:
    """Return what a path is if it is a pipe, a device or a socket; links are followed."""
    try:
        return _SPECIAL.get(stat.S_IFMT(os.stat(path).st_mode))
    except (OSError, ValueError):  # ValueError: a null character
        return None


def check_regular(path: Place) -> None:
    """Raise StructlearnError for a pipe, a device or a socket."""
    kind = special(path)
    if kind is not None:
        raise StructlearnError("SL099", path=os.fspath(path), kind=kind)


def check_folder(folder: Path) -> None:
    """Raise StructlearnError for a pipe, a device, a socket or a broken link below a folder.

    Links to folders are not followed. Broken links whose name begins with a dot are ignored:
    editors make them.
    """
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent, name) for name in sorted([*folders, *files])):
            check_regular(path)
            if path.is_symlink() and not path.exists() and not path.name.startswith("."):
                raise StructlearnError("SL057", path=path)


def read_bytes(path: Place) -> bytes:
    """Return the content of a file.

    Raises StructlearnError for a pipe, a device or a socket, and OSError if it cannot be read.
    """
    check_regular(path)
    return Path(path).read_bytes()


# --- compressed files and lines -------------------------------------------------------------------
class _Bounded(io.RawIOBase):
    """What a gzip file contains, up to the bound."""

    def __init__(self, stream: gzip.GzipFile, path: Place):
        super().__init__()
        self._stream = stream
        self._path = path
        self._left = _most(os.stat(path).st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        number = self._stream.readinto(buffer)
        self._left -= number
        if self._left < 0:
            raise _expands(self._path)
        return number

    def close(self) -> None:
        self._stream.close()
        super().close()


def open_bytes(path: Place) -> io.BufferedReader:
    """Open a file, plain or gzipped (.gz). Reading raises SL122 if it expands over the bound."""
    if os.fspath(path).endswith(".gz"):
        return io.BufferedReader(_Bounded(gzip.open(path, "rb"), path), _CHUNK)
    return open(path, "rb")


def bounded_lines(lines: io.TextIOBase, path: Place) -> Iterator[str]:
    """Iterate over the lines of a text file. Raises SL123 for one over `LONGEST_LINE`."""
    number = 0
    while line := lines.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise StructlearnError("SL123", path=os.fspath(path), line=number, longest=LONGEST_LINE)
        yield line


def check_zlib(data: bytes, path: Place) -> None:
    """Raise SL122 if zlib's bytes expand over the bound. Other bytes are left alone.

    path: for the message.
    """
    left = _most(len(data))
    decompressor = zlib.decompressobj()
    try:
        while data and left >= 0:
            left -= len(decompressor.decompress(data, _CHUNK))
            data = decompressor.unconsumed_tail
    except zlib.error:
        return
    if left < 0:
        raise _expands(path)


def _most(size: int) -> int:
    return max(EXPANDED, RATIO * size)


def _expands(path: Place) -> StructlearnError:
    return StructlearnError("SL122", path=os.fspath(path), ratio=RATIO)


@contextmanager
def uncollected() -> Iterator[None]:
    """Disable Python's garbage collector while many objects without cycles are created."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
