"""AdaGrad: its formula, the lasso, and that it can be taken up again."""

import numpy as np
import pytest

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.optimize.adagrad import AdaGrad
from spacy_structlearn.optimize.lbfgs import run
from spacy_structlearn.optimize.owlqn import OWLQN


def regression(n=60, n_features=12, n_parts=6, seed=0):
    """Least squares in parts, and the whole of it."""
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(n, n_features))
    response = design[:, :3] @ np.array([2.0, -1.0, 0.5]) + 0.1 * rng.normal(size=n)

    def of(rows):
        def objective(x):
            residual = design[rows] @ x - response[rows]
            return float(0.5 * residual @ residual), design[rows].T @ residual

        return objective

    return [of(slice(begin, None, n_parts)) for begin in range(n_parts)], of(slice(None))


def test_one_step():
    optimizer = AdaGrad([1.0, -0.1, 3.0], learn_rate=0.5, l1=2.0, damping=4.0)
    gradient = np.array([2.0, 0.0, -6.0])
    optimizer.step([lambda x: (7.0, gradient)])
    h = np.sqrt(4.0 + gradient**2)
    moved = np.array([1.0, -0.1, 3.0]) - 0.5 * gradient / h
    wanted = np.sign(moved) * np.maximum(np.abs(moved) - 0.5 * 2.0 / h, 0.0)
    np.testing.assert_allclose(optimizer.x, wanted)
    assert optimizer.x[1] == 0.0
    assert optimizer.value == pytest.approx(7.0 + 2.0 * 4.1)
    assert (optimizer.n_iterations, optimizer.n_evaluations) == (1, 1)


@pytest.mark.parametrize("l1", [0.0, 5.0])
def test_the_optimum(l1):
    parts, whole = regression()
    wanted = run(OWLQN(np.zeros(12), l1=l1), whole, 500).x
    optimizer = AdaGrad(np.zeros(12), learn_rate=0.5, l1=l1, value_tolerance=0.0)
    for _ in range(1500):
        optimizer.step(parts)
    np.testing.assert_allclose(optimizer.x, wanted, atol=0.03)
    # Parts do not agree on what is zero, but on what is next to nothing.
    if l1:
        assert np.abs(optimizer.x[wanted == 0]).max() < 0.03


def test_the_order_depends_on_the_seed_and_the_pass():
    seen = []

    def part(number):
        def objective(x):
            seen.append(number)
            return 1.0, np.ones_like(x)

        return objective

    orders = []
    for seed in (0, 0, 1):
        seen.clear()
        optimizer = AdaGrad([0.0], seed=seed)
        for _ in range(2):
            optimizer.step([part(n) for n in range(8)])
        assert sorted(seen[:8]) == sorted(seen[8:]) == list(range(8))
        orders.append(list(seen))
    assert orders[0] == orders[1] != orders[2]
    assert orders[0][:8] != orders[0][8:]


def test_it_ends():
    parts, _ = regression()
    optimizer = AdaGrad(np.zeros(12), learn_rate=0.5, value_tolerance=1e-3)
    while optimizer.step(parts):
        assert optimizer.n_iterations < 500
    assert optimizer.converged
    x, n = optimizer.x, optimizer.n_evaluations
    assert not optimizer.step(parts)
    np.testing.assert_array_equal(optimizer.x, x)
    assert optimizer.n_evaluations == n


def test_what_is_not_finite_makes_no_step():
    def broken(x):
        return np.inf, np.zeros_like(x)

    def nan(x):
        return 1.0, np.full_like(x, np.nan)

    parts, _ = regression()
    one, other = AdaGrad(np.zeros(12)), AdaGrad(np.zeros(12))
    one.step([parts[0]])
    other.step([parts[0], broken])
    np.testing.assert_array_equal(one.x, other.x)
    assert other.value == np.inf
    with pytest.raises(StructlearnError, match="SL436"):
        other.step([broken, nan])


def test_no_parameters_and_no_parts():
    optimizer = AdaGrad([])
    assert optimizer.step([lambda x: (1.0, x)])
    assert optimizer.value == 1.0
    assert AdaGrad([1.0]).step([])
