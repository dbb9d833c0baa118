"""The command line: `structlearn parse`, `train` and `info`.

spaCy takes over a second to import, so every command imports what it needs when it runs.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from configparser import Error as ConfigParserError
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .errors import StructlearnError

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Span, Token

    from .pipeline.extensions import Frame, PPAttachment

app = typer.Typer(
    help="Trainable spaCy components for the structure of sentences.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Format(str, Enum):
    """How `parse` prints."""

    text = "text"
    conll = "conll"
    jsonl = "jsonl"


def _print_version(wanted: bool) -> None:
    if wanted:
        from .about import __version__

        print(__version__)
        raise typer.Exit()


@app.callback()
def _options(
    # Eager, because otherwise the missing command is an error first.
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


@app.command()
def parse(
    source: Annotated[
        str, typer.Argument(metavar="TEXT|FILE|-", help="A text, a file of text, or - for stdin.")
    ],
    model: Annotated[
        str | None, typer.Option(help="A pipeline: name or path. Default: the built-in one.")
    ] = None,
    format: Annotated[Format, typer.Option(help="What to print.")] = Format.text,
) -> None:
    """Parse text: the tree of each sentence, a line with its tags and NP chunks, what its
    prepositional phrases are attached to, and a line for each predicate with its arguments.

    conll has the columns word, tag and chunk, and after them those of PropBank: the roleset, and
    one column for each predicate of the sentence.

    In a file, or on standard input, each line is a text of its own.
    """
    nlp = _load(model)
    for doc in nlp.pipe(_texts(source)):
        for line in _printed(doc, format):
            print(line, flush=True)


# The values of a config are options that only the config knows.
@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def train(
    context: typer.Context,
    config: Annotated[Path, typer.Argument(help="A config as for `spacy train`.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to save the pipeline.")],
) -> None:
    """Fit the components of a config straight through, and save the pipeline.

    Any value of the config is set by an option of its name: --paths.train train.spacy
    """
    from spacy.cli._util import parse_config_overrides
    from wasabi import msg

    from .pipeline.fitting import train as fit

    _check_overrides(context.args)
    nlp = fit(config, output, overrides=parse_config_overrides(context.args))
    msg.table(
        [
            (name, "-" if value is None else f"{value:.4f}")
            for name, value in nlp.meta["performance"].items()
            if not isinstance(value, dict)
        ],
        header=("score", "value"),
        divider=True,
    )
    msg.good(f"Saved the pipeline to {output}")


@app.command()
def info(
    model: Annotated[
        str | None, typer.Argument(help="A pipeline: name or path. Default: the built-in one.")
    ] = None,
    component: Annotated[str, typer.Option(help="Which component to look into.")] = "np_chunker",
    top: Annotated[int, typer.Option(help="How many features of each label.", min=1)] = 10,
    label: Annotated[str | None, typer.Option(help="One label only, such as B-NP.")] = None,
) -> None:
    """What a component has learned: its size, and the strongest features of each label; of a
    Bayesian network its structure; of a model in several stages each stage, and the features of
    the last.

    Features of single words, tags and classes are shown by name; conjunctions have none.
    """
    from wasabi import msg

    nlp = _load(model)
    if component not in nlp.pipe_names:
        raise StructlearnError("SL017", component=component, names=", ".join(nlp.pipe_names))
    parameters = getattr(nlp.get_pipe(component), "parameters", None)
    described = hasattr(parameters, "describe")
    weighted = hasattr(parameters, "strongest")
    if not described and not weighted:
        raise StructlearnError("SL019", component=component)
    # Pairs of labels have features too, under names that are not among the labels.
    if weighted and label not in (None, *parameters.labels) and not parameters.strongest(1, label):
        labels = ", ".join(parameters.labels)
        raise StructlearnError("SL032", component=component, label=label, labels=labels)
    print(parameters.describe() if described else parameters)
    if not weighted:
        return
    for name in parameters.labels if label is None else [label]:
        found = parameters.strongest(top, name, named=True)
        rows = [(f"{weight:.2f}", text) for text, _, _, weight in found]
        if rows:
            msg.table(rows, header=(name, "feature"), divider=True, aligns=("r", "l"))


def main() -> None:
    """Run the command line: an expected error is one line on standard error and exit code 1."""
    try:
        app()
    except (ValueError, OSError, ConfigParserError) as error:
        if not _is_expected(error):
            raise
        print(f"structlearn: {_one_line(error)}", file=sys.stderr)
        sys.exit(1)


def _is_expected(error: Exception) -> bool:
    """Whether the error speaks of the input, and so needs no traceback."""
    if not isinstance(error, ValueError) or isinstance(error, (StructlearnError, UnicodeError)):
        return True
    from thinc.api import ConfigValidationError

    return isinstance(error, ConfigValidationError) or str(error).startswith("[E")


def _one_line(error: Exception) -> str:
    # A config that is not valid is printed as a whole below what is wrong with it.
    lines = [line for line in str(error).splitlines() if not line.startswith("{")]
    return " ".join(" ".join(lines).split())


def _check_overrides(arguments: list[str]) -> None:
    """Raise SL009 for what spaCy would not take as overrides of a config."""
    value_may_follow = False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        if name.startswith("--") and "." in name:
            value_may_follow = not equals
        elif value_may_follow and not name.startswith("--"):
            value_may_follow = False
        else:
            raise StructlearnError("SL009", argument=argument)


def _load(model: str | None) -> Language:
    import spacy

    from . import load
    from .pipeline import extensions

    # A pipeline of other components alone would not have registered them.
    extensions.register()
    return load() if model is None else spacy.load(model)


def _texts(source: str) -> Iterator[str]:
    """The text itself, or the lines of the file or of standard input that are not blank."""
    if source == "-":
        yield from _not_blank(sys.stdin)
    elif _is_file(source):
        # utf-8-sig: with or without the mark that some editors put at the beginning.
        with Path(source).open(encoding="utf-8-sig") as lines:
            yield from _not_blank(lines)
    else:
        yield from _not_blank([source])


def _not_blank(lines: Iterable[str]) -> Iterator[str]:
    return (line.strip() for line in lines if line.strip())


def _is_file(source: str) -> bool:
    try:
        return Path(source).is_file()
    except OSError:  # a text too long to be the name of a file
        return False


def _printed(doc: Doc, format: Format) -> Iterator[str]:
    from .display.frames import frame_columns, frame_text, plain_frame
    from .pipeline.extensions import CONSTITUENTS, SRL

    if format is Format.jsonl:
        yield _as_json(doc)
        return
    attachments = {found.prep.i: _attachment_as_text(found) for found in doc._.pp_attachments}
    frames: dict[int, list[Frame]] = defaultdict(list)  # by the token that is the predicate
    for frame in doc._.frames:
        frames[frame.predicate.start].append(frame)
    for sentence in _sentences(doc):
        tokens = [token for token in sentence if not token.is_space]
        if not tokens:
            continue
        positions = [t.i for t in tokens]
        found = [plain_frame(frame, positions) for i in positions for frame in frames.get(i, ())]
        if format is Format.conll:
            n = len(tokens)
            columns = frame_columns(n, found) if SRL in doc.spans else [[]] * n
            for token, cells in zip(tokens, columns, strict=True):
                yield "\t".join((token.text, token.tag_, _iob(token), *cells))
            yield ""
        else:
            if CONSTITUENTS in doc.spans:
                yield sentence._.tree.pretty()
            yield _as_text(tokens, sentence)
            yield from (attachments[i] for i in positions if i in attachments)
            words = [t.text for t in tokens]
            yield from (frame_text(words, *frame) for frame in found)


def _sentences(doc: Doc) -> list[Span]:
    """The sentences; the whole text where the pipeline sets none, as the components read it."""
    return list(doc.sents) if doc.has_annotation("SENT_START") else [doc[:]]


def _iob(token) -> str:
    return "O" if token._.np_iob in ("", "O") else f"{token._.np_iob}-NP"


def _as_text(tokens: list, sentence) -> str:
    from .display.chunks import bracketed

    place = {token.i: index for index, token in enumerate(tokens)}
    chunks = [
        (chunk.label_, place[chunk.start], place[chunk.end - 1] + 1)
        for chunk in sentence.doc._.np_chunks
        if sentence.start <= chunk.start < sentence.end
    ]
    return bracketed([t.text for t in tokens], [t.tag_ for t in tokens], chunks)


def _attachment_as_text(found: PPAttachment) -> str:
    """Such as "with -> ate (V 0.93)"."""
    prob = "" if found.prob is None else f" {found.prob:.2f}"
    return f"{found.prep.text} -> {found.head or '?'} ({found.label}{prob})"


def _as_json(doc: Doc) -> str:
    import srsly

    from .pipeline.extensions import CONSTITUENTS, PP_ATTACHMENTS, SRL

    return srsly.json_dumps(
        {
            "text": doc.text,
            "tokens": [{**_place(t), "tag": t.tag_} for t in doc if not t.is_space],
            "sents": [{"start": s.start_char, "end": s.end_char} for s in _sentences(doc)],
            "np_chunks": [
                {
                    "start": chunk.start_char,
                    "end": chunk.end_char,
                    "label": chunk.label_,
                    "prob": _rounded(chunk._.np_chunk_prob),
                }
                for chunk in doc._.np_chunks
            ],
            **(_parse_as_json(doc) if CONSTITUENTS in doc.spans else {}),
            **(_attachments_as_json(doc) if PP_ATTACHMENTS in doc.spans else {}),
            **(_frames_as_json(doc) if SRL in doc.spans else {}),
        }
    )


def _parse_as_json(doc: Doc) -> dict[str, list]:
    from .pipeline.extensions import CONSTITUENTS

    return {
        "trees": [str(tree) for tree in doc._.trees],
        "constituents": [
            {
                "start": bracket.start_char,
                "end": bracket.end_char,
                "label": bracket.label_,
                "prob": _rounded(bracket._.constituent_prob),
            }
            for bracket in doc.spans[CONSTITUENTS]
        ],
        "parse_failures": [
            {"start": span.start_char, "end": span.end_char, "label": span.label_}
            for span in doc._.parse_failures
        ],
    }


def _attachments_as_json(doc: Doc) -> dict[str, list]:
    from .pipeline.extensions import PP_ROLES

    return {
        "pp_attachments": [
            {
                "start": found.pp.start_char,
                "end": found.pp.end_char,
                "label": found.label,
                "prob": _rounded(found.prob),
                **{role: _place(getattr(found, role)) for role in PP_ROLES},
            }
            for found in doc._.pp_attachments
        ]
    }


def _frames_as_json(doc: Doc) -> dict[str, list]:
    return {
        "frames": [
            {
                "predicate": _place(frame.predicate[0]),
                "roleset": frame.roleset,
                "prob": _rounded(frame.prob),
                "arguments": [
                    {
                        "start": argument.span.start_char,
                        "end": argument.span.end_char,
                        "label": argument.label,
                        "prob": _rounded(argument.prob),
                    }
                    for argument in frame.arguments
                ],
            }
            for frame in doc._.frames
        ]
    }


def _place(token: Token) -> dict[str, int]:
    return {"start": token.idx, "end": token.idx + len(token)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
