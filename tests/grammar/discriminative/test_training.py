"""Conditional training, level after level: what it reaches, and that it can be taken up again."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from grammar import treebanks
from grammar.numpy_forest import SETTINGS, learned

from spacy_structlearn.grammar.discriminative import training as hierarchical
from spacy_structlearn.grammar.discriminative.forests import Forests
from spacy_structlearn.grammar.discriminative.objective import Parameterization
from spacy_structlearn.grammar.discriminative.settings import (
    BASES,
    LEVEL_STARTS,
    ConditionalGrammarSettings,
)
from spacy_structlearn.grammar.discriminative.training import Objectives, copied
from spacy_structlearn.pipeline.architectures import estimator as learner

BRIEF = SETTINGS["simple"].part(
    ConditionalGrammarSettings,
    rounds=2,
    split_iterations=4,
    merge_iterations=2,
    smooth_iterations=2,
    root="R",
    l1=0.0,
    l2=0.2,
    conditional_iterations=4,
    threshold=1e-4,
    shards=2,
)


def run(settings, state=None, stop=None):
    """A trainer that has done all, or all before the callback numbered `stop`; and the calls."""
    trainer = learner(settings).trainer(None, treebanks.toy())
    calls, states = [], []

    def callback(value):
        calls.append((trainer._next_level if trainer.has_grammars else None, value))
        if len(calls) == stop:
            states.append(trainer.to_bytes())
            raise KeyboardInterrupt

    trainer.on_iteration = callback
    if state is not None:
        assert trainer.resume(state)
    try:
        while trainer.step():
            pass
    except KeyboardInterrupt:
        trainer.close()
        return states[0], calls
    return trainer, calls


@cache
def done():
    return run(BRIEF)


def values_of(calls, level):
    """Minus the objective after each iteration of a level."""
    return [value for number, value in calls if number == level]


# --- training -------------------------------------------------------------------------------------
def test_each_level_is_trained():
    trainer, calls = done()
    assert [record.level for record in trainer.records] == [0, 1, 2]
    steps = 3 + 3
    assert trainer.n_iterations == steps
    assert len(calls) + steps - 1 <= BRIEF.n_reports
    for record in trainer.records:
        values = values_of(calls, record.level)
        assert values == sorted(values)
        assert record.iterations == len(values) <= BRIEF.conditional_iterations
        assert BRIEF.conditional_iterations <= record.evaluations
        assert record.value == -values[-1]
        assert record.nonzero <= record.parameters
        assert -record.value <= record.log_likelihood < 0
        assert record.left_out == 0
        assert record.forests.sentences == len(treebanks.toy())
    likelihoods = [record.log_likelihood for record in trainer.records]
    assert likelihoods == sorted(likelihoods)
    whole = trainer.parameters()
    assert whole == type(whole).from_bytes(whole.to_bytes())


@pytest.mark.parametrize("start", LEVEL_STARTS)
@pytest.mark.parametrize("base", BASES)
def test_bases_and_starts(base, start):
    trainer, calls = run(replace(BRIEF, base=base, start=start, l1=0.05, l2=0.0))
    for record in trainer.records:
        values = values_of(calls, record.level)
        assert values == sorted(values)
        assert values[-1] > values[0]
    if base == "generative":
        assert 0 < record.nonzero < record.parameters


def test_parameters_copied_are_those_of_what_is_refined():
    _, grammar = learned("toy", "simple")
    before, after = (Parameterization(grammar, n, "uniform") for n in (1, 2))
    theta = np.random.default_rng(0).normal(size=before.n_parameters)
    found = copied(before, after, theta, 1)
    np.testing.assert_array_equal(found, copied(before, after, theta, 1))
    assert np.abs(found - copied(before, after, theta, 2)).max() > 0
    coarse, fine = grammar.levels[1:]
    old, new = (x.refined(x.weights(y))[0] for x, y in ((before, theta), (after, found)))
    for rule, symbols in enumerate(grammar.rules.binary.tolist()):
        ancestors = [fine.ancestors[slice(*fine.offsets[s : s + 2])] for s in symbols]
        wanted = old.block("binary", rule)[np.ix_(*ancestors)]
        np.testing.assert_allclose(new.block("binary", rule), wanted, rtol=0.02)
    assert coarse.size < fine.size


# --- forests --------------------------------------------------------------------------------------
@pytest.mark.parametrize("threshold", [0.0, 1e-4, 1e-2])
@pytest.mark.parametrize("kind", SETTINGS)
def test_forests_made_few_at_a_time_are_those_of_all(monkeypatch, kind, threshold):
    data, grammar = learned("toy", kind)
    settings = ConditionalGrammarSettings(rounds=2, threshold=threshold, shards=2)
    rng = np.random.default_rng(0)
    whole = Objectives(settings, data, grammar)
    n = Parameterization(grammar, 1, settings.base).n_parameters
    trained = {1: rng.normal(scale=0.3, size=n)}
    wanted = whole.objective(2, trained)
    monkeypatch.setattr(hierarchical, "AT_ONCE", 3)
    parts = Objectives(settings, data, grammar, 2, trained)
    found = parts.objective(2, trained)
    assert parts.statistics == whole.statistics
    assert np.isin(parts.keys, whole.keys).all()
    theta = rng.normal(scale=0.3, size=wanted.parameterization.n_parameters)
    (value, gradient), (other, its) = (x.value_and_grad(theta) for x in (wanted, found))
    assert other == value
    np.testing.assert_array_equal(its, gradient)
    with pytest.raises(ValueError, match="forests of level 2"):
        parts.objective(1, trained)
    parts.close()
    whole.close()


# --- sentences that float32 loses -----------------------------------------------------------------
def lose(monkeypatch, *lost):
    """Let float32 lose some trees, by number, from their first evaluation on."""
    original = Forests.expected_counts

    def expected_counts(self, weights):
        log_z, counts = original(self, weights)
        log_z[np.isin(self.trees, lost)] = -np.inf
        return log_z, counts

    monkeypatch.setattr(Forests, "expected_counts", expected_counts)


def test_lost_sentences_stay_lost_when_training_goes_on(monkeypatch):
    _, others = done()  # before trees are lost
    lose(monkeypatch, 1, 4)
    whole, calls = run(BRIEF)
    assert [record.left_out for record in whole.records] == [2, 2, 2]
    assert calls != others
    assert whole._lost.tolist() == [1, 4]
    for stop in (len(calls) - 6, len(calls) - 1):
        state, before = run(BRIEF, stop=stop)
        # What is lost is known, and nothing else may be.
        monkeypatch.undo()
        trainer, after = run(BRIEF, state)
        lose(monkeypatch, 1, 4)
        assert [*before, *after] == calls
        assert trainer.parameters().to_bytes() == whole.parameters().to_bytes()
        assert [record.left_out for record in trainer.records] == [2, 2, 2]


def test_a_sentence_that_is_lost_later_is_an_overflow():
    data, grammar = learned("toy")
    settings = ConditionalGrammarSettings(rounds=2, shards=2, l2=0.0)
    objectives = Objectives(settings, data, grammar, 1)
    objective = objectives.objective(1, {}, may_lose=False)
    theta = np.zeros(objective.parameterization.n_parameters)
    assert objective.value_and_grad(theta - 200)[0] == np.inf
    assert np.isfinite(objective.value_and_grad(theta)[0])
    assert not objectives.left_out
    objectives.close()
