from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.evaluation.calibration import Bin, expected_calibration_error, reliability

PREDICTIONS = st.lists(
    st.tuples(st.floats(0, 1) | st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0]), st.booleans()),
    max_size=60,
)
NUMBERS = st.integers(1, 15)


def arrays(predictions):
    return np.array([p for p, _ in predictions]), np.array([r for _, r in predictions], dtype=bool)


def test_by_hand():
    probabilities, right = [0.1, 0.3, 0.6, 0.8, 1.0], [False, True, True, True, False]
    assert reliability(probabilities, right, 2) == [
        Bin(0.0, 0.5, pytest.approx(0.2), 0.5, 2),
        Bin(0.5, 1.0, pytest.approx(0.8), pytest.approx(2 / 3), 3),
    ]
    error = expected_calibration_error(probabilities, right, 2)
    assert error == pytest.approx((2 * 0.3 + 3 * (0.8 - 2 / 3)) / 5)


@pytest.mark.parametrize("bins", [7, 10, 15, 100])
def test_all_edges_belong_to_the_bin_above(bins):
    # In floats, 0.29 * 100 is less than 29.
    edges = [number / bins for number in range(bins)]
    table = reliability(edges, [True] * bins, bins)
    assert [part.low for part in table] == edges
    assert {part.count for part in table} == {1}


@given(PREDICTIONS, NUMBERS)
def test_the_bins_hold_everything_in_order(predictions, bins):
    probabilities, right = arrays(predictions)
    table = reliability(probabilities, right, bins)
    assert len(table) <= bins
    assert sum(part.count for part in table) == len(predictions)
    total = sum(part.count * part.probability for part in table)
    assert total == pytest.approx(probabilities.sum())
    assert sum(part.count * part.accuracy for part in table) == pytest.approx(right.sum())
    for part in table:
        assert part.low - 1e-9 <= part.probability <= part.high + 1e-9
    for one, other in pairwise(table):
        assert one.high <= other.low


def test_no_predictions():
    assert reliability([], []) == []
    assert expected_calibration_error([], []) == 0.0


def test_rounding_of_float32_is_no_error():
    above = np.nextafter(np.float32(1), np.float32(2))
    assert reliability(np.array([above, -1e-8]), [True, False], 5)[-1].count == 1


@pytest.mark.parametrize("value", [1.01, -0.01, float("nan"), float("inf")])
def test_only_probabilities(value):
    with pytest.raises(StructlearnError, match=r"SL311.*Prediction 1 "):
        reliability([0.5, value], [True, True])


def test_bad_shapes_and_numbers():
    with pytest.raises(StructlearnError, match="SL310"):
        expected_calibration_error([0.5, 0.5], [True])
    with pytest.raises(StructlearnError, match="SL310"):
        expected_calibration_error([[0.5]], [[True]])
    for bins in (0, 2.5, "10"):
        with pytest.raises(StructlearnError, match="SL312"):
            reliability([0.5], [True], bins)
