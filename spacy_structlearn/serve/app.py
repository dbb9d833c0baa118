"""The server: its routes, what it refuses, and its run.

A request with another `Host` or `Origin` than allowed is refused, because any page in a browser
can send requests to this machine, under a name of its own (DNS rebinding). The files of the page
are read once; nothing else is read or written, and nothing of a text is logged.
"""

from __future__ import annotations

import asyncio
import json
import math
import signal
import socket
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..about import __version__
from .openapi import ERRORS, as_page, described
from .workers import Broken, Busy, Failed, Job, Pool, Stopped

LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANY = ("0.0.0.0", "::", "")
MOST_DRAWN = 10_000  # characters; drawings are hundreds of times as long
MOST_TREES = 10
CONNECTIONS = 500  # at once
RETRY = {"retry-after": "1"}
PAGE = Path(__file__).parent / "page"
FILES = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Limits(NamedTuple):
    """What a client may ask for.

    max_length: characters of a request. max_texts: texts of a request. timeout: seconds until an
    answer, and until the end of a body.
    """

    max_length: int = 100_000
    max_texts: int = 100
    timeout: float = 30.0

    @property
    def max_bytes(self) -> int:
        """The most bytes of a body: JSON may have 12 for a character, and blanks and quotes."""
        return 12 * self.max_length + 100 * self.max_texts + 10_000


def make_app(
    pool: Pool,
    name: str,
    limits: Limits,
    *,
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
) -> Starlette:
    """Make the application. The pool is started and stopped by the caller.

    name: of the pipeline. hosts: names of this server besides those of loopback; "*" for any.
    origins: of pages elsewhere that may send requests, such as "https://example.org".
    """
    sizes = limits.max_length, limits.max_texts, MOST_DRAWN, MOST_TREES
    description = described(pool.layers, *sizes)
    routes = [fixed(path, (PAGE / file).read_bytes(), kind) for path, (file, kind) in FILES.items()]
    routes.append(fixed("/docs", as_page(description).encode(), "text/html"))
    routes.append(fixed("/openapi.json", json.dumps(description).encode(), "application/json"))

    async def health(request: Request) -> Response:
        state = pool.state()
        ready = state["workers"] > 0
        found = {"status": "ok" if ready else "starting", "model": name, "version": __version__}
        return JSONResponse(found | state, 200 if ready else 503)

    async def parse(request: Request) -> Response:
        fields = await read_fields(request, limits, ("text", "texts", "layers"))
        return await _answered(pool, _job(fields, limits, pool.layers), limits.timeout)

    async def draw(request: Request) -> Response:
        fields = await read_fields(request, limits, ("text", "trees"))
        trees = fields.get("trees", 0)
        if type(trees) is not int or not 0 <= trees <= MOST_TREES:
            raise HTTPException(400, f'"trees" must be a number from 0 to {MOST_TREES}.')
        most = limits._replace(max_length=min(limits.max_length, MOST_DRAWN))
        job = _job({"text": fields.get("text")}, most, ())
        return await _answered(pool, job._replace(trees=trees), limits.timeout)

    routes += [
        Route("/health", health),
        Route("/parse", parse, methods=["POST"]),
        Route("/draw", draw, methods=["POST"]),
    ]
    return application(routes, hosts, origins)


def application(
    routes: list[Route], hosts: Collection[str], origins: Collection[str] = ()
) -> Starlette:
    """Make an application of routes, with its guard. For the others see `make_app`."""
    middleware = [Middleware(Guard, hosts=hosts, origins=origins)]
    if origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(origins),
                allow_methods=["GET", "POST"],
                allow_headers=["content-type"],
            )
        )
    app = Starlette(
        routes=routes,
        middleware=middleware,
        exception_handlers={HTTPException: _error, ClientDisconnect: _gone},
    )
    app.router.redirect_slashes = False
    return app


def fixed(path: str, data: bytes, kind: str) -> Route:
    """Return a route that sends the same data. kind: their media type."""

    async def send(request: Request) -> Response:
        return Response(data, media_type=kind)

    return Route(path, send)


async def _error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=400)  # nobody reads it


# --- what a request asks for ----------------------------------------------------------------------
async def read_fields(request: Request, limits: Limits, known: Collection[str]) -> dict[str, Any]:
    """Read the JSON object of a body. Raises HTTPException for anything else, and other keys."""
    kind, *parameters = request.headers.get("content-type", "").lower().split(";")
    charset = "".join(parameters).replace('"', "").strip() or "charset=utf-8"
    coding = request.headers.get("content-encoding", "identity")
    if kind.strip() != "application/json" or charset != "charset=utf-8" or coding != "identity":
        raise HTTPException(415, "Send application/json in UTF-8, not compressed.")
    too_long = HTTPException(413, f"The body has more than {limits.max_bytes:,} bytes.")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > limits.max_bytes:
        raise too_long

    async def read() -> bytes:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > limits.max_bytes:
                raise too_long
        return bytes(body)

    try:
        body = await asyncio.wait_for(read(), limits.timeout)
    except asyncio.TimeoutError:
        raise HTTPException(408, ERRORS[408], {"connection": "close"}) from None
    try:
        fields = json.loads(body.decode())
    except UnicodeDecodeError:
        raise HTTPException(400, "The body is not UTF-8.") from None
    except json.JSONDecodeError as error:
        problem = f"The body is not JSON: {error.msg}, at character {error.pos}."
        raise HTTPException(400, problem) from None
    except (ValueError, RecursionError):  # numbers of thousands of digits, thousands of brackets
        raise HTTPException(400, "The body is JSON that cannot be read.") from None
    if not isinstance(fields, dict) or not fields.keys() <= set(known):
        names = ", ".join(f'"{key}"' for key in known)
        raise HTTPException(400, f"The body must be an object with no other fields than {names}.")
    return fields


