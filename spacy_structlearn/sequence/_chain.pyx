# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of first-order linear chains: scores, forward-backward and Viterbi.

Lafferty, McCallum & Pereira (2001), section 3; Sha & Pereira (2003), section 3.1. A sentence of n
tokens and L labels has emission scores s_t(y), the sum of the weights of the predicates at t with
y, and transition scores a(x, y); the score of y_1..y_n is sum s_t(y_t) + sum a(y_{t-1}, y_t).
Tokens of all sentences lie one after another; `offsets` (n_sentences + 1) says where each begins.

Forward-backward works on scaled probabilities (Rabiner 1989, section V.A). It does so only where
that is safe: alpha_t(x) / alpha_t(y) cannot exceed exp(range of s_t + range of a), so below a range
of 600 nothing is lost to underflow; other sentences (weights of -inf, say) go in log space.
"""

from libc.math cimport exp, fmax, isfinite, log, INFINITY
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memset

import numpy as np

ctypedef fused real:
    float
    double

cdef double SAFE_RANGE = 600.0


# --- predicates to rows ---------------------------------------------------------------------------


def find_rows(
    const uint64_t[::1] wanted, const uint64_t[::1] keys, const int32_t[::1] buckets, int32_t[::1] out
):
    """Position of each wanted key in `keys` (ascending, unique), or -1, into `out`.

    buckets: int32 (2**b + 1), the first position whose key's upper b bits are at least i. Keys are
    hashes, so that with about as many buckets as keys a look-up takes a step or two.
    """
    cdef Py_ssize_t i, low, high, middle
    cdef int shift = 64
    cdef Py_ssize_t n_buckets = buckets.shape[0] - 1
    if out.shape[0] != wanted.shape[0]:
        raise ValueError("out must be as long as wanted")
    while n_buckets > 1:
        n_buckets >>= 1
        shift -= 1
    if shift > 63 or (<Py_ssize_t>1 << (64 - shift)) != buckets.shape[0] - 1:
        raise ValueError("the number of buckets must be a power of two, at least 2")
    if buckets[0] != 0 or buckets[buckets.shape[0] - 1] != keys.shape[0]:
        raise ValueError("the buckets do not cover the keys")
    with nogil:
        for i in range(wanted.shape[0]):
            low = buckets[wanted[i] >> shift]
            high = buckets[(wanted[i] >> shift) + 1]
            while low < high:
                middle = (low + high) // 2
                if keys[middle] < wanted[i]:
                    low = middle + 1
                else:
                    high = middle
            if low < keys.shape[0] and keys[low] == wanted[i]:
                out[i] = <int32_t>low
            else:
                out[i] = -1


# --- emission scores and their transpose ----------------------------------------------------------


def emission_scores(const int32_t[:, ::1] rows, const real[:, ::1] weights, double[:, ::1] out):
    """out[t, y] = sum over the predicates k of token t of weights[rows[t, k], y].

    rows: int32 (n_tokens, n_templates); -1 (any negative number) adds nothing.
    weights: float32 or float64 (n_predicates, n_labels). out: float64 (n_tokens, n_labels).
    """
    cdef Py_ssize_t n = rows.shape[0], n_labels = weights.shape[1]
    if out.shape[0] != n or out.shape[1] != n_labels:
        raise ValueError("out must have the shape (n_tokens, n_labels)")
    _check_rows(rows, weights.shape[0])
    if n == 0 or n_labels == 0:
        return
    if rows.shape[1] == 0 or weights.shape[0] == 0:
        out[:, :] = 0.0
        return
    with nogil:
        if n_labels == 3:
            _emission_scores_3(&rows[0, 0], n, rows.shape[1], &weights[0, 0], &out[0, 0])
        else:
            _emission_scores(&rows[0, 0], n, rows.shape[1], n_labels, &weights[0, 0], &out[0, 0])


cdef void _emission_scores(
    const int32_t* rows, Py_ssize_t n, Py_ssize_t n_templates, Py_ssize_t n_labels,
    const real* weights, double* out,
) noexcept nogil:
    cdef Py_ssize_t t, k, y
    cdef const real* row
    cdef double* score
    memset(out, 0, n * n_labels * sizeof(double))
    for t in range(n):
        score = out + t * n_labels
        for k in range(n_templates):
            if rows[t * n_templates + k] >= 0:
                row = weights + rows[t * n_templates + k] * n_labels
                for y in range(n_labels):
                    score[y] += row[y]


cdef void _emission_scores_3(
    const int32_t* rows, Py_ssize_t n, Py_ssize_t n_templates, const real* weights, double* out
) noexcept nogil:
    # Three labels (one kind of chunk) is the common case; three registers halve its time.
    cdef Py_ssize_t t, k
    cdef const real* row
    cdef double a, b, c
    for t in range(n):
        a = b = c = 0.0
        for k in range(n_templates):
            if rows[t * n_templates + k] >= 0:
                row = weights + <Py_ssize_t>rows[t * n_templates + k] * 3
                a += row[0]
                b += row[1]
                c += row[2]
        out[3 * t] = a
        out[3 * t + 1] = b
        out[3 * t + 2] = c


def add_to_rows(const int32_t[:, ::1] rows, const double[:, ::1] values, double[:, ::1] out):
    """out[rows[t, k], y] += values[t, y] for every token t and predicate k: expected counts.

    rows: int32 (n_tokens, n_templates); negative rows are passed over.
    values: float64 (n_tokens, n_labels). out: float64 (n_predicates, n_labels).
    """
    cdef Py_ssize_t n = rows.shape[0], n_labels = out.shape[1]
    if values.shape[0] != n or values.shape[1] != n_labels:
        raise ValueError("values must have the shape (n_tokens, n_labels)")
    _check_rows(rows, out.shape[0])
    if n == 0 or n_labels == 0 or rows.shape[1] == 0 or out.shape[0] == 0:
        return
    with nogil:
        if n_labels == 3:
            _add_to_rows(&rows[0, 0], n, rows.shape[1], 3, &values[0, 0], &out[0, 0])
        else:
            _add_to_rows(&rows[0, 0], n, rows.shape[1], n_labels, &values[0, 0], &out[0, 0])


cdef inline void _add_to_rows(
    const int32_t* rows, Py_ssize_t n, Py_ssize_t n_templates, Py_ssize_t n_labels,
    const double* values, double* out,
) noexcept nogil:
    cdef Py_ssize_t t, k, y
    cdef const double* value
    cdef double* row
    for t in range(n):
        value = values + t * n_labels
        for k in range(n_templates):
            if rows[t * n_templates + k] >= 0:
                row = out + rows[t * n_templates + k] * n_labels
                for y in range(n_labels):
                    row[y] += value[y]


cdef int _check_rows(const int32_t[:, ::1] rows, Py_ssize_t n_predicates) except -1:
    cdef Py_ssize_t t, k
    cdef int32_t highest = -1
    with nogil:
        for t in range(rows.shape[0]):
            for k in range(rows.shape[1]):
                if rows[t, k] > highest:
                    highest = rows[t, k]
    if highest >= n_predicates:
        raise ValueError("a row is beyond the weights")
    return 0


# --- forward-backward -----------------------------------------------------------------------------


def forward_backward(
    const double[:, ::1] scores, const int64_t[::1] offsets, const double[:, ::1] transitions,
    double[:, ::1] marginals, double[:, ::1] expectations=None, double[:, ::1] log_beta=None,
):
    """Sum over sentences of the log partition function; marginals of labels and label pairs.

    scores: float64 (n_tokens, n_labels), emission scores.
    transitions: float64 (n_labels, n_labels), from row to column; -inf forbids a pair.
    marginals: float64 (n_tokens, n_labels), out: p(y_t = y | x). May be the same array as `scores`.
    expectations: if given, float64 (n_labels, n_labels), out: sum of p(y_{t-1} = x, y_t = y | x).
    log_beta: if given, float64 (n_tokens, n_labels), out: the backward variable
        log sum over y_{t+1}..y_n of exp(score of them after y_t), each t up to a constant.
    """
    cdef Py_ssize_t n_labels = transitions.shape[0], n = scores.shape[0], longest, s, i
    cdef bint with_log_beta = log_beta is not None, with_pairs = expectations is not None
    cdef double total = 0.0, spread = 0.0, highest
    _check_chain(scores, offsets, transitions)
    if marginals.shape[0] != n or marginals.shape[1] != n_labels:
        raise ValueError("marginals must have the shape of scores")
    if with_log_beta and (log_beta.shape[0] != n or log_beta.shape[1] != n_labels):
        raise ValueError("log_beta must have the shape of scores")
    if with_pairs:
        if expectations.shape[0] != n_labels or expectations.shape[1] != n_labels:
            raise ValueError("expectations must have the shape of transitions")
        expectations[:, :] = 0.0
    if n == 0:
        return 0.0
    longest = np.diff(offsets).max()
    cdef double[:, ::1] factors = np.exp(transitions - np.max(transitions))
    cdef double[:, ::1] psi = np.empty((longest, n_labels))
    cdef double[:, ::1] alpha = np.empty((longest, n_labels))
    cdef double[::1] scale = np.empty(longest)
    cdef double[:, ::1] pairs = np.zeros((n_labels, n_labels))
    cdef double[::1] work = np.empty(3 * n_labels)
    highest = np.max(transitions)
    spread = highest - np.min(transitions)
    cdef Py_ssize_t begin, length
    with nogil:
        for s in range(offsets.shape[0] - 1):
            begin = offsets[s]
            length = offsets[s + 1] - begin
            if length == 0:
                continue
            if _within_range(&scores[begin, 0], length, n_labels, spread):
                total += highest * (length - 1) + _scaled(
                    &scores[begin, 0], length, n_labels, &factors[0, 0], &psi[0, 0], &alpha[0, 0],
                    &scale[0], &work[0], &marginals[begin, 0],
                    &pairs[0, 0] if with_pairs else NULL,
                    &log_beta[begin, 0] if with_log_beta else NULL,
                )
            else:
                total += _logarithmic(
                    &scores[begin, 0], length, n_labels, &transitions[0, 0], &psi[0, 0],
                    &alpha[0, 0], &work[0], &marginals[begin, 0],
                    &expectations[0, 0] if with_pairs else NULL,
                    &log_beta[begin, 0] if with_log_beta else NULL,
                )
        if with_pairs:
            # The scaled sentences leave out the factor that all their pairs have in common.
            for s in range(n_labels):
                for i in range(n_labels):
                    expectations[s, i] += pairs[s, i] * factors[s, i]
    return total


cdef bint _within_range(
    const double* scores, Py_ssize_t n, Py_ssize_t n_labels, double spread
) noexcept nogil:
    cdef Py_ssize_t t, y
    cdef double low, high
    for t in range(n):
        low = high = scores[t * n_labels]
        for y in range(1, n_labels):
            if scores[t * n_labels + y] > high:
                high = scores[t * n_labels + y]
            if scores[t * n_labels + y] < low:
                low = scores[t * n_labels + y]
        if not high - low + spread < SAFE_RANGE:  # "not <" is also true of nan
            return False
    return True


cdef double _scaled(
    const double* scores, Py_ssize_t n, Py_ssize_t n_labels, const double* factors, double* psi,
    double* alpha, double* scale, double* work, double* marginals, double* pairs, double* log_beta,
) noexcept nogil:
    """One sentence; returns log Z less (n - 1) times the highest transition score.

    psi_t(y) = exp(s_t(y) - max), alpha_t sums to one, and beta_t is scaled by the same
    constants, so that alpha_t(y) beta_t(y) is the marginal. marginals may overwrite scores.
    """
    cdef Py_ssize_t t, x, y
    cdef double total = 0.0, highest, norm, value
    cdef double* beta = work
    cdef double* message = work + n_labels
    for t in range(n):
        highest = scores[t * n_labels]
        for y in range(1, n_labels):
            highest = fmax(highest, scores[t * n_labels + y])
        norm = 0.0
        for y in range(n_labels):
            value = exp(scores[t * n_labels + y] - highest)
            psi[t * n_labels + y] = value
            if t > 0:
                value *= _dot_column(alpha + (t - 1) * n_labels, factors + y, n_labels)
            alpha[t * n_labels + y] = value
            norm += value
        scale[t] = 1.0 / norm
        for y in range(n_labels):
            alpha[t * n_labels + y] *= scale[t]
        total += highest + log(norm)
    for y in range(n_labels):
        beta[y] = 1.0
    for t in range(n - 1, -1, -1):
        for y in range(n_labels):
            marginals[t * n_labels + y] = alpha[t * n_labels + y] * beta[y]
            message[y] = psi[t * n_labels + y] * beta[y] * scale[t]
        if log_beta != NULL:
            for y in range(n_labels):
                log_beta[t * n_labels + y] = log(beta[y])
        if t > 0:
            for x in range(n_labels):
                beta[x] = 0.0
                for y in range(n_labels):
                    beta[x] += factors[x * n_labels + y] * message[y]
            if pairs != NULL:
                for x in range(n_labels):
                    for y in range(n_labels):
                        pairs[x * n_labels + y] += alpha[(t - 1) * n_labels + x] * message[y]
    return total


cdef inline double _dot_column(
    const double* vector, const double* column, Py_ssize_t n_labels
) noexcept nogil:
    cdef Py_ssize_t x
    cdef double value = 0.0
    for x in range(n_labels):
        value += vector[x] * column[x * n_labels]
    return value


cdef double _logarithmic(
    const double* scores, Py_ssize_t n, Py_ssize_t n_labels, const double* transitions, double* psi,
    double* alpha, double* work, double* marginals, double* expectations, double* log_beta,
) noexcept nogil:
    """One sentence in log space; returns log Z. Slow, and right for any scores but nan."""
    cdef Py_ssize_t t, x, y
    cdef double total
    cdef double* beta = work
    cdef double* message = work + n_labels
    cdef double* terms = work + 2 * n_labels
    for t in range(n):
        for y in range(n_labels):
            psi[t * n_labels + y] = scores[t * n_labels + y]
            for x in range(n_labels if t > 0 else 0):
                terms[x] = alpha[(t - 1) * n_labels + x] + transitions[x * n_labels + y]
            alpha[t * n_labels + y] = psi[t * n_labels + y]
            if t > 0:
                alpha[t * n_labels + y] += _log_sum_exp(terms, n_labels)
    total = _log_sum_exp(alpha + (n - 1) * n_labels, n_labels)
    for y in range(n_labels):
        beta[y] = 0.0
    for t in range(n - 1, -1, -1):
        for y in range(n_labels):
            marginals[t * n_labels + y] = exp(alpha[t * n_labels + y] + beta[y] - total)
            message[y] = psi[t * n_labels + y] + beta[y]
            if log_beta != NULL:
                log_beta[t * n_labels + y] = beta[y]
        if t > 0:
            for x in range(n_labels):
                for y in range(n_labels):
                    terms[y] = transitions[x * n_labels + y] + message[y]
                beta[x] = _log_sum_exp(terms, n_labels)
                if expectations != NULL:
                    for y in range(n_labels):
                        expectations[x * n_labels + y] += exp(
                            alpha[(t - 1) * n_labels + x] + terms[y] - total
                        )
    return total


cdef double _log_sum_exp(const double* terms, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    cdef double highest = -INFINITY, total = 0.0
    for i in range(n):
        highest = fmax(highest, terms[i])
    if not isfinite(highest):
        return highest
    for i in range(n):
        total += exp(terms[i] - highest)
    return highest + log(total)


def segment_probabilities(
    const double[:, ::1] scores, const double[:, ::1] transitions,
    const double[:, ::1] marginals, const double[:, ::1] log_beta, const int64_t[:, ::1] segments,
    const int32_t[:, ::1] labels, double[::1] out,
):
    """Probability that exactly each segment is a chunk, under the lenient rule of conlleval.

    scores, transitions, marginals, log_beta: as in `forward_backward`, which fills the latter two.
    segments: int64 (n, 4), for each its first token, the token after its last, and the first
        token of its sentence and the one after its last.
    labels: int32 (n, 2), the ids of B-T and I-T for its type T; -1 where there is no such label.
    out: float64 (n).

    Given the input, the labels are a Markov chain with p(y_{t+1} = b | y_t = a) proportional to
    exp(a(a, b) + s_{t+1}(b)) beta_{t+1}(b): the probability of a chunk is that of its first label
    (B-T, or I-T after neither B-T nor I-T) times that of staying in I-T and then leaving it.
    """
    cdef Py_ssize_t i, n_labels = transitions.shape[0], n = scores.shape[0]
    cdef const int64_t* at
    if not (scores.shape[1] == marginals.shape[1] == log_beta.shape[1] == n_labels
            and transitions.shape[1] == n_labels and marginals.shape[0] == log_beta.shape[0] == n):
        raise ValueError("scores, marginals and log_beta must have the shape (n_tokens, n_labels)")
    if segments.shape[1] != 4 or labels.shape[1] != 2 or not (
        segments.shape[0] == labels.shape[0] == out.shape[0]
    ):
        raise ValueError("segments, labels and out must have the shapes (n, 4), (n, 2) and (n)")
    for i in range(segments.shape[0]):
        at = &segments[i, 0]
        if not (0 <= at[2] <= at[0] < at[1] <= at[3] <= n):
            raise ValueError("a segment is empty or outside of its sentence")
        if not (-1 <= labels[i, 0] < n_labels and -1 <= labels[i, 1] < n_labels):
            raise ValueError("a label id is out of range")
    if segments.shape[0] == 0:
        return
    cdef double[::1] work = np.empty(n_labels)
    with nogil:
        for i in range(segments.shape[0]):
            out[i] = _segment_probability(
                &scores[0, 0], &transitions[0, 0], &marginals[0, 0], &log_beta[0, 0], n_labels,
                &segments[i, 0], labels[i, 0], labels[i, 1], &work[0],
            )


cdef double _segment_probability(
    const double* scores, const double* transitions, const double* marginals,
    const double* log_beta, Py_ssize_t n_labels, const int64_t* segment, int32_t begin,
    int32_t inside, double* work,
) noexcept nogil:
    cdef Py_ssize_t t, x, start = segment[0], end = segment[1]
    cdef double as_begin = 0.0, as_inside = 0.0, probability
    if begin >= 0:
        as_begin = marginals[start * n_labels + begin]
    if inside >= 0:
        if start == segment[2]:
            as_inside = marginals[start * n_labels + inside]
        else:
            for x in range(n_labels):
                if x != begin and x != inside and marginals[(start - 1) * n_labels + x] > 0.0:
                    _next_label(scores, transitions, log_beta, n_labels, start - 1, x, work)
                    as_inside += marginals[(start - 1) * n_labels + x] * work[inside]
    for t in range(start, end - 1):
        as_inside = (
            as_begin * _stay(scores, transitions, log_beta, n_labels, t, begin, inside, work)
            + as_inside * _stay(scores, transitions, log_beta, n_labels, t, inside, inside, work)
        )
        as_begin = 0.0
    if end == segment[3] or inside < 0:
        return as_begin + as_inside
    probability = 0.0
    if as_begin > 0.0:
        probability += as_begin * _leave(
            scores, transitions, log_beta, n_labels, end - 1, begin, inside, work)
    if as_inside > 0.0:
        probability += as_inside * _leave(
            scores, transitions, log_beta, n_labels, end - 1, inside, inside, work)
    return probability


cdef double _stay(
    const double* scores, const double* transitions, const double* log_beta, Py_ssize_t n_labels,
    Py_ssize_t t, int32_t label, int32_t inside, double* work,
) noexcept nogil:
    """p(y_{t+1} = inside | y_t = label)."""
    if label < 0 or inside < 0:
        return 0.0
    _next_label(scores, transitions, log_beta, n_labels, t, label, work)
    return work[inside]


cdef double _leave(
    const double* scores, const double* transitions, const double* log_beta, Py_ssize_t n_labels,
    Py_ssize_t t, int32_t label, int32_t inside, double* work,
) noexcept nogil:
    """p(y_{t+1} != inside | y_t = label), summed, since 1 - p would lose small ones."""
    cdef Py_ssize_t y
    cdef double total = 0.0
    _next_label(scores, transitions, log_beta, n_labels, t, label, work)
    for y in range(n_labels):
        if y != inside:
            total += work[y]
    return total


cdef void _next_label(
    const double* scores, const double* transitions, const double* log_beta, Py_ssize_t n_labels,
    Py_ssize_t t, Py_ssize_t label, double* out,
) noexcept nogil:
    """out[y] = p(y_{t+1} = y | y_t = label, x); zeros if the label cannot be at t."""
    cdef Py_ssize_t y
    cdef double total
    for y in range(n_labels):
        out[y] = (
            transitions[label * n_labels + y]
            + scores[(t + 1) * n_labels + y]
            + log_beta[(t + 1) * n_labels + y]
        )
    total = _log_sum_exp(out, n_labels)
    for y in range(n_labels):
        out[y] = exp(out[y] - total) if isfinite(total) else 0.0


# --- Viterbi --------------------------------------------------------------------------------------


def viterbi(
    const double[:, ::1] scores, const int64_t[::1] offsets, const double[:, ::1] transitions,
    int32_t[::1] out,
):
    """The best label sequence of each sentence into `out`; of equals the lowest label id wins.

    scores: float64 (n_tokens, n_labels). transitions: float64 (n_labels, n_labels).
    out: int32 (n_tokens). Returns the sum of the scores of the sequences.
    """
    cdef Py_ssize_t n_labels = transitions.shape[0], s, begin, length, longest
    cdef double total = 0.0
    _check_chain(scores, offsets, transitions)
    if out.shape[0] != scores.shape[0]:
        raise ValueError("out must be as long as scores")
    if out.shape[0] == 0:
        return 0.0
    longest = np.diff(offsets).max()
    cdef int32_t[:, ::1] back = np.empty((longest, n_labels), dtype=np.int32)
    cdef double[:, ::1] delta = np.empty((2, n_labels))
    with nogil:
        for s in range(offsets.shape[0] - 1):
            begin = offsets[s]
            length = offsets[s + 1] - begin
            if length > 0:
                total += _viterbi(
                    &scores[begin, 0], length, n_labels, &transitions[0, 0], &back[0, 0],
                    &delta[0, 0], &delta[1, 0], &out[begin],
                )
    return total


cdef double _viterbi(
    const double* scores, Py_ssize_t n, Py_ssize_t n_labels, const double* transitions,
    int32_t* back, double* previous, double* current, int32_t* out,
) noexcept nogil:
    cdef Py_ssize_t t, x, y
    cdef int32_t best
    cdef double value, highest
    cdef double* swap
    for y in range(n_labels):
        current[y] = scores[y]
    for t in range(1, n):
        swap = previous
        previous = current
        current = swap
        for y in range(n_labels):
            best = 0
            highest = previous[0] + transitions[y]
            for x in range(1, n_labels):
                value = previous[x] + transitions[x * n_labels + y]
                if value > highest:
                    highest = value
                    best = <int32_t>x
            back[t * n_labels + y] = best
            current[y] = highest + scores[t * n_labels + y]
    best = 0
    for y in range(1, n_labels):
        if current[y] > current[best]:
            best = <int32_t>y
    highest = current[best]
    for t in range(n - 1, -1, -1):
        out[t] = best
        if t > 0:
            best = back[t * n_labels + best]
    return highest


cdef int _check_chain(
    const double[:, ::1] scores, const int64_t[::1] offsets, const double[:, ::1] transitions
) except -1:
    cdef Py_ssize_t s
    if transitions.shape[0] == 0 or transitions.shape[1] != transitions.shape[0]:
        raise ValueError("transitions must be square and not empty")
    if scores.shape[1] != transitions.shape[0]:
        raise ValueError("scores must have one column for each label")
    if offsets.shape[0] == 0 or offsets[0] != 0 or offsets[offsets.shape[0] - 1] != scores.shape[0]:
        raise ValueError("offsets must begin with 0 and end with the number of tokens")
    for s in range(offsets.shape[0] - 1):
        if offsets[s + 1] < offsets[s]:
            raise ValueError("offsets must not fall")
    return 0
