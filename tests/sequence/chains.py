"""Obviously right linear chains: NumPy in log space, and enumeration of all label sequences."""

from itertools import pairwise, product

import numpy as np
import pytest
from scipy.special import logsumexp

from spacy_structlearn.sequence.chain.model import ChainModel
from spacy_structlearn.sequence.estimators import training
from spacy_structlearn.sequence.estimators.crf import ChainLikelihood
from spacy_structlearn.sequence.layout import encoding
from spacy_structlearn.sequence.layout.data import SequenceData
from spacy_structlearn.sequence.layout.features import Templates

COLUMNS = ("ORTH", "TAG")
TEMPLATES = ("ORTH[0]", "TAG[-1]|TAG[0]", "ORTH[1]", "bias")
RICH_TEMPLATES = (
    "TAG[0]|ORTH[0]",
    "ORTH[0]",
    "bias",
    "TAG[-1]|TAG[0]",
    "TAG[0]",
    "TAG[0]|TAG[-1]",
    "ORTH[1]",
    "TAG[-1]|TAG[0]|TAG[1]",
)
"""Some of them implied by others, two with the same terms."""
LABELS = ("B-NP", "I-NP", "O", "B-VP", "I-VP")


CHAINS = {
    "first order": {"order": 1},
    "second order": {"order": 2},
    "second order, labels only": {"order": 2, "pair_features": False},
}
LABEL_SETS = [
    ("IOB2", LABELS[:3]),
    ("IOB2", LABELS),
    ("IOB2", ("O", "I-NP", "B-NP")),
    ("IOB2", ("I-NP", "O")),
    ("IOB2", ("B-NP", "O")),
    ("IOB2", ("I-NP", "B-VP", "O", "B-NP")),
    ("IOBES", encoding.tag_set(["NP"], "IOBES")),
]
"""Encodings and their labels, some of which are missing."""


def random_data(lengths, n_labels=3, seed=0, n_symbols=6):
    """Columns, offsets and label ids of random sentences of the given lengths."""
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    columns = rng.integers(0, n_symbols, size=(n, 2)).astype(np.uint64)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return columns, offsets, rng.integers(0, n_labels, size=n)


def built(*parts, min_count=1, order=1, pair_features=True, encoding="IOB2"):
    """`ChainModel.build`, with what tests usually ask for."""
    *data, min_count = parts if len(parts) > 5 else (*parts, min_count)
    return ChainModel.build(
        *data, min_count, order=order, pair_features=pair_features, encoding=encoding
    )


def random_model(columns, offsets, label_ids, labels=LABELS[:3], scale=1.0, seed=0, **options):
    """A model with random weights for all predicates, columns and allowed transitions.

    options: those of `ChainModel.build`.
    """
    rng = np.random.default_rng(seed)
    model = built(columns, offsets, label_ids, labels, Templates(TEMPLATES), **options)
    model.weights[:] = rng.normal(scale=scale, size=model.weights.shape)
    model.transitions += rng.normal(scale=scale, size=model.transitions.shape)
    return model


def make_objective(
    lengths=(4, 1, 0, 6),
    labels=LABELS[:3],
    n_labels=None,
    seed=0,
    l2=0.5,
    kind=ChainLikelihood,
    templates=TEMPLATES,
    min_count=1,
    **options,
):
    """An objective, and its data, which have the first `n_labels` labels only."""
    columns, offsets, label_ids = random_data(lengths, n_labels or len(labels), seed)
    templates = Templates(templates)
    columns = columns[:, [COLUMNS.index(name) for name in templates.columns]]
    data = columns, offsets, label_ids
    model = built(*data, labels, templates, min_count, **options)
    return kind(model, *data, l2=l2), data


def random_theta(objective, seed=0, scale=0.7):
    return np.random.default_rng(seed).normal(scale=scale, size=objective.n_parameters)


