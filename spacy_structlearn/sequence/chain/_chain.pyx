# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of linear chains: scores, losses and gradients, forward-backward.

Lafferty, McCallum & Pereira (2001), section 3; Sha & Pereira (2003), section 3.1. s_t(y), the score
of state y at token t, is the sum of the weights of the predicates at t with y. The score of the
states y_1..y_n is i(y_1) + sum s_t(y_t) + sum a(y_{t-1}, y_t) + f(y_n). Tokens of all sentences are
in one array; `offsets` (n_sentences + 1) has the start of each sentence.

A transition of -inf is forbidden. Loops over the successors of a state go from the first to the
last. If states are pairs of labels in ascending order, the successors (b, c) of (a, b) are
adjacent, so no time is spent on forbidden transitions.
"""

from libc.math cimport exp, fmax, isfinite, log, INFINITY
from libc.stdint cimport int16_t, int32_t, int64_t
from libc.string cimport memset

import numpy as np

from spacy_structlearn.kernels.checks cimport (
    check, check_ids, check_shape, check_starts, check_table,
)
from spacy_structlearn.kernels.doubles cimport exponentials
from spacy_structlearn.kernels.prefetch cimport PREFETCH

cdef double SAFE_RANGE = 500.0
cdef double MIN_SUM = 1e-30, MAX_SUM = 1e30  # sums outside this range are scaled back to one

cdef enum:
    AHEAD = 6  # tokens to prefetch in training


# --- states and transitions -----------------------------------------------------------------------


cdef class Chain:
    """The scores of a chain that do not depend on the input.

    initial, final: float64 (n_states). transitions: float64 (n_states, n_states), from row to
    column; -inf forbids. All may be -inf, none +inf or nan.
    """

    cdef const double[::1] initial, final
    cdef const double[:, ::1] transitions
    cdef double[::1] first, last  # exp(initial) and exp(final), each up to a factor
    cdef double[:, ::1] factors, transposed  # exp(transitions), up to a factor
    cdef int32_t[::1] low, high  # the allowed successors of a state are low, ..., high - 1
    cdef Py_ssize_t n_states
    cdef double highest, ends, spread, safe_range
    cdef bint dense

    def __init__(
        self, const double[::1] initial, const double[:, ::1] transitions, const double[::1] final
    ):
        cdef Py_ssize_t n = initial.shape[0]
        check_shape(transitions, n, n)
        check(final.shape[0] == n > 0, "initial and final must be of one size and not empty")
        self.initial, self.transitions, self.final, self.n_states = initial, transitions, final, n
        allowed = np.isfinite(transitions)
        self.highest, spread = _highest_and_spread(transitions)
        highest_initial, spread_initial = _highest_and_spread(initial)
        highest_final, spread_final = _highest_and_spread(final)
        self.ends = highest_initial + highest_final
        self.spread = max(spread, spread_initial, spread_final)
        self.first = np.exp(np.subtract(initial, highest_initial))
        self.last = np.exp(np.subtract(final, highest_final))
        self.factors = np.exp(np.subtract(transitions, self.highest))
        self.transposed = np.ascontiguousarray(np.transpose(self.factors))
        self.dense = allowed.all()
        some = allowed.any(axis=1)
        self.low = np.where(some, allowed.argmax(axis=1), 0).astype(np.int32)
        self.high = np.where(some, n - allowed[:, ::-1].argmax(axis=1), 0).astype(np.int32)
        self.safe_range = SAFE_RANGE / _steps_to_mix(allowed)


def _highest_and_spread(scores):
    """Return the highest finite score and its distance to the lowest; zeros if there is none."""
    finite = np.asarray(scores)[np.isfinite(scores)]
    return (finite.max(), np.ptp(finite)) if finite.size else (0.0, 0.0)


def _steps_to_mix(allowed):
    """Return the least k such that the states reachable in k steps are the same from all states.

    Returns inf if there is no small k.
    """
    if allowed.all():
        return 1
    step = reached = allowed.astype(np.float32)
    for k in range(1, 9):
        if (reached == reached[0]).all():
            return k
        reached = (reached @ step > 0).astype(np.float32)
    return np.inf


cdef int _check_scores(
    Chain chain, const double[:, ::1] scores, const int64_t[::1] offsets
) except -1:
    check_starts(offsets, scores.shape[0])
    return check(scores.shape[1] == chain.n_states, "scores must have one column for each state")


# --- forward-backward -----------------------------------------------------------------------------


def forward_backward(
    Chain chain not None, const double[:, ::1] scores, const int64_t[::1] offsets,
    double[:, ::1] marginals, double[:, ::1] expectations=None,
):
    """Return the sum of log Z over sentences, and compute marginals of states and pairs of states.

    scores: float64 (n_tokens, n_states).
    marginals: float64 (n_tokens, n_states), out: p(y_t = y | x). May be the array `scores`.
    expectations: float64 (n_states, n_states), out: sum of p(y_{t-1} = x, y_t = y | x).
    If a sentence has no allowed path, the sum is -inf and its marginals are zero.

    Works on scaled probabilities (Rabiner 1989, section V.A) where this is safe: if the states
    reachable in k steps are always the same, alpha_t(x) / alpha_t(y) of reachable states is at most
    exp(k (range of s_t + range of a)), so below 500 nothing is lost to underflow. Other sentences
    are computed in log space.
    """
    cdef Py_ssize_t n = scores.shape[0], n_states = chain.n_states, s
    cdef bint with_pairs = expectations is not None
    cdef double total = 0.0
    _check_scores(chain, scores, offsets)
    check_shape(marginals, n, n_states)
    if with_pairs:
        check_shape(expectations, n_states, n_states)
        expectations[:, :] = 0.0
    if n == 0:
        return 0.0
    cdef ChainWorkspace space = ChainWorkspace(chain, np.diff(offsets).max())
    with nogil:
        for s in range(offsets.shape[0] - 1):
            if offsets[s + 1] > offsets[s]:
                total += space.sentence(
                    &scores[offsets[s], 0],
                    offsets[s + 1] - offsets[s],
                    &marginals[offsets[s], 0],
                    &expectations[0, 0] if with_pairs else NULL,
                )
        if with_pairs:
            space.add_pairs(&expectations[0, 0])
    return total


cdef class ChainWorkspace:
    """Forward-backward of one sentence after the other, with its memory."""

    cdef Chain chain
    cdef double[:, ::1] psi, alpha, pairs
    cdef double[::1] scale, work

    def __init__(self, Chain chain not None, Py_ssize_t longest):
        n_states = chain.n_states
        self.chain = chain
        self.psi = np.empty((longest, n_states))
        self.alpha = np.empty((longest, n_states))
        self.pairs = np.zeros((n_states, n_states))
        self.scale = np.empty(longest)
        self.work = np.empty(3 * n_states)

    cdef double sentence(
        self, const double* scores, Py_ssize_t n, double* marginals, double* expectations
    ) noexcept nogil:
        """Return log Z; see `forward_backward`. Pairs go into `pairs` or `expectations`."""
        cdef Py_ssize_t n_states = self.chain.n_states
        cdef double* pairs = NULL
        if not self.within_range(scores, n):
            return self.logarithmic(scores, n, marginals, expectations)
        if expectations != NULL:
            pairs = &self.pairs[0, 0]
        # The compiler specialises the frequent sizes: three labels, and their pairs.
        if n_states == 3 and self.chain.dense:
            return self.scaled(scores, n, 3, True, marginals, pairs)
        if n_states == 8 and not self.chain.dense:
            return self.scaled(scores, n, 8, False, marginals, pairs)
        if self.chain.dense:
            return self.scaled(scores, n, n_states, True, marginals, pairs)
        return self.scaled(scores, n, n_states, False, marginals, pairs)

    cdef void add_pairs(self, double* expectations) noexcept nogil:
        """Add the pairs of the scaled sentences, which lack the factors of transitions."""
        cdef Py_ssize_t x, y
        for x in range(self.chain.n_states):
            for y in range(self.chain.n_states):
                expectations[x * self.chain.n_states + y] += (
                    self.pairs[x, y] * self.chain.factors[x, y]
                )
                self.pairs[x, y] = 0.0

    cdef bint within_range(self, const double* scores, Py_ssize_t n) noexcept nogil:
        cdef Py_ssize_t t, y, n_states = self.chain.n_states
        cdef double low, high
        for t in range(n):
            low = high = scores[t * n_states]
            for y in range(1, n_states):
                if scores[t * n_states + y] > high:
                    high = scores[t * n_states + y]
                if scores[t * n_states + y] < low:
                    low = scores[t * n_states + y]
            # "not <" is also true of nan.
            if not high - low + self.chain.spread < self.chain.safe_range:
                return False
        return True

    cdef inline double scaled(
        self, const double* scores, Py_ssize_t n, Py_ssize_t n_states, bint dense,
        double* marginals, double* pairs,
    ) noexcept nogil:
        """Compute a sentence with scaling. dense: whether all transitions are allowed.

        psi_t(y) = exp(s_t(y) - max). alpha_t is rescaled when its sum is far from one, and beta_t
        by the same constants and 1 / Z, so that alpha_t(y) beta_t(y) is the marginal.
        """
        cdef const double* factors = &self.chain.factors[0, 0]
        cdef const double* transposed = &self.chain.transposed[0, 0]
        cdef const int32_t* low = &self.chain.low[0]
        cdef const int32_t* high = &self.chain.high[0]
        cdef double* psi = &self.psi[0, 0]
        cdef double* alpha = &self.alpha[0, 0]
        cdef double* before
        cdef double* beta = &self.work[0]
        cdef double* message = beta + n_states
        cdef Py_ssize_t t, x, y
        cdef double total = self.chain.ends + (n - 1) * self.chain.highest
        cdef double highest, norm, value
        cdef bint possible = True
        for t in range(n):
            highest = scores[t * n_states]
            for y in range(1, n_states):
                value = scores[t * n_states + y]
                highest = value if value > highest else highest
            for y in range(n_states):
                psi[t * n_states + y] = scores[t * n_states + y] - highest
            total += highest
        exponentials(psi, <int>(n * n_states))
        for t in range(n):
            if t == 0:
                for y in range(n_states):
                    alpha[y] = self.chain.first[y]
            else:
                before = alpha - n_states
                for y in range(n_states):
                    alpha[y] = 0.0
                for x in range(n_states):
                    for y in range(0 if dense else low[x], n_states if dense else high[x]):
                        alpha[y] += before[x] * factors[x * n_states + y]
            norm = 0.0
            for y in range(n_states):
                alpha[y] *= psi[y]
                norm += alpha[y]
            self.scale[t] = 1.0
            if not MIN_SUM < norm < MAX_SUM:
                if not norm > 0.0:
                    possible = False
                    break
                value = 1.0 / norm
                self.scale[t] = value
                for y in range(n_states):
                    alpha[y] *= value
                total += log(norm)
            psi += n_states
            alpha += n_states
        norm = 0.0
        if possible:
            for y in range(n_states):
                norm += (alpha - n_states)[y] * self.chain.last[y]
        if not norm > 0.0:
            memset(marginals, 0, n * n_states * sizeof(double))
            return -INFINITY
        total += log(norm)
        value = 1.0 / norm
        for y in range(n_states):
            beta[y] = self.chain.last[y] * value
        for t in range(n - 1, -1, -1):
            psi -= n_states
            alpha -= n_states
            value = self.scale[t]
            for y in range(n_states):
                message[y] = psi[y] * beta[y] * value
                marginals[t * n_states + y] = alpha[y] * beta[y]
            if t > 0:
                before = alpha - n_states
                for x in range(n_states):
                    beta[x] = 0.0
                if dense:
                    # Adjacent in x, so that compilers can vectorise it.
                    for y in range(n_states):
                        for x in range(n_states):
                            beta[x] += transposed[y * n_states + x] * message[y]
                else:
                    for x in range(n_states):
                        for y in range(low[x], high[x]):
                            beta[x] += factors[x * n_states + y] * message[y]
                if pairs != NULL:
                    for x in range(n_states):
                        for y in range(0 if dense else low[x], n_states if dense else high[x]):
                            pairs[x * n_states + y] += before[x] * message[y]
        return total

    cdef double logarithmic(
        self, const double* scores, Py_ssize_t n, double* marginals, double* expectations
    ) noexcept nogil:
        """Compute a sentence in log space: slow, and right for all scores but nan."""
        cdef Py_ssize_t n_states = self.chain.n_states, t, x, y
        cdef double total
        cdef double* psi = &self.psi[0, 0]
        cdef double* alpha = &self.alpha[0, 0]
        cdef double* beta = &self.work[0]
        cdef double* message = beta + n_states
        cdef double* terms = message + n_states
        for t in range(n):
            for y in range(n_states):
                psi[t * n_states + y] = scores[t * n_states + y]
                if t == 0:
                    alpha[y] = psi[y] + self.chain.initial[y]
                else:
                    for x in range(n_states):
                        terms[x] = alpha[(t - 1) * n_states + x] + self.chain.transitions[x, y]
                    alpha[t * n_states + y] = psi[t * n_states + y] + _log_sum_exp(terms, n_states)
        for y in range(n_states):
            beta[y] = self.chain.final[y]
            terms[y] = alpha[(n - 1) * n_states + y] + beta[y]
        total = _log_sum_exp(terms, n_states)
        if total == -INFINITY:
            memset(marginals, 0, n * n_states * sizeof(double))
            return total
        for t in range(n - 1, -1, -1):
            for y in range(n_states):
                marginals[t * n_states + y] = exp(alpha[t * n_states + y] + beta[y] - total)
                message[y] = psi[t * n_states + y] + beta[y]
            if t > 0:
                for x in range(n_states):
                    for y in range(n_states):
                        terms[y] = self.chain.transitions[x, y] + message[y]
                    beta[x] = _log_sum_exp(terms, n_states)
                    if expectations != NULL:
                        for y in range(n_states):
                            expectations[x * n_states + y] += exp(
                                alpha[(t - 1) * n_states + x] + terms[y] - total
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


# --- training -------------------------------------------------------------------------------------
#
# See `crf` for what slots, cells and links are.


cdef struct Layout:
    # The columns of theta and the states of a slot: `labels` is NULL if they are the same.
    Py_ssize_t n_columns
    Py_ssize_t width
    Py_ssize_t n_labels
    const int32_t* labels


def fold(
    const double[::1] theta, const int64_t[::1] first, const int16_t[::1] count,
    const int16_t[::1] column, const int32_t[:, ::1] links, Py_ssize_t begin, Py_ssize_t n_implied,
    const int32_t[::1] labels, Py_ssize_t n_labels, double[:, ::1] weights,
):
    """Compute the weights of one group of slots: implied predicates, then cells.

    theta: float64, the parameters.
    first, count: where the features of each slot begin in theta, and their number.
    column: the column of each feature.
    links: int32 (n_cells, n_implied_templates), slots or -1.
    begin: the first slot of the group.
    n_implied: number of predicates, which come before the cells.
    labels: int32 (n_states), the label of each state if there are columns for n_labels labels and
        then for states; None if slots have the same columns as features.
    weights: float64 (n_slots, width), out.
    """
    cdef Py_ssize_t i, k, c, slot, end
    cdef Layout layout
    cdef double* row
    cdef const double* other
    layout = _layout(weights.shape[1], labels, n_labels)
    end = _check_group(
        layout, first, count, column, theta.shape[0], links, begin, n_implied, weights.shape[0]
    )
    cdef double[::1] work = np.empty(layout.n_columns)
    if end == begin or layout.width == 0:
        return
    with nogil:
        for slot in range(begin, end):
            row = &weights[slot, 0]
            if layout.width == 3:
                _expand(theta, first[slot], count[slot], column, layout, 3, &work[0], row)
            else:
                _expand(theta, first[slot], count[slot], column, layout, layout.width, &work[0], row)
            i = slot - begin - n_implied
            if i >= 0:
                for k in range(links.shape[1]):
                    if links[i, k] >= 0:
                        other = &weights[links[i, k], 0]
                        for c in range(layout.width):
                            row[c] += other[c]


cdef inline void _expand(
    const double[::1] theta, int64_t first, Py_ssize_t count, const int16_t[::1] column,
    Layout layout, Py_ssize_t width, double* work, double* row,
) noexcept nogil:
    """Write the features of a slot into its row."""
    cdef Py_ssize_t c, j
    if layout.labels == NULL or count == 0:
        for c in range(width):
            row[c] = 0.0
        for j in range(first, first + count):
            row[column[j]] = theta[j]
        return
    for c in range(layout.n_columns):
        work[c] = 0.0
    for j in range(first, first + count):
        work[column[j]] = theta[j]
    for c in range(width):
        row[c] = work[layout.labels[c]] + work[layout.n_labels + c]


def unfold(
    double[:, ::1] counts, const int64_t[::1] first, const int16_t[::1] count,
    const int16_t[::1] column, const int32_t[:, ::1] links, Py_ssize_t begin, Py_ssize_t n_implied,
    const int32_t[::1] labels, Py_ssize_t n_labels, const double[::1] theta, double shrinkage,
    const double[::1] empirical, double[::1] out,
):
    """Compute the gradient of the features of one group: the transpose of `fold`.

    counts: float64 (n_slots, width), then set to zero.
    out: float64; out[j] = count of feature j + shrinkage * theta[j] - empirical[j].
    """
    cdef Py_ssize_t i, k, c, slot, end, width = counts.shape[1]
    cdef Layout layout
    cdef double* row
    cdef double* other
    layout = _layout(width, labels, n_labels)
    end = _check_group(
        layout, first, count, column, theta.shape[0], links, begin, n_implied, counts.shape[0]
    )
    check(
        theta.shape[0] == empirical.shape[0] == out.shape[0],
        "theta, empirical and out must be of one length",
    )
    cdef double[::1] work = np.empty(layout.n_columns)
    if end == begin or width == 0:
        return
    with nogil:
        # Backwards, so that cells are added to their implied predicates first.
        for slot in range(end - 1, begin - 1, -1):
            row = &counts[slot, 0]
            i = slot - begin - n_implied
            if i >= 0:
                for k in range(links.shape[1]):
                    if links[i, k] >= 0:
                        other = &counts[links[i, k], 0]
                        for c in range(width):
                            other[c] += row[c]
            other = row
            if layout.labels != NULL and count[slot] > 0:
                other = &work[0]
                for c in range(layout.n_labels):
                    work[c] = 0.0
                for c in range(width):
                    work[layout.labels[c]] += row[c]
                    work[layout.n_labels + c] = row[c]
            for k in range(first[slot], first[slot] + count[slot]):
                out[k] = other[column[k]] + shrinkage * theta[k] - empirical[k]
            for c in range(width):
                row[c] = 0.0


cdef Py_ssize_t _check_group(
    Layout layout, const int64_t[::1] first, const int16_t[::1] count, const int16_t[::1] column,
    Py_ssize_t n_features, const int32_t[:, ::1] links, Py_ssize_t begin, Py_ssize_t n_implied,
    Py_ssize_t n_slots,
) except -1:
    """Return the slot after the group."""
    cdef Py_ssize_t slot, j, n = column.shape[0]
    cdef bint sound = 0 <= begin <= n_slots and 0 <= n_implied <= n_slots - begin
    check(sound and links.shape[0] <= n_slots - begin - n_implied, "a group is beyond the slots")
    check(first.shape[0] == count.shape[0] == n_slots, "first and count must have n_slots numbers")
    check(n <= n_features, "there are columns of missing features")
    cdef Py_ssize_t end = begin + n_implied + links.shape[0]
    for slot in range(begin, end):
        check(
            count[slot] == 0 or (count[slot] > 0 and 0 <= first[slot] <= n - count[slot]),
            "a feature is out of range",
        )
        for j in range(first[slot], first[slot] + count[slot]):
            sound &= 0 <= column[j] < layout.n_columns
    check(sound, "a column is out of range")
    check_table(links, -1, n_slots, "a link is out of range")
    return end


cdef Layout _layout(Py_ssize_t width, const int32_t[::1] labels, Py_ssize_t n_labels) except *:
    cdef Layout layout
    layout.width = layout.n_columns = width
    layout.n_labels = n_labels
    layout.labels = NULL
    if labels is not None:
        check(labels.shape[0] == width, "there must be a label for each state")
        check(n_labels + width < 2**15, "there are too many labels for columns of int16")
        check_ids(labels, 0, n_labels, "a label is out of range")
        layout.n_columns = n_labels + width
        if width:
            layout.labels = &labels[0]
    return layout


def expected_counts(
    Chain chain not None, const int32_t[:, ::1] cells, const int64_t[::1] offsets,
    const double[:, ::1] weights, const int32_t[::1] labels, double[:, ::1] out,
    double[:, ::1] expectations, const int32_t[::1] state_ids=None,
    const int32_t[::1] label_ids=None, const int32_t[:, ::1] table=None, Py_ssize_t start=0,
):
    """Return the loss of some sentences, and compute its derivatives by cells and transitions.

    The loss is the sum of log Z, or of the normalisers of next states if there are only state_ids,
    or of - log p(label | all other labels) with the others.

    cells: int32 (n_tokens, n_groups), the cells of each token.
    weights: float64 (n_slots, width), by cell and state or, with `labels`, by cell and label.
    labels: int32 (n_states), the label of each state, or None.
    out: float64 (n_slots, width); the counts are added to it.
    expectations: float64 (n_states, n_states), out.
    state_ids, label_ids: int32 (n_tokens), of the gold labels.
    table: int32 (n_labels + 1, n_labels), the state of a label after another, or -1; the last row
        is the start symbol. start: the row of the label before the first token.
    """
    cdef Py_ssize_t n_states = chain.n_states, width = weights.shape[1], n = cells.shape[0], s
    cdef Py_ssize_t n_groups = cells.shape[1]
    cdef bint whole = state_ids is None, each_label = table is not None
    cdef double total = 0.0
    check_starts(offsets, n)
    check_shape(out, weights.shape[0], width)
    check_shape(expectations, n_states, n_states)
    check_table(cells, 0, weights.shape[0], "a cell is out of range")
    if labels is None:
        check(width == n_states, "weights must have one column for each state")
    else:
        check(labels.shape[0] == n_states, "there must be a label for each state")
        check_ids(labels, 0, width, "a label is out of range")
    if not whole:
        check(state_ids.shape[0] == n, "there must be a state for each token")
        check_ids(state_ids, 0, n_states, "a state is out of range")
    if each_label:
        check(not whole and label_ids.shape[0] == n, "there must be a label for each token")
        check_ids(label_ids, 0, table.shape[1], "a label is out of range")
        check(table.shape[0] == table.shape[1] + 1, "the table must have n_labels + 1 rows")
        check_table(table, -1, n_states, "a state of the table is out of range")
        check(0 <= start < table.shape[0], "the start is no row of the table")
    expectations[:, :] = 0.0
    if n == 0:
        return 0.0
    longest = np.diff(offsets).max()
    cdef ChainWorkspace space = ChainWorkspace(chain, longest)
    cdef double[:, ::1] sums = np.empty((longest, width))
    cdef double[:, ::1] scores = sums if labels is None else np.empty((longest, n_states))
    # Marginals of states, or derivatives; the marginals replace the scores.
    cdef double[:, ::1] marginals = scores if whole else np.empty((longest, n_states))
    cdef double[::1] options = np.empty(table.shape[1] if each_label else 0)
    cdef const int32_t* sentence = &cells[0, 0] if n_groups else NULL
    cdef const double* rows = &weights[0, 0] if n_groups else NULL
    cdef double* counts = &out[0, 0] if n_groups else NULL
    cdef double* changes
    cdef Py_ssize_t length, n_left, t, y
    with nogil:
        for s in range(offsets.shape[0] - 1):
            length = offsets[s + 1] - offsets[s]
            n_left = n - offsets[s]
            if length == 0:
                continue
            # The compiler specialises the frequent sizes: three labels, and their pairs.
            if width == 3:
                _score_cells(sentence, length, n_groups, n_left, rows, 3, &sums[0, 0])
            elif width == 8:
                _score_cells(sentence, length, n_groups, n_left, rows, 8, &sums[0, 0])
            else:
                _score_cells(sentence, length, n_groups, n_left, rows, width, &sums[0, 0])
            if labels is not None:
                for t in range(length):
                    for y in range(n_states):
                        scores[t, y] = sums[t, labels[y]]
            if whole:
                total += space.sentence(
                    &scores[0, 0], length, &scores[0, 0], &expectations[0, 0]
                )
            elif each_label:
                total += _each_label(
                    chain, scores, length, &label_ids[offsets[s]], &state_ids[offsets[s]], table,
                    start, &options[0], marginals, expectations,
                )
            else:
                total += _next_states(
                    chain, scores, length, &state_ids[offsets[s]], marginals, expectations
                )
            changes = &marginals[0, 0]
            if labels is not None:
                changes = &sums[0, 0]
                for t in range(length):
                    for y in range(width):
                        sums[t, y] = 0.0
                    for y in range(n_states):
                        sums[t, labels[y]] += marginals[t, y]
            if width == 3:
                _add_to_cells(sentence, length, n_groups, n_left, counts, 3, changes)
            elif width == 8:
                _add_to_cells(sentence, length, n_groups, n_left, counts, 8, changes)
            else:
                _add_to_cells(sentence, length, n_groups, n_left, counts, width, changes)
            sentence += length * n_groups
        space.add_pairs(&expectations[0, 0])
    return total


cdef double _next_states(
    Chain chain, const double[:, ::1] scores, Py_ssize_t n, const int32_t* gold,
    double[:, ::1] marginals, double[:, ::1] pairs,
) noexcept nogil:
    """Compute p(y_t | y_{t-1}, x) with the gold state before, McCallum, Freitag & Pereira (2000),
    section 2. Returns the sum of the logarithms of the normalisers."""
    cdef Py_ssize_t t, y, low = 0, high = chain.n_states
    cdef double total = 0.0
    cdef const double* before = &chain.initial[0]
    for t in range(n):
        if t > 0:
            low, high = chain.low[gold[t - 1]], chain.high[gold[t - 1]]
            before = &chain.transitions[gold[t - 1], 0]
        for y in range(chain.n_states):
            marginals[t, y] = 0.0
        for y in range(low, high):
            marginals[t, y] = before[y] + scores[t, y]
        total += _normalize(&marginals[t, low], high - low)
        if t > 0:
            for y in range(low, high):
                pairs[gold[t - 1], y] += marginals[t, y]
    return total


cdef double _each_label(
    Chain chain, const double[:, ::1] scores, Py_ssize_t n, const int32_t* labels,
    const int32_t* states, const int32_t[:, ::1] table, Py_ssize_t start, double* options,
    double[:, ::1] changes, double[:, ::1] pairs,
) noexcept nogil:
    """Return - sum_t log p(c_t | the rest), and its derivatives by scores and transitions.

    Besag (1975); Smith, Vail & Lafferty (2007), section 5. Another label at t changes the states at
    t and, in a second-order chain, at t + 1, and their transitions; the rest cancels.
    """
    cdef Py_ssize_t t, c, y, before
    cdef int32_t here, after
    cdef double total = 0.0, right, log_sum, value
    for t in range(n):
        for y in range(chain.n_states):
            changes[t, y] = 0.0
    for t in range(n):
        before = labels[t - 1] if t > 0 else start
        for c in range(table.shape[1]):
            options[c] = -INFINITY
            here = table[before, c]
            if here < 0:
                continue
            value = scores[t, here]
            value += chain.transitions[states[t - 1], here] if t > 0 else chain.initial[here]
            if t == n - 1:
                options[c] = value + chain.final[here]
                continue
            after = table[c, labels[t + 1]]
            if after < 0:
                continue
            value += chain.transitions[here, after] + scores[t + 1, after]
            if t + 2 < n:
                value += chain.transitions[after, states[t + 2]]
            else:
                value += chain.final[after]
            options[c] = value
        right = options[labels[t]]
        log_sum = _normalize(options, table.shape[1])
        # Also if it is nan.
        if not right > -INFINITY:
            return INFINITY
        total += log_sum - right
        options[labels[t]] -= 1.0
        for c in range(table.shape[1]):
            value = options[c]
            here = table[before, c]
            # If one option is nan, all are, even where there is no state.
            if value == 0.0 or here < 0:
                continue
            changes[t, here] += value
            if t > 0:
                pairs[states[t - 1], here] += value
            if t == n - 1:
                continue
            after = table[c, labels[t + 1]]
            if after < 0:
                continue
            pairs[here, after] += value
            changes[t + 1, after] += value
            if t + 2 < n:
                pairs[after, states[t + 2]] += value
    return total


cdef inline double _normalize(double* scores, Py_ssize_t n) noexcept nogil:
    """Turn scores into probabilities; return the logarithm of the sum, -inf if all are -inf."""
    cdef Py_ssize_t j
    cdef double highest = -INFINITY, total = 0.0
    for j in range(n):
        highest = scores[j] if scores[j] > highest else highest
    for j in range(n):
        scores[j] = exp(scores[j] - highest) if highest > -INFINITY else 0.0
        total += scores[j]
    for j in range(n):
        scores[j] /= total if total > 0.0 else 1.0
    return highest + log(total)


cdef inline void _score_cells(
    const int32_t* cells, Py_ssize_t n, Py_ssize_t n_groups, Py_ssize_t n_left,
    const double* weights, Py_ssize_t width, double* scores,
) noexcept nogil:
    """n_left: number of tokens from here on, whose cells can be prefetched."""
    cdef Py_ssize_t t, k, c, ahead
    cdef const double* row
    for t in range(n):
        ahead = AHEAD * n_groups if t + AHEAD < n_left else 0
        for c in range(width):
            scores[c] = 0.0
        for k in range(n_groups):
            PREFETCH(weights + cells[ahead + k] * width)
            row = weights + cells[k] * width
            for c in range(width):
                scores[c] += row[c]
        cells += n_groups
        scores += width


cdef inline void _add_to_cells(
    const int32_t* cells, Py_ssize_t n, Py_ssize_t n_groups, Py_ssize_t n_left, double* counts,
    Py_ssize_t width, const double* marginals,
) noexcept nogil:
    cdef Py_ssize_t t, k, c, ahead
    cdef double* row
    for t in range(n):
        ahead = AHEAD * n_groups if t + AHEAD < n_left else 0
        for k in range(n_groups):
            PREFETCH(counts + cells[ahead + k] * width)
            row = counts + cells[k] * width
            for c in range(width):
                row[c] += marginals[c]
        cells += n_groups
        marginals += width
