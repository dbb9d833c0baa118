"""Means that maximise the bound (eq. 8): the paper's coordinate ascent, and gradients."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import (
    LIMIT,
    Decision,
    coordinate_ascent,
    excess,
    finite_differences,
    lower_bound,
    newton,
    sigma,
    slope,
)
from spacy_structlearn.isbn._network import update, update_gradient

from spacy_structlearn.errors import StructlearnError


def random_decisions(seed, n=6, m=9, scale=2.0, count=1, prior=1.0):
    """Natural parameters, and decisions among m alternatives each."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(scale=prior, size=n)
    made = [
        Decision(rng.normal(scale=scale, size=(m, n)), rng.normal(size=m), int(rng.integers(m)))
        for _ in range(count)
    ]
    return theta, made


SIZES = st.integers(1, 9), st.integers(1, 13)
SCALES = st.sampled_from([0.1, 1.0, 2.0, 4.0, 8.0])
SEEDS = st.integers(0, 2**32 - 1)


# --- the references ------------------------------------------------------------------------------
# --- eq. 8 ---------------------------------------------------------------------------------------
@settings(deadline=None, max_examples=20)
@given(SEEDS, *SIZES, SCALES, st.sampled_from([0.3, 3.0, 12.0]))
def test_update_is_coordinate_ascent(seed, n, m, scale, prior):
    theta, seen = random_decisions(seed, n, m, scale, prior=prior)
    phi, mu, _ = update(theta, *seen[0])
    assert excess(phi, theta, seen) <= 1e-9
    assert (np.abs(phi) <= LIMIT).all()
    np.testing.assert_allclose(mu, sigma(phi), rtol=1e-14)
    np.testing.assert_allclose(phi, coordinate_ascent(theta, seen), atol=1e-8)


@settings(deadline=None, max_examples=30)
@given(SEEDS, st.integers(1, 60), st.integers(2, 40), SCALES, st.sampled_from([0.3, 3.0, 15.0]))
def test_large_updates(seed, n, m, scale, prior):
    """So many alternatives that a sweep over the means would take long."""
    theta, seen = random_decisions(seed, n, m, scale, prior=prior)
    phi, _, steps = update(theta, *seen[0], 1e-9)
    assert excess(phi, theta, seen) <= 1.01e-9
    assert steps <= 50
    np.testing.assert_allclose(sigma(phi), sigma(newton(theta, seen)), atol=1e-8)


@pytest.mark.parametrize("seed", [18, 55, 145])
def test_very_strong_rows(seed):
    """Where a direction that is not found well enough leads nowhere."""
    theta, seen = random_decisions(seed, 50, 30, 16.0, prior=15.0)
    phi, _, steps = update(theta, *seen[0], 1e-9)
    assert excess(phi, theta, seen) <= 1.01e-9
    assert steps <= 50


@settings(deadline=None, max_examples=15)
@given(SEEDS, *SIZES, SCALES, st.sampled_from([0.3, 3.0, 12.0]))
def test_the_bound_rises(seed, n, m, scale, prior):
    """A wider tolerance only ends the same steps earlier: so these are the steps in turn."""
    theta, seen = random_decisions(seed, n, m, scale, prior=prior)
    theta = np.clip(theta, -LIMIT, LIMIT)
    values, counts = [lower_bound(sigma(theta), theta, seen)], [0]
    for tolerance in np.geomspace(1e3, 1e-10, 60):
        phi, _, steps = update(theta, *seen[0], tolerance)
        values.append(lower_bound(sigma(phi), theta, seen))
        counts.append(steps)
    assert counts == sorted(counts)
    assert np.diff(values).min() >= -1e-12 * (1 + abs(values[-1]))


@given(SEEDS, st.integers(1, 9))
def test_one_alternative_says_nothing(seed, n):
    theta, [decision] = random_decisions(seed, n, 1, prior=10.0)
    phi, mu, steps = update(theta, *decision)
    assert steps == 0
    np.testing.assert_array_equal(phi, np.clip(theta, -LIMIT, LIMIT))
    np.testing.assert_allclose(mu, sigma(phi), rtol=1e-14)
    g = np.arange(1.0, n + 1)
    d_theta, d_rows, d_biases = update_gradient(phi, *decision, g)
    np.testing.assert_allclose(
        d_theta, np.where(np.abs(phi) < LIMIT, g * mu * (1 - mu), 0.0), rtol=1e-9
    )
    assert not d_rows.any()
    assert not d_biases.any()


