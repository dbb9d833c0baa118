"""The objective of log-linear models, and their estimation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn.classification import BayesNetSettings, LogLinearSettings, Table
from spacy_structlearn.classification.features import symbol, tuple_keys
from spacy_structlearn.classification.linear import conditional
from spacy_structlearn.classification.linear._log_linear import add_scores_of_values
from spacy_structlearn.kernels.index import KeyIndex

L2 = 0.7


def random_likelihood(seed, n_labels, n_given=1, **centres):
    rng = np.random.default_rng(seed)
    n, n_features = 30, 7
    arrays = (
        rng.integers(-1, n_features, (n, 3)).astype(np.int32),
        n_features,
        rng.integers(0, n_labels, n).astype(np.int32),
        rng.integers(1, 4, n).astype(np.float64),
        rng.normal(size=(n, n_labels, n_given)),
    )
    return arrays, conditional.LogLinearLikelihood(*arrays, l2=L2, **centres)


def penalised(arrays, l2, weights, coefficients):
    """f as the module states it, from the weights of each label."""
    features, _, labels, counts, given = arrays
    padded = np.concatenate([weights, np.zeros((1, weights.shape[1]))])
    assert conditional.log_softmax(np.zeros((3, 0))).shape == (3, 0)
    log_proba = conditional.log_softmax(padded[features].sum(axis=1) + given @ coefficients)
    value = -counts @ log_proba[np.arange(len(labels)), labels]
    return value + l2 * ((weights**2).sum() + ((coefficients - 1) ** 2).sum()) / 2


def centres(n_labels):
    """Means of the priors, as they are with an old model."""
    columns = 1 if n_labels == 2 else n_labels
    weights = np.random.default_rng(6).normal(size=(7, columns))
    weights[2] = 0.0
    return {"centre": weights, "given_centre": np.array([0.4]), "strength": 3.0}


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("n_labels", [2, 3])
def test_gradient_is_that_of_finite_differences(n_labels, centred):
    means = centres(n_labels) if centred else {}
    _, likelihood = random_likelihood(3, n_labels, **means)
    theta = np.random.default_rng(4).normal(size=likelihood.scale.size + 1)
    _, gradient = likelihood.value_and_grad(theta)
    for i in range(len(theta)):
        step = np.zeros_like(theta)
        step[i] = 1e-6
        above, below = (likelihood.value_and_grad(theta + s)[0] for s in (step, -step))
        assert (above - below) / 2e-6 == pytest.approx(gradient[i], abs=1e-6)


@pytest.mark.parametrize("n_labels", [2, 3])
def test_value_is_f_of_the_weights_of_all_labels(n_labels):
    arrays, likelihood = random_likelihood(8, n_labels)
    theta = np.random.default_rng(9).normal(size=likelihood.scale.size + 1)
    weights, coefficients = likelihood.unpack(theta)
    expected = penalised(arrays, L2, likelihood.of_labels(weights), coefficients)
    assert likelihood.value_and_grad(theta)[0] == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(likelihood.parameters(weights, coefficients), theta)


@pytest.mark.parametrize("n_labels", [2, 3])
def test_value_is_f_with_the_old_weights_as_centre(n_labels):
    means = centres(n_labels)
    arrays, likelihood = random_likelihood(8, n_labels, **means)
    theta = np.random.default_rng(9).normal(size=likelihood.scale.size + 1)
    weights, coefficients = likelihood.unpack(theta)
    # The bound of the second derivative, of which there is none for a new feature.
    l2 = L2 / 2 if n_labels == 2 else L2
    counts = np.array([arrays[3] @ (arrays[0] == j).sum(axis=1) for j in range(7)])
    l2 = 3.0 * (l2 + 0.25 * np.where(np.arange(7) == 2, 0, counts)[:, None])
    np.testing.assert_allclose(likelihood.l2, np.broadcast_to(l2, likelihood.l2.shape))
    expected = penalised(arrays, 0.0, likelihood.of_labels(weights), coefficients)
    expected += (l2 * (weights - means["centre"]) ** 2).sum() / 2
    expected += (likelihood.given_l2 * (coefficients - 0.4) ** 2).sum() / 2
    assert likelihood.value_and_grad(theta)[0] == pytest.approx(expected, rel=1e-12)
    begin = likelihood.parameters(means["centre"], means["given_centre"])
    np.testing.assert_array_equal(likelihood.unpack(begin)[0], means["centre"])


def pp_like(seed=0, n=400, n_labels=2):
    """Rows of three variables, whose labels depend on the first two together."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 6, (n, 3))
    odd = (values[:, 0] * values[:, 1] + (rng.random(n) < 0.1)) % n_labels
    rows = [[f"{name}{v}" for name, v in zip("abc", row, strict=True)] for row in values]
    return rows, [f"y{y}" for y in odd]


