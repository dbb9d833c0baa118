"""`structlearn convert`: convert an annotated corpus to DocBins for training and evaluation."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import StructlearnError
from .common.corpora import PropsOption, ReaderOption, SpacesOption, gold_docs
from .common.files import STANDARD, check_targets, written
from .common.pipelines import HELP, find_msgpack_hooks_once, load
from .common.terminal import echo
from .common.texts import Format

if TYPE_CHECKING:
    from spacy.tokens import Doc

SHARE = 0.1
CONLLU = ".conllu"
COMPONENTS = ("tree_dependencies", "tree_morphologizer")
FEW = 5  # labels that are named in a report


def convert_cli(
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="A treebank in brackets, columns of PropBank, CoNLL-2000 or CoNLL-U, quadruples, "
            "JSON lines of Prodigy, a DocBin: a file, a folder of such files, or - for stdin.",
        ),
    ],
    output: Annotated[
        str,
        typer.Argument(
            metavar="OUTPUT",
            help="The DocBin to write, such as train.spacy, or - for stdout. In a file .conllu, "
            "trees become dependencies.",
        ),
    ],
    reader: ReaderOption = None,
    spaces: SpacesOption = None,
    props: PropsOption = None,
    dev: Annotated[
        Path | None, typer.Option(help="A second DocBin for documents held out of the first.")
    ] = None,
    dev_share: Annotated[
        float | None,
        typer.Option(help=f"Share of the documents to hold out. Default: {SHARE}", min=0, max=1),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help=f"For CoNLL-U of trees, with tree_dependencies. {HELP}")
    ] = None,
) -> None:
    """Convert an annotated corpus to DocBins for training.

    CoNLL-U is read with parts of speech, morphology, lemmas and dependencies. It is written of any
    corpus; documents that have trees and no dependencies get those of the components
    tree_dependencies and tree_morphologizer of the pipeline.

    A line of Prodigy is a document. If its tokens have tags, its spans are a tree; otherwise, they
    are phrases that a parser must find, "constituent_constraints".

    With --dev, some documents are held out as a second DocBin. They are spread evenly over the
    corpus, and no document is split.

    The name of a document is the first column of --props, or the name of its file in the folder
    without extensions, or the number of the sentence, counted from 0.
    """
    import spacy

    find_msgpack_hooks_once()
    if output == STANDARD and sys.stdout.isatty():
        raise typer.BadParameter("a DocBin cannot be printed on a terminal: give a file as OUTPUT")
    if dev is None and dev_share is not None:
        raise typer.BadParameter("--dev-share needs --dev FILE")
    check_targets([output, dev], [source, spaces, props])
    dropped: Counter[tuple[str, str]] = Counter()
    targets: tuple[str | Path, ...] = (output, *([dev] if dev else []))
    beside: Any = {"spaces": spaces, "props": props, "targets": targets}
    named = [*gold_docs(spacy.blank("xx").vocab, source, reader, dropped=dropped, **beside)]
    if not named:
        raise StructlearnError("SL063", path=source)
    held_out: Collection[str] = ()
    if dev is not None:
        names = list(dict.fromkeys(name for name, _ in named))
        held_out = set(spread(names, SHARE if dev_share is None else dev_share))
        if not 0 < len(held_out) < len(names):
            raise StructlearnError("SL073", path=source, of=len(names), held_out=len(held_out))
    for target in targets:
        docs = [doc for name, doc in named if (name in held_out) == (target is dev)]
        if Path(target).suffix == CONLLU:
            docs = _with_dependencies(docs, model)
        _write(docs, str(target))
    if dropped:
        few = [f"{a} -> {b} ({n:,})" for (a, b), n in dropped.most_common(FEW)]
        more = f", and {len(dropped) - FEW} more" if len(dropped) > FEW else ""
        echo(f"function tags dropped: {', '.join(few)}{more}", error=True)


def spread(names: Sequence[str], share: float) -> list[str]:
    """Choose a share of the names, spread evenly; at least one of them, and never all."""
    # The decimal fraction is exact; 0.29 in binary is a little less.
    part = Fraction(str(share))
    chosen = [name for i, name in enumerate(names) if int((i + 1) * part) > int(i * part)]
    return (chosen or list(names[-1:]))[: len(names) - 1]


def _with_dependencies(docs: list[Doc], model: str | None) -> list[Doc]:
    """Add dependencies and what goes with them to Docs that have trees and no dependencies."""
    from ..groups import CONSTITUENTS

    bare = [doc for doc in docs if CONSTITUENTS in doc.spans and not doc.has_annotation("DEP")]
    if bare:
        nlp = load(model)
        for name in COMPONENTS:
            if not nlp.has_pipe(name):
                raise StructlearnError("SL129", component=name, model=model or "built in")
            for doc in bare:
                nlp.get_pipe(name)(doc)
    return docs


def _write(docs: list[Doc], target: str) -> None:
    """Write a DocBin or CoNLL-U, and report its contents on standard error."""
    from spacy.tokens import DocBin

    from .common.documents import printed

    with written(target) as file:
        if Path(target).suffix == CONLLU:
            for number, doc in enumerate(docs):
                file.writelines(
                    f"{line}\n".encode() for line in printed(doc, Format.conllu, number)
                )
        else:
            file.write(DocBin(docs=docs).to_bytes())
    groups = sorted({key for doc in docs for key, spans in doc.spans.items() if spans})
    n_tokens = sum(map(len, docs))
    line = f"{target}: {len(docs):,} documents, {n_tokens:,} tokens, {', '.join(groups)}"
    echo(line.rstrip(", "), error=True)
