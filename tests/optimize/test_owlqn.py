"""OWL-QN: conditions of optimality, which make a point the minimum, and the edges."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn.optimize.lbfgs import LBFGS, pseudo_gradient, run

TIGHT = {"gradient_tolerance": 1e-9, "value_tolerance": 0.0, "max_iterations": 2000}


def minimize_l1(objective, x0, *, l1, max_iterations, **settings):
    return run(LBFGS(x0, l1=l1, **settings), objective, max_iterations)


def test_pseudo_gradient():
    x = np.array([2.0, -2.0, 0.0, 0.0, 0.0, 0.0])
    gradient = np.array([0.5, 0.5, 3.0, -3.0, 0.5, -1.0])
    expected = [1.5, -0.5, 2.0, -2.0, 0.0, 0.0]
    np.testing.assert_array_equal(pseudo_gradient(x, gradient, 1.0), expected)
    np.testing.assert_array_equal(pseudo_gradient(x, gradient, 0.0), gradient)


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
