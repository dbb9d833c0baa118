"""Signals end a command at once, and leave nothing behind; two commands do not share an output."""

import os
import signal
import subprocess
import sys
from functools import partial

import pytest
from cli.toys import left

from spacy_structlearn.writing import locked

posix = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
SCRIPT = """
import hashlib, sys, time
from spacy_structlearn import __main__, cli
from spacy_structlearn.cli.common.files import written

def run():
    with written(sys.argv[1]) as file:
        file.write(b"half")
        file.flush()
        print("ready", flush=True)
        while True:
            try:
                {work}
            except BaseException:
                pass

cli.main = run
__main__.PATIENCE = {patience}
__main__.main()
"""
# A kernel returns to the interpreter late; the other swallows exceptions.
WORK = {
    "kernel": "hashlib.pbkdf2_hmac('sha256', b'x', b'x', 10**9)",
    # Short: a signal just before a long one waits for its end.
    "interpreter": "time.sleep(0.01)",
}
# Of the interpreter, more than a busy machine needs to handle the signal there.
PATIENCE = {"kernel": 0.1, "interpreter": 10.0}


def started(work, target, interrupt=signal.SIG_DFL):
    """Start a command; interrupt: its handler of SIGINT, which is inherited, and ignored by the
    tests themselves if a shell runs them in the background.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(work=WORK[work], patience=PATIENCE[work]), target],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, interrupt),
    )
    assert process.stdout.readline() == "ready\n"
    return process


@posix
@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_command_at_once(tmp_path, number, work):
    (tmp_path / "target").write_bytes(b"before")
    process = started(work, tmp_path / "target")
    process.send_signal(number)
    _, err = process.communicate(timeout=20)
    # Of the signal, by which a loop of a shell ends, too, unless a kernel has begun.
    assert process.returncode in {-number, 128 + number if work == "kernel" else -number}
    assert err.startswith(f"structlearn: interrupted by {number.name}; no file is half-written.")
    assert err.count("\n") == 1
    assert left(tmp_path) == {"target": b"before"}


def test_a_second_apply_is_refused(run, model, tmp_path):
    (tmp_path / "texts.txt").write_text("Run!", encoding="utf8")
    apply = ["apply", model, tmp_path / "texts.txt", tmp_path / "out"]
    with locked(tmp_path / "out", tmp_path / "out" / ".shard-1-of-2.lock"):
        code, _, err = run(*apply, "--shard", "1/2")
        assert (code, err.count("\n")) == (1, 1)
        assert "SL098" in err
        assert run(*apply, "--shard", "2/2")[0] == 0
    assert run(*apply)[0] == 0
    assert sorted(left(tmp_path / "out")) == ["structlearn-apply.json", "texts.txt.0000.spacy"]
