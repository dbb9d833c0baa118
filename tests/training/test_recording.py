"""Figures that are recorded part by part."""

import srsly

from training.common import recording


def test_each_part_keeps_its_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "RESULTS", tmp_path)
    # A file from before commits of parts were recorded.
    srsly.write_json(tmp_path / "x.json", {"commit": "a", "machine": {}, "old": 1, "new": {"y": 2}})
    monkeypatch.setattr(recording, "_commit", lambda: "b")
    recording.record("x", {"new.z": 1 / 3})
    monkeypatch.setattr(recording, "_commit", lambda: "c")
    recording.record("x", {"last.z": 4})
    found = srsly.read_json(tmp_path / "x.json")
    assert found["commits"] == {"old": "a", "new": "b", "last": "c"}
    assert found["commit"] == "c"
    assert found["new"] == {"y": 2, "z": 0.333333}
