"""Hidden characters as escapes. Texts, labels and names may have any, and some of them control a
terminal.
"""

from __future__ import annotations

import re

# Control characters except tab and newline, surrogates, and invisible characters: marks of
# direction, the byte order mark, and the characters of tags.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
    "\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    r"""Replace hidden characters by escapes such as \u001b, which JSON has too."""
    return HIDDEN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(rf"\u{units[begin : begin + 4]}" for begin in range(0, len(units), 4))
