"""The searches against slow ones that try every candidate on slow nets."""

from itertools import combinations

import numpy as np
import pytest
from classification import nets
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn.classification import BayesNetSettings
from spacy_structlearn.classification.features import Table
from spacy_structlearn.classification.nets import structure
from spacy_structlearn.classification.nets.counts import CountedInstances
from spacy_structlearn.errors import StructlearnError


def instances_of(table, dev):
    counts = nets.joint_counts(*table)
    if dev is None:
        return CountedInstances.left_out(counts)
    ids = np.array([nets.LABELS.index(label) for label in dev[1]], dtype=np.int64)
    return CountedInstances(counts, Table.of(dev[0], nets.VARIABLES).symbols, ids)


def judge(table, dev, tried):
    """Accuracy, rounded log-likelihood, and number of parents (to be small) of a structure."""
    if dev is None:
        scores, labels = nets.slow_left_out(*table, nets.LABELS, tried), table[1]
    else:
        slow = nets.SlowNet(*table)
        scores = [[slow.log_joint(row, label, tried) for label in nets.LABELS] for row in dev[0]]
        labels = dev[1]
    likelihood = nets.slow_log_likelihood(scores, labels, nets.LABELS)
    n_parents = sum(1 + len(parents) for parents in tried.values())
    return nets.slow_accuracy(scores, labels, nets.LABELS), round(likelihood, 6), -n_parents


def slow_greedy(table, dev, max_parents):
    placed, steps = {}, [judge(table, dev, {})]
    while True:
        tried = [
            {**placed, variable: parents}
            for variable in range(len(nets.VARIABLES))
            if variable not in placed
            for size in range(max_parents)
            for parents in combinations(sorted(placed), size)
        ]
        if not tried:
            return placed, steps
        values = [judge(table, dev, one) for one in tried]
        best = max(range(len(tried)), key=lambda i: (values[i], -i))
        if not values[best][0] > steps[-1][0]:
            return placed, steps
        placed = tried[best]
        steps.append(values[best])


@settings(deadline=None)
@given(nets.tables(min_size=3, max_size=8), st.none() | nets.tables(max_size=6), st.integers(1, 3))
def test_greedy(table, dev, max_parents):
    placed, values = slow_greedy(table, dev, max_parents)
    own = BayesNetSettings(max_parents=max_parents)
    found, steps = structure.greedy(instances_of(table, dev), own)
    assert list(found.items()) == list(nets.named(placed).items())
    assert [step.variables for step in steps] == [(), *((v, *of) for v, of in found.items())]
    for step, (accuracy, likelihood, _) in zip(steps, values, strict=True):
        assert step.accuracy == pytest.approx(accuracy)
        assert step.log_likelihood == pytest.approx(likelihood, abs=1e-5)


def test_a_variable_that_says_the_same_is_left_out():
    table = [("x", "x", "q"), ("y", "y", "q")] * 10, ["N", "V"] * 10
    assert list(structure.greedy(instances_of(table, table), BayesNetSettings())[0]) == ["a"]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"a": ["b"], "b": ["a"]}, "cycle among: a, b"),
        ({"a": ["a"]}, "cycle among: a"),
        ({"q": []}, "no variable 'q'"),
        ({"a": ["q"]}, "no variable 'q'"),
        ({"a": ["b"]}, "'b', which is not in it"),
        ({"b": [], "a": ["b", "b"]}, "twice"),
        ({"b": [], "a": "b"}, "are 'b', not a list"),
        ({"a": None}, "are None, not a list"),
    ],
)
def test_bad_structures(bad, words):
    with pytest.raises(StructlearnError, match=words) as caught:
        structure.ordered(bad, nets.VARIABLES)
    assert caught.value.code == "SL511"
