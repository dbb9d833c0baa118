"""`structlearn serve` with many clients at once, and with hostile ones.

The texts are one or two sentences of the sample treebank in random order; one of ten texts has a
word that no other has. Each answer is compared with `as_dict` of the pipeline in this process.

serve.requests         requests of CLIENTS clients, each after the answer to its last one; a third
                       has several texts, a quarter asks for some layers only
serve.wrong            answers that are not those of the pipeline
serve.p95_ms           milliseconds until an answer, while all clients wait; serve.median_ms
serve.per_second       requests a second
serve.rss_mb           memory of the server and its workers at the end; serve.rss_growth_mb: since
                       WARM requests
serve.hostile          requests of `hostile`; serve.breached: those after which the server was gone,
                       a right request got another answer, a file was new or changed, the log had
                       the text, or whose own answer had markup or an internal error
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter, sleep
from typing import Any

import numpy as np
import spacy

import spacy_structlearn
from spacy_structlearn import as_dict
from spacy_structlearn.pipeline.readers import create_treebank_reader
from training.benchmarks.workbench.hostile import MARKS, SECRET, Hostile, requests
from training.common.command import Figures
from training.common.process import environment
from training.common.recording import ROOT

SAMPLE = ROOT / "corpora" / "sample"
CLIENTS = 16
TEXTS = 2_000  # different ones that are sent again and again
WARM = 2_000  # requests until the memory is measured first
CONTROL = "The storm damaged the harbor on Monday."
JSON = {"content-type": "application/json"}
PATIENCE = 30.0  # seconds in which a right request may be repeated if the server says so


class Server:
    """A server in a process and a folder of its own. command: with the options of all."""

    def __init__(self, folder: Path, *options: object, command: Sequence[str] = ("serve",)):
        self.log = folder.parent / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "spacy_structlearn", *command, "--port", "0"]
                + [str(option) for option in options],
                cwd=folder,
                env=environment() | {"HOME": str(folder), "TMPDIR": str(folder)},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"//(.*):(\d+)", line)
        assert found is not None, line
        self.host, self.port = found[1], int(found[2])

    def rss_mb(self) -> float:
        """Return the resident memory of the server and its workers in MB."""
        pids = [self.process.pid]
        for pid in pids:
            for path in Path(f"/proc/{pid}/task").glob("*/children"):
                pids += map(int, path.read_text().split())
        total = 0
        for pid in pids:
            found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
            total += int(found[1]) if found else 0
        return total / 1024

    def stop(self) -> int:
        """Stop the server, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def served(*options: object) -> Iterator[tuple[Server, Path]]:
    """Run a server in an empty folder."""
    with TemporaryDirectory() as name:
        folder = Path(name) / "served"
        folder.mkdir()
        server = Server(folder, *options)
        try:
            yield server, folder
        finally:
            server.process.kill()
            server.process.wait()


def server(args: Any) -> Iterator[Figures]:
    n = args.requests if args.limit is None else args.limit
    nlp = spacy_structlearn.load()
    yield load(nlp, n, args.workers)
    yield attack(nlp, args.limit)


# --- many clients ---------------------------------------------------------------------------------
def load(nlp: Any, n: int, workers: int) -> Figures:
    texts = list(texts_of(min(TEXTS, n)))
    known = dict(zip(texts, map(plain, nlp.pipe(texts)), strict=True))
    parts = [random.Random(client) for client in range(CLIENTS)]
    with served("--workers", workers) as (server, _), ThreadPoolExecutor(CLIENTS) as pool:

        def run(total: int) -> list[tuple[float, int]]:
            shares = [len(range(client, total, CLIENTS)) for client in range(CLIENTS)]
            found = pool.map(
                lambda own: asked(server, known, *own), zip(parts, shares, strict=True)
            )
            return [one for own in found for one in own]

        warm = run(min(WARM, n))
        before = server.rss_mb()
        began = perf_counter()
        rest = run(n - len(warm))
        seconds = perf_counter() - began
        after = server.rss_mb()
        server.stop()
    times = 1000 * np.array([one[0] for one in rest or warm])
    return {
        "serve.requests": len(warm) + len(rest),
        "serve.clients": CLIENTS,
        "serve.workers": workers,
        "serve.wrong": sum(one[1] for one in warm + rest),
        "serve.median_ms": float(np.median(times)),
        "serve.p95_ms": float(np.quantile(times, 0.95)),
        "serve.per_second": len(rest) / seconds,
        "serve.rss_mb": after,
        "serve.rss_growth_mb": after - before,
    }


