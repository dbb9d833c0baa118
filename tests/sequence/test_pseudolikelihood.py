"""Pseudolikelihood: against sums over all that a label, word or tag could be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from sequence import chains
from sequence.chains import make_objective as make
from sequence.test_memm import PLAIN

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.sequence.estimators.crf import LogPseudoLikelihood
from spacy_structlearn.sequence.estimators.hmm import close_columns
from spacy_structlearn.sequence.estimators.pseudolikelihood import JointPseudoLikelihood
from spacy_structlearn.sequence.layout.features import UNKNOWN
from spacy_structlearn.sequence.settings import PseudoLikelihoodSettings

ONE_PLACE = ("ORTH[0]", "TAG[-1]", "bias", "ORTH[2]", "TAG[0]")


def make_joint(
    lengths=(4, 1, 0, 6), labels=chains.LABELS[:3], seed=0, templates=ONE_PLACE, **options
):
    """A joint objective and its data, whose words and tags are closed."""
    columns, offsets, label_ids = chains.random_data(
        lengths, min(len(labels), 2), seed, n_symbols=4
    )
    columns, vocabularies = close_columns(columns)
    data = columns, offsets, label_ids
    model = chains.built(*data, labels, templates, **options)
    model.vocabularies = dict(zip(("ORTH", "TAG"), vocabularies, strict=True))
    return JointPseudoLikelihood(model, *data, l2=0.5), data


@pytest.mark.parametrize("labels", [chains.LABELS[:1], chains.LABELS[:3], PLAIN])
@pytest.mark.parametrize("min_count", [1, 2])
@pytest.mark.parametrize("chain", chains.CHAINS)
def test_gradient_of_the_joint_form_by_finite_differences(labels, min_count, chain):
    objective, _ = make_joint(labels=labels, min_count=min_count, **chains.CHAINS[chain])
    chains.check_gradient(objective)


def label_loss(model, columns, offsets, label_ids):
    """- sum of log p(label | other labels), from the scores of all sequences."""
    rows = model.rows(model.templates.keys(columns, offsets))
    loss = 0.0
    for s in chains.sentences(offsets):
        if s.start == s.stop:
            continue
        sequences, totals = chains.enumerate_labels(model, rows[s])
        differ = sequences != label_ids[s]
        right = totals[~differ.any(axis=1)].item()
        for t in range(s.stop - s.start):
            others_right = ~np.delete(differ, t, axis=1).any(axis=1)
            loss += logsumexp(totals[others_right]) - right
    return loss


def symbol_loss(model, columns, offsets, label_ids):
    """- sum of log p(symbol | all else): put in every symbol, and score everything anew."""
    states = model.state_ids(label_ids.astype(np.int32), offsets)

    def score(columns):
        rows = model.rows(model.templates.keys(columns, offsets))
        scores = model.state_weights(chains.numpy_scores(rows, model.weights))
        return scores[np.arange(len(states)), states].sum()

    loss = 0.0
    for t, j in np.ndindex(*columns.shape):
        totals = []
        for symbol in [*model.vocabularies[model.templates.columns[j]].tolist(), UNKNOWN]:
            changed = columns.copy()
            changed[t, j] = symbol
            totals.append(score(changed))
        loss += logsumexp(totals) - score(columns)
    return loss


@settings(max_examples=25)
@given(
    st.lists(st.integers(0, 5), max_size=3),
    st.sampled_from([chains.LABELS[:3], PLAIN]),
    st.sampled_from([chains.RICH_TEMPLATES, ("bias",), ()]),
    st.sampled_from(list(chains.CHAINS)),
    st.integers(0, 100),
)
def test_loss_of_each_label(lengths, labels, templates, chain, seed):
    # The last label was never seen.
    options = {"kind": LogPseudoLikelihood, "templates": templates, **chains.CHAINS[chain]}
    objective, data = make(lengths, labels, 2, seed, **options)
    theta = chains.random_theta(objective, seed)
    objective.write(theta)
    loss = label_loss(objective.model, *data)
    value = objective.value_and_grad(theta)[0]
    assert value == pytest.approx(loss + 0.5 * objective.l2 * theta @ theta)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, 5), max_size=3),
    st.sampled_from([chains.LABELS[:3], PLAIN]),
    st.sampled_from(list(chains.CHAINS)),
    st.integers(1, 2),
    st.integers(0, 100),
)
def test_loss_of_each_label_word_and_tag(lengths, labels, chain, min_count, seed):
    objective, data = make_joint(lengths, labels, seed, min_count=min_count, **chains.CHAINS[chain])
    theta = chains.random_theta(objective, seed)
    objective.write(theta)
    loss = label_loss(objective.model, *data) + symbol_loss(objective.model, *data)
    value = objective.value_and_grad(theta)[0]
    assert value == pytest.approx(loss + 0.5 * objective.l2 * theta @ theta)


def test_errors_of_the_joint_form():
    objective, (columns, offsets, label_ids) = make_joint()
    model = objective.model
    strange = columns.copy()
    strange[3, 0] = 77
    with pytest.raises(StructlearnError, match=r"SL257.*ORTH, at token 3"):
        JointPseudoLikelihood(model, strange, offsets, label_ids, l2=1.0)
    del model.vocabularies["TAG"]
    with pytest.raises(StructlearnError, match=r"SL256.*TAG"):
        JointPseudoLikelihood(model, columns, offsets, label_ids, l2=1.0)
    for text, code in (("TAG[0]|ORTH[0]", "SL255"), ("CLASS[0]", "SL258")):
        with pytest.raises(StructlearnError, match=code):
            PseudoLikelihoodSettings(templates=(text, "ORTH[0]", "TAG[0]"), joint=True)
