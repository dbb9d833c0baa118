"""The routes of the page of annotation, and its command."""

import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from typer.testing import CliRunner

from spacy_structlearn.cli import app as commands
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.annotation.journal import read
from spacy_structlearn.pipeline.annotation.state import State
from spacy_structlearn.serve.annotating import CALLS, EXPORT, FILES, make_app

from .test_app import Client


@pytest.fixture
def client(annotation):
    return Client(make_app(annotation, "toy"))


def test_calls(client, annotation):
    def call(name, **fields):
        return client.post(f"/{name}", fields).json()

    assert (first := call("next")) == call("get", id=0)
    assert call("next", order="random")["status"] == "open"
    phrase = {"do": "phrase", "start": 2, "end": 7, "label": "NP"}
    assert ["NP", 2, 7] in call("act", id=0, action=phrase)["brackets"]
    assert call("undo", id=0) == first
    for _ in range(2):  # again, after its parts were replaced
        assert call("undo", id=call("act", id=0, action={"do": "split", "word": 3})["id"]) == first
    assert call("accept", id=0) == {"open": 2, "accepted": 1, "skipped": 0}
    assert call("skip", id=1) == client.get("/progress").json()
    assert call("export")["accepted"] == 1
    assert (annotation.folder / EXPORT / "accepted.trees").exists()
    assert [own["status"] for own in client.get("/list").json()] == ["accepted", "skipped", "open"]
    assert call("alternatives", id=2)["trees"][0]["prob"] <= 1
    assert client.get("/labels").json()["phrases"]["NP"] == "noun phrase"
    found = [client.get(f"/{name}").json() for name in ("learned", "agreement")]
    assert found == [{"status": "none"}, []]
    assert client.get("/health").json()["annotator"] == "me"
    assert "accept sentences" in call("learn")["error"]


ACTIONS = [[], "phrase", {}, {"do": "x"}, {"do": "tag", "word": 0, "tag": "\ud800"}]
BAD = [
    *((name, {}) for name, known in CALLS.items() if "id" in known),
    *((name, {"x": 1}) for name in CALLS),
    *(("get", {"id": id}) for id in ("0", None, True, 1.0, [], 99, -1)),
    *(("act", {"id": 0, "action": own}) for own in ACTIONS),
    *(("next", {"order": own}) for own in ("x", 1)),
]


def test_what_is_refused(client, annotation):
    before = (annotation.folder / "journal.jsonl").read_bytes()
    for call, fields in BAD:
        response = client.post(f"/{call}", fields)
        assert (response.status_code, bool(response.json()["error"])) == (400, True), (call, fields)
    evil = {"origin": "https://evil.example"}
    assert client.post("/skip", {"id": 0}, headers=evil).status_code == 403
    assert client.get("/list", {"host": "evil.example"}).status_code == 403
    assert client.post("/close", {}).status_code == client.post("/import_", {}).status_code == 404
    assert client.get("/accept").status_code == 405
    assert client.post("/next", content=b"{}").status_code == 415
    assert (annotation.folder / "journal.jsonl").read_bytes() == before
    for path in FILES:  # as in test_app
        text = client.get(path).text.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|url\(|@import|innerHTML|style=(?!\")", text)


def test_one_call_at_a_time_and_errors(annotation, monkeypatch):
    running, errors = [], [OSError("full"), KeyError("secret")]

    def slow():
        running.append(1)
        time.sleep(0.05)
        return len(running), running.pop()

    def fail(id):
        raise errors[id]

    monkeypatch.setattr(annotation, "progress", slow)
    monkeypatch.setattr(annotation, "skip", fail)
    client = Client(make_app(annotation, "toy"))
    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(client.get, ["/progress"] * 3))
    assert [own.json() for own in found] == [[1, 1]] * 3
    for response in (client.post("/skip", {"id": id}) for id in range(2)):
        assert (response.status_code, "secret" in response.text) == (500, False)


def test_the_command(tmp_path):
    (tmp_path / "a.txt").write_text("She left. He saw\nit.\n\nIt rained.")
    (tmp_path / "b.trees").write_text("(TOP (S (NP (PRP It)) (VP (VBD rained))))\n")
    out = ["--output", str(tmp_path / "out"), "--annotator"]

    def run(*options):
        return CliRunner().invoke(commands, ["annotate", "en_structlearn_sm", *options])

    both = "b.trees one, b.trees one, a.txt one, b.trees two, out/one/export/accepted.jsonl z"
    for texts, name in map(str.split, both.split(", ")):
        result = run(str(tmp_path / texts), *out, name, "--export")
        assert "accepted.spacy" in result.output, result.exception
    assert (tmp_path / "out/z/export/accepted.trees").read_text().startswith("(TOP")
    assert re.search(r"one +two +1 +1 +1 +1", run(*out[:2], "--agreement").output)
    texts = "It snowed.\n\n" + (tmp_path / "a.txt").read_text()
    (tmp_path / "a.txt").write_text(texts)
    run(str(tmp_path / "a.txt"), *out, "one", "--export")
    items = State(read(tmp_path / "out/one/journal.jsonl")[0]).items
    assert [own.words[0] for own in items].count("She") == 1
    assert [*items[-1].words] == ["It", "snowed", "."]
    assert run(*out, "../x").exit_code == run(*out, "x", "--order", "x").exit_code == 2
    assert isinstance(run("none.txt", *out, "x", "--export").exception, StructlearnError)
