"""The server of `structlearn annotate`: its page, and a route for each call of `Annotation`.

It is for one annotator. Calls come one at a time, in a thread of their own, so that /health answers
while a sentence is parsed. A client has no say in what files are read or written.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..about import __version__
from ..errors import StructlearnError
from ..evaluation.agreement import agreement
from .annotate.annotation import JOURNAL, Annotation, accepted
from .app import PAGE, Limits, application, fixed, listen, names, read_fields, run

FIELDS: dict[str, Callable[[Any], bool]] = {
    "id": lambda own: type(own) is int,
    "action": lambda own: isinstance(own, dict),
    "order": lambda own: own is None or isinstance(own, str),
    "preview": lambda own: own is None or isinstance(own, bool),
}
CALLS: dict[str, tuple[str, ...]] = {
    **{"next": ("order",), "act": ("id", "action", "preview"), "learn": (), "export": ()},
    **dict.fromkeys(("get", "undo", "accept", "skip", "alternatives"), ("id",)),
}
"""The calls of POST, and their fields."""
STATES = ("progress", "labels", "list", "learned")
FILES = {
    "/": ("annotate.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    **{f"/{name}": (name, "text/javascript") for name in ("annotate.js", "drawing.js")},
}
EXPORT = "export"  # the folder of its files in the annotator's
LIMITS = Limits(max_length=10_000)


def make_app(annotation: Annotation, name: str, hosts: Collection[str] = ()) -> Starlette:
    """Make the application. name: of the pipeline. hosts: see `app.make_app`."""
    thread = ThreadPoolExecutor(1)

    async def answer(call: Callable[..., Any], **fields: Any) -> Response:
        try:
            work = asyncio.get_running_loop().run_in_executor(thread, partial(call, **fields))
            return JSONResponse(await work)
        except StructlearnError as error:
            raise HTTPException(400, str(error)) from None
        except OSError as error:  # such as a full disk
            raise HTTPException(500, f"The folder cannot be used: {error}.") from None
        except Exception as error:  # components raise any type
            raise HTTPException(500, f"The pipeline failed: {type(error).__name__}.") from None

    async def post(request: Request) -> Response:
        does = request.path_params["call"]
        if does not in CALLS:
            raise HTTPException(404, f"The calls are {', '.join(CALLS)}.")
        fields = await read_fields(request, LIMITS, CALLS[does])
        if wrong := [key for key in CALLS[does] if not FIELDS[key](fields.get(key))]:
            raise HTTPException(400, f'"{wrong[0]}" is missing, or not what it must be.')
        if re.search("[\ud800-\udfff]", json.dumps(fields, ensure_ascii=False)):
            raise HTTPException(400, "A label has half of a surrogate pair.")
        if does == "export":
            fields["folder"] = annotation.folder / EXPORT
        return await answer(getattr(annotation, does), **fields)

    def get(call: Callable[[], Any]) -> Callable[[Request], Any]:
        async def send(request: Request) -> Response:
            return await answer(call)

        return send

    async def health(request: Request) -> Response:
        found = {"status": "ok", "model": name, "annotator": annotation.folder.name}
        return JSONResponse(found | {"version": __version__})

    calls = {own: getattr(annotation, own) for own in STATES}
    calls["agreement"] = partial(agreements, annotation.folder.parent)
    routes = [fixed(at, (PAGE / file).read_bytes(), kind) for at, (file, kind) in FILES.items()]
    routes += [Route(f"/{own}", get(call)) for own, call in calls.items()]
    routes += [Route("/health", health), Route("/{call}", post, methods=["POST"])]
    return application(routes, hosts)


def agreements(folder: Path) -> list[dict[str, Any]]:
    """Compare the annotators whose folders are in a folder; see `agreement`."""
    folders = [path.parent for path in sorted(folder.glob(f"*/{JOURNAL}"))]
    return agreement({folder.name: accepted(folder) for folder in folders})


def annotate(
    annotation: Annotation,
    name: str,
    host: str,
    port: int,
    hosts: Collection[str],
    ready: Callable[[str], None],
) -> None:
    """Serve the page of an annotator until SIGINT or SIGTERM. See `app.serve`."""
    with listen(host, port) as listening:
        run(make_app(annotation, name, [*hosts, *names(host)]), listening, ready, LIMITS.timeout)
