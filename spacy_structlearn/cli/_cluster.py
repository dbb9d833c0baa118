"""The option --ray of the commands that can run on a Ray cluster."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer
from typer.core import TyperCommand

_FOUND = "auto"  # stands for a missing address


class ClusterCommand(TyperCommand):
    """A command whose option --ray takes an optional value, which typer does not support."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the missing address of --ray; see click."""
        for place in reversed([i for i, arg in enumerate(args) if arg == "--ray"]):
            if place + 1 == len(args) or args[place + 1].startswith("-"):
                args = [*args[: place + 1], _FOUND, *args[place + 1 :]]
        return super().parse_args(ctx, args)


Ray: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="[ADDRESS]",
        help="Run on a Ray cluster. Default address: the cluster that runs on this machine or is "
        "named by RAY_ADDRESS; if there is none, a new one on this machine only.",
    ),
]


def address_of(ray: str) -> str | None:
    """Return the address that `_ray.connected` takes."""
    return None if ray == _FOUND else ray
