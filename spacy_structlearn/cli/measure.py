"""`structlearn measure`: the syntactic complexity of files, as a table."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator
from enum import Enum
from io import StringIO
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .common.files import STANDARD, written
from .common.texts import Unit
from .find import ParserOption, TreesArgument, files_in
from .table import Table

if TYPE_CHECKING:
    from .common.search import Files

PLACE = ("file", "text", "sentence")


class Level(str, Enum):
    """What a row is of."""

    sentence = "sentence"
    text = "text"
    file = "file"
    folder = "folder"


def measure_cli(
    paths: TreesArgument,
    model: ParserOption = None,
    unit: Annotated[
        Unit, typer.Option(help="How a text file is divided into texts.")
    ] = Unit.paragraph,
    by: Annotated[Level, typer.Option(help="What a row is of.")] = Level.file,
    format: Annotated[Table, typer.Option(help="Output format.")] = Table.csv,
) -> None:
    """Print a table of measures of syntactic complexity.

    The columns are those of the L2 Syntactic Complexity Analyzer (Lu 2010), and depths and lengths;
    the guide to measures explains them. A row is of a sentence, of a text or tree in a file, of a
    file, or of all files in a folder.
    """
    from ..measures.totals import COUNTS, MEASURES, measures_of
    from .common.search import Files

    columns = ["folder"] if by is Level.folder else PLACE[: 3 - list(Level).index(by)]
    with written(STANDARD) as file:
        if format is Table.csv:
            file.write(f"{','.join((*columns, *MEASURES))}\n".encode())
        for key, sums in _sums(files_in(paths), by, Files(model, unit)):
            found: dict[str, Any] = measures_of(sums)
            if format is Table.jsonl:
                data = dict(zip(columns, key, strict=True)) | found
                line = f"{json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n"
            else:
                means = (f"{found[name]:.4f}" for name in MEASURES if name not in COUNTS)
                cells = StringIO(newline="")
                row = (*key, *(found[name] for name in COUNTS), *means)
                csv.writer(cells, lineterminator="\n").writerow(row)
                line = cells.getvalue()
            file.write(line.encode("utf8", "surrogateescape"))
            file.flush()


def _sums(paths: Iterable[str], by: Level, files: Files) -> Iterator[tuple[tuple, Any]]:
    """Iterate over the rows: their places and their sums of `totals`."""
    import numpy as np

    from ..measures.totals import SUMS, totals
    from ..pipeline.extensions.forests import forests_of
    from ..trees.heads import COLLINS

    rows: dict[tuple, Any] = {}
    for path in paths:
        whole = (os.path.dirname(path) or ".",) if by is Level.folder else (path,)
        if by in (Level.file, Level.folder):
            rows.setdefault(whole, np.zeros(len(SUMS)))
        first = 1
        for docs in files.docs(path):
            for trees in forests_of(docs, files.vocab, (), COLLINS):
                sums = totals(trees.forest)
                owners = trees.docs[trees.forest.starts[trees.forest.firsts[:-1]]]
                if whole in rows:
                    rows[whole] += sums.sum(axis=0)
                elif by is Level.text:
                    table = np.zeros((trees.n_docs, len(SUMS)))
                    np.add.at(table, owners, sums)
                    yield from (((path, first + n), row) for n, row in enumerate(table))
                else:
                    ranks = np.arange(len(owners)) - np.searchsorted(owners, owners) + 1
                    for doc, rank, row in zip(owners.tolist(), ranks.tolist(), sums, strict=True):
                        yield (path, first + doc, rank), row
                first += trees.n_docs
        if by is Level.file:
            yield from rows.items()
            rows.clear()
    yield from rows.items()
