# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of Bayesian networks: log P(x, y) from sparse counts.

Keys are those of `features.tuple_keys`. `BayesNetKernel` holds what a trained net needs and goes
through the recursion of interpolated Witten-Bell smoothing (Toutanova 2006, section 2.1) for one
row after another; `witten_bell` does the same with arrays, for training.
"""

from libc.math cimport log
from libc.stdint cimport int32_t, int64_t, uint64_t

import numpy as np

from spacy_structlearn.kernels.checks cimport check, check_ids, check_shape, check_starts
from spacy_structlearn.kernels.hashing cimport extend
from spacy_structlearn.kernels.index cimport KeyIndex

cdef uint64_t SEED = <uint64_t>0x9E3779B97F4A7C15
cdef double MIN_PROBABILITY = 1e-300  # as in `witten_bell`


cdef class BayesNetKernel:
    """The tables of a Bayesian network over m variables and L labels.

    Set s of variables consists of the `columns` (int32, ascending; m is the class) from
    column_starts[s] on. Its values have the `keys` (uint64) with this seed (uint64) and the
    `counts` (float64) from starts[s] on.
    Table t has the levels from table_starts[t] on, the smallest context first, and 1 / V in
    `uniform` (float64). A level has the numbers of the sets of its context and of the context with
    the value (int32), its d (float64), and the number of different values in each of the context's
    values in `distinct` (float64), from distinct_starts on.
    symbols: uint64 (L), of the labels.
    Raises ValueError if the arrays do not fit together.
    """

    cdef const uint64_t[::1] seeds, symbols
    cdef const int32_t[::1] columns, column_starts, table_starts, context_sets, event_sets
    cdef const int64_t[::1] starts, distinct_starts
    cdef const double[::1] counts, distinct, d, uniform
    cdef KeyIndex index
    cdef readonly Py_ssize_t n_columns

    def __init__(
        self, keys, counts, starts, seeds, columns, column_starts, table_starts, context_sets,
        event_sets, distinct, distinct_starts, d, uniform, symbols, n_columns,
    ):
        cdef Py_ssize_t i, s, width
        cdef Py_ssize_t n_sets = len(seeds), n_levels = len(context_sets)
        for numbers in map(np.asarray, (counts, distinct)):
            check(((numbers > 0) & (numbers < np.inf)).all(), "what was not seen cannot have a count")
        self.index = KeyIndex(keys)
        self.counts, self.starts, self.seeds = counts, starts, seeds
        self.columns, self.column_starts = columns, column_starts
        self.table_starts, self.context_sets = table_starts, context_sets
        self.event_sets, self.distinct, self.distinct_starts = event_sets, distinct, distinct_starts
        self.d, self.uniform, self.symbols = d, uniform, symbols
        self.n_columns = n_columns
        check(
            len(starts) == len(column_starts) == n_sets + 1
            and len(table_starts) == len(uniform) + 1 and len(distinct_starts) == n_levels + 1
            and len(counts) == len(keys) and len(event_sets) == len(d) == n_levels,
            "there must be a count for each key, and a d for each level",
        )
        check_starts(self.starts, len(keys))
        check_starts(self.column_starts, len(columns))
        check_starts(self.table_starts, n_levels)
        check_starts(self.distinct_starts, len(distinct))
        check_ids(self.context_sets, 0, n_sets, "there is no such set of variables")
        check_ids(self.event_sets, 0, n_sets, "there is no such set of variables")
        for s in range(n_sets):
            for i in range(self.column_starts[s], self.column_starts[s + 1]):
                width = n_columns + 1 if i + 1 == self.column_starts[s + 1] else n_columns
                check(0 <= self.columns[i] < width, "there is no such variable")
        for i in range(n_levels):
            s = self.context_sets[i]
            width = self.starts[s + 1] - self.starts[s]
            check(
                self.distinct_starts[i + 1] - self.distinct_starts[i] == width,
                "there must be a number of values for each context",
            )

    def log_joint(self, const uint64_t[:, ::1] rows, double[:, ::1] out):
        """log P(x, y) of each row with each label, into out.

        rows: uint64 (n, m). out: float64 (n, L).
        """
        cdef Py_ssize_t i, y, table, n_labels = self.symbols.shape[0]
        check(rows.shape[1] == self.n_columns, "rows must have the net's columns")
        check_shape(out, rows.shape[0], n_labels)
        cdef int32_t[:, ::1] places = np.empty((self.seeds.shape[0], n_labels), dtype=np.int32)
        if not n_labels or not rows.shape[0]:
            return
        with nogil:
            for i in range(rows.shape[0]):
                self.look_up(rows, i, places)
                for y in range(n_labels):
                    out[i, y] = 0.0
                    for table in range(self.uniform.shape[0]):
                        out[i, y] += log(self.probability(table, y, places))

    cdef void look_up(
        self, const uint64_t[:, ::1] rows, Py_ssize_t row, int32_t[:, ::1] places
    ) noexcept nogil:
        """Where the values of each set of variables are among the keys, or -1, with each label."""
        cdef Py_ssize_t s, j, y, end
        cdef uint64_t key
        for s in range(self.seeds.shape[0]):
            key = SEED + self.seeds[s]
            end = self.column_starts[s + 1]
            for j in range(self.column_starts[s], end):
                if self.columns[j] < self.n_columns:
                    key = extend(key, rows[row, self.columns[j]])
            if end > self.column_starts[s] and self.columns[end - 1] == self.n_columns:
                for y in range(places.shape[1]):
                    places[s, y] = self.place(s, extend(key, self.symbols[y]))
            else:
                places[s, 0] = self.place(s, key)
                for y in range(1, places.shape[1]):
                    places[s, y] = places[s, 0]

    cdef inline int32_t place(self, Py_ssize_t s, uint64_t key) noexcept nogil:
        cdef int32_t place = self.index.place(key)
        # A key of another set, which nothing but an accident or damage makes equal, is none here.
        return place if self.starts[s] <= place < self.starts[s + 1] else -1

    cdef inline double probability(
        self, Py_ssize_t table, Py_ssize_t y, const int32_t[:, ::1] places
    ) noexcept nogil:
        cdef double p = self.uniform[table], count, relative, ratio
        cdef Py_ssize_t level, s
        cdef int32_t context, event
        for level in range(self.table_starts[table], self.table_starts[table + 1]):
            s = self.context_sets[level]
            context = places[s, y]
            if context < 0:  # nor were the larger ones seen
                break
            event = places[self.event_sets[level], y]
            count = self.counts[context]
            relative = self.counts[event] / count if event >= 0 else 0.0
            ratio = self.distinct[self.distinct_starts[level] + context - self.starts[s]] / count
            p = p + (relative - p) / (1.0 + self.d[level] * ratio)
        return p if p > MIN_PROBABILITY else MIN_PROBABILITY
