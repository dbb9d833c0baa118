"""Feed-forward means, and distributions of decisions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import LIMIT, numpy_trace, random_problem, sigma, softmax

from spacy_structlearn.isbn.feed_forward import decision_probabilities, means


# --- equations -----------------------------------------------------------------------------------
def test_means():
    eta = np.linspace(-14, 14, 30).reshape(2, 3, 5)
    np.testing.assert_allclose(means(eta), sigma(eta), rtol=1e-14)
    assert means(np.zeros(1)) == 0.5
    assert means(np.array([np.log(3)])) == pytest.approx(0.75)


def test_means_have_limits():
    """As the kernel has them."""
    for eta in (LIMIT, 20.0, 1e300, np.inf):
        assert means(np.array([eta, -eta])) == pytest.approx(sigma(np.array([LIMIT, -LIMIT])))


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 9), st.data())
def test_decision_probabilities(seed, n, m, data):
    rng = np.random.default_rng(seed)
    mu, rows, biases = rng.random(n), rng.normal(scale=5, size=(m, n)), rng.normal(size=m)
    np.testing.assert_allclose(
        decision_probabilities(mu, rows, biases), softmax(rows @ mu + biases), rtol=1e-12
    )
    legal = data.draw(st.lists(st.booleans(), min_size=m, max_size=m).filter(any))
    legal = np.array(legal)
    found = decision_probabilities(mu, rows, biases, legal)
    assert not found[~legal].any()
    np.testing.assert_allclose(
        found[legal], decision_probabilities(mu, rows[legal], biases[legal]), rtol=1e-12
    )


def test_decision_probabilities_of_large_scores():
    found = decision_probabilities(
        np.ones(1), np.array([[1000.0], [1001.0], [-5000.0]]), np.zeros(3)
    )
    np.testing.assert_allclose(found, [1 / (1 + np.e), np.e / (1 + np.e), 0.0], rtol=1e-12)


@pytest.mark.parametrize("mean_field", [False, True])
def test_kernel_has_these_equations(mean_field):
    """The first decision of each state, which both approximations make with sigma(eta)."""
    problem = random_problem(0, mean_field=mean_field)
    trace = numpy_trace(problem, 2)
    network = problem.network()
    found = network.trace(problem.weights, *problem.derivations.arrays, 2)
    np.testing.assert_allclose(found["means"][:, 0], means(trace.eta), rtol=1e-9)
    size, n_outputs = problem.size, problem.symbols.n_outputs
    outputs = problem.weights[-n_outputs * (size + 1) : -n_outputs].reshape(-1, size)[:4]
    biases = problem.weights[-n_outputs:][:4]
    first = problem.derivations.offsets[2]
    for t, log_prob in enumerate(found["log_probs"][:, 0]):
        p = decision_probabilities(found["means"][t, 0], outputs, biases, trace.legal[t])
        assert np.log(p[problem.derivations.moves[first + t]]) == pytest.approx(log_prob, abs=1e-12)
