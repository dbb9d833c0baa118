"""`structlearn measure`: the syntactic complexity of files, as a table."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from .common.files import STANDARD, written
from .common.json_lines import dumps
from .common.texts import Unit, UnitOption
from .find import ParserOption, TreesArgument, files_in
from .table import Table, in_csv

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .common.search import Files


class Level(str, Enum):
    """What a row is of."""

    sentence = "sentence"
    text = "text"
    file = "file"
    folder = "folder"


def measure_cli(
    paths: TreesArgument,
    model: ParserOption = None,
    unit: UnitOption = Unit.paragraph,
    by: Annotated[Level, typer.Option(help="What a row is of.")] = Level.file,
    format: Annotated[Table, typer.Option(help="Output format.")] = Table.csv,
) -> None:
    """Print a table of measures of syntactic complexity.

    The columns are those of the L2 Syntactic Complexity Analyzer (Lu 2010), and depths and lengths;
    the guide to measures explains them. A text of a file of trees is a tree.
    """
    from ..measures.totals import MEASURES, measures_of
    from .common.search import Files

    columns = ("file", "text", "sentence")[: 3 - list(Level).index(by)] or ("folder",)
    names = (*columns, *MEASURES)
    with written(STANDARD) as file:
        header = f"{','.join(names)}\n".encode() if format is Table.csv else b""
        for place, sums in _sums(files_in(paths), by, Files(model, unit)):
            found = {name: round(value, 4) for name, value in measures_of(sums).items()}
            row = dict(zip(columns, place, strict=True)) | found
            data = in_csv([row], names) if format is Table.csv else f"{dumps(row)}\n".encode()
            file.write(header + data)
            file.flush()
            header = b""
        file.write(header)


def _sums(paths: Iterable[str], by: Level, files: Files) -> Iterator[tuple[tuple, NDArray]]:
    """Iterate over the rows: their places and their sums of `totals`."""
    import numpy as np

    from ..measures.totals import SUMS, totals
    from ..pipeline.extensions.forests import forests_of
    from ..trees.heads import COLLINS

    length = 3 - list(Level).index(by)  # of a place; 0 for a folder
    rows: dict[tuple, NDArray] = {}
    for path in paths:
        whole = (path,) if by is Level.file else (os.path.dirname(path) or ".",)
        if length < 2:
            rows.setdefault(whole, np.zeros(len(SUMS)))
        first = 1
        for docs in files.docs(path):
            for trees in forests_of(docs, files.vocab, (), COLLINS):
                owners = trees.docs[trees.forest.starts[trees.forest.firsts[:-1]]]
                ranks = np.arange(len(owners)) - np.searchsorted(owners, owners) + 1
                numbers = np.stack([owners + first, ranks], axis=1).tolist()
                for place, sums in zip(numbers, totals(trees.forest), strict=True):
                    key = whole if length < 2 else (path, *place)[:length]
                    rows[key] = rows.get(key, 0) + sums
                first += trees.n_docs
        if by is not Level.folder:
            yield from rows.items()
            rows = {}
    yield from rows.items()
