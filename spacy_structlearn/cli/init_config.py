"""`structlearn init-config`: write a config that trains a component with any of its learners."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import Annotated

import typer

from .common.files import write_text
from .common.terminal import echo


def init_config_cli(
    component: Annotated[
        str | None, typer.Argument(help="Without any, all components and learners are listed.")
    ] = None,
    architecture: Annotated[
        str | None,
        typer.Option(
            "--architecture",
            "-a",
            metavar="NAME",
            help="A learner of the component, such as MEMM or MEstimation.empirical for an "
            "np_chunker. By default the usual one.",
        ),
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="A file, or - for stdout.")] = "-",
) -> None:
    """Print a config of one component, with all settings of its learner.

    Train with it by `structlearn train` or `spacy train`.
    """
    from ..pipeline.training import configs

    if component is None:
        for name in configs.COMPONENTS:
            echo(f"{name}: {', '.join(configs.learners(name))}")
        return
    name = _known("component", component, configs.COMPONENTS)
    config = configs.usual(name)
    if architecture is not None:
        learners = configs.learners(name)
        short = architecture.removeprefix("spacy_structlearn.").removesuffix(".v1")
        config = learners[_known(f"learner of {name}", short, learners)]
    write_text(output, f"{configs.filled(config)}\n")


def _known(what: str, name: str, names: Collection[str]) -> str:
    """Return the name. Raises BadParameter, with similar names, unless it is known."""
    if name not in names:
        close = {own.lower(): own for own in names}
        meant = [close[lower] for lower in get_close_matches(name.lower(), close)] or names
        raise typer.BadParameter(f"{name} is no {what}. Choose {' or '.join(meant)}.")
    return name
