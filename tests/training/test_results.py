"""Figures say how they were made, and the pages show them."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
import srsly

from training import all as results
from training.common import recording, report
from training.common.recording import ROOT

clean_commit = recording.clean_commit.__wrapped__  # before the fixture replaces it
STAMP = {"commit": "abc", "cpu": "x", "command": "python -m training.reliability --only fuzz"}


def test_all_results_say_how_they_were_made():
    if recording.git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("a clone without history")
    wrong = [
        (name, part, problem)
        for name, part, stamp in results.parts()
        for problem in results.problems(stamp)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, None),
        ({"commit": "abc+"}, "made with uncommitted changes"),
        ({"commit": "fff"}, "made at fff, which is not in the history"),
        ({"cpu": ""}, "made on an unknown machine"),
        ({"command": "python run.py"}, "made by an unknown command"),
        ({"command": "python -m training.nothing"}, "made by training.nothing, which is gone"),
    ],
)
def test_problems_of_stamps(monkeypatch, changes, problem):
    monkeypatch.setattr(results, "in_history", lambda commit: commit == "abc")
    assert list(results.problems(STAMP | changes)) == ([problem] if problem else [])


def test_each_part_keeps_its_stamp(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "RESULTS", tmp_path)
    monkeypatch.setattr(recording, "module", lambda: "training.papers.smith2007")
    for commit, figures in (("a", {"x.y.b": 1 / 3, "x.z": 1}), ("b", {"x.z": 2, "n": {"m": [1]}})):
        monkeypatch.setattr(recording, "clean_commit", lambda commit=commit: commit)
        recording.record("one", figures)
    found = srsly.read_json(tmp_path / "one.json")
    assert found["x"] == {"y": {"b": 0.333333}, "z": 2}
    assert {part: own["commit"] for part, own in found["stamps"].items()} == {
        "x.y": "a",
        "x.z": "b",
        "n": "b",
    }
    stamp = found["stamps"]["x.z"]
    assert set(stamp) == {"commit", "date", "command", "cpu", "cores", "python", "data"}
    assert list(stamp["data"]) == ["conll2000"]
    assert set(recording.stamps_of(found)) == {"x.y", "x.z", "n"}


def test_changes_are_refused(monkeypatch):
    answers = {"rev-parse": "abc", "status": " M training/x.py"}
    monkeypatch.setattr(recording, "git", lambda name, *_: answers[name])
    with pytest.raises(SystemExit, match=r"(?s)Commit.*training/x\.py"):
        clean_commit()
    answers["status"] = ""
    assert clean_commit() == "abc"


def test_a_command_names_no_folder_of_one_machine(monkeypatch):
    module = SimpleNamespace(__spec__=SimpleNamespace(name="training.papers.smith2007.__main__"))
    monkeypatch.setitem(sys.modules, "__main__", module)
    argv = ["x", "--output", "/home/me/out", "lg=/home/me/lg", "--only", "a b"]
    monkeypatch.setattr(sys, "argv", argv)
    wanted = "python -m training.papers.smith2007 --output out lg=lg --only 'a b'"
    assert recording.command() == wanted


def test_pages_show_the_figures():
    command = [sys.executable, "-m", "training.tables", "--check"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_verdicts():
    assert [name for name in report.PAPERS if set(report.verdicts(name)) != {True}] == []
