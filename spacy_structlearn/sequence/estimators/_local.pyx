# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of losses that are normalised at each token: no sums over whole sequences.

McCallum, Freitag & Pereira (2000), section 2: the next state given the gold state before it. Besag
(1975), Smith, Vail & Lafferty (2007), section 5: each label given all other gold labels. Scores,
cells and slots are those of `_chain.expected_counts`. A token needs the scores of a few states
only, which lists name, so the cost does not grow with the number of states.
"""

from libc.math cimport exp, log, INFINITY
from libc.stdint cimport int32_t, int64_t

import numpy as np

from spacy_structlearn.kernels.checks cimport (
    check, check_ids, check_shape, check_starts, check_table,
)
from spacy_structlearn.kernels.prefetch cimport PREFETCH

cdef enum:
    AHEAD = 4  # tokens whose cells are asked for beforehand


cdef class Lists:
    """Lists of states, one after another: list i is states[starts[i]:starts[i + 1]].

    starts: int32 (n_lists + 1). places: int32, the column of each state in the rows of slots.
    """

    cdef const int32_t[::1] starts, states, places
    cdef Py_ssize_t longest

    def __init__(
        self, const int32_t[::1] starts, const int32_t[::1] states, const int32_t[::1] places
    ):
        check_starts(starts, states.shape[0])
        check(places.shape[0] == states.shape[0], "there must be a place for each state")
        self.starts, self.states, self.places = starts, states, places
        self.longest = np.diff(starts).max(initial=0)

    cdef int check(self, Py_ssize_t n_lists, Py_ssize_t n_states, Py_ssize_t width) except -1:
        check(self.starts.shape[0] == n_lists + 1, "there are too few or too many lists")
        check_ids(self.states, 0, n_states, "a state is out of range")
        return check_ids(self.places, 0, width, "a place is out of range")


cdef struct Slots:
    const int32_t* cells  # of the first token
    Py_ssize_t n_tokens, n_groups, width
    const double* weights
    double* counts


cdef Slots _slots(
    const int32_t[:, ::1] cells, const double[:, ::1] weights, double[:, ::1] counts,
    const int64_t[::1] offsets, const int32_t[::1] state_ids, const double[:, ::1] transitions,
    const double[::1] initial, const double[::1] final, const double[:, ::1] pairs,
) except *:
    """Check the arrays that both losses read, and return the slots."""
    cdef Slots slots
    cdef Py_ssize_t n_states = transitions.shape[0]
    check_shape(transitions, n_states, n_states)
    check_shape(pairs, n_states, n_states)
    check_shape(counts, weights.shape[0], weights.shape[1])
    check(initial.shape[0] == final.shape[0] == n_states, "there must be a score for each state")
    check_table(cells, 0, weights.shape[0], "a cell is out of range")
    check_starts(offsets, cells.shape[0])
    check(state_ids.shape[0] == cells.shape[0], "there must be a state for each token")
    check_ids(state_ids, 0, n_states, "a state is out of range")
    slots.cells, slots.weights, slots.counts = NULL, NULL, NULL
    slots.n_tokens, slots.n_groups, slots.width = cells.shape[0], cells.shape[1], weights.shape[1]
    if cells.shape[0] and cells.shape[1] and weights.shape[1]:
        slots.cells, slots.weights, slots.counts = &cells[0, 0], &weights[0, 0], &counts[0, 0]
    return slots


cdef inline void _gather(
    Slots slots, Py_ssize_t t, const int32_t* places, Py_ssize_t n, double* scores
) noexcept nogil:
    """Compute scores[j], the sum over the cells of token t of the weights at places[j]."""
    cdef Py_ssize_t k, j, ahead = AHEAD * slots.n_groups if t + AHEAD < slots.n_tokens else 0
    cdef const int32_t* cells = slots.cells + t * slots.n_groups
    cdef const double* row
    for j in range(n):
        scores[j] = 0.0
    for k in range(slots.n_groups):
        PREFETCH(slots.weights + cells[ahead + k] * slots.width)
        row = slots.weights + cells[k] * slots.width
        for j in range(n):
            scores[j] += row[places[j]]


cdef inline void _scatter(
    Slots slots, Py_ssize_t t, const int32_t* places, Py_ssize_t n, const double* values
) noexcept nogil:
    """Add values[j] to the counts of the cells of token t at places[j]."""
    cdef Py_ssize_t k, j, ahead = AHEAD * slots.n_groups if t + AHEAD < slots.n_tokens else 0
    cdef const int32_t* cells = slots.cells + t * slots.n_groups
    cdef double* row
    for k in range(slots.n_groups):
        PREFETCH(slots.counts + cells[ahead + k] * slots.width)
        row = slots.counts + cells[k] * slots.width
        for j in range(n):
            row[places[j]] += values[j]


cdef inline double _normalize(double* scores, Py_ssize_t n) noexcept nogil:
    """Turn scores into probabilities; return the logarithm of the sum, -inf if all are -inf."""
    cdef Py_ssize_t j
    cdef double highest = -INFINITY, total = 0.0
    for j in range(n):
        highest = scores[j] if scores[j] > highest else highest
    if highest == -INFINITY:
        return highest
    for j in range(n):
        scores[j] = exp(scores[j] - highest)
        total += scores[j]
    for j in range(n):
        scores[j] /= total
    return highest + log(total)


def next_states(
    const double[::1] initial, const double[:, ::1] transitions, const int32_t[:, ::1] cells,
    const int64_t[::1] offsets, const int32_t[::1] state_ids, Lists successors not None,
    const double[:, ::1] weights, double[:, ::1] counts, double[:, ::1] expectations,
):
    """Return the sum over tokens of log sum_y exp(a(x, y) + s_t(y)) with the gold state x before.

    initial: float64 (n_states), replaces a(x, .) at the first token of a sentence.
    transitions: float64 (n_states, n_states), a.
    cells: int32 (n_tokens, n_groups), slots. offsets: int64 (n_sentences + 1).
    state_ids: int32 (n_tokens), the gold states.
    successors: a list of the successors of each state, then a list of the possible first states.
    weights, counts: float64 (n_slots, width); expected counts are added to `counts`.
    expectations: float64 (n_states, n_states), out: expected counts of pairs of states.
    """
    cdef Py_ssize_t n_states = transitions.shape[0], s, t, j, x, begin, n
    cdef double total = 0.0
    cdef const int32_t* states
    cdef const int32_t* places
    cdef const double* before
    cdef Slots slots = _slots(
        cells, weights, counts, offsets, state_ids, transitions, initial, initial, expectations
    )
    successors.check(n_states + 1, n_states, slots.width)
    expectations[:, :] = 0.0
    if cells.shape[0] == 0 or successors.states.shape[0] == 0:
        return 0.0
    cdef double[::1] work = np.empty(successors.longest)
    cdef double* scores = &work[0]
    with nogil:
        for s in range(offsets.shape[0] - 1):
            x = n_states
            before = &initial[0]
            for t in range(offsets[s], offsets[s + 1]):
                begin = successors.starts[x]
                n = successors.starts[x + 1] - begin
                states = &successors.states[0] + begin
                places = &successors.places[0] + begin
                _gather(slots, t, places, n, scores)
                for j in range(n):
                    scores[j] += before[states[j]]
                total += _normalize(scores, n)
                _scatter(slots, t, places, n, scores)
                if x < n_states:
                    for j in range(n):
                        expectations[x, states[j]] += scores[j]
                x = state_ids[t]
                before = &transitions[x, 0]
    return total


def each_label(
    const double[::1] initial, const double[:, ::1] transitions, const double[::1] final,
    const int32_t[:, ::1] cells, const int64_t[::1] offsets, const int32_t[::1] label_ids,
    const int32_t[::1] state_ids, const int32_t[:, ::1] table, int32_t start, bint second,
    bint crossed, Lists touched not None, const double[:, ::1] weights, double[:, ::1] counts,
    double[:, ::1] differences,
):
    """Return - sum over tokens of log p(c_t | all other labels, x).

    Another label at t changes the states at t and, in a second-order chain, at t + 1, and their
    transitions; the rest cancels. Arguments that are not described are those of `next_states`.
    label_ids: int32 (n_tokens), the gold labels.
    table: int32 (n_labels + 1, n_labels), the state of a label after another, or -1; the last row
        is the start symbol. start: the row of the label before the first token.
    second: whether the label at t changes the state at t + 1.
    crossed: whether it changes the score of that state.
    touched: for each gold state, the states with one changed label whose scores can differ.
    counts: expected minus gold counts are added to it.
    differences: float64 (n_states, n_states), out: expected minus gold counts of pairs.
    """
    cdef Py_ssize_t n_states = transitions.shape[0], n_labels = table.shape[1], s, i, n
    cdef double total = 0.0
    cdef Slots slots = _slots(
        cells, weights, counts, offsets, state_ids, transitions, initial, final, differences
    )
    touched.check(n_states, n_states, slots.width)
    check(table.shape[0] == n_labels + 1, "the table must have n_labels + 1 rows")
    check(0 <= start <= n_labels, "the start is no row of the table")
    check_table(table, -1, n_states, "a state of the table is out of range")
    check(label_ids.shape[0] == cells.shape[0], "there must be a label for each token")
    check_ids(label_ids, 0, n_labels, "a label is out of range")
    differences[:, :] = 0.0
    if cells.shape[0] == 0:
        return 0.0
    cdef Py_ssize_t longest = np.diff(offsets).max()
    cdef double[::1] work = np.empty(max(touched.longest, n_labels))
    # States that are not touched stay at zero.
    cdef double[:, ::1] scores = np.zeros((longest, n_states))
    cdef double[:, ::1] changes = np.zeros((longest, n_states))
    with nogil:
        for s in range(offsets.shape[0] - 1):
            n = offsets[s + 1] - offsets[s]
            if n == 0:
                continue
            for i in range(n):
                _spread(
                    slots, offsets[s] + i, touched, state_ids[offsets[s] + i], &work[0],
                    &scores[i, 0], &changes[i, 0],
                )
            total += _sentence_loss(
                initial, transitions, final, table, start, second, crossed, scores, changes,
                differences, &label_ids[offsets[s]], &state_ids[offsets[s]], n, &work[0],
            )
            for i in range(n):
                _collect(
                    slots, offsets[s] + i, touched, state_ids[offsets[s] + i], &work[0],
                    &changes[i, 0], &scores[i, 0],
                )
    return total


cdef inline void _spread(
    Slots slots, Py_ssize_t t, Lists touched, Py_ssize_t which, double* work, double* scores,
    double* changes,
) noexcept nogil:
    """Write the scores of the touched states of token t, and reset their changes."""
    cdef Py_ssize_t j, begin = touched.starts[which], n = touched.starts[which + 1] - begin
    if n == 0:
        return
    _gather(slots, t, &touched.places[begin], n, work)
    for j in range(n):
        scores[touched.states[begin + j]] = work[j]
        changes[touched.states[begin + j]] = 0.0


cdef inline void _collect(
    Slots slots, Py_ssize_t t, Lists touched, Py_ssize_t which, double* work,
    const double* changes, double* scores,
) noexcept nogil:
    """Add the changes to the counts of token t, and reset its scores."""
    cdef Py_ssize_t j, begin = touched.starts[which], n = touched.starts[which + 1] - begin
    if n == 0:
        return
    for j in range(n):
        work[j] = changes[touched.states[begin + j]]
        scores[touched.states[begin + j]] = 0.0
    _scatter(slots, t, &touched.places[begin], n, work)


cdef double _sentence_loss(
    const double[::1] initial, const double[:, ::1] transitions, const double[::1] final,
    const int32_t[:, ::1] table, int32_t start, bint second, bint crossed,
    const double[:, ::1] scores, double[:, ::1] changes, double[:, ::1] differences,
    const int32_t* labels, const int32_t* states, Py_ssize_t n, double* options,
) noexcept nogil:
    """Return - sum_t log p(c_t | the rest); add its derivatives to `changes` and `differences`."""
    cdef Py_ssize_t n_labels = table.shape[1], t, c
    cdef int32_t before, here, after
    cdef double total = 0.0, right, log_sum, value
    for t in range(n):
        before = labels[t - 1] if t > 0 else start
        for c in range(n_labels):
            options[c] = -INFINITY
            here = table[before, c]
            if here < 0:
                continue
            value = scores[t, here]
            value += transitions[states[t - 1], here] if t > 0 else initial[here]
            if t == n - 1:
                options[c] = value + final[here]
                continue
            after = table[c, labels[t + 1]]
            if after < 0:
                continue
            value += transitions[here, after]
            if crossed:
                value += scores[t + 1, after]
            if second:
                if t + 2 < n:
                    value += transitions[after, states[t + 2]]
                else:
                    value += final[after]
            options[c] = value
        right = options[labels[t]]
        log_sum = _normalize(options, n_labels)
        # Also if it is nan.
        if not right > -INFINITY:
            return INFINITY
        total += log_sum - right
        options[labels[t]] -= 1.0
        for c in range(n_labels):
            value = options[c]
            here = table[before, c]
            # If one option is nan, all are, even where there is no state.
            if value == 0.0 or here < 0:
                continue
            changes[t, here] += value
            if t > 0:
                differences[states[t - 1], here] += value
            if t == n - 1:
                continue
            after = table[c, labels[t + 1]]
            if after < 0:
                continue
            differences[here, after] += value
            if crossed:
                changes[t + 1, after] += value
            if second and t + 2 < n:
                differences[after, states[t + 2]] += value
    return total