def check_gradient(objective, seed=0):
    theta = random_theta(objective, seed)
    gradient = objective.value_and_grad(theta)[1]
    # All of a small model; of a large one some.
    for i in range(seed, len(theta), 1 + len(theta) // 400):
        shift = np.zeros(len(theta))
        shift[i] = 1e-5
        above, below = (objective.value_and_grad(theta + d)[0] for d in (shift, -shift))
        assert gradient[i] == pytest.approx((above - below) / 2e-5, abs=1e-6)


def sentences(offsets):
    return [slice(a, b) for a, b in pairwise(offsets)]


def as_data(columns, offsets, label_ids, tags=LABELS):
    """A list of the sentences, as training wants them."""
    return [
        SequenceData(
            columns[s], np.array([0, s.stop - s.start]), tuple(tags[i] for i in label_ids[s])
        )
        for s in sentences(offsets)
    ]


def trained(trainer):
    """The trainer at its end."""
    while trainer.step():
        pass
    return trainer


def fit(settings, data, labels, previous=None):
    """The trainer of settings at its end."""
    start = training.initialize(settings, data, labels, previous)
    return trained(training.trainer(settings, start, data))


def numpy_scores(rows, weights):
    padded = np.vstack([weights, np.zeros((1, weights.shape[1]))]).astype(float)
    return padded[rows].sum(axis=1)


def numpy_forward_backward(scores, transitions, initial=0.0, final=0.0):
    """log Z, marginals and expected transitions of one sentence, in log space."""
    n, n_states = scores.shape
    alpha, beta = np.empty_like(scores), np.zeros_like(scores)
    expectations = np.zeros((n_states, n_states))
    alpha[0] = scores[0] + initial
    for t in range(1, n):
        alpha[t] = scores[t] + logsumexp(alpha[t - 1][:, None] + transitions, axis=0)
    log_z = logsumexp(alpha[-1] + final)
    beta[-1] += final
    for t in range(n - 1, 0, -1):
        beta[t - 1] = logsumexp(transitions + scores[t] + beta[t], axis=1)
        expectations += np.exp(alpha[t - 1][:, None] + transitions + scores[t] + beta[t] - log_z)
    return log_z, np.exp(alpha + beta - log_z), expectations


def enumerate_labels(model, rows, allowed=None):
    """Every sequence of labels of a short sentence and its score, -inf for the impossible.

    rows: int (n_tokens, n_templates), the known predicates of the sentence, -1 for others.
    allowed: bool (n_tokens, n_labels), or None.
    """
    n_labels = len(model.labels)
    columns = numpy_scores(rows, model.weights)
    places = {tuple(state): i for i, state in enumerate(model.states.tolist())}
    sequences = list(product(range(n_labels), repeat=len(rows)))
    totals = []
    for ys in sequences:
        pairs = zip((model.start, *ys), ys, strict=False)
        states = [places.get((y,) if model.order == 1 else (x, y)) for x, y in pairs]
        if None in states:
            totals.append(-np.inf)
            continue
        total = model.initial[states[0]] + model.final[states[-1]]
        total += sum(model.transitions[a, b] for a, b in pairwise(states))
        for t, (y, state) in enumerate(zip(ys, states, strict=True)):
            total += columns[t, y]
            if model.has_pair_features:
                total += columns[t, n_labels + state]
            if allowed is not None and not allowed[t, y]:
                total = -np.inf
        totals.append(total)
    return np.array(sequences), np.array(totals)


def enumerate_chunk_probabilities(sequences, totals, labels, scheme="IOB2"):
    """Probability of every chunk (label, start, end) from all sequences of labels."""
    probabilities = np.exp(totals - logsumexp(totals))
    chunks = {}
    for ys, p in zip(sequences, probabilities, strict=True):
        for chunk in encoding.decode([labels[y] for y in ys], scheme):
            chunks[chunk] = chunks.get(chunk, 0.0) + p
    return chunks
