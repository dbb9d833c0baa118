"""Reading and writing trees in the bracket notation of the Penn Treebank (Marcus, Santorini &
Marcinkiewicz 1993), plain or gzipped. Layout does not matter: a tree may take one line or many,
and a line may hold several. Labels, function tags and traces are kept as written; the empty outer
bracket of the treebank, `( (S ...) )`, is a node with the label "", which
`spacy_structlearn.trees.normalize` turns into the root label.

Inside words -LRB- and -RRB- are read as round brackets wherever they stand, and -LCB-, -RCB-,
-LSB-, -RSB- as curly and square ones where they are the whole word; tags are kept. Only round
brackets are escaped again in writing, since only they would break the notation.
"""

from __future__ import annotations

import gc
import gzip
import io
import os
import re
import uuid
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from sys import intern

from ..errors import StructlearnError
from .tree import Tree

# One match is a whole leaf on one line, or an opening bracket with its label, or a closing bracket,
# or any other text. Leaves are two thirds of a treebank, hence the pattern of their own.
_TOKEN = re.compile(r"\(\s*([^\s()]*)(?:\s+([^\s()]+)\s*\))?|(\))|([^\s()]+)")
_UNWRITABLE = re.compile(r"[\s()]")
_WORD = re.compile(r"\S+")
_WHOLE_WORD_BRACKETS = {"-LCB-": "{", "-RCB-": "}", "-LSB-": "[", "-RSB-": "]"}


def unescape(word: str) -> str:
    """The word as it stands in the text: -LRB- and -RRB- turned back into brackets, also within a
    longer token (":-RRB-"), and -LCB- -RCB- -LSB- -RSB- where they are the whole token.
    """
    if "-" not in word:
        return word
    if word in _WHOLE_WORD_BRACKETS:
        return _WHOLE_WORD_BRACKETS[word]
    return word.replace("-LRB-", "(").replace("-RRB-", ")")


def read_trees(source: str | os.PathLike[str] | Iterable[str]) -> Iterator[Tree]:
    """Read trees one after another.

    source: the name of a UTF-8 file (gzipped if it ends in .gz), an open text file, or any lines.
    Yields each tree as soon as its last bracket is read. Raises, with the file and the line:
    SL101 a closing bracket too many, SL102 the end of the file inside a tree (says where the tree
    began), SL103 text outside a tree, SL104 an empty bracket, SL105 a bracket with text but neither
    tag nor children, SL106 a word beside other children; and what `text_lines` raises.
    """
    if isinstance(source, (str, os.PathLike)):
        yield from _parse(text_lines(source), os.fspath(source))
    else:
        yield from _parse(source, getattr(source, "name", "<lines>"))


def load_trees(source: str | os.PathLike[str] | Iterable[str]) -> list[Tree]:
    """All trees of `source` at once, otherwise as `read_trees`.

    Python's garbage collector is held off meanwhile: going through a treebank again and again would
    take several times as long as reading it.
    """
    with uncollected():
        return list(read_trees(source))


@contextmanager
def uncollected() -> Iterator[None]:
    """Hold off Python's garbage collector while millions of objects are made that all stay."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def parse_tree(text: str) -> Tree:
    """The one tree in `text`. Raises SL107 if there is not exactly one, else as `read_trees`."""
    trees = list(_parse(text.splitlines(), "<string>"))
    if len(trees) != 1:
        raise StructlearnError("SL107", count=len(trees))
    return trees[0]


def write_trees(trees: Iterable[Tree], path: str | os.PathLike[str]) -> int:
    """Write trees to a UTF-8 file, one a line, gzipped if the name ends in .gz.

    The file is written beside its place and then renamed, so that a reader never sees half of it;
    the same trees give the same bytes, gzipped or not. Returns the number of trees. Raises SL110
    for a label or word that the notation cannot hold (empty, or with white space; a label also with
    a bracket); an earlier file of that name is then still there.
    """
    target = Path(path)
    beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    count = 0
    try:
        with open(beside, "xb") as raw, _text_writer(raw, target.suffix == ".gz") as out:
            for tree in trees:
                _check_writable(tree)
                out.write(f"{tree}\n")
                count += 1
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return count


def _parse(lines: Iterable[str], path: str) -> Iterator[Tree]:
    """The trees of `lines`; `path` is for messages. The stack holds (label, children) of each open
    bracket; label is None until one is read, which may be on a later line.
    """
    stack: list[tuple[str | None, list[Tree]]] = []
    began = number = 0
    tokens = _TOKEN.findall
    for number, line in enumerate(lines, 1):
        for label, word, closing, text in tokens(line):
            if word:
                leaf = Tree(intern(label), (), unescape(word))
                if stack:
                    stack[-1][1].append(leaf)
                else:
                    yield leaf
            elif closing:
                if not stack:
                    raise StructlearnError("SL101", path=path, line=number)
                node = _close(*stack.pop(), path, number)
                if stack:
                    stack[-1][1].append(node)
                else:
                    yield node
            elif text:
                if not stack:
                    raise StructlearnError("SL103", path=path, line=number, text=text)
                _add_text(stack, text, path, number)
            else:
                if not stack:
                    began = number
                stack.append((intern(label) or None, []))
    if stack:
        raise StructlearnError("SL102", path=path, line=number, began=began)


def _add_text(stack: list, text: str, path: str, line: int) -> None:
    """Text that the leaf pattern did not take: a label or word on a line of its own, or an error.
    A word is put among the children until its bracket closes.
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


def _check_writable(tree: Tree) -> None:
    for node in tree.subtrees():
        # A phrase may have an empty label, a leaf may not; brackets of a word will be escaped.
        if _UNWRITABLE.search(node.label) or (
            node.word is not None and not (node.label and _WORD.fullmatch(node.word))
        ):
            raise StructlearnError("SL110", label=node.label, word=node.word)


def text_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """The lines of a UTF-8 file, gzipped if its name ends in .gz; a byte order mark is left out.

    Raises SL035 if it is not UTF-8, SL121 if it is no gzip file, or cut short.
    """
    with readable(path), _open_text(path) as lines:
        yield from lines


@contextmanager
def readable(path: str | os.PathLike[str]) -> Iterator[None]:
    """Around the reading of a file: what is wrong with it is SL035 or SL121, see `text_lines`."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise StructlearnError("SL035", path=os.fspath(path), problem=error) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise StructlearnError("SL121", path=os.fspath(path), problem=error) from error


def _open_text(path: str | os.PathLike[str]) -> io.TextIOBase:
    if os.fspath(path).endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig")  # type: ignore[return-value]
    return open(path, encoding="utf-8-sig")


def _text_writer(raw: io.BufferedIOBase, compress: bool) -> io.TextIOWrapper:
    """A text file over `raw`; gzip without name and time, so that equal text is equal bytes."""
    if compress:
        raw = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0)  # type: ignore[assignment]
    return io.TextIOWrapper(raw, encoding="utf-8", newline="\n")
