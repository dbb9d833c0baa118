# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernels of the hidden layer of sites, see `scorer`, and of binary trees over values of spans, see
`spans`."""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int64_t

import numpy as np

from spacy_structlearn.kernels.checks cimport check
from spacy_structlearn.kernels.vectors cimport norm_of_sum

cdef enum:
    MOST = 15  # parts of a sum

cdef double NEGLIGIBLE = -32.0  # log of shares that are left out of sums


cdef inline Py_ssize_t place(Py_ssize_t n, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
    """Return the place of a span among those of its sentence."""
    return start * n - start * (start - 1) // 2 + end - start - 1


cdef inline double best_split(const double* left, const double* right, Py_ssize_t i, Py_ssize_t j,
                              Py_ssize_t* at) noexcept nogil:
    """Return the score of the best split of a span, and set its place."""
    cdef Py_ssize_t k
    cdef double score, best = -INFINITY
    for k in range(i + 1, j):
        score = left[k] + right[k]
        if score > best:
            best = score
            at[0] = k
    return best


cdef void expect(const double* values, Py_ssize_t n, bint best, double* left, double* right,
                 double* reach) noexcept nogil:
    """Write the posterior of each span to `reach`, or whether it is in the best tree.

    left, right: workspace (n, n + 1) and (n + 1, n), the scores by (start, end) and (end, start).
    """
    cdef Py_ssize_t i, j, k = 0, at, width
    cdef double top, share, score
    cdef double* a
    cdef double* b
    for width in range(1, n + 1):
        for i in range(n + 1 - width):
            j = i + width
            a = left + i * (n + 1)
            b = right + j * n
            top = 0.0
            if width > 1:
                top = best_split(a, b, i, j, &k)
                share = 0.0
                for k in range(i + 1, j if not best else 0):
                    score = a[k] + b[k] - top
                    share += exp(score) if score > NEGLIGIBLE else 0.0
                top += 0.0 if best else log(share)
            at = place(n, i, j)
            reach[at] = 0.0
            a[j] = b[i] = top + values[at]
    reach[place(n, 0, n)] = 1.0
    for width in range(n, 1, -1):
        for i in range(n + 1 - width):
            j = i + width
            a = left + i * (n + 1)
            b = right + j * n
            at = place(n, i, j)
            if best and reach[at] > 0.0:
                best_split(a, b, i, j, &k)
                reach[place(n, i, k)] = reach[place(n, k, j)] = 1.0
            top = a[j] - values[at] - log(reach[at])
            for k in range(i + 1, j if not best else 0):
                score = a[k] + b[k] - top
                if score > NEGLIGIBLE:
                    share = exp(score)
                    reach[place(n, i, k)] += share
                    reach[place(n, k, j)] += share


def expected(const double[::1] values, const int64_t[::1] lengths, bint best):
    """Return the posterior of each span, or 1 if it is in the best tree of its sentence, float64.

    Raises ValueError unless there is a finite value for each span of sentences of these lengths.
    """
    cdef Py_ssize_t x, n, first = 0
    sizes = np.asarray(lengths)
    sound = (sizes > 0).all() and (sizes * (sizes + 1) // 2).sum() == len(values)
    if not sound or not np.isfinite(values).all():
        raise ValueError("there must be a finite value for each span of each sentence")
    cdef double[:, ::1] work = np.empty((2, int(sizes.max(initial=0) + 1) ** 2))
    cdef double[::1] reach = np.empty(len(values) + 1)
    with nogil:
        for x in range(lengths.shape[0]):
            n = lengths[x]
            expect(&values[0] + first, n, best, &work[0, 0], &work[1, 0], &reach[first])
            first += n * (n + 1) // 2
    return np.asarray(reach)[:first]


def hidden(
    list parts, const int64_t[:, ::1] sites, const float[::1] gain, const float[::1] offset,
    float epsilon
):
    """Return the rectified layer norm of sums of rows whose means are 0, float32 (n, width).

    parts: float32 (any, width) each. sites: (n, parts), a row of each part; the last one is -1.
    Raises ValueError unless they fit together.
    """
    cdef Py_ssize_t x, part, row, n = sites.shape[0], width = gain.shape[0]
    cdef const float[:, ::1] own
    cdef const float* begins[MOST]
    cdef const float* rows[MOST + 1]
    cdef Py_ssize_t sizes[MOST]
    cdef bint sound
    sound = 0 < len(parts) == sites.shape[1] <= MOST and offset.shape[0] == width > 0
    for part, own in enumerate(parts if sound else ()):
        sound = sound and own.shape[0] > 0 and own.shape[1] == width
        if sound:
            begins[part], sizes[part] = &own[0, 0], own.shape[0]
    for x in range(n if sound else 0):
        for part in range(sites.shape[1]):
            sound &= -1 <= sites[x, part] < sizes[part]
    check(sound, "there must be rows of each part for each site")
    cdef float[:, ::1] out = np.empty((n, width), dtype=np.float32)
    with nogil:
        for x in range(n):
            for part in range(sites.shape[1]):
                row = sites[x, part]
                rows[part] = begins[part] + (row if row >= 0 else sizes[part] - 1) * width
            rows[sites.shape[1]] = NULL
            norm_of_sum(&out[x, 0], rows, &gain[0], &offset[0], epsilon, <int>width)
    return np.asarray(out)
