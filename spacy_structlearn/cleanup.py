"""What must be removed or ended before a process ends, also if a signal ends it.

SIGINT and SIGTERM end the command line without an exception, because one that is raised in the
middle of anything may be swallowed there. So `finally` is not enough: `clean_up` calls what is
registered here.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

_registered: list[Callable[[], object]] = []

# A forked process owns none of this.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_registered.clear)


@contextmanager
def ensured(function: Callable[[], object]) -> Iterator[None]:
    """Call a function at the end of the context, or before a signal ends the process.

    function: without effect if it is called again; a signal may interrupt the first call.
    """
    _registered.append(function)
    try:
        yield
    finally:
        function()
        _registered.remove(function)


def clean_up() -> None:
    """Call all registered functions, the last one first. Errors are ignored."""
    for function in reversed(_registered):
        with suppress(Exception):
            function()


@contextmanager
def errors_naming(target: Path, fresh: Path) -> Iterator[None]:
    """Let an OSError name a file that the user knows: `target` in place of `fresh` or of none."""
    try:
        yield
    except OSError as error:
        # Errors of writing, such as a full disk, name no file.
        if error.errno is not None and error.filename is None:
            error.filename = str(target)
        elif isinstance(error.filename, (str, Path)):
            error.filename = str(error.filename).replace(str(fresh), str(target))
        raise


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Provide a new folder, which is removed at the end."""
    from tempfile import gettempdir

    folder = Path(gettempdir()) / f"structlearn-{os.urandom(8).hex()}"
    with ensured(partial(remove, folder)), errors_naming(folder, folder):
        folder.mkdir(mode=0o700)
        yield folder


def remove(path: Path) -> None:
    """Remove a file or a folder as far as possible, if it exists."""
    # rmtree would wait for a pipe.
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.unlink()
