"""M-estimation of grammars: its objective on counts of trees, and its trainer."""

from functools import cache

import numpy as np
import pytest
from test_fragments import ALL, ODD
from treebanks import sample, toy

from spacy_structlearn import serialization
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.decode import ChartParser
from spacy_structlearn.grammar.em import treebank_grammar
from spacy_structlearn.grammar.estimators import SplitMerge
from spacy_structlearn.grammar.fragment_weights import FragmentFeatures
from spacy_structlearn.grammar.m_estimation import (
    PASSES,
    FragmentStatistics,
    MEstimation,
    words_of,
)
from spacy_structlearn.grammar.product import Product
from spacy_structlearn.grammar.span_grammar import SpanGrammar
from spacy_structlearn.grammar.symbols import binarize

BASE = SplitMerge(rounds=0, root="R")
# Few enough features that every phase is over in a moment.
FEW = FragmentFeatures(("RULE|PARENT", "LABEL|SUFFIX2[last]", "TAG|WORD[before]"), min_count=1)
KIND = "m_estimated_grammar_state"


@cache
def statistics(templates=ALL, min_count=1):
    data = binarize(toy() + ODD, root="R")
    features = FragmentFeatures(templates, min_count=min_count)
    return FragmentStatistics(features, treebank_grammar(data), data)


# --- the objective -------------------------------------------------------------------------------
def test_the_gradient_against_finite_differences():
    own = statistics()
    objective = own.optimizer(2.0).objective
    rng = np.random.default_rng(0)
    w = rng.normal(scale=0.1, size=len(own.weights))
    value, gradient = objective.value_and_grad(w)
    alpha = np.exp(-own.counts @ w)
    assert value == pytest.approx(alpha.mean() + w @ own.expectations + w @ w / 4)
    for _ in range(10):
        direction, step = rng.normal(size=len(w)), 1e-6
        ends = [objective.value(w + s * direction) for s in (step, -step)]
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(gradient @ direction, rel=1e-4)


@pytest.mark.parametrize("c", [0.1, 10.0])
def test_the_optimum_is_stationary(c):
    own = statistics()
    dual = own.optimizer(c, tolerance=1e-12).run(5000)
    assert dual.converged
    alpha = np.exp(-own.counts @ dual.w)
    found = own.counts.T @ alpha / len(alpha)
    np.testing.assert_allclose(found, own.expectations + dual.w / c, atol=1e-5)
    assert dual.value < own.optimizer(c).objective.value(0 * dual.w)


def test_a_prior_for_each_feature():
    own, c, scaling = statistics(), 1.5, 0.75
    dual = own.optimizer(c, scaling=scaling, tolerance=1e-12).run(5000)
    assert dual.converged
    means = own.counts.toarray().mean(axis=0)
    weights = own.estimate(dual.w, scaling)
    w = dual.w * means ** (-scaling / 2)
    np.testing.assert_allclose(weights.values, w, rtol=1e-6)
    alpha = np.exp(-own.counts @ w)
    found = own.counts.T @ alpha / len(alpha)
    np.testing.assert_allclose(found, own.expectations + w * means**scaling / c, atol=1e-5)
    alike = own.estimate(dual.w)
    np.testing.assert_array_equal(alike.values, dual.w.astype(np.float32))


@pytest.mark.parametrize("scaling", [0.0, 0.75])
def test_rules_alone_leave_the_treebank_grammar_as_it_is(scaling):
    own = statistics(("RULE",))
    dual = own.optimizer(100.0, scaling=scaling, tolerance=1e-10).run(200)
    assert dual.converged
    np.testing.assert_allclose(dual.w, 0, atol=1e-4)
    assert dual.value == pytest.approx(1, abs=1e-9)


def test_substates_tell_more_than_rules():
    data = binarize(toy() + ODD, root="R")
    grown = SplitMerge(rounds=1, split_iterations=4, root="R").trainer(None, [data])
    while grown.step():
        pass
    own = FragmentStatistics(
        FragmentFeatures(["RULE|PARENT"], min_count=1), grown.parameters(), data
    )
    plain = statistics(("RULE|PARENT",))
    np.testing.assert_array_equal(own.weights.keys, plain.weights.keys)
    np.testing.assert_array_equal(own.counts.toarray(), plain.counts.toarray())
    gaps = [np.abs(x.expectations - x.counts.mean(axis=0)).sum() for x in (own, plain)]
    assert gaps[0] < gaps[1]


