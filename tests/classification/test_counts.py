"""Seeds of sets of variables, and the checks of the kernel; for counts see `test_bayes_net`."""

from itertools import combinations

import numpy as np
import pytest

from spacy_structlearn.classification.nets._counts import BayesNetKernel
from spacy_structlearn.classification.nets.counts import seed_of

SUBSETS = [subset for size in range(5) for subset in combinations(range(4), size)]


def test_seeds_go_by_names():
    assert seed_of(("a", "b", "c"), (0, 2)) == seed_of(("a", "c"), (0, 1))
    seeds = [seed_of(("a", "b", "c"), subset) for subset in SUBSETS]
    assert len(set(seeds)) == len(SUBSETS)
    assert seed_of(("ab", "c"), (0, 1)) != seed_of(("a", "bc"), (0, 1))


NETWORK = {
    "keys": np.array([5, 7, 9], np.uint64),
    "counts": np.array([2.0, 1.0, 1.0]),
    "starts": np.array([0, 1, 3], np.int64),
    "seeds": np.array([0, 1], np.uint64),
    "columns": np.array([1], np.int32),
    "column_starts": np.array([0, 0, 1], np.int32),
    "table_starts": np.array([0, 1], np.int32),
    "context_sets": np.array([0], np.int32),
    "event_sets": np.array([1], np.int32),
    "distinct": np.array([2.0]),
    "distinct_starts": np.array([0, 1], np.int64),
    "d": np.ones(1),
    "uniform": np.full(1, 1 / 3),
    "symbols": np.array([7, 9], np.uint64),
    "n_columns": 1,
}


def test_a_network_is_checked():
    out = np.empty((2, 2))
    BayesNetKernel(**NETWORK).log_joint(np.ones((2, 1), np.uint64), out)
    assert np.isfinite(out).all()
    for name, value in {
        "counts": np.array([2.0, 1.0]),
        "starts": np.array([0, 3], np.int64),
        "columns": np.array([2], np.int32),
        "distinct": np.array([0.0]),
        "distinct_starts": np.array([0], np.int64),
        "d": np.ones(2),
        "keys": np.array([5, 5, 9], np.uint64),
    }.items():
        with pytest.raises(ValueError, match=r"\w"):
            BayesNetKernel(**{**NETWORK, name: value})
    for rows, wanted in (((2, 2), (2, 2)), ((2, 1), (1, 2)), ((2, 1), (2, 3))):
        with pytest.raises(ValueError, match=r"must have|shape"):
            BayesNetKernel(**NETWORK).log_joint(np.ones(rows, np.uint64), np.empty(wanted))
