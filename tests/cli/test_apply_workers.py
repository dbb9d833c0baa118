"""`structlearn apply` with several processes, and with one that dies."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from cli.toys import deadly_model, install_deadly, left, one_line_error

from spacy_structlearn.cli.common import parts
from spacy_structlearn.cli.common.texts import MANIFEST, Text

TEXTS = ["The old dog slept.", "My sister bought apples.", "Run twice!", "Run!"]


def test_a_process_that_dies_ends_the_run(run, model, tmp_path, monkeypatch):
    """One clear error; what is finished is kept, and the same command continues."""
    if os.name != "posix":
        pytest.skip("kills processes by a signal")
    install_deadly(tmp_path / "path")
    monkeypatch.syspath_prepend(tmp_path / "path")
    mortal, log = deadly_model(model, tmp_path, {"Run twice!": 1})
    (tmp_path / "lines.txt").write_text("\n\n".join(TEXTS), encoding="utf8")
    cut = ["--format", "jsonl", "--part-size", "1", "--batch-size", "1"]
    run("apply", model, tmp_path / "lines.txt", tmp_path / "healthy", *cut)
    healthy, out = left(tmp_path / "healthy"), tmp_path / "out"
    arguments = ["apply", mortal, tmp_path / "lines.txt", out, *cut, "--n-process", "2"]
    one_line_error(run(*arguments), "SL072", "text 1 of")
    # No file is half-written, hidden or not.
    assert len(left(out)) < 4 + 1
    healthy[MANIFEST] = left(out)[MANIFEST]
    assert left(out).items() <= healthy.items()
    assert run(*arguments)[0] == 0
    assert left(out) == healthy
    assert log.read_text("utf8").splitlines() == ["Run twice!"] * 2


def test_processes_end_with_the_one_that_started_them(model, tmp_path):
    script = tmp_path / "first.py"
    script.write_text(
        "import multiprocessing, os, sys\n"
        "from spacy_structlearn.cli.common.parts import Output, chunks, parse_in_processes\n"
        "from spacy_structlearn.cli.common.texts import Text\n"
        "if __name__ == '__main__':\n"
        "    some = chunks('x', [Text('Run!')] * 9, 1)\n"
        "    results = parse_in_processes(some, Output.jsonl, model=sys.argv[1], number=1)\n"
        "    next(results)\n"
        "    (process,) = multiprocessing.active_children()\n"
        "    print(process.pid, flush=True)\n"
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


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_processes_leave_signals_to_the_first_one(model):
    some = parts.chunks("x", [Text("Run!")] * 9, 1)
    started = parts.parse_in_processes(some, parts.Output.jsonl, model=model, number=1)
    with closing(started) as results:
        next(results)
        (process,) = multiprocessing.active_children()
        lines = Path(f"/proc/{process.pid}/status").read_text("utf8").splitlines()
    (blocked,) = (int(line.split()[1], 16) for line in lines if line.startswith("SigBlk"))
    for number in (signal.SIGINT, signal.SIGTERM):
        assert blocked >> (number - 1) & 1


class Odd(Exception):
    """An error that cannot be sent to another process."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def test_errors_that_cannot_be_sent_are_told():
    assert repr(parts.portable(KeyError("x"))) == "KeyError('x')"
    assert repr(parts.portable(Odd(1, 2))) == "RuntimeError('Odd: 1 and 2')"


def test_a_pipeline_is_loaded_anew_before_its_vocab_has_grown(model, monkeypatch):
    parser = parts.ChunkParser(model)
    first, before = parser.nlp, len(parser.nlp.vocab)
    (chunk,) = parts.chunks("x", [Text(TEXTS[0]), Text(f"The dog {[*range(2000)]}")], 2)
    once = parser.parse(chunk, parts.Output.jsonl)
    # Words are forgotten, but the table that they were in has grown.
    assert len(first.vocab) > before + 1000
    assert parser.parse(chunk, parts.Output.jsonl) == once
    assert parser.nlp is first
    monkeypatch.setattr(parts, "WORDS", before + 1000)
    assert parser.parse(chunk, parts.Output.jsonl) == once
    assert parser.nlp is not first
