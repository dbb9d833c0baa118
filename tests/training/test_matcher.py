"""The benchmark of ConstituentMatcher."""

from spacy_structlearn import ConstituentMatcher
from training.benchmarks import matcher


def test_agreement():
    assert matcher.agreement(30) == {"matcher.random_trees": 30, "matcher.differences": 0}


def test_differences_are_counted(monkeypatch):
    monkeypatch.setattr(ConstituentMatcher, "__call__", lambda self, doc: [(0, [])])
    assert matcher.agreement(5)["matcher.differences"] == 5