def _job(fields: dict[str, Any], limits: Limits, layers: Collection[str]) -> Job:
    """Check the texts and layers of a request. Raises HTTPException if they are wrong."""
    if ("text" in fields) == ("texts" in fields):
        raise HTTPException(400, 'Give either "text" or "texts".')
    several = "texts" in fields
    texts = fields["texts"] if several else [fields["text"]]
    what = '"texts" must be a list of strings.' if several else '"text" must be a string.'
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise HTTPException(400, what)
    if len(texts) > limits.max_texts:
        raise HTTPException(413, f"There are more than {limits.max_texts:,} texts.")
    if sum(map(len, texts)) > limits.max_length:
        raise HTTPException(413, f"The text has more than {limits.max_length:,} characters.")
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise HTTPException(400, f"{what[:-1]} without halves of surrogate pairs.") from None
    wanted = fields.get("layers")
    if wanted is None:
        return Job(texts, several)
    if not isinstance(wanted, list) or not all(
        isinstance(own, str) and own in layers for own in wanted
    ):
        raise HTTPException(400, f'"layers" must be a list of some of: {", ".join(layers)}.')
    return Job(texts, several, wanted)


async def _answered(pool: Pool, job: Job, timeout: float) -> Response:
    try:
        answer = await asyncio.wait_for(asyncio.wrap_future(pool.submit(job)), timeout)
    except Busy:
        raise HTTPException(429, ERRORS[429], RETRY) from None
    except Failed as error:
        raise HTTPException(500, f"The pipeline failed: {error}.") from None
    except (asyncio.TimeoutError, asyncio.CancelledError, Broken, Stopped):
        raise HTTPException(503, ERRORS[503], RETRY) from None
    return Response(answer, media_type="application/json")


# --- who may ask ----------------------------------------------------------------------------------
class Guard:
    """Refuses other hosts and origins, and gives each response the headers of security.

    app: the application behind it. For the others see `make_app`.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], origins: Collection[str]):
        self.app = app
        self.hosts = {*LOOPBACK, *(host.lower().strip("[]") for host in hosts)}
        self.origins = set(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((k.encode(), v.encode()) for k, v in HEADERS.items() if k not in names),
                ]
            await send(message)

        if scope["type"] == "http" and (problem := self._problem(Request(scope))):
            response = JSONResponse({"error": problem}, 403)
            await response(scope, receive, send_with_headers)
        else:
            await self.app(scope, receive, send_with_headers)

    def _problem(self, request: Request) -> str | None:
        """Say why a request is refused; None if it is not."""
        host = request.headers.get("host", "").lower()
        if host_name(host) not in self.hosts and "*" not in self.hosts:
            return "The name of this host is not allowed. See --allow-host."
        origins = request.headers.getlist("origin")
        for origin in origins:
            own = origin.lower().partition("://")
            if origin not in self.origins and (own[0] not in ("http", "https") or own[2] != host):
                return "This origin is not allowed. See --allow-origin."
        return None


def host_name(host: str) -> str:
    """Return the name in a Host header, without its port and the brackets of IPv6."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


# --- the run --------------------------------------------------------------------------------------
class _Protocol(H11Protocol):
    """Ends a connection whose first request does not come. HEADERS_WITHIN: seconds for it."""

    HEADERS_WITHIN = 15.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(self.HEADERS_WITHIN, self._check)

    def _check(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()


def serve(
    load: Callable[[], Any],
    name: str,
    *,
    host: str = LOOPBACK[1],
    port: int = 8000,
    workers: int = 1,
    queue: int = 64,
    limits: Limits | None = None,
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
    ready: Callable[[str], None] = print,
) -> None:
    """Serve a pipeline until SIGINT or SIGTERM. Requests in progress are answered.

    load: returns the pipeline, in each worker. ready: gets the address once it can be used. For the
    others see `Pool` and `make_app`.
    Raises OSError if the address is in use, and StructlearnError if the pipeline cannot be loaded.
    """
    limits = limits or Limits()
    with listen(host, port) as listening:
        pool = Pool(load, workers=workers, queue=queue, timeout=limits.timeout)
        pool.start()
        try:
            app = make_app(pool, name, limits, hosts=[*hosts, *names(host)], origins=origins)
            run(app, listening, ready, limits.timeout)
        finally:
            pool.stop()


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address. Raises OSError if it is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def names(host: str) -> list[str]:
    """Return the name that an address gives this server."""
    return [] if host in ANY else [host]


def run(
    app: ASGIApp, listening: socket.socket, ready: Callable[[str], None], timeout: float
) -> None:
    """Run an application until SIGINT or SIGTERM. timeout: of requests that are in progress then.

    For the others see `serve`.
    """
    config = uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=math.ceil(timeout),
    )
    server = uvicorn.Server(config)
    # uvicorn handles them, and raises them again at the end.
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    host, port = listening.getsockname()[:2]
    ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")
    server.run(sockets=[listening])
