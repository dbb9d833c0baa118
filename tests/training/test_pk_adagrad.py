"""AdaGrad for conditional grammars: it ends near the objective that OWL-QN reaches."""

import pytest

from training.papers.petrov_klein2007 import adagrad


def test_both_solvers_reach_the_same_objective(monkeypatch, sample):
    monkeypatch.setattr(adagrad, "wsj_trees", lambda corpora, part: sample)
    settings = adagrad.SETTINGS.part(type(adagrad.SETTINGS), rounds=1, root="TOP")
    monkeypatch.setattr(adagrad, "SETTINGS", settings)
    monkeypatch.setattr(adagrad, "BATCH", 16)
    owlqn, by_adagrad = (adagrad.measure(solver, None, None) for solver in adagrad.SOLVERS)
    assert owlqn["converged"]
    assert by_adagrad["converged"]
    assert by_adagrad["value"] == pytest.approx(owlqn["value"], rel=0.01)
    assert by_adagrad["value"] >= owlqn["value"] * (1 - 1e-3)
