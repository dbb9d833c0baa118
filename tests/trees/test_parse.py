"""What a parser answers, and the calibration of its probabilities."""

import numpy as np
import pytest

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.trees.parse import (
    CERTAIN,
    TAG_FLOOR,
    Parse,
    calibrate,
    fit_temperature,
    tag_shares,
)


def test_a_parse_is_plain_data():
    parse = Parse(["S", "NP"], [0, 0], [2, 1], np.array([1, 0.5], np.float32), ["t", "u"])
    assert parse.spans == [("S", 0, 2), ("NP", 0, 1)]
    assert str(parse.tree(["a", "b"])) == "(TOP (S (NP (t a)) (u b)))"
    assert not parse.failed
    assert parse.log_probability == -np.inf


def test_tag_shares():
    index = {"t": 0, "u": 1, "v": 2}
    given = ["u", "", "x", {"t": 0.7, "v": 0.25, "x": 0.05}, {"t": 1.0, "u": TAG_FLOOR, "v": 0.0}]
    shares = tag_shares(given, index)
    assert shares[:3].tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    expected = 1 - np.log([0.7, 0.25]) / np.log(TAG_FLOOR)
    np.testing.assert_allclose(shares[3], [expected[0], 0, expected[1]])
    np.testing.assert_allclose(shares[4], [1, 0, 0], atol=1e-12)
    assert tag_shares([], index).shape == (0, 3)
    # Whatever others have written.
    assert np.isfinite(tag_shares([{"t": np.nan, "u": -1.0}, {}], index)).all()


def test_calibration():
    p = np.array([0.0, 1e-7, 0.2, 0.5, 0.9, 1.0, 1.0 + 1e-6])
    np.testing.assert_array_equal(calibrate(p, 1.0), np.minimum(p, 1).astype(np.float32))
    clipped = np.clip(p, CERTAIN, 1 - CERTAIN)
    for temperature in (0.5, 2.0):
        power, other = clipped ** (1 / temperature), (1 - clipped) ** (1 / temperature)
        found = calibrate(p, temperature)
        np.testing.assert_allclose(found, power / (power + other), rtol=1e-5, atol=1e-9)
        assert found.dtype == np.float32
    # Brackets that no other tree of a pruned forest contradicts are not certain.
    assert calibrate(np.array([1.0]), 1.5)[0] < 0.995


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_fit_temperature(temperature):
    rng = np.random.default_rng(0)
    p = rng.beta(2, 1, size=40_000)
    right = rng.random(len(p)) < calibrate(p, temperature)
    assert fit_temperature(p, right) == pytest.approx(temperature, rel=0.05)


def test_fit_temperature_of_certainties():
    found = fit_temperature(np.array([0.0, 1.0, 1.0, 0.5]), np.array([True, True, True, False]))
    assert np.isfinite(found)
    for right in (np.ones(3, bool), np.zeros(3, bool), np.zeros(0, bool)):
        with pytest.raises(StructlearnError, match="SL424"):
            fit_temperature(np.full(len(right), 0.5), right)
