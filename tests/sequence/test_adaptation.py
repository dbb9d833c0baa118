"""Chains that learn on: old weights by name, a prior centred on them, and what new data teach."""

import numpy as np
import pytest
from contracts.sequence_learners import classes as word_classes
from sequence.chains import CHAINS, LABELS, check_gradient, random_data, random_model, random_theta
from sequence.chains import make_objective as make
from sequence.test_memm import KINDS

MORE_LABELS = ("O", "B-VP", "I-VP", "B-NP", "I-NP")


def weights(model):
    """Every weight by the names of its feature, those that are 0 left out."""
    columns, states = model._column_names(), model._state_names()
    found = {
        (key, columns[at]): row[at]
        for key, row in zip(model.keys.tolist(), model.weights, strict=True)
        for at in np.flatnonzero(row)
    }
    scores = model.transitions
    for before, after in np.argwhere(np.isfinite(scores) & (scores != 0)):
        found[states[before], states[after]] = scores[before, after]
    return found


# --- a model with more labels and features --------------------------------------------------------
@pytest.mark.parametrize("chain", CHAINS)
def test_old_weights_are_known_by_name_and_new_ones_are_0(chain):
    old = random_model(*random_data([6, 3, 9]), encoding="none", **CHAINS[chain])
    old.names = {int(old.keys[0]): "a predicate"}
    before, stored = weights(old), old.to_bytes()
    columns, offsets, label_ids = random_data([4, 0, 7], 5, seed=3, n_symbols=12)
    new = old.extended(columns, offsets, label_ids, MORE_LABELS, 1)
    assert weights(new) == before
    assert new.labels == MORE_LABELS
    assert new.order == old.order
    assert new.has_pair_features == old.has_pair_features
    assert len(new.keys) > len(old.keys)
    assert set(old.keys) < set(new.keys)
    assert new.names == old.names
    assert new.weights.dtype == np.float64
    assert old.to_bytes() == stored
    new.weights[:] = 1.0
    new.transitions[:] = 1.0
    assert weights(old) == before


def test_rare_predicates_are_not_added():
    old = random_model(*random_data([6, 3, 9]))
    data = random_data([20], seed=3, n_symbols=40)
    few, many = (old.extended(*data, LABELS[:3], least).keys for least in (3, 1))
    assert set(old.keys) <= set(few) < set(many)


@pytest.mark.parametrize(
    "kept", [{"classes": word_classes()}, {"locally_normalized": True}, {"margin": 3.0}]
)
def test_what_is_no_weight_is_kept(kept):
    old = random_model(*random_data([6, 3, 9]), ("x", "y", "z"), encoding="none").replaced(**kept)
    new = old.extended(*random_data([4], seed=3), ("x", "y", "z"), 1)
    for name, value in kept.items():
        assert getattr(new, name) == value


# --- the prior ------------------------------------------------------------------------------------
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_of_a_centred_prior(kind, chain):
    objective, _ = make(kind=kind, **CHAINS[chain])
    objective.set_prior(objective.l2, random_theta(objective, seed=5))
    check_gradient(objective)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shards", [1, 2])
def test_value_of_a_centred_prior(kind, shards):
    objective, data = make(kind=kind, l2=0.0)
    theta, center = random_theta(objective), random_theta(objective, seed=5)
    loss, slope = objective.value_and_grad(theta)
    centred = kind(objective.model, *data, l2=0.7, shards=shards)
    centred.set_prior(centred.l2, center)
    value, gradient = centred.value_and_grad(theta)
    assert value == pytest.approx(loss + 0.35 * ((theta - center) ** 2).sum())
    np.testing.assert_allclose(gradient, slope + 0.7 * (theta - center), atol=1e-10)
