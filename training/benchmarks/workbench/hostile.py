"""What a server must survive: bodies, fields, texts, headers, paths, methods, connections."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from time import sleep
from typing import NamedTuple

SECRET = "s3cr3t-of-a-file"
# In texts, never in the log. All but the first are markup, never in an answer.
MARKS = ("m4rk3d", "<script>m4rk3d", "<img src=m4rk3d", "<svg/onload=m4rk3d")
DELAY = 0.02  # seconds between the bytes of slow clients
LONGEST = 15.0  # seconds until a client gives up


class Hostile(NamedTuple):
    """A request as bytes.

    pieces: sent one after another, with a pause of `pause` seconds. end: what follows: "" waits
    for the answer, "half" closes the sending side before, "reset" ends the connection, "leave"
    closes it. refused: whether an answer with 200 would be wrong. copies: how many connections at
    once have it.
    """

    name: str
    pieces: list[bytes]
    pause: float = 0.0
    end: str = ""
    refused: bool = True
    copies: int = 1

    def send(self, host: str, port: int) -> bytes:
        """Send it, and return all that comes back."""
        sockets = [socket.create_connection((host, port), LONGEST) for _ in range(self.copies)]
        found = b""
        with suppress(OSError):
            for piece in self.pieces:
                for own in sockets:
                    own.sendall(piece)
                sleep(self.pause)
            for own in sockets:
                if self.end == "half":
                    own.shutdown(socket.SHUT_WR)
                if self.end in ("", "half"):
                    while part := own.recv(1 << 16):
                        found += part
                elif self.end == "reset":
                    own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for own in sockets:
            own.close()
        return found


def request(
    port: int,
    path: str = "/parse",
    body: bytes = b'{"text":"Go."}',
    method: str = "POST",
    host: str | None = None,
    kind: str = "application/json",
    more: bytes = b"",
) -> bytes:
    """Return the bytes of a request that asks for the end of the connection."""
    return (
        f"{method} {path} HTTP/1.1\r\nHost: {host or f'localhost:{port}'}\r\n".encode()
        + f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n".encode()
        + more
        + b"\r\n"
        + body
    )


def requests(port: int) -> Iterator[Hostile]:
    """Yield all requests to a server at a port."""
    for path in ("/parse", "/draw"):
        for name, body in bodies():
            yield Hostile(f"{path} {name}", [request(port, path, body)])
        for number, text in enumerate(texts()):
            body = json.dumps({"text": text}).encode()
            yield Hostile(f"{path} text {number}", [request(port, path, body)], refused=False)
    body = json.dumps({"text": MARKS[1], "trees": 10}).encode()
    yield Hostile("best trees", [request(port, "/draw", body)], refused=False)
    for path in paths():
        for method in ("GET", "POST"):
            yield Hostile(f"{method} {path!r}", [request(port, path, method=method)])
    for method in ["PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "OPTIONS", "PRI", "get", "G_T"]:
        yield Hostile(f"method {method!r}", [request(port, method=method)])
    for name, data in headers(port):
        yield Hostile(name, [data])
    for more in (b"X: " + b"a" * 100_000 + b"\r\n", b" folded\r\n", b"a: b\r\n" * 20_000):
        yield Hostile(f"header {more[:9]!r}", [request(port, more=more)], refused=False)
    yield from connections(port)


def bodies() -> Iterator[tuple[str, bytes]]:
    """Yield bodies that are refused."""
    mark = MARKS[1].encode()
    for number, body in enumerate(
        (
            *(b"", b"{", b"null", b"[]", b'"', b"\xff\xfe", b"\x00", b"NaN", b'{"text"', b"{}"),
            *(mark, b'{"' + mark + b'":1}', b'{"text":"a","' + mark + b'":1}'),
            *(
                b'{"text":' + value + b"}"
                for value in (b"1", b"null", b"[]", b"{}", b"true", b"1e9")
            ),
            *(b'{"texts":' + value + b"}" for value in (b"1", b"null", b"{}", b'"a"', b"[1]")),
            *(rb'{"text":"\ud800"}', rb'{"texts":["\udfff"]}', b'{"text":"a","texts":["a"]}'),
            *(b'{"text":"\xc3\x28"}', b'{"text":"\xed\xa0\x80"}', b'{"text":"a\n"}'),
            *('{"text":"a"}'.encode(code) for code in ("utf-16", "utf-32", "utf-8-sig")),
            *(b"[" * 100_000, b'{"text":' * 50_000, b'{"text":' + b"9" * 50_000 + b"}"),
            *(b'{"text":"' + b"a" * 20_001 + b'"}', b" " * 400_000, b'{"text":"a"}x'),
            *(b'{"texts":[' + b'"a",' * 200 + b'"a"]}', b'{"text":-Infinity}'),
            b'{"__proto__":{"text":"a"}}',
        )
    ):
        yield f"body {number}", body


def texts() -> Iterator[str]:
    """Yield texts that are parsed, or take too long."""
    yield from MARKS[1:]
    yield from (
        *("", " ", "\0", "\n" * 500, "\r\n\t\v\f", "\u2028\u2029", "\ufeff", "\x1b[2J", "\x7f"),
        *("\u202eabc\u202c", "\u2066" * 100, "a\u0301" * 500, "\u0300" * 500, "\u200d" * 500),
        *("'\"`\\", "${7*7} {{7*7}} %s %n {0}", "'; DROP TABLE texts; --", "../../etc/passwd"),
        *('</title><script>m4rk3d</script>"', '" style="x" onload="m4rk3d', "]]> --> <!--"),
        *("\\end{forest}\\input{secret.txt}", "\\write18{ls}", "(S (NP", ")" * 500, "-LRB- -RRB-"),
        *("x" * 20_000, "a " * 5_000, "." * 5_000, "(" * 5_000, "\U0001f468\u200d" * 500),
        *(
            "He said that " * 300,
            "and " * 2_000,
            "https://m4rk3d.example/?a=b&c=<d>",
            "\ud7ff\ue000",
        ),
        *("<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>",),
    )


def paths() -> Iterator[str]:
    """Yield paths that lead to nothing."""
    yield from (
        *(
            "/secret.txt",
            "/../secret.txt",
            "/%2e%2e/secret.txt",
            "/..%2fsecret.txt",
            "//secret.txt",
        ),
        *("/page/../secret.txt", "/page.css/../../secret.txt", "/./secret.txt", "/%00", "/%ff"),
        *("/..\\secret.txt", "/..%5csecret.txt", "/%252e%252e/secret.txt", "/file:///etc/passwd"),
        *("/<script>m4rk3d", "/%3Cscript%3Em4rk3d", "/?q=<script>m4rk3d"[1:], "/static/app.py"),
        *("/parse/", "/docs/", "/.git/config", "/app.py", "/" + "a" * 8_000, "/%0d%0aX-Injected:1"),
        *("*", "http://evil.example/secret.txt", "/parse;x", "/\u00e4"),
    )


def headers(port: int) -> Iterator[tuple[str, bytes]]:
    """Yield requests with headers that are refused."""
    for host in (
        *("evil.example", "localhost.evil.example", "evil.example:80", "127.0.0.1.evil.example"),
        *(
            "localhost@evil.example",
            "[::2]",
            "",
            "localhost,evil.example",
            "0.0.0.0",
            "<script>m4rk3d",
        ),
    ):
        yield f"host {host!r}", request(port, host=host or " ")
    for origin in (
        *("http://evil.example", "null", "http://localhost", "http://localhost:1", "file://", "*"),
        *(f"http://localhost:{port}.evil.example", f"ftp://localhost:{port}", "<script>m4rk3d"),
    ):
        yield f"origin {origin!r}", request(port, more=f"Origin: {origin}\r\n".encode())
    for kind in (
        *("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""),
        *("application/json; charset=utf-7", "application/json;charset=utf-16", "<script>m4rk3d"),
    ):
        yield f"type {kind!r}", request(port, kind=kind)
    for more in (
        *(b"Content-Encoding: gzip\r\n", b"Content-Encoding: br\r\n", b"Content-Length: 3\r\n"),
        *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n"),
        *(b"Host: evil.example\r\n", b"X\r\n", b"X : 1\r\n"),
        *(b"\x00: 1\r\n", b"X: \x00\r\n", b"X-\xff: 1\r\n"),
        *(b"Expect: 200-maybe\r\nContent-Length: x\r\n", b"Content-Length: -1\r\n"),
    ):
        yield f"header {more[:40]!r}", request(port, more=more)
    line = b"POST /parse HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    kind = b"Content-Type: application/json\r\n"
    for length in (b"99999999999999999999", b"1e3", b"+3", b"0x3", b"3 3", b"10000000"):
        yield f"length {length!r}", line + kind + b"Content-Length: " + length + b"\r\n\r\n{}"
    for chunk in (
        b"zz\r\n{}\r\n",
        b"ffffffffffffffff\r\n{}",
        b"-1\r\n{}\r\n",
        b"2\r\n{}xx0\r\n\r\n",
    ):
        chunked = b"Transfer-Encoding: chunked\r\n\r\n"
        yield f"chunk {chunk!r}", line + kind + chunked + chunk


def connections(port: int) -> Iterator[Hostile]:
    """Yield connections that do not behave."""
    whole = request(port)
    head, _, body = whole.partition(b"\r\n\r\n")
    head += b"\r\n\r\n"
    one_by_one = [whole[i : i + 1] for i in range(40)]
    promised = head.replace(b"Content-Length: 14", b"Content-Length: 1400")
    yield Hostile("slow headers", one_by_one, DELAY, "leave")
    yield Hostile("slow body", [head, *(bytes([own]) for own in body)], DELAY, "", refused=False)
    yield Hostile("no headers", [b""], 0.1, "leave")
    yield Hostile("body that does not come", [promised, body])
    yield Hostile("half-closed in the headers", [whole[:30]], end="half")
    yield Hostile("half-closed in the body", [promised, body], end="half")
    yield Hostile("half-closed", [whole], end="half", refused=False)
    for name, pieces in (("nothing", [b""]), ("headers", [head]), ("all", [whole])):
        yield Hostile(f"reset after {name}", pieces, 0.05, "reset")
        yield Hostile(f"left after {name}", pieces, 0.05, "leave")
    yield Hostile("idle connections", [b""], 1.0, "leave", copies=200)
    yield Hostile("half requests", [promised], 1.0, "leave", copies=100)
    yield Hostile("many at once", [whole], copies=100, refused=False)
    yield Hostile("left at once", [whole], end="leave", copies=100)
    keep = whole.replace(b"Connection: close\r\n", b"")
    yield Hostile("pipelined", [keep * 20 + whole], refused=False)
    smuggled = b"0\r\n\r\nGET /secret.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"
    both = head.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n")
    yield Hostile("smuggled", [both, smuggled])
    upgrade = b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n"
    socket_request = request(port, "/", b"", "GET", more=upgrade)
    yield Hostile(
        "web socket", [socket_request.replace(b"close", b"upgrade")], end="half", refused=False
    )
    for name, data in (
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"),
        ("HTTP/0.9", b"GET /\r\n"),
        ("HTTP/1.0 without host", b"POST /parse HTTP/1.0\r\n\r\n"),
        ("garbage", bytes(range(256)) * 40),
        ("newlines", b"\r\n" * 5_000),
        ("SSH", b"SSH-2.0-OpenSSH_9.0\r\n"),
    ):
        yield Hostile(name, [data], end="half")
