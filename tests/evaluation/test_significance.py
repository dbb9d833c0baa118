"""The paired bootstrap, and McNemar's test against SciPy's tests."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, chi2

from spacy_structlearn.evaluation.significance import FEW, mcnemar, paired_bootstrap, resampled

COUNTS = st.integers(0, 60)


def share(sums):
    return sums[..., 0] / np.maximum(sums[..., 1], 1)


@given(COUNTS, COUNTS)
def test_mcnemar(only_a, only_b):
    a, b = "VN" * 2 + "V" * only_a + "N" * only_b, "VN" * 2 + "N" * only_a + "V" * only_b
    result, number = mcnemar("V" * len(a), a, b), only_a + only_b
    assert result[:2] == (only_a, only_b)
    if number >= FEW:
        wanted = chi2.sf(max(abs(only_a - only_b) - 1, 0) ** 2 / number, 1)
    else:
        wanted = binomtest(only_a, number, 0.5).pvalue if number else 1.0
    assert result.p == pytest.approx(wanted)


def test_the_bootstrap_agrees_with_the_normal_approximation():
    random = np.random.default_rng(1)
    first, second = random.random((2, 400)) < np.array([[0.6], [0.7]])
    ones = np.ones(400)
    sides = [np.stack([right, ones], axis=1) for right in (first, second)]
    found = paired_bootstrap(*sides, share)
    change = second.astype(float) - first
    error = change.std() / 20
    assert found.first == first.mean()
    assert found.second == second.mean()
    assert found.low == pytest.approx(change.mean() - 1.96 * error, abs=0.1 * error)
    assert found.high == pytest.approx(change.mean() + 1.96 * error, abs=0.1 * error)
    assert found.p == pytest.approx(chi2.sf((change.mean() / error) ** 2, 1), abs=0.03)


def test_equal_models_do_not_differ():
    counts = np.array([[1, 2], [3, 4]])
    assert [float(value) for value in paired_bootstrap(counts, counts, share)[2:]] == [0, 0, 1]


def test_there_may_be_no_sentences():
    assert resampled(np.zeros((0, 2)), 5).tolist() == [[0, 0]] * 5
