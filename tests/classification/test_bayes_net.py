"""Bayes nets from end to end: fit, prediction by the kernel, bytes, and the paper's own task."""

from itertools import product

import numpy as np
import pytest
from classification import nets
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn import serialization
from spacy_structlearn.classification import BayesNet, Table
from spacy_structlearn.errors import StructlearnError

SMOOTHINGS = st.sampled_from(["witten_bell", "uniform"])


def example(n=60, seed=3):
    """Rows of v, n and p; the label is mostly that of p, or else of v and n."""
    random = np.random.default_rng(seed)
    rows, labels = [], []
    for _ in range(n):
        v, n_, p = random.integers(0, [6, 8, 4])
        label = "NVO"[p] if p < 3 else "NV"[(v + n_) % 2]
        rows.append((f"v{v}", None if n_ == 0 else f"n{n_}", f"p{p}"))
        labels.append(label if random.random() < 0.9 else "V")
    return rows, labels


NAMES = ("v", "n", "p")
TRAIN, DEV = example(300), example(100, seed=4)


@pytest.fixture(scope="module")
def net():
    return nets.bayes_net().fit(*TRAIN, dev=DEV, variables=NAMES)


def code_of(call, *args, **kwargs):
    with pytest.raises(StructlearnError) as caught:
        call(*args, **kwargs)
    return caught.value.code


@settings(deadline=None)
@given(
    nets.tables(),
    nets.tables(max_size=4),
    nets.structures(),
    SMOOTHINGS,
    st.sampled_from(["joint", "conditional", None]),
    st.sampled_from(["one", "many"]),
)
def test_log_joint_is_that_of_the_slow_net(table, others, structure, smoothing, fit_d, n_d):
    net = nets.bayes_net(nets.named(structure), smoothing=smoothing, fit_d=fit_d, n_d=n_d)
    net = net.fit(*table, variables=nets.VARIABLES)
    slow = nets.SlowNet(*table)
    d = {
        nets.VARIABLES.index(name) if name else None: list(of) for name, of in net.d.items()
    } or None
    found = net.log_joint(others[0])
    expected = [
        [slow.log_joint(row, label, structure, d, smoothing) for label in net.labels]
        for row in others[0]
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_allclose(
        nets.left_out(net, *table),
        nets.slow_left_out(*table, net.labels, structure, d=d, smoothing=smoothing),
        rtol=1e-9,
    )
    probabilities = net.predict_proba(others[0])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_allclose(probabilities, np.exp(found) / np.exp(found).sum(1, keepdims=True))


@pytest.mark.parametrize("dev", [DEV, None], ids=["dev", "left out"])
@pytest.mark.parametrize("fit_d", ["joint", "conditional"])
def test_fitted_d_are_better(dev, fit_d):
    """In what they are fitted to, and many are as good as one."""
    values = {}
    for chosen, n_d in product((None, fit_d), ("one", "many")):
        net = nets.bayes_net("naive", fit_d=chosen, n_d=n_d).fit(*TRAIN, dev=dev, variables=NAMES)
        rows, labels = dev or TRAIN
        scores = net.log_joint(rows) if dev else nets.left_out(net, *TRAIN)
        own = nets.own_scores(scores, labels, net.labels)
        if fit_d == "conditional":
            own = own - np.log(np.exp(scores).sum(axis=1))
        values[chosen, n_d] = own.sum()
        d = np.concatenate(list(net.d.values()))
        assert len(d) == 1 + 3 * 2
        assert (len(set(d.tolist())) == 1) == (n_d == "one" or chosen is None)
        if chosen is None:
            np.testing.assert_array_equal(d, 1.0)
    assert values[fit_d, "many"] > values[fit_d, "one"] > values[None, "one"]


def test_rows_may_be_given_in_any_way(net):
    rows = [("v1", "n2", "p3"), ("v9", None, "p0")]
    expected = net.log_joint(rows)
    columns = {"p": ["p3", "p0"], "more": ["a", "b"], "v": ["v1", "v9"], "n": ["n2", None]}
    for other in (Table.of(rows, NAMES), columns, Table.of(columns)):
        np.testing.assert_array_equal(net.log_joint(other), expected)
    assert code_of(net.log_joint, [("v1", "n2")]) == "SL502"
    assert code_of(net.log_joint, {"v": ["v1"], "n": ["n2"]}) == "SL503"
    part = nets.bayes_net({"p": (), "v": ("p",)}).fit(*TRAIN, variables=NAMES)
    del columns["n"]
    np.testing.assert_array_equal(part.log_joint(columns), part.log_joint(rows))


@pytest.mark.parametrize("structure", ["naive", "search"])
@pytest.mark.parametrize("smoothing", ["witten_bell", "uniform"])
@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        ([], []),
        ([("x", "y", "z")], ["N"]),
        ([(None, None, None)] * 4, ["N", "V", "V", "O"]),
        ([("x", "y", "z"), ("x", None, "w")], ["N", "N"]),
        ([(str(i), str(-i), None) for i in range(50)], ["N", "V"] * 25),
    ],
    ids=["no rows", "one row", "all missing", "one label", "all different"],
)
def test_nothing_fails(structure, smoothing, rows, labels):
    strange = [("unseen",) * 3, (None,) * 3, ("x", "unseen", None)]
    for dev in (None, (rows, labels), ([], []), (strange, ["N", "new label", "V"])):
        for fit_d, n_d in (("joint", "many"), ("conditional", "one")):
            net = nets.bayes_net(structure, smoothing=smoothing, fit_d=fit_d, n_d=n_d)
            net = net.fit(rows, labels, dev=dev, variables=nets.VARIABLES)
            again = BayesNet.from_bytes(net.to_bytes())
            assert again.labels == tuple(sorted({*labels, *(dev[1] if dev else [])}))
            if again.is_empty:
                assert code_of(again.predict, strange) == "SL510"
                continue
            assert np.isfinite(again.log_joint(strange)).all()
            np.testing.assert_allclose(again.predict_proba(strange).sum(axis=1), 1.0)
            assert set(again.predict(strange)) <= set(again.labels)
            assert again.predict([]) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda f: f["labels"].reverse(),
        lambda f: f["d"].pop(),
        lambda f: f["d"].reverse(),
        lambda f: f["d"][0].fill(np.nan),
        lambda f: f["d"][0].fill(-1.0),
        lambda f: f["variables"].pop(),
        lambda f: f["parents"].reverse(),
        lambda f: f["parents"].pop(),
        lambda f: f["steps"][0].pop(),
        lambda f: f["settings"].update(smoothing="none"),
        lambda f: f["tables"].pop("keys"),
        lambda f: f["tables"]["keys"].pop(),
        lambda f: f["tables"]["keys"].append(f["tables"]["keys"][-1]),
        lambda f: f["tables"]["counts"][0].fill(0),
        lambda f: f["tables"]["counts"].reverse(),
        lambda f: f["tables"]["n_values"].pop(),
        lambda f: f["tables"]["n_values"].insert(0, -3),
        lambda f: f["tables"]["subsets"].pop(),
        lambda f: f["tables"]["subsets"][-1].append(99),
        lambda f: f["tables"]["contexts"].pop(),
        lambda f: f["tables"]["contexts"][1][0].append(1),
        lambda f: f["tables"]["contexts"][1][0].append(77),
        lambda f: f["tables"]["distinct"][0].pop(),
        lambda f: f["tables"]["distinct"].reverse(),
        lambda f: f["tables"].update(counts=[c * np.nan for c in f["tables"]["counts"]]),
        lambda f: f["tables"].update(counts=[c + np.inf for c in f["tables"]["counts"]]),
        lambda f: f["tables"].update(counts=[c - 5.5 for c in f["tables"]["counts"]]),
    ],
)
def test_bytes_that_are_no_net(net, damage):
    _, fields = serialization.unpack(net.to_bytes(), "bayes_net", {2})
    damage(fields)
    data = serialization.pack("bayes_net", 2, fields)
    assert code_of(BayesNet.from_bytes, data) == "SL054"


