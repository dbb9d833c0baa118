"""Reading trees in the bracket notation of the Penn Treebank (Marcus, Santorini &
Marcinkiewicz 1993), plain or gzipped. Layout does not matter: a tree may take one line or many,
and a line may hold several. Labels, function tags and traces are kept as written; the empty outer
bracket of the treebank, `( (S ...) )`, is a node with the label "", which
`spacy_structlearn.trees.normalize` turns into the root label.

In words, -LRB- and -RRB- are read as round brackets in any position, and -LCB-, -RCB-, -LSB-, -RSB-
as curly and square brackets if they are the whole word. Tags are unchanged. Only round brackets are
escaped in writing, since other brackets do not break the notation.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from sys import intern

from ..errors import StructlearnError
from ..reading import LONGEST_LINE, bounded_lines, open_bytes
from .tree import Tree

# A match is a leaf on one line, an opening bracket with its label, a closing bracket, or any other
# text. Leaves have a pattern of their own since they are two thirds of a treebank.
_TOKEN = re.compile(r"\(\s*([^\s()]*)(?:\s+([^\s()]+)\s*\))?|(\))|([^\s()]+)")
PIECE = 1_000_000  # characters of a line that are divided into tokens at once
MOST_OPEN = 10_000
"""The largest number of open brackets. Trees of sentences have fewer than a hundred."""
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a]|%PDF-\d")
_WHOLE_WORD_BRACKETS = {"-LCB-": "{", "-RCB-": "}", "-LSB-": "[", "-RSB-": "]"}


def unescape(word: str) -> str:
    """Return the word with real brackets: -LRB- and -RRB- are replaced in any position (":-RRB-"),
    -LCB- -RCB- -LSB- -RSB- if they are the whole token.
    """
    if "-" not in word:
        return word
    return _WHOLE_WORD_BRACKETS.get(word) or word.replace("-LRB-", "(").replace("-RRB-", ")")


def read_trees(source: str | os.PathLike[str] | Iterable[str]) -> Iterator[Tree]:
    """Yield trees, each as soon as its last bracket is read.

    source: the name of a UTF-8 file (gzipped if it ends in .gz), an open text file, or lines.
    Raises StructlearnError with the file and the line if the brackets are malformed, and the errors
    of `text_lines`.
    """
    return _parse(*named_lines(source))


def parse_tree(text: str) -> Tree:
    """Return the tree in `text`. Raises StructlearnError unless there is exactly one."""
    trees = list(_parse(text.splitlines(), "<string>"))
    if len(trees) != 1:
        raise StructlearnError("SL107", count=len(trees))
    return trees[0]


def _parse(lines: Iterable[str], path: str) -> Iterator[Tree]:
    """Yield the trees of `lines`. path: for messages.

    The stack holds (label, children) of each open bracket. The label is None until it is read,
    possibly on a later line.
    """
    stack: list[tuple[str | None, list[Tree]]] = []
    began = number = 0
    for number, line in enumerate(lines, 1):
        # A very long line is not divided as a whole, to limit the memory for its tokens.
        tokens: Iterable[tuple[str, ...]] = (token.groups("") for token in _TOKEN.finditer(line))
        for label, word, closing, text in _TOKEN.findall(line) if len(line) < PIECE else tokens:
            if word:
                node = Tree(intern(label), (), unescape(word))
            elif closing:
                if not stack:
                    raise StructlearnError("SL101", path=path, line=number)
                node = _close(*stack.pop(), path, number)
            elif text:
                if not stack:
                    raise StructlearnError("SL103", path=path, line=number, text=text)
                _add_text(stack, text, path, number)
                continue
            else:
                if not stack:
                    began = number
                if len(stack) == MOST_OPEN:
                    raise StructlearnError("SL124", path=path, line=number, most=MOST_OPEN)
                stack.append((intern(label) or None, []))
                continue
            if stack:
                stack[-1][1].append(node)
            else:
                yield node
    if stack:
        raise StructlearnError("SL102", path=path, line=number, began=began)


def _add_text(stack: list, text: str, path: str, line: int) -> None:
    """Handle text that is not part of a leaf pattern: a label or word on its own line, or an error.

    A word is kept among the children until its bracket closes.
    """
    label, children = stack[-1]
    if label is None and not children:
        stack[-1] = (intern(text), children)
    elif children:
        raise StructlearnError("SL106", path=path, line=line, text=text)
    else:
        children.append(text)


def _close(label: str | None, children: list, path: str, line: int) -> Tree:
    if not children:
        if label is None:
            raise StructlearnError("SL104", path=path, line=line)
        raise StructlearnError("SL105", path=path, line=line, text=label)
    if isinstance(children[0], str):
        if len(children) > 1:
            raise StructlearnError("SL106", path=path, line=line, text=children[0])
        return Tree(label or "", (), unescape(children[0]))
    return Tree(label or "", children)


def named_lines(source: str | os.PathLike[str] | Iterable[str]) -> tuple[Iterable[str], str]:
    """Return the lines of a file or other source, and its name for messages."""
    if isinstance(source, (str, os.PathLike)):
        return text_lines(source), os.fspath(source)
    return source, getattr(source, "name", "<lines>")


def text_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the lines of a UTF-8 file without byte order mark, gzipped if its name ends in .gz.

    Raises StructlearnError if it is not UTF-8, an invalid or truncated gzip file, or one that
    expands to more or has longer lines than `reading` allows.
    """
    with readable(path), io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig") as lines:
        yield from bounded_lines(lines, path)


@contextmanager
def readable(path: str | os.PathLike[str]) -> Iterator[None]:
    """Convert errors in reading a file to those of `text_lines`."""
    try:
        try:
            yield
        except UnicodeDecodeError as error:
            # Also reads the file, which may be damaged further on.
            problem, encoding = _first_undecodable(path) or str(error), "latin1"
            if error.object.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                problem, encoding = "it is in UTF-16", "utf-16"
            elif _BINARY.search(error.object + _beginning(path)):
                raise StructlearnError("SL127", path=os.fspath(path)) from error
            raise StructlearnError(
                "SL035", path=os.fspath(path), problem=problem, encoding=encoding
            ) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise StructlearnError("SL121", path=os.fspath(path), problem=error) from error


def _beginning(path: str | os.PathLike[str]) -> bytes:
    if not os.path.isfile(path):
        return b""
    with open_bytes(path) as file:
        return file.read(PIECE)


def _first_undecodable(path: str | os.PathLike[str]) -> str:
    """Name the first line of a file that is not UTF-8, "" if it cannot be found."""
    if os.path.isfile(path):
        with open_bytes(path) as file:
            for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE), b""), 1):
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    return f"line {number}: {error}"
    return ""
