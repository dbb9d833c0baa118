"""OWL-QN: the lasso in closed form and by coordinate descent, and conditions of optimality."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn.optimize.lbfgs import LBFGS, pseudo_gradient, run

TIGHT = {"gradient_tolerance": 1e-9, "value_tolerance": 0.0, "max_iterations": 2000}


def regression(n=60, n_features=25, seed=0):
    """A design with correlated columns, a response from a few of them, and f with its gradient."""
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(n, n_features)) + rng.normal(size=(n, 1))
    response = design[:, :5] @ rng.normal(size=5) + rng.normal(size=n)

    def objective(x):
        residual = design @ x - response
        return float(0.5 * residual @ residual), design.T @ residual

    return design, response, objective


def minimize_l1(objective, x0, *, l1, max_iterations, **settings):
    return run(LBFGS(x0, l1=l1, **settings), objective, max_iterations)


def soft_threshold(values, l1):
    return np.sign(values) * np.maximum(np.abs(values) - l1, 0.0)


def coordinate_descent(design, response, l1, rounds=20000):
    """The lasso, one coordinate at a time (Friedman et al. 2007)."""
    l1 = np.broadcast_to(l1, design.shape[1])
    x = np.zeros(design.shape[1])
    squares = (design**2).sum(axis=0)
    for _ in range(rounds):
        before = x.copy()
        for j in range(len(x)):
            partial = response - design @ x + design[:, j] * x[j]
            x[j] = soft_threshold(design[:, j] @ partial, l1[j]) / squares[j]
        if np.abs(x - before).max() < 1e-15:
            break
    return x


def test_pseudo_gradient():
    x = np.array([2.0, -2.0, 0.0, 0.0, 0.0, 0.0])
    gradient = np.array([0.5, 0.5, 3.0, -3.0, 0.5, -1.0])
    expected = [1.5, -0.5, 2.0, -2.0, 0.0, 0.0]
    np.testing.assert_array_equal(pseudo_gradient(x, gradient, 1.0), expected)
    np.testing.assert_array_equal(pseudo_gradient(x, gradient, 0.0), gradient)


@pytest.mark.parametrize("l1", [0.1, 3.0, 30.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_lasso(l1, seed):
    design, response, objective = regression(seed=seed)
    result = minimize_l1(objective, np.zeros(25), l1=l1, **TIGHT)
    solution = coordinate_descent(design, response, l1)
    np.testing.assert_allclose(result.x, solution, atol=1e-8)
    np.testing.assert_array_equal(result.x != 0, solution != 0)
    value = objective(solution)[0] + l1 * np.abs(solution).sum()
    assert result.value == pytest.approx(value, rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 50), st.integers(1, 12), st.booleans())
def test_conditions_of_karush_kuhn_and_tucker(seed, l1, n, logistic):
    rng = np.random.default_rng(seed)
    design, signs = rng.normal(size=(15, n)), rng.choice([-1.0, 1.0], size=15)

    def objective(x):
        if logistic:
            margin = signs * (design @ x)
            odds = np.exp(-np.logaddexp(0.0, margin))
            return np.logaddexp(0.0, -margin).sum() + 0.01 * x @ x, (
                -(signs * odds) @ design + 0.02 * x
            )
        residual = design @ x - signs
        return float(residual @ residual + x @ x), 2 * design.T @ residual + 2 * x

    result = minimize_l1(objective, rng.normal(size=n), l1=l1, **TIGHT)
    assert result.status in ("gradient", "value", "line_search")
    gradient = objective(result.x)[1]
    on = result.x != 0
    tolerance = 1e-5 * max(1.0, l1)
    np.testing.assert_allclose(gradient[on], -l1 * np.sign(result.x[on]), atol=tolerance)
    assert (np.abs(gradient[~on]) <= l1 + tolerance).all()


@pytest.mark.parametrize("bad", [np.inf, np.nan, -np.inf])
def test_steps_to_where_the_function_is_not_finite(bad):
    # The minimum of -log x + x + |x| is at 1/2, and x <= 0 is no place to be.
    def objective(x):
        if x[0] <= 0:
            return bad, np.full(1, np.nan)
        return float(x[0] - np.log(x[0])), 1 - 1 / x

    result = minimize_l1(objective, [60.0], l1=1.0, **TIGHT)
    assert result.x[0] == pytest.approx(0.5, rel=1e-6)
    assert np.isfinite(result.value)
