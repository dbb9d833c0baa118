"""Feed-forward means, distributions of decisions, and likelihoods with their gradients."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import (
    LIMIT,
    make_symbols,
    numpy_trace,
    random_problem,
    sigma,
    softmax,
)

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.isbn.feed_forward import (
    decision_probabilities,
    log_likelihoods,
    means,
    value_and_grad,
)


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


# --- likelihoods ---------------------------------------------------------------------------------
@pytest.mark.parametrize("mean_field", [False, True])
def test_log_likelihoods(mean_field):
    problem = random_problem(1, make_symbols(3, (2, 3), 2), mean_field=mean_field)
    found = log_likelihoods(problem.network(), problem.weights, problem.derivations)
    wanted = [numpy_trace(problem, number).log_probs.sum() for number in range(3)]
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    assert (found < 0).all()


def test_log_likelihoods_of_nothing():
    problem = random_problem(1)
    nothing = problem.derivations.subset([])
    assert log_likelihoods(problem.network(), problem.weights, nothing).shape == (0,)


def gradient_of(problem, shards, **options):
    network = problem.network()
    return value_and_grad(network, problem.weights, problem.derivations, shards, **options)


@pytest.mark.parametrize("mean_field", [False, True])
def test_value_and_grad(mean_field):
    """Sums over all derivations, in whatever shards."""
    problem = random_problem(2, lengths=(3, 9, 1, 14, 6), mean_field=mean_field)
    value, gradient = problem.gradient(dropout=0.3, seed=9)
    everything = np.arange(5)
    for parts in (1, 2, 5, 7):
        shards = np.array_split(everything, parts)
        found = gradient_of(problem, shards, dropout=0.3, seed=9)
        assert found[0] == pytest.approx(value, rel=1e-13)
        np.testing.assert_allclose(found[1], gradient, rtol=1e-10, atol=1e-12)
    other = gradient_of(problem, [everything], dropout=0.3, seed=10)
    assert other[0] != pytest.approx(value, rel=1e-3)
    plain = gradient_of(problem, [everything])
    wanted = log_likelihoods(problem.network(), problem.weights, problem.derivations)
    assert plain[0] == pytest.approx(wanted.sum(), rel=1e-13)


def test_some_derivations():
    problem = random_problem(3, lengths=(3, 9, 1, 14, 6))
    value, gradient = gradient_of(problem, [np.array([3, 1]), np.array([4])])
    own = problem._replace(derivations=problem.derivations.subset([1, 3, 4])).gradient()
    assert value == pytest.approx(own[0], rel=1e-13)
    np.testing.assert_allclose(gradient, own[1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("mean_field", [False, True])
def test_threads_do_not_change_the_result(mean_field):
    """Not by the last bit."""
    problem = random_problem(4, lengths=range(1, 40), mean_field=mean_field)
    shards = np.array_split(np.arange(39), 8)
    value, gradient = gradient_of(problem, shards, dropout=0.2, seed=1)
    for threads in (1, 2, 8):
        with ThreadPoolExecutor(threads) as pool:
            found = gradient_of(problem, shards, dropout=0.2, seed=1, pool=pool)
        assert found[0] == value
        np.testing.assert_array_equal(found[1], gradient)


def test_room_is_used_again():
    """Whatever was in it, and however many rows it has."""
    problem = random_problem(5)
    shards = [np.array([0, 1]), np.array([2])]
    value, gradient = gradient_of(problem, shards)
    room = np.full((3, len(problem.weights)), np.nan)
    for _ in range(2):
        found = gradient_of(problem, shards, room=room)
        assert found[0] == value
        np.testing.assert_array_equal(found[1], gradient)
    assert np.shares_memory(found[1], room)


def test_errors_come_through():
    problem = random_problem(6)
    derivations = problem.derivations
    shards = [np.array([0]), np.array([2])]
    with pytest.raises(StructlearnError, match="SL641"):
        log_likelihoods(problem.network(), problem.weights[1:], derivations)
    derivations.moves[-1] = 9
    with pytest.raises(StructlearnError, match="SL641"):
        log_likelihoods(problem.network(), problem.weights, derivations)
    with ThreadPoolExecutor(2) as pool, pytest.raises(StructlearnError, match="SL641"):
        gradient_of(problem, shards, pool=pool)
    # A project with no label, where the tree was to be complete.
    derivations.moves[-1] = 1
    with pytest.raises(StructlearnError, match="SL642"):
        log_likelihoods(problem.network(), problem.weights, derivations)
    with pytest.raises(StructlearnError, match="SL642"):
        gradient_of(problem, shards)