def test_rare_features_are_left_out():
    every, some = statistics(), statistics(min_count=3)
    total = np.asarray(every.counts.sum(axis=0)).ravel()
    frequent = total >= 3
    np.testing.assert_array_equal(some.weights.keys, every.weights.keys[frequent])
    np.testing.assert_array_equal(some.counts.toarray(), every.counts.toarray()[:, frequent])
    np.testing.assert_allclose(some.expectations, every.expectations[frequent], rtol=1e-12)
    assert (np.diff(every.weights.keys.astype(object)) > 0).all()
    assert every.weights.n_weights == 0


def test_without_features():
    own = statistics(("RULE",), 1000)
    assert own.counts.shape == (len(toy() + ODD), 0)
    assert own.optimizer(1.0, scaling=0.5).run(5).converged
    trainer, _ = run(settings(features=FragmentFeatures(("RULE",), min_count=1000)))
    assert len(trainer.parameters().fragments) == 0
    bare = ChartParser(SpanGrammar(trainer.parameters().grammar)).parse([["tora", "naita"]])
    found = ChartParser(trainer.parameters()).parse([["tora", "naita"]])
    assert found[0].spans == bare[0].spans


def test_words():
    gold = toy() + ODD
    assert words_of(binarize(gold, root="R")) == [tree.words() for tree in gold]
    assert words_of(binarize(gold, "left", root="R")) == [tree.words() for tree in gold]


# --- the trainer ---------------------------------------------------------------------------------
def settings(**changes):
    known = {"base": BASE, "features": FEW, "folds": 3, "conditional_iterations": 13}
    return MEstimation(
        **{**known, "max_passes": 25, "tolerance": 0.0, "c": 50.0, "l2": 0.1, **changes}
    )


def run(estimator, data=None, state=None, stop=None):
    """A trainer that has done all, or its state at the callback numbered `stop`; and the calls."""
    trainer = estimator.trainer(None, [data or toy() + ODD])
    calls, states = [], []

    def callback(*call):
        calls.append(call)
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
        return states[0], calls
    return trainer, calls


@cache
def done():
    return run(settings())


def same(mine, its):
    assert mine.parameters() == its.parameters()
    assert mine.parameters().to_bytes() == its.parameters().to_bytes()
    assert mine.value == its.value


def phases(calls):
    return list(dict.fromkeys(call[1] for call in calls if call[1] != "em"))


def test_phases_and_steps():
    trainer, calls = done()
    assert not trainer.step()
    own = [(number, phase) for number, phase, *_ in calls]
    passes = [call for call in calls if call[1] == "m_estimation"]
    assert [call[2] for call in passes] == list(range(1, 26))
    assert {call[0] for call in passes} == {0}
    assert [n for n, phase in dict.fromkeys(own) if phase == "forests"] == [1, 2, 3]
    climbed = [call for call in calls if call[1] == "conditional"]
    assert [call[2] for call in climbed] == list(range(1, 14))
    assert -trainer.value == climbed[-1][3]
    values = [-call[3] for call in climbed]
    assert values == sorted(set(values), reverse=True)
    # The base, three times passes, three folds, and twice iterations.
    assert trainer.n_iterations == 1 + 3 + 3 + 2
    assert len(calls) + trainer.n_iterations - 1 <= settings().max_iterations


@pytest.mark.parametrize(
    "changes",
    [
        {"conditional_iterations": 0},
        {"conditional_iterations": 0, "max_passes": 0},
        {"conditional_iterations": 1, "max_passes": 0, "folds": 1},
        {"conditional_iterations": 20, "start": "zero"},
        {"base": SplitMerge(rounds=1, split_iterations=2, merge_iterations=1, root="R")},
    ],
)
def test_the_most_iterations(changes):
    estimator = settings(**changes)
    trainer, calls = run(estimator)
    assert len(calls) + trainer.n_iterations - 1 <= estimator.max_iterations
    assert not trainer.step()


