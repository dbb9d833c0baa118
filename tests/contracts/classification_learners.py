"""Classifiers of nominal data, one by one and in stages."""

import numpy as np
from contracts.cases import Case, Model, end

from spacy_structlearn.classification import BayesNet, LogLinear
from spacy_structlearn.classification.features import ClassificationData, Table
from spacy_structlearn.classification.settings import (
    BayesNetSettings,
    LogLinearSettings,
    StagesSettings,
)
from spacy_structlearn.classification.trainers import fit
from spacy_structlearn.pipeline.architectures import estimator

LABELS = ("A0", "A1", "A9")


def data(seed=0, variables="abc", labels=LABELS):
    """Six parts, whose labels depend on the last two variables together."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(6):
        values = rng.integers(0, 4, (20, len(variables)))
        odd = (values[:, -1] * values[:, -2] + (rng.random(20) < 0.15)) % 2
        rows = [[f"{v}" for v in row] for row in values]
        known = tuple(labels[i] for i in odd)
        found.append(ClassificationData(Table.of(rows, tuple(variables)), known))
    return found


def staged(seed=0):
    """The main stage everywhere; the other one is missing in some parts, and the last has more."""
    finding, roles = data(seed, "pq", "NY"), data(seed + 1)
    parts = [{"finding": one, "roles": other} for one, other in zip(finding, roles, strict=True)]
    del parts[2]["finding"]
    return [*parts, {"roles": roles[0], "other": roles[0]}]


def case(name, settings, *changes):
    return Case(
        name, settings, data, lambda: data(1), LABELS, same_in_any_order=True, changes=changes
    )


NET = BayesNetSettings()
SEARCHED = LogLinearSettings(l2=[0.5, 5.0], tolerance=1e-3)
PAIRS = LogLinearSettings(templates=[["a", "b"], ["c"]], l2=0.3, max_iterations=9)
STACKED = LogLinearSettings(templates="single", l2="search", base=BayesNetSettings(max_parents=2))
STAGES = StagesSettings(
    stages={"finding": BayesNetSettings(structure={"q": [], "p": ["q"]}), "roles": SEARCHED},
    order=["finding", "roles"],
)

CASES = [
    case("bayes_net", NET, {"n_d": "one"}, {"structure": "naive"}),
    case("bayes_net_uniform", BayesNetSettings(smoothing="uniform"), {"max_parents": 2}),
    case("log_linear_search", SEARCHED, {"l2": [0.5]}, {"nested": False}),
    case("log_linear_pairs", PAIRS, {"templates": "pairs"}, {"min_count": 2}),
    case("log_linear_stacked", STACKED, {"base": None}, {"base": NET}),
    Case(
        "stages",
        STAGES,
        staged,
        lambda: staged(7),
        LABELS,
        same_in_any_order=True,
        changes=({"stages": {**STAGES.stages, "roles": PAIRS}},),
    ),
]


def trained(settings, labels=LABELS, of=data):
    learner = estimator(settings)
    return end(learner.trainer(learner.initialize(of(), labels), of()))


def exact(settings):
    """With weights in float64."""
    rows = [part.table for part in data()]
    labels = [label for part in data() for label in part.labels]
    return fit(settings, Table.concatenate(rows), labels)


STORED = [
    Model("bayes_net", lambda: trained(NET), {"labels": ("B0", "B1", "B9")}),
    Model("bayes_net_untrained", BayesNet, {"labels": ("A0",)}),
    Model("log_linear", lambda: exact(STACKED), {"l2": 0.25}),
    Model("log_linear_sparse", lambda: trained(PAIRS).compact("float16", 0.5), {"l2": 0.25}),
    Model("log_linear_untrained", LogLinear, {"l2": 0.25}),
    Model("stages", lambda: trained(STAGES, of=staged), {"classifiers": {}}),
]
