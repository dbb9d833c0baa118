"""`structlearn serve`: a JSON server for a pipeline, with a page to try it."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import Annotated

import typer

from ..errors import StructlearnError
from .common.pipelines import HELP, load
from .common.terminal import echo


def serve_cli(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help=f"{HELP} Default: the built-in one.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 for any.", min=0, max=65535)] = 8000,
    workers: Annotated[
        int, typer.Option(help="Number of processes, each with a pipeline.", min=1)
    ] = 1,
    max_length: Annotated[
        int, typer.Option(help="Most characters of a request.", min=1, max=1_000_000)
    ] = 100_000,
    max_texts: Annotated[int, typer.Option(help="Most texts of a request.", min=1)] = 100,
    timeout: Annotated[float, typer.Option(help="Seconds until an answer.", min=0.1)] = 30.0,
    queue: Annotated[int, typer.Option(help="Most requests that wait.", min=1)] = 64,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A name of this server, besides localhost; * for any. Repeatable."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(help="A site whose pages may send requests: https://name. Repeatable."),
    ] = None,
) -> None:
    """Serve a pipeline as JSON, and a page to try it. Needs the extra `serve`.

    POST /parse takes {"text": ...} or {"texts": [...]}, with {"layers": [...]} for some layers
    only, and returns what `parse --format jsonl` prints. The page is at /, the description of
    the API at /docs and /openapi.json, and the state of the server at /health.

    Only this machine can connect, unless --host is another address. There are no passwords and no
    encryption: put a proxy that has both in front of it before others can connect.

    SIGINT (Ctrl+C) and SIGTERM stop the server when the requests in progress are answered.
    """
    if any(find_spec(name) is None for name in ("starlette", "uvicorn")):
        raise StructlearnError("SL181", package="'spacy-structlearn[serve]'")
    from ..pipeline.storage.built_in import BUILT_IN
    from ..serve.app import Limits, serve

    name = model or BUILT_IN
    echo(f"Loading {name} ...", error=True)
    serve(
        partial(load, model),
        name,
        host=host,
        port=port,
        workers=workers,
        queue=queue,
        limits=Limits(max_length, max_texts, timeout),
        hosts=allow_host or [],
        origins=allow_origin or [],
        ready=lambda address: echo(f"Serving on {address} (stop: Ctrl+C)"),
    )
