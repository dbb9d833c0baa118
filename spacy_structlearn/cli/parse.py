"""`structlearn parse`: a text in, its structure out."""

from __future__ import annotations

from typing import Annotated

import typer

from ._documents import Format, printed
from ._files import texts
from ._pipelines import HELP, load


def parse_cli(
    source: Annotated[
        str, typer.Argument(metavar="TEXT|FILE|-", help="A text, a file of text, or - for stdin.")
    ],
    model: Annotated[str | None, typer.Option(help=HELP)] = None,
    format: Annotated[Format, typer.Option(help="What to print.")] = Format.text,
) -> None:
    """Parse text, and print what was found.

    That is the tree of each sentence, a line with its tags and NP chunks, what its prepositional
    phrases are attached to, and a line for each predicate with its arguments.

    conll has the columns word, tag and chunk, and after them those of PropBank: the roleset, and
    one column for each predicate of the sentence.

    In a file, or on standard input, each line is a text of its own.
    """
    nlp = load(model)
    for doc in nlp.pipe(texts(source)):
        for line in printed(doc, format):
            print(line, flush=True)
