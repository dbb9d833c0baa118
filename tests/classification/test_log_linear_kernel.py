"""The kernel of log-linear models at its edges; see `test_conditional` for its values."""

import numpy as np
import pytest

from spacy_structlearn.classification.linear._log_linear import Instances


def random_instances(seed, n, n_templates, n_features, n_columns, n_given):
    rng = np.random.default_rng(seed)
    return {
        "features": rng.integers(-1, n_features, (n, n_templates)).astype(np.int32),
        "n_features": n_features,
        "labels": rng.integers(0, max(n_columns, 2), n).astype(np.int32),
        "counts": rng.integers(1, 5, n).astype(np.float64),
        "given": rng.normal(size=(n, n_columns, n_given)),
    }


def kernel_value_and_gradient(data, weights, coefficients):
    gradient = np.full_like(weights, np.nan)
    given_gradient = np.full_like(coefficients, np.nan)
    value = Instances(**data).value_and_gradient(weights, coefficients, gradient, given_gradient)
    return value, gradient, given_gradient


@pytest.mark.parametrize("n_columns", [1, 3])
def test_scores_beyond_the_range_of_exp_are_sound(n_columns):
    data = random_instances(7, 6, 1, 2, n_columns, 0)
    data["features"] = np.array([[0], [1], [0], [1], [0], [1]], dtype=np.int32)
    weights = np.zeros((2, n_columns))
    weights[:, 0] = [2000.0, -2000.0]
    value, gradient, _ = kernel_value_and_gradient(data, weights, np.empty(0))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_what_is_out_of_range_is_refused():
    good = random_instances(1, 4, 2, 3, 1, 1)
    for name, bad in (
        ("features", np.full((4, 2), 3, dtype=np.int32)),
        ("features", np.full((4, 2), -2, dtype=np.int32)),
        ("features", np.zeros((3, 2), dtype=np.int32)),
        ("labels", np.full(4, 2, dtype=np.int32)),
        ("labels", np.full(4, -1, dtype=np.int32)),
        ("counts", np.ones(5)),
        ("given", np.ones((4, 0, 1))),
    ):
        with pytest.raises(ValueError, match="there"):
            Instances(**{**good, name: bad})
    instances = Instances(**good)
    right = [np.zeros((3, 1)), np.zeros(1), np.zeros((3, 1)), np.zeros(1)]
    instances.value_and_gradient(*right)
    for place, bad in enumerate((np.zeros((2, 1)), np.zeros(2), np.zeros((3, 2)), np.zeros(0))):
        arguments = [*right[:place], bad, *right[place + 1 :]]
        with pytest.raises(ValueError, match="must"):
            instances.value_and_gradient(*arguments)
