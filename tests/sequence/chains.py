"""Obviously right linear chains: NumPy in log space, and enumeration of all label sequences."""

from itertools import pairwise, product

import numpy as np
from scipy.special import logsumexp

from spacy_structlearn.sequence import encoding
from spacy_structlearn.sequence.features import Templates
from spacy_structlearn.sequence.model import ChainModel

COLUMNS = ("ORTH", "TAG")
TEMPLATES = ("ORTH[0]", "TAG[-1]|TAG[0]", "ORTH[1]", "bias")
LABELS = ("B-NP", "I-NP", "O", "B-VP", "I-VP")


def random_data(lengths, n_labels=3, seed=0, n_symbols=6):
    """Columns, offsets and label ids of random sentences of the given lengths."""
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    columns = rng.integers(0, n_symbols, size=(n, 2)).astype(np.uint64)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return columns, offsets, rng.integers(0, n_labels, size=n)


def random_model(columns, offsets, label_ids, labels=LABELS[:3], scale=1.0, seed=0):
    """A model with random weights for all predicates and labels."""
    rng = np.random.default_rng(seed)
    model = ChainModel.build(columns, offsets, label_ids, labels, Templates(TEMPLATES))
    model.weights[:] = rng.normal(scale=scale, size=model.weights.shape)
    model.transitions[:] = rng.normal(scale=scale, size=model.transitions.shape)
    return model


def sentences(offsets):
    return [slice(a, b) for a, b in pairwise(offsets)]


def numpy_scores(rows, weights):
    padded = np.vstack([weights, np.zeros((1, weights.shape[1]))]).astype(float)
    return padded[rows].sum(axis=1)


def numpy_forward_backward(scores, transitions):
    """log Z, marginals, expected transitions and log beta of one sentence, in log space."""
    n, n_labels = scores.shape
    alpha, beta = np.empty_like(scores), np.zeros_like(scores)
    expectations = np.zeros((n_labels, n_labels))
    alpha[0] = scores[0]
    for t in range(1, n):
        alpha[t] = scores[t] + logsumexp(alpha[t - 1][:, None] + transitions, axis=0)
    log_z = logsumexp(alpha[-1])
    for t in range(n - 1, 0, -1):
        beta[t - 1] = logsumexp(transitions + scores[t] + beta[t], axis=1)
        expectations += np.exp(alpha[t - 1][:, None] + transitions + scores[t] + beta[t] - log_z)
    return log_z, np.exp(alpha + beta - log_z), expectations, beta


def numpy_viterbi(scores, transitions):
    best, back = scores[0], []
    for score in scores[1:]:
        through = best[:, None] + transitions
        back.append(through.argmax(axis=0))
        best = through.max(axis=0) + score
    path = [int(best.argmax())]
    for pointers in reversed(back):
        path.append(int(pointers[path[-1]]))
    return path[::-1], float(best.max())


def enumerate_sequences(scores, transitions):
    """Every label sequence of a short sentence and its score."""
    n, n_labels = scores.shape
    sequences = list(product(range(n_labels), repeat=n))
    totals = [
        sum(scores[t, y] for t, y in enumerate(ys))
        + sum(transitions[a, b] for a, b in pairwise(ys))
        for ys in sequences
    ]
    return np.array(sequences), np.array(totals)


def enumerate_chunk_probabilities(scores, transitions, labels):
    """Probability of every chunk (label, start, end) by enumeration."""
    sequences, totals = enumerate_sequences(scores, transitions)
    probabilities = np.exp(totals - logsumexp(totals))
    chunks = {}
    for ys, p in zip(sequences, probabilities, strict=True):
        for chunk in encoding.decode([labels[y] for y in ys]):
            chunks[chunk] = chunks.get(chunk, 0.0) + p
    return chunks
