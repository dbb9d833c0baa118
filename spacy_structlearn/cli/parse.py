"""`structlearn parse` and `structlearn render`: print or draw the structure of a text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .common.files import STANDARD, check_targets, write_text
from .common.pipelines import ModelOption, load
from .common.terminal import echo
from .common.texts import Format, Unit, UnitOption, texts

if TYPE_CHECKING:
    from spacy.tokens import Doc


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