def saturating(seed, strength=8.0):
    """A decision that draws some means beyond the limits."""
    theta, [decision] = random_decisions(seed, n=7, m=5)
    rows, biases, chosen = decision
    theta[:2] = 14.0, -13.5
    rows[chosen, :2] += strength, -strength
    # The first of these means is nearly 1: without this the choice would have been no surprise.
    biases[chosen] -= strength + 2.0
    return theta, rows, biases, chosen


@pytest.mark.parametrize("seed", range(3))
def test_saturation(seed):
    theta, *decision = saturating(seed)
    phi, mu, _ = update(theta, *decision)
    seen = [Decision(*decision)]
    np.testing.assert_allclose(phi, coordinate_ascent(theta, seen), atol=1e-8)
    assert excess(phi, theta, seen) <= 1e-9
    beyond = np.abs(slope(mu, theta, seen)) > LIMIT
    np.testing.assert_array_equal(beyond, np.abs(phi) == LIMIT)


@pytest.mark.parametrize("theta", [40.0, -40.0, 1e300, np.inf, -np.inf])
def test_prior_beyond_the_limits(theta):
    """As at the limit."""
    values, [decision] = random_decisions(3)
    values[2] = theta
    phi, mu, _ = update(values, *decision)
    assert np.isfinite(phi).all()
    values[2] = np.sign(theta) * LIMIT
    expected = update(values, *decision)
    np.testing.assert_array_equal(phi, expected[0])
    np.testing.assert_array_equal(mu, expected[1])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308])
def test_weights_that_are_no_numbers_end(bad):
    theta, [decision] = random_decisions(3)
    decision.rows[2, 1] = bad
    phi, mu, _ = update(theta, *decision)
    assert phi.shape == mu.shape == (6,)


# --- gradients -----------------------------------------------------------------------------------
def check_gradients(theta, rows, biases, chosen, rtol=1e-8):
    rng = np.random.default_rng(0)
    g = rng.normal(size=len(theta))
    phi, _, _ = update(theta, rows, biases, chosen, 1e-13)
    found = update_gradient(phi, rows, biases, chosen, g)

    def value(theta, rows, biases):
        return g @ update(theta, rows, biases, chosen, 1e-13)[1]

    given = theta, rows, biases
    for place, own in enumerate(given):

        def function(x, place=place):
            return value(*given[:place], x, *given[place + 1 :])

        wanted = finite_differences(function, own)
        atol = 1e-12 + rtol * np.abs(wanted).max()
        np.testing.assert_allclose(found[place], wanted, rtol=0, atol=atol)
    return phi, found


@settings(deadline=None, max_examples=10)
@given(SEEDS, *SIZES, st.sampled_from([0.1, 1.0, 2.0]))
def test_gradients(seed, n, m, scale):
    theta, [decision] = random_decisions(seed, n, m, scale)
    check_gradients(theta, *decision)


@pytest.mark.parametrize("seed", range(2))
def test_gradients_of_saturated_means(seed):
    theta, *decision = saturating(seed, strength=30.0)
    phi, (d_theta, *_) = check_gradients(theta, *decision)
    held = np.abs(phi) == LIMIT
    assert held.any()
    assert not d_theta[held].any()
    assert d_theta[~held].all()


# --- what does not fit ---------------------------------------------------------------------------
WRONG = {
    "no means": lambda t, r, b, c: (t[:0], r[:, :0], b, c),
    "rows of other means": lambda t, r, b, c: (t, np.ascontiguousarray(r[:, :-1]), b, c),
    "no rows": lambda t, r, b, c: (t, r[:0], b[:0], 0),
    "too few biases": lambda t, r, b, c: (t, r, b[:-1], c),
    "too many biases": lambda t, r, b, c: (t, r, np.append(b, 0.0), c),
    "an alternative too many": lambda t, r, b, c: (t, r, b, len(b)),
    "a negative alternative": lambda t, r, b, c: (t, r, b, -1),
    "a very large alternative": lambda t, r, b, c: (t, r, b, 2**32),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_shapes(name):
    theta, [decision] = random_decisions(0)
    wrong = WRONG[name](theta, *decision)
    with pytest.raises(StructlearnError, match="SL641"):
        update(*wrong)
    with pytest.raises(StructlearnError, match="SL641"):
        update_gradient(*wrong, np.ones(len(wrong[0])))


@pytest.mark.parametrize("n", [0, 5, 7])
def test_gradient_of_another_size(n):
    theta, [decision] = random_decisions(0)
    with pytest.raises(StructlearnError, match="SL641"):
        update_gradient(theta, *decision, np.ones(n))
