"""Log-linear models: what they learn, what they answer, and their files."""

import numpy as np
import pytest
from classification.nets import accuracy, bayes_net, left_out, log_linear, quadruples
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn import serialization
from spacy_structlearn.classification import BayesNetSettings, LogLinear
from spacy_structlearn.errors import StructlearnError

FLOORS = {"single": 0.815, "search": 0.842}


def sentences(seed=0, n=300, n_labels=2, n_values=8):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, n_values, (n, 3))
    labels = (values[:, 0] + values[:, 1] * values[:, 2] + (rng.random(n) < 0.2)) % n_labels
    rows = [[f"{name}{v}" for name, v in zip("abc", row, strict=True)] for row in values]
    return rows, [f"y{label}" for label in labels]


def fitted(templates="pairs", seed=0, n_labels=2, **settings):
    rows, labels = sentences(seed, n_labels=n_labels)
    return log_linear(templates, **settings).fit(rows, labels, variables=("a", "b", "c"))


# --- the optimum ------------------------------------------------------------------------------


@pytest.mark.parametrize("n_labels", [2, 3])
def test_expected_counts_are_the_observed_ones_less_the_prior(n_labels):
    """The gradient is zero, calculated from the probabilities, the names and nothing else."""
    model = fitted("single", n_labels=n_labels, l2=0.5, tolerance=1e-9)
    rows, labels = sentences(n_labels=n_labels)
    proba = model.predict_proba(rows)
    error = np.array([[label == name for name in model.labels] for label in labels]) - proba
    keys = model.keys.tolist()
    names = {name: key for key, name in model.names.items()}
    assert len(names) == len(keys) == 24
    for place, variable in enumerate(("a", "b", "c")):
        for value in range(8):
            weights = model.weights[keys.index(names[f"{variable}={variable}{value}"])]
            on = [row[place] == f"{variable}{value}" for row in rows]
            np.testing.assert_allclose(error[on].sum(axis=0), 0.5 * weights, atol=1e-6)
    np.testing.assert_allclose(error.sum(axis=0), 0.5 * model.bias, atol=1e-6)


def test_coefficient_of_a_base_is_at_the_optimum_and_uses_left_out_counts():
    rows, labels = sentences(3)
    model = log_linear("single", l2=2.0, base=BayesNetSettings(structure="naive"), tolerance=1e-9)
    model = model.fit(rows, labels)
    given_scores = left_out(bayes_net("naive").fit(rows, labels), rows, labels)
    given_scores -= np.logaddexp.reduce(given_scores, axis=1, keepdims=True)
    scores = given_scores * model.coefficients
    names = {name: place for place, name in enumerate(map(model.names.get, model.keys.tolist()))}
    for i, row in enumerate(rows):
        scores[i] += model.bias
        for j, value in enumerate(row):
            scores[i] += model.weights[names[f"x{j + 1}={value}"]]
    proba = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
    own = np.array([[label == name for name in model.labels] for label in labels])
    slope = ((own - proba) * given_scores).sum() - 2.0 * (model.coefficients[0] - 1.0)
    assert slope == pytest.approx(0.0, abs=1e-5)
    assert model.coefficients[0] != pytest.approx(1.0, abs=1e-3)


# --- templates and names ----------------------------------------------------------------------


def test_strongest():
    model = fitted("pairs", n_labels=3)
    found = model.strongest(5)
    assert len(found) == 5
    weights = [abs(weight) for *_, weight in found]
    assert weights == sorted(weights, reverse=True)
    (_, _, _, largest), *_ = model.strongest(1, named=False)
    assert abs(largest) == np.abs(model.weights).max()
    name, key, label, weight = found[0]
    assert name == model.names[key]
    place = np.flatnonzero(model.keys == key)[0], model.labels.index(label)
    assert model.weights[place] == weight
    assert {label for *_, label, _ in model.strongest(9, "y1")} == {"y1"}
    assert len(model.strongest(10**6)) < len(model.strongest(10**6, named=False))


# --- what must never fail ---------------------------------------------------------------------

