"""Accuracy of labels."""

import pytest

from training.common.labels import score_labels


def test_accuracy():
    score = score_labels("VVVNN", "VVNNV")
    assert (score.correct, score.total, score.accuracy) == (3, 5, 0.6)
    assert score.standard_error == pytest.approx((0.6 * 0.4 / 5) ** 0.5)
    assert score_labels([], []).accuracy == score_labels([], []).standard_error == 0.0
