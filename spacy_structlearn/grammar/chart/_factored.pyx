# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""The pass of a level whose binary rules are decomposed: a chart of short vectors.

With P(A -> B C) = sum_r parent[A, r] left[B, r] right[C, r] (`latent.factors`) a cell needs no
states, only, for each r, the sum over its splits of left child times right child. The states of a
cell are a linear function of these, and so are the vectors that stand for its nodes as left and
right children of the next cells: Cohen, Satta & Collins (2013). Therefore a split costs R products
however many rules there are. States are computed only in cells whose span is a constituent with
some probability.

Scores are scaled as in `_chart`.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from spacy_structlearn.grammar.chart._structures cimport (
    BLOCKED,
    NOTHING,
    OUT_OF_MEMORY,
    PARSED,
    TINY,
    Coarse,
    Entry,
    Factors,
    Work,
    by_end,
    by_length,
    by_start,
    limit_of,
    may_be_above,
    may_be_bare,
    may_be_whole,
)
from spacy_structlearn.kernels.arrays cimport grow, grow_each, reserve
from spacy_structlearn.kernels.vectors cimport (
    clear_unbounded,
    dot,
    exponent_of,
    largest_of,
    matmul,
    power_of_two,
    scale_row,
    sum_products,
)

# The matrices from cell to cell take in all nodes. In cells with constraints, the functions that
# begin with `limit` go from node to node instead, without what is forbidden.


cdef int reserve_factored(Work* w, const Coarse* c, const Factors* g, int n) noexcept nogil:
    """Allocate the chart of a sentence of n words."""
    cdef size_t cells = <size_t>n * (n + 1) // 2
    cdef int size
    if <Py_ssize_t>cells > w.factored_cells:
        if (grow_each(<void**>&w.above, 2, cells * g.rank)
                or grow(<void**>&w.below, cells * 2 * g.rank, 4)
                or grow(<void**>&w.power, cells, 4) or grow(<void**>&w.found, 2 * cells, 4)
                or grow(<void**>&w.open, 2 * cells, 4)):
            return -1
        w.factored_cells = <Py_ssize_t>cells
    if n > w.factored_words:
        if (grow(<void**>&w.words, <size_t>n * g.n_tag_pad, 4)
                or grow(<void**>&w.places, 2 * <size_t>n, 8) or grow(<void**>&w.survivors, n, 4)
                or grow(<void**>&w.n_open, 2 * <size_t>n + 2, 4)
                or grow(<void**>&w.factors, n, 4)):
            return -1
        w.factored_words = n
    size = n * (4 * g.rank + g.n_tag_pad + 4 * g.n_state_pad)
    if size > w.rows_size:
        if grow(<void**>&w.rows, size, 4):
            return -1
        w.rows_size = size
    if grow(<void**>&w.supported, c.n_symbols, 1):
        return -1
    return 0


cdef void copy_whole(const Coarse* c, const Factors* g, const Work* w, int limit, float* out,
                     const float* scores) noexcept nogil:
    """Copy the scores of nodes that may be both the lower and the upper one of their span."""
    cdef int a, first = g.n_tag_states
    memset(out, 0, g.n_state_pad * 4)
    for a in range(c.n_tags, c.n_symbols):
        if may_be_whole(c, w, limit, a):
            memcpy(out + g.begins[a] - first, scores + g.begins[a] - first,
                   (g.begins[a + 1] - g.begins[a]) * 4)


