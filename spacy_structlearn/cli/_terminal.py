"""Printing without characters that control a terminal: texts, labels and names may have any."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import IO, Any

# Control characters except tab and newline, surrogates, and invisible characters: marks of
# direction, the byte order mark, and the characters of tags.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
    "\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    r"""Replace hidden characters by escapes such as \u001b, which JSON has too."""
    return HIDDEN.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(rf"\u{units[begin : begin + 4]}" for begin in range(0, len(units), 4))


def echo(text: object, *, raw: bool = False, error: bool = False) -> None:
    """Print a text, and a newline, at once.

    raw: keep hidden characters, except on a terminal. error: print to standard error.
    """
    stream = sys.stderr if error else sys.stdout
    shown = str(text) if raw and not stream.isatty() else visible(str(text))
    print(shown, file=stream, flush=True)


def table(rows: Iterable[Sequence[str]], *, header: Sequence[str], **settings: Any) -> None:
    """Print a table. settings: those of `wasabi.msg.table`."""
    from wasabi import msg

    cells = [[visible(str(cell)) for cell in row] for row in rows]
    msg.table(cells, header=[visible(name) for name in header], divider=True, **settings)


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
