"""The artificial experiment of Titov & Henderson (2007), with small networks and few sequences."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.papers.titov_henderson2007 import artificial, full_updates, networks, report
from training.papers.titov_henderson2007.artificial import Learning
from training.papers.titov_henderson2007.networks import BeliefNetwork, Sequences

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


@given(st.integers(0, 2**32))
@settings(max_examples=4, deadline=None)
def test_likelihoods_are_those_of_enumeration(seed):
    network = tiny(seed)
    some = network.sample(3, 4, np.random.default_rng(seed))
    found, _ = networks.log_likelihoods(network, some)
    for value, labels, elements in zip(found, *some, strict=True):
        assert np.exp(value) == pytest.approx(joint(network, elements)[tuple(labels)])


@pytest.mark.parametrize("module", [networks, full_updates])
def test_gradients_of_likelihoods_are_those_of_finite_differences(module):
    network = tiny(3, SMALL, (1.0, 1.0, 1.0))
    some = network.sample(4, 6, np.random.default_rng(3))
    vector = network.vector
    assert np.array_equal(network.replaced(vector).vector, vector)
    _, found = module.log_likelihoods(network, some)
    wanted = []
    for change in 1e-5 * np.eye(len(vector)):
        up, down = (network.replaced(vector + sign * change) for sign in (1, -1))
        values = (module.log_likelihoods(one, some)[0].sum() for one in (up, down))
        wanted.append((next(values) - next(values)) / 2e-5)
    assert np.abs(wanted).max() > 1
    assert np.allclose(found, wanted, atol=1e-6)


# --- the mean field of eq. 7 ----------------------------------------------------------------------
def test_means_maximize_the_bound_of_all_decisions():
    rng = np.random.default_rng(0)
    network = tiny(1, SMALL, (1.0, 1.0, 3.0))
    outputs = full_updates.Outputs.of(network)
    values = np.array([[2, 4]])
    eta, rows = rng.normal(size=(1, 3)), outputs.rows[[2]]
    found = full_updates.update(eta, rows, outputs.bias, values)

    def bound(mu):
        entropy = -(mu * np.log(mu) + (1 - mu) * np.log(1 - mu)).sum()
        labels, elements = network.label_outputs @ mu, network.element_outputs[2] @ mu
        decisions = labels[2] + elements[4]
        normalizers = np.logaddexp.reduce(labels) + np.logaddexp.reduce(elements)
        return entropy + mu @ eta[0] + decisions - normalizers

    best = bound(found.mu[0])
    assert found.bound[0] == pytest.approx(best)
    for _ in range(20):
        other = np.clip(found.mu[0] + rng.normal(0, 0.05, 3), 1e-3, 1 - 1e-3)
        assert bound(other) < best


def test_both_mean_fields_agree_until_the_second_decision_of_a_state(parts):
    model = artificial.first("mf", seed=1)
    weights = model.weights.astype(np.float64) * 2
    artificial.tie(model, weights, np.mean)
    network = artificial.belief(model.replaced(weights=weights))
    apart = []
    for length in (1, 2):
        some = Sequences(*(own[:, :length] for own in parts["dev"]))
        wanted = log_likelihood(model, weights, some)
        apart.append(full_updates.log_likelihoods(network, some)[0].sum() - wanted)
    again = artificial.approximation("mf", network)
    assert log_likelihood(again, again.weights.astype(np.float64), some) == pytest.approx(wanted)
    assert apart[0] == pytest.approx(0, abs=1e-4)
    assert 1e-3 < abs(apart[1]) < 1


def test_the_beam_search_finds_labels_of_high_probability():
    network = tiny(0, (3, *TINY[1:]))
    elements = network.sample(4, 4, np.random.default_rng(0)).elements
    found = full_updates.labelled(network, elements, beam=100)
    for labels, row in zip(found, elements, strict=True):
        every = np.array(list(product(range(3), repeat=4)))
        some = Sequences(every, np.tile(row, (len(every), 1)))
        scores, _ = full_updates.log_likelihoods(network, some)
        assert labels.tolist() == every[scores.argmax()].tolist()


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


def test_exact_training_raises_the_likelihood(parts):
    few = Learning(restarts=1, epochs=3)
    start = BeliefNetwork.random(np.random.default_rng(0), (0.4, 0.4, 0.4))
    found = artificial.train_belief(artificial.EXACT, parts, few, 0.05, 0, start)
    before, after = (
        networks.log_likelihoods(network, parts["train"])[0].sum()
        for network in (start, found.model)
    )
    assert after > before + 100
    dev = parts["dev"]
    # The search that chooses weights is that of the development sequence.
    labels = networks.searched(found.model, dev.elements, artificial.DEV_BEAM)
    assert found.accuracy == dev.accuracy(labels)
    assert found.accuracy > dev.accuracy(artificial.unigram(parts["train"], dev.elements))


# --- experiments ----------------------------------------------------------------------------------
@pytest.fixture
def quick(monkeypatch):
    for name, value in (("CHAINS", 1), ("BURN_IN", 5), ("SWEEPS", 10)):
        monkeypatch.setattr(networks, name, value)


NAMES = ("unigram", "nn", "mf", "gibbs", "exact", "search", "biases.nn", "biases.mf", "bound.exact")


def test_parts_of_the_error_sum_to_all_of_it():
    accuracy = {"gibbs": 85.0, "search": 84.0, "nn": 82.0, "mf": 82.25}
    reached = {"exact": 83.5, "exact_learned": 82.75, "nn": 82.5, "mf": 83.25}
    accuracy |= {f"bound.{name}": value for name, value in reached.items()}
    found = artificial.bounds({f"{name}.acc": value for name, value in accuracy.items()})
    assert found == {
        "bound.search_error": 1.0,
        "bound.estimation_error": 0.5,
        "bound.nn_approximation_error": 1.0,
        "bound.nn_optimum_error": 0.5,
        "bound.mf_approximation_error": 0.25,
        "bound.mf_optimum_error": 1.0,
        "bound.search_over_nn_error_reduction": pytest.approx(100 * 2 / 3),
        "bound.exact_over_nn_error_reduction": pytest.approx(50),
        "bound.mf_over_nn_error_reduction": pytest.approx(100 * 1.25 / 3),
        "bound.exact_learned_over_nn_error_reduction": pytest.approx(25),
    }


def test_all_figures_are_there(quick, monkeypatch):
    few = Learning(restarts=1, epochs=2)
    own = {"": few, "biases.": Learning(biases=True, restarts=1, epochs=2)}
    monkeypatch.setattr(artificial, "LEARNING", own)
    monkeypatch.setattr(artificial, "FULLY_UPDATED", 1)
    found = list(artificial.run(seeds=2, limit=10))
    one, other, last = found
    for number, figures in enumerate((one, other)):
        start = f"artificial.experiments.{number}."
        assert all(key.startswith(start) for key in figures)
        for name in NAMES:
            assert 0 < figures[f"{start}{name}.acc"] <= 100
            mean = last[f"artificial.{name}.acc"]
            both = [f"artificial.experiments.{i}.{name}.acc" for i in range(2)]
            assert mean == pytest.approx((one[both[0]] + other[both[1]]) / 2)
    for key in ("mf_wins", "mf_significant", "biases.mf_wins", "seconds"):
        assert f"artificial.{key}" in last
    assert last["artificial.n_experiments"] == 2
    for name in ("full_updates", "full_updates.mf", "full_updates.nn"):
        key = f"{name}.acc"
        assert last[f"artificial.{key}"] == one[f"artificial.experiments.0.{key}"]
    apart = one["artificial.experiments.0.mf.acc"] - other["artificial.experiments.1.mf.acc"]
    assert last["artificial.se.mf.acc"] == pytest.approx(abs(apart) / 2)
    parts = ("search_error", "estimation_error", "mf_approximation_error", "mf_optimum_error")
    total = sum(last[f"artificial.bound.{name}"] for name in parts)
    assert total == pytest.approx(last["artificial.gibbs.acc"] - last["artificial.mf.acc"])
    text = "\n".join(report.artificial(last))
    assert "2 experiments" in text
    assert f"{last['artificial.bound.estimation_error']:.2f} ± " in text
