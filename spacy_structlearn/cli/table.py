"""`structlearn table`: who did what in files, as a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from contextlib import closing
from enum import Enum
from functools import partial
from itertools import chain
from typing import Annotated, Any

import typer

from .common.files import STANDARD, written
from .common.parts import ChunkParser, Parse, Rows, chunks, parse_in_processes
from .common.pipelines import ModelOption, load
from .common.texts import InputOption, Unit, UnitOption, read, sources


class Table(str, Enum):
    """The output formats."""

    csv = "csv"
    jsonl = "jsonl"


def table_cli(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES",
            help='Text, JSONL with the key "text", DocBins, folders of these, or - for stdin.',
        ),
    ],
    model: ModelOption = None,
    input_format: InputOption = None,
    unit: UnitOption = Unit.paragraph,
    format: Annotated[Table, typer.Option(help="Output format.")] = Table.csv,
    nouns: Annotated[
        bool, typer.Option("--nouns", help="Add rows for nouns and adjectives with roles.")
    ] = False,
    n_process: Annotated[int, typer.Option(help="Number of processes.", min=1)] = 1,
) -> None:
    """Print a table of who did what: a row for each verb.

    The columns are the file, the number of the text in it, the characters of the verb; who, did,
    what, whom, when, where, how; the roleset and its probability. Coordinated subjects and objects
    are separated by "; ".

    In the format jsonl, a row has all parts with their characters, roles and probabilities, and the
    other keys of its input line.
    """
    from ..pipeline.extensions.propositions import HEADER

    found = [source for path in paths for source in sources(path, STANDARD, input_format)]
    nlp = load(model)
    # A table begins before the last file is read.
    waiting = chain.from_iterable(
        chunks(path, read(path, input_format, unit, nlp.max_length), 256) for _, path, _ in found
    )
    parse: Parse = ChunkParser(model, nlp).parse_all
    if n_process > 1:
        parse = partial(parse_in_processes, model=model, number=n_process)
    columns = ("file", "text", "start", "end", *HEADER, "prob")
    rows = parse(waiting, Rows(nouns, whole=format is Table.jsonl))
    with closing(rows) as results, written(STANDARD) as file:
        if format is Table.csv:
            file.write(f"{','.join(columns)}\n".encode())
        for _, data in results:
            if format is Table.csv:
                data = in_csv(map(json.loads, data.splitlines()), columns)
            file.write(data)
            file.flush()


def in_csv(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> bytes:
    """Return rows as lines of CSV, without a header."""
    lines = io.StringIO(newline="")
    csv.DictWriter(lines, columns, lineterminator="\n").writerows(rows)
    return lines.getvalue().encode("utf8", "surrogateescape")
