"""`structlearn render`: the structure of a text as one page of HTML."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ._files import STANDARD, is_file, texts, write_text
from ._pipelines import HELP, load

if TYPE_CHECKING:
    from spacy.tokens import Doc


def render_cli(
    source: Annotated[
        str,
        typer.Argument(
            metavar="TEXT|FILE|-", help="A text, a file of text or a DocBin, or - for stdin."
        ),
    ],
    model: Annotated[str | None, typer.Option(help=HELP)] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="A file, or - for stdout.")] = "-",
    title: Annotated[
        str | None, typer.Option(help="Of the page. Default: its first words.")
    ] = None,
) -> None:
    """Draw the structure of a text as a page of HTML.

    The page needs no other files. Of a file with the ending .spacy the Docs are drawn as they are;
    the model only lends its language. In a file of text, or on standard input, each line is a text
    of its own.
    """
    from ..display.page import page

    docs = list(_docs(source, model))
    words = " ".join(docs[0].text.split()) if docs else ""
    given = words if len(words) <= 60 else words[:60].rpartition(" ")[0] + " ..."
    write_text(output, page(docs, title=title or given or "No text"))
    if output != STANDARD:
        print(output)


def _docs(source: str, model: str | None) -> Iterator[Doc]:
    from ._corpora import Reader, gold_docs

    nlp = load(model)
    if source.endswith(".spacy") and is_file(source):
        yield from (doc for _, doc in gold_docs(nlp.vocab, Path(source), Reader.docbin))
    else:
        yield from nlp.pipe(texts(source))
