"""The one way to write files and folders: alone, as a whole, and on the disk before it counts.

What is written has a name of its own until it is complete. So a target is the old one or the new
one, whatever is killed and however full the disk is. Links are followed, and modes are kept.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import EINVAL, ELOOP
from functools import partial
from pathlib import Path
from stat import S_IMODE
from typing import BinaryIO

from .cleanup import ensured, errors_naming, remove
from .errors import StructlearnError
from .reading import special

_held: list[int] = []  # files of locks


def _forget() -> None:
    # A forked process holds nothing, even if it lives longer.
    while _held:
        os.close(_held.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@contextmanager
def locked(target: Path, lock: Path | None = None) -> Iterator[None]:
    """Hold the lock of a target: a file that names this process, and is removed at the end.

    A process that died holds nothing, and what it left unfinished is removed.
    lock: the file. Default: .NAME.lock beside the target.
    Raises SL098 if another process, which the message names, holds it.
    """
    target = resolved(target)
    beside = target.with_name(f".{target.name}.lock")
    lock = lock or beside
    with errors_naming(target, lock):
        lock.parent.mkdir(parents=True, exist_ok=True)
        while (file := _taken(lock, target)) is None:
            pass
    _held.append(file)
    try:
        with ensured(partial(remove, lock)):
            if lock == beside:
                tidy(target)
            yield
    finally:
        _held.remove(file)
        os.close(file)


def _taken(lock: Path, target: Path) -> int | None:
    """Take the lock. Returns None if its file was removed at this moment: try again."""
    if sys.platform == "win32":  # which removes the file when the process ends
        with suppress(FileExistsError):
            return os.open(lock, os.O_CREAT | os.O_EXCL | os.O_TEMPORARY)
        raise StructlearnError("SL098", path=target, process="another process")
    import fcntl

    file = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        process = os.read(file, 100).decode("ascii", "replace") or "another process"
        os.close(file)
        raise StructlearnError("SL098", path=target, process=process) from None
    except OSError:  # the file system has no locks
        pass
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(file), lock.stat()):
            os.ftruncate(file, 0)
            os.write(file, f"process {os.getpid()} on {os.uname().nodename}".encode())
            return file
    os.close(file)
    return None


@contextmanager
def written(target: Path) -> Iterator[BinaryIO]:
    """Open a binary file that takes the place of `target` at the end, unless there is an error.

    A pipe or a device is written itself. Missing folders are created. An OSError names `target`.
    """
    if special(target):
        with target.open("wb") as file:
            yield file
        return
    target = resolved(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with _fresh(target, remove) as (fresh, mode):
        opener = partial(os.open, mode=0o666 if mode is None else mode)
        with open(fresh, "xb", opener=opener) as file:
            if mode is not None:
                fresh.chmod(mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(target)
        _flush(target.parent)


def write_bytes(target: Path, data: bytes) -> None:
    """Write a file as a whole; see `written`."""
    with written(target) as file:
        file.write(data)


@contextmanager
def replaced(target: Path) -> Iterator[Path]:
    """Provide the path for a new folder that takes the place of `target`, whose lock is held."""
    with _fresh(target, lambda _: tidy(target)) as (fresh, mode):
        yield fresh
        if mode is not None:
            fresh.chmod(mode)
        for path in (*fresh.rglob("*"), fresh):
            _flush(path)
        if mode is None:
            fresh.rename(target)
        elif not _exchanged(fresh, target):
            target.rename(fresh.with_suffix(".old"))
            fresh.rename(target)
        _flush(target.parent)


def tidy(target: Path) -> None:
    """Remove what is left of unfinished writing, or move it back if it was the target itself."""
    left = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{16}}\.(new|old)")
    for path in target.parent.iterdir():
        if left.fullmatch(path.name):
            if path.suffix == ".old" and not target.exists():
                path.rename(target)
            remove(path)


def resolved(target: Path) -> Path:
    """Follow the links of a path, which need not exist. Raises OSError for links in a circle."""
    try:
        return target.resolve()
    except RuntimeError:  # before Python 3.13
        raise OSError(ELOOP, os.strerror(ELOOP), str(target)) from None


@contextmanager
def _fresh(target: Path, clean: Callable[[Path], object]) -> Iterator[tuple[Path, int | None]]:
    """Provide a new name beside a target, and the mode of the target if it exists."""
    fresh = target.with_name(f".{target.name}.{os.urandom(8).hex()}.new")
    with ensured(partial(clean, fresh)), errors_naming(target, fresh):
        yield fresh, S_IMODE(target.stat().st_mode) if target.exists() else None


def _flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if os.name == "posix":
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        except OSError as error:
            if error.errno != EINVAL:  # not every system can do that with a folder
                raise
        finally:
            os.close(file)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two folders in one step. Returns whether the system (Linux, macOS) could."""
    paths = os.fsencode(one), os.fsencode(other)
    with suppress(AttributeError, OSError):
        if sys.platform == "darwin":
            return ctypes.CDLL(None).renamex_np(*paths, 2) == 0
        return ctypes.CDLL(None).renameat2(-100, paths[0], -100, paths[1], 2) == 0
    return False
