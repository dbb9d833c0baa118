# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of the lexicon: scores of words with all substates of all tags."""

from libc.math cimport exp, isinf
from libc.stdint cimport int32_t, int64_t

import numpy as np


def word_scores(
    const int32_t[::1] ids not None, const float[:, ::1] rows not None,
    const int32_t[::1] backoff_rows not None, const float[::1] backoff_weights not None,
    const int64_t[::1] offsets not None, const int32_t[::1] columns not None,
    const float[::1] values not None,
):
    """P(word | T_x), float32 (n, X).

    ids: as `Lexicon.encode` returns them. rows: float32 (signatures + 1, X). offsets, columns,
    values: as in `Lexicon.entries`; the others as in `Lexicon`.

    Raises ValueError for arrays that do not fit together.
    """
    cdef Py_ssize_t n = ids.shape[0], width = rows.shape[1], i, x, word, row
    cdef Py_ssize_t n_words = backoff_rows.shape[0], n_rows = rows.shape[0]
    cdef float weight
    cdef float* out
    cdef const float* shared
    cdef bint sound = True
    result = np.empty((n, width), dtype=np.float32)
    if n == 0 or width == 0:
        return result
    if (
        backoff_weights.shape[0] != n_words or offsets.shape[0] != n_words + 1
        or columns.shape[0] != values.shape[0]
    ):
        raise ValueError("the arrays of a lexicon do not fit together")
    if np.min(ids) < 0 or np.max(ids) >= n_words + n_rows:
        raise ValueError("there is no such word")
    cdef float[:, ::1] scores = result
    with nogil:
        for i in range(n):
            word = ids[i]
            row = backoff_rows[word] if word < n_words else word - n_words
            # Only the entries of these words are checked, because a lexicon has many.
            sound = 0 <= row < n_rows and (word >= n_words or (
                0 <= offsets[word] <= offsets[word + 1] <= values.shape[0]
            ))
            if not sound:
                break
            weight = backoff_weights[word] if word < n_words else 1.0
            out = &scores[i, 0]
            shared = &rows[row, 0]
            for x in range(width):
                out[x] = weight * shared[x]
            if word < n_words:
                for x in range(offsets[word], offsets[word + 1]):
                    if not 0 <= columns[x] < width:
                        sound = False
                        break
                    out[columns[x]] += values[x]
            if not sound:
                break
    if not sound:
        raise ValueError("an entry of a lexicon is out of range")
    return result


def prefer_tags(float[:, ::1] scores not None, const int32_t[::1] substates not None,
                const double[:, ::1] shares not None, double weight):
    """Raise the scores of words with their tags, in place.

    scores: float32 (n, X). substates: of each tag. shares: of the weight, see `tag_shares`, float64
    (n, tags). weight: in nats; with infinity only the tag with the largest share is left.

    Raises ValueError for other shapes.
    """
    cdef Py_ssize_t n = scores.shape[0], n_tags = substates.shape[0], i, t, x, own
    cdef int size
    cdef double best, other
    cdef float factor, largest
    cdef bint seen
    cdef float* row
    if (shares.shape[0] != n or shares.shape[1] != n_tags
            or np.asarray(substates).sum() != scores.shape[1]
            or (n_tags and np.asarray(substates).min() < 0)):
        raise ValueError("there must be a share for each word and tag")
    if scores.shape[1] == 0:
        return
    with nogil:
        for i in range(n):
            # The tag with the largest share, and the largest one of those it was seen with.
            own = -1
            best = 0.0
            x = 0
            for t in range(n_tags):
                size = substates[t]
                if shares[i, t] > (shares[i, own] if own >= 0 else 0.0):
                    own = t
                if shares[i, t] > best and largest_of(&scores[i, 0] + x, size) > 0.0:
                    best = shares[i, t]
                x += size
            if own < 0:
                continue
            # The scale of a row does not matter: the others are lowered, so nothing overflows. A
            # word that was never seen with its tags stays as it is, so it does not vanish.
            other = exp(-weight * best) if best > 0.0 else 1.0
            row = &scores[i, 0]
            for t in range(n_tags):
                size = substates[t]
                if isinf(weight):
                    factor = 1.0 if t == own else 0.0
                    if t == own and not largest_of(row, size) > 0.0:
                        # As likely under each substate.
                        for x in range(size):
                            row[x] = 1.0
                elif shares[i, t] == 0.0 or best == 0.0:
                    factor = <float>other
                elif shares[i, t] >= best:  # more if the word was never seen with this tag
                    factor = 1.0
                else:
                    factor = <float>exp(weight * (shares[i, t] - best))
                if factor != 1.0:
                    for x in range(size):
                        row[x] *= factor
                row += size


cdef inline float largest_of(const float* x, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t k
    cdef float largest = 0.0
    for k in range(n):
        if x[k] > largest:
            largest = x[k]
    return largest
