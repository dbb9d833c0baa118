"""The command line, `structlearn`: a command a file.

spaCy takes over a second to import, so every command imports what it needs when it runs, and the
modules here import nothing but the standard library and typer. A command ends with 0, with 1 and
one line on standard error for what is wrong with its input, or with 2 for a wrong use.
"""

from __future__ import annotations

import sys
from configparser import Error as ConfigParserError
from typing import Annotated

import typer

from ..errors import StructlearnError
from ._cluster import ClusterCommand
from .apply import apply_cli
from .convert import convert_cli
from .evaluate import evaluate_cli
from .info import info_cli
from .init_config import init_config_cli
from .package import package_cli
from .parse import parse_cli
from .render import render_cli
from .train import train_cli
from .upgrade import upgrade_cli

app = typer.Typer(
    help="Trainable spaCy components for the structure of sentences.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Plain text: the help of pipes and small terminals, and rich need not be imported for it.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from ..about import __version__

        print(__version__)
        raise typer.Exit()


@app.callback()
def _options(
    # Eager, because otherwise the missing command is an error first.
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


app.command("parse")(parse_cli)
app.command("render")(render_cli)
app.command("apply", cls=ClusterCommand)(apply_cli)
app.command("convert")(convert_cli)
app.command("init-config")(init_config_cli)
# The values of a config are options that only the config knows.
app.command(
    "train",
    cls=ClusterCommand,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(train_cli)
app.command("evaluate")(evaluate_cli)
app.command("info")(info_cli)
app.command("package")(package_cli)
app.command("upgrade")(upgrade_cli)


def main() -> None:
    """Run the command line: an expected error is one line on standard error and exit code 1."""
    try:
        app()
    except (ValueError, OSError, ConfigParserError) as error:
        if not _is_expected(error):
            raise
        print(f"structlearn: {_one_line(error)}", file=sys.stderr)
        sys.exit(1)


def _is_expected(error: Exception) -> bool:
    """Whether the error speaks of the input, and so needs no traceback."""
    if not isinstance(error, ValueError) or isinstance(error, (StructlearnError, UnicodeError)):
        return True
    from thinc.api import ConfigValidationError

    return isinstance(error, ConfigValidationError) or str(error).startswith("[E")


def _one_line(error: Exception) -> str:
    # A config that is not valid is printed as a whole below what is wrong with it.
    lines = [line for line in str(error).splitlines() if not line.startswith("{")]
    return " ".join(" ".join(lines).split())
