"""`structlearn parse`: a text in, its structure out."""

from __future__ import annotations

from typing import Annotated

import typer

from ._documents import Format, printed
from ._pipelines import HELP, load
from ._texts import Unit, texts


def parse_cli(
    source: Annotated[
        str, typer.Argument(metavar="TEXT|FILE|-", help="A text, a file of text, or - for stdin.")
    ],
    model: Annotated[str | None, typer.Option(help=HELP)] = None,
    unit: Annotated[
        Unit, typer.Option(help="What of a file, or of standard input, is one text.")
    ] = Unit.paragraph,
    format: Annotated[Format, typer.Option(help="What to print.")] = Format.text,
) -> None:
    """Parse text, and print what was found.

    That is the tree of each sentence, a line with its tags and NP chunks, what its prepositional
    phrases are attached to, and a line for each predicate with its arguments.

    conll has the columns word, tag and chunk, and after them those of PropBank: the roleset, and
    one column for each predicate of the sentence.

    A paragraph is what stands between blank lines, with the line breaks in it. Of a file .jsonl the
    "text" of each line is parsed.

    What is not the name of a file is a text, unless it looks like one: it has no blanks, and begins
    with /, ./, ../ or ~/, or stands in a folder that is there, or ends like notes.txt, in a period
    and 2 to 5 small or 2 to 5 capital letters. Such a text is taken from standard input: echo
    example.com | structlearn parse -
    """
    nlp = load(model)
    for doc in nlp.pipe(texts(source, unit, nlp.max_length)):
        for line in printed(doc, format):
            print(line, flush=True)
