"""Accuracy of labels, and McNemar's test against SciPy's tests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, chi2

from training.common.labels import FEW, mcnemar, score_labels

COUNTS = st.integers(0, 60)


def result_of(only_a, only_b, both=3, neither=2):
    a = "V" * only_a + "N" * only_b + "V" * both + "N" * neither
    b = "N" * only_a + "V" * only_b + "V" * both + "N" * neither
    return mcnemar("V" * len(a), a, b)


def test_accuracy():
    score = score_labels("VVVNN", "VVNNV")
    assert (score.correct, score.total, score.accuracy) == (3, 5, 0.6)
    assert score.standard_error == pytest.approx((0.6 * 0.4 / 5) ** 0.5)
    assert score_labels([], []).accuracy == score_labels([], []).standard_error == 0.0


@given(COUNTS, COUNTS)
def test_mcnemar(only_a, only_b):
    result, number = result_of(only_a, only_b), only_a + only_b
    assert result[:2] == (only_a, only_b)
    if number >= FEW:
        difference = max(abs(only_a - only_b) - 1, 0)
        wanted = chi2.sf(difference**2 / number, 1)
    else:
        wanted = binomtest(only_a, number, 0.5).pvalue if number else 1.0
    assert result.p == pytest.approx(wanted)
