# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of word classes: one pass of the exchange algorithm, and the merging of classes.

Both work on the counts N(a, b) of a class b right after a class a, and on the part of the bigram
log-likelihood that depends on the classes (Martin, Liermann & Ney 1998, section 2),

    F = sum_ab g(N(a, b)) - sum_a g(N(a, .)) - sum_b g(N(., b)),    g(n) = n log n,

which is, up to a constant and a factor, the mutual information of adjacent classes (Brown et al.
1992, section 3). The counts are kept with their transpose, so that the classes that a word may join
are adjacent in memory.
"""

from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t, int64_t

import numpy as np

from spacy_structlearn.kernels.checks cimport check, check_ids, check_starts

cdef enum:
    TABLE = 4096  # most counts are small: their g is looked up

cdef double TIE = 1e-9  # differences below this are rounding

cdef double G[TABLE]


cdef void _fill_table() noexcept:
    cdef int n
    G[0] = 0.0
    for n in range(1, TABLE):
        G[n] = n * log(<double>n)


_fill_table()


cdef inline double g(int64_t n) noexcept nogil:
    return G[n] if 0 <= n < TABLE else n * log(<double>n)


# --- exchange -------------------------------------------------------------------------------------


cdef class _Counts:
    """N(a, b), its transpose, and N(a, .) and N(., b)."""

    cdef int32_t[:, ::1] rows
    cdef int32_t[:, ::1] columns
    cdef int64_t[::1] first
    cdef int64_t[::1] second

    def __cinit__(self, int32_t[:, ::1] counts):
        check(counts.shape[0] == counts.shape[1], "counts must be square")
        _check_counts(counts, 2**31 - 1)
        self.rows = counts
        self.columns = np.ascontiguousarray(np.asarray(counts).T)
        self.first = np.sum(counts, axis=1, dtype=np.int64)
        self.second = np.sum(counts, axis=0, dtype=np.int64)

    cdef inline void add(self, Py_ssize_t a, Py_ssize_t b, int32_t n) noexcept nogil:
        self.rows[a, b] += n
        self.columns[b, a] += n
        self.first[a] += n
        self.second[b] += n


def exchange(
    const int32_t[::1] order, const int64_t[::1] left_starts, const int32_t[::1] left,
    const int32_t[::1] left_counts, const int64_t[::1] right_starts, const int32_t[::1] right,
    const int32_t[::1] right_counts, const int32_t[::1] doubled, int32_t[::1] classes,
    int32_t[:, ::1] counts, Py_ssize_t n_classes,
):
    """Move each word of `order` to the class where F is greatest; return the number of moves.

    left, left_counts: from left_starts[w] to left_starts[w + 1], the distinct words before word w,
        without w, and their counts; right: the words after it.
    doubled: int32 (n_words), how often a word follows itself.
    classes: int32 (n_words), changed. counts: int32 (n_all, n_all), N of these classes, changed.
    n_classes: classes from here on are fixed contexts, which no word joins.
    Ties go to the current class, then to the lowest. The last word of a class stays.
    """
    cdef Py_ssize_t n_all = counts.shape[0], n_words = classes.shape[0]
    cdef _Counts table = _Counts(counts)
    cdef double[::1] gains = np.empty(n_all)
    cdef int32_t[::1] before = np.empty(n_all, dtype=np.int32)
    cdef int32_t[::1] after = np.empty(n_all, dtype=np.int32)
    check_ids(classes, 0, n_all, "a class is out of range")
    cdef int32_t[::1] members = np.bincount(classes, minlength=n_all).astype(np.int32)
    cdef Py_ssize_t i, w, c, old, new, moves = 0
    check(0 < n_classes <= n_all, "n_classes must be between 1 and the number of all classes")
    check(doubled.shape[0] == n_words, "doubled must have one count for each word")
    _check_counts(doubled, 2**31 - 1)
    _check_neighbours(left_starts, left, left_counts, n_words)
    _check_neighbours(right_starts, right, right_counts, n_words)
    check_ids(order, 0, n_words, "order must have words")
    with nogil:
        for i in range(order.shape[0]):
            w = order[i]
            old = classes[w]
            if members[old] == 1:
                continue
            _gather(left, left_counts, left_starts[w], left_starts[w + 1], classes, before)
            _gather(right, right_counts, right_starts[w], right_starts[w + 1], classes, after)
            _join(table, old, before, after, doubled[w], -1)
            _gains(table, before, after, doubled[w], n_classes, gains)
            new = old
            for c in range(n_classes):
                if gains[c] > gains[new] + TIE:
                    new = c
            _join(table, new, before, after, doubled[w], 1)
            if new != old:
                classes[w] = <int32_t>new
                members[old] -= 1
                members[new] += 1
                moves += 1
    return moves


def _check_counts(counts, most):
    """Refuse negative counts and sums above `most`, which would overflow."""
    check(np.min(counts, initial=0) >= 0, "a count is negative")
    check(np.sum(counts, dtype=np.float64) <= most, "the counts are too large")


cdef int _check_neighbours(
    const int64_t[::1] starts, const int32_t[::1] words, const int32_t[::1] word_counts,
    Py_ssize_t n_words,
) except -1:
    check(starts.shape[0] == n_words + 1, "starts must have n_words + 1 numbers")
    check(word_counts.shape[0] == words.shape[0], "there must be a count for each neighbour")
    check_ids(words, 0, n_words, "a neighbour is no word")
    _check_counts(word_counts, 2**31 - 1)
    return check_starts(starts, words.shape[0])


cdef void _gather(
    const int32_t[::1] words, const int32_t[::1] word_counts, Py_ssize_t start, Py_ssize_t end,
    const int32_t[::1] classes, int32_t[::1] out,
) noexcept nogil:
    """Count the classes of these neighbours of a word."""
    cdef Py_ssize_t k
    out[:] = 0
    for k in range(start, end):
        out[classes[words[k]]] += word_counts[k]


cdef void _join(
    _Counts table, Py_ssize_t c, const int32_t[::1] before, const int32_t[::1] after,
    int32_t doubled, int32_t sign,
) noexcept nogil:
    """Add a word with these neighbours to class c (sign 1), or remove it (sign -1)."""
    cdef Py_ssize_t k
    for k in range(before.shape[0]):
        if before[k]:
            table.add(k, c, sign * before[k])
        if after[k]:
            table.add(c, k, sign * after[k])
    table.add(c, c, sign * doubled)


cdef void _gains(
    _Counts table, const int32_t[::1] before, const int32_t[::1] after, int32_t doubled,
    Py_ssize_t n_classes, double[::1] gains,
) noexcept nogil:
    """Compute the gain in F if a word without a class joins each class."""
    cdef Py_ssize_t k, c
    cdef int64_t n, n_before = doubled, n_after = doubled
    for k in range(before.shape[0]):
        n_before += before[k]
        n_after += after[k]
    for c in range(n_classes):
        # The sums include the word's pairs; those of its neighbours' classes do not depend on c.
        n = table.first[c] + before[c]
        gains[c] = g(n) - g(n + n_after)
        n = table.second[c] + after[c]
        gains[c] += g(n) - g(n + n_before)
        # Correct N(c, c), which the loops below change twice, separately.
        n = table.rows[c, c]
        gains[c] += g(n + before[c] + after[c] + doubled) + g(n)
        gains[c] -= g(n + before[c]) + g(n + after[c])
    for k in range(before.shape[0]):
        if before[k]:
            _add_gains(&table.rows[k, 0], before[k], n_classes, &gains[0])
        if after[k]:
            _add_gains(&table.columns[k, 0], after[k], n_classes, &gains[0])


cdef void _add_gains(
    const int32_t* counts, int32_t more, Py_ssize_t n_classes, double* gains,
) noexcept nogil:
    cdef Py_ssize_t c
    cdef double alone = g(more)
    for c in range(n_classes):
        if counts[c] == 0:  # as most are
            gains[c] += alone
        else:
            gains[c] += g(<int64_t>counts[c] + more) - g(counts[c])


# --- merging --------------------------------------------------------------------------------------


def merge(int64_t[:, ::1] counts, Py_ssize_t n_classes, int32_t[:, ::1] merges):
    """Repeatedly merge the two classes whose merge lowers F least, until one class is left.

    counts: int64 (n_all, n_all), N(a, b); changed. Classes from n_classes on are fixed contexts.
    merges: int32 (n_classes - 1, 2), out: the two classes of each merge, the lower first, whose
        number the new class keeps. Ties go to the lowest classes.
    """
    cdef Py_ssize_t n_all = counts.shape[0]
    cdef Py_ssize_t step, i, j, a, b, c
    cdef double change, best
    check(0 < n_classes <= n_all == counts.shape[1], "counts must be square")
    _check_counts(counts, 2**53)
    cdef double[:, ::1] shared = np.zeros((n_classes, n_classes))
    cdef int64_t[::1] first = np.sum(counts, axis=1)
    cdef int64_t[::1] second = np.sum(counts, axis=0)
    cdef char[::1] alive = np.ones(n_all, dtype=np.int8)
    check(merges.shape[0] == n_classes - 1 and merges.shape[1] == 2, "merges has a wrong shape")
    with nogil:
        for i in range(n_classes):
            for j in range(i + 1, n_classes):
                for c in range(n_all):
                    shared[i, j] += _overlap(counts, i, j, c)
        for step in range(n_classes - 1):
            best, a, b = -INFINITY, 0, 0
            for i in range(n_classes):
                if not alive[i]:
                    continue
                for j in range(i + 1, n_classes):
                    if alive[j]:
                        change = shared[i, j] + _own(counts, first, second, i, j)
                        if change > best + TIE:
                            best, a, b = change, i, j
            merges[step, 0], merges[step, 1] = <int32_t>a, <int32_t>b
            _add_overlaps(counts, shared, alive, a, -1.0)
            _add_overlaps(counts, shared, alive, b, -1.0)
            alive[b] = 0
            for c in range(n_all):
                counts[a, c] += counts[b, c]
                counts[b, c] = 0
            for c in range(n_all):
                counts[c, a] += counts[c, b]
                counts[c, b] = 0
            first[a] += first[b]
            second[a] += second[b]
            _add_overlaps(counts, shared, alive, a, 1.0)
            for i in range(n_classes):
                if alive[i] and i != a:
                    change = 0.0
                    for c in range(n_all):
                        change += _overlap(counts, i, a, c)
                    shared[min(i, a), max(i, a)] = change


cdef inline double _gain_of_sum(int64_t m, int64_t n) noexcept nogil:
    return g(m + n) - g(m) - g(n) if m and n else 0.0


cdef inline double _overlap(
    const int64_t[:, ::1] counts, Py_ssize_t i, Py_ssize_t j, Py_ssize_t c,
) noexcept nogil:
    """Return the rise in F of the pairs with a third class c if i and j are merged."""
    if c == i or c == j:
        return 0.0
    return _gain_of_sum(counts[i, c], counts[j, c]) + _gain_of_sum(counts[c, i], counts[c, j])


cdef inline double _own(
    const int64_t[:, ::1] counts, const int64_t[::1] first, const int64_t[::1] second,
    Py_ssize_t i, Py_ssize_t j,
) noexcept nogil:
    """Return the rest of the change of F if i and j are merged."""
    cdef int64_t ii = counts[i, i], ij = counts[i, j], ji = counts[j, i], jj = counts[j, j]
    cdef double pairs = g(ii + ij + ji + jj) - g(ii) - g(ij) - g(ji) - g(jj)
    return pairs - _gain_of_sum(first[i], first[j]) - _gain_of_sum(second[i], second[j])


cdef void _add_overlaps(
    const int64_t[:, ::1] counts, double[:, ::1] shared, const char[::1] alive, Py_ssize_t c,
    double sign,
) noexcept nogil:
    """Add to all pairs of classes, or subtract, what they share with the third class c."""
    cdef Py_ssize_t i, j
    for i in range(shared.shape[0]):
        if alive[i] and i != c and (counts[i, c] or counts[c, i]):
            for j in range(i + 1, shared.shape[0]):
                if alive[j]:
                    shared[i, j] += sign * _overlap(counts, i, j, c)
