"""Maximum entropy Markov models: the loss against sums over next states, its gradient, training."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from sequence.chains import (
    CHAINS,
    LABELS,
    RICH_TEMPLATES,
    check_gradient,
    numpy_scores,
    random_theta,
    sentences,
)
from sequence.chains import make_objective as make

from spacy_structlearn.sequence.chain.decode import n_best
from spacy_structlearn.sequence.estimators.crf import (
    ChainLikelihood,
    LocalLikelihood,
    LogPseudoLikelihood,
)

PLAIN = ("a", "b", "c")  # labels of no encoding: everything may follow everything


KINDS = [ChainLikelihood, LocalLikelihood, LogPseudoLikelihood]


@pytest.mark.parametrize("labels", [LABELS[:1], LABELS[:3], LABELS, PLAIN])
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_by_finite_differences(kind, labels, chain):
    for min_count in (1, 2):
        options = {"templates": RICH_TEMPLATES, "min_count": min_count, **CHAINS[chain]}
        check_gradient(make(kind=kind, labels=labels, **options)[0])


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 5), max_size=4),
    st.sampled_from([LABELS[:3], LABELS, PLAIN]),
    st.sampled_from([RICH_TEMPLATES, ("bias",), ()]),
    st.sampled_from(list(CHAINS)),
    st.integers(0, 100),
)
def test_loss_of_each_next_state(lengths, labels, templates, chain, seed):
    # Of the labels that can be, the last was never seen.
    options = {"templates": templates, **CHAINS[chain]}
    objective, (columns, offsets, label_ids) = make(
        lengths, labels, 2, seed, kind=LocalLikelihood, **options
    )
    theta = random_theta(objective, seed)
    objective.write(theta)
    model = objective.model
    value = 0.5 * objective.l2 * theta @ theta
    if len(columns):
        rows = model.rows(model.templates.keys(columns, offsets))
        scores = model.state_weights(numpy_scores(rows, model.weights))
    states = model.state_ids(label_ids.astype(np.int32), offsets)
    for s in sentences(offsets):
        before = model.initial
        for t in range(s.start, s.stop):
            value += logsumexp(before + scores[t]) - (before + scores[t])[states[t]]
            before = model.transitions[states[t]]
    assert objective.value_and_grad(theta)[0] == pytest.approx(value)


@pytest.mark.parametrize("chain", CHAINS)
def test_loss_is_that_of_the_model_that_is_decoded(chain):
    objective, (columns, offsets, label_ids) = make(
        (3, 1, 4), PLAIN, l2=0.0, kind=LocalLikelihood, **CHAINS[chain]
    )
    theta = random_theta(objective)
    objective.write(theta)
    assert objective.model.locally_normalized
    paths, log_probabilities = n_best(objective.model, columns, offsets, 3**4)
    np.testing.assert_allclose(np.exp(log_probabilities).sum(axis=0), 1.0)
    loss = 0.0
    for i, s in enumerate(sentences(offsets)):
        right = (paths[:, s] == label_ids[s]).all(axis=1)
        loss -= log_probabilities[right, i].item()
    assert objective.value_and_grad(theta)[0] == pytest.approx(loss)


@pytest.mark.parametrize("kind", [LocalLikelihood, LogPseudoLikelihood])
@pytest.mark.parametrize("chain", CHAINS)
def test_scores_of_any_size(kind, chain):
    objective, _ = make(kind=kind, **CHAINS[chain])
    value, gradient = objective.value_and_grad(random_theta(objective, scale=1e4))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    theta = np.full(objective.n_parameters, np.nan)
    assert not np.isfinite(objective.value_and_grad(theta)[0])
