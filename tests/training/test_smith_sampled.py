"""Sampled expectations: the more sentences, the smaller the error, and what the report says."""

import pytest

from training.papers.smith2007 import beyond, models, report, sampled

SENTENCES = [
    [("the", "DT", "B-NP"), ("dog", "NN", "I-NP"), ("barks", "VBZ", "O")],
    [("a", "DT", "B-NP"), ("cat", "NN", "I-NP"), ("sleeps", "VBZ", "O"), (".", ".", "O")],
    [("dogs", "NNS", "B-NP"), ("like", "VBP", "O"), ("the", "DT", "B-NP"), ("cat", "NN", "I-NP")],
]


def test_figures_and_their_report(monkeypatch, tmp_path):
    data = models.as_data(SENTENCES * 3)
    monkeypatch.setattr(models, "training_data", lambda corpora: data)
    monkeypatch.setattr(models, "tuning_data", lambda corpora: data)
    monkeypatch.setattr(sampled, "SAMPLES", (20, 5000))
    found = {}
    for own in sampled.figures(tmp_path, beyond.PAPER, 2.0):
        found |= own
    assert found["sampled.c"] == 2.0
    assert found["sampled.5000.relative_error"] < found["sampled.20.relative_error"]
    assert found["sampled.5000.tuning_f1"] == pytest.approx(found["sampled.exact.tuning_f1"], abs=5)
    page = "\n".join(report.sampled(found))
    assert (
        page.index("| exact |") < page.index("| 20 sentences |") < page.index("| 5,000 sentences |")
    )
    assert list(report.sampled({})) == []