cdef void limit_inside(const Coarse* c, const Factors* g, Work* w, int n, int i, int j) noexcept nogil:
    """Compute `below` of a cell with constraints. `rows` then has its lower and its upper nodes."""
    cdef int limit = limit_of(w, n, i, j), rank = g.rank, pad = g.n_state_pad, s, r
    cdef Py_ssize_t row = by_length(n, i, j)
    cdef const float* words = w.words + <Py_ssize_t>i * g.n_tag_pad
    cdef float* below = w.below + row * 2 * rank
    cdef float* upper = w.rows + pad
    if j > i + 1:
        matmul(w.rows, pad, w.above + row * rank, rank, g.inside, pad, 1, rank, pad)
    else:
        matmul(w.rows, pad, words, g.n_tag_pad, g.inside_words, pad, 1, g.n_tag_states, pad)
    limit_upper(c, g, w, limit, w.rows, upper)
    for r in range(2 * rank):
        below[r] = dot(g.outside + <Py_ssize_t>r * pad, upper, pad)
    if j > i + 1 or not may_be_bare(c, w, n, i):
        return
    for s in range(g.n_tag_states):
        for r in range(rank):
            below[r] += words[s] * g.left[<Py_ssize_t>s * rank + r]
            below[rank + r] += words[s] * g.right[<Py_ssize_t>s * rank + r]


cdef void limit_nodes(const Coarse* c, const Factors* g, const Work* w, int limit, float* inside,
                      float* outside) noexcept nogil:
    """Compute what `add_unaries` does of a cell with constraints."""
    limit_upper(c, g, w, limit, inside, inside + g.n_state_pad)
    limit_lower(c, g, w, limit, outside + g.n_state_pad, outside)


cdef void limit_upper(const Coarse* c, const Factors* g, const Work* w, int limit, const float* lower,
                      float* upper) noexcept nogil:
    """Compute the inside scores of the upper nodes of a cell with constraints."""
    cdef int x
    copy_whole(c, g, w, limit, upper, lower)
    for x in range(g.n_unaries):
        if may_be_above(c, w, limit, g.unary_rule[x]):
            upper[g.unaries[x].parent] += g.unaries[x].value * lower[g.unaries[x].pair]


cdef void limit_lower(const Coarse* c, const Factors* g, const Work* w, int limit, const float* upper,
                      float* lower) noexcept nogil:
    """Compute the outside scores of the lower nodes of a cell with constraints."""
    cdef int x
    copy_whole(c, g, w, limit, lower, upper)
    for x in range(g.n_unaries):
        if may_be_above(c, w, limit, g.unary_rule[x]):
            lower[g.unaries[x].pair] += g.unaries[x].value * upper[g.unaries[x].parent]


cdef void limit_tags(const Coarse* c, const Factors* g, const Work* w, int n, int i, const float* out,
                     const float* lower, float* tags) noexcept nogil:
    """Compute the outside scores of the tags of a word with constraints.

    out: of its nodes as left and as right children. lower: of its lower nodes.
    """
    cdef int s, rank = g.rank, pad = g.n_state_pad
    cdef bint bare = may_be_bare(c, w, n, i)
    for s in range(g.n_tag_states):
        tags[s] = dot(g.inside_words + <Py_ssize_t>s * pad, lower, pad)
        if bare:
            tags[s] += dot(g.left + <Py_ssize_t>s * rank, out, rank)
            tags[s] += dot(g.right + <Py_ssize_t>s * rank, out + rank, rank)


