"""The search for conjunctions, and training on data that come in parts."""

import numpy as np
import pytest
from classification.nets import accuracy, log_linear, own_scores

from spacy_structlearn.classification import (
    BayesNetSettings,
    LogLinearSettings,
    Table,
    training,
)
from spacy_structlearn.classification import fit as fit_all
from spacy_structlearn.classification.features import ClassificationData

VARIABLES = ("a", "b", "c", "d")


def exclusive_or(seed, n=600, noise=0.1):
    """Rows of four variables: the label is a xor b, where b is 1 more often; c tells a little."""
    rng = np.random.default_rng(seed)
    a, b, d = (rng.random((3, n)) < np.array([[0.5], [0.8], [0.5]])).astype(int)
    truth = a ^ b
    c = np.where(rng.random(n) < 0.3, truth, rng.integers(0, 2, n))
    labels = np.where(rng.random(n) < noise, 1 - truth, truth)
    rows = [tuple(map(str, row)) for row in np.stack([a, b, c, d], axis=1)]
    return rows, ["yes" if label else "no" for label in labels]


def fit(templates="search", dev="other", seed=0, **settings):
    dev = exclusive_or(seed + 100) if dev == "other" else dev
    return log_linear(templates, **settings).fit(*exclusive_or(seed), dev=dev, variables=VARIABLES)


def test_the_search_of_the_paper_by_hand():
    """Every candidate trained from nothing gives the same choice as the warm starts."""
    train, dev = exclusive_or(5), exclusive_or(105)
    model = log_linear("search", tolerance=1e-8, max_templates=2).fit(
        *train, dev=dev, variables=VARIABLES
    )
    chosen, best = [], (0.0, 0.0)
    for step in model.steps:
        candidates = [(v,) for v in VARIABLES if (v,) not in chosen]
        for template in chosen:
            candidates += [tuple(sorted((*template, v))) for v in VARIABLES if v not in template]
        assert step.n_fits == len(candidates)
        found = []
        for template in candidates:
            cold = log_linear([*chosen, template], tolerance=1e-8).fit(*train, variables=VARIABLES)
            right = accuracy(cold, *dev)
            likelihood = own_scores(cold.log_proba(dev[0]), dev[1], cold.labels).sum()
            found.append((right, round(likelihood, 4), -len(template), template))
        best = max(found, key=lambda candidate: candidate[:3])
        assert step.template == best[3]
        assert step.accuracy == pytest.approx(best[0])
        assert step.log_likelihood == pytest.approx(best[1], abs=1e-3)
        chosen.append(step.template)


def test_limits_of_the_search():
    assert len(fit(max_templates=1).templates) == 1
    assert fit(max_templates=0).templates == ()
    assert max(map(len, fit(max_conjunction=1).templates)) == 1
    assert fit(min_gain=1.0).templates == ()
    everything = fit(min_gain=-1.0, max_conjunction=2).templates
    assert len(everything) == 4 + 6


def test_without_nesting_templates_are_those_of_a_bayes_net():
    model = fit(nested=False, l2=1e-4, min_gain=-1.0)
    assert len(model.templates) == len(VARIABLES)
    placed = set()
    for template in model.templates:
        assert len(template) <= 3
        assert len(set(template) - placed) == 1
        placed.update(template)


def test_l2_is_the_best_of_the_list():
    train, dev = exclusive_or(1, n=60), exclusive_or(101)
    values = [0.01, 1.0, 30.0]
    templates = [("a",), ("a", "b", "c")]
    model = log_linear(templates, l2=values, tolerance=1e-8).fit(
        *train, dev=dev, variables=VARIABLES
    )

    def quality(l2):
        other = log_linear(templates, l2=l2, tolerance=1e-8).fit(*train, variables=VARIABLES)
        own = own_scores(other.log_proba(dev[0]), dev[1], other.labels)
        return accuracy(other, *dev), own.sum()

    assert model.l2 == max(values, key=quality)
    alone = log_linear(templates, l2=model.l2, tolerance=1e-8).fit(*train, variables=VARIABLES)
    np.testing.assert_allclose(model.log_proba(dev[0]), alone.log_proba(dev[0]), atol=1e-4)


def test_a_tenth_is_held_out_where_there_is_no_dev_and_then_added_again():
    model = fit(dev=None, l2="search", tolerance=1e-8)
    again = log_linear(model.templates, l2=model.l2, tolerance=1e-8).fit(
        *exclusive_or(0), variables=VARIABLES
    )
    np.testing.assert_array_equal(model.keys, again.keys)
    np.testing.assert_allclose(model.weights, again.weights, atol=1e-5)


def test_recount_estimates_on_both_sets():
    train, dev = exclusive_or(0), exclusive_or(100)
    model = fit(recount=True, tolerance=1e-8)
    both = log_linear(model.templates, tolerance=1e-8).fit(
        train[0] + dev[0], train[1] + dev[1], variables=VARIABLES
    )
    np.testing.assert_allclose(model.weights, both.weights, atol=1e-5)


def trained(settings, parts, steps=0):
    """What a trainer learns of parts, the first one's known at the start; `steps` between them."""
    trainer = training.trainer(settings, training.initialize(settings, parts, LABELS), parts[:1])
    for part in parts[1:]:
        for _ in range(steps):
            trainer.step()
        trainer.add([part])
    while trainer.step():
        pass
    return trainer.parameters()


def parts_of(rows, labels, n_parts):
    return [
        ClassificationData(
            Table.of([rows[i] for i in part], VARIABLES), tuple(labels[i] for i in part)
        )
        for part in np.array_split(np.random.default_rng(0).permutation(len(rows)), n_parts)
    ]


LABELS = ("maybe", "no", "yes")


@pytest.mark.parametrize(
    "settings",
    [
        LogLinearSettings(tolerance=1e-9),
        LogLinearSettings(templates="single", tolerance=1e-9),
        LogLinearSettings(templates="single", base=BayesNetSettings(), tolerance=1e-9),
        BayesNetSettings(),
    ],
)
def test_data_in_parts_reach_what_fit_learns(settings):
    rows, labels = exclusive_or(0)
    learned = trained(settings, parts_of(rows, labels, 7), steps=3)
    model = fit_all(settings, rows, labels, variables=VARIABLES, known_labels=LABELS)
    assert learned.labels == LABELS
    np.testing.assert_allclose(learned.predict_proba(rows), model.predict_proba(rows), atol=1e-5)
