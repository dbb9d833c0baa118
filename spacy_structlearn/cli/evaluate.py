"""`structlearn evaluate`: score a pipeline on an annotated corpus."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import StructlearnError
from ..groups import GROUPS
from .common.corpora import PropsOption, ReaderOption, SpacesOption, gold_docs
from .common.files import STANDARD, check_targets, write_text
from .common.pipelines import ModelArgument, load
from .common.terminal import print_scores
from .common.texts import check_length

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.training import Example


def evaluate_cli(
    model: ModelArgument,
    gold: Annotated[
        str,
        typer.Argument(
            metavar="GOLD",
            help="A DocBin, a treebank in brackets, columns of CoNLL-2000 or quadruples: a file, "
            "a folder of such files, or - for stdin.",
        ),
    ],
    reader: ReaderOption = None,
    spaces: SpacesOption = None,
    props: PropsOption = None,
    gold_tokens: Annotated[
        bool,
        typer.Option("--gold-tokens", help="Give the gold tokens and sentences to the pipeline."),
    ] = False,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="A JSON file for all scores, or - for stdout."),
    ] = None,
) -> None:
    """Score a pipeline on an annotated corpus.

    By default, the pipeline gets raw text, and all of its predictions are scored. With
    --gold-tokens, it gets the gold tokens and sentences. It then also gets gold tags if it has no
    tagger, and gold trees if it has no parser.
    """
    check_targets([output], [gold, spaces, props])
    nlp = load(model)
    docs = [doc for _, doc in gold_docs(nlp.vocab, gold, reader, spaces=spaces, props=props)]
    for number, doc in enumerate(docs, 1):
        check_length(doc.text, gold, number, nlp.max_length)
    if not docs:
        raise StructlearnError("SL063", path=gold)
    scores = nlp.evaluate([example_of(nlp, doc, gold_tokens=gold_tokens) for doc in docs])
    # These repeat other scores under the names of spaCy.
    again = tuple(f"spans_{key}_" for key in GROUPS)
    scores = {name: value for name, value in scores.items() if not name.startswith(again)}
    if output is not None:
        write_text(output, f"{json.dumps(scores, indent=2)}\n")
    if output != STANDARD:
        print_scores(scores)


def example_of(nlp: Language, doc: Doc, *, gold_tokens: bool) -> Example:
    """Pair the input of the pipeline with the gold Doc."""
    from spacy.training import Example

    from ..pipeline.readers import with_gold_tokens

    if not gold_tokens:
        return Example(nlp.make_doc(doc.text), doc)
    return with_gold_tokens(nlp, doc)
