"""The search for conjunctions, and training on data that come in parts."""

import numpy as np
import pytest
from classification.nets import accuracy, log_linear, own_scores

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
    model = log_linear("search", tolerance=1e-8).fit(*train, dev=dev, variables=VARIABLES)
    chosen, best = [], (0.0, 0.0)
    for step in model.steps[:2]:
        candidates = [(v,) for v in VARIABLES if (v,) not in chosen]
        for template in chosen:
            candidates += [tuple(sorted((*template, v))) for v in VARIABLES if v not in template]
        assert step.n_candidates == len(candidates)
        found = []
        for template in candidates:
            cold = log_linear([*chosen, template], tolerance=1e-8).fit(*train, variables=VARIABLES)
            right = accuracy(cold, *dev)
            likelihood = own_scores(cold.log_proba(dev[0]), dev[1], cold.labels).sum()
            found.append((right, round(likelihood, 4), -len(template), template))
        best = max(found, key=lambda candidate: candidate[:3])
        assert step.variables == best[3]
        assert step.accuracy == pytest.approx(best[0])
        assert step.log_likelihood == pytest.approx(best[1], abs=1e-3)
        chosen.append(step.variables)


def test_without_nesting_templates_are_those_of_a_bayes_net():
    model = fit(nested=False, l2=1e-4)
    assert model.templates
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