cdef float inside_factored(const Coarse* c, const Factors* g, Work* w, int n, const float* lexicon,
                           int stride) noexcept nogil:
    """Compute `above`, `below` and `power` of all cells. Returns the score of the sentence.

    lexicon: scores of n words with all states of tags, in rows that are `stride` apart.
    """
    cdef int i, j, k, e, best, length, count, rank = g.rank
    cdef Py_ssize_t row, left, right
    cdef float largest
    cdef float* x
    memset(w.words, 0, <size_t>n * g.n_tag_pad * 4)
    for i in range(n):
        x = w.words + <Py_ssize_t>i * g.n_tag_pad
        memcpy(x, lexicon + <Py_ssize_t>i * stride, g.n_tag_states * 4)
        largest = largest_of(x, g.n_tag_pad)
        e = exponent_of(largest) if largest > 0.0 else 0
        scale_row(x, power_of_two(-e), TINY, g.n_tag_pad)
        w.power[i] = e if largest > 0.0 else NOTHING
    matmul(w.below, 2 * rank, w.words, g.n_tag_pad, g.enter, 2 * rank, n, g.n_tag_states, 2 * rank)
    for i in range(n):
        if limit_of(w, n, i, i + 1) >= 0:
            limit_inside(c, g, w, n, i, i + 1)
    for length in range(2, n + 1):
        row = by_length(n, 0, length)
        for i in range(n - length + 1):
            j = i + length
            if limit_of(w, n, i, j) == BLOCKED:
                memset(w.above + (row + i) * rank, 0, rank * 4)
                w.power[row + i] = NOTHING
                continue
            best = -(1 << 30)
            for k in range(i + 1, j):
                e = w.power[by_length(n, i, k)] + w.power[by_length(n, k, j)]
                best = e if e > best else best
            count = 0
            for k in range(i + 1, j):
                left = by_length(n, i, k)
                right = by_length(n, k, j)
                e = w.power[left] + w.power[right] - best
                if e < -126:
                    continue
                w.places[count] = left * 2 * rank
                w.places[n + count] = right * 2 * rank + rank
                w.factors[count] = power_of_two(e)
                count += 1
            x = w.above + (row + i) * rank
            sum_products(x, w.below, w.below, w.places, w.places + n, w.factors, count, rank)
            largest = largest_of(x, rank)
            if largest > 0.0:
                e = exponent_of(largest)
                scale_row(x, power_of_two(-e), TINY, rank)
                w.power[row + i] = best + e
            else:
                w.power[row + i] = NOTHING
        matmul(w.below + row * 2 * rank, 2 * rank, w.above + row * rank, rank, g.combine, 2 * rank,
               n - length + 1, rank, 2 * rank)
        for i in range(n - length + 1):
            if limit_of(w, n, i, i + length) >= 0:
                limit_inside(c, g, w, n, i, i + length)
    if limit_of(w, n, 0, n) >= 0:
        return dot(w.rows + g.n_state_pad, g.root_states, g.n_state_pad)
    if n == 1:
        return dot(w.words, g.root_tags, g.n_tag_pad)
    return dot(w.above + by_length(n, 0, n) * rank, g.root, rank)


cdef inline int parents_of(Work* w, int n, int i, int j, int rank, bint is_right) noexcept nogil:
    """Put down the open cells that have this one as a left or as a right child, and its sister."""
    cdef int x, k, e, count = 0
    cdef Py_ssize_t row = by_length(n, i, j), above, beside
    cdef const int32_t* others = w.open + (<Py_ssize_t>n * (n + 1) // 2 + by_end(0, j) if is_right
                                           else by_start(n, i, i + 1))
    for x in range(w.n_open[n + 1 + j if is_right else i]):
        k = others[x]
        above = by_length(n, k, j) if is_right else by_length(n, i, k)
        beside = by_length(n, k, i) if is_right else by_length(n, j, k)
        e = w.power[row] + w.power[beside] - w.power[above]
        if e < -126:
            continue
        w.places[count] = above * rank
        w.places[n + count] = beside * 2 * rank + (0 if is_right else rank)
        w.factors[count] = power_of_two(e)
        count += 1
    return count


cdef inline void outside_of_cell(const Factors* g, Work* w, int n, int i, int j, float* out) noexcept nogil:
    """Compute the outside scores of the nodes of a cell as left and as right children, (2 rank).

    Only wider cells with a posterior count.
    """
    cdef int rank = g.rank, count = parents_of(w, n, i, j, rank, False), others
    sum_products(out, w.above_outside, w.below, w.places, w.places + n, w.factors, count, rank)
    others = parents_of(w, n, i, j, rank, True)
    sum_products(out + rank, w.above_outside, w.below, w.places, w.places + n, w.factors, others,
                 rank)
    # Outside scores are unbounded only for states whose inside score is zero.
    clear_unbounded(out, w.below + by_length(n, i, j) * 2 * rank, TINY, 2 * rank)


