"""Figures that are recorded part by part, with what each was made from."""

import sys
from types import SimpleNamespace

import pytest
import srsly

from training.common import recording

clean_commit = recording.clean_commit.__wrapped__  # before the fixture replaces it


def test_each_part_keeps_its_stamp(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "RESULTS", tmp_path)
    monkeypatch.setattr(recording, "command", lambda: "python -m training.x")
    monkeypatch.setattr(recording, "machine", lambda: {"cpu": "new"})
    monkeypatch.setattr(recording, "module", lambda: "training.papers.smith2007")
    # A file from before parts had stamps.
    old = {"commit": "a", "commits": {"new": "0"}, "machine": {"cpu": "old"}}
    srsly.write_json(tmp_path / "x.json", old | {"old": 1, "new": {"y": 2, "z": {"a": 3}}})
    monkeypatch.setattr(recording, "clean_commit", lambda: "b")
    recording.record("x", {"new.z.b": 1 / 3})
    monkeypatch.setattr(recording, "clean_commit", lambda: "c")
    recording.record("x", {"last.z": 4})
    found = srsly.read_json(tmp_path / "x.json")
    stamps = found["stamps"]
    assert stamps["old"] == {"commit": "a", "cpu": "old"}
    assert {part: stamp["commit"] for part, stamp in stamps.items()} == {
        "old": "a",
        "new.y": "0",
        "new.z": "b",
        "last.z": "c",
    }
    assert stamps["new.z"]["command"] == "python -m training.x"
    assert set(stamps["last.z"]) == {"commit", "date", "command", "cpu", "data"}
    assert list(stamps["last.z"]["data"]) == ["conll2000"]
    assert found["commit"] == "c"
    assert found["machine"] == {"cpu": "new"}
    assert found["new"] == {"y": 2, "z": {"a": 3, "b": 0.333333}}
    assert "commits" not in found


def test_changes_are_refused(monkeypatch):
    answers = {"rev-parse": "abc", "status": " M training/x.py"}
    monkeypatch.setattr(recording, "git", lambda name, *_: answers[name])
    with pytest.raises(SystemExit, match=r"(?s)Commit.*training/x\.py"):
        clean_commit()
    answers["status"] = ""
    assert clean_commit() == "abc"
    answers["rev-parse"] = ""
    assert clean_commit() == "unknown"


def test_steps_do_not_begin_with_changes(monkeypatch):
    def refuse():
        raise SystemExit("Commit")

    monkeypatch.setattr(recording, "clean_commit", refuse)
    done = []
    steps = [({"x": done.append(n) or n} for n in (1, 2))]
    with pytest.raises(SystemExit):
        recording.record_steps("x", steps, lambda *_: None, is_trial=False)
    assert done == []
    recording.record_steps("x", steps, lambda *_: None, is_trial=True)
    assert done == [1, 2]


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("training.papers.smith2007.__main__", "python -m training.papers.smith2007 --only 'a b'"),
        ("training.benchmarks.product", "python -m training.benchmarks.product --only 'a b'"),
        (None, "python run.py --only 'a b'"),
    ],
)
def test_commands(monkeypatch, module, expected):
    spec = None if module is None else SimpleNamespace(name=module)
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=spec))
    monkeypatch.setattr(sys, "argv", ["run.py", "--only", "a b"])
    assert recording.command() == expected


def test_a_table_that_is_recorded_as_a_whole_has_one_stamp(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "RESULTS", tmp_path)
    recording.record("x", {"structure": {"n1": ["p"]}, "a.b.c": 1})
    assert set(recording.stamps_of(srsly.read_json(tmp_path / "x.json"))) == {"structure", "a.b"}


def test_a_command_names_no_folder_of_one_machine(monkeypatch):
    monkeypatch.setattr(recording, "module", lambda: "training.x")
    monkeypatch.setattr(sys, "argv", ["x", "--output", "/home/me/out", "--work", "training/work"])
    assert recording.command() == "python -m training.x --output out --work training/work"
