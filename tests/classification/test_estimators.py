"""Estimators of classifiers: parts, order and resuming do not change what is learned."""

import numpy as np
import pytest

from spacy_structlearn import serialization
from spacy_structlearn.classification.bayes_net import BayesNet
from spacy_structlearn.classification.estimators import (
    BayesNetEstimator,
    ClassificationData,
    LogLinearEstimator,
    concatenate,
)
from spacy_structlearn.classification.features import Table
from spacy_structlearn.classification.log_linear import LogLinear
from spacy_structlearn.errors import StructlearnError

ESTIMATORS = {
    "bayes net": BayesNetEstimator(),
    "naive Bayes": BayesNetEstimator("naive", fit_d="joint", n_d="one"),
    "logistic regression": LogLinearEstimator(tolerance=1e-9),
    "search": LogLinearEstimator("search", tolerance=1e-7, max_templates=2),
    "l2": LogLinearEstimator("pairs", l2=[0.5, 5.0], tolerance=1e-9),
    "stacked": LogLinearEstimator(base=BayesNet("naive"), tolerance=1e-9),
}
LABELS = ("N", "V", "X")


def parts(n_parts=8, seed=0, n=120):
    """Labelled rows of three variables; the label X does not occur."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 4, (n, 3))
    odd = (values[:, 0] * values[:, 1] + (rng.random(n) < 0.15)) % 2
    rows = [[f"{name}{v}" for name, v in zip("abc", row, strict=True)] for row in values]
    labels = ["NV"[y] for y in odd]
    return [
        ClassificationData(
            Table.of([rows[i] for i in part], ("a", "b", "c")), tuple(labels[i] for i in part)
        )
        for part in np.array_split(np.arange(n), n_parts)
    ]


def train(trainer):
    while trainer.step():
        pass
    return trainer.parameters()


@pytest.fixture(params=ESTIMATORS)
def estimator(request):
    return ESTIMATORS[request.param]


def test_initialize_knows_labels_and_variables_only(estimator):
    model = estimator.initialize(parts(), LABELS, None)
    assert not model.is_empty
    assert model.labels == LABELS
    assert model.variables == ("a", "b", "c")
    np.testing.assert_allclose(model.predict_proba([["a1", None, "?"]]), 1 / 3)
    assert estimator.attributes == ()


def test_training_learns_all_labels_are_kept_and_the_value_falls(estimator):
    data = parts()
    model = estimator.initialize(data, LABELS, None)
    trainer = estimator.trainer(model, data)
    assert (trainer.value, trainer.n_iterations) == (0.0, 0)
    learned = train(trainer)
    assert type(learned) is type(model)
    assert learned.labels == LABELS
    assert trainer.value > 0
    assert trainer.n_iterations > 0
    together = concatenate(data)
    found = learned.predict(together.table)
    assert np.mean([a == b for a, b in zip(found, together.labels, strict=True)]) > 0.6
    assert "X" not in found
    # Training makes a model of its own.
    np.testing.assert_allclose(model.predict_proba([["a1", "b1", "c1"]]), 1 / 3)


def test_parts_in_any_order_and_steps_between_reach_the_same(estimator):
    data = parts()
    model = estimator.initialize(data, LABELS, None)
    expected = train(estimator.trainer(model, data))
    trainer = estimator.trainer(model, data[5:])
    trainer.step()
    for part in data[:5]:
        trainer.add([part])
        trainer.step()
    found = train(trainer)
    rows = concatenate(data).table
    np.testing.assert_allclose(
        found.predict_proba(rows), expected.predict_proba(rows), rtol=0, atol=1e-6
    )


def test_a_step_after_the_end_changes_nothing(estimator):
    data = parts()
    trainer = estimator.trainer(estimator.initialize(data, LABELS, None), data)
    before = train(trainer).to_bytes()
    assert not trainer.step()
    assert trainer.parameters().to_bytes() == before


def test_training_goes_on_from_its_state(estimator):
    data = parts()

    def begin(data=tuple(data)):
        return estimator.trainer(estimator.initialize(data, LABELS, None), data)

    expected = train(begin()).to_bytes()
    trainer = begin()
    for _ in range(3):
        trainer.step()
        state = trainer.to_bytes()
        other = begin()
        assert other.resume(state)
        assert (other.value, other.n_iterations) == (trainer.value, trainer.n_iterations)
        assert train(other).to_bytes() == expected
    assert not begin(tuple(data[1:])).resume(state)


@pytest.mark.parametrize(
    ("name", "kind"), [("bayes net", "bayes_net_training"), ("l2", "log_linear_training")]
)
def test_a_state_with_parts_missing_is_named(name, kind, refuses_damage):
    estimator, data = ESTIMATORS[name], parts()
    trainer = estimator.trainer(estimator.initialize(data, LABELS, None), data)
    _, fields = serialization.unpack(trainer.to_bytes(), kind, {1})
    for part in fields:
        rest = {other: value for other, value in fields.items() if other != part}
        with pytest.raises(StructlearnError, match="SL054"):
            trainer.resume(serialization.pack(kind, 1, rest))
    for _ in range(3):
        trainer.step()
    refuses_damage(
        lambda: estimator.trainer(estimator.initialize(data, LABELS, None), data),
        trainer.to_bytes(),
    )


def test_parameters_hold_no_conjunctions_in_clear_text():
    data = parts()
    estimator = ESTIMATORS["l2"]
    learned = train(estimator.trainer(estimator.initialize(data, LABELS, None), data))
    assert isinstance(learned, LogLinear)
    assert learned.templates[-1] == ("b", "c")
    assert learned.weights.dtype == np.float32
    assert set(learned.names.values()) == {f"{v}={v}{i}" for v in "abc" for i in range(4)}


def test_what_is_learned_is_what_fit_learns():
    data, together = parts(), concatenate(parts())
    estimator = ESTIMATORS["logistic regression"]
    learned = train(estimator.trainer(estimator.initialize(data, LABELS, None), data))
    model = LogLinear(tolerance=1e-9).fit(together.table, together.labels, known_labels=LABELS)
    np.testing.assert_allclose(
        learned.predict_proba(together.table), model.predict_proba(together.table), atol=1e-5
    )
    estimator = ESTIMATORS["bayes net"]
    learned = train(estimator.trainer(estimator.initialize(data, LABELS, None), data))
    net = BayesNet().fit(together.table, together.labels, known_labels=LABELS)
    assert learned.parents == net.parents
    np.testing.assert_allclose(
        learned.predict_proba(together.table), net.predict_proba(together.table), atol=1e-9
    )


def test_settings_are_checked_at_once():
    with pytest.raises(StructlearnError, match="SL513"):
        BayesNetEstimator("tree")
    with pytest.raises(StructlearnError, match="SL520"):
        LogLinearEstimator("trees")
