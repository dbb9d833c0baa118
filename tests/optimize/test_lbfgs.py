"""L-BFGS against SciPy's, at the edges of floating point, and through a save and a load."""

import itertools
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize
from scipy.special import log_expit

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.optimize.lbfgs import LBFGS, minimize, run

TIGHT = {"gradient_tolerance": 1e-8, "value_tolerance": 0.0, "max_iterations": 2000}


def logistic_regression(n=200, n_features=20, l2=0.1, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, n_features)) * np.geomspace(0.1, 10, n_features)
    y = np.sign(x @ rng.normal(size=n_features) + rng.normal(size=n))

    def objective(w):
        margin = y * (x @ w)
        value = -log_expit(margin).sum() + l2 * w @ w
        return value, -(y * np.exp(log_expit(-margin))) @ x + 2 * l2 * w

    return objective, n_features


def scipy_end(objective, x0):
    options = {"maxiter": 10000, "maxfun": 100000, "ftol": 0.0, "gtol": 1e-10}
    return scipy_minimize(objective, x0, jac=True, method="L-BFGS-B", options=options).x


@pytest.mark.parametrize("memory", [1, 3, 10])
def test_logistic_regression(memory):
    objective, n = logistic_regression()
    result = minimize(objective, np.zeros(n), memory=memory, **TIGHT)
    assert result.status in ("gradient", "value")
    np.testing.assert_allclose(result.x, scipy_end(objective, np.zeros(n)), atol=1e-6)


def with_l1(objective, x0, *, max_iterations, **settings):
    return run(LBFGS(x0, l1=0.2, **settings), objective, max_iterations)


@pytest.mark.parametrize("make", [LBFGS, partial(LBFGS, l1=0.2)])
def test_values_fall(make):
    objective, n = logistic_regression()
    optimizer = make(np.zeros(n), gradient_tolerance=1e-8, value_tolerance=0.0)
    values = []
    while optimizer.step(objective):
        values.append(optimizer.value)
    # At the end they may rise by a rounding error.
    assert all(b <= a * (1 + 1e-13) for a, b in itertools.pairwise(values))
    stopped = run(make(np.zeros(n)), objective, 3)
    assert (stopped.n_iterations, stopped.value) == (3, values[2])
    assert stopped.status == "running"


@pytest.mark.parametrize("bad", [np.inf, np.nan, -np.inf])
def test_steps_to_where_the_function_is_not_finite(bad):
    # -log x + x has its minimum at 1 and ends at 0; a first step from 5 with a steep slope jumps.
    def objective(x):
        if x[0] <= 0:
            return bad, np.full(1, np.nan)
        return float(-1e-3 * np.log(x[0]) + 20 * x[0]), np.array([20 - 1e-3 / x[0]])

    result = minimize(objective, [0.9], **TIGHT)
    assert result.x[0] == pytest.approx(1e-3 / 20, rel=1e-4)
    assert np.isfinite(result.value)


@pytest.mark.parametrize(("minimize", "wanted"), [(minimize, 0.3), (with_l1, 0.2)])
def test_gradient_that_is_not_finite(minimize, wanted):
    def objective(x):
        gradient = 2 * (x - 0.3)
        return float((x - 0.3) @ (x - 0.3)), np.where(np.abs(x - 0.3) > 0.5, np.nan, gradient)

    result = minimize(objective, np.array([0.0, 0.7]), **TIGHT)
    assert result.status in ("gradient", "value")
    np.testing.assert_allclose(result.x, wanted, atol=1e-6)


@pytest.mark.parametrize(("value", "size"), [(np.nan, 3), (np.inf, 3), (0.0, 2)])
@pytest.mark.parametrize("minimize", [minimize, with_l1])
def test_start_that_is_not_finite_or_of_another_shape(minimize, value, size):
    with pytest.raises(StructlearnError, match="SL220"):
        minimize(lambda x: (value, x[:size]), np.ones(3), max_iterations=10)
