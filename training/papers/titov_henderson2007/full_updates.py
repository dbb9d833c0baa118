"""Mean field by equation 7 of Titov & Henderson (2007), for the networks of section 6.1.

After each decision, the means of a state are those that maximize the bound for all decisions of the
state so far. The incremental mean field of the package (eq. 8) instead keeps what earlier decisions
added to the log-odds, and corrects only for the last one. The two agree for the first decision of a
state, its label, and differ for the second, its element.

The weights are those of a `BeliefNetwork`. Shapes: P pieces, n variables, L labels, E elements. A
state has K choices, 1 (label) or 2 (label and element). `rows`, (P, K, D, n), are output weights of
each choice. D is the largest number of values. Missing values have a bias of -inf in `bias`,
(2, D).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from training.papers.titov_henderson2007.networks import (
    BEAM,
    BeliefNetwork,
    Floats,
    Ids,
    Sequences,
    backtraced,
)

# Largest last step of the log-odds. As steps shrink quadratically, the error is below 1e-8.
TOLERANCE = 1e-4
MOST_STEPS, MOST_HALVINGS = 50, 20


class Means(NamedTuple):
    """Means (P, n), the bound (P), and the probabilities of values by these means, (P, K, D)."""

    mu: Floats
    bound: Floats
    p: Floats


def update(eta: Floats, rows: Floats, bias: Floats, values: Ids) -> Means:
    """Return the means that maximize the bound (eq. 7), by Newton's method with halved steps.

    The bound is concave. eta: log-odds before any decision, (P, n). values: decisions, (P, K).
    """
    seen = np.take_along_axis(rows, values[:, :, None, None], axis=2)[:, :, 0].sum(axis=1)
    theta = eta + seen
    phi, found = theta, _means(theta, theta, rows, bias)
    for _ in range(MOST_STEPS):
        average = found.p[:, :, None] @ rows  # (P, K, 1, n)
        residual = phi - theta + average[:, :, 0].sum(axis=1)
        spread = rows - average
        covariance = (spread.swapaxes(2, 3) @ (found.p[..., None] * spread)).sum(axis=1)
        slopes = found.mu * (1 - found.mu)
        system = np.eye(eta.shape[1]) + covariance * slopes[:, None]
        step = np.linalg.solve(system, residual[..., None])[..., 0]
        is_last = np.abs(step).max() < TOLERANCE
        tried = _means(phi - step, theta, rows, bias)
        for _ in range(MOST_HALVINGS):
            worse = tried.bound < found.bound - 1e-12
            if not worse.any():
                break
            step[worse] /= 2
            tried = _means(phi - step, theta, rows, bias)
        phi, found = phi - step, tried
        if is_last:
            break
    return found


def _means(phi: Floats, theta: Floats, rows: Floats, bias: Floats) -> Means:
    mu = 1 / (1 + np.exp(-phi))
    scores = (rows @ mu[:, None, :, None])[..., 0] + bias[: rows.shape[1]]
    top = scores.max(axis=2, keepdims=True)
    p = np.exp(scores - top)
    sums = p.sum(axis=2, keepdims=True)
    bound = np.logaddexp(0, phi) + mu * (theta - phi)
    normalizers = (top + np.log(sums)).sum(axis=(1, 2))
    return Means(mu, bound.sum(axis=1) - normalizers, p / sums)


class Outputs(NamedTuple):
    """Output weights of the choices, padded: rows (L, 2, D, n), by the label; bias (2, D)."""

    rows: Floats
    bias: Floats

    @classmethod
    def of(cls, network: BeliefNetwork) -> Outputs:
        n_labels, n_elements, n = network.element_outputs.shape
        rows = np.zeros((n_labels, 2, max(n_labels, n_elements), n))
        bias = np.full(rows.shape[1:3], -np.inf)
        rows[:, 0, :n_labels] = network.label_outputs
        rows[:, 1, :n_elements] = network.element_outputs
        bias[0, :n_labels] = bias[1, :n_elements] = 0
        return cls(rows, bias)

    def log_probs(self, choice: int, labels: Ids, mu: Floats) -> Floats:
        """Return the log-probabilities of a choice's values, (P, D)."""
        scores = (self.rows[labels, choice] @ mu[:, :, None])[..., 0] + self.bias[choice]
        return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)


