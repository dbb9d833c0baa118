"""The objective of M-estimation against finite differences, its minimum against SciPy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import approx_fprime
from scipy.optimize import minimize as scipy_minimize
from scipy.sparse.linalg import aslinearoperator

from spacy_structlearn.optimize import _dual
from spacy_structlearn.optimize.lbfgs import minimize
from spacy_structlearn.optimize.m_estimation import DualCoordinateDescent, MEstimationObjective

STRENGTHS = [0.1, 1.0, 10.0, None]


def problem(seed=0, n=12, m=20):
    """Counts, CSR, with an empty row and an entry that is given twice; and expectations."""
    rng = np.random.default_rng(seed)
    dense = rng.poisson(0.6, (n, m)).astype(np.float64)
    dense[n // 2] = 0.0
    rows, columns = np.nonzero(dense)
    rows, columns = np.append(rows, 0), np.append(columns, 3)
    order = np.argsort(rows, kind="stable")
    indptr = np.searchsorted(rows[order], np.arange(n + 1))
    data = np.append(dense[rows[:-1], columns[:-1]], 2.0)[order]
    dense[0, 3] += 2.0
    counts = sparse.csr_array((data, columns[order], indptr), shape=(n, m))
    return counts, dense, dense.mean(axis=0) * rng.uniform(0.3, 2.0, m)


def solved(max_iterations, *arguments, **settings):
    optimizer = DualCoordinateDescent(*arguments, **settings)
    while optimizer.n_iterations < max_iterations and optimizer.step():
        pass
    return optimizer


def scipy_minimum(objective, m):
    start = np.zeros(m)
    options = {"maxiter": 10000, "maxfun": 100000, "ftol": 1e-15, "gtol": 1e-10}
    found = scipy_minimize(
        objective.value_and_grad, start, jac=True, method="L-BFGS-B", options=options
    )
    return found.x


@pytest.mark.parametrize("c", STRENGTHS)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, aslinearoperator])
def test_derivatives(c, kind):
    _, dense, expectations = problem()
    objective = MEstimationObjective(kind(dense), expectations, c=c)
    rng = np.random.default_rng(1)
    w = rng.normal(size=len(expectations)) / 3
    value, gradient = objective.value_and_grad(w)
    expected = np.exp(-dense @ w).mean() + w @ expectations + (w @ w / (2 * c) if c else 0)
    assert value == pytest.approx(expected)
    assert objective.value(w) == value
    np.testing.assert_allclose(
        gradient, approx_fprime(w, objective.value, 1e-7), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("c", [0.1, 1.0, 10.0])
def test_minimum(c):
    counts, dense, expectations = problem()
    objective = MEstimationObjective(counts, expectations, c=c)
    wanted = scipy_minimum(objective, len(expectations))
    found = solved(1000, counts, expectations, c=c, tolerance=1e-12)
    assert found.converged
    np.testing.assert_allclose(found.w, wanted, atol=1e-5)
    primal = minimize(objective.value_and_grad, np.zeros(len(wanted)), max_iterations=500)
    assert primal.value == pytest.approx(found.value, rel=1e-7)
    # The examples, each with its weight, have the features that are expected.
    weighted = np.exp(-dense @ found.w) @ dense / len(dense)
    np.testing.assert_allclose(weighted, expectations + found.w / c, atol=1e-5)
    np.testing.assert_allclose(found.alpha, objective.alpha(found.w), atol=1e-5)


@given(st.integers(0, 1000), st.sampled_from([0.01, 1.0, 1000.0]))
def test_dual_rises_and_bounds_the_minimum(seed, c):
    counts, _, expectations = problem(seed)
    optimizer = DualCoordinateDescent(counts, expectations, c=c, seed=seed)
    before = optimizer.dual_value
    for _ in range(5):
        optimizer.step()
        after = optimizer.dual_value
        assert before <= after + 1e-9 * abs(after)
        assert after <= optimizer.value + 1e-9 * abs(after)
        before = after
    at_zero = optimizer.objective.value(np.zeros_like(expectations))
    assert before <= at_zero + 1e-9


def test_kernel_checks_its_arrays():
    sound = {"indptr": np.array([0, 1]), "indices": np.zeros(1, np.int32), "data": np.ones(1)}
    rest = {"norms": np.ones(1), "order": np.zeros(1, np.int64), "c": 1.0}
    rest |= {"w": np.zeros(1), "alpha": np.ones(1)}
    assert np.isfinite(_dual.epoch(**sound, **rest))
    for wrong in (
        {"indptr": np.array([0, 2])},
        {"indptr": np.array([1, 1])},
        {"indptr": np.array([0, 2, 1])},
        {"indptr": np.empty(0, np.int64)},
        {"indices": np.ones(1, np.int32)},
        {"indices": -np.ones(1, np.int32)},
        {"data": np.ones(2)},
        {"norms": np.ones(2)},
        {"order": np.ones(1, np.int64)},
    ):
        with pytest.raises(ValueError, match=r"must|fit together"):
            _dual.epoch(**{**sound, **rest, **wrong})


def test_without_regulariser():
    # Twice what the examples have is a sum of examples, so that there is a minimum.
    _, dense, _ = problem(n=12, m=4)
    objective = MEstimationObjective(dense, 2 * dense.mean(axis=0), c=None)
    found = minimize(
        objective.value_and_grad, np.zeros(4), max_iterations=200, gradient_tolerance=1e-8
    )
    assert found.status in ("gradient", "value")
    np.testing.assert_allclose(
        objective.alpha(found.x) @ dense / 12, objective.expectations, rtol=1e-6
    )
    # Of a feature that is never expected the weight grows without end, and l goes to a limit.
    objective = MEstimationObjective(np.ones((1, 1)), np.zeros(1), c=None)
    few, more = (
        minimize(objective.value_and_grad, [0.0], max_iterations=k, gradient_tolerance=0.0)
        for k in (3, 6)
    )
    assert few.x[0] < more.x[0]
    assert 0 < more.value < few.value
    assert not objective.is_recession_direction(more.x)  # the limit is a bound
    # With two expectations that contradict one example, l has no lower bound.
    objective = MEstimationObjective(np.ones((1, 2)), np.array([1.0, 2.0]), c=None)
    found = minimize(objective.value_and_grad, np.zeros(2), max_iterations=20)
    assert found.value < -1e3
    assert objective.is_recession_direction(found.x)
    assert not objective.is_recession_direction(-found.x)
