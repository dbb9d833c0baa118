"""The console script `structlearn`, which `python -m spacy_structlearn` runs as well.

SIGINT and SIGTERM are handled before anything else is imported. They end the process at once,
wherever it is: unfinished files are removed, a line is printed, and the process dies of the signal,
which shells report as 130 or 143. No exception is raised, because code that calls back, such as
the garbage collector, swallows exceptions.
"""

from __future__ import annotations

import errno
import io
import math
import os
import re
import signal
import sys
from contextlib import suppress
from threading import Lock, Thread
from time import sleep
from types import FrameType

from .cleanup import clean_up

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_OF_MEMORY = "failed to map segment|[Cc]annot allocate memory|can't start new thread"
LEAST = 512  # MB of memory; with less, libraries crash or do not end when they are imported
RESERVE = 2**24  # bytes, where memory is limited
PATIENCE = 1.0  # seconds until a signal is handled in another thread
_leaving = Lock()


def main() -> None:
    """Run the command line."""
    # Background jobs of a shell ignore SIGINT.
    heard = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    for number in heard:
        signal.signal(number, _leave)
    _replace_closed_streams()
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:  # files have no colours
        os.environ.setdefault("ANSI_COLORS_DISABLED", "1")
    if os.name == "posix":
        _watch()
    limit = _memory_limit()
    if limit < LEAST:
        sys.exit(f"structlearn: not enough memory: {limit:.0f} MB (ulimit -v) of {LEAST} MB")
    reserve = bytearray(RESERVE if limit < math.inf else 0)
    try:
        from .cli import main as run

        run()
    except Exception as error:
        del reserve  # handling the error needs memory, too
        if _is_of_memory(error):
            sys.exit("structlearn: not enough memory")
        if limit == math.inf:
            raise
        # Libraries, and Python itself, lose errors of memory on the way.
        text = " ".join(f"{type(error).__name__}: {error}".split())
        sys.exit(f"structlearn: memory is limited, and perhaps not enough: {text}")
    finally:
        # Everything is done; only the interpreter still has to end.
        for number in heard:
            signal.signal(number, signal.SIG_IGN)


def _leave(number: int, frame: FrameType | None = None) -> None:
    """End the process because of a signal."""
    if not _leaving.acquire(blocking=False):
        return
    clean_up()
    line = (
        f"structlearn: interrupted by {signal.Signals(number).name}; no file is half-written. Run "
        "the same command again: train, and apply to a folder, continue; others start over.\n"
    )
    # After ^C and a progress bar, which have no end of line.
    begin = "\n" if os.isatty(2) else ""
    with suppress(OSError):  # not print: it may be what was interrupted
        os.write(2, (begin + line).encode())
    if os.name == "posix":
        # In a thread, and in the first process of a container, only the last line works.
        with suppress(ValueError):
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
    os._exit(128 + number)


class _Closed(io.RawIOBase):
    """A standard stream that was closed before the process began: reading and writing fail."""

    def __init__(self, name: str):
        self._name = name

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, data: object) -> int:
        raise OSError(errno.EBADF, "It is closed", self._name)

    def write(self, data: object) -> int:
        return self.readinto(data)


def _replace_closed_streams() -> None:
    """Let standard input and output that are closed raise errors; messages are dropped."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            # Otherwise the next file that is opened would become this stream.
            number = os.open(os.devnull, os.O_RDWR)
            if name == "stderr":
                sys.stderr = os.fdopen(number, "w")
            else:
                closed = _Closed(f"standard {name.removeprefix('std')}put")
                setattr(sys, name, io.TextIOWrapper(closed, write_through=True))


def _is_of_memory(error: BaseException | None) -> bool:
    """Return whether an error was caused by a lack of memory, in a library for example."""
    while error is not None:
        if isinstance(error, MemoryError) or re.search(_OF_MEMORY, str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def _memory_limit() -> float:
    """Return the limit of the memory of this process, such as that of `ulimit -v`, in MB."""
    with suppress(ImportError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        return math.inf if limit == resource.RLIM_INFINITY else limit / 2**20
    return math.inf


def _watch() -> None:
    """Start a thread that ends the process if a kernel delays the handler, which waits for it."""
    heard, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    # The signals of a forked process are its own.
    os.register_at_fork(after_in_child=_forget)

    def wait() -> None:
        while (number := os.read(heard, 1)[0]) not in SIGNALS:
            pass
        sleep(PATIENCE)
        _leave(number)
        # The handler is at work, but takes too long.
        sleep(PATIENCE / 2)
        os._exit(128 + number)

    Thread(target=wait, daemon=True).start()


def _forget() -> None:
    signal.set_wakeup_fd(-1)
    for number in SIGNALS:
        if signal.getsignal(number) == _leave:
            signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    main()
