"""`structlearn init-config`: a config to train a component with, filled from the registry."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from ._corpora import Reader
from ._files import BASE, CONFIGS, STANDARD, write_text

_STEMS = sorted(path.stem for path in CONFIGS.glob("*.cfg") if path.stem != BASE)
Component = Enum("Component", {stem: stem for stem in _STEMS if "." not in stem})
# Of each component the architectures other than its default that have a config of their own.
ARCHITECTURES = {
    name: [stem.partition(".")[2] for stem in _STEMS if stem.startswith(f"{name}.")]
    for name in Component.__members__
}


def init_config_cli(
    component: Annotated[
        Component,
        typer.Argument(metavar="COMPONENT", help=f"One of: {', '.join(Component.__members__)}."),
    ],
    reader: Annotated[
        Reader, typer.Option(help="What the corpora are; `convert` makes DocBins of all others.")
    ] = Reader.docbin,
    architecture: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What it learns with, if not the usual: ConditionalGrammar, MEstimatedGrammar, "
            "SpanGrammar, NeuralGrammar or ISBN, for constituency_parser.",
        ),
    ] = None,
    lang: Annotated[str, typer.Option(help="The language, as spaCy abbreviates it.")] = "en",
    corpus: Annotated[
        Path | None,
        typer.Option(
            metavar="DOCBIN", help="For srl_labeler: predicates have the tags that they have here."
        ),
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="A file, or - for stdout.")] = "-",
) -> None:
    """Print a config for `structlearn train` and `spacy train`.

    The corpora are named in training: --paths.train train.spacy --paths.dev dev.spacy

    For another language than English srl_labeler has to be told the tags of predicates, since no
    treebank names its verbs alike: give --corpus train.spacy, or fill them in.
    """
    if corpus is not None and component.value != "srl_labeler":
        raise typer.BadParameter("--corpus is for srl_labeler")
    from ._configs import config_text, predicate_tags

    known = ARCHITECTURES[component.value]
    if architecture is not None and architecture not in known:
        found = ", ".join(known) or "none"
        raise typer.BadParameter(
            f"--architecture of {component.value} can be: {found}. Without it the config has the "
            "usual one; all others go into the block of the model by hand."
        )
    tags = None if corpus is None else predicate_tags(corpus)
    write_text(output, config_text(component.value, reader, lang, tags, architecture))
    if output != STANDARD:
        print(output)
