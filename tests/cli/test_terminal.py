"""What reaches a terminal: no character of a text or a name controls it."""

import io
import json
import logging
import os
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tqdm import tqdm

from spacy_structlearn.cli.common.terminal import VisibleText
from spacy_structlearn.errors import HIDDEN, visible

HOSTILE = "A \x1b[31mred \x1b]0;title\x07 dog\u202e\x9b2J barked."


@given(st.text())
def test_nothing_hidden_is_left(text):
    shown = visible(text)
    assert not HIDDEN.search(shown)
    shown.encode("utf8")  # no surrogates
    assert visible(shown) == shown


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_is_the_same(text):
    assert json.loads(visible(json.dumps(text, ensure_ascii=False))) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\n", "a\tb\n"),
        ("\x00\x1b\x9b", r"\u0000\u001b\u009b"),
        ("\ufeffa\u202eb", r"\ufeffa\u202eb"),
        ("\U000e0041", r"\udb40\udc41"),
        ("\udc80", r"\udc80"),
        ("naïve \u0646\u200c\u0648 👩\u200d🚀", "naïve \u0646\u200c\u0648 👩\u200d🚀"),
    ],
)
def test_visible(text, shown):
    assert visible(text) == shown


def test_parse_to_a_pipe(run, model):
    code, out, err = run("parse", HOSTILE, "--model", model)
    assert (code, err) == (0, "")
    assert not HIDDEN.search(out)
    assert r"\u001b" in out


def test_messages_of_usage_logs_and_tracebacks(run, model, monkeypatch):
    code, out, err = run("apply", model, __file__, "out\x9b2J.pdf")
    assert (code, out) == (2, "")
    assert r"out\u009b2J.pdf" in err
    assert not HIDDEN.search(err)

    def fail(*_):
        logging.lastResort.handle(logging.makeLogRecord({"level": 40, "msg": "L\x9b2J"}))
        raise RuntimeError("\rR\u202e")

    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(sys.modules["spacy_structlearn.cli.info"], "load", fail)
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    with pytest.raises(RuntimeError) as error:
        run("info", model)
    sys.excepthook(error.type, error.value, error.tb)
    assert r"L\u009b2J" in stderr.getvalue()
    assert r"RuntimeError: \u000dR\u202e" in stderr.getvalue()
    assert not HIDDEN.search(stderr.getvalue())


def test_progress_bars_work_on_guarded_streams():
    bare, guarded = io.StringIO(), io.StringIO()
    for stream, name in ((bare, "a"), (VisibleText(guarded), "\x07")):
        with tqdm(range(2), file=stream, desc=name, mininterval=0, ascii=True) as bar:
            for _ in tqdm(bar, file=stream, leave=False, mininterval=0, bar_format="{desc}"):
                pass
    assert {"\r", "\x1b"} <= set(bare.getvalue())
    assert r"\u0007" in guarded.getvalue()
    assert HIDDEN.findall(bare.getvalue()) == HIDDEN.findall(guarded.getvalue())


@pytest.mark.parametrize("command", [["parse"], ["apply", "--unit", "file"]])
def test_a_terminal_gets_no_escape_sequence(command, model, tmp_path):
    pty = pytest.importorskip("pty", reason="needs pseudo-terminals")
    text = tmp_path / "text.txt"
    text.write_text(HOSTILE, encoding="utf8")
    name, *options = command
    inputs = [str(text), "--model", str(model)] if name == "parse" else [str(model), str(text), "-"]
    main, other = pty.openpty()
    subprocess.run(
        [sys.executable, "-m", "spacy_structlearn", name, *inputs, *options],
        stdin=subprocess.DEVNULL,
        stdout=other,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    os.close(other)
    shown = b""
    try:
        while part := os.read(main, 4096):
            shown += part
    except OSError:  # the end, on Linux
        pass
    os.close(main)
    assert re.search(rb"\\u001b", shown)
    assert not re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", shown)
