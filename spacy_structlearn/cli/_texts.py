"""The texts that commands read, and which of those of `apply` go into which file of a folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import dropwhile, groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ..errors import StructlearnError
from ._corpora import Reader, files_of, gold_docs
from ._files import STANDARD, lines_of, looks_like_a_path

if TYPE_CHECKING:
    from spacy.tokens import Doc


class Input(str, Enum):
    """What is in the files."""

    text = "text"
    jsonl = "jsonl"
    docbin = "docbin"


class Unit(str, Enum):
    """What of a text file is one text. A paragraph stands between blank lines."""

    line = "line"
    paragraph = "paragraph"
    file = "file"


INPUTS = {".txt": Input.text, ".text": Input.text, ".jsonl": Input.jsonl, ".spacy": Input.docbin}


class Text(NamedTuple):
    """A text, or a Doc with its own tokens, and the other keys of its line of JSONL."""

    content: str | Doc
    extra: dict[str, Any]


class Source(NamedTuple):
    """A file to read.

    place: among all files of the input, from 0. name: what its parts are called by, with its
    folders below that of the input.
    """

    place: int
    path: str
    name: str


Part: TypeAlias = "tuple[str, Iterable[Text]]"  # the file to write, and what goes into it
Shard: TypeAlias = "tuple[int, int]"  # the number of this one, from 0, and of all


def texts(source: str, unit: Unit, most: int) -> Iterator[str]:
    """What `parse` is given: a text, or a file of text or JSONL, or standard input.

    unit, most: see `read`; a text that is given as such is one. Blank texts are left out.
    RAISES: SL075 for a folder or a DocBin, SL076 for the name of a file that is not there; what
    `read` raises.
    """
    if os.path.isdir(source):
        raise StructlearnError("SL075", path=source, what="a folder")
    if source == STANDARD or os.path.exists(source):
        kind = Input.text if source == STANDARD else _kind(source)
        if kind is Input.docbin:
            raise StructlearnError("SL075", path=source, what="a DocBin")
        yield from (str(text.content) for text in read(source, kind, unit, most))
    elif looks_like_a_path(source):
        raise StructlearnError("SL076", path=source)
    elif source.strip():
        yield source.strip()


def read(path: str, kind: Input | None, unit: Unit, most: int) -> Iterator[Text]:
    """The texts of a file, or of standard input.

    kind: None: as the name ends. most: so many characters a text may have.
    RAISES: SL010 if there is no such file, SL013, SL035, SL064 or SL121 if it is not what it should
    be, SL065 for a text that is too long.
    """
    from spacy.vocab import Vocab

    kind = kind or _kind(path) or Input.text
    if path != STANDARD and not os.path.exists(path):
        raise StructlearnError("SL010", path=path)
    if kind is Input.docbin:
        # A vocab of its own: what is read here is parsed in others.
        yield from (Text(doc, {}) for _, doc in gold_docs(Vocab(), path, Reader.docbin))
        return
    if kind is Input.jsonl:
        found = _json_lines(path)
    else:
        found = (Text(text, {}) for text in cut(lines_of(path), unit, most))
    for number, text in enumerate(found, 1):
        length = len(text.content)
        if length > most:
            raise StructlearnError("SL065", path=path, number=number, length=length, most=most)
        yield text


def cut(lines: Iterable[str], unit: Unit, most: int) -> Iterator[str]:
    """The texts of a file, without the white space at their ends; none that is blank.

    most: what has more characters comes cut short, so that it need not be in memory as a whole.
    """
    if unit is Unit.line:
        found: Iterable[str] = lines
    elif unit is Unit.paragraph:
        found = (_joined(some, most) for blank, some in groupby(lines, str.isspace) if not blank)
    else:
        found = [_joined(lines, most)]
    return (text.strip() for text in found if text.strip())


def _joined(lines: Iterable[str], most: int) -> str:
    """Lines as one text. Reading stops when it is longer than `most` characters."""
    held: list[str] = []
    length = 0  # of what is held
    for line in dropwhile(str.isspace, lines):
        held.append(line if held else line.lstrip())
        # White space at the end does not count.
        if length + len(held[-1].rstrip()) > most and not line.isspace():
            break
        length += len(held[-1])
    return "".join(held)


class Cutting(NamedTuple):
    """How files are read and cut into those of a folder.

    output: the folder. ending: of what is written. kind, unit: see `read`. size: at most so many
    texts are in one part. shard: only its parts are made.
    """

    output: Path
    ending: str
    kind: Input | None
    unit: Unit
    size: int
    shard: Shard

    def parts(self, sources: Iterable[Source], most: int) -> Iterator[Part]:
        """The parts of some files. most: so many characters a text may have."""
        for source in sources:
            number, texts = 0, read(source.path, self.kind, self.unit, most)
            while found := list(islice(texts, self.size)):
                # Large files and many small ones are both shared out evenly.
                if (source.place + number) % self.shard[1] == self.shard[0]:
                    yield str(self.output / f"{source.name}.{number:04d}{self.ending}"), found
                number += 1


def sources(source: str, output: str, kind: Input | None) -> list[Source]:
    """The files to read: of a folder those with a known ending, or all if their kind is named.

    RAISES: SL069 if there are none.
    """
    folder = Path(source)
    if source == STANDARD:
        return [Source(0, source, "stdin")]
    if not folder.is_dir():
        return [Source(0, source, folder.name)]
    inside = Path(output).resolve()
    # What is written into the folder itself is no input of the next run.
    paths = [path for path in files_of(folder) if inside not in path.resolve().parents]
    chosen = [path for path in paths if kind or _kind(path)]
    if not chosen:
        raise StructlearnError("SL069", folder=folder)
    if len(chosen) < len(paths):
        print(
            f"structlearn: not read of {source}: {counted(len(paths) - len(chosen), 'file')} with "
            f"names that do not end in {', '.join(INPUTS)}; --input-format reads all files",
            file=sys.stderr,
        )
    return [
        Source(place, str(path), path.relative_to(folder).as_posix())
        for place, path in enumerate(chosen)
    ]


def counted(number: int, what: str) -> str:
    """Such as "1 file" or "2,000 files"."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _kind(path: str | Path) -> Input | None:
    """What is in a file with this name."""
    path = Path(path)
    return INPUTS.get((path.with_suffix("") if path.suffix == ".gz" else path).suffix)


def _json_lines(path: str) -> Iterator[Text]:
    import srsly

    for number, line in enumerate(lines_of(path), 1):
        if not line.strip():
            continue
        try:
            found = srsly.json_loads(line)
        except ValueError as error:
            raise StructlearnError("SL064", path=path, line=number, problem=error) from None
        if not isinstance(found, dict) or not isinstance(found.get("text"), str):
            raise StructlearnError("SL064", path=path, line=number, problem="no text in it")
        yield Text(found.pop("text"), found)
