"""The CRF: objective and gradient, training, and the published check values."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize as scipy_minimize
from sequence import chains
from sequence.chains import make_objective as make
from sequence.conll import read_noun_phrases

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.optimize.lbfgs import LBFGS, minimize
from spacy_structlearn.sequence.chain.model import ChainModel
from spacy_structlearn.sequence.estimators.crf import ChainLikelihood
from spacy_structlearn.sequence.layout.features import SHA_PEREIRA


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 6), max_size=5),
    st.sampled_from(
        [chains.RICH_TEMPLATES, chains.TEMPLATES, SHA_PEREIRA, ("bias",), ("ORTH[0]", "TAG[0]"), ()]
    ),
    st.sampled_from(list(chains.CHAINS)),
    st.integers(1, 3),
    st.integers(0, 100),
)
def test_folding_leaves_the_gradient_as_it_is(lengths, templates, chain, min_count, seed):
    options = {"min_count": min_count, "templates": templates, **chains.CHAINS[chain]}
    objective, (columns, offsets, label_ids) = make(lengths, seed=seed, **options)
    theta = chains.random_theta(objective, seed)
    found = objective.value_and_grad(theta)
    again = objective.value_and_grad(theta)
    assert again[0] == found[0]
    np.testing.assert_array_equal(again[1], found[1])
    value, weights, transitions = unfolded(objective, theta, columns, offsets, label_ids)
    assert found[0] == pytest.approx(value)
    # As vectors of parameters.
    objective.model.weights[:] = weights
    objective.model.transitions[:] = transitions
    np.testing.assert_allclose(found[1], objective.parameters(), atol=1e-9)


def unfolded(objective, theta, columns, offsets, label_ids):
    """Value and gradients of weights and transitions, a predicate at a time."""
    objective.write(theta)
    model = objective.model
    rows = model.rows(model.templates.keys(columns, offsets))
    states = model.state_ids(label_ids.astype(np.int32), offsets)
    scores = model.state_weights(chains.numpy_scores(rows, model.weights)) if len(rows) else None
    # One row more, for what -1 points at.
    weights = np.zeros((len(model.keys) + 1, model.weights.shape[1]))
    transitions = np.zeros_like(model.transitions)
    value = 0.5 * objective.l2 * theta @ theta
    for s in chains.sentences(offsets):
        if s.start == s.stop:
            continue
        log_z, marginals, pairs = chains.numpy_forward_backward(
            scores[s], model.transitions, model.initial, model.final
        )
        right = states[s]
        value += log_z - model.initial[right[0]] - model.final[right[-1]]
        value -= scores[s][np.arange(len(right)), right].sum()
        value -= sum(model.transitions[a, b] for a, b in itertools.pairwise(right))
        transitions += pairs
        for a, b in itertools.pairwise(right):
            transitions[a, b] -= 1
        marginals[np.arange(len(right)), right] -= 1
        by_label = marginals @ (model.states[:, -1:] == np.arange(len(model.labels)))
        by_column = np.hstack([by_label, marginals]) if model.has_pair_features else by_label
        np.add.at(weights, rows[s], by_column[:, None, :])
    weights = weights[:-1] + objective.l2 * model.weights
    allowed = np.isfinite(model.transitions)
    transitions[allowed] += objective.l2 * model.transitions[allowed]
    return value, weights, np.where(allowed, transitions, -np.inf)


def test_likelihood_rises_under_lbfgs_and_ends_where_scipy_does():
    objective, _ = make(lengths=[5, 9, 2, 7], seed=3)
    values = []
    result = LBFGS(objective.parameters(), gradient_tolerance=1e-8, value_tolerance=0)
    while result.n_iterations < 500 and result.step(objective.value_and_grad):
        values.append(result.value)
    assert result.status in ("gradient", "value")
    assert all(b <= a * (1 + 1e-14) for a, b in itertools.pairwise(values))
    options = {"ftol": 0.0, "gtol": 1e-9, "maxiter": 5000}
    theirs = scipy_minimize(
        objective.value_and_grad,
        objective.parameters(),
        jac=True,
        method="L-BFGS-B",
        options=options,
    )
    np.testing.assert_allclose(result.x, theirs.x, atol=1e-6)


def test_errors():
    objective, data = make()
    with pytest.raises(StructlearnError, match="SL205"):
        ChainLikelihood(ChainModel.empty(), *data, l2=1.0)
    with pytest.raises(StructlearnError, match="SL207"):
        ChainLikelihood(objective.model, data[0], data[1], data[2] + 7, l2=1.0)
    with pytest.raises(StructlearnError, match="SL203"):
        ChainLikelihood(objective.model, data[0], data[1] + 1, data[2], l2=1.0)


@pytest.mark.corpus
def test_conll_2000(corpora):
    # The counts and the loss are CRFsuite's on the same features.
    data = read_noun_phrases(corpora / "conll2000" / "train.txt.gz", 7936)
    model = chains.built(*data, chains.LABELS[:3], SHA_PEREIRA)
    assert len(model.keys) == 315_097
    objective = ChainLikelihood(model, *data, l2=1.0)
    assert objective.n_parameters == 370_047
    assert objective.value_and_grad(objective.parameters())[0] == pytest.approx(
        206603.9284, abs=0.01
    )
    result = minimize(objective.value_and_grad, objective.parameters(), max_iterations=10)
    assert result.value < 25_000
