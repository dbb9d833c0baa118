# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of chunks under brackets: sums and maxima over labellings whose chunks cross no bracket.

A chunk [i, j) crosses a bracket [a, b) if i < a < j < b or a < i < b < j. Nested brackets are the
nodes of a tree, whose leaves are tokens. A chunk that crosses none consists of adjacent children of
one node. A sentence is a sequence of segments, chunks and single states outside chunks (Sarawagi &
Cohen 2004). In addition to the usual forward variables, a pass from left to right needs `running`
for each open node: the chunks, by last state, that began at a child of the node and continue. When
a child is closed, the chunks that began with it, and those that span it, are added to `running`.
All scores are logarithms. A pass takes O(tokens * depth).
"""

from libc.math cimport exp, log, log1p, INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

import numpy as np

from spacy_structlearn.kernels.checks cimport check, check_shape, check_starts

cdef double MIN_SUM = 1e-200  # smaller sums of exponentials may have lost terms to underflow

cdef struct Cell:
    double score
    int32_t start, first  # of the best segment: its first token, and the state of that


def nest(const int64_t[:, ::1] brackets, const int64_t[::1] offsets, uint8_t[::1] kept):
    """Write into `kept` whether each bracket counts, 0 or 1.

    A bracket counts if it is within a sentence, has two tokens or more, and neither crosses nor
    equals a bracket before it. brackets: int64 (n, 2), sorted by start, then longest first.
    """
    cdef Py_ssize_t k, s = 0, depth = 0, n = brackets.shape[0]
    cdef int64_t start, end
    check(brackets.shape[1] == 2 and kept.shape[0] == n, "brackets or kept has a wrong shape")
    for k in range(1, n):
        check(
            brackets[k - 1, 0] < brackets[k, 0]
            or (brackets[k - 1, 0] == brackets[k, 0] and brackets[k - 1, 1] >= brackets[k, 1]),
            "brackets must be sorted",
        )
    cdef int64_t[:, ::1] stack = np.empty((n + 1, 2), dtype=np.int64)
    for k in range(n):
        start, end = brackets[k, 0], brackets[k, 1]
        while s + 1 < offsets.shape[0] and offsets[s + 1] <= start:
            s += 1
        kept[k] = s + 1 < offsets.shape[0] and start >= offsets[s] and end <= offsets[s + 1]
        while depth > 0 and stack[depth - 1, 1] <= start:
            depth -= 1
        if depth > 0 and (end > stack[depth - 1, 1]
                          or (start == stack[depth - 1, 0] and end == stack[depth - 1, 1])):
            kept[k] = 0
        # Of any numbers, because brackets may be outside all sentences.
        if end <= start or <uint64_t>end - <uint64_t>start < 2:
            kept[k] = 0
        if kept[k]:
            stack[depth, 0], stack[depth, 1] = start, end
            depth += 1


cdef class Segmenter:
    """A chain whose transitions are split into those between segments and those within chunks.

    initial, transitions, final: as in `_chain.Chain`.
    goes_on: uint8 (n_states, n_states), 1 if the column's state continues the chunk of the row's.
        None: there are no chunks, and the best sequence is that of the Viterbi algorithm.
    """

    cdef const double[::1] initial, final
    cdef double[:, ::1] outside, factors  # transitions between segments, and exp of them
    cdef double[::1] inside  # the transitions within chunks, `arc_from` to `arc_to`
    cdef int32_t[::1] arc_from, arc_to
    cdef int32_t[::1] inner  # the state after each that is not the last of its chunk; -1: none
    cdef Py_ssize_t n_states, n_arcs
    cdef double highest

    def __init__(
        self, const double[::1] initial, const double[:, ::1] transitions,
        const double[::1] final, const uint8_t[:, ::1] goes_on=None,
    ):
        n = len(initial)
        if goes_on is None:
            goes_on = np.zeros((n, n), dtype=np.uint8)
        check(
            n > 0 and len(final) == n and np.shape(transitions) == np.shape(goes_on) == (n, n),
            "initial, transitions, final and goes_on must be of one size and not empty",
        )
        self.initial, self.final, self.n_states = initial, final, n
        scores, within = np.asarray(transitions), np.asarray(goes_on) > 0
        outside = np.where(within, -np.inf, scores)
        highest = outside.max()
        self.highest = highest if np.isfinite(highest) else 0.0
        self.outside = outside
        self.factors = np.exp(outside - self.highest)
        before, after = np.nonzero(within & np.isfinite(scores))
        self.arc_from, self.arc_to = before.astype(np.int32), after.astype(np.int32)
        self.inside, self.n_arcs = scores[before, after], len(before)
        inner = within & within.any(axis=1)
        self.inner = np.where(inner.any(axis=1), inner.argmax(axis=1), -1).astype(np.int32)

    cdef int check(
        self, const double[:, ::1] scores, const int64_t[::1] offsets,
        const int64_t[:, ::1] brackets,
    ) except -1:
        check_starts(offsets, scores.shape[0])
        check(scores.shape[1] == self.n_states, "scores must have one column for each state")
        kept = np.empty(len(brackets), dtype=np.uint8)
        nest(brackets, offsets, kept)
        return check(kept.all(), "brackets must be nested")

    def best(
        self, const double[:, ::1] scores, const int64_t[::1] offsets,
        const int64_t[:, ::1] brackets, int32_t[::1] out,
    ):
        """Write the best state sequence of each sentence into `out`, int32 (n_tokens).

        scores: float64 (n_tokens, n_states). brackets: int64 (n, 2), sorted, kept by `nest`.
        Returns the sum of the scores of the sequences, -inf if a sentence has no sequence.
        """
        cdef Py_ssize_t s, k = 0
        cdef double total = 0.0
        self.check(scores, offsets, brackets)
        check(out.shape[0] == scores.shape[0], "out must be as long as scores")
        cdef Pass work = Pass(self, offsets, brackets)
        cdef int32_t[:, ::1] before = np.empty((max(1, work.longest), self.n_states), np.int32)
        with nogil:
            for s in range(offsets.shape[0] - 1):
                if offsets[s + 1] > offsets[s]:
                    total += work.sweep(
                        True, &scores[offsets[s], 0], offsets[s], offsets[s + 1], brackets, &k,
                        NULL, &before[0, 0],
                    )
                    work.trace(offsets[s + 1] - offsets[s], &before[0, 0], &out[offsets[s]])
        return total

    def begins(
        self, const double[:, ::1] scores, const int64_t[::1] offsets,
        const int64_t[:, ::1] brackets, double[:, ::1] out, double[::1] totals,
    ):
        """Compute log sums over all prefixes that end in a token that begins a segment.

        out: float64 (n_tokens, n_states), by token and its state. totals: float64 (n_sentences),
        log Z. The other arguments are those of `best`.
        """
        cdef Py_ssize_t s, k = 0
        self.check(scores, offsets, brackets)
        check_shape(out, scores.shape[0], self.n_states)
        check(totals.shape[0] == offsets.shape[0] - 1, "there must be a total for each sentence")
        cdef Pass work = Pass(self, offsets, brackets)
        with nogil:
            for s in range(offsets.shape[0] - 1):
                totals[s] = 0.0
                if offsets[s + 1] > offsets[s]:
                    totals[s] = work.sweep(
                        False, &scores[offsets[s], 0], offsets[s], offsets[s + 1], brackets, &k,
                        &out[offsets[s], 0], NULL,
                    )


def segment_probabilities(
    Segmenter segmenter not None, const double[:, ::1] scores, const double[:, ::1] begins,
    const double[:, ::1] ends, const double[::1] totals, const int64_t[:, ::1] segments,
    const int32_t[::1] types, double[::1] out,
):
    """Compute the probability that exactly each segment, which crosses no bracket, is a chunk.

    begins, totals: from `Segmenter.begins`.
    ends: `begins` of the reversed chain, in the order of the tokens.
    segments: int64 (n, 4): first token, the token after the last, type and sentence.
    types: int32 (n_states), the type of the chunk that a state belongs to.
    out: float64 (n).
    """
    cdef Py_ssize_t i, t, y, n_states = segmenter.n_states, n = scores.shape[0]
    cdef double total
    check_shape(scores, n, n_states)
    check_shape(begins, n, n_states)
    check_shape(ends, n, n_states)
    check(types.shape[0] == n_states, "types must have one type for each state")
    check(segments.shape[1] == 4 and segments.shape[0] == out.shape[0], "out must fit segments")
    for i in range(segments.shape[0]):
        check(
            0 <= segments[i, 0] < segments[i, 1] <= n and 0 <= segments[i, 3] < totals.shape[0],
            "a segment is empty or outside its sentence",
        )
    cdef Cell[::1] work = _cells(2 * n_states)
    cdef Cell* here = &work[0]
    cdef Cell* after = &work[n_states]
    with nogil:
        for i in range(segments.shape[0]):
            for y in range(n_states):
                here[y] = Cell(-INFINITY, 0, 0)
                if types[y] == segments[i, 2]:
                    here[y].score = begins[segments[i, 0], y]
            for t in range(segments[i, 0] + 1, segments[i, 1]):
                _step(segmenter, False, here, &scores[t, 0], after)
                here, after = after, here
            total = -INFINITY
            t = segments[i, 1] - 1
            for y in range(n_states):
                if here[y].score > -INFINITY:
                    total = _log_add(total, here[y].score + ends[t, y] - scores[t, y])
            out[i] = min(1.0, exp(total - totals[segments[i, 3]]))


_CELL = np.dtype([("score", "f8"), ("start", "i4"), ("first", "i4")])


def _cells(n):
    return np.empty(n, dtype=_CELL)


cdef inline double _log_add(double a, double b) noexcept nogil:
    if a < b:
        a, b = b, a
    return a if b == -INFINITY else a + log1p(exp(b - a))


cdef inline void _put(
    bint best, Cell* cell, double score, int32_t start, int32_t first
) noexcept nogil:
    """Add the score, or keep the better segment."""
    if not best:
        cell.score = _log_add(cell.score, score)
    elif score > cell.score:
        cell[0] = Cell(score, start, first)


cdef inline void _step(
    Segmenter segmenter, bint best, const Cell* before, const double* scores, Cell* out
) noexcept nogil:
    """Continue chunks by one token, by last state."""
    cdef Py_ssize_t k, x, y
    for y in range(segmenter.n_states):
        out[y].score = -INFINITY
    for k in range(segmenter.n_arcs):
        x = segmenter.arc_from[k]
        if before[x].score > -INFINITY:
            y = segmenter.arc_to[k]
            _put(
                best, &out[y], before[x].score + segmenter.inside[k] + scores[y],
                before[x].start, before[x].first,
            )


cdef class Pass:
    """A pass from left to right over one sentence after the other, with its memory.

    ended: Cell (n_tokens + 1, n_states), the segments that end at each gap, by last state.
    running: Cell (depth + 1, n_states). opened: int64 (depth + 1, 2), the open brackets.
    begun: Cell (n_tokens, n_states), `begins`.
    """

    cdef Segmenter segmenter
    cdef Cell[:, ::1] ended, running, begun, work
    cdef int64_t[:, ::1] opened
    cdef double[::1] exponentials
    cdef readonly Py_ssize_t longest

    def __init__(self, Segmenter segmenter not None, offsets, brackets):
        n_states = segmenter.n_states
        self.segmenter = segmenter
        self.longest = int(np.diff(offsets).max(initial=0))
        # A bracket is within its sentence, and each level is shorter than the level above.
        depth = min(len(brackets), self.longest) + 1
        self.ended = _cells((self.longest + 1) * n_states).reshape(-1, n_states)
        self.begun = _cells((self.longest + 1) * n_states).reshape(-1, n_states)
        self.running = _cells(depth * n_states).reshape(-1, n_states)
        self.work = _cells(4 * n_states).reshape(-1, n_states)
        self.opened = np.empty((depth, 2), dtype=np.int64)
        self.exponentials = np.empty(n_states)

    cdef double sweep(
        self, bint best, const double* scores, Py_ssize_t begin, Py_ssize_t end,
        const int64_t[:, ::1] brackets, Py_ssize_t* next_bracket, double* begins, int32_t* before,
    ) noexcept nogil:
        """Return log Z of a sentence, or the best score.

        scores, begins: the rows of the sentence. next_bracket: the next bracket to open.
        before: int32 (n_tokens, n_states), out if best: the state before a segment, by first state.
        """
        cdef Py_ssize_t n = end - begin, n_states = self.segmenter.n_states, depth = 0, t, y, start
        cdef Cell* through = &self.work[2, 0]
        cdef Cell* begun = &self.work[3, 0]
        cdef Cell* after
        cdef Cell* running = &self.running[0, 0]
        cdef double total = -INFINITY
        for y in range(n_states):
            running[y].score = -INFINITY
        for t in range(n):
            while (next_bracket[0] < brackets.shape[0]
                   and brackets[next_bracket[0], 0] == begin + t):
                depth += 1
                running = &self.running[depth, 0]
                self.opened[depth, 0] = t
                self.opened[depth, 1] = brackets[next_bracket[0], 1] - begin
                for y in range(n_states):
                    running[y].score = -INFINITY
                next_bracket[0] += 1
            self.begin(best, scores + t * n_states, t, before)
            if begins != NULL:
                for y in range(n_states):
                    begins[t * n_states + y] = self.begun[t, y].score
            after = &self.ended[t + 1, 0]
            _step(self.segmenter, best, running, scores + t * n_states, after)
            self.put_all(best, &self.begun[t, 0], after)
            for y in range(n_states):
                running[y] = after[y]
            while depth > 0 and self.opened[depth, 1] == t + 1:
                start = self.opened[depth, 0]
                depth -= 1
                running = &self.running[depth, 0]
                self.go_through(best, running, scores, start, t + 1, through)
                self.put_all(best, through, after)
                self.go_through(best, &self.begun[start, 0], scores, start + 1, t + 1, begun)
                self.put_all(best, begun, through)
                for y in range(n_states):
                    running[y] = through[y]
        for y in range(n_states):
            if best:
                total = max(total, self.ended[n, y].score + self.segmenter.final[y])
            else:
                total = _log_add(total, self.ended[n, y].score + self.segmenter.final[y])
        return total

    cdef void begin(
        self, bint best, const double* scores, Py_ssize_t t, int32_t* before
    ) noexcept nogil:
        """Compute `begun` of token t."""
        cdef Py_ssize_t x, y, n_states = self.segmenter.n_states
        cdef const Cell* ended = &self.ended[t, 0]
        cdef double* exponentials = &self.exponentials[0]
        cdef double highest = -INFINITY, score
        if t == 0:
            for y in range(n_states):
                self.begun[0, y] = Cell(self.segmenter.initial[y] + scores[y], 0, <int32_t>y)
            return
        for x in range(n_states):
            highest = max(highest, ended[x].score)
        if not best and highest > -INFINITY:
            for x in range(n_states):
                exponentials[x] = exp(ended[x].score - highest)
        for y in range(n_states):
            score = -INFINITY
            if best:
                before[t * n_states + y] = 0
                for x in range(n_states):
                    if ended[x].score + self.segmenter.outside[x, y] > score:
                        score = ended[x].score + self.segmenter.outside[x, y]
                        before[t * n_states + y] = <int32_t>x
            elif highest > -INFINITY:
                score = 0.0
                for x in range(n_states):
                    score += exponentials[x] * self.segmenter.factors[x, y]
                if score > MIN_SUM:
                    score = log(score) + highest + self.segmenter.highest
                else:
                    score = -INFINITY
                    for x in range(n_states):
                        score = _log_add(score, ended[x].score + self.segmenter.outside[x, y])
            self.begun[t, y] = Cell(score + scores[y], <int32_t>t, <int32_t>y)

    cdef void put_all(self, bint best, const Cell* cells, Cell* out) noexcept nogil:
        cdef Py_ssize_t y
        for y in range(self.segmenter.n_states):
            if cells[y].score > -INFINITY:
                _put(best, &out[y], cells[y].score, cells[y].start, cells[y].first)

    cdef void go_through(
        self, bint best, const Cell* running, const double* scores, Py_ssize_t start,
        Py_ssize_t end, Cell* out,
    ) noexcept nogil:
        """Continue running chunks from token start to token end - 1, at least one token."""
        cdef Py_ssize_t n_states = self.segmenter.n_states, t, y
        cdef Cell* here = &self.work[0, 0]
        cdef Cell* after = &self.work[1, 0]
        cdef bint some = False
        for y in range(n_states):
            here[y] = running[y]
            some = some or here[y].score > -INFINITY
            out[y].score = -INFINITY
        t = start
        while some and t < end - 1:
            _step(self.segmenter, best, here, scores + t * n_states, after)
            here, after = after, here
            t += 1
        if some:
            _step(self.segmenter, best, here, scores + t * n_states, out)

    cdef void trace(self, Py_ssize_t n, const int32_t* before, int32_t* out) noexcept nogil:
        """Write the best states of a sentence, from the last segment to the first."""
        cdef Py_ssize_t end = n, t, y, last = 0
        cdef Cell segment
        for y in range(1, self.segmenter.n_states):
            if (self.ended[n, y].score + self.segmenter.final[y]
                    > self.ended[n, last].score + self.segmenter.final[last]):
                last = y
        while end > 0:
            segment = self.ended[end, last]
            if segment.score == -INFINITY:  # there is none
                break
            out[segment.start] = segment.first
            for t in range(segment.start + 1, end - 1):
                out[t] = self.segmenter.inner[max(0, out[t - 1])]
            out[end - 1] = <int32_t>last
            end = segment.start
            if end > 0:
                last = before[end * self.segmenter.n_states + segment.first]
