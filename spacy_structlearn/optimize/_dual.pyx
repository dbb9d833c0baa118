# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of `m_estimation`: coordinate descent on the dual, one example after another.

Yu, Huang & Lin (2011, section 3) for logistic regression, here for exp. The rows of F are those of
a sparse matrix in CSR format: row i has the numbers data[p] in the columns indices[p], p from
indptr[i] to indptr[i + 1], in any order; where a column comes twice its numbers are added.
"""

from libc.math cimport exp, fabs, log
from libc.stdint cimport int32_t, int64_t

from spacy_structlearn.kernels.checks cimport check, check_ids, check_starts


def epoch(
    const int64_t[::1] indptr, const int32_t[::1] indices, const double[::1] data,
    const double[::1] norms not None, const int64_t[::1] order not None, double c,
    double[::1] w not None, double[::1] alpha not None,
):
    """For each row in the given order, set its alpha to the minimiser of G and let w follow.

    norms: float64 (n), the squared ones of the rows. order: int64 (any number), rows.
    c: the strength of the regulariser. w: float64 (n_columns), c (F'alpha / n - E), changed.
    alpha: float64 (n), changed.
    Returns the duality gap, each row's part of it as it was when its turn came.
    Raises ValueError for arrays that do not fit together.
    """
    check_starts(indptr, indices.shape[0])
    check(data.shape[0] == indices.shape[0], "there must be a column for each number")
    check_ids(indices, 0, w.shape[0], "indices must be of columns")
    check(
        norms.shape[0] == alpha.shape[0] == indptr.shape[0] - 1,
        "each row must have a norm and an alpha",
    )
    check_ids(order, 0, alpha.shape[0], "order must be of rows")
    cdef Py_ssize_t n = indptr.shape[0] - 1, n_steps = order.shape[0], k, i, p
    cdef double score, curvature, new, change, gap = 0.0
    with nogil:
        for k in range(n_steps):
            i = order[k]
            score = 0.0
            for p in range(indptr[i], indptr[i + 1]):
                score += data[p] * w[indices[p]]
            gap += exp(-score) + alpha[i] * (score - 1.0)
            if alpha[i] > 0.0:
                gap += alpha[i] * log(alpha[i])
            curvature = c * norms[i] / n
            new = exp(_root(score - curvature * alpha[i], curvature))
            change = c * (new - alpha[i]) / n
            alpha[i] = new
            for p in range(indptr[i], indptr[i + 1]):
                w[indices[p]] += change * data[p]
    return gap / n if n else 0.0


cdef double _root(double b, double q) noexcept nogil:
    """The x of x + b + q exp(x) = 0, for q of 0 or more.

    The left side is convex and rises, so that Newton's method goes down to the root from any point
    above it. Such are -b, and the greater of 0 and log(-b / q), which keeps exp from overflowing.
    """
    cdef double x = -b, term, step
    cdef int i
    if x > 0.0:
        x = min(x, log(x / q) if x > q else 0.0)
    for i in range(100):
        term = q * exp(x)
        step = (x + b + term) / (1.0 + term)
        x -= step
        if fabs(step) <= 1e-14 * (1.0 + fabs(x)):
            break
    return x
