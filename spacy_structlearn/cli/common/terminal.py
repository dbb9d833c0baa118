"""Printing without characters that control a terminal; see `visible`."""

from __future__ import annotations

import re
import sys
import traceback
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import IO, Any, TextIO, cast

from ...errors import visible

# How a progress bar moves the cursor: to the beginning of its line before and after it writes, and
# down and up by lines.
_PARTS = re.compile(r"(\r?)(.*?)(\r?)", re.DOTALL)
_LINES = re.compile(r"\n*(?:\x1b\[A)*")


def echo(text: object, *, error: bool = False) -> None:
    """Print a text with hidden characters as escapes, and a newline, at once.

    error: print to standard error.
    """
    print(visible(str(text)), file=sys.stderr if error else sys.stdout, flush=True)


@cache
def warn(text: str) -> None:
    """Print a warning on standard error, once in a process."""
    echo(f"structlearn: {text}", error=True)


def table(rows: Iterable[Sequence[str]], *, header: Sequence[str], **settings: Any) -> None:
    """Print a table. settings: those of `wasabi.msg.table`."""
    from wasabi import msg

    cells = [[visible(str(cell)) for cell in row] for row in rows]
    msg.table(cells, header=[visible(name) for name in header], divider=True, **settings)


def print_scores(scores: Mapping[str, Any]) -> None:
    """Print the scores that are numbers: four digits for fractions, one for speeds and losses."""
    rows = [
        (name, f"{value:.4f}" if abs(value) <= 1 else f"{value:,.1f}")
        for name, value in scores.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    if rows:
        table(rows, header=("score", "value"), aligns=("l", "r"))


def guard_errors() -> None:
    """Write hidden characters as escapes on standard error from now on, whoever prints there.

    Messages of usage, warnings, logs, tracebacks and progress bars have names and texts, too.
    Warnings are one line, without the place in the code.
    """
    warnings.formatwarning = lambda message, *_: f"structlearn: {message}\n"
    if not isinstance(sys.stderr, VisibleText):
        sys.stderr = cast(TextIO, VisibleText(sys.stderr))


def print_traceback(*error: Any) -> None:
    """Print an uncaught exception, as `sys.excepthook`.

    Python writes the message by itself, so that it could pass for a progress bar.
    """
    print("".join(traceback.format_exception(*error)), end="", file=sys.stderr)


class VisibleText:
    """A text stream that writes hidden characters as escapes, and on which progress bars work.

    Where messages cannot be written, for example into a broken pipe, the work goes on without them.
    """

    def __init__(self, stream: TextIO):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text. Returns the number of its characters."""
        found = _PARTS.fullmatch(text)
        if found and not _LINES.fullmatch(text):
            begin, middle, end = found.groups()
            text = f"{begin}{visible(middle)}{end}"
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Write what the stream holds."""
        with suppress(OSError):
            self._stream.flush()


class VisibleBytes:
    """A binary stream of UTF-8 that writes hidden characters as escapes."""

    def __init__(self, stream: IO[bytes]):
        self._stream = stream

    def write(self, data: bytes) -> int:
        """Write whole characters. Returns the number of bytes that were given."""
        self._stream.write(visible(data.decode("utf8")).encode("utf8"))
        return len(data)

    def flush(self) -> None:
        """Write what the stream holds."""
        self._stream.flush()
