"""`--ray`, of the commands that a Ray cluster may do the work of."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer
from typer.core import TyperCommand

_FOUND = "auto"  # what stands for no address


class ClusterCommand(TyperCommand):
    """A command whose --ray may do without an address: typer's own options have a value or none."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See click."""
        for place in reversed([i for i, arg in enumerate(args) if arg == "--ray"]):
            if place + 1 == len(args) or args[place + 1].startswith("-"):
                args = [*args[: place + 1], _FOUND, *args[place + 1 :]]
        return super().parse_args(ctx, args)


Ray: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="[ADDRESS]",
        help="Have the work done on a Ray cluster. Without an address: the one that runs here or "
        "that RAY_ADDRESS names, or else one of this machine alone.",
    ),
]


def address_of(ray: str) -> str | None:
    """The address as `parallel.cluster.connected` wants it."""
    return None if ray == _FOUND else ray