cdef int outside_factored(const Coarse* c, const Factors* g, Work* w, int n, float z,
                          float keep) noexcept nogil:
    """Compute `above_outside`, and list the items with a posterior of `keep` or more in `found`.

    Cells with a lower posterior are left out: nothing below them counts.
    z: the score of the sentence.
    """
    cdef int i, x, r, length, limited, n_cells, n_rows, rank = g.rank, pad = g.n_state_pad
    cdef Py_ssize_t row, own
    cdef float limit = keep * z
    cdef float* out = w.rows  # (words, 2 rank)
    cdef float* divided = out + <Py_ssize_t>n * 2 * rank  # rows of above_outside
    cdef float* survived = divided + <Py_ssize_t>n * rank  # inside vectors of those that survive
    cdef float* inside = survived + <Py_ssize_t>n * (rank + g.n_tag_pad)  # of lower and upper nodes
    cdef float* outside = inside + <Py_ssize_t>n * 2 * pad
    w.n_found = 0
    memset(w.n_open, 0, (2 * <size_t>n + 2) * 4)
    for length in range(n, 0, -1):
        row = by_length(n, 0, length)
        n_cells = n - length + 1
        n_rows = 0
        for i in range(n_cells):
            w.found[2 * (row + i)] = w.n_found
            w.found[2 * (row + i) + 1] = 0
            own = row + i
            if limit_of(w, n, i, i + length) == BLOCKED:
                continue
            x = n_rows * 2 * rank
            if length == n:
                memset(out, 0, 2 * rank * 4)
            else:
                outside_of_cell(g, w, n, i, i + length, out + x)
            if length > 1:
                if length < n and not dot(w.below + own * 2 * rank, out + x, 2 * rank) >= limit:
                    continue
                memcpy(survived + <Py_ssize_t>n_rows * rank, w.above + own * rank, rank * 4)
            w.survivors[n_rows] = i
            n_rows += 1
        if length == n and n > 1:
            memcpy(w.above_outside + row * rank, g.root, rank * 4)
        elif length > 1:
            matmul(divided, rank, out, 2 * rank, g.divide, rank, n_rows, 2 * rank, rank)
            for x in range(n_rows):
                memcpy(w.above_outside + (row + w.survivors[x]) * rank, divided + <Py_ssize_t>x * rank,
                       rank * 4)
        if length > 1:
            for x in range(n_rows):
                i = w.survivors[x]
                limited = limit_of(w, n, i, i + length)
                if limited >= 0:
                    matmul(outside + pad, pad, out + <Py_ssize_t>x * 2 * rank, 2 * rank, g.outside,
                           pad, 1, 2 * rank, pad)
                    for r in range(pad if length == n else 0):
                        outside[pad + r] += g.root_states[r]
                    limit_lower(c, g, w, limited, outside + pad, outside)
                    for r in range(rank):
                        w.above_outside[(row + i) * rank + r] = dot(
                            g.inside + <Py_ssize_t>r * pad, outside, pad)
                clear_unbounded(w.above_outside + (row + i) * rank, w.above + (row + i) * rank, TINY,
                                rank)
                w.open[by_start(n, i, i + 1) + w.n_open[i]] = i + length
                w.n_open[i] += 1
                w.open[<Py_ssize_t>n * (n + 1) // 2 + by_end(0, i + length)
                       + w.n_open[n + 1 + i + length]] = i
                w.n_open[n + 1 + i + length] += 1
        matmul(outside + pad, 2 * pad, out, 2 * rank, g.outside, pad, n_rows, 2 * rank, pad)
        if length == n and n_rows:
            for x in range(pad):
                outside[pad + x] += g.root_states[x]
        if length > 1:
            matmul(inside, 2 * pad, survived, rank, g.inside, pad, n_rows, rank, pad)
        else:
            matmul(inside, 2 * pad, w.words, g.n_tag_pad, g.inside_words, pad, n_rows,
                   g.n_tag_states, pad)
            matmul(survived, g.n_tag_pad, out, 2 * rank, g.leave, g.n_tag_pad, n_rows, 2 * rank,
                   g.n_tag_pad)
            if n == 1:
                for x in range(g.n_tag_pad):
                    survived[x] += g.root_tags[x]
        for i in range(n_rows):
            if reserve(<void**>&w.found_symbol, 1, &w.found_size, w.n_found + c.n_symbols):
                return OUT_OF_MEMORY
            if (grow(<void**>&w.found_inside, 2 * <size_t>w.found_size, 4)
                    or grow(<void**>&w.found_outside, 2 * <size_t>w.found_size, 4)):
                return OUT_OF_MEMORY
            x = w.survivors[i]
            w.found[2 * (row + x)] = w.n_found
            limited = limit_of(w, n, x, x + length)
            if limited >= 0:
                limit_nodes(c, g, w, limited, inside + <Py_ssize_t>i * 2 * pad,
                            outside + <Py_ssize_t>i * 2 * pad)
                if length == 1:
                    limit_tags(c, g, w, n, x, out + <Py_ssize_t>i * 2 * rank,
                               outside + <Py_ssize_t>i * 2 * pad,
                               survived + <Py_ssize_t>i * g.n_tag_pad)
            if length == 1:
                find_tags(c, g, w, w.words + <Py_ssize_t>i * g.n_tag_pad,
                          survived + <Py_ssize_t>i * g.n_tag_pad, limit, may_be_bare(c, w, n, x))
            if limited < 0:
                add_unaries(g, inside + <Py_ssize_t>i * 2 * pad, outside + <Py_ssize_t>i * 2 * pad)
            find_phrases(c, g, w, inside + <Py_ssize_t>i * 2 * pad, outside + <Py_ssize_t>i * 2 * pad,
                         limit)
            w.found[2 * (row + x) + 1] = w.n_found - w.found[2 * (row + x)]
    return PARSED


