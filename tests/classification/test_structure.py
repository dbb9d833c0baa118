"""The searches against slow ones that try every candidate on slow nets."""

from itertools import combinations, permutations, product

import numpy as np
import pytest
from classification.nets import (
    LABELS,
    VARIABLES,
    SlowNet,
    joint_counts,
    named,
    slow_accuracy,
    slow_left_out,
    slow_log_likelihood,
    tables,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn.classification import BayesNetSettings
from spacy_structlearn.classification.features import Table
from spacy_structlearn.classification.nets import structure
from spacy_structlearn.classification.nets.counts import CountedInstances, JointCounts
from spacy_structlearn.errors import StructlearnError


def instances_of(table, dev):
    counts = joint_counts(*table)
    if dev is None:
        return CountedInstances.left_out(counts)
    ids = np.array([LABELS.index(label) for label in dev[1]], dtype=np.int64)
    return CountedInstances(counts, Table.of(dev[0], VARIABLES).symbols, ids)


def judge(table, dev, tried):
    """Accuracy, rounded log-likelihood, and number of parents (to be small) of a structure."""
    if dev is None:
        scores, labels = slow_left_out(*table, LABELS, tried), table[1]
    else:
        slow = SlowNet(*table)
        scores = [[slow.log_joint(row, label, tried) for label in LABELS] for row in dev[0]]
        labels = dev[1]
    likelihood = slow_log_likelihood(scores, labels, LABELS)
    n_parents = sum(1 + len(parents) for parents in tried.values())
    return slow_accuracy(scores, labels, LABELS), round(likelihood, 6), -n_parents


def slow_greedy(table, dev, max_parents, min_gain):
    placed, steps = {}, [judge(table, dev, {})]
    while True:
        tried = [
            {**placed, variable: parents}
            for variable in range(len(VARIABLES))
            if variable not in placed
            for size in range(max_parents)
            for parents in combinations(sorted(placed), size)
        ]
        if not tried:
            return placed, steps
        values = [judge(table, dev, one) for one in tried]
        best = max(range(len(tried)), key=lambda i: (values[i], -i))
        if not values[best][0] - steps[-1][0] > min_gain:
            return placed, steps
        placed = tried[best]
        steps.append(values[best])


@settings(deadline=None)
@given(
    tables(min_size=3, max_size=8),
    st.none() | tables(max_size=6),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.2]),
)
def test_greedy(table, dev, max_parents, min_gain):
    placed, values = slow_greedy(table, dev, max_parents, min_gain)
    own = BayesNetSettings(max_parents=max_parents, min_gain=min_gain)
    found, steps = structure.greedy(instances_of(table, dev), own)
    assert list(found.items()) == list(named(placed).items())
    assert [(step.variable, step.parents) for step in steps] == [(None, ()), *found.items()]
    for step, (accuracy, likelihood, _) in zip(steps, values, strict=True):
        assert step.accuracy == pytest.approx(accuracy)
        assert step.log_likelihood == pytest.approx(likelihood, abs=1e-5)


def all_structures(max_parents):
    """Every acyclic structure of the three variables, once."""
    places, found = range(len(VARIABLES)), {}
    for size in range(len(VARIABLES) + 1):
        for order in permutations(places, size):
            choices = [
                [c for n in range(max_parents) for c in combinations(sorted(order[:k]), n)]
                for k in range(size)
            ]
            for parents in product(*choices):
                tried = dict(zip(order, parents, strict=True))
                found[tuple(sorted(tried.items()))] = tried
    return list(found.values())


@settings(deadline=None, max_examples=30)
@given(tables(min_size=3, max_size=7), tables(max_size=5), st.integers(1, 3))
def test_exhaustive(table, dev, max_parents):
    best = max(judge(table, dev, one) for one in all_structures(max_parents))
    found, steps = structure.exhaustive(
        instances_of(table, dev), BayesNetSettings(max_parents=max_parents)
    )
    places = {VARIABLES.index(v): tuple(map(VARIABLES.index, of)) for v, of in found.items()}
    accuracy, likelihood, _ = judge(table, dev, places)
    assert (accuracy, likelihood) == pytest.approx(best[:2], abs=1e-5)
    assert steps[-1].accuracy == pytest.approx(accuracy)
    assert steps[0].n_candidates == len(all_structures(max_parents))
    assert [(step.variable, step.parents) for step in steps[1:]] == list(found.items())
    assert structure.ordered(found, VARIABLES) == found


def test_a_variable_must_be_worth_its_gain():
    """One variable of two that say the same is enough, and neither if much is asked for."""
    rows = [("x", "x", "q"), ("y", "y", "q")] * 10
    table = (rows, ["N", "V"] * 10)
    for search in (structure.greedy, structure.exhaustive):
        assert list(search(instances_of(table, table), BayesNetSettings(min_gain=0.1))[0]) == ["a"]
        assert search(instances_of(table, table), BayesNetSettings(min_gain=0.6))[0] == {}
    # Equal accuracy: greedy stops.
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
        structure.ordered(bad, VARIABLES)
    assert caught.value.code == "SL511"


def test_too_many_structures():
    rows = [tuple("abcdefgh")]
    counts = JointCounts(Table.of(rows), np.zeros(1, np.int64), ("N",))
    with pytest.raises(StructlearnError) as caught:
        structure.exhaustive(CountedInstances.left_out(counts), BayesNetSettings())
    assert caught.value.code == "SL512"
    # Their number has more digits than Python prints, and their parents more sets than fit.
    counts = JointCounts(Table.of([("a",) * 1000]), np.zeros(1, np.int64), ("N",))
    with pytest.raises(StructlearnError, match="1000 variables"):
        structure.exhaustive(CountedInstances.left_out(counts), BayesNetSettings(max_parents=12))
