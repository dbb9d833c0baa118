"""`structlearn apply` with processes that die: nothing is lost, and nothing is written twice."""

import os
import subprocess
import sys
import time

import pytest
from cli.toys import deadly_model, gold_docs, install_deadly, left
from spacy.vocab import Vocab

from spacy_structlearn.cli import _parts
from spacy_structlearn.cli._parts import ChunkParser, Output, chunks
from spacy_structlearn.cli._texts import Text
from spacy_structlearn.cli._workers import Failure

TEXTS = ["The old dog slept.", "Run once!", "My sister bought apples.", "Run twice!", "Run!"]


@pytest.fixture
def deadly(model, tmp_path, monkeypatch):
    """A function that makes a pipeline some texts are the death of."""
    if os.name != "posix":
        pytest.skip("kills processes by a signal")
    install_deadly(tmp_path / "path")
    monkeypatch.syspath_prepend(tmp_path / "path")
    return lambda times: deadly_model(model, tmp_path, times)


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("\n\n".join(TEXTS), encoding="utf8")
    return path


def test_texts_that_processes_die_of(run, model, deadly, lines, tmp_path):
    """One text kills its first two processes and is parsed by a third; another kills them all."""
    mortal, log = deadly({"Run once!": 2, "Run twice!": 9})
    cut = ["--format", "jsonl", "--part-size", "2", "--batch-size", "2"]
    run("apply", model, lines, tmp_path / "healthy", *cut)
    out = tmp_path / "out"
    code, _, err = run("apply", mortal, lines, out, *cut, "--n-process", "2")
    *_, error = err.splitlines()
    assert code == 1
    assert err.count("structlearn: a worker died (killed by SIGKILL) of") == 5
    assert err.count(f"texts 1 to 2 of {out / 'lines.txt.0000.jsonl'} ('The") == 2
    assert "SL072" in error
    assert f"text 2 of {out / 'lines.txt.0001.jsonl'} ('Run twice!' ...): 3" in error
    # No text is parsed more often than needed, whatever else is being parsed.
    assert sorted(log.read_text("utf8").splitlines()) == ["Run once!"] * 3 + ["Run twice!"] * 3
    # Complete files are kept and not written again; no file is half-written, hidden or not.
    assert sorted(left(out)) == ["lines.txt.0000.jsonl", "structlearn-apply.json"]
    assert left(out)["lines.txt.0000.jsonl"] == left(tmp_path / "healthy")["lines.txt.0000.jsonl"]
    lines.write_text(lines.read_text("utf8").replace("Run twice!", "Run!"), encoding="utf8")
    assert (
        "3 texts, 2 files written, 1 file there already"
        in run("apply", mortal, lines, out, *cut)[2]
    )


def test_processes_end_with_the_one_that_started_them(model, tmp_path):
    script = tmp_path / "first.py"
    script.write_text(
        "import os, sys\n"
        "from spacy_structlearn.cli._parts import Output, chunks\n"
        "from spacy_structlearn.cli._texts import Text\n"
        "from spacy_structlearn.cli._workers import Workers\n"
        "if __name__ == '__main__':\n"
        "    workers = Workers(sys.argv[1], Output.jsonl, 1)\n"
        "    next(workers.parse(chunks('x', [Text('Run!', {})], 1)))\n"
        "    print(*(worker.process.pid for worker in workers._alive), flush=True)\n"
        "    os._exit(9)\n",
        encoding="utf8",
    )
    first = subprocess.run(
        [sys.executable, script, model], stdout=subprocess.PIPE, text=True, check=False
    )
    assert first.returncode == 9
    (pid,) = map(int, first.stdout.split())
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if is_zombie(pid):
            return
        time.sleep(0.1)
    pytest.fail(f"process {pid} is still there")


def is_zombie(pid):
    """Whether it has ended, and only nobody has asked how."""
    with open(f"/proc/{pid}/stat", encoding="utf8") as file:
        return file.read().rpartition(")")[2].split()[0] == "Z"


class Odd(Exception):
    """An error that cannot be sent to another process."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def test_errors_that_cannot_be_sent_are_told():
    with pytest.raises(KeyError, match="x") as caught:
        Failure.of(KeyError("x")).raise_here()
    assert "KeyError: 'x'" in str(caught.value.__cause__)
    with pytest.raises(RuntimeError, match="Odd: 1 and 2"):
        Failure.of(Odd(1, 2)).raise_here()


def test_chunks_of_single_texts_are_the_same_texts():
    docs = list(gold_docs(Vocab()))
    docs[1].user_data["n"] = 1
    texts = [Text(docs[0], {}), Text("Run!", {"id": 2}), Text(docs[1], {"id": 3})]
    (chunk,) = chunks("out.spacy", texts, 5)
    found = chunk.singles()
    assert [single.first for single in found] == [1, 2, 3]
    assert [single.is_last for single in found] == [False, False, True]
    assert [single.texts for single in found] == [[None], ["Run!"], [None]]
    assert [single.extras for single in found] == [[{}], [{"id": 2}], [{"id": 3}]]
    (doc,) = found[2].contents()
    assert (doc.text, doc.user_data) == (docs[1].text, {"n": 1})
    assert found[2].place() == "text 3 of out.spacy ('My sister bought apples .' ...)"
    assert chunk.place().startswith("texts 1 to 3 of out.spacy ('The old dog")


def test_a_pipeline_is_loaded_anew_before_its_vocab_has_grown(model, monkeypatch):
    parser = ChunkParser(model)
    first, before = parser.nlp, len(parser.nlp.vocab)
    (chunk,) = chunks("x", [Text(TEXTS[0], {}), Text(f"The dog {[*range(2000)]}", {})], 2)
    once = parser.parse(chunk, Output.jsonl)
    # Words are forgotten, but the table that they were in has grown.
    assert len(first.vocab) > before + 1000
    assert parser.parse(chunk, Output.jsonl) == once
    assert parser.nlp is first
    monkeypatch.setattr(_parts, "WORDS", before + 1000)
    assert parser.parse(chunk, Output.jsonl) == once
    assert parser.nlp is not first
    second = parser.nlp
    (chunk,) = chunks("x", [Text(TEXTS[0], {})], 2)
    monkeypatch.setattr(_parts, "WORDS", 10_000)
    parser.parse(chunk, Output.jsonl)
    assert parser.nlp is second
