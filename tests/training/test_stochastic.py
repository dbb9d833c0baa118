"""The benchmark of stochastic steps: both solvers have the same objective."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spacy_structlearn.grammar.discriminative.objective import without_backoff
from spacy_structlearn.grammar.discriminative.settings import ConditionalGrammarSettings
from training.benchmarks import stochastic
from training.common.kept import TABLE1


@pytest.mark.parametrize("l1", [0.0, 0.2])
def test_compared(sample, l1):
    trees = [tree for tree in sample if len(tree.words()) < 15][:40]
    generative = replace(TABLE1, rounds=1, split_iterations=2)
    trainer = generative.trainer(None, [trees])
    while trainer.step():
        pass
    settings = generative.part(
        ConditionalGrammarSettings, l1=l1, l2=0.2, conditional_iterations=4, shards=2
    )
    runs = dict(
        stochastic.compared(
            settings,
            settings.encode([trees]),
            without_backoff(trainer.parameters()),
            1,
            3,
            [(10, 0.3), (20, 1.0)],
        )
    )
    assert list(runs) == ["lbfgs", "adagrad.10-0_3", "adagrad.20-1"]
    assert [len(run["points"]) for run in runs.values()] == [5, 4, 4]
    least = min(run["value"] for run in runs.values())
    for run in runs.values():
        assert run["points"][0][0] == 0
        # They start in the same place, and each gets better.
        assert run["points"][0][1] == pytest.approx(runs["lbfgs"]["points"][0][1], rel=1e-5)
        assert run["value"] < run["points"][0][1]
        if run["value"] == least:
            assert run["within_1"] <= run["cpu_s"]
