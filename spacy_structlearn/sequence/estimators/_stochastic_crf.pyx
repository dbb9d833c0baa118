# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of first-order chains with many labels, which prunes the unlikely labels of each token.

A token keeps the labels whose score is within a margin of the best score, two or three of 48
part-of-speech tags. Forward-backward (Rabiner 1989, section III.A) takes the square of their
number instead of 48 * 48. Training uses the same lattices, with the gold labels added.

`epoch` is stochastic training of a conditional random field by dual averaging with adaptive steps
(Duchi, Hazan & Singer 2011, section 1.3 and equation 24). With g the sum and G the sum of squares
of a weight's derivatives in the t sentences so far, it is

    w = start - rate sign(g) max(|g| - l1 t, 0) / (damping + sqrt(G)).

A weight is updated when it has a derivative; later penalties count at its next update. Derivatives
below a thousandth are ignored.
"""

from libc.math cimport exp, fabs, fmax, fmin, log, sqrt
from libc.stdint cimport int32_t, int64_t

import numpy as np

from spacy_structlearn.kernels.checks cimport check, check_ids, check_starts, check_table
from spacy_structlearn.kernels.prefetch cimport PREFETCH

# Larger transitions are clipped, so that products of three exponentials stay within range.
cdef double MAX_EXPONENT = 200.0
cdef float MIN_DERIVATIVE = 1e-3


cdef struct Rule:
    float rate, damping, threshold


cdef inline float _step(float total, float square, Rule rule) noexcept nogil:
    cdef float size = <float>fabs(total) - rule.threshold
    if size <= 0:
        return 0
    size = rule.rate * size / (rule.damping + <float>sqrt(square))
    return -size if total > 0 else size


cdef class Lattice:
    """The labels of the tokens of one sentence, from starts[t] on, and their forward-backward."""

    cdef Py_ssize_t n_labels
    cdef int32_t[::1] starts, labels
    cdef double[::1] psi, alpha, beta

    def __init__(self, Py_ssize_t longest, Py_ssize_t n_labels):
        self.n_labels = n_labels
        self.starts = np.zeros(longest + 1, dtype=np.int32)
        self.labels = np.empty(longest * n_labels, dtype=np.int32)
        self.psi, self.alpha, self.beta = np.empty((3, longest * n_labels))

    cdef double keep(
        self, const float* scores, Py_ssize_t n, float margin, const int32_t* gold
    ) noexcept nogil:
        """Choose the labels, gold ones too unless NULL; return the sum of the best scores."""
        cdef Py_ssize_t t, y, k = 0
        cdef float highest
        cdef double total = 0
        for t in range(n):
            highest = scores[0]
            for y in range(1, self.n_labels):
                highest = scores[y] if scores[y] > highest else highest
            for y in range(self.n_labels):
                if scores[y] >= highest - margin or (gold != NULL and gold[t] == y):
                    self.labels[k] = <int32_t>y
                    self.psi[k] = exp(scores[y] - highest)
                    k += 1
            self.starts[t + 1] = <int32_t>k
            total += highest
            scores += self.n_labels
        return total

    cdef double forward_backward(self, const double* factors, Py_ssize_t n) noexcept nogil:
        """Return log Z without the best scores. factors: exp(transitions).

        The alphas of a token sum to one, and so do the products alpha * beta.
        """
        cdef Py_ssize_t t, i, j, before, first, end
        cdef double total = 0, norm, value
        cdef const double* row
        for t in range(n):
            first, end = self.starts[t], self.starts[t + 1]
            for j in range(first, end):
                self.alpha[j] = 1 if t == 0 else 0
            for i in range(self.starts[t - 1] if t else first, first):
                row = factors + self.labels[i] * self.n_labels
                for j in range(first, end):
                    self.alpha[j] += self.alpha[i] * row[self.labels[j]]
            norm = 0
            for j in range(first, end):
                self.alpha[j] *= self.psi[j]
                norm += self.alpha[j]
            total += log(norm)
            norm = 1 / norm
            for j in range(first, end):
                self.alpha[j] *= norm
        for j in range(self.starts[n - 1], self.starts[n]):
            self.beta[j] = 1
        for t in range(n - 1, 0, -1):
            before, first, end = self.starts[t - 1], self.starts[t], self.starts[t + 1]
            norm = 0
            for i in range(before, first):
                row = factors + self.labels[i] * self.n_labels
                value = 0
                for j in range(first, end):
                    value += row[self.labels[j]] * self.psi[j] * self.beta[j]
                self.beta[i] = value
                norm += self.alpha[i] * value
            norm = 1 / norm
            for i in range(before, first):
                self.beta[i] *= norm
        return total


def _factors(transitions, n_labels):
    check(np.shape(transitions) == (n_labels, n_labels), "transitions must have n_labels rows")
    return np.exp(np.clip(np.asarray(transitions, dtype=np.float64), -MAX_EXPONENT, MAX_EXPONENT))


# --- decoding -------------------------------------------------------------------------------------


def posteriors(
    const double[:, ::1] transitions, const float[:, ::1] scores, const int64_t[::1] offsets,
    float margin, int64_t[::1] starts, int32_t[::1] labels, float[::1] probabilities,
):
    """Compute p(y_t = y | x) of the labels that each token keeps, best first, lowest first in ties.

    transitions: float64 (n_labels, n_labels), finite. scores: float32 (n_tokens, n_labels).
    starts: int64 (n_tokens + 1), out: where each token begins in the next two.
    labels, probabilities: int32 and float32 (n_tokens * n_labels), out, filled up to starts[-1].
    """
    cdef Py_ssize_t n_labels = scores.shape[1], n_tokens = scores.shape[0], s, t, n, j, k, at = 0
    cdef float p
    cdef int32_t label
    cdef double[:, ::1] factors = _factors(transitions, n_labels)
    check_starts(offsets, n_tokens)
    check(starts.shape[0] == n_tokens + 1, "starts must have n_tokens + 1 numbers")
    check(
        labels.shape[0] == probabilities.shape[0] == n_tokens * n_labels,
        "labels and probabilities must have n_tokens * n_labels numbers",
    )
    starts[0] = 0
    if n_tokens == 0 or n_labels == 0:
        starts[:] = 0
        return
    cdef Lattice lattice = Lattice(int(np.diff(offsets).max()), n_labels)
    with nogil:
        for s in range(offsets.shape[0] - 1):
            n = offsets[s + 1] - offsets[s]
            if n == 0:
                continue
            lattice.keep(&scores[offsets[s], 0], n, margin, NULL)
            lattice.forward_backward(&factors[0, 0], n)
            for t in range(n):
                starts[offsets[s] + t] = at
                for j in range(lattice.starts[t], lattice.starts[t + 1]):
                    p = <float>(lattice.alpha[j] * lattice.beta[j])
                    label = lattice.labels[j]
                    k = at + j - lattice.starts[t]
                    while k > at and probabilities[k - 1] < p:
                        probabilities[k] = probabilities[k - 1]
                        labels[k] = labels[k - 1]
                        k -= 1
                    probabilities[k] = p
                    labels[k] = label
                at += lattice.starts[t + 1] - lattice.starts[t]
        starts[n_tokens] = at


# --- training -------------------------------------------------------------------------------------


cdef class Learner:
    """Weights of predicates or transitions with their statistics, float32 arrays of one shape.

    start: weights before training. weights: current weights. totals, squares: g and G.
    """

    cdef const float[:, ::1] start
    cdef float[:, ::1] weights, totals, squares

    def __init__(self, start, weights, totals, squares):
        self.start, self.weights, self.totals, self.squares = start, weights, totals, squares
        check(
            start.shape == weights.shape == totals.shape == squares.shape,
            "start, weights, totals and squares must have one shape",
        )

    cdef inline void learn(self, Py_ssize_t i, Py_ssize_t y, float derivative, Rule rule) noexcept nogil:
        self.totals[i, y] += derivative
        self.squares[i, y] += derivative * derivative
        self.weights[i, y] = self.start[i, y] + _step(self.totals[i, y], self.squares[i, y], rule)


def epoch(
    const int32_t[:, ::1] rows, const int64_t[::1] offsets, const int32_t[::1] gold,
    const int64_t[::1] order, Learner predicates not None, Learner transitions not None,
    float margin, float rate, float damping, double l1, double n_before,
):
    """Go through the sentences once, in the given order; return the sum of -log p(gold | x).

    rows: int32 (n_tokens, n_templates), of the predicates; negative rows are ignored.
    offsets: int64 (n_sentences + 1). gold: int32 (n_tokens). order: int64 (any number), sentences.
    l1: the penalty of one sentence. n_before: number of sentences before this epoch.
    """
    cdef Py_ssize_t n_labels = transitions.weights.shape[0], n_templates = rows.shape[1]
    cdef Py_ssize_t s, t, j, k, y, begin, n
    cdef double loss = 0
    cdef const float* row
    cdef Rule rule = Rule(rate, damping, 0)
    check_starts(offsets, rows.shape[0])
    check(predicates.weights.shape[1] == n_labels, "weights must have one column for each label")
    check(gold.shape[0] == rows.shape[0], "gold must be as long as rows")
    check_ids(gold, 0, n_labels, "a label is out of range")
    check_ids(order, 0, offsets.shape[0] - 1, "a sentence is out of range")
    check_table(rows, -2**31, predicates.weights.shape[0], "a row is out of range")
    if rows.shape[0] == 0 or order.shape[0] == 0:
        return 0.0
    longest = int(np.diff(offsets).max())
    cdef Lattice lattice = Lattice(longest, n_labels)
    cdef float[:, ::1] scores = np.empty((longest, n_labels), dtype=np.float32)
    cdef double[:, ::1] factors = _factors(transitions.weights, n_labels)
    with nogil:
        for s in range(order.shape[0]):
            begin = offsets[order[s]]
            n = offsets[order[s] + 1] - begin
            if n == 0:
                continue
            rule.threshold = <float>(l1 * (n_before + s + 1))
            for t in range(n):
                for k in range(n_templates):
                    if rows[begin + t, k] >= 0:
                        PREFETCH(&predicates.weights[rows[begin + t, k], 0])
            for t in range(n):
                for y in range(n_labels):
                    scores[t, y] = 0
                for k in range(n_templates):
                    if rows[begin + t, k] >= 0:
                        row = &predicates.weights[rows[begin + t, k], 0]
                        for y in range(n_labels):
                            scores[t, y] += row[y]
                loss -= scores[t, gold[begin + t]]
                if t:
                    loss -= transitions.weights[gold[begin + t - 1], gold[begin + t]]
            loss += lattice.keep(&scores[0, 0], n, margin, &gold[begin])
            loss += lattice.forward_backward(&factors[0, 0], n)
            for t in range(n):
                _learn_token(rows, begin + t, t, gold[begin + t], lattice, predicates, rule)
            for t in range(1, n):
                _learn_pair(t, gold[begin + t - 1], gold[begin + t], lattice, transitions, factors, rule)
            # Last, because the messages use the old factors.
            for t in range(1, n):
                for j in range(lattice.starts[t - 1], lattice.starts[t]):
                    row = &transitions.weights[lattice.labels[j], 0]
                    for k in range(lattice.starts[t], lattice.starts[t + 1]):
                        y = lattice.labels[k]
                        factors[lattice.labels[j], y] = exp(fmin(fmax(row[y], -MAX_EXPONENT), MAX_EXPONENT))
    return loss


cdef inline void _learn_token(
    const int32_t[:, ::1] rows, Py_ssize_t at, Py_ssize_t t, int32_t gold, Lattice lattice,
    Learner predicates, Rule rule,
) noexcept nogil:
    cdef Py_ssize_t j, k
    cdef float derivative
    for j in range(lattice.starts[t], lattice.starts[t + 1]):
        derivative = <float>(lattice.alpha[j] * lattice.beta[j]) - (lattice.labels[j] == gold)
        if not fabs(derivative) > MIN_DERIVATIVE:
            continue
        for k in range(rows.shape[1]):
            if rows[at, k] >= 0:
                predicates.learn(rows[at, k], lattice.labels[j], derivative, rule)


cdef inline void _learn_pair(
    Py_ssize_t t, int32_t gold_before, int32_t gold, Lattice lattice, Learner transitions,
    const double[:, ::1] factors, Rule rule,
) noexcept nogil:
    """Learn the transitions to token t."""
    cdef Py_ssize_t i, j
    cdef int32_t a, b
    cdef double norm = 0
    cdef float derivative
    for i in range(lattice.starts[t - 1], lattice.starts[t]):
        for j in range(lattice.starts[t], lattice.starts[t + 1]):
            norm += (
                lattice.alpha[i] * factors[lattice.labels[i], lattice.labels[j]]
                * lattice.psi[j] * lattice.beta[j]
            )
    for i in range(lattice.starts[t - 1], lattice.starts[t]):
        for j in range(lattice.starts[t], lattice.starts[t + 1]):
            a, b = lattice.labels[i], lattice.labels[j]
            derivative = <float>(
                lattice.alpha[i] * factors[a, b] * lattice.psi[j] * lattice.beta[j] / norm
            ) - (a == gold_before and b == gold)
            if fabs(derivative) > MIN_DERIVATIVE:
                transitions.learn(a, b, derivative, rule)
