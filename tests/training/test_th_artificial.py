"""The artificial experiment of Titov & Henderson (2007), with small networks and few sequences."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.papers.titov_henderson2007 import artificial
from training.papers.titov_henderson2007.artificial import BeliefNetwork, Learning, Sequences

# State size, labels, elements: small enough to enumerate everything.
TINY = 2, 3, 3
SMALL = 3, 4, 5
SPREADS = 2.0, 1.0, 2.0


def tiny(seed, sizes=TINY, spreads=SPREADS):
    return BeliefNetwork.random(np.random.default_rng(seed), spreads, sizes)


def joint(network, elements):
    """P(labels, elements) of all sequences of labels, by enumeration, one after the other."""
    n_states, n_labels, _ = network.log_emissions.shape
    found = {}
    for labels in product(range(n_labels), repeat=len(elements)):
        total = 0.0
        for states in product(range(n_states), repeat=len(elements)):
            log_p = network.log_initial[states[0]]
            for t, (s, y, x) in enumerate(zip(states, labels, elements, strict=True)):
                log_p += network.log_emissions[s, y, x]
                if t + 1 < len(elements):
                    log_p += network.log_transitions[s, y, x, states[t + 1]]
            total += np.exp(log_p)
        found[labels] = total
    return found


def test_probabilities_are_those_of_the_equations():
    network = tiny(0)
    s, y, x, after = 2, 1, 2, 1
    state = network.states[s]
    assert state.tolist() == [0, 1]
    eta = network.recurrent @ state + network.label_inputs[y] + network.element_inputs[x]
    on = 1 / (1 + np.exp(-eta))
    wanted = on[0] * (1 - on[1])  # of the state 1, 0
    assert network.log_transitions[s, y, x, after] == pytest.approx(np.log(wanted))
    scores = np.exp(network.label_outputs @ state)
    wanted = scores[y] / scores.sum()
    scores = np.exp(network.element_outputs[y] @ state)
    wanted *= scores[x] / scores.sum()
    assert network.log_emissions[s, y, x] == pytest.approx(np.log(wanted))


@given(st.integers(0, 2**32))
@settings(max_examples=4, deadline=None)
def test_exact_posteriors_are_those_of_enumeration(seed):
    network = tiny(seed)
    elements = np.array(list(product(range(3), repeat=3)))
    found = artificial.posteriors(network, elements)
    for i in range(0, len(elements), 5):
        wanted = np.zeros(found.shape[1:])
        for labels, p in joint(network, elements[i]).items():
            wanted[np.arange(3), labels] += p
        assert np.allclose(found[i], wanted / wanted.sum(axis=1, keepdims=True))


def test_gibbs_sampling_agrees_with_exact_posteriors():
    seed = 0
    network = tiny(seed, SMALL)
    elements = network.sample(20, 7, np.random.default_rng(seed)).elements
    wanted = artificial.posteriors(network, elements)
    sampling = {"chains": 4, "burn_in": 50}
    error = {}
    for sweeps in (20, 2000):
        rng = np.random.default_rng(1)
        found = artificial.gibbs(network, elements, rng, sweeps=sweeps, **sampling)
        assert np.allclose(found.sum(axis=2), 1)
        error[sweeps] = np.sqrt(((found - wanted) ** 2).mean())
    # Errors fall with the root of the number of samples: here by a factor of 10.
    assert error[2000] < 0.01
    assert error[2000] < error[20] / 3


# --- learning -------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def parts():
    rng = np.random.default_rng(2)
    network = BeliefNetwork.random(rng)
    return {name: network.sample(n, 30, rng) for name, n in {"train": 40, "dev": 20}.items()}


def log_likelihood(model, weights, sequences):
    arrays = artificial.encode(sequences).arrays
    numbers = np.arange(len(sequences.labels))
    return model.network().log_likelihoods(weights, *arrays, numbers).sum()


@pytest.mark.parametrize("means", ["nn", "mf"])
def test_tied_gradients_are_those_of_the_papers_parameters(parts, means):
    model = artificial.first(means, seed=1)
    weights = model.weights.astype(np.float64)
    artificial.tie(model, weights, np.mean)
    inputs = model.parts(weights)["inputs"][model.symbols.input_blocks["a.items"]]
    rows = inputs.reshape(6, 8, -1)
    assert (rows == rows[:1]).all()
    assert np.ptp(rows[0]) > 0
    gradient = np.zeros_like(weights)
    some = Sequences(parts["dev"].labels[:3], parts["dev"].elements[:3])
    arrays = artificial.encode(some).arrays
    model.network().log_likelihoods(weights, *arrays, np.arange(3), gradient)
    artificial.tie(model, gradient, np.sum)
    split = model.parts(gradient)
    assert not split["bias"].any()
    assert not split["output_bias"].any()
    steps = split["inputs"][model.symbols.input_blocks["a.items"]].reshape(6, 8, -1)
    for x, i in ((0, 1), (5, 3)):
        values = []
        for sign in (1, -1):
            # The one parameter is that of an element under all labels.
            rows[:, x, i] += sign * 1e-4
            values.append(log_likelihood(model, weights, some))
            rows[:, x, i] -= sign * 1e-4
        wanted = (values[0] - values[1]) / 2e-4
        assert abs(wanted) > 1e-3
        assert steps[:, x, i] == pytest.approx(np.full(6, wanted), rel=1e-4)


@pytest.mark.parametrize(("means", "biases"), [("nn", True), ("mf", False)])
def test_what_is_learned_is_better_than_the_unigram_model(parts, means, biases):
    wanted = Learning(learn_rates=(0.05, 0.1), restarts=1, epochs=4, biases=biases)
    found = artificial.learn(means, parts, wanted)
    runs = [artificial.train(means, parts, wanted, rate, 0) for rate in (0.05, 0.1)]
    assert found.accuracy == max(run.accuracy for run in runs)
    dev = parts["dev"]
    accuracy = dev.accuracy(artificial.label(found.model, dev.elements))
    assert accuracy > dev.accuracy(artificial.unigram(parts["train"], dev.elements))
    split = found.model.parts()
    assert split["output_bias"].any() == biases
    rows = split["inputs"][found.model.symbols.input_blocks["a.items"]].reshape(6, 8, -1)
    assert (rows == rows[:1]).all() != biases


# --- experiments ----------------------------------------------------------------------------------
@pytest.fixture
def quick(monkeypatch):
    for name, value in (("CHAINS", 1), ("BURN_IN", 5), ("SWEEPS", 10)):
        monkeypatch.setattr(artificial, name, value)


def test_all_figures_are_there(quick, monkeypatch):
    few = Learning(restarts=1, epochs=2)
    own = {"": few, "biases.": Learning(biases=True, restarts=1, epochs=2)}
    monkeypatch.setattr(artificial, "LEARNING", own)
    found = list(artificial.run(seeds=2, limit=10))
    one, other, last = found
    for number, figures in enumerate((one, other)):
        start = f"artificial.experiments.{number}."
        assert all(key.startswith(start) for key in figures)
        for name in ("unigram", "nn", "mf", "gibbs", "exact", "search", "biases.nn", "biases.mf"):
            assert 0 < figures[f"{start}{name}.acc"] <= 100
            mean = last[f"artificial.{name}.acc"]
            both = [f"artificial.experiments.{i}.{name}.acc" for i in range(2)]
            assert mean == pytest.approx((one[both[0]] + other[both[1]]) / 2)
    for key in ("mf_wins", "mf_significant", "biases.mf_wins", "seconds"):
        assert f"artificial.{key}" in last