def log_likelihoods(network: BeliefNetwork, sequences: Sequences) -> tuple[Floats, Floats]:
    """Return approximate log-probabilities of pieces, (P), and the gradient of their sum.

    The gradient, that of `network.vector`, is by implicit differentiation of the maxima.
    """
    outputs, (y, x) = Outputs.of(network), sequences
    values = np.stack([y, x], axis=2)
    n_pieces, length = y.shape
    ids = np.arange(n_pieces)
    total = np.zeros(n_pieces)
    mu, eta = np.zeros((2, n_pieces, len(network.recurrent)))
    tape = []
    for t in range(length):
        if t:
            eta = mu @ network.recurrent.T
            eta += network.label_inputs[y[:, t - 1]] + network.element_inputs[x[:, t - 1]]
        rows = outputs.rows[y[:, t]]
        start = 1 / (1 + np.exp(-eta))
        middle = update(eta, rows[:, :1], outputs.bias, values[:, t, :1])
        end = update(eta, rows, outputs.bias, values[:, t])
        logs = [outputs.log_probs(k, y[:, t], m) for k, m in enumerate((start, middle.mu))]
        total += sum(log[ids, values[:, t, k]] for k, log in enumerate(logs))
        tape.append((mu, start, middle, end, rows, np.exp(logs)))
        mu = end.mu

    recurrent = np.zeros_like(network.recurrent)
    inputs = np.zeros_like(network.label_inputs), np.zeros_like(network.element_inputs)
    found = np.zeros_like(outputs.rows)
    later = np.zeros_like(mu)  # of the final means
    for t, (before, start, middle, end, rows, p) in reversed(list(enumerate(tape))):
        own = np.zeros_like(rows)
        step = _through(later, end, rows, values[:, t], own)
        by_means = []
        for k, means in enumerate((start, middle.mu)):
            wrong = -p[k]
            wrong[ids, values[:, t, k]] += 1
            own[:, k] += wrong[..., None] * means[:, None]
            by_means.append((wrong[:, None] @ rows[:, k])[:, 0])
        step += by_means[0] * start * (1 - start)
        step += _through(by_means[1], middle, rows[:, :1], values[:, t, :1], own)
        np.add.at(found, y[:, t], own)
        if t:
            recurrent += step.T @ before
            for table, column in zip(inputs, (y, x), strict=True):
                np.add.at(table, column[:, t - 1], step)
            later = step @ network.recurrent
    n_labels, n_elements, _ = network.element_outputs.shape
    of_labels, of_elements = found[:, 0, :n_labels].sum(axis=0), found[:, 1, :n_elements]
    return total, BeliefNetwork(recurrent, *inputs, of_labels, of_elements).vector


def _through(slope: Floats, means: Means, rows: Floats, values: Ids, found: Floats) -> Floats:
    """Return the gradient of eta, (P, n), given that of updated means. Add that of `rows` to
    `found`.
    """
    n_choices = rows.shape[1]
    spread = rows - means.p[:, :, None] @ rows
    covariance = (spread.swapaxes(2, 3) @ (means.p[..., None] * spread)).sum(axis=1)
    # (1 / D + C)^-1 g = D (1 + C D)^-1 g, which has no division by small variances D
    variance = means.mu * (1 - means.mu)
    system = np.eye(slope.shape[1]) + covariance * variance[:, None]
    step = variance * np.linalg.solve(system, slope[..., None])[..., 0]
    turned = means.p * (spread @ step[:, None, :, None])[..., 0]
    found[:, :n_choices] -= means.p[..., None] * step[:, None, None]
    found[:, :n_choices] -= turned[..., None] * means.mu[:, None, None]
    for k in range(n_choices):
        found[np.arange(len(step)), k, values[:, k]] += step
    return step


def labelled(network: BeliefNetwork, elements: Ids, beam: int = BEAM) -> Ids:
    """Label pieces with the beam search of `networks.searched`, by approximate probabilities."""
    outputs = Outputs.of(network)
    n_pieces, n_labels = len(elements), len(network.label_outputs)
    pieces = np.arange(n_pieces)[:, None]
    eta = np.zeros((n_pieces, 1, len(network.recurrent)))
    scores = np.zeros((n_pieces, 1))
    choices = []
    for column in elements.T:
        # Each hypothesis with each label: the update by the label, and the element's probability.
        wide = np.repeat(eta.reshape(-1, eta.shape[2]), n_labels, axis=0)
        y = np.tile(np.arange(n_labels), len(wide) // n_labels)
        x = np.repeat(column, len(wide) // n_pieces)
        rows, each = outputs.rows[y], np.arange(len(y))
        logs = outputs.log_probs(0, y, 1 / (1 + np.exp(-wide)))[each, y]
        middle = update(wide, rows[:, :1], outputs.bias, y[:, None])
        logs += outputs.log_probs(1, y, middle.mu)[each, x]
        scores = (scores[..., None] + logs.reshape(*scores.shape, n_labels)).reshape(n_pieces, -1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :beam]
        scores = scores[pieces, best]
        origins, labels = divmod(best, n_labels)
        choices.append((origins, labels))
        y, x = labels.ravel(), np.repeat(column, best.shape[1])
        values = np.stack([y, x], axis=1)
        kept = eta[pieces, origins].reshape(len(y), -1)
        end = update(kept, outputs.rows[y], outputs.bias, values)
        eta = end.mu @ network.recurrent.T + network.label_inputs[y] + network.element_inputs[x]
        eta = eta.reshape(*best.shape, -1)
    return backtraced(choices)