ALL = [
    {},
    {"templates": "pairs"},
    {"templates": "search", "l2": "search"},
    {"templates": "search", "nested": False},
    {"templates": "search", "base": BayesNetSettings()},
    {"base": BayesNetSettings(structure="naive")},
]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["x", "y", None, ""]),
            st.sampled_from(["x", None]),
            st.text("12", max_size=1),
        ),
        max_size=25,
    ),
    st.sampled_from(ALL),
)
def test_any_table_can_be_learned(instances, options):
    """However small, with or without development data; and what is unseen gets an answer."""
    rows, labels = [row[:2] for row in instances], [row[2] for row in instances]
    for dev in (None, ([], []), (rows, labels)):
        model = log_linear(**options).fit(rows, labels, variables=("a", "b"), dev=dev)
        assert model.labels == tuple(sorted(set(labels)))
        model.describe()
        if not labels:
            with pytest.raises(StructlearnError, match="SL522"):
                model.predict(rows)
            continue
        for tried in (rows, [["x", "y"], [None, None], ["new", "new"]], []):
            proba = model.predict_proba(tried)
            np.testing.assert_allclose(proba.sum(axis=1), 1.0)
            assert set(model.predict(tried)) <= set(labels)
    assert log_linear(**options).fit([[], []], ["1", "2"], variables=()).labels == ("1", "2")


# --- files ------------------------------------------------------------------------------------


def unpacked(model):
    return serialization.unpack(model.to_bytes(), "log_linear", {1, 2})


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_weights_come_back_bit_for_bit(data):
    n, n_labels = data.draw(st.integers(0, 60)), data.draw(st.integers(1, 9))
    storage = data.draw(st.sampled_from(["float16", "float32", "float64"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    weights = rng.normal(size=(n, n_labels)).astype(storage)
    weights[rng.random(weights.shape) < data.draw(st.sampled_from([0.0, 0.3, 0.9, 1.0]))] = 0.0
    weights[rng.random(weights.shape) < 0.1] = -0.0
    model = LogLinear(
        labels=tuple(f"y{i}" for i in range(n_labels)),
        variables=("a",),
        templates=(("a",),),
        keys=np.arange(n, dtype=np.uint64),
        weights=weights.astype("float64" if storage == "float64" else "float32"),
        storage=storage,
    )
    stored = model.to_bytes()
    other = LogLinear.from_bytes(stored)
    assert other.to_bytes() == stored
    np.testing.assert_array_equal(other.weights, model.weights)
    mirrored = n_labels == 2 and np.array_equal(weights[:, 0], -weights[:, 1])
    if not mirrored:  # of minus zero the other one is zero, whatever it was
        np.testing.assert_array_equal(np.signbit(other.weights), np.signbit(model.weights))
    _, fields = unpacked(model)
    fields.pop("nonzero", None)
    columns = weights[:, :1] if mirrored else weights
    assert len(stored) <= len(serialization.pack("log_linear", 1, {**fields, "weights": columns}))


@pytest.mark.parametrize(
    "change",
    [
        {"labels": ["y0"]},
        {"labels": ["y0", "y0"]},
        {"variables": ["a", "b"]},
        {"keys": np.zeros(24, dtype=np.uint64)},
        {"keys": np.zeros(3, dtype=np.uint64)},
        {"weights": np.full((24, 1), np.nan)},
        {"bias": np.zeros(3)},
        {"coefficients": np.ones(1)},
        {"mirrored": False},
        {"names": ["x"]},
    ],
)
def test_parts_that_do_not_fit_together_are_refused(change):
    version, fields = unpacked(fitted("single"))
    assert version == 1
    with pytest.raises(StructlearnError, match="SL05"):
        LogLinear.from_bytes(serialization.pack("log_linear", version, fields | change))


def test_compact_models_answer_almost_the_same():
    model = fitted("pairs", n_labels=3)
    rows, _ = sentences(8, n_labels=3)
    small = model.compact()
    np.testing.assert_allclose(model.predict_proba(rows), small.predict_proba(rows), atol=2e-3)
    assert small.weights.dtype == np.float32
    assert small.key_bits < model.key_bits == 64
    assert LogLinear.from_bytes(small.to_bytes()) == small
    assert len(small.to_bytes()) < len(model.to_bytes()) / 2
    assert "a=a1" in small.names.values()
    pruned = model.compact("float32", threshold=0.3)
    assert 0 < len(pruned.keys) < len(model.keys)
    assert np.abs(pruned.weights[pruned.weights != 0]).min() > 0.3
    with pytest.raises(StructlearnError, match="SL209"):
        model.compact("int8")
    model.weights = model.weights * 1e6
    with pytest.raises(StructlearnError, match="SL208"):
        model.compact("float16")


# --- the corpus of the paper ------------------------------------------------------------------


@pytest.mark.corpus
@pytest.mark.parametrize("templates", ["single", "search"])
def test_pp_attachment(corpora, templates):
    train, dev = (quadruples(corpora, name) for name in ("training", "devset"))
    model = log_linear(templates).fit(*train, dev=dev)
    assert accuracy(model, *dev) >= FLOORS[templates]
    if templates == "search":
        assert model.templates[0] == ("p",)
        assert {("v", "p"), ("n1", "p"), ("p", "n2")} <= set(model.templates)