def test_values_of_the_phases():
    trainer = settings().trainer(None, [toy() + ODD])
    assert trainer.parameters().fragments is None
    trainer.step()
    grammar = trainer.parameters()
    assert grammar == SpanGrammar(treebank_grammar(binarize(toy() + ODD, root="R")))
    own = FragmentStatistics(FEW, grammar.grammar, binarize(toy() + ODD, root="R"))
    dual = own.optimizer(50.0, scaling=0.75, tolerance=0.0)
    for step in range(3):
        trainer.step()
        dual.run(min(PASSES, 25 - step * PASSES))
        assert trainer.value == dual.value
        assert trainer.parameters().fragments == own.estimate(dual.w, 0.75)
    estimate = trainer.parameters()
    for _ in range(3):
        trainer.step()
        assert trainer.parameters() == estimate
        assert trainer.value > 0
    while trainer.step():
        pass
    assert trainer.parameters() != estimate
    assert trainer.parameters().grammar == grammar.grammar


@pytest.mark.parametrize("stop", range(1, 77, 5))
def test_resume(stop):
    whole, calls = done()
    stop = min(stop, len(calls))
    state, first = run(settings(), stop=stop)
    assert first == calls[:stop]
    again, rest = run(settings(), state=state)
    same(again, whole)
    numbers = [
        [call[2:] for call in part if call[1] in ("m_estimation", "conditional")]
        for part in (first + rest, calls)
    ]
    assert list(dict.fromkeys(numbers[0])) == numbers[1]


def test_resume_in_the_last_iterations():
    whole, calls = done()
    for back in range(4):
        state, _ = run(settings(), stop=len(calls) - back)
        again, _ = run(settings(), state=state)
        same(again, whole)


@pytest.mark.parametrize("steps", range(10))
def test_resume_between_steps(steps):
    whole, _ = done()
    trainer = settings().trainer(None, [toy() + ODD])
    for _ in range(steps):
        trainer.step()
    again = settings().trainer(None, [toy() + ODD])
    assert again.resume(trainer.to_bytes())
    assert (again.n_iterations, again.value) == (steps, trainer.value)
    assert again.parameters() == trainer.parameters()
    while again.step():
        pass
    same(again, whole)
    assert again.n_iterations == whole.n_iterations


def test_resume_for_more_iterations():
    whole, _ = done()
    state = run(settings(conditional_iterations=4))[0].to_bytes()
    same(run(settings(), state=state)[0], whole)
    state = run(settings(conditional_iterations=0))[0].to_bytes()
    same(run(settings(), state=state)[0], whole)
    fewer = settings(conditional_iterations=3).trainer(None, [toy() + ODD])
    assert fewer.resume(whole.to_bytes())
    assert not fewer.step()
    same(fewer, whole)


def test_no_resume_with_other_settings_or_data():
    state = done()[0].to_bytes()
    features = FragmentFeatures(("RULE",))
    for changes in (
        {"seed": 1},
        {"folds": 2},
        {"c": 3.0},
        {"scaling": 0.0},
        {"l2": 3.0},
        {"max_passes": 26},
        {"start": "zero"},
        {"features": features},
        {"base": SplitMerge(rounds=1, root="R")},
    ):
        assert not settings(**changes).trainer(None, [toy() + ODD]).resume(state)
    assert not settings().trainer(None, [toy()]).resume(state)
    assert settings(threads=2).trainer(None, [toy() + ODD]).resume(state)
    with pytest.raises(StructlearnError, match="SL05"):
        settings().trainer(None, [toy() + ODD]).resume(b"nothing")


@pytest.mark.parametrize(
    "bad",
    [
        {"grammar": None},
        {"grammar": 3},
        {"weights": np.zeros(2, np.float32)},
        {"weights": "none"},
        {"optimizer": np.zeros(3, np.uint8)},
        {"dual": np.zeros(3, np.uint8)},
    ],
)
def test_damaged_states(bad):
    _, fields = serialization.unpack(done()[0].to_bytes(), KIND, {1})
    state = serialization.pack(KIND, 1, {**fields, **bad})
    with pytest.raises(StructlearnError, match="SL05"):
        settings().trainer(None, [toy() + ODD]).resume(state)
    fields.pop("estimated")
    with pytest.raises(StructlearnError, match="SL054"):
        settings().trainer(None, [toy() + ODD]).resume(serialization.pack(KIND, 1, fields))


