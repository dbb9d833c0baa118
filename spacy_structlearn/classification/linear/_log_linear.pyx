# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of log-linear models: the conditional likelihood of labelled instances, and its gradient.

An instance has a feature for each template, a row of the weights, and a score of each label is the
sum of these rows and of its given scores, each times a coefficient. With one column of weights
there are two labels, and the score of the second is 0: then all is logistic regression, with half
the parameters.
"""

from libc.math cimport exp, log, log1p
from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memset

import numpy as np

from spacy_structlearn.kernels.checks cimport (
    check, check_ids, check_shape, check_starts, check_table,
)
from spacy_structlearn.kernels.hashing cimport extend
from spacy_structlearn.kernels.index cimport KeyIndex
from spacy_structlearn.kernels.prefetch cimport PREFETCH

ctypedef fused weight_t:
    float
    double


cdef class Instances:
    """Labelled instances, checked once, of which likelihoods are taken again and again.

    features: int32 (n, n_templates), rows of the weights; -1 for none. n_features: rows of the
    weights. labels: int32 (n). counts: float64 (n), how often each instance occurs. given: float64
    (n, n_columns, n_given), scores that the instances have.
    """

    cdef const int32_t[:, ::1] features
    cdef const int32_t[::1] labels
    cdef const double[::1] counts
    cdef const double[:, :, ::1] given
    cdef Py_ssize_t n_features

    def __init__(
        self, const int32_t[:, ::1] features, Py_ssize_t n_features, const int32_t[::1] labels,
        const double[::1] counts, const double[:, :, ::1] given,
    ):
        cdef Py_ssize_t n_labels = max(given.shape[1], 2)
        check(
            features.shape[0] == labels.shape[0] == counts.shape[0] == given.shape[0],
            "there must be features, a label, a count and scores of each instance",
        )
        check(given.shape[1] > 0, "there must be a column")
        check_table(features, -1, n_features, "there is no such feature")
        check_ids(labels, 0, n_labels, "there is no such label")
        self.features = features
        self.labels = labels
        self.counts = counts
        self.given = given
        self.n_features = n_features

    def value_and_gradient(
        self, const double[:, ::1] weights, const double[::1] coefficients,
        double[:, ::1] gradient, double[::1] coefficient_gradient,
    ):
        """The negative log-likelihood; its gradient goes into the last two arguments.

        weights, gradient: float64 (n_features, n_columns). coefficients, coefficient_gradient:
        float64 (n_given).
        """
        cdef Py_ssize_t n_columns = self.given.shape[1], n_given = self.given.shape[2]
        cdef Py_ssize_t n_templates = self.features.shape[1], i, k, c
        cdef double value = 0.0
        check(
            weights.shape[0] == gradient.shape[0] == self.n_features
            and weights.shape[1] == gradient.shape[1] == n_columns,
            "weights and gradient must be of shape (n_features, n_columns)",
        )
        check(
            coefficients.shape[0] == coefficient_gradient.shape[0] == n_given,
            "there must be a coefficient of each given score",
        )
        gradient[:, :] = 0.0
        coefficient_gradient[:] = 0.0
        cdef double[::1] scores = np.empty(n_columns)
        cdef double* work = &scores[0]
        # Of empty arrays no element has an address; theirs are never read.
        cdef const int32_t* row = &self.features[0, 0] if self.features.size else NULL
        cdef const double* own = &self.given[0, 0, 0] if self.given.size else NULL
        cdef const double* weight = &weights[0, 0] if self.n_features else NULL
        cdef double* out = &gradient[0, 0] if self.n_features else NULL
        with nogil:
            for i in range(self.features.shape[0]):
                memset(work, 0, n_columns * sizeof(double))
                for c in range(n_columns):
                    for k in range(n_given):
                        work[c] += own[c * n_given + k] * coefficients[k]
                for k in range(n_templates):
                    if row[k] >= 0:
                        for c in range(n_columns):
                            work[c] += weight[row[k] * n_columns + c]
                if n_columns == 1:
                    value += self.counts[i] * _logistic(work, self.labels[i])
                else:
                    value += self.counts[i] * _softmax(work, n_columns, self.labels[i])
                for c in range(n_columns):
                    work[c] *= self.counts[i]
                    for k in range(n_given):
                        coefficient_gradient[k] += own[c * n_given + k] * work[c]
                for k in range(n_templates):
                    if row[k] >= 0:
                        for c in range(n_columns):
                            out[row[k] * n_columns + c] += work[c]
                row += n_templates
                own += n_columns * n_given
        return value


def add_scores_of_values(
    const uint64_t[:, ::1] values, const int32_t[::1] starts, const int32_t[::1] columns,
    const uint64_t[::1] seeds, KeyIndex index, const weight_t[:, ::1] weights, double[:, ::1] out
):
    """Add to `out`, float64 (n, n_columns), the weights of the features of each row.

    values: uint64 (n, n_variables), the symbols of each row. columns: the variables of the
    templates, those of template k from starts[k] to starts[k + 1]. seeds: uint64 (n_templates),
    the state from which the key of each template begins.
    """
    cdef Py_ssize_t n_templates = seeds.shape[0], n_columns = weights.shape[1], i, k, j, c
    cdef Py_ssize_t begin, size, hits
    check_shape(out, values.shape[0], n_columns)
    check(
        starts.shape[0] == n_templates + 1 and len(index) == weights.shape[0],
        "there must be columns of each template and weights of each key",
    )
    check_starts(starts, columns.shape[0])
    check_ids(columns, 0, values.shape[1], "there is no such column")
    # Places in memory are far apart, so all that 8 rows need is requested before it is read.
    cdef uint64_t[:, ::1] keys = np.empty((n_templates, 8), dtype=np.uint64)
    cdef int32_t[:, ::1] found = np.empty((n_templates, 8), dtype=np.int32)
    cdef int32_t[::1] rows = np.empty(n_templates, dtype=np.int32)
    with nogil:
        for begin in range(0, values.shape[0], 8):
            size = min(values.shape[0] - begin, 8)
            for k in range(n_templates):
                for i in range(size):
                    keys[k, i] = seeds[k]
                for j in range(starts[k], starts[k + 1]):
                    for i in range(size):
                        keys[k, i] = extend(keys[k, i], values[begin + i, columns[j]])
                for i in range(size):
                    PREFETCH(&index.buckets[keys[k, i] >> index.shift])
            for k in range(n_templates):
                for i in range(size):
                    found[k, i] = index.buckets[keys[k, i] >> index.shift]
                    if found[k, i] < weights.shape[0]:
                        PREFETCH(&index.known[found[k, i]])
            for i in range(size):
                hits = 0
                for k in range(n_templates):
                    rows[hits] = index.row(keys[k, i], found[k, i])
                    hits += rows[hits] >= 0
                for k in range(hits):
                    rows[k] = rows[k] if index.is_sorted else index.order[rows[k]]
                    PREFETCH(&weights[rows[k], 0])
                for k in range(hits):
                    for c in range(n_columns):
                        out[begin + i, c] += weights[rows[k], c]


cdef inline double _logistic(double* score, int32_t label) noexcept nogil:
    """-log P(label), label 0 having the score and label 1 none; its derivative instead."""
    cdef double s = score[0] if label == 0 else -score[0]
    cdef double e, loss
    if s >= 0:
        e = exp(-s)
        loss = log1p(e)
        score[0] = -e / (1.0 + e)
    else:
        e = exp(s)
        loss = log1p(e) - s
        score[0] = -1.0 / (1.0 + e)
    if label != 0:
        score[0] = -score[0]
    return loss


cdef inline double _softmax(double* scores, Py_ssize_t n, int32_t label) noexcept nogil:
    """-log P(label), given the scores; their derivatives instead."""
    cdef Py_ssize_t c
    cdef double highest = scores[0], total = 0.0, right = scores[label], loss
    for c in range(1, n):
        if scores[c] > highest:
            highest = scores[c]
    for c in range(n):
        scores[c] = exp(scores[c] - highest)
        total += scores[c]
    loss = log(total) + highest - right
    for c in range(n):
        scores[c] /= total
    scores[label] -= 1.0
    return loss
