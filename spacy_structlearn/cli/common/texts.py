"""Reading the texts of commands, and dividing the texts of `apply` into files of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import dropwhile, groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

import typer

from ...errors import StructlearnError
from ...trees.brackets import readable
from .corpora import Reader, files_of, gold_docs
from .files import STANDARD, lines_of, looks_like_a_path
from .json_lines import parsed
from .terminal import echo

if TYPE_CHECKING:
    from spacy.tokens import Doc


class Input(str, Enum):
    """The input formats."""

    text = "text"
    jsonl = "jsonl"
    docbin = "docbin"


class Output(str, Enum):
    """The output formats of `apply`."""

    docbin = "docbin"
    jsonl = "jsonl"
    conllu = "conllu"


class Format(str, Enum):
    """The output formats of `parse`."""

    text = "text"
    trees = "trees"
    conll = "conll"
    conllu = "conllu"
    jsonl = "jsonl"


class Unit(str, Enum):
    """The units of a text file that become texts. Paragraphs are separated by blank lines."""

    line = "line"
    paragraph = "paragraph"
    file = "file"


InputOption: TypeAlias = Annotated[
    Input | None,
    typer.Option(help="Format of the input. Default: by the file extension, or else text."),
]
UnitOption: TypeAlias = Annotated[Unit, typer.Option(help="How a text file is divided into texts.")]
MANIFEST = "structlearn-apply.json"  # in a folder that `apply` has written
INPUTS = {".txt": Input.text, ".text": Input.text, ".jsonl": Input.jsonl, ".spacy": Input.docbin}
TREES = (".trees", ".mrg")  # also the endings of trees in brackets
OUTPUTS = {".spacy": Output.docbin, ".jsonl": Output.jsonl, ".conllu": Output.conllu}
ENDINGS = {output: ending for ending, output in OUTPUTS.items()}


class Text(NamedTuple):
    """A text or a Doc with its tokens, and the line of JSON that it was read from."""

    content: str | Doc
    line: str = ""


class Source(NamedTuple):
    """An input file."""

    place: int  # index among all input files
    path: str
    name: str  # path relative to the input folder, from which the names of its parts are made


# Made of text, but no plain text.
TABLES = (".csv", ".tsv", ".json", ".xml", ".html", ".htm", ".pdf", ".docx", ".odt", ".rtf")


Part: TypeAlias = "tuple[str, Iterable[Text]]"  # the output file and its texts
Shard: TypeAlias = "tuple[int, int]"  # the index of the shard, and the number of shards


def texts(source: str, unit: Unit, most: int) -> Iterator[str]:
    """Yield the texts of the argument of `parse`, without blank ones; see `read`.

    Raises StructlearnError for a folder, a DocBin or the name of a missing file.
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
        with readable("the text"):
            yield source.encode("utf8", "surrogateescape").decode("utf8").strip()


def read(
    path: str, kind: Input | None, unit: Unit, most: int, *, stored: bool = False
) -> Iterator[Text]:
    """Yield the texts of a file or of standard input.

    kind: None recognizes the format by the file extension. most: Maximum length of a text.
    stored: whether all keys of JSONL must fit into a DocBin.
    Raises StructlearnError if the file is missing or damaged, or if a text is too long.
    """
    from spacy.vocab import Vocab

    if path != STANDARD and not os.path.exists(path):
        raise StructlearnError("SL010", path=path)
    if kind is None and path.removesuffix(".gz").lower().endswith(TABLES):
        raise StructlearnError("SL093", path=path)
    kind = kind or _kind(path) or Input.text
    if kind is Input.docbin:
        # A separate vocab, because the Docs are parsed with other vocabs.
        yield from (Text(doc) for _, doc in gold_docs(Vocab(), path, Reader.docbin))
        return
    if kind is Input.jsonl:
        found = _json_lines(path, stored)
    else:
        found = (Text(text) for text in cut(lines_of(path), unit, most))
    for number, text in enumerate(found, 1):
        check_length(text.content, path, number, most)
        yield text


def check_length(text: str | Doc, path: str, number: int, most: int) -> None:
    """Raise StructlearnError if a text has more than `most` characters.

    number: of the text in the file `path`, from 1.
    """
    if len(text) > most:
        raise StructlearnError("SL065", path=path, number=number, length=len(text), most=most)