def test_damage_changes_nothing(refuses_damage):
    state = done()[0].to_bytes()
    refuses_damage(lambda: settings().trainer(None, [toy() + ODD]), state, unread=("base",))


def test_threads_make_no_difference():
    same(run(settings(threads=2))[0], done()[0])


def test_the_start_makes_a_difference():
    whole, _ = done()
    zero, calls = run(settings(start="zero"))
    assert phases(calls)[-2:] == ["forests", "conditional"]
    assert "m_estimation" not in phases(calls)
    np.testing.assert_array_equal(
        zero.parameters().fragments.keys, whole.parameters().fragments.keys
    )
    assert zero.parameters() != whole.parameters()
    # The first evaluation is that of weights of 0.
    trainer = settings(start="zero").trainer(None, [toy() + ODD])
    for _ in range(4):
        trainer.step()
    assert trainer.parameters().fragments is None
    state = trainer.to_bytes()
    again, _ = run(settings(start="zero"), state=state)
    same(again, zero)
    alone, _ = run(settings(start="zero", conditional_iterations=0))
    assert alone.parameters().fragments is None


def test_one_fold_is_parsed_by_the_grammar_itself():
    trainer, calls = run(settings(folds=1))
    assert {call[0] for call in calls if call[1] == "forests"} == {1}
    assert trainer.left_out == 0
    gold = toy() + ODD
    parser = ChartParser(trainer.parameters(), decoder="labelled_recall", thresholds=(1e-3,))
    bare = ChartParser(SpanGrammar(trainer.parameters().grammar), decoder="labelled_recall")
    right = [
        sum(parse.spans == tree.spans()[len(tree.children) < 2 :] for parse, tree in pairs)
        for pairs in (
            list(zip(p.parse([tree.words() for tree in gold]), gold, strict=True))
            for p in (parser, bare)
        )
    ]
    assert right[0] >= right[1]


def test_more_folds_than_trees():
    trainer, calls = run(settings(folds=100))
    numbers = [call[0] for call in calls if call[1] == "forests"]
    assert sorted(set(numbers)) == list(range(1, len(toy() + ODD) + 1))
    assert trainer.left_out >= 0
    alone, _ = run(settings(folds=5), data=toy()[:1])
    assert alone.parameters().fragments is not None


def test_data_may_be_added():
    trainer = settings().trainer(None, [toy()])
    for _ in range(3):
        trainer.step()
    trainer.add([ODD])
    assert trainer.n_iterations == 0
    while trainer.step():
        pass
    same(trainer, done()[0])


def test_the_grammar_without_training():
    found = settings().initialize([toy() + ODD])
    assert found.fragments is None
    assert found.grammar == BASE.initialize([toy() + ODD])


def test_no_trees():
    with pytest.raises(StructlearnError, match="SL407"):
        settings().trainer(None, [[]])


@pytest.mark.parametrize(
    "bad",
    [
        {"c": 0.0},
        {"c": np.inf},
        {"scaling": -1.0},
        {"tolerance": -1e-9},
        {"tolerance": np.nan},
        {"max_passes": -1},
        {"conditional_iterations": -1},
        {"l2": -1.0},
        {"start": "one"},
        {"folds": 0},
        {"threshold": 1.5},
        {"seed": -1},
        {"threads": 0},
    ],
)
def test_settings_out_of_range(bad):
    with pytest.raises(StructlearnError) as error:
        MEstimation(**bad)
    assert error.value.code == "SL406"
    assert next(iter(bad)) in str(error.value)


def test_products_have_no_expectations():
    with pytest.raises(StructlearnError, match=r"SL443.*3 grammars"):
        MEstimation(base=Product(BASE, 3))


def test_a_grammar_that_improves():
    gold = [tree for tree in sample() if len(tree.words()) <= 12]
    estimator = MEstimation(features=FragmentFeatures(), threshold=1e-3)
    trainer, _ = run(estimator, data=gold)
    grammar = trainer.parameters()
    words = [tree.words() for tree in gold]

    def right(model):
        parses = ChartParser(model, decoder="labelled_recall", thresholds=(1e-3,)).parse(words)
        return sum(
            len(set(parse.spans) & set(tree.spans()))
            for parse, tree in zip(parses, gold, strict=True)
        )

    assert right(grammar) > right(SpanGrammar(grammar.grammar))
