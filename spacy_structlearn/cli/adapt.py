"""`structlearn adapt`: let a trained pipeline learn on from new data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import StructlearnError, visible
from .common.corpora import gold_docs
from .common.pipelines import ModelArgument, load
from .common.terminal import table


def adapt_cli(
    model: ModelArgument,
    gold: Annotated[
        Path,
        typer.Argument(metavar="GOLD", help="A DocBin, as `structlearn convert` writes it."),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the adapted pipeline.")
    ],
    components: Annotated[
        str | None,
        typer.Option(
            help="Names of the components that should learn, with commas between them. Default: "
            "all for which GOLD has annotation.",
            show_default=False,
        ),
    ] = None,
    reinitialise: Annotated[
        list[str] | None,
        typer.Option(
            help="Name of a component to train from scratch on GOLD alone. Can be repeated.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Let a trained pipeline learn on from new data, and save it.

    Each component starts from what it has learned. How far it may move away from that is chosen by
    cross-validation on GOLD. Components without annotation in GOLD stay as they are.
    """
    from wasabi import msg

    from ..pipeline.training.fitting import adapt

    nlp = load(model)
    docs = [doc for _, doc in gold_docs(nlp.vocab, gold)]
    if not docs:
        raise StructlearnError("SL063", path=gold)
    learned = adapt(
        nlp,
        docs,
        output,
        components=None if components is None else components.split(","),
        reinitialise=reinitialise or (),
        source=gold,
    )
    rows: list[tuple[str, ...]] = []
    for name in learned:
        component: Any = nlp.get_pipe(name)
        number, strength, scores = component.adaptation
        before, after = (f"{score:.4f}" for score in scores) if scores else ("-", "-")
        prior = "from scratch" if strength is None else f"{strength:g}"
        rows.append((name, str(number), prior, component.main_score, before, after))
    header = ("component", "documents", "strength", "held-out score", "before", "after")
    table(rows, header=header)
    for name in learned:
        component = nlp.get_pipe(name)
        scores = component.adaptation[2]
        if scores and scores[1] < scores[0]:
            line = f"{name} got worse on held-out data. Leave it out with --components."
            msg.warn(visible(line))
    unchanged = [name for name in nlp.pipe_names if name not in learned]
    if unchanged:
        msg.info(visible(f"Unchanged: {', '.join(unchanged)}"))
    msg.good(visible(f"Saved the pipeline to {output}"))
