"""`structlearn parse`: print the structure of a text."""

from __future__ import annotations

from typing import Annotated

import typer

from .common.pipelines import ModelOption, load
from .common.terminal import echo
from .common.texts import Format, Unit, UnitOption, texts


def parse_cli(
    source: Annotated[
        str, typer.Argument(metavar="TEXT|FILE|-", help="A text, a file of text, or - for stdin.")
    ],
    model: ModelOption = None,
    unit: UnitOption = Unit.paragraph,
    format: Annotated[Format, typer.Option(help="Output format.")] = Format.text,
) -> None:
    """Parse a text, and print its structure.

    For each sentence, this prints its tree, a line with its tags and NP chunks, the attachments of
    its prepositional phrases, and a line for each predicate with its arguments.

    The format trees has each tree in brackets on a line, for an editor and for `convert`.

    The format conll has the columns of PropBank: number of the text, of the sentence and of the
    token, word, tag, parse bit, lemma of predicates, roleset, and one column for each predicate of
    the sentence. For a pipeline without parser and roles, it has those of CoNLL-2000: word, tag and
    chunk. `convert` reads both.

    The format conllu is that of Universal Dependencies, with the parts of speech, morphology,
    lemmas and dependencies that the pipeline predicts. Each text is a document.

    Paragraphs are separated by blank lines and may contain line breaks. In a file .jsonl, the
    "text" of each line is parsed.

    Control characters and invisible characters are printed as escapes such as \\u001b.

    An argument that is not the name of a file is parsed as a text, unless it looks like a file
    name: it has no blanks, and begins with /, ./, ../ or ~/, or lies in an existing folder, or ends
    like notes.txt, in a period and 2 to 5 lower-case or 2 to 5 upper-case letters. Parse such a
    text from standard input: echo example.com | structlearn parse -
    """
    from .common.documents import printed

    nlp = load(model)
    for number, doc in enumerate(nlp.pipe(texts(source, unit, nlp.max_length))):
        for line in printed(doc, format, number):
            echo(line)