cdef inline void add_unaries(const Factors* g, float* inside, float* outside) noexcept nogil:
    """Compute the inside scores of the upper nodes of a cell, and the outside scores of the lower ones."""
    cdef int x, pad = g.n_state_pad
    cdef const Entry* e = g.unaries
    memcpy(inside + pad, inside, pad * 4)
    memcpy(outside, outside + pad, pad * 4)
    for x in range(g.n_unaries):
        inside[pad + e[x].parent] += e[x].value * inside[e[x].pair]
        outside[e[x].pair] += e[x].value * outside[pad + e[x].parent]


cdef inline void find_tags(const Coarse* c, const Factors* g, Work* w, const float* inside,
                           const float* outside, float limit, bint bare) noexcept nogil:
    """List the tags of a word whose inside times outside score is `limit` or more.

    bare: whether the word may have no phrase of its own; if not, no edge begins with its tag.
    """
    cdef int t, x, y
    cdef float score
    for t in range(c.n_tags):
        x, y = g.begins[t], g.begins[t + 1] - 1
        score = inside[x] * outside[x]
        if y > x:
            score += inside[y] * outside[y]
        if score >= limit and score > 0.0:
            w.found_symbol[w.n_found] = t
            w.found_inside[2 * w.n_found] = inside[x] if bare else 0.0
            w.found_inside[2 * w.n_found + 1] = inside[y] if bare and y > x else 0.0
            w.n_found += 1


cdef inline void find_phrases(const Coarse* c, const Factors* g, Work* w, const float* inside,
                              const float* outside, float limit) noexcept nogil:
    """List the phrases of a cell one of whose nodes has a score of `limit` or more.

    inside, outside: of lower nodes, then of upper ones.
    """
    cdef int a, x, y, first = g.n_tag_states, pad = g.n_state_pad
    cdef float lower, upper
    for a in range(c.n_tags, c.n_symbols):
        x, y = g.begins[a] - first, g.begins[a + 1] - 1 - first
        lower = inside[x] * outside[x]
        upper = inside[pad + x] * outside[pad + x]
        if y > x:
            lower += inside[y] * outside[y]
            upper += inside[pad + y] * outside[pad + y]
        if (lower if lower > upper else upper) >= limit and (lower > 0.0 or upper > 0.0):
            w.found_symbol[w.n_found] = a
            w.found_inside[2 * w.n_found] = inside[pad + x]
            w.found_inside[2 * w.n_found + 1] = inside[pad + y] if y > x else 0.0
            w.found_outside[2 * w.n_found] = outside[x]
            w.found_outside[2 * w.n_found + 1] = outside[y] if y > x else 0.0
            w.n_found += 1
