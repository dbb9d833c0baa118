"""M-estimation of grammars: its objective on counts of trees, and its trainer."""

from functools import cache

import numpy as np
import pytest
from grammar.fragments.test_features import ALL, ODD
from grammar.treebanks import finish, sample, toy

from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.fragments.settings import PASSES, MEstimatedGrammarSettings
from spacy_structlearn.grammar.fragments.training import FragmentStatistics
from spacy_structlearn.grammar.fragments.weights import FragmentGrammar
from spacy_structlearn.grammar.latent.em import treebank_grammar
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.treebank.data import binarize
from spacy_structlearn.pipeline.architectures import estimator as learner

BASE = LatentGrammarSettings(rounds=0, root="R")


@cache
def statistics(templates=ALL, min_count=1):
    data = binarize(toy() + ODD, root="R")
    features = MEstimatedGrammarSettings(templates=templates, min_count=min_count)
    return FragmentStatistics(features, treebank_grammar(data), data)


# --- the objective -------------------------------------------------------------------------------
def test_the_gradient_against_finite_differences():
    own = statistics()
    objective = own.optimizer(0.5).objective
    rng = np.random.default_rng(0)
    w = rng.normal(scale=0.1, size=len(own.weights))
    value, gradient = objective.value_and_grad(w)
    alpha = np.exp(-own.counts @ w)
    assert value == pytest.approx(alpha.mean() + w @ own.expectations + w @ w / 4)
    for _ in range(10):
        direction, step = rng.normal(size=len(w)), 1e-6
        ends = [objective.value(w + s * direction) for s in (step, -step)]
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(gradient @ direction, rel=1e-4)


@pytest.mark.parametrize("l2", [10.0, 0.1])
def test_the_optimum_is_stationary(l2):
    own = statistics()
    dual = own.optimizer(l2, tolerance=1e-12).run(5000)
    assert dual.converged
    alpha = np.exp(-own.counts @ dual.w)
    found = own.counts.T @ alpha / len(alpha)
    np.testing.assert_allclose(found, own.expectations + l2 * dual.w, atol=1e-5)
    assert dual.value < own.optimizer(l2).objective.value(0 * dual.w)


def test_a_prior_for_each_feature():
    own, l2, scaling = statistics(), 0.7, 0.75
    dual = own.optimizer(l2, scaling=scaling, tolerance=1e-12).run(5000)
    assert dual.converged
    means = own.counts.toarray().mean(axis=0)
    weights = own.estimate(dual.w, scaling)
    w = dual.w * means ** (-scaling / 2)
    np.testing.assert_allclose(weights.values, w, rtol=1e-6)
    alpha = np.exp(-own.counts @ w)
    found = own.counts.T @ alpha / len(alpha)
    np.testing.assert_allclose(found, own.expectations + l2 * w * means**scaling, atol=1e-5)
    alike = own.estimate(dual.w)
    np.testing.assert_array_equal(alike.values, dual.w.astype(np.float32))


@pytest.mark.parametrize("scaling", [0.0, 0.75])
def test_rules_alone_leave_the_treebank_grammar_as_it_is(scaling):
    own = statistics(("RULE",))
    dual = own.optimizer(0.01, scaling=scaling, tolerance=1e-10).run(200)
    assert dual.converged
    np.testing.assert_allclose(dual.w, 0, atol=1e-4)
    assert dual.value == pytest.approx(1, abs=1e-9)


def test_rare_features_are_left_out():
    every, some = statistics(), statistics(min_count=3)
    total = np.asarray(every.counts.sum(axis=0)).ravel()
    frequent = total >= 3
    np.testing.assert_array_equal(some.weights.keys, every.weights.keys[frequent])
    np.testing.assert_array_equal(some.counts.toarray(), every.counts.toarray()[:, frequent])
    np.testing.assert_allclose(some.expectations, every.expectations[frequent], rtol=1e-12)
    assert (np.diff(every.weights.keys.astype(object)) > 0).all()
    assert every.weights.n_weights == 0


# --- the trainer ---------------------------------------------------------------------------------
FEW = MEstimatedGrammarSettings(
    templates=("RULE|PARENT", "LABEL|SUFFIX2[last]", "TAG|WORD[before]"),
    min_count=1,
    grammar=BASE,
    max_iterations=25,
    tolerance=0.0,
    l2=1 / 50,
)


def test_steps_and_values():
    trainer = learner(FEW).trainer(None, [toy() + ODD])
    assert trainer.parameters().fragments is None
    trainer.step()
    grammar = trainer.parameters()
    assert grammar == FragmentGrammar(treebank_grammar(binarize(toy() + ODD, root="R")))
    own = FragmentStatistics(FEW, grammar.grammar, binarize(toy() + ODD, root="R"))
    dual = own.optimizer(1 / 50, scaling=0.75, tolerance=0.0)
    calls = []
    trainer.on_iteration = calls.append
    for step in range(3):
        assert trainer.step() == (step < 2)
        dual.run(min(PASSES, 25 - step * PASSES))
        assert trainer.value == dual.value
        assert trainer.parameters().fragments == own.estimate(dual.w, 0.75)
    assert not trainer.step()
    assert len(calls) == 25
    assert -trainer.value == calls[-1]
    assert trainer.parameters().grammar == grammar.grammar
    # The base, and three times passes.
    assert trainer.n_iterations == 1 + 3
    assert len(calls) + trainer.n_iterations - 1 <= FEW.n_reports


def test_a_grammar_that_improves():
    gold = [tree for tree in sample() if len(tree.words()) <= 12]
    trainer, _ = finish(learner(MEstimatedGrammarSettings()).trainer(None, [gold]))
    grammar = trainer.parameters()
    words = [tree.words() for tree in gold]

    def right(model):
        parses = ChartParser(model, decoder="labelled_recall", thresholds=(1e-3,)).parse(words)
        return sum(
            len(set(parse.spans) & set(tree.spans()))
            for parse, tree in zip(parses, gold, strict=True)
        )

    assert right(grammar) > right(FragmentGrammar(grammar.grammar))
