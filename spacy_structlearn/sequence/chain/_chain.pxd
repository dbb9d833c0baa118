"""The chain of `_chain.pyx` and its best path."""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t


cdef class Chain:
    cdef const double[::1] initial, final
    cdef const double[:, ::1] transitions
    cdef double[::1] first, last  # exp(initial) and exp(final), each up to a factor
    cdef double[:, ::1] factors, transposed  # exp(transitions), up to a factor
    cdef int32_t[::1] low, high  # the allowed successors of a state are low, ..., high - 1
    cdef Py_ssize_t n_states
    cdef double highest, ends, spread, safe_range
    cdef bint dense


cdef inline double best_path(
    Chain chain, const double* scores, Py_ssize_t n, Py_ssize_t n_states, double* best,
    int32_t* out,
) noexcept nogil:
    """Find the best path of a sentence. best[t, y] is the score of the best path to y at t.

    Predecessors are recomputed for the best path only, which keeps the loop over pairs fast.
    """
    cdef const double* transitions = &chain.transitions[0, 0]
    cdef const int32_t* low = &chain.low[0]
    cdef const int32_t* high = &chain.high[0]
    cdef Py_ssize_t t, x, y, state = 0
    cdef double value, highest = -INFINITY
    cdef double* before
    cdef double* here = best
    for y in range(n_states):
        here[y] = scores[y] + chain.initial[y]
    for t in range(1, n):
        before = here
        here += n_states
        scores += n_states
        for y in range(n_states):
            here[y] = -INFINITY
        for x in range(n_states):
            for y in range(0 if chain.dense else low[x], n_states if chain.dense else high[x]):
                value = before[x] + transitions[x * n_states + y]
                here[y] = value if value > here[y] else here[y]
        for y in range(n_states):
            here[y] += scores[y]
    for y in range(n_states):
        value = here[y] + chain.final[y]
        if value > highest:
            highest = value
            state = y
    for t in range(n - 1, -1, -1):
        out[t] = <int32_t>state
        if t > 0:
            y = state
            state = 0
            here -= n_states
            value = here[0] + transitions[y]
            for x in range(1, n_states):
                if here[x] + transitions[x * n_states + y] > value:
                    value = here[x] + transitions[x * n_states + y]
                    state = x
    return highest
