# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of the averaged perceptron: decode each sentence with the current weights, fix mistakes.

Collins (2002), figure 1: if the best path of a sentence is wrong, the features of the gold path
gain one and those of the best path lose one. The average of the weights over all sentences comes
from a second array, the totals: a change of a weight after c sentences is added c times to its
total. After n sentences the average is weight - total / n, and a sentence without mistakes costs
only its decoding. All this is exact in integers.

The score of a state at a token is the sum of weights[row, column] over the rows of the token and
the columns of the state. Paths follow arcs: `arcs` (n_arcs) has the states before state y from
starts[y] on, in ascending order, so that the lowest states win ties.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

import numpy as np

from spacy_structlearn.kernels.checks cimport check, check_ids, check_starts, check_table


cdef struct Shape:
    Py_ssize_t n_templates, n_columns, n_states, per_state


def epoch(
    const int32_t[:, ::1] rows, const int64_t[::1] offsets, const int32_t[::1] gold,
    const int64_t[::1] order, const int32_t[:, ::1] columns, const double[::1] initial,
    const double[::1] final, const int32_t[::1] starts, const int32_t[::1] arcs,
    float[:, ::1] weights, double[:, ::1] totals, double[::1] arc_weights, double[::1] arc_totals,
    double n_before,
):
    """Go through the sentences once, in the given order; return the number of wrong paths.

    rows: int32 (n_tokens, n_templates), of `weights`; negative rows are ignored.
    offsets: int64 (n_sentences + 1). gold: int32 (n_tokens), the gold states.
    order: int64 (any number), sentences. columns: int32 (n_states, per_state), of `weights`.
    initial, final: float64 (n_states), fixed scores of the first and last state; -inf forbids.
    starts: int32 (n_states + 1) and arcs: int32 (n_arcs), see above.
    weights: float32 (n_predicates, n_columns), changed, and totals: float64 of the same shape.
    arc_weights, arc_totals: float64 (n_arcs), changed. n_before: sentences before this epoch.
    """
    cdef Shape shape = Shape(rows.shape[1], weights.shape[1], columns.shape[0], columns.shape[1])
    cdef Py_ssize_t i, begin, length, n_wrong = 0
    check(shape.n_columns > 0 < shape.n_states and shape.per_state > 0, "there are no states")
    check_starts(offsets, rows.shape[0])
    check(gold.shape[0] == rows.shape[0], "gold must be as long as rows")
    check_ids(gold, 0, shape.n_states, "a gold state is out of range")
    check_ids(order, 0, offsets.shape[0] - 1, "a sentence is out of range")
    check_table(rows, -2**31, weights.shape[0], "a row is out of range")
    check_table(columns, 0, shape.n_columns, "a column is out of range")
    check(
        initial.shape[0] == final.shape[0] == starts.shape[0] - 1 == shape.n_states,
        "initial, final and starts must have one number for each state",
    )
    check_starts(starts, arcs.shape[0])
    check_ids(arcs, 0, shape.n_states, "an arc is out of range")
    check(
        totals.shape[0] == weights.shape[0] and totals.shape[1] == weights.shape[1],
        "totals must have the shape of weights",
    )
    check(
        arc_weights.shape[0] == arc_totals.shape[0] == arcs.shape[0],
        "arc_weights and arc_totals must be as long as arcs",
    )
    if rows.shape[0] == 0 or order.shape[0] == 0:
        return 0
    cdef Py_ssize_t longest = np.diff(offsets).max()
    cdef double[::1] work = np.empty(shape.n_columns + 3 * shape.n_states)
    cdef int32_t[:, ::1] back = np.empty((longest, shape.n_states), dtype=np.int32)
    cdef int32_t[::1] path = np.empty(longest, dtype=np.int32)
    # Empty arrays have no first element; they are never read.
    cdef const int32_t* row = &rows[0, 0] if shape.n_templates else NULL
    cdef float* weight = &weights[0, 0] if weights.shape[0] else NULL
    cdef double* total = &totals[0, 0] if weights.shape[0] else NULL
    cdef const int32_t* arc = &arcs[0] if arcs.shape[0] else NULL
    cdef double* arc_weight = &arc_weights[0] if arcs.shape[0] else NULL
    cdef double* arc_total = &arc_totals[0] if arcs.shape[0] else NULL
    with nogil:
        for i in range(order.shape[0]):
            begin = offsets[order[i]]
            length = offsets[order[i] + 1] - begin
            if length == 0:
                continue
            _viterbi(
                row + begin * shape.n_templates, length, shape, &columns[0, 0], weight,
                &initial[0], &final[0], &starts[0], arc, arc_weight, &work[0], &back[0, 0],
                &path[0],
            )
            n_wrong += _mend(
                row + begin * shape.n_templates, length, shape, &columns[0, 0], &gold[begin],
                &path[0], &starts[0], arc, weight, total, arc_weight, arc_total, n_before + i,
            )
    return n_wrong


cdef void _viterbi(
    const int32_t* rows, Py_ssize_t n, Shape shape, const int32_t* columns, const float* weights,
    const double* initial, const double* final, const int32_t* starts, const int32_t* arcs,
    const double* arc_weights, double* work, int32_t* back, int32_t* path,
) noexcept nogil:
    """Write the best path into `path`; work has n_columns + 3 n_states numbers."""
    cdef Py_ssize_t t, y, a
    cdef int32_t best
    cdef double value, highest
    cdef double* scores = work + shape.n_columns
    cdef double* previous = scores + shape.n_states
    cdef double* current = previous + shape.n_states
    cdef double* swap
    for t in range(n):
        _score(rows + t * shape.n_templates, shape, columns, weights, work, scores)
        swap = previous
        previous = current
        current = swap
        for y in range(shape.n_states):
            if t == 0:
                current[y] = initial[y] + scores[y]
                continue
            best = 0
            highest = -INFINITY
            for a in range(starts[y], starts[y + 1]):
                value = previous[arcs[a]] + arc_weights[a]
                if value > highest:
                    highest = value
                    best = arcs[a]
            back[t * shape.n_states + y] = best
            current[y] = highest + scores[y]
    best = 0
    highest = -INFINITY
    for y in range(shape.n_states):
        if current[y] + final[y] > highest:
            highest = current[y] + final[y]
            best = <int32_t>y
    for t in range(n - 1, -1, -1):
        path[t] = best
        if t > 0:
            best = back[t * shape.n_states + best]


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
    const int32_t* path, const int32_t* starts, const int32_t* arcs, float* weights,
    double* totals, double* arc_weights, double* arc_totals, double count,
) noexcept nogil:
    """Return whether path and gold differ; if so, add one for gold and subtract one for path."""
    cdef Py_ssize_t t, c
    cdef int32_t right, wrong
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
            _add_arc(gold[t - 1], gold[t], starts, arcs, arc_weights, arc_totals, 1.0, count)
            _add_arc(path[t - 1], path[t], starts, arcs, arc_weights, arc_totals, -1.0, count)
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


cdef inline void _add_arc(
    int32_t before, int32_t state, const int32_t* starts, const int32_t* arcs,
    double* arc_weights, double* arc_totals, double value, double count,
) noexcept nogil:
    cdef Py_ssize_t a
    for a in range(starts[state], starts[state + 1]):
        if arcs[a] == before:
            arc_weights[a] += value
            arc_totals[a] += value * count
