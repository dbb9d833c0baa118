"""`structlearn init-config`: write a config that trains a component with any of its learners."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import Annotated

import typer

from .common.files import write_text
from .common.terminal import echo


def init_config_cli(
    component: Annotated[str, typer.Argument(help="Without any, all learners are listed.")] = "",
    architecture: Annotated[
        str, typer.Option("--architecture", "-a", help="A learner. Default: the usual one.")
    ] = "",
    output: Annotated[str, typer.Option("--output", "-o", help="A file, or - for stdout.")] = "-",
) -> None:
    """Print a config of one component, for training, with all settings of its learner.

    Learners are MEMM or MEstimation.empirical, for example.
    """
    from ..pipeline.training import configs

    if not component:
        for name in configs.COMPONENTS:
            echo(f"{name}: {', '.join(configs.learners(name))}")
        return
    config = configs.usual(_known("component", component, configs.COMPONENTS))
    if architecture:
        learners = configs.learners(component)
        short = architecture.removeprefix("spacy_structlearn.").removesuffix(".v1")
        config = learners[_known(f"learner of {component}", short, learners)]
    write_text(output, f"{configs.filled(config)}\n")


def _known(what: str, name: str, names: Collection[str]) -> str:
    """Return the name. Raises BadParameter, with similar names, unless it is known."""
    if name not in names:
        close = {own.lower(): own for own in names}
        meant = [close[lower] for lower in get_close_matches(name.lower(), close)] or names
        raise typer.BadParameter(f"{name} is no {what}. Choose {' or '.join(meant)}.")
    return name
