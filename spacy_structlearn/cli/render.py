"""`structlearn render`: draw the structure of a text on one page of HTML."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .common.files import STANDARD, check_targets, write_text
from .common.pipelines import ModelOption, load
from .common.terminal import echo
from .common.texts import Unit, texts

if TYPE_CHECKING:
    from spacy.tokens import Doc


def render_cli(
    source: Annotated[
        str,
        typer.Argument(
            metavar="TEXT|FILE|-", help="A text, a file of text or a DocBin, or - for stdin."
        ),
    ],
    model: ModelOption = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="A file, or - for stdout. Default: -, except on a terminal."
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option(help="Title of the page. Default: its first words.")
    ] = None,
) -> None:
    """Draw the structure of a text on a page of HTML.

    The page needs no other files. The Docs of a DocBin (.spacy) are drawn without parsing them
    again. A text file or standard input is one text; in JSONL, each line is one. See `parse --help`
    for the difference between a text and the name of a file.
    """
    from ..display.page import page

    if output is None:
        if sys.stdout.isatty():
            raise typer.BadParameter("a page is not shown on a terminal: give --output FILE")
        output = STANDARD
    check_targets([output], [source])
    docs = list(_docs(source, model))
    words = " ".join(docs[0].text.split()) if docs else ""
    given = words if len(words) <= 60 else words[:60].rpartition(" ")[0] + " ..."
    write_text(output, page(docs, title=title or given or "No text"))
    if output != STANDARD:
        echo(output)


def _docs(source: str, model: str | None) -> Iterator[Doc]:
    from .common.corpora import Reader, gold_docs

    nlp = load(model)
    if source.endswith(".spacy") and Path(source).is_file():
        yield from (doc for _, doc in gold_docs(nlp.vocab, Path(source), Reader.docbin))
    else:
        yield from nlp.pipe(texts(source, Unit.file, nlp.max_length))
