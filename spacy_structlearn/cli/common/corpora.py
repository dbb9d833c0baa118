"""Annotated corpora, as `convert` and `evaluate` take them: a file, a folder, or standard input."""

from __future__ import annotations

import re
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...cleanup import temporary_folder
from ...errors import StructlearnError
from ...reading import LONGEST_LINE, open_bytes
from ...trees.brackets import readable
from .files import STANDARD, same

if TYPE_CHECKING:
    from collections import Counter

    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.training import Example
    from spacy.vocab import Vocab

BEGINNING = 100_000  # bytes of a line
_ZLIB = b"x\x9c"  # the first bytes of a DocBin
_CHUNK_TAGS = ("O", "B-", "I-", "E-", "S-")
# Other formats by the beginning of their first line, and what to do.
_CONLLU = re.compile(r"# ?(newdoc|newpar|[\w.]+ = )|\d+(-\d+)?\t([^\t]*\t){8}")
_TO_BRACKETS = "Convert it to brackets without crossing branches, for example with treetools"
_FOREIGN = [
    (r"%%|#FORMAT|#BO[ST]\b", "the export format of NEGRA and TIGER", _TO_BRACKETS),
    (r"<\?xml|<corpus", "XML, such as that of TIGER", _TO_BRACKETS),
]


class Reader(str, Enum):
    """The formats of corpora. Each has a reader that configs can name."""

    docbin = "docbin"
    treebank = "treebank"
    conll2000 = "conll2000"
    quadruples = "quadruples"
    propbank = "propbank"
    conllu = "conllu"
    prodigy = "prodigy"


ReaderOption = Annotated[
    Reader | None, typer.Option(help="Format of the corpus. Default: recognized by its content.")
]
SpacesOption = Annotated[
    Path | None,
    typer.Option(
        help="Spacing of a treebank: one line per sentence, one digit per token (0: nothing "
        "follows it, 1: a blank, 2: a blank line)."
    ),
]
PropsOption = Annotated[
    Path | None, typer.Option(help="Semantic roles of a treebank: the columns of PropBank.")
]


def gold_docs(
    vocab: Vocab,
    source: str | Path,
    reader: Reader | None = None,
    *,
    spaces: Path | None = None,
    props: Path | None = None,
    targets: Sequence[str | Path] = (),
    dropped: Counter[tuple[str, str]] | None = None,
) -> Iterator[tuple[str, Doc]]:
    """Yield the documents of a corpus as (name, gold Doc); `convert` describes the names.

    source: A file, a folder whose files are all read, or "-" for standard input.
    reader: None recognizes the format by the content of each file.
    spaces, props: Additional files of a treebank, as for `Treebank.v1`.
    targets: Files that are written, and not read from a folder.
    dropped: Counts the labels of a treebank that lose their function tags, as in `read_treebank`.
    Raises StructlearnError if a file is missing or cannot be read.
    """
    beside = {"spaces": spaces, "props": props}
    if str(source) == STANDARD:
        # Readers open files by name.
        with temporary_folder() as folder:
            path = folder / "stdin"
            path.write_bytes(sys.stdin.buffer.read())
            yield from _read(vocab, path, reader, dropped, **beside)
    elif Path(source).is_dir():
        folder = Path(source)
        if spaces or props:
            raise typer.BadParameter("--spaces and --props belong to one file, not to a folder")
        for path in files_of(folder, targets):
            place = path.relative_to(folder)
            name = (place.parent / place.name.partition(".")[0]).as_posix()
            yield from ((name, doc) for _, doc in _read(vocab, path, reader, dropped))
    else:
        yield from _read(vocab, Path(source), reader, dropped, **beside)


def files_of(folder: Path, targets: Sequence[str | Path] = ()) -> list[Path]:
    """Return all files below a folder, sorted; raise SL069 if it has none.

    targets: Files that are left out, as hidden ones are.
    """
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not any(same(path, target) for target in targets)
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    if not found:
        raise StructlearnError("SL069", folder=folder)
    return found


def _read(
    vocab: Vocab,
    path: Path,
    reader: Reader | None,
    dropped: Counter[tuple[str, str]] | None,
    spaces: Path | None = None,
    props: Path | None = None,
) -> Iterator[tuple[str, Doc]]:
    import spacy

    from ...groups import CONSTITUENTS, NP_CHUNKS
    from ...pipeline import readers

    reader = reader or recognized(path)
    if reader is Reader.propbank and props is None:
        reader, props = Reader.treebank, path
    if reader is Reader.treebank:
        yield from readers.read_treebank(vocab, path, spaces=spaces, props=props, dropped=dropped)
        return
    if spaces or props:
        raise typer.BadParameter("--spaces and --props belong to a treebank")
    if reader is Reader.conllu:
        from ...pipeline.universal.conllu import read_conllu

        yield from read_conllu(vocab, path)
        return
    creators: dict[Reader, Callable[..., Callable[[Language], Iterable[Example]]]] = {
        Reader.docbin: readers.create_docbin_reader,
        Reader.conll2000: readers.create_conll_chunks_reader,
        Reader.quadruples: readers.create_pp_quadruples_reader,
    }
    # A reader takes a pipeline, but these use only its vocab.
    nlp = spacy.blank(vocab.lang or "xx", vocab=vocab)
    if reader is Reader.prodigy:
        yield from ((str(n), doc) for n, doc in enumerate(readers.read_prodigy(nlp, path)))
        return
    for number, example in enumerate(creators[reader](path)(nlp)):
        doc = example.reference
        if reader is Reader.quadruples:
            # The site is found by these groups, so the stored Doc must have them.
            for key in (CONSTITUENTS, NP_CHUNKS):
                doc.spans[key] = example.predicted.spans[key].copy(doc=doc)
        yield str(number), doc


def is_prodigy(line: str) -> bool:
    """Return whether a line of JSON has spans, as those of Prodigy, and not only a text."""
    return line.startswith("{") and '"spans"' in line


def recognized(path: Path) -> Reader:
    """Recognize the format of a file by its first line.

    Raises StructlearnError for a file that is missing, empty or in another format.
    """
    if not path.is_file():
        raise StructlearnError("SL010", path=path)
    with readable(path), open_bytes(path) as file:
        begin = file.peek(2)[:2]
        lines = iter(partial(file.readline, LONGEST_LINE), b"")
        first = next((line for line in lines if line.strip()), b"")
        if not first:
            raise StructlearnError("SL063", path=path)
        if path.suffix == ".spacy" or begin == _ZLIB:
            return Reader.docbin
        # The beginning of a very long line is enough; it may end within a character.
        line = getincrementaldecoder("utf-8-sig")().decode(first[:BEGINNING])
    fields = line.split()
    if len(fields) == 3 and fields[2].startswith(_CHUNK_TAGS):
        return Reader.conll2000
    if len(fields) == 6 and fields[0].isdigit() and fields[5] in ("V", "N"):
        return Reader.quadruples
    if len(fields) >= 8 and fields[1].isdecimal() and "*" in fields[5]:
        return Reader.propbank
    if fields and fields[0].startswith("("):
        return Reader.treebank
    if is_prodigy(line):
        return Reader.prodigy
    if _CONLLU.match(line):
        return Reader.conllu
    for pattern, foreign, remedy in _FOREIGN:
        if re.match(pattern, line):
            raise StructlearnError("SL048", path=path, format=foreign, remedy=remedy)
    raise StructlearnError("SL060", path=path, known=", ".join(r.value for r in Reader))
