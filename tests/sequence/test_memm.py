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
    random_data,
    random_theta,
    sentences,
    trained,
)
from sequence.chains import make_objective as make

from spacy_structlearn.sequence.chain.decode import n_best, viterbi
from spacy_structlearn.sequence.estimators import _local, training
from spacy_structlearn.sequence.estimators.crf import ChainLikelihood
from spacy_structlearn.sequence.estimators.memm import LocalLikelihood, state_lists
from spacy_structlearn.sequence.estimators.pseudolikelihood import LogPseudoLikelihood
from spacy_structlearn.sequence.layout.data import SequenceData
from spacy_structlearn.sequence.settings import CRFSettings, MEMMSettings, PseudoLikelihoodSettings

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
    st.integers(1, 3),
    st.integers(0, 100),
)
def test_loss_of_each_next_state(lengths, labels, templates, chain, threads, seed):
    # Of the labels that can be, the last was never seen.
    options = {"templates": templates, "threads": threads, **CHAINS[chain]}
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
    objective.close()


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
@settings(max_examples=30)
@given(st.lists(st.integers(0, 6), max_size=5), st.integers(0, 100))
def test_without_ties_between_labels_the_loss_is_that_of_a_crf(kind, lengths, seed):
    local, data = make(lengths, PLAIN, seed=seed, kind=kind)
    whole = ChainLikelihood(local.model, *data, l2=0.5)
    theta = random_theta(local, seed)
    n_weights = int(local.model.supported.sum())
    theta[n_weights:] = 0.0
    found, expected = (objective.value_and_grad(theta) for objective in (local, whole))
    assert found[0] == pytest.approx(expected[0])
    np.testing.assert_allclose(found[1][:n_weights], expected[1][:n_weights], atol=1e-9)


@pytest.mark.parametrize("kind", [LocalLikelihood, LogPseudoLikelihood])
@pytest.mark.parametrize("chain", CHAINS)
def test_scores_of_any_size(kind, chain):
    objective, _ = make(kind=kind, **CHAINS[chain])
    value, gradient = objective.value_and_grad(random_theta(objective, scale=1e4))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    theta = np.full(objective.n_parameters, np.nan)
    assert not np.isfinite(objective.value_and_grad(theta)[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chain", CHAINS)
def test_threads_change_nothing_but_rounding(kind, chain):
    lengths = np.random.default_rng(5).integers(0, 30, size=40)
    found = []
    for threads in (1, 3):
        objective, _ = make(
            lengths, templates=RICH_TEMPLATES, kind=kind, threads=threads, **CHAINS[chain]
        )
        theta = random_theta(objective)
        found.append(objective.value_and_grad(theta))
        again = objective.value_and_grad(theta)
        assert again[0] == found[-1][0]
        np.testing.assert_array_equal(again[1], found[-1][1])
        objective.close()
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-12)
    np.testing.assert_allclose(found[1][1], found[0][1], atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_added_data_is_as_data_from_the_start(kind):
    whole, (columns, offsets, label_ids) = make([4, 3, 6, 0, 2], kind=kind)
    parts = kind(whole.model, columns[:0], [0], label_ids[:0], l2=0.5)
    parts.add(columns[:7], offsets[:3], label_ids[:7])
    parts.add(columns[7:], offsets[2:] - 7, label_ids[7:])
    whole.write(random_theta(whole))
    value, gradient = whole.value_and_grad(whole.parameters())
    value_of_parts, gradient_of_parts = parts.value_and_grad(parts.parameters())
    assert value_of_parts == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(np.sort(gradient_of_parts), np.sort(gradient), atol=1e-12)


def separable(estimator, n=20):
    """Data in which the tag tells the label, and an estimator's model of them before training."""
    columns, offsets, _ = random_data([8] * n, n_symbols=3)
    tags = np.array(["B-NP", "O", "O"])[columns[:, 1]]
    data = SequenceData(columns, offsets, tuple(tags.tolist()))
    return data, training.initialize(estimator, [data], ["NP"])


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("kind", [CRFSettings, MEMMSettings, PseudoLikelihoodSettings])
def test_estimators_learn(kind, order):
    estimator = kind(templates=("ORTH[0]", "TAG[0]", "bias"), order=order, l2=0.02)
    data, model = separable(estimator)
    learned = trained(training.trainer(estimator, model, [data])).parameters()
    assert learned.locally_normalized == (kind is MEMMSettings)
    found = viterbi(learned, data.columns, data.offsets)
    assert [learned.labels[i] for i in found] == list(data.tags)


def ints(*values):
    return np.array(values, dtype=np.int32)


def test_a_score_that_is_no_number_changes_nothing_of_what_is_no_state():
    # The label 2 after itself makes no state. With nan for the label 1, all options are nan.
    table = np.tile(ints(0, 1, 2), (4, 1))
    table[2, 2] = -1
    differences = np.zeros((3, 3))
    _local.each_label(
        initial=np.zeros(3),
        transitions=np.zeros((3, 3)),
        final=np.zeros(3),
        cells=np.zeros((2, 1), dtype=np.int32),
        offsets=np.array([0, 2]),
        label_ids=ints(2, 0),
        state_ids=ints(2, 0),
        table=table,
        start=3,
        second=False,
        crossed=False,
        touched=state_lists(np.ones((3, 3), dtype=np.bool_), None),
        weights=np.array([[0.0, np.nan, 0.0]]),
        counts=np.zeros((1, 3)),
        differences=differences,
    )
    assert (differences[:, 2] == 0).all()