def texts_of(n: int) -> Iterator[str]:
    """Yield n different texts."""
    reader = create_treebank_reader(SAMPLE / "sample.trees", spaces=SAMPLE / "sample.spaces")
    sentences = [
        sentence.text.strip()
        for example in reader(spacy.blank("en"))
        for sentence in example.reference.sents
    ]
    chance, seen = random.Random(0), set()
    while len(seen) < n:
        chosen = " ".join(chance.sample(sentences, chance.choice((1, 1, 2))))
        if chance.random() < 0.1 or chosen in seen:
            words = chosen.split()
            new = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=8))
            words[chance.randrange(len(words))] = new
            chosen = " ".join(words)
        if chosen not in seen:
            seen.add(chosen)
            yield chosen


def plain(doc: Any) -> dict[str, Any]:
    return json.loads(json.dumps(as_dict(doc)))


def asked(
    server: Server, known: Mapping[str, Any], chance: random.Random, n: int
) -> list[tuple[float, int]]:
    """Send n requests. Returns the seconds of each, and 1 if its answer is wrong."""
    connection = HTTPConnection(server.host, server.port, timeout=120)
    texts, found = list(known), []
    for _ in range(n):
        some = chance.sample(texts, chance.choice((1, 1, 1, 1, 2, 3)))
        several = len(some) > 1 or chance.random() < 0.1
        body: dict[str, Any] = {"texts": some} if several else {"text": some[0]}
        wanted = [known[text] for text in some]
        if chance.random() < 0.25:
            body["layers"] = chance.sample(sorted(wanted[0]), 2)
            wanted = [{key: own[key] for key in body["layers"]} for own in wanted]
        began = perf_counter()
        connection.request("POST", "/parse", json.dumps(body), JSON)
        response = connection.getresponse()
        answer = response.read()
        seconds = perf_counter() - began
        right = {"docs": wanted} if several else wanted[0]
        is_wrong = response.status != 200 or json.loads(answer) != right
        if is_wrong:
            print(f"wrong: {response.status} {body} {answer.decode()}", flush=True)
        found.append((seconds, int(is_wrong)))
    connection.close()
    return found


# --- hostile clients ------------------------------------------------------------------------------
def attack(nlp: Any, limit: int | None) -> Figures:
    right = plain(nlp(CONTROL))
    breached = 0
    with served("--timeout", 10, "--max-length", 20_000) as (server, folder):
        (folder / "secret.txt").write_text(SECRET)
        before = state(folder)
        hostile = list(requests(server.port))[:limit]
        for request in hostile:
            problems = list(problems_of(server, request, right))
            if state(folder) != before:
                problems.append("a file was changed")
            if any(mark in server.log.read_text() for mark in MARKS):
                problems.append("the log has the text")
                server.log.write_text("")
            if problems:
                breached += 1
                print(f"breached by {request.name}: {', '.join(problems)}", flush=True)
        if server.stop() != 0:
            breached += 1
            print("the server did not stop cleanly", flush=True)
    return {"serve.hostile": len(hostile), "serve.breached": breached}


def problems_of(server: Server, request: Hostile, right: dict[str, Any]) -> Iterator[str]:
    """Send a hostile request, and a right one, at once if the other takes its time."""
    answers: list[bytes] = []
    sender = Thread(target=lambda: answers.append(request.send(server.host, server.port)))
    sender.start()
    sender.join(1)
    if server.process.poll() is not None:
        yield "the server is gone"
        return
    if controlled(server) != right:
        yield "a right request got another answer"
    sender.join(PATIENCE)
    if sender.is_alive():
        yield "no end"
    for answer in answers:
        statuses = {
            int(own) for own in re.findall(rb"^HTTP/1\.[01] (\d{3}) ", answer, re.MULTILINE)
        }
        if 500 in statuses:
            yield "an internal error"
        if request.refused and 200 in statuses:
            yield "it was not refused"
        if any(mark.encode() in answer for mark in (*MARKS[1:], SECRET)):
            yield "the answer has its markup, or a secret"
        if re.search(rb"^x-injected:", answer.split(b"\r\n\r\n")[0], re.MULTILINE | re.IGNORECASE):
            yield "the answer has its header"


def controlled(server: Server) -> Any:
    """Return the answer to a right request; repeat it while the server asks for it."""
    began = perf_counter()
    while True:
        connection = HTTPConnection(server.host, server.port, timeout=PATIENCE)
        try:
            connection.request("POST", "/parse", json.dumps({"text": CONTROL}), JSON)
            response = connection.getresponse()
            answer = json.loads(response.read())
        except OSError as error:
            return str(error)
        finally:
            connection.close()
        if response.status not in (429, 503) or perf_counter() - began > PATIENCE:
            return answer
        sleep(float(response.headers["retry-after"]))


def state(folder: Path) -> dict[str, tuple[int, int]]:
    """Return time and size of all files of a folder and of the package."""
    package = Path(spacy_structlearn.__file__).parent
    files = [path for top in (folder, package) for path in top.rglob("*") if path.is_file()]
    found = {f"{path}": (path.stat().st_mtime_ns, path.stat().st_size) for path in files}
    return {name: own for name, own in found.items() if os.sep + "__pycache__" not in name}
