# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of linear scores of symbols over spans: hashed features, sums of weights, AdaGrad with L1.

The weight of a feature and the symbol over its span is at a place in one vector that is a hash of
both (Weinberger et al. 2009). A template mixes the attributes of words at some positions, relative
to the first or the last word of the span, to one key.

AdaGrad with an L1 penalty is composite mirror descent (Duchi, Hazan & Singer 2011, section 5.1):
with H = epsilon + sqrt(sum of squared gradients), a weight moves by - rate g / H and then towards 0
by rate l1 / H. H does not change without a gradient, so the penalties of many steps are applied at
once when the weight is next read; `rates` has the sum of the rates before each step. A row of the
table has four numbers: the weight, the sum of squared gradients, the gradient of the present step,
and the step up to which the penalty has been applied.
"""

from libc.math cimport NAN, fabs, sqrt
from libc.stdint cimport int32_t, int64_t, uint64_t

import numpy as np

from spacy_structlearn.kernels.checks cimport check, check_ids, check_starts
from spacy_structlearn.kernels.hashing cimport mix

ctypedef fused real:
    float
    double

cdef enum:
    LENGTH = -1  # codes of terms that are not attributes of a word
    SHAPE = -2
    MOST_RUNS = 8  # in the shape of a span
    FIELDS = 4  # of the table

LENGTH_TERM, SHAPE_TERM = <int>LENGTH, <int>SHAPE


cdef class SpanHasher:
    """Hashes the features of spans to places, see `features`.

    seeds: uint64 (n), hashes of the templates, those of spans first.
    n_span: number of templates of spans.
    starts: int32 (n + 1), the first term of each template.
    terms: int32 (m, 3), the column of an attribute, or a code; 0 for a position relative to the
    first word and 1 for the last; the offset to the right.
    lengths: int32, ascending, the greatest length of each class but the last.
    shape_column: the attribute that makes the shape of a span.
    symbols: uint64, hashes of the symbols, tags first.
    n_tags: number of tags.
    bits: binary logarithm of the number of places.
    """

    cdef const uint64_t[::1] seeds, symbols
    cdef const int32_t[::1] starts, lengths
    cdef const int32_t[:, ::1] terms
    cdef Py_ssize_t n_span, n_tags, shape_column, n_columns
    cdef int bits
    cdef readonly Py_ssize_t width

    def __init__(self, seeds, n_span, starts, terms, lengths, shape_column, symbols, n_tags, bits):
        self.seeds, self.starts, self.terms, self.lengths = seeds, starts, terms, lengths
        self.symbols = symbols
        self.n_span, self.n_tags, self.bits = n_span, n_tags, bits
        self.shape_column = shape_column
        self.width = max(n_span, len(seeds) - n_span)
        # As an int: of an int32 the sum may overflow.
        self.n_columns = max(shape_column, int(max(terms[:, 0], default=-1))) + 1
        if not (0 <= n_span <= len(seeds) and 0 <= n_tags <= len(symbols) and 1 <= bits <= 31):
            raise ValueError("there are more templates of spans, tags or places than can be")
        if len(starts) != len(seeds) + 1:
            raise ValueError("starts must say where the terms of each template begin")
        check_starts(self.starts, len(terms))
        if terms.shape[1] != 3 or shape_column < 0 or min(terms[:, 0], default=0) < SHAPE:
            raise ValueError("the terms must have three numbers and no negative columns")

    def places(
        self, const uint64_t[:, ::1] words, const int64_t[::1] word_offsets,
        const int32_t[:, ::1] items, const int64_t[::1] item_offsets,
    ):
        """Return the places of each item's features, int32 (n_items, width); -1 for none.

        words: uint64 (n_words, n_columns), the attributes of the words.
        items: int32 (n_items, 3), symbol, start and end. Items over the same span should be
        consecutive, for speed.
        word_offsets, item_offsets: int64 (s + 1), the first word and item of each sentence.
        """
        cdef Py_ssize_t n_sentences = word_offsets.shape[0] - 1, n_items = items.shape[0]
        cdef Py_ssize_t s, i, t, begin, length, kind, first, n_templates
        cdef Py_ssize_t width = self.width
        cdef int shift = 64 - self.bits
        cdef int32_t symbol, start, end
        cdef int32_t[2] last_start
        cdef int32_t[2] last_end
        cdef uint64_t of_symbol
        cdef bint sound = True
        if words.shape[1] < self.n_columns or items.shape[1] != 3:
            raise ValueError("a template reads a column that is not there")
        check_starts(word_offsets, words.shape[0])
        check_starts(item_offsets, n_items)
        check(item_offsets.shape[0] == n_sentences + 1, "there must be words for each sentence")
        out = np.full((n_items, width), -1, dtype=np.int32)
        if n_items == 0 or width == 0:
            return out
        cdef int32_t[:, ::1] placed = out
        cdef uint64_t[:, ::1] keys = np.empty((2, width), dtype=np.uint64)
        cdef unsigned char[:, ::1] has = np.empty((2, width), dtype=np.uint8)
        with nogil:
            for s in range(n_sentences):
                begin = word_offsets[s]
                length = word_offsets[s + 1] - begin
                last_start[0] = last_start[1] = -1
                last_end[0] = last_end[1] = -1
                for i in range(item_offsets[s], item_offsets[s + 1]):
                    symbol, start, end = items[i, 0], items[i, 1], items[i, 2]
                    if not (0 <= symbol < self.symbols.shape[0] and 0 <= start < end <= length):
                        sound = False
                        break
                    kind = symbol < self.n_tags
                    first = self.n_span if kind else 0
                    n_templates = self.seeds.shape[0] - self.n_span if kind else self.n_span
                    if start != last_start[kind] or end != last_end[kind]:
                        last_start[kind], last_end[kind] = start, end
                        for t in range(n_templates):
                            has[kind, t] = self.key(
                                words, begin, length, start, end, first + t, &keys[kind, t]
                            )
                    of_symbol = self.symbols[symbol]
                    for t in range(n_templates):
                        if has[kind, t]:
                            placed[i, t] = <int32_t>(mix(keys[kind, t] ^ of_symbol) >> shift)
        check(sound, "an item has a symbol that is none or is not in its sentence")
        return out

    cdef bint key(
        self, const uint64_t[:, ::1] words, Py_ssize_t begin, Py_ssize_t length, Py_ssize_t start,
        Py_ssize_t end, Py_ssize_t template, uint64_t* key,
    ) noexcept nogil:
        """Compute the key of a template at a span; return whether it has one."""
        cdef Py_ssize_t j, k, at
        cdef int32_t column
        cdef uint64_t state = self.seeds[template], value, previous
        for j in range(self.starts[template], self.starts[template + 1]):
            column = self.terms[j, 0]
            if column == LENGTH:
                value = 0
                while value < <uint64_t>self.lengths.shape[0] and end - start > self.lengths[value]:
                    value += 1
            elif column == SHAPE:
                value, previous, k = 0, 0, 0
                for at in range(begin + start, begin + end):
                    if words[at, self.shape_column] == previous:
                        continue
                    k += 1
                    if k > MOST_RUNS:
                        return False
                    previous = words[at, self.shape_column]
                    value = mix(value + previous)
            else:
                at = end - 1 if self.terms[j, 1] else start
                at += self.terms[j, 2]
                # Outside the sentence there is a symbol for each distance.
                if at < 0:
                    value = mix(<uint64_t>at)
                elif at >= length:
                    value = mix(<uint64_t>(at - length + 1))
                else:
                    value = words[begin + at, column]
            state = mix(state ^ value)
        key[0] = state
        return True


def sums(const int32_t[:, ::1] places, const real[::1] weights):
    """Return the sum of the weights at the places of each row, float64 (n); -1 is no place."""
    cdef Py_ssize_t i, t
    cdef double total
    _check_places(places, weights.shape[0])
    result = np.empty(places.shape[0])
    cdef double[::1] out = result
    with nogil:
        for i in range(places.shape[0]):
            total = 0.0
            for t in range(places.shape[1]):
                if places[i, t] >= 0:
                    total = total + weights[places[i, t]]
            out[i] = total
    return result


def scattered(const int32_t[:, ::1] places, const double[::1] values, Py_ssize_t size):
    """Return the sum of the values of the rows with each place, float64 (size)."""
    cdef Py_ssize_t i, t
    _check_places(places, size)
    check(values.shape[0] == places.shape[0], "there must be a value for each row")
    result = np.zeros(size)
    cdef double[::1] out = result
    with nogil:
        for i in range(places.shape[0]):
            if values[i] == 0.0:
                continue
            for t in range(places.shape[1]):
                if places[i, t] >= 0:
                    out[places[i, t]] += values[i]
    return result


# --- AdaGrad --------------------------------------------------------------------------------------


cdef inline double current(
    const float* slot, const double* rates, Py_ssize_t now, double l1, double epsilon
) noexcept nogil:
    """Apply the penalty of the steps since the last change; NaN for an invalid step."""
    cdef double weight = slot[0], penalty
    if weight == 0.0:
        return 0.0
    if not 0.0 <= slot[3] <= now:
        return NAN
    penalty = l1 * (rates[now] - rates[<Py_ssize_t>slot[3]]) / (epsilon + sqrt(slot[1]))
    if fabs(weight) <= penalty:
        return 0.0
    return weight - penalty if weight > 0 else weight + penalty


def current_sums(
    const int32_t[:, ::1] places, const float[:, ::1] table, const double[::1] rates, double l1,
    double epsilon,
):
    """Return `sums` of the weights after len(rates) - 1 steps, float64 (n)."""
    cdef Py_ssize_t i, t, now = rates.shape[0] - 1
    cdef double total
    cdef const float* slot
    _check_table(table, rates)
    _check_places(places, table.shape[0])
    result = np.empty(places.shape[0])
    cdef double[::1] out = result
    with nogil:
        for i in range(places.shape[0]):
            total = 0.0
            for t in range(places.shape[1]):
                if places[i, t] >= 0:
                    slot = &table[places[i, t], 0]
                    total = total + current(slot, &rates[0], now, l1, epsilon)
            out[i] = total
    return result


def accumulate(
    const int32_t[:, ::1] places, const double[::1] gradient, float[:, ::1] table
):
    """Add the gradient of each row to its places in the table; return these places, int32.

    A place is returned once unless its gradient was 0 in between.
    """
    cdef Py_ssize_t i, t, n = 0
    cdef float* slot
    _check_places(places, table.shape[0])
    if gradient.shape[0] != places.shape[0] or table.shape[1] != FIELDS:
        raise ValueError("there must be a gradient for each row, and four numbers for each weight")
    result = np.empty(np.count_nonzero(gradient) * places.shape[1], dtype=np.int32)
    cdef int32_t[::1] touched = result
    with nogil:
        for i in range(places.shape[0]):
            if gradient[i] == 0.0:
                continue
            for t in range(places.shape[1]):
                if places[i, t] < 0:
                    continue
                slot = &table[places[i, t], 0]
                if slot[2] == 0.0:
                    touched[n] = places[i, t]
                    n += 1
                slot[2] += <float>gradient[i]
    return result[:n].copy()


def step(
    const int32_t[::1] touched, float[:, ::1] table, const double[::1] rates, double l1,
    double epsilon,
):
    """Update the weights at some places by their gradients, and set these to 0.

    rates: float64 (steps + 1); the last is the sum after this step.
    """
    cdef Py_ssize_t i, after = rates.shape[0] - 1
    cdef double rate, weight, width, penalty
    cdef float* slot
    _check_table(table, rates)
    check(after >= 1, "a step needs a rate")
    check_ids(touched, 0, table.shape[0], "a place is out of range")
    rate = rates[after] - rates[after - 1]
    with nogil:
        for i in range(touched.shape[0]):
            slot = &table[touched[i], 0]
            if slot[2] == 0.0:
                continue
            weight = current(slot, &rates[0], after - 1, l1, epsilon)
            slot[1] += slot[2] * slot[2]
            width = epsilon + sqrt(slot[1])
            weight -= rate * slot[2] / width
            penalty = rate * l1 / width
            if fabs(weight) <= penalty:
                weight = 0.0
            else:
                weight += -penalty if weight > 0 else penalty
            slot[0] = <float>weight
            slot[2] = 0.0
            slot[3] = <float>after


def _check_places(places, n):
    if places.shape[0] and places.shape[1] and np.asarray(places).max() >= n:
        raise ValueError("a place is out of range")


def _check_table(table, rates):
    if table.shape[1] != FIELDS or rates.shape[0] == 0:
        raise ValueError("there must be four numbers for each weight, and the rates")
