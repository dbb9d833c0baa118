"""The routes of the page of annotation, and its command."""

import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from typer.testing import CliRunner

from spacy_structlearn.cli import app as commands
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.serve.annotating import CALLS, EXPORT, FILES, make_app

from .test_app import Client


@pytest.fixture
def client(annotation):
    return Client(make_app(annotation, "toy"))


def test_calls(client, annotation):
    first = client.post("/next", {}).json()
    assert first == client.post("/get", {"id": 0}).json()
    assert client.post("/next", {"order": "random"}).json()["status"] == "open"
    action = {"do": "phrase", "start": 2, "end": 7, "label": "NP"}
    changed = client.post("/act", {"id": 0, "action": action}).json()
    assert ["NP", 2, 7] in changed["brackets"]
    assert client.post("/undo", {"id": 0}).json() == first
    for _ in range(2):  # again, after its parts were replaced
        part = client.post("/act", {"id": 0, "action": {"do": "split", "word": 3}}).json()
        assert client.post("/undo", {"id": part["id"]}).json() == first
    assert client.post("/accept", {"id": 0}).json() == {"open": 2, "accepted": 1, "skipped": 0}
    assert client.post("/skip", {"id": 1}).json() == client.get("/progress").json()
    assert client.post("/export", {}).json()["accepted"] == 1
    assert (annotation.folder / EXPORT / "accepted.trees").exists()
    assert [own["status"] for own in client.get("/list").json()] == ["accepted", "skipped", "open"]
    assert client.post("/alternatives", {"id": 2}).json()["trees"][0]["prob"] <= 1
    assert client.get("/labels").json()["phrases"]["NP"] == "noun phrase"
    assert client.get("/learned").json() == {"status": "none"}
    assert client.get("/agreement").json() == []
    assert client.get("/health").json()["annotator"] == "me"
    assert "accept sentences" in client.post("/learn", {}).json()["error"]


@pytest.mark.parametrize(
    ("call", "fields"),
    [
        *((name, {}) for name, known in CALLS.items() if "id" in known),
        *((name, {"x": 1}) for name in CALLS),
        *(("get", {"id": id}) for id in ("0", None, True, 1.0, [], 99, -1)),
        *(("act", {"id": 0, "action": own}) for own in ([], "phrase", {}, {"do": "x"})),
        *(("next", {"order": own}) for own in ("x", 1)),
        ("act", {"id": 0, "action": {"do": "tag", "word": 0, "tag": "\ud800"}}),
    ],
)
def test_bad_fields(client, annotation, call, fields):
    before = annotation.state.items[0].actions, list(annotation.folder.rglob("*"))
    response = client.post(f"/{call}", fields)
    assert response.status_code == 400
    assert response.json()["error"]
    assert before == (annotation.state.items[0].actions, list(annotation.folder.rglob("*")))


def test_what_is_refused(client):
    evil = {"origin": "https://evil.example"}
    assert client.post("/skip", {"id": 0}, headers=evil).status_code == 403
    assert client.get("/list", {"host": "evil.example"}).status_code == 403
    assert client.post("/close", {}).status_code == client.post("/import_", {}).status_code == 404
    assert client.get("/accept").status_code == 405
    assert client.post("/next", content=b"{}").status_code == 415
    assert client.get("/progress").json()["open"] == 3


def test_the_page_asks_for_nothing_elsewhere(client):
    for path in FILES:
        response = client.get(path)
        text = response.text.replace("http://www.w3.org/2000/svg", "")
        assert "default-src 'self'" in response.headers["content-security-policy"]
        assert not re.search(r"https?:|url\(|@import|innerHTML|style=(?!\")", text)


def test_one_call_at_a_time_and_errors(annotation, monkeypatch):
    running = []

    def slow():
        running.append(1)
        time.sleep(0.05)
        return len(running), running.pop()

    def fail(id):
        raise errors[id]

    errors = [OSError("full"), KeyError("secret")]
    monkeypatch.setattr(annotation, "progress", slow)
    monkeypatch.setattr(annotation, "skip", fail)
    client = Client(make_app(annotation, "toy"))
    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(client.get, ["/progress"] * 3))
    assert [own.json() for own in found] == [[1, 1]] * 3
    for id in range(2):
        response = client.post("/skip", {"id": id})
        assert (response.status_code, "secret" in response.text) == (500, False)


def test_the_command(tmp_path):
    (tmp_path / "a.txt").write_text("She left. He saw\nit.\n\nIt rained.")
    (tmp_path / "b.trees").write_text("(TOP (S (NP (PRP It)) (VP (VBD rained))))\n")

    def run(*options):
        return CliRunner().invoke(commands, ["annotate", "en_structlearn_sm", *options])

    out = ["--output", str(tmp_path / "out"), "--annotator"]
    for texts in ("b.trees", "b.trees", "a.txt"):
        result = run(str(tmp_path / texts), *out, "one", "--export")
        assert result.exit_code == 0, result.exception
        assert "accepted.spacy" in result.output
    run(str(tmp_path / "b.trees"), *out, "two", "--export")
    assert re.search(r"one +two +1 +1 +1 +1", run(*out[:2], "--agreement").output)
    assert run(*out, "../x", "--export").exit_code == 2
    assert isinstance(run("none.txt", *out, "x", "--export").exception, StructlearnError)
