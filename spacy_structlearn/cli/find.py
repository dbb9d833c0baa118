"""`structlearn find`: search for a pattern in trees."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ..errors import StructlearnError
from .common.corpora import files_of
from .common.pipelines import HELP
from .common.terminal import echo
from .common.texts import INPUTS, TREES, Unit, UnitOption

if TYPE_CHECKING:
    from .common.search import Hit


TreesArgument: TypeAlias = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES",
        help="Output of `apply` (.spacy, .jsonl), trees in brackets (.trees, .mrg), texts, "
        "folders of these, or - for text on stdin.",
    ),
]
ParserOption: TypeAlias = Annotated[str | None, typer.Option(help=f"{HELP} It parses texts.")]


class Shown(str, Enum):
    """The output formats."""

    text = "text"
    jsonl = "jsonl"


def find_cli(
    pattern: Annotated[
        str, typer.Argument(help='A pattern in the notation of Tregex, such as "NP < (PP <, IN)".')
    ],
    paths: TreesArgument,
    model: ParserOption = None,
    unit: UnitOption = Unit.paragraph,
    format: Annotated[Shown, typer.Option(help="Output format.")] = Shown.text,
    count: Annotated[
        bool, typer.Option("--count", help="Print only the number of matches in each file.")
    ] = False,
) -> None:
    """Search for a pattern of nodes in trees.

    For each match, this prints a line with the file, the number of the text or tree in the file,
    its characters, and the label and the words of the first node. The format jsonl has all nodes of
    the match, with the names that the pattern gives them.

    A pattern is a node with relations to other nodes: "VP < VBD" is a VP with a child VBD. The
    guide to searching trees lists the relations. The exit code is 1 if there are no matches.
    """
    from .common.search import Search

    search = Search(pattern, model, unit)
    total = 0
    for path in files_in(paths):
        if count:
            own = search.count(path)
            echo(f"{path}: {own}")
            total += own
            continue
        for hit in search.hits(path):
            echo(_line(hit, format))
            total += 1
    if not total:
        raise typer.Exit(1)


def files_in(paths: Iterable[str]) -> Iterator[str]:
    """Iterate over files; of a folder, those with a known extension. Raises SL125 without any."""
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        names = [*map(str, files_of(Path(path)))]
        found = [name for name in names if name.removesuffix(".gz").endswith((*INPUTS, *TREES))]
        if not found:
            endings = ", ".join((*INPUTS, *TREES))
            raise StructlearnError("SL125", folder=path, name=Path(names[0]).name, endings=endings)
        yield from found


def _line(hit: Hit, format: Shown) -> str:
    if format is Shown.text:
        _, label, span = hit.nodes[0]
        place = f"{hit.path}:{hit.number}:{span.start_char}-{span.end_char}"
        return f"{place}\t{label}\t{' '.join(span.text.split())}"
    nodes = [
        {
            **({} if name is None else {"name": name}),
            "label": label,
            "start": span.start_char,
            "end": span.end_char,
            "text": span.text,
        }
        for name, label, span in hit.nodes
    ]
    data = {"file": hit.path, "number": hit.number, "nodes": nodes}
    # A name that is not UTF-8 has surrogates, which `echo` escapes.
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
