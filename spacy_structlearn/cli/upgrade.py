"""`structlearn upgrade`: convert configs and pipelines of an earlier version."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import StructlearnError
from ._files import STANDARD, write_text
from ._terminal import echo


def upgrade_cli(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A config, or the folder of a pipeline.")
    ],
    output: Annotated[
        str,
        typer.Option("--output", "-o", help="A file, or - for stdout; a folder for a pipeline."),
    ] = STANDARD,
) -> None:
    """Convert a config or a pipeline of an earlier version.

    Settings get their current names and units. Comments are lost; models stay unchanged.
    """
    from confection import Config

    from ..pipeline.upgrade import read_config, upgrade_pipeline, upgraded

    if not path.exists():
        raise StructlearnError("SL010", path=path)
    if path.is_dir():
        if output == STANDARD:
            raise typer.BadParameter("a pipeline needs --output FOLDER")
        upgrade_pipeline(path, Path(output))
    else:
        write_text(output, Config(upgraded(read_config(path))).to_str() + "\n")
    if output != STANDARD:
        echo(output, raw=True)