def workshop(settings, n_labels=2, dev=True):
    def table(seed):
        rows, labels = pp_like(seed, n_labels=n_labels)
        ids = np.array([int(label[1:]) for label in labels], dtype=np.int32)
        return Table.of(rows, ("a", "b", "c")), ids

    names = tuple(f"y{i}" for i in range(n_labels))
    return conditional.Workshop(settings, names, table(0), table(1) if dev else None)


@pytest.mark.parametrize("base", [None, BayesNetSettings(structure="naive")])
@pytest.mark.parametrize("n_labels", [2, 3])
def test_warm_and_cold_starts_reach_the_same_optimum(n_labels, base):
    settings = LogLinearSettings(tolerance=1e-9, base=base)
    shop = workshop(settings, n_labels)
    warm = shop.fitted(shop.fitted(shop.untrained(), 5.0), 0.5)
    for template in (("a",), ("a", "b"), ("c",)):
        warm = shop.fitted(shop.extended(warm, template), 0.5)
    cold = shop.fitted(shop.untrained(warm.templates), 0.5)
    assert cold.value == pytest.approx(warm.value, rel=1e-10)
    np.testing.assert_allclose(cold.weights, warm.weights, atol=1e-6)
    np.testing.assert_allclose(cold.coefficients, warm.coefficients, atol=1e-6)
    assert cold.right == warm.right


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_keys_of_many_templates_are_those_of_each(data):
    names = ("a", "b", "c", "d")
    templates = data.draw(st.lists(st.permutations(names).map(tuple), max_size=6))
    templates = [t[: data.draw(st.integers(0, 4))] for t in templates]
    rows = data.draw(st.lists(st.tuples(*[st.sampled_from(["x", "y", None])] * 4), max_size=5))
    table = Table.of(rows, names)
    keys = conditional.feature_keys(table, templates)
    assert keys.shape == (len(rows), len(templates))
    assert keys.dtype == np.uint64
    for found, template in zip(keys.T, templates, strict=True):
        columns = [table.column(name) for name in template]
        wanted = tuple_keys(*columns, seed=symbol("\x1f".join(template)))
        np.testing.assert_array_equal(found, np.broadcast_to(wanted, len(rows)))


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_scores_without_keys_are_those_of_the_keys(data):
    names = ("a", "b", "c")
    sizes = data.draw(st.lists(st.integers(0, 3), max_size=6))
    templates = [tuple(data.draw(st.permutations(names)))[:size] for size in sizes]
    values = st.sampled_from(["x", "y", "z", None])
    known, asked = (
        Table.of(data.draw(st.lists(st.tuples(values, values, values), max_size=5)), names)
        for _ in range(2)
    )
    keys = np.unique(conditional.feature_keys(known, templates))
    if data.draw(st.booleans()):
        keys = keys[::-1].copy()  # not ascending
    index, rng = KeyIndex(keys), np.random.default_rng(len(keys))
    weights = rng.normal(size=(len(keys), 2)).astype(data.draw(st.sampled_from(["f4", "f8"])))
    found, wanted = (np.ones((len(asked), 2)) for _ in range(2))
    for rows in index.find(conditional.feature_keys(asked, templates)).T:
        wanted[rows >= 0] += weights[rows[rows >= 0]]
    columns, starts, seeds = conditional.template_columns(names, tuple(templates))
    add_scores_of_values(asked.symbols, starts, columns, seeds, index, weights, found)
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"starts": [0, 1]}, "each template"),
        ({"starts": [0, 2, 1]}, "offsets"),
        ({"columns": [2]}, "no such column"),
        ({"columns": [-1]}, "no such column"),
        ({"weights": np.zeros((2, 2))}, "each key"),
        ({"out": np.zeros((1, 2))}, "shape"),
    ],
)
def test_scores_that_the_kernel_refuses(change, problem):
    right = {
        "values": np.zeros((3, 2), dtype=np.uint64),
        "starts": [0, 0, 1],
        "columns": [1],
        "seeds": np.zeros(2, dtype=np.uint64),
        "index": KeyIndex(np.arange(1, dtype=np.uint64)),
        "weights": np.zeros((1, 2)),
        "out": np.zeros((3, 2)),
    }
    arguments = right | change
    for name in ("starts", "columns"):
        arguments[name] = np.array(arguments[name], dtype=np.int32)
    with pytest.raises(ValueError, match=problem):
        add_scores_of_values(*arguments.values())


def test_keys_of_features_never_change():
    table = Table.of([["ate", "with", "fork"]], ("v", "p", "n2"))
    found = conditional.feature_keys(table, [("p",), ("p", "v"), ("v", "p", "n2")])
    assert found.tolist() == [[1123007534093342751, 17822744579190132110, 6544515964445012364]]
