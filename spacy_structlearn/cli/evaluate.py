"""`structlearn evaluate` and `structlearn compare`: scores on an annotated corpus."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from ..errors import StructlearnError
from ..groups import GROUPS
from .common.corpora import PropsOption, Reader, ReaderOption, SpacesOption, gold_docs
from .common.files import STANDARD, check_targets, write_text
from .common.pipelines import HELP, ModelArgument, load
from .common.terminal import echo, print_scores, table
from .common.texts import check_length

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.scorer import Scorer
    from spacy.tokens import Doc
    from spacy.training import Example


GoldArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="GOLD",
        help="A DocBin, a treebank in brackets, columns of CoNLL-2000 or quadruples: a file, "
        "a folder of such files, or - for stdin.",
    ),
]
GoldTokensOption: TypeAlias = Annotated[
    bool,
    typer.Option("--gold-tokens", help="Give the gold tokens and sentences to the pipeline."),
]
SHOWN = 5  # sentences that became better, and that became worse


def evaluate_cli(
    model: ModelArgument,
    gold: GoldArgument,
    reader: ReaderOption = None,
    spaces: SpacesOption = None,
    props: PropsOption = None,
    gold_tokens: GoldTokensOption = False,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="A JSON file for all scores, or - for stdout."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="An HTML page: errors by kind, the worst sentences ...")
    ] = None,
) -> None:
    """Score a pipeline on an annotated corpus, and explain its errors.

    By default, the pipeline gets raw text, and all of its predictions are scored. With
    --gold-tokens, it gets the gold tokens and sentences. It then also gets gold tags if it has no
    tagger, and gold trees if it has no parser.
    """
    check_targets([output, report], [gold, spaces, props])
    nlp = load(model)
    examples = _examples(nlp, gold, reader, gold_tokens, spaces, props)
    scored: list[Example] = []
    scores = nlp.evaluate(examples, scorer=_keeping(nlp, scored))
    # These repeat other scores under the names of spaCy.
    again = tuple(f"spans_{key}_" for key in GROUPS)
    scores = {name: value for name, value in scores.items() if not name.startswith(again)}
    if output is not None:
        write_text(output, f"{json.dumps(scores, indent=2)}\n")
    if output != STANDARD:
        print_scores(scores)
    if report is not None:
        from ..pipeline.reports import evaluation, items

        write_text(report, evaluation.report([*items.by_sentence(scored)], f"{model} on {gold}"))


def compare_cli(
    first: Annotated[str, typer.Argument(metavar="A", help=HELP)],
    second: Annotated[str, typer.Argument(metavar="B", help="The other pipeline.")],
    gold: GoldArgument,
    reader: ReaderOption = None,
    spaces: SpacesOption = None,
    props: PropsOption = None,
    gold_tokens: GoldTokensOption = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="An HTML page, with sentences drawn.")
    ] = None,
) -> None:
    """Compare two pipelines on an annotated corpus.

    Prints the scores of both, the difference with its 95 % interval and p by the paired bootstrap
    over sentences, McNemar's test, and the sentences that became better and worse.
    """
    from spacy.training import Example

    from ..pipeline.reports import comparison, items

    check_targets([output], [gold, spaces, props])
    sides = []
    for nlp in map(load, (first, second)):
        examples = _examples(nlp, gold, reader, gold_tokens, spaces, props)
        pairs = zip(nlp.pipe(own.predicted for own in examples), examples, strict=True)
        sides.append([*items.by_sentence(Example(doc, own.reference) for doc, own in pairs)])
    found = comparison.compare(*sides)
    for rows, header in ((found.scores, comparison.HEADER), (found.tests, comparison.TEST_HEADER)):
        cells = [[f"{c:.4f}" if isinstance(c, float) else str(c) for c in row] for row in rows]
        table(cells, header=header, aligns=("l", *"r" * (len(header) - 1)))
    for what, changed in (("better", found.pairs), ("worse", found.pairs[::-1])):
        chosen = [pair for pair in changed if (pair[0] > 0) == (what == "better") and pair[0]]
        echo(f"{len(chosen)} sentences are {what} in {second}")
        for change, own, _ in chosen[:SHOWN]:
            echo(f"{change:+d}  {' '.join(own.gold.text.split())}")
    if output is not None:
        write_text(output, comparison.report(found, f"{first} (A) and {second} (B) on {gold}"))


def _keeping(nlp: Language, scored: list[Example]) -> Scorer:
    """Get the scorer of a pipeline, which keeps the examples that `nlp.evaluate` copies."""
    from spacy.scorer import Scorer

    class Keeping(Scorer):
        def score(self, examples: Iterable[Example], **options: Any) -> dict[str, Any]:
            scored.extend(examples)
            return super().score(scored, **options)

    return Keeping(nlp)


def _examples(
    nlp: Language, gold: str, reader: Reader | None, gold_tokens: bool, *files: Path | None
) -> list[Example]:
    docs = [doc for _, doc in gold_docs(nlp.vocab, gold, reader, spaces=files[0], props=files[1])]
    for number, doc in enumerate(docs, 1):
        check_length(doc.text, gold, number, nlp.max_length)
    if not docs:
        raise StructlearnError("SL063", path=gold)
    return [example_of(nlp, doc, gold_tokens=gold_tokens) for doc in docs]


def example_of(nlp: Language, doc: Doc, *, gold_tokens: bool) -> Example:
    """Pair the input of the pipeline with the gold Doc."""
    from spacy.training import Example

    from ..pipeline.readers import with_gold_tokens

    if not gold_tokens:
        return Example(nlp.make_doc(doc.text), doc)
    return with_gold_tokens(nlp, doc)
