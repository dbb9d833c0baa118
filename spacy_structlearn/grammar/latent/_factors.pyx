# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Steps of EM for the decomposition of binary rules; see `factors`."""

from libc.stdint cimport int32_t

import numpy as np

cdef enum:
    MOST = 256  # ranks


def step(const int32_t[:, ::1] entries not None, const float[::1] weights not None,
         const float[:, ::1] parent not None, const float[:, ::1] left not None,
         const float[:, ::1] right not None):
    """Return the expected counts of a step of EM: of parents, left and right children, and ranks.

    entries: the states of each rule: parent, left and right child, int32 (E, 3).
    weights: their probabilities, which sum to 1, float32 (E).
    parent, left, right: the factors, float32 (states, R).

    Raises ValueError for more than 256 ranks, and for states without a row.
    """
    cdef Py_ssize_t e, n = entries.shape[0]
    cdef int r, rank = <int>parent.shape[1]
    cdef float[MOST] shares
    cdef float total, scale
    cdef const float* a
    cdef const float* b
    cdef const float* c
    if rank > MOST or left.shape[1] != rank or right.shape[1] != rank:
        raise ValueError("the factors must have the same number of ranks, at most 256")
    if entries.shape[1] != 3 or weights.shape[0] != n:
        raise ValueError("there must be three states and one probability for each rule")
    sizes = [parent.shape[0], left.shape[0], right.shape[0]]
    if n and (np.min(entries) < 0 or (np.max(entries, axis=0) >= sizes).any()):
        raise ValueError("a state without factors")
    counts = [np.zeros((size, rank), np.float32) for size in sizes]
    cdef float[:, ::1] parents = counts[0]
    cdef float[:, ::1] lefts = counts[1]
    cdef float[:, ::1] rights = counts[2]
    cdef float* to
    with nogil:
        for e in range(n):
            a = &parent[entries[e, 0], 0]
            b = &left[entries[e, 1], 0]
            c = &right[entries[e, 2], 0]
            total = 0.0
            for r in range(rank):
                shares[r] = a[r] * b[r] * c[r]
            for r in range(rank):
                total += shares[r]
            if not total > 0.0:
                continue
            scale = weights[e] / total
            for r in range(rank):
                shares[r] *= scale
            to = &parents[entries[e, 0], 0]
            for r in range(rank):
                to[r] += shares[r]
            to = &lefts[entries[e, 1], 0]
            for r in range(rank):
                to[r] += shares[r]
            to = &rights[entries[e, 2], 0]
            for r in range(rank):
                to[r] += shares[r]
    return counts
