# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of the averaged perceptron: decode each sentence with the current weights, fix mistakes.

Collins (2002), figure 1: if the best path of a sentence is wrong, the features of the gold path
gain one and those of the best path lose one. The average of the weights over all sentences comes
from a second array, the totals: a change of a weight after c sentences is added c times to its
total. After n sentences the average is weight - total / n, and a sentence without mistakes costs
only its decoding. All this is exact in integers.

The score of a state at a token is the sum of weights[row, column] over the rows of the token and
the columns of the state. The lowest states win ties.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

import numpy as np

from spacy_structlearn.kernels.checks cimport (
    check, check_ids, check_shape, check_starts, check_table,
)
from spacy_structlearn.sequence.chain._chain cimport Chain, best_path


cdef struct Shape:
    Py_ssize_t n_templates, n_columns, n_states, per_state


def epoch(
    const int32_t[:, ::1] rows, const int64_t[::1] offsets, const int32_t[::1] gold,
    const int64_t[::1] order, const int32_t[:, ::1] columns, const double[::1] initial,
    const double[::1] final, float[:, ::1] weights, double[:, ::1] totals,
    double[:, ::1] transitions, double[:, ::1] transition_totals, double n_before,
):
    """Go through the sentences once, in the given order; return the number of wrong paths.

    rows: int32 (n_tokens, n_templates), of `weights`; negative rows are ignored.
    offsets: int64 (n_sentences + 1). gold: int32 (n_tokens), the gold states.
    order: int64 (any number), sentences. columns: int32 (n_states, per_state), of `weights`.
    initial, final: float64 (n_states), fixed scores of the first and last state; -inf forbids.
    weights: float32 (n_predicates, n_columns), changed, and totals: float64 of the same shape.
    transitions, transition_totals: float64 (n_states, n_states), changed; -inf forbids.
    n_before: sentences before this epoch.
    """
    cdef Shape shape = Shape(rows.shape[1], weights.shape[1], columns.shape[0], columns.shape[1])
    cdef Py_ssize_t i, t, begin, n, n_wrong = 0
    cdef Chain chain = Chain(initial, transitions, final)
    check(shape.n_columns > 0 < shape.per_state, "there are no columns of weights")
    check(gold.shape[0] == rows.shape[0], "gold must be as long as rows")
    check(shape.n_states == chain.n_states, "columns must have one row for each state")
    check_shape(transition_totals, chain.n_states, chain.n_states)
    check_shape(totals, weights.shape[0], weights.shape[1])
    check_starts(offsets, rows.shape[0])
    check_ids(gold, 0, shape.n_states, "a gold state is out of range")
    check_ids(order, 0, offsets.shape[0] - 1, "a sentence is out of range")
    check_table(rows, -2**31, weights.shape[0], "a row is out of range")
    check_table(columns, 0, shape.n_columns, "a column is out of range")
    if rows.shape[0] == 0 or order.shape[0] == 0:
        return 0
    cdef Py_ssize_t longest = np.diff(offsets).max()
    cdef double[::1] sums = np.empty(shape.n_columns)
    cdef double[:, ::1] scores = np.empty((longest, shape.n_states))
    cdef double[:, ::1] best = np.empty((longest, shape.n_states))
    cdef int32_t[::1] path = np.empty(longest, dtype=np.int32)
    # Empty arrays have no first element; they are never read.
    cdef const int32_t* row = &rows[0, 0] if shape.n_templates else NULL
    cdef float* weight = &weights[0, 0] if weights.shape[0] else NULL
    cdef double* total = &totals[0, 0] if weights.shape[0] else NULL
    with nogil:
        for i in range(order.shape[0]):
            begin = offsets[order[i]]
            n = offsets[order[i] + 1] - begin
            if n == 0:
                continue
            for t in range(n):
                _score(
                    row + (begin + t) * shape.n_templates, shape, &columns[0, 0], weight, &sums[0],
                    &scores[t, 0],
                )
            best_path(chain, &scores[0, 0], n, shape.n_states, &best[0, 0], &path[0])
            n_wrong += _mend(
                row + begin * shape.n_templates, n, shape, &columns[0, 0], &gold[begin], &path[0],
                weight, total, &transitions[0, 0], &transition_totals[0, 0], n_before + i,
            )
    return n_wrong


cdef inline void _score(
    const int32_t* rows, Shape shape, const int32_t* columns, const float* weights, double* sums,
    double* scores,
) noexcept nogil:
    """Compute the scores of the states at one token; sums has n_columns numbers."""
    cdef Py_ssize_t k, c, y
    cdef const float* row
    memset(sums, 0, shape.n_columns * sizeof(double))
    for k in range(shape.n_templates):
        if rows[k] >= 0:
            row = weights + rows[k] * shape.n_columns
            for c in range(shape.n_columns):
                sums[c] += row[c]
    for y in range(shape.n_states):
        scores[y] = 0.0
        for c in range(shape.per_state):
            scores[y] += sums[columns[y * shape.per_state + c]]


cdef bint _mend(
    const int32_t* rows, Py_ssize_t n, Shape shape, const int32_t* columns, const int32_t* gold,
    const int32_t* path, float* weights, double* totals, double* transitions,
    double* transition_totals, double count,
) noexcept nogil:
    """Return whether path and gold differ; if so, add one for gold and subtract one for path."""
    cdef Py_ssize_t t, c, right, wrong
    cdef bint differ = False
    for t in range(n):
        if gold[t] != path[t]:
            differ = True
            for c in range(shape.per_state):
                right = columns[gold[t] * shape.per_state + c]
                wrong = columns[path[t] * shape.per_state + c]
                if right != wrong:
                    _add(rows + t * shape.n_templates, shape, right, weights, totals, 1.0, count)
                    _add(rows + t * shape.n_templates, shape, wrong, weights, totals, -1.0, count)
        if t > 0 and (gold[t] != path[t] or gold[t - 1] != path[t - 1]):
            right = gold[t - 1] * shape.n_states + gold[t]
            wrong = path[t - 1] * shape.n_states + path[t]
            transitions[right] += 1.0
            transition_totals[right] += count
            transitions[wrong] -= 1.0
            transition_totals[wrong] -= count
    return differ


cdef inline void _add(
    const int32_t* rows, Shape shape, Py_ssize_t column, float* weights, double* totals,
    double value, double count,
) noexcept nogil:
    cdef Py_ssize_t k, place
    for k in range(shape.n_templates):
        if rows[k] >= 0:
            place = rows[k] * shape.n_columns + column
            weights[place] += <float>value
            totals[place] += value * count