def test_bad_data():
    fit = nets.bayes_net().fit
    assert code_of(fit, TRAIN[0], TRAIN[1][:-1]) == "SL504"
    assert code_of(fit, *TRAIN, dev=(DEV[0], DEV[1][:-1])) == "SL504"
    for bad in (range(len(TRAIN[1])), [None, *TRAIN[1][1:]], "V" * len(TRAIN[1]), 3):
        assert code_of(fit, TRAIN[0], bad) == "SL504"
    assert code_of(fit, *TRAIN, dev=(DEV[0], range(len(DEV[1])))) == "SL504"
    assert code_of(fit, *TRAIN, dev=DEV[:1]) == "SL507"
    assert code_of(fit, None, TRAIN[1]) == "SL506"
    assert code_of(fit, [("a",)], ["N"], variables=("\x1e",)) == "SL501"
    assert code_of(fit, *TRAIN, dev=([("a",)], ["N"])) == "SL502"
    assert code_of(fit, *TRAIN, variables=("a", "b")) == "SL502"
    assert code_of(nets.bayes_net({"q": ()}).fit, *TRAIN) == "SL511"
    assert code_of(nets.log_linear([("z",)]).fit, *TRAIN) == "SL503"
    assert code_of(BayesNet().predict, [("a",)]) == "SL510"


@pytest.mark.corpus
def test_pp_attachment(corpora):
    """The structure of figure 2a with its 13 parameters, from 25 candidates, and the accuracy."""
    train, dev = (nets.quadruples(corpora, name) for name in ("training", "devset"))
    net = nets.bayes_net().fit(*train, dev=dev)
    assert net.parents == {"p": (), "n1": ("p",), "v": ("p",), "n2": ("v", "p")}
    assert sum(len(d) for d in net.d.values()) == 13
    assert sum(step.n_candidates for step in net.steps[1:]) == 25
    assert nets.accuracy(net, *dev) >= 0.845
    naive = nets.bayes_net("naive").fit(*train, dev=dev)
    assert sum(len(d) for d in naive.d.values()) == 9


def test_probabilities_that_underflow_are_numbers():
    # A value that none of 100 contexts was seen with: (1 - lambda)^100 is less than any float.
    names = [f"x{i}" for i in range(100)]
    rows = [("a",) * 100 + ("p",)] * 2000
    structure = {**dict.fromkeys(names, ()), "y": names}
    labels = ["N", "V"] * 1000
    net = nets.bayes_net(structure, fit_d=None).fit(rows, labels, variables=[*names, "y"])
    np.testing.assert_allclose(net.predict_proba([("a",) * 100 + ("q",)]), 0.5)
    assert np.isfinite(nets.left_out(net, rows, labels)).all()


def test_dot_has_every_variable_and_its_parents():
    net = BayesNet(parents={"p": (), 'n"2': ("p",)})
    assert net.dot().splitlines() == [
        *("digraph network {", "  node [shape=box];"),
        *('  n0 [label="class"];', '  n1 [label="p"];', '  n2 [label="n\\"2"];'),
        *("  n0 -> n1 [color=gray];", "  n0 -> n2 [color=gray];", "  n1 -> n2;", "}"),
    ]