def cut(lines: Iterable[str], unit: Unit, most: int) -> Iterator[str]:
    """Divide lines into texts, stripped of white space and without blank texts.

    most: Longer texts are truncated after more than `most` characters, to limit the memory.
    """
    if unit is Unit.line:
        found: Iterable[str] = lines
    elif unit is Unit.paragraph:
        found = (_joined(some, most) for blank, some in groupby(lines, str.isspace) if not blank)
    else:
        found = [_joined(lines, most)]
    return (text.strip() for text in found if text.strip())


def _joined(lines: Iterable[str], most: int) -> str:
    """Join lines to one text. Stop reading when it has more than `most` characters."""
    held: list[str] = []
    length = 0  # of the lines in `held`
    for line in dropwhile(str.isspace, lines):
        held.append(line if held else line.lstrip())
        # White space at the end does not count.
        if length + len(held[-1].rstrip()) > most and not line.isspace():
            break
        length += len(held[-1])
    return "".join(held)


class Job(NamedTuple):
    """What `apply` does with input files."""

    model: str
    output: Path  # a folder
    format: Output
    kind: Input | None
    unit: Unit
    part_size: int  # maximum number of texts in one part
    shard: Shard  # the shard whose parts are made
    batch_size: int
    force: bool  # whether parts that exist are made anew

    def parts(self, sources: Iterable[Source], most: int) -> Iterator[Part]:
        """Yield the parts of some files. most: Maximum number of characters of a text."""
        for source in sources:
            number, texts = 0, self.read(source.path, most)
            while found := list(islice(texts, self.part_size)):
                # This distributes both large files and many small ones evenly.
                if (source.place + number) % self.shard[1] == self.shard[0]:
                    name = f"{source.name}.{number:04d}{ENDINGS[self.format]}"
                    yield str(self.output / name), found
                number += 1

    def read(self, path: str, most: int) -> Iterator[Text]:
        """Yield the texts of a file; see `read`."""
        return read(path, self.kind, self.unit, most, stored=self.format is Output.docbin)


def sources(source: str, output: str, kind: Input | None) -> list[Source]:
    """Return the files to read; of a folder, those with a known extension, or all with `kind`.

    The output, and folders that `apply` has written, are not read.
    Raises StructlearnError if there is no file, or a folder has none.
    """
    folder = Path(source)
    if source == STANDARD:
        return [Source(0, source, "stdin")]
    if not folder.exists():
        raise StructlearnError("SL010", path=source)
    if not folder.is_dir():
        return [Source(0, source, folder.name)]
    paths = files_of(folder, [output])
    made = {path.parent for path in paths if path.name == MANIFEST and path.parent != folder}
    made.add(folder / MANIFEST)
    target = Path(output).resolve()
    paths = [
        path
        for path in paths
        if made.isdisjoint((path, *path.parents)) and target not in path.resolve().parents
    ]
    chosen = [path for path in paths if kind or _kind(path)]
    left = sorted(set(paths).difference(chosen))
    endings = ", ".join(INPUTS)
    if not chosen:
        if left:
            raise StructlearnError("SL125", folder=folder, name=left[0].name, endings=endings)
        raise StructlearnError("SL069", folder=folder)
    if left:
        echo(
            f"structlearn: not read of {source}: {counted(len(left), 'file')} with names that do "
            f"not end in {endings}; --input-format reads all files",
            error=True,
        )
    return [
        Source(place, str(path), path.relative_to(folder).as_posix())
        for place, path in enumerate(chosen)
    ]


def counted(number: int, what: str) -> str:
    """Format a count, such as "1 file" or "2,000 files"."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _kind(path: str | Path) -> Input | None:
    """Recognize the format of a file by its name."""
    path = Path(path)
    return INPUTS.get((path.with_suffix("") if path.suffix == ".gz" else path).suffix)


def _json_lines(path: str, stored: bool) -> Iterator[Text]:
    for number, line in enumerate(lines_of(path), 1):
        if line.strip():
            try:
                yield Text(parsed(line, stored=stored)["text"], line)
            except ValueError as error:
                raise StructlearnError("SL064", path=path, line=number, problem=error) from None
