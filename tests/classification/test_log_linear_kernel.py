"""The kernel of log-linear models against a short NumPy version and finite differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def plain_value_and_gradient(data, weights, coefficients):
    """The same, one instance after another."""
    value, gradient = 0.0, np.zeros_like(weights)
    given_gradient = np.zeros_like(coefficients)
    for features, label, count, given_scores in zip(
        data["features"], data["labels"], data["counts"], data["given"], strict=True
    ):
        known = features[features >= 0]
        scores = weights[known].sum(axis=0) + given_scores @ coefficients
        if len(scores) == 1:
            scores = np.append(scores, 0.0)
        log_proba = scores - np.logaddexp.reduce(scores)
        value -= count * log_proba[label]
        error = np.exp(log_proba)
        error[label] -= 1.0
        error = count * error[: weights.shape[1]]
        np.add.at(gradient, known, error)
        given_gradient += error @ given_scores
    return value, gradient, given_gradient


def kernel_value_and_gradient(data, weights, coefficients):
    gradient = np.full_like(weights, np.nan)
    given_gradient = np.full_like(coefficients, np.nan)
    value = Instances(**data).value_and_gradient(weights, coefficients, gradient, given_gradient)
    return value, gradient, given_gradient


@settings(deadline=None)
@given(
    st.integers(0, 2**31),
    st.integers(0, 8),
    st.integers(0, 4),
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(0, 3),
)
def test_agrees_with_the_plain_version(seed, n, n_templates, n_features, n_columns, n_given):
    data = random_instances(seed, n, n_templates, n_features, n_columns, n_given)
    rng = np.random.default_rng(seed + 1)
    weights, coefficients = rng.normal(size=(n_features, n_columns)), rng.normal(size=n_given)
    found = kernel_value_and_gradient(data, weights, coefficients)
    for mine, plain in zip(
        found, plain_value_and_gradient(data, weights, coefficients), strict=True
    ):
        np.testing.assert_allclose(mine, plain, rtol=1e-12, atol=1e-12)


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
