"""The layer that reads in both directions: its equations, its gradients, and how it is stored."""

import pickle

import numpy as np
import pytest

from training.common.bilstm import bilstm

WIDTH, N_IN = 6, 4
BATCHES = [(1,), (5,), (3, 5), (5, 3), (4, 4), (5, 1, 0, 3, 5), (0, 2), (2, 0), (1, 1, 1)]


def random_layer(dtype=np.float64, seed=0, width=WIDTH, n_in=N_IN):
    """With parameters far from those of the beginning."""
    layer = bilstm(width, n_in, seed=seed).initialize()
    rng = np.random.default_rng(seed)
    for name in layer.param_names:
        layer.set_param(name, rng.normal(size=layer.get_param(name).shape).astype(dtype))
    return layer


def random_rows(lengths, dtype=np.float64, seed=1, width=N_IN):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, width)).astype(dtype) for n in lengths]


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def word_by_word(layer, rows):
    """One sentence by the equations."""
    halves = []
    for way in (0, 1):
        W, U, b = (layer.get_param(name)[way] for name in "WUb")
        h = c = np.zeros(len(U))
        found = []
        for x in rows[::-1] if way else rows:
            i, f, o, g = np.split(x @ W + h @ U + b, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            found.append(h)
        halves.append(np.array(found[::-1] if way else found).reshape(-1, len(U)))
    return np.concatenate(halves, axis=1)


# --- output ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-12)])
@pytest.mark.parametrize("lengths", [*BATCHES, (60, 2)])
def test_the_equations(lengths, dtype, tolerance):
    layer, rows = random_layer(dtype), random_rows(lengths, dtype)
    found = layer.predict(rows)
    assert len(found) == len(rows)
    for own, row in zip(found, rows, strict=True):
        assert own.dtype == dtype
        assert own.shape == (len(row), WIDTH)
        np.testing.assert_allclose(own, word_by_word(layer, row), atol=tolerance)


def test_what_is_large():
    layer = random_layer(np.float32)
    rows = [1e4 * row for row in random_rows([300, 3], np.float32)]
    with np.errstate(all="raise", under="ignore"):
        out, backprop = layer(rows, is_train=True)
        back = backprop([np.ones_like(own) for own in out])
    for array in (*out, *back, *(layer.get_grad(name) for name in "WUb")):
        assert np.isfinite(array).all()
    assert all((abs(own) <= 1).all() for own in out)


# --- gradients ------------------------------------------------------------------------------------
def loss_of(layer, rows, weights):
    found = layer.predict(rows)
    return sum((own * weight).sum() for own, weight in zip(found, weights, strict=True))


@pytest.mark.parametrize("lengths", BATCHES)
def test_gradients_are_those_of_finite_differences(lengths):
    layer, rows = random_layer(), random_rows(lengths)
    weights = random_rows(lengths, seed=2, width=WIDTH)
    _, backprop = layer(rows, is_train=True)
    back = backprop(weights)
    assert [array.shape for array in back] == [row.shape for row in rows]
    step = 1e-5

    def check(array, gradient):
        for place in np.ndindex(array.shape):
            value = array[place]
            ends = []
            for sign in (1, -1):
                array[place] = value + sign * step
                ends.append(loss_of(layer, rows, weights))
            array[place] = value
            slope = (ends[0] - ends[1]) / (2 * step)
            assert gradient[place] == pytest.approx(slope, rel=1e-6, abs=1e-8)

    for name in "WUb":
        check(layer.get_param(name), layer.get_grad(name))
    for row, gradient in zip(rows, back, strict=True):
        check(row, gradient)


@pytest.mark.parametrize("lengths", [(), (0,), (0, 0)])
def test_nothing_to_read(lengths):
    layer = random_layer(np.float32)
    out, backprop = layer(random_rows(lengths, np.float32), is_train=True)
    assert [own.shape for own in out] == [(0, WIDTH)] * len(lengths)
    back = backprop(out)
    assert [own.shape for own in back] == [(0, N_IN)] * len(lengths)
    for name in "WUb":
        assert not layer.get_grad(name).any()


# --- parameters -----------------------------------------------------------------------------------


def test_the_seed_decides():
    first = bilstm(WIDTH, N_IN, seed=3).initialize()
    np.random.random()
    again = bilstm(WIDTH, N_IN, seed=3).initialize()
    other = bilstm(WIDTH, N_IN, seed=4).initialize()
    assert first.to_bytes() == again.to_bytes()
    assert (first.get_param("W") != other.get_param("W")).any()
    rows = random_rows((3, 5), np.float32)
    for mine, its in zip(first.predict(rows), again.predict(rows), strict=True):
        np.testing.assert_array_equal(mine, its)


def test_the_width_of_what_it_reads_may_be_found_out():
    rows = random_rows((3, 5), np.float32)
    layer = bilstm(WIDTH, seed=3)
    assert not layer.has_dim("nI")
    layer.initialize(X=rows)
    assert layer.get_dim("nI") == N_IN
    assert layer.get_param("W").shape[1] == N_IN
    known = bilstm(WIDTH, N_IN, seed=3).initialize()
    np.testing.assert_array_equal(layer.get_param("W"), known.get_param("W"))
    # No sentences tell nothing.
    assert bilstm(WIDTH, N_IN).initialize(X=[]).get_dim("nI") == N_IN
    for wrong in ({"X": []}, {}):
        with pytest.raises(ValueError, match="nI"):
            bilstm(WIDTH).initialize(**wrong)
    with pytest.raises(ValueError, match="nI"):
        bilstm(WIDTH, N_IN + 1).initialize(X=rows)


@pytest.mark.parametrize("width", [0, 1, 3, -2])
def test_widths_that_cannot_be_halved(width):
    with pytest.raises(ValueError, match="even"):
        bilstm(width)


# --- storing --------------------------------------------------------------------------------------
def test_it_can_be_stored():
    layer, rows = random_layer(np.float32), random_rows((3, 5), np.float32)
    data = layer.to_bytes()
    others = [
        # Without a width of what it reads, and not initialized.
        bilstm(WIDTH).from_bytes(data),
        bilstm(WIDTH, N_IN, seed=9).initialize().from_bytes(data),
        pickle.loads(pickle.dumps(layer)),
    ]
    expected = layer.predict(rows)
    for other in others:
        assert other.get_dim("nI") == N_IN
        assert other.attrs["seed"] == layer.attrs["seed"]
        assert other.to_bytes() == data
        for mine, its in zip(other.predict(rows), expected, strict=True):
            np.testing.assert_array_equal(mine, its)
