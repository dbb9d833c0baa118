"""What the server answers and refuses; its workers; its run as a command."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
from typer.testing import CliRunner

import spacy_structlearn
from spacy_structlearn import as_dict
from spacy_structlearn.cli import app as commands
from spacy_structlearn.pipeline.extensions.as_data import LAYERS
from spacy_structlearn.serve import answers
from spacy_structlearn.serve.app import Limits, make_app
from spacy_structlearn.serve.workers import Broken, Busy, Failed, Job, Pool, Stopped

TEXT = "She ate the <b>pizza</b> & a fork. It rained."
SMALL = Limits(max_length=1000, max_texts=3, timeout=5)


@pytest.fixture(scope="module")
def nlp():
    return spacy_structlearn.load()


class Inline:
    """In place of a pool: answers at once, in this process."""

    def __init__(self, nlp, problem=None):
        self.nlp, self.problem, self.layers = nlp, problem, sorted(LAYERS)

    def submit(self, job):
        future = Future()
        if isinstance(self.problem, (Busy, Stopped)):
            raise self.problem
        if self.problem:
            future.set_exception(self.problem)
        else:
            future.set_result(answers.answers(self.nlp, [job])[0])
        return future

    def state(self):
        return {"workers": 0 if self.problem else 1, "waiting": 0}


class Client:
    """Sends requests to an application without a network."""

    def __init__(self, made):
        self.made = made

    def request(self, method, path, content=b"", headers=()):
        headers = {"host": "localhost:8000"} | dict(headers)
        sent = []
        scope = {
            "type": "http",
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(key.encode(), value.encode()) for key, value in headers.items()],
        }

        async def receive():
            return {"type": "http.request", "body": content}

        async def send(message):
            sent.append(message)

        asyncio.run(self.made(scope, receive, send))
        content = b"".join(message.get("body", b"") for message in sent)
        return SimpleNamespace(
            status_code=sent[0]["status"],
            headers={key.decode(): value.decode() for key, value in sent[0]["headers"]},
            content=content,
            text=content.decode(),
            json=lambda: json.loads(content),
        )

    def get(self, path, headers=()):
        return self.request("GET", path, headers=headers)

    def post(self, path, json=None, content=None, headers=()):
        if content is None:
            content = dumps(json)
            headers = {"content-type": "application/json"} | dict(headers)
        return self.request("POST", path, content, headers)


def dumps(data):
    return json.dumps(data).encode()


def client_of(nlp, problem=None, limits=SMALL, **settings):
    return Client(make_app(Inline(nlp, problem), "toy", limits, **settings))


@pytest.fixture
def client(nlp):
    return client_of(nlp)


# --- answers --------------------------------------------------------------------------------------
def test_answers_are_those_of_the_pipeline(client, nlp):
    data = as_dict(nlp(TEXT))
    one = client.post("/parse", json={"text": TEXT})
    assert one.json() == data
    assert b"<" not in one.content
    assert client.post("/parse", json={"texts": [TEXT, ""]}).json() == {
        "docs": [data, as_dict(nlp(""))]
    }
    some = client.post("/parse", json={"text": TEXT, "layers": ["trees", "sents"]})
    assert some.json() == {key: data[key] for key in ("trees", "sents")}


def test_drawings(client, nlp):
    found = client.post("/draw", json={"text": TEXT, "trees": 2}).json()
    assert found["data"] == as_dict(nlp(TEXT))
    assert found["conllu"].startswith("# newdoc id = 1\n")
    assert "&lt;b&gt;" in found["html"]
    assert "<b>pizza" not in found["html"]
    first, second = found["sentences"]
    assert second["text"] == "It rained."
    assert second["latex"].startswith(r"\begin{forest}")
    assert second["svg"].startswith("<svg")
    assert len(first["trees"]) == 2
    assert first["trees"][0]["prob"] >= first["trees"][1]["prob"]
    assert second["trees"][0]["chosen"]
    assert second["trees"][0]["brackets"] == second["brackets"]


@pytest.mark.parametrize(
    "text", ["", " \n", "\0", "\u202e\u2066\ufeff", "\U0001f600" * 9, "x" * 200, "(" * 1000]
)
def test_odd_texts(client, nlp, text):
    assert client.post("/parse", json={"text": text}).json() == as_dict(nlp(text))
    assert client.post("/draw", json={"text": text}).status_code == 200


def test_health(client, nlp):
    assert client.get("/health").json()["status"] == "ok"
    assert client_of(nlp, Stopped()).get("/health").status_code == 503


def test_the_pages_ask_for_nothing_elsewhere(client):
    for path in ("/", "/docs", "/page.css", "/page.js"):
        response = client.get(path)
        assert response.status_code == 200
        assert "default-src 'self'" in response.headers["content-security-policy"]
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert not re.search(r"https?:|url\(|@import|innerHTML|style=(?!\")", response.text)
    page = client.get("/").text
    # Every control has a label or a text of its own.
    for control in re.findall(r'<(?:textarea|select) id="(\w+)"', page):
        assert re.search(rf'<label for="{control}">|<label[^>]*>[^<]*<select id="{control}"', page)


def test_openapi_says_what_is_there(client):
    found = client.get("/openapi.json").json()
    assert set(found["paths"]) == {"/parse", "/draw", "/health"}
    schema = found["paths"]["/parse"]["post"]["requestBody"]["content"]["application/json"][
        "schema"
    ]
    assert schema["oneOf"][0]["properties"]["layers"]["items"]["enum"] == sorted(LAYERS)
    assert "/parse" in client.get("/docs").text


# --- what is refused ------------------------------------------------------------------------------
WRONG = {
    "no JSON": (b"{", 400),
    "no object": (b"[]", 400),
    "deep": (b"[" * 2000, 400),
    "large number": (b'{"text":' + b"9" * 6000 + b"}", 400),
    "no UTF-8": (b'{"text":"\xff"}', 400),
    "no field": (b"{}", 400),
    "other field": (b'{"text":"a","x":1}', 400),
    "both": (b'{"text":"a","texts":["a"]}', 400),
    "number": (b'{"text":1}', 400),
    "null": (b'{"text":null}', 400),
    "texts": (b'{"texts":"a"}', 400),
    "text of texts": (b'{"texts":["a",1]}', 400),
    "surrogate": (rb'{"text":"\ud800"}', 400),
    "layers": (b'{"text":"a","layers":["x"]}', 400),
    "layers of what": (b'{"text":"a","layers":[["x"]]}', 400),
    "long": (b'{"text":"' + b"a" * 1001 + b'"}', 413),
    "many": (b'{"texts":["a","a","a","a"]}', 413),
    "large": (b" " * 30_000, 413),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_bodies(client, name):
    body, status = WRONG[name]
    response = client.post("/parse", content=body, headers={"content-type": "application/json"})
    assert response.status_code == status
    assert response.json()["error"]


def test_errors_name_the_field(client):
    def error(body):
        return client.post("/parse", json=body).json()["error"]

    assert "layers" in error({"text": "a", "layers": 1})
    assert "texts" in error({"texts": 1})
    assert '"text"' in error({"text": []})
    for trees in (-1, 11, True, "1", None):
        assert "trees" in client.post("/draw", json={"text": "a", "trees": trees}).json()["error"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/json; charset=latin-1"}, 415),
        ({"content-type": 'application/json; charset="UTF-8"'}, 200),
        ({"content-type": "application/json", "content-encoding": "gzip"}, 415),
        ({"content-type": "application/json", "host": "evil.example"}, 403),
        ({"content-type": "application/json", "host": "localhost.evil.example"}, 403),
        ({"content-type": "application/json", "host": "[::1]:80"}, 200),
        ({"content-type": "application/json", "origin": "http://localhost:8000"}, 200),
        ({"content-type": "application/json", "origin": "http://localhost:1"}, 403),
        ({"content-type": "application/json", "origin": "null"}, 403),
    ],
)
def test_headers(client, headers, status):
    response = client.post("/parse", content=b'{"text":"Go."}', headers=headers)
    assert response.status_code == status
    assert "access-control-allow-origin" not in response.headers


def test_allowed_hosts_and_origins(nlp):
    own = client_of(nlp, hosts=["nlp.example"], origins=["https://page.example"])
    headers = {"host": "nlp.example", "origin": "https://page.example"}
    response = own.post("/parse", json={"text": "Go."}, headers=headers)
    assert response.headers["access-control-allow-origin"] == "https://page.example"
    asked = headers | {"access-control-request-method": "POST"}
    assert own.request("OPTIONS", "/parse", headers=asked).status_code == 200
    assert own.get("/", headers={"host": "other.example"}).status_code == 403
    assert client_of(nlp, hosts=["*"]).get("/", headers={"host": "x.example"}).status_code == 200


@pytest.mark.parametrize(
    "path", ["/x", "/page.css/", "/../app.py", "/%2e%2e/app.py", "//", "/docs/"]
)
def test_other_paths(client, path):
    assert client.get(path).status_code == 404


def test_other_methods(client):
    assert client.get("/parse").status_code == 405
    assert client.request("DELETE", "/").status_code == 405


@pytest.mark.parametrize(
    ("problem", "status"),
    [(Busy(), 429), (Stopped(), 503), (Broken(), 503), (Failed("ValueError"), 500)],
)
def test_problems_of_the_pool(nlp, problem, status):
    response = client_of(nlp, problem).post("/parse", json={"text": "secret"})
    assert response.status_code == status
    assert ("retry-after" in response.headers) == (status in (429, 503))
    assert "secret" not in response.text


def test_a_slow_pipeline(nlp):
    class Slow(Inline):
        def submit(self, job):
            return Future()

    own = Client(make_app(Slow(nlp), "toy", SMALL._replace(timeout=0.05)))
    assert own.post("/parse", json={"text": "Go."}).status_code == 503


# --- workers --------------------------------------------------------------------------------------
def toy():
    """A pipeline that fails, ends its process or sleeps if a text says so."""
    import spacy
    from spacy.language import Language

    @Language.component("misbehaves")
    def misbehaves(doc):
        if doc.text == "fail":
            raise KeyError(doc.text)
        if doc.text == "die":
            os._exit(1)
        if doc.text == "sleep":
            time.sleep(60)
        return doc

    nlp = spacy.blank("en")
    nlp.add_pipe("misbehaves")
    return nlp


def cannot_load():
    raise OSError("no such pipeline")


@pytest.fixture
def pool():
    found = Pool(toy, queue=8, timeout=2)
    found.start()
    yield found
    found.stop()


def keep_busy(pool):
    """Give the worker a job that does not end. RETURNS: its future."""
    future = pool.submit(Job(["sleep"]))
    deadline = time.monotonic() + 10
    while pool.state()["waiting"] and time.monotonic() < deadline:
        time.sleep(0.01)
    return future


def text_of(future):
    return json.loads(future.result(30))["text"]


def test_a_pool_survives_its_texts(pool):
    assert pool.state() == {"workers": 1, "waiting": 0}
    # What waits behind the first job is one batch.
    first = keep_busy(pool)
    good, fails, dies, other = (pool.submit(Job([own])) for own in ("a", "fail", "die", "b"))
    gone = pool.submit(Job(["c"]))
    assert gone.cancel()
    with pytest.raises(Broken):
        first.result(30)
    assert [text_of(good), text_of(other)] == ["a", "b"]
    with pytest.raises(Failed, match=r"^KeyError$"):
        fails.result(30)
    with pytest.raises(Broken):
        dies.result(30)
    assert (
        json.loads(pool.submit(Job(["d", "e"], several=True)).result(30))["docs"][1]["text"] == "e"
    )


def test_the_queue_is_bounded_and_ends(pool):
    keep_busy(pool)
    waiting = [pool.submit(Job(["a"])) for _ in range(8)]
    with pytest.raises(Busy):
        pool.submit(Job(["a"]))
    assert waiting[0].cancel()
    last = pool.submit(Job(["a"]))
    pool.stop()
    assert last.cancelled() or isinstance(last.exception(), Stopped)
    with pytest.raises(Stopped):
        pool.submit(Job(["a"]))


def test_a_pipeline_that_cannot_be_loaded():
    with pytest.raises(spacy_structlearn.errors.StructlearnError, match=r"SL270.*no such pipeline"):
        Pool(cannot_load).start()


# --- the command ----------------------------------------------------------------------------------
def test_without_the_extra(monkeypatch):
    monkeypatch.setattr("spacy_structlearn.cli.serve.find_spec", lambda name: None)
    result = CliRunner().invoke(commands, ["serve"])
    assert "spacy-structlearn[serve]" in str(result.exception)


def test_the_command_line_imports_no_server():
    code = "import sys, spacy_structlearn.cli; print({'starlette', 'uvicorn'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_request_in_progress_ends(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "spacy_structlearn", "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    try:
        line = process.stdout.readline()
        connection = HTTPConnection(re.search(r"//(\S+)", line)[1], timeout=60)
        body = json.dumps({"text": "The secret boat leaked within two days. " * 100})
        connection.request("POST", "/parse", body, {"content-type": "application/json"})
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        assert json.loads(connection.getresponse().read())["trees"]
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "secret" not in output + errors
    assert not list(Path(tmp_path).iterdir())
