"""The command line, `structlearn`, with one module for each command.

Importing spaCy takes more than a second, so the modules here import only the standard library and
typer, and every command imports what it needs when it runs. The exit code is 0 for success, 1 for
bad input (explained in one line on standard error) and 2 for wrong usage. The console script is
`__main__`, which handles signals before it imports this.
"""

from __future__ import annotations

import sys
from configparser import Error as ConfigParserError
from typing import Annotated

import typer

from ..errors import StructlearnError
from .adapt import adapt_cli
from .apply import apply_cli
from .common.terminal import echo, guard_errors, print_traceback
from .convert import convert_cli
from .evaluate import compare_cli, evaluate_cli
from .find import find_cli
from .info import info_cli
from .measure import measure_cli
from .parse import parse_cli, render_cli
from .serve import annotate_cli, serve_cli
from .table import table_cli
from .train import init_config_cli, train_cli

app = typer.Typer(
    help="Trainable spaCy components for the structure of sentences.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Plain text suits pipes and small terminals, and saves importing rich.
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
    # Eager: otherwise typer reports the missing command first.
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
app.command("apply")(apply_cli)
app.command("serve")(serve_cli)
app.command("annotate")(annotate_cli)
app.command("find")(find_cli)
app.command("table")(table_cli)
app.command("measure")(measure_cli)
app.command("convert")(convert_cli)
app.command("init-config")(init_config_cli)
# Values of the config are set by options that typer does not know.
app.command(
    "train",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(train_cli)
app.command("adapt")(adapt_cli)
app.command("evaluate")(evaluate_cli)
app.command("compare")(compare_cli)
app.command("info")(info_cli)


def main() -> None:
    """Run the command line. Print an expected error as one line, and exit with code 1."""
    guard_errors()
    try:
        app()
    except (ValueError, OSError, ImportError, ConfigParserError) as error:
        if not _is_expected(error):
            raise
        echo(f"structlearn: {_one_line(error)}", error=True)
        sys.exit(1)
    finally:
        sys.excepthook = print_traceback  # `app` sets another one


def _is_expected(error: Exception) -> bool:
    """Return whether the error is caused by the input, so that no traceback is needed."""
    if isinstance(error, (StructlearnError, UnicodeError, OSError, ConfigParserError)):
        return True
    from thinc.api import ConfigValidationError

    return isinstance(error, ConfigValidationError) or str(error).startswith("[E")


def _one_line(error: Exception) -> str:
    # spaCy prints the whole config below the error message.
    lines = [line for line in str(error).splitlines() if not line.startswith("{")]
    return " ".join(" ".join(lines).split())
