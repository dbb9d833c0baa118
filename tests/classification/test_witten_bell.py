"""Smoothed tables against dictionaries; the gradients of the objectives of the d."""

import numpy as np
import pytest
from classification.nets import LABELS, VARIABLES, joint_counts, structures, tables
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from spacy_structlearn.classification.features import Table
from spacy_structlearn.classification.nets import witten_bell
from spacy_structlearn.classification.nets.counts import CountedInstances


def family_of(instances, variable, parents):
    contexts = witten_bell.contexts(instances.counts, variable, parents)
    return witten_bell.family(instances, variable, contexts)


def families(instances, structure):
    target = instances.counts.target
    return {
        variable: family_of(instances, target if variable is None else variable, parents)
        for variable, parents in {None: (), **structure}.items()
    }


def test_by_hand():
    """P(x | N) of four rows, three of them N: x twice and y once among N."""
    rows = [("x", "q", "q"), ("x", "q", "q"), ("y", "q", "q"), ("z", "q", "q")]
    counts = joint_counts(rows, ["N", "N", "N", "V"])
    symbols = Table.of([("x", "q", "q"), ("w", "q", "q")], VARIABLES).symbols
    family = family_of(CountedInstances(counts, symbols), 0, ())
    p = np.broadcast_to(witten_bell.probabilities(family, [2.0, 0.5]), (2, 3))
    # The empty context: 4 rows, 3 values, so lambda = 4 / (4 + 2 * 3); V = 4.
    x, w = 0.4 * 2 / 4 + 0.6 / 4, 0.6 / 4
    assert p[0].tolist() == pytest.approx([0.75 * 2 / 3 + 0.25 * x, x, x / 3], rel=1e-12)
    assert p[1].tolist() == pytest.approx([0.25 * w, w, w / 3], rel=1e-12)


def test_parents_with_many_values_are_dropped_first():
    rows = [("x", "1", "k"), ("x", "2", "l"), ("x", "3", "l"), ("y", "3", "m")]
    counts = joint_counts(rows, ["N", "V", "N", "V"])
    # Values: a 2, b 3, c 3; the class 2, which is kept before all that have as many.
    assert counts.target == 3
    assert witten_bell.contexts(counts, 2, (0, 1)) == ((), (3,), (0, 3), (0, 1, 3))
    assert witten_bell.contexts(counts, 0, (1, 2)) == ((), (3,), (1, 3), (1, 2, 3))
    assert witten_bell.contexts(counts, 3, ()) == ((),)
    single = joint_counts([("x", "1", "k")] * 3, ["N", "O", "V"])
    assert witten_bell.contexts(single, 1, (0,)) == ((), (0,), (0, 3))


@settings(max_examples=30)
@given(
    tables(min_size=2),
    structures(),
    st.sampled_from(["joint", "conditional"]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 99),
)
def test_gradient(table, structure, fit, tied, left_out, seed):
    counts = joint_counts(*table)
    instances = CountedInstances.left_out(counts)
    if not left_out:
        instances = CountedInstances(counts, counts.table.symbols[::-1], counts.label_ids)
    objective = witten_bell.Objective(
        families(instances, structure).values(),
        instances.label_ids,
        len(LABELS),
        conditional=fit == "conditional",
        tied=tied,
        l2=0.5,
    )
    theta = np.random.default_rng(seed).normal(0, 1, objective.n)
    value, gradient = objective(theta)
    numeric = approx_fprime(theta, lambda x: objective(x)[0], 1e-6)
    np.testing.assert_allclose(gradient, numeric, atol=2e-4, rtol=1e-4)
    # The value itself, from the probabilities.
    scores = np.zeros(instances.shape)
    tables_of = families(instances, structure).values()
    for family, d in zip(tables_of, objective.split(theta), strict=True):
        scores += np.log(witten_bell.probabilities(family, d))
    own = scores[np.arange(len(scores)), instances.label_ids]
    if fit == "conditional":
        own = own - np.log(np.exp(scores).sum(axis=1))
    assert value == pytest.approx(-own.sum() + (theta**2).sum() / 4)


def test_far_away():
    """A d that a search makes huge or tiny neither overflows nor makes a number of nothing."""
    counts = joint_counts([("x", "y", "z"), ("x", "y", "w")], ["N", "V"])
    objective = witten_bell.Objective(
        families(CountedInstances.left_out(counts), {0: (), 1: (0,)}).values(),
        counts.label_ids,
        3,
        conditional=True,
        tied=True,
        l2=0.0,
    )
    for theta in (-2000.0, 2000.0):
        (d, *_) = objective.split(np.array([theta]))
        assert np.isfinite(d).all()
        assert (d > 0).all()
    assert np.isfinite(objective(np.array([2000.0]))[0])
