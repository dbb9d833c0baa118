"""`structlearn init-config`: write a config for training a component, with all settings."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from ._corpora import Reader
from ._files import BASE, CONFIGS, STANDARD, write_text

_STEMS = sorted(path.stem for path in CONFIGS.glob("*.cfg") if path.stem != BASE)
Component = Enum("Component", {stem: stem for stem in _STEMS if "." not in stem})
# For each component, the architectures besides its default that have a config.
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
        Reader,
        typer.Option(help="Format of the corpora; `convert` turns other formats into DocBins."),
    ] = Reader.docbin,
    architecture: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Architecture of the model, if not the default. For constituency_parser: "
            "ConditionalGrammar, MEstimatedGrammar, SpanGrammar, NeuralGrammar or ISBN.",
        ),
    ] = None,
    lang: Annotated[str, typer.Option(help="Language code of spaCy.")] = "en",
    corpus: Annotated[
        Path | None,
        typer.Option(
            metavar="DOCBIN", help="For srl_labeler: take the tags of predicates from this corpus."
        ),
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="A file, or - for stdout.")] = "-",
) -> None:
    """Print a config for `structlearn train` and `spacy train`.

    Give the corpora when you train: --paths.train train.spacy --paths.dev dev.spacy

    For languages other than English, srl_labeler needs the tags of predicates, because every
    treebank has its own names for verbs. Take them from a corpus with --corpus train.spacy, or fill
    them in.
    """
    if corpus is not None and component.value != "srl_labeler":
        raise typer.BadParameter("--corpus is for srl_labeler")
    from ._configs import config_text, predicate_tags

    known = ARCHITECTURES[component.value]
    if architecture is not None and architecture not in known:
        found = ", ".join(known) or "none"
        raise typer.BadParameter(
            f"--architecture of {component.value} can be: {found}. To use another one, write the "
            "default config and replace its block of the model."
        )
    tags = None if corpus is None else predicate_tags(corpus)
    write_text(output, config_text(component.value, reader, lang, tags, architecture))
    if output != STANDARD:
        print(output)
