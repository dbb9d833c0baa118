"""`structlearn init-config`: write a config for training components, with all settings."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from ._corpora import Reader
from ._files import BASE, CONFIGS, STANDARD, write_text
from ._terminal import echo

_STEMS = sorted(path.stem for path in CONFIGS.glob("*.cfg") if path.stem != BASE)
Component = Enum("Component", {stem: stem for stem in _STEMS if "." not in stem})
# For each component, the architectures besides its default that have a config.
ARCHITECTURES = {
    name: [stem.partition(".")[2] for stem in _STEMS if stem.startswith(f"{name}.")]
    for name in Component.__members__
}


def init_config_cli(
    components: Annotated[
        list[Component],
        typer.Argument(
            metavar="COMPONENT...",
            help=f"One or more of: {', '.join(Component.__members__)}. sentence_splitter is "
            "trained alone.",
        ),
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
            "ConditionalGrammar, MEstimatedGrammar, SpanGrammar or ISBN.",
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

    Several components are trained together, on predictions of each other.

    For languages other than English, srl_labeler needs the tags of predicates, because every
    treebank has its own names for verbs. Take them from a corpus with --corpus train.spacy, or fill
    them in.
    """
    names = [component.value for component in components]
    if corpus is not None and "srl_labeler" not in names:
        raise typer.BadParameter("--corpus is for srl_labeler")
    if len(names) > 1 and "sentence_splitter" in names:
        raise typer.BadParameter("sentence_splitter is trained alone, on texts")
    from ._configs import config_text, predicate_tags

    known = [known for name in names for known in ARCHITECTURES[name]]
    if architecture is not None and architecture not in known:
        found = ", ".join(known) or "none"
        raise typer.BadParameter(
            f"--architecture of {', '.join(names)} can be: {found}. To use another one, write the "
            "default config and replace its block of the model."
        )
    tags = None if corpus is None else predicate_tags(corpus)
    write_text(output, config_text(names, reader, lang, tags, architecture))
    if output != STANDARD:
        echo(output, raw=True)
