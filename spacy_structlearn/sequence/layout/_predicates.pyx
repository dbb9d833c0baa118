# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of predicates: their keys, and the sums of their weights at each token.

Tokens of all sentences are in one array; `offsets` (n_sentences + 1) has the start of each
sentence.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

import numpy as np

from spacy_structlearn.kernels.checks cimport check, check_ids, check_starts
from spacy_structlearn.kernels.hashing cimport mix
from spacy_structlearn.kernels.index cimport KeyIndex
from spacy_structlearn.kernels.prefetch cimport PREFETCH

ctypedef fused real:
    float
    double

ctypedef fused sum_of_reals:
    float
    double

cdef enum:
    BLOCK = 16  # tokens that are looked up at a time


cdef class Hasher:
    """The keys of predicates, as described in `features`.

    seeds: uint64 (n_templates).
    starts: int32 (n_templates + 1), where the terms of each template begin in term_columns and
        term_offsets, int32.
    before, after: uint64 (reach), the padding at positions -1, -2, ... and n, n + 1, ...
    mask: the bits of keys that are kept.
    """

    cdef const uint64_t[::1] seeds, before, after
    cdef const int32_t[::1] starts, term_columns, term_offsets
    cdef readonly Py_ssize_t n_templates
    cdef Py_ssize_t n_columns
    cdef uint64_t mask

    def __init__(
        self, seeds, starts, term_columns, term_offsets, before, after, uint64_t mask=2**64 - 1
    ):
        self.mask = mask
        self.seeds, self.before, self.after = seeds, before, after
        self.starts, self.term_columns, self.term_offsets = starts, term_columns, term_offsets
        cdef Py_ssize_t n_terms = len(term_columns), reach = len(before)
        self.n_templates = len(seeds)
        self.n_columns = int(np.max(term_columns, initial=-1)) + 1
        check_starts(self.starts, n_terms)
        check(len(starts) == len(seeds) + 1, "starts must have one number for each template")
        check(len(term_offsets) == n_terms, "there must be an offset for each term")
        check(len(after) == reach, "before and after must be of one length")
        check_ids(self.term_columns, 0, self.n_columns, "a column is negative")
        check_ids(self.term_offsets, -reach, reach + 1, "an offset is out of reach")

    cdef int check_columns(
        self, const uint64_t[:, ::1] columns, const int64_t[::1] offsets
    ) except -1:
        check_starts(offsets, columns.shape[0])
        return check(columns.shape[1] >= self.n_columns, "a template reads a missing column")

    def keys(
        self, const uint64_t[:, ::1] columns, const int64_t[::1] offsets, uint64_t[:, ::1] out
    ):
        """Write the key of each template's predicate into out (n_tokens, n_templates)."""
        cdef Py_ssize_t s, t
        self.check_columns(columns, offsets)
        check(
            out.shape[0] == columns.shape[0] and out.shape[1] == self.n_templates,
            "out must have the shape (n_tokens, n_templates)",
        )
        if out.shape[0] == 0 or out.shape[1] == 0:
            return
        with nogil:
            for s in range(offsets.shape[0] - 1):
                for t in range(offsets[s], offsets[s + 1]):
                    self.hash_token(columns, offsets[s], offsets[s + 1], t, &out[t, 0])

    cdef inline void hash_token(
        self, const uint64_t[:, ::1] columns, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t t,
        uint64_t* out,
    ) noexcept nogil:
        cdef Py_ssize_t k, j, at
        cdef uint64_t state
        for k in range(self.n_templates):
            state = self.seeds[k]
            for j in range(self.starts[k], self.starts[k + 1]):
                at = t + self.term_offsets[j]
                if at < begin:
                    state ^= self.before[begin - at - 1]
                elif at >= end:
                    state ^= self.after[at - end]
                else:
                    state ^= columns[at, self.term_columns[j]]
                state = mix(state)
            out[k] = state & self.mask


def predicate_scores(
    Hasher hasher not None, KeyIndex index not None, const uint64_t[:, ::1] columns,
    const int64_t[::1] offsets, const real[:, ::1] weights, sum_of_reals[:, ::1] out,
):
    """Compute out[t, c] = sum of weights[row, c] over the predicates of token t.

    weights: float32 or float64 (n_predicates, n_columns), in the order of the index's keys.
    out: float32 or float64 (n_tokens, n_columns).
    """
    cdef Py_ssize_t n = columns.shape[0], width = weights.shape[1], s, t, block, j
    cdef Py_ssize_t n_templates = hasher.n_templates
    hasher.check_columns(columns, offsets)
    check(weights.shape[0] == index.known.shape[0], "there must be a row of weights for each key")
    check(index.is_sorted, "the keys are not ascending")
    check(out.shape[0] == n and out.shape[1] == width, "out must have the shape (n_tokens, n_columns)")
    if n == 0 or width == 0:
        return
    out[:, :] = 0
    if n_templates == 0:
        return
    cdef uint64_t[::1] keys = np.empty(BLOCK * n_templates, dtype=np.uint64)
    cdef int32_t[::1] rows = np.empty(BLOCK * n_templates, dtype=np.int32)
    cdef Py_ssize_t n_tokens, hits
    cdef Py_ssize_t[BLOCK] own
    with nogil:
        s = 0
        block = -BLOCK
        while block + BLOCK < n:
            block += BLOCK
            # Each loop prefetches the memory that the next loop reads.
            n_tokens = min(<Py_ssize_t>BLOCK, n - block)
            for t in range(block, block + n_tokens):
                while offsets[s + 1] <= t:
                    s += 1
                hasher.hash_token(
                    columns, offsets[s], offsets[s + 1], t, &keys[(t - block) * n_templates]
                )
            for j in range(n_tokens * n_templates):
                PREFETCH(&index.buckets[keys[j] >> index.shift])
            for j in range(n_tokens * n_templates):
                rows[j] = index.buckets[keys[j] >> index.shift]
                PREFETCH(&index.known[0] + rows[j])
            # Without branches, which could not be predicted, the known ones of each token.
            for t in range(n_tokens):
                hits = t * n_templates
                for j in range(t * n_templates, (t + 1) * n_templates):
                    rows[hits] = index.row(keys[j], rows[j])
                    hits += rows[hits] >= 0
                own[t] = hits - t * n_templates
                for j in range(t * n_templates, hits):
                    PREFETCH(&weights[rows[j], 0])
            for t in range(n_tokens):
                _add_rows(&rows[t * n_templates], own[t], width, &weights[0, 0], &out[block + t, 0])


cdef inline void _add_rows(
    const int32_t* rows, Py_ssize_t n_rows, Py_ssize_t width, const real* weights, sum_of_reals* out
) noexcept nogil:
    cdef Py_ssize_t k, c
    cdef const real *row, *second, *third, *fourth
    for k in range(0, n_rows - 3, 4):  # in the same order, with fewer stores
        row, second = weights + rows[k] * width, weights + rows[k + 1] * width
        third, fourth = weights + rows[k + 2] * width, weights + rows[k + 3] * width
        for c in range(width):
            out[c] = out[c] + <sum_of_reals>row[c] + <sum_of_reals>second[c] \
                + <sum_of_reals>third[c] + <sum_of_reals>fourth[c]
    for k in range(n_rows - n_rows % 4, n_rows):
        row = weights + rows[k] * width
        for c in range(width):
            out[c] += <sum_of_reals>row[c]
