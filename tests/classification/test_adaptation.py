"""Adaptation of trained classifiers to new data."""

import numpy as np
import pytest
from classification.nets import end, learned, left_out, own_scores

from spacy_structlearn import classification
from spacy_structlearn.classification.adaptation import MergedCounts
from spacy_structlearn.classification.features import ClassificationData, label_ids_of
from spacy_structlearn.classification.trainers import fit

VARIABLES = ("a", "b", "c")
NET = classification.BayesNetSettings(structure={"c": [], "b": ["c"], "a": ["b"]})
LINEAR = classification.LogLinearSettings(
    templates=[("a",), ("a", "b"), ("b", "c")], l2=0.5, tolerance=1e-9
)
STACKED = classification.LogLinearSettings(templates=[("a", "b")], l2=2.0, tolerance=1e-9, base=NET)
STAGES = classification.StagesSettings(
    stages={"finding": NET, "senses": LINEAR, "roles": STACKED},
    order=["finding", "senses", "roles"],
)
EACH = pytest.mark.parametrize("settings", [NET, LINEAR, STACKED], ids=["net", "linear", "stacked"])


def data(seed, names="yn", n=200, prefix="", noise=0.1, domain=None):
    """Rows whose label depends on the first two variables together and, by domain, on the third."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 4, (n, 3))
    number = (
        values[:, 0] * values[:, 1]
        + (rng.random(n) < noise)
        + (values[:, 2] == (seed if domain is None else domain))
    )
    rows = [[f"{prefix}{value}" for value in row] for row in values]
    return ClassificationData(
        classification.Table.of(rows, VARIABLES), tuple(names[i % len(names)] for i in number)
    )


OLD, NEW = data(0), data(1, n=60)


def train(settings, *parts, labels=()):
    return learned(settings, parts, labels)


def adapt(settings, model, *parts, labels=(), strength=1.0):
    return end(classification.training.adapter(settings, model, parts, labels, strength=strength))


def likelihood(model, part):
    own = own_scores(model.predict_proba(part.table), part.labels, model.labels)
    return np.log(own).mean()


@EACH
def test_it_learns_and_does_not_forget(settings):
    old = train(settings, OLD)
    before = old.to_bytes()
    new = adapt(settings, old, NEW)
    assert likelihood(new, data(1, n=500)) > likelihood(old, data(1, n=500)) + 0.01
    alone = train(settings, NEW)
    other = data(7, domain=0)
    assert likelihood(new, other) > likelihood(alone, other) + 0.01
    assert old.to_bytes() == before


@EACH
def test_new_labels_and_new_values_come_in(settings):
    old = train(settings, OLD)
    other = data(5, "xyz", prefix="new ", noise=0.0)
    new = adapt(settings, old, other, data(7, domain=0), labels=("known", "y"))
    assert new.labels == ("known", "n", "x", "y", "z")
    right = np.mean(np.array(new.predict(other.table)) == other.labels)
    assert right > 0.9
    same = np.mean(np.array(new.predict(OLD.table)) == old.predict(OLD.table))
    assert same > 0.9
    assert type(new).from_bytes(new.to_bytes()) == new


@EACH
def test_untrained_models_are_trained_from_nothing(settings):
    untrained = classification.training.initialize(settings, [NEW], ("w",))
    assert adapt(settings, untrained, NEW, labels=("z",)) == train(settings, NEW, labels=("w", "z"))


# --- Bayesian networks ----------------------------------------------------------------------------
ONES = classification.BayesNetSettings(structure=NET.structure, fit_d=None)


@pytest.mark.parametrize("times", [1, 3])
def test_counts_are_those_of_all_instances_together(times):
    """With a strength of a third, every new instance counts three times."""
    new, all_new = data(1, n=60, names="ynz"), [data(1, n=60, names="ynz")] * times
    merged = adapt(ONES, train(ONES, OLD), new, strength=1 / times)
    together = train(ONES, OLD, *all_new)
    np.testing.assert_allclose(
        merged.log_joint(OLD.table), together.log_joint(OLD.table), rtol=1e-12
    )
    assert merged.tables.n_values == together.tables.n_values
    assert merged.n_keys == together.n_keys
    assert not merged.tables.fractional


def test_new_instances_are_left_out_of_the_counts():
    old = train(ONES, OLD)
    new = data(1, n=60, names="ynz")
    labels = ("n", "y", "z")
    instances = new.table, label_ids_of(new.labels, labels)
    rows = classification.Table.concatenate([OLD.table, new.table])
    together = fit(ONES, rows, OLD.labels + new.labels)
    all_scores = left_out(together, rows, OLD.labels + new.labels)
    merged = MergedCounts(old, instances, labels, 1.0)
    np.testing.assert_allclose(
        old.scores_left_out(merged), all_scores[len(OLD.labels) :], rtol=1e-12
    )
    trainer = classification.training.adapter(ONES, old, [new], labels, strength=1.0)
    trainer.step()
    assert trainer.value > 0
    # Whatever it counts, an instance that is left out leaves the counts of all others.
    one = data(8, n=1)
    one = one.table, label_ids_of(one.labels, old.labels)
    for weight in (0.1, 1.0, 3.0):
        scores = old.scores_left_out(MergedCounts(old, one, old.labels, weight))
        np.testing.assert_allclose(scores, old.log_joint(one[0]), rtol=1e-9)


# --- log-linear models ----------------------------------------------------------------------------
@pytest.mark.parametrize("names", ["yn", "ynz"])
def test_weights_are_at_the_optimum_of_the_centred_objective(names):
    """The derivative of the likelihood is that of the penalty, for each feature and label."""
    old = train(LINEAR, data(0, names))
    new = data(1, names, n=60)
    adapted = adapt(LINEAR, old, new, strength=3.0)
    bound = {2: 0.5, 3: 0.25}[len(names)]  # of the second derivative for one instance
    error = adapted.predict_proba(new.table)
    error[np.arange(60), label_ids_of(new.labels, adapted.labels)] -= 1.0
    l2 = 3.0 * (0.5 + bound * 60)
    np.testing.assert_allclose(-l2 * (adapted.bias - old.bias), error.sum(axis=0), atol=1e-3)
    moved = 0
    for key, weights in zip(adapted.keys, adapted.weights, strict=True):
        has = np.array([key in of_row for of_row in keys_of(adapted, new.table)])
        before = old.weights[old.keys == key].sum(axis=0)
        l2 = 3.0 * (0.5 + bound * has.sum() * (key in old.keys))
        np.testing.assert_allclose(-l2 * (weights - before), error[has].sum(axis=0), atol=1e-3)
        if not has.any():
            np.testing.assert_array_equal(weights, before)
        moved += has.any()
    assert 0 < moved < len(adapted.keys)


def keys_of(model, table):
    from spacy_structlearn.classification.linear.conditional import feature_keys

    return feature_keys(table, model.templates)


def test_min_count_is_for_new_features():
    old = train(LINEAR, OLD)
    one = data(1, "y", n=1)
    strict = classification.LogLinearSettings(templates="single", min_count=2)
    rare = ClassificationData(
        classification.Table.concatenate([one.table, data(1, n=1, prefix="new ").table]), ("y", "n")
    )
    adapted = adapt(strict, old, rare)
    np.testing.assert_array_equal(adapted.keys, old.keys)
    assert np.count_nonzero((adapted.weights != old.weights).any(axis=1)) == 3
    assert adapted.templates == old.templates
    assert len(adapt(LINEAR, old, rare).keys) == len(old.keys) + 3


def test_narrow_keys_stay_narrow():
    old = train(LINEAR, OLD)
    small, other = old.compact("float16"), data(1, "ynz", prefix="new ")
    one, same = adapt(LINEAR, small, NEW, other), adapt(LINEAR, old, NEW, other)
    assert one.key_bits == small.key_bits < 64
    assert list(one.names.values()) == list(same.names.values())
    for part in (OLD, NEW, other):
        np.testing.assert_allclose(
            one.predict_proba(part.table), same.predict_proba(part.table), atol=5e-3
        )


# --- stages ---------------------------------------------------------------------------------------
def test_stages_with_new_instances_are_adapted():
    old = train(STAGES, {"finding": OLD, "roles": OLD})
    assert old["senses"].is_empty
    before = old.to_bytes()
    part = data(1, "xyz", n=60)
    new = adapt(STAGES, old, {"senses": part, "roles": part}, labels=("n", "w"), strength=0.5)
    assert new["finding"] is old["finding"]
    assert new["senses"] == train(LINEAR, part)
    assert new["roles"] == adapt(STACKED, old["roles"], part, labels="w", strength=0.5)
    assert new.labels == ("n", "w", "x", "y", "z")
    assert old.to_bytes() == before
    assert classification.Stages.from_bytes(new.to_bytes()) == new
    again = adapt(STAGES, new, {"finding": part}, labels=("v",))
    assert again["finding"] == adapt(NET, old["finding"], part)
    assert again["roles"] is new["roles"]
