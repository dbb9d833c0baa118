# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of arguments: sums over all sets of spans that do not overlap; see `arguments`."""

from libc.math cimport exp, log1p, INFINITY

import numpy as np

from spacy_structlearn.kernels.checks cimport check


def outside(
    const Py_ssize_t[::1] sizes, const Py_ssize_t[::1] starts, const Py_ssize_t[::1] ends,
    const double[::1] weights,
):
    """Return the share of the sets with each span, apart from its own weight; float64 (n).

    sizes: number of spans of each predicate. starts, ends, weights: (n), starts < ends. A set of
    spans of one predicate that do not overlap has the sum of their weights, which are logarithms,
    and so is the result: the sum over all sets without anything within the span, divided by the
    sum over all sets.
    """
    cdef Py_ssize_t n = starts.shape[0], width = 0, total = 0, i, k, begin = 0
    check(ends.shape[0] == n and weights.shape[0] == n, "there must be a weight of each span")
    for i in range(sizes.shape[0]):
        # More than are left might overflow the sum.
        check(0 <= sizes[i] <= n - total, "sizes must add up to the number of spans")
        total += sizes[i]
    check(total == n, "sizes must add up to the number of spans")
    for i in range(n):
        check(0 <= starts[i] < ends[i] < 2**31, "spans must not be empty")
    cdef Py_ssize_t low, high
    for i in range(sizes.shape[0]):
        low, high = _bounds(starts, ends, begin, begin + sizes[i])
        width = max(width, high - low + 1)
        begin += sizes[i]
    result = np.empty(n)
    cdef double[::1] out = result
    cdef double[:, ::1] sums = np.empty((2, width))
    cdef Py_ssize_t[:, ::1] first = np.empty((2, width), dtype=np.intp)
    cdef Py_ssize_t[:, ::1] later = np.empty((2, n), dtype=np.intp)
    begin = 0
    with nogil:
        for k in range(sizes.shape[0]):
            if sizes[k]:
                _outside(
                    starts, ends, weights, begin, begin + sizes[k], sums[0], sums[1], first[0],
                    first[1], later[0], later[1], out,
                )
                begin += sizes[k]
    return result


cdef (Py_ssize_t, Py_ssize_t) _bounds(
    const Py_ssize_t[::1] starts, const Py_ssize_t[::1] ends, Py_ssize_t begin, Py_ssize_t end
) noexcept nogil:
    """The first and the last position of some spans."""
    cdef Py_ssize_t low = 0, high = 0, i
    for i in range(begin, end):
        low = starts[i] if i == begin else min(low, starts[i])
        high = max(high, ends[i])
    return low, high


cdef void _outside(
    const Py_ssize_t[::1] starts, const Py_ssize_t[::1] ends, const double[::1] weights,
    Py_ssize_t begin, Py_ssize_t end, double[::1] forward, double[::1] backward,
    Py_ssize_t[::1] starting, Py_ssize_t[::1] ending, Py_ssize_t[::1] after_starting,
    Py_ssize_t[::1] after_ending, double[::1] out,
) noexcept nogil:
    """The result for the spans of one predicate. starting, ending: the first span at a position."""
    cdef Py_ssize_t low, high, i, place
    cdef double value = 0.0
    low, high = _bounds(starts, ends, begin, end)
    for place in range(high - low + 1):
        starting[place] = ending[place] = -1
    for i in range(end - 1, begin - 1, -1):
        if weights[i] > -INFINITY:
            after_starting[i], starting[starts[i] - low] = starting[starts[i] - low], i
            after_ending[i], ending[ends[i] - low] = ending[ends[i] - low], i
    for place in range(high - low + 1):
        i = ending[place]
        while i >= 0:
            value = _log_sum(value, forward[starts[i] - low] + weights[i])
            i = after_ending[i]
        forward[place] = value
    value = 0.0
    for place in range(high - low, -1, -1):
        i = starting[place]
        while i >= 0:
            value = _log_sum(value, backward[ends[i] - low] + weights[i])
            i = after_starting[i]
        backward[place] = value
    for i in range(begin, end):
        out[i] = forward[starts[i] - low] + backward[ends[i] - low] - forward[high - low]


cdef inline double _log_sum(double x, double y) noexcept nogil:
    """log(exp(x) + exp(y))."""
    return x + log1p(exp(y - x)) if x > y else y + log1p(exp(x - y))
