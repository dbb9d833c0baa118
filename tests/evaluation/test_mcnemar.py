import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, chi2

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.evaluation.mcnemar import FEW, McNemar, mcnemar

COUNTS = st.integers(0, 60)


def result_of(only_a, only_b, exact=None, both=3, neither=2):
    """A test with these counts."""
    a = "V" * only_a + "N" * only_b + "V" * both + "N" * neither
    b = "N" * only_a + "V" * only_b + "V" * both + "N" * neither
    return mcnemar("V" * len(a), a, b, exact=exact)


def test_a_worked_example():
    # The counts 59 and 6 of Agresti, "An Introduction to Categorical Data Analysis", by hand:
    # (53 - 1)^2 / 65.
    result = result_of(59, 6)
    assert result[:2] == (59, 6)
    assert result.statistic == pytest.approx(41.6)
    assert result.p == pytest.approx(1.1e-10, rel=0.05)
    assert not result.exact


def test_the_exact_test_by_hand():
    # 1 to 5 of six coin tosses: 2 (1 + 6) / 64.
    result = result_of(1, 5)
    assert result == McNemar(1, 5, 9 / 6, pytest.approx(14 / 64), True)


@given(COUNTS, COUNTS)
def test_both_tests_as_scipy_makes_them(only_a, only_b):
    number = only_a + only_b
    exact, other = result_of(only_a, only_b, exact=True), result_of(only_a, only_b, exact=False)
    assert (exact.exact, other.exact) == (True, False)
    if number:
        assert exact.p == pytest.approx(binomtest(only_a, number, 0.5).pvalue)
    assert other.p == pytest.approx(chi2.sf(other.statistic, 1))
    assert result_of(only_a, only_b) == (exact if number < FEW else other)


@pytest.mark.parametrize("exact", [True, False, None])
def test_nothing_tells_equal_predictions_apart(exact):
    for labels in ("", "VNV"):
        result = mcnemar("V" * len(labels), labels, labels, exact=exact)
        assert result[:4] == (0, 0, 0.0, 1.0)


@pytest.mark.parametrize(("a", "b"), [("V", "VN"), ("VN", "VNV")])
def test_one_label_for_each_item(a, b):
    with pytest.raises(StructlearnError, match=r"SL301.*labels"):
        mcnemar("VN", a, b)
