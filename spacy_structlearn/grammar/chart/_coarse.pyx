# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""The pass of level 0, which fills a chart exhaustively, and the forest of what is left of it.

See `_chart` for the layout of nodes and the scales of scores.
"""

from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from spacy_structlearn.grammar.chart._listing cimport (
    begin_forest,
    chain_edge,
    list_roots,
    reserve_lists,
    write_edges,
)
from spacy_structlearn.grammar.chart._structures cimport (
    BLOCKED,
    NOTHING,
    OUT_OF_MEMORY,
    PARSED,
    TINY,
    Coarse,
    Forest,
    TagRules,
    Work,
    by_end,
    by_start,
    limit_of,
    may_be_above,
    may_be_bare,
    may_be_whole,
    reserve_more,
    scale_cell,
)
from spacy_structlearn.kernels.arrays cimport grow, grow_each
from spacy_structlearn.kernels.vectors cimport (
    add_products,
    exponent_of,
    outer_sums,
    power_of_two,
)


cdef int reserve_chart(Work* w, const Coarse* g, int n) noexcept nogil:
    """Allocate the chart of a sentence of n words."""
    cdef size_t cells = <size_t>n * (n + 1) // 2
    cdef int size
    if n > w.chart_words:
        if n < 40:
            n = 40
            cells = <size_t>n * (n + 1) // 2
        if (grow_each(<void**>&w.lower, 5, cells * g.n_pad)
                or grow_each(<void**>&w.tag_value, 3, <size_t>n * g.n_tags)
                or grow(<void**>&w.exponent, cells, 4) or grow(<void**>&w.n_tags, n, 4)
                or grow(<void**>&w.factor, n + 1, 4)):
            return -1
        w.chart_words = n
    size = (g.n_left_pad + 8) * (g.n_right_pad + 8)
    if size > w.matrix_size:
        if grow_each(<void**>&w.m, 3, size):
            return -1
        w.matrix_size = size
        # Places without a rule are never written: they stay zero.
        memset(w.w, 0, <size_t>size * 4)
        memset(w.wt, 0, <size_t>size * 4)
    return reserve_lists(w, g, n)


cdef inline void add_tags(const TagRules* r, const Work* w, int n_tags, int i, float factor,
                          const float* child, float* lower) noexcept nogil:
    """Add the rules with a tag of word i to the inside scores. child: scores of the other child."""
    cdef int u, t, x
    cdef float f
    for u in range(w.n_tags[i]):
        t = w.tags[i * n_tags + u]
        f = w.tag_value[i * n_tags + t] * factor
        for x in range(r.begins[t], r.begins[t + 1]):
            lower[r.pairs[2 * x]] += f * r.values[x] * child[r.pairs[2 * x + 1]]


cdef inline void push_tags(const TagRules* r, Work* w, int n_tags, int i, float factor, const float* lower,
                           const float* child, float* out) noexcept nogil:
    """Add the rules with a tag of word i to the outside scores of the tag and of the other child.

    lower: outside scores of the parents. child, out: inside and outside scores of the other child.
    """
    cdef int u, t, x
    cdef float tag, value, f
    for u in range(w.n_tags[i]):
        t = w.tags[i * n_tags + u]
        tag = w.tag_value[i * n_tags + t]
        value = 0.0
        for x in range(r.begins[t], r.begins[t + 1]):
            f = factor * r.values[x] * lower[r.pairs[2 * x]]
            value += f * child[r.pairs[2 * x + 1]]
            out[r.pairs[2 * x + 1]] += f * tag
        w.tag_outside[i * n_tags + t] += value


cdef inline void add_unaries(const Coarse* g, const Work* w, int limit, const float* lower,
                             float* upper) noexcept nogil:
    """Compute the inside scores of the upper nodes of a cell."""
    cdef int a, x
    memcpy(upper, lower, g.n_pad * 4)
    if limit >= 0:
        for a in range(g.n_nts):
            if not may_be_whole(g, w, limit, g.n_tags + a):
                upper[a] = 0.0
    for x in range(g.unary_by_child[g.n_tags], g.n_unary):
        if may_be_above(g, w, limit, x):
            upper[g.unary_rules[2 * x] - g.n_tags] += (
                g.unary_value[x] * lower[g.unary_rules[2 * x + 1] - g.n_tags]
            )


cdef inline void push_unaries(const Coarse* g, const Work* w, int limit, const float* upper,
                              float* lower) noexcept nogil:
    """Compute the outside scores of the lower nodes of a cell."""
    cdef int a, x
    memcpy(lower, upper, g.n_pad * 4)
    if limit >= 0:
        for a in range(g.n_nts):
            if not may_be_whole(g, w, limit, g.n_tags + a):
                lower[a] = 0.0
    for x in range(g.unary_by_child[g.n_tags], g.n_unary):
        if may_be_above(g, w, limit, x):
            lower[g.unary_rules[2 * x + 1] - g.n_tags] += (
                g.unary_value[x] * upper[g.unary_rules[2 * x] - g.n_tags]
            )


cdef int inside_coarse(const Coarse* g, Work* w, int n, const float* lexicon, int stride) noexcept nogil:
    """Compute the inside scores `lower`, `upper` and their `exponent`.

    lexicon: scores of n words with all tags, in rows that are `stride` apart.
    """
    cdef int i, j, k, a, t, x, e, best, limit, pad = g.n_pad, n_nts = g.n_nts
    cdef Py_ssize_t row
    cdef float* lower
    cdef float* upper
    cdef float value, largest, f
    for j in range(1, n + 1):
        for i in range(j - 1, -1, -1):
            row = by_start(n, i, j)
            lower = w.lower + row * pad
            upper = w.upper + row * pad
            memset(lower, 0, pad * 4)
            limit = limit_of(w, n, i, j)
            if limit == BLOCKED:
                memset(upper, 0, pad * 4)
                memset(w.upper_by_end + by_end(i, j) * pad, 0, pad * 4)
                w.exponent[row] = NOTHING
                continue
            if j == i + 1:
                largest = 0.0
                for t in range(g.n_tags):
                    value = lexicon[<Py_ssize_t>i * stride + t]
                    largest = value if value > largest else largest
                e = exponent_of(largest) if largest > 0.0 else 0
                f = power_of_two(-e)
                w.n_tags[i] = 0
                for t in range(g.n_tags):
                    value = lexicon[<Py_ssize_t>i * stride + t] * f
                    if value < TINY:
                        value = 0.0
                    w.tag_value[i * g.n_tags + t] = value
                    if value == 0.0:
                        continue
                    w.tags[i * g.n_tags + w.n_tags[i]] = t
                    w.n_tags[i] += 1
                    for x in range(g.unary_by_child[t], g.unary_by_child[t + 1]):
                        lower[g.unary_rules[2 * x] - g.n_tags] += g.unary_value[x] * value
                best = 0
            else:
                best = -(1 << 30)
                for k in range(i + 1, j):
                    e = w.exponent[by_start(n, i, k)] + w.exponent[by_start(n, k, j)]
                    best = e if e > best else best
                for k in range(i + 1, j):
                    e = w.exponent[by_start(n, i, k)] + w.exponent[by_start(n, k, j)]
                    w.factor[k - i - 1] = power_of_two(e - best)
                outer_sums(w.m, g.n_right_pad, w.upper + by_start(n, i, i + 1) * pad, pad,
                           w.upper_by_end + by_end(i + 1, j) * pad, pad, w.factor, j - i - 1,
                           g.n_left, g.n_right_pad)
                for a in range(n_nts):
                    value = 0.0
                    for x in range(g.parent_begin[a], g.parent_begin[a + 1]):
                        value += g.parent_value[x] * w.m[g.parent_place[x]]
                    lower[a] = value
                # a tag on the left, on the right, on both sides
                if may_be_bare(g, w, n, i):
                    add_tags(&g.tag_nt, w, g.n_tags, i, w.factor[0],
                             w.upper_by_end + by_end(i + 1, j) * pad, lower)
                if may_be_bare(g, w, n, j - 1):
                    add_tags(&g.nt_tag, w, g.n_tags, j - 1, w.factor[j - i - 2],
                             w.upper + by_start(n, i, j - 1) * pad, lower)
                    if j == i + 2 and may_be_bare(g, w, n, i):
                        add_tags(&g.tag_tag, w, g.n_tags, i, w.factor[0],
                                 w.tag_value + (j - 1) * g.n_tags, lower)
            add_unaries(g, w, limit, lower, upper)
            if j == i + 1:
                w.exponent[row] = e
            else:
                w.exponent[row] = scale_cell(lower, upper, n_nts, best)
            memcpy(w.upper_by_end + by_end(i, j) * pad, upper, pad * 4)
    return PARSED


cdef float sentence_score_coarse(const Coarse* g, Work* w, int n) noexcept nogil:
    cdef const float* upper = w.upper + by_start(n, 0, n) * g.n_pad
    cdef float z = 0.0
    cdef int x, s
    for x in range(g.n_root):
        s = g.root_rules[x]
        if s >= g.n_tags:
            z += g.root_value[x] * upper[s - g.n_tags]
        elif n == 1 and may_be_bare(g, w, n, 0):
            z += g.root_value[x] * w.tag_value[s]
    return z


cdef void outside_coarse(const Coarse* g, Work* w, int n) noexcept nogil:
    """Compute the outside scores O1 (`outside`), O0 (`outside_by_end`) and `tag_outside`."""
    cdef int i, j, k, a, t, u, x, s, length, pad = g.n_pad, n_nts = g.n_nts
    cdef float* upper  # O1
    cdef float* lower  # O0
    cdef const float* child
    cdef float value
    cdef Py_ssize_t cells = <Py_ssize_t>n * (n + 1) // 2
    memset(w.outside, 0, <size_t>cells * pad * 4)
    memset(w.outside_by_end, 0, <size_t>cells * pad * 4)
    memset(w.tag_outside, 0, <size_t>n * g.n_tags * 4)
    for length in range(n, 0, -1):
        for i in range(n - length + 1):
            j = i + length
            upper = w.outside + by_start(n, i, j) * pad
            lower = w.outside_by_end + by_end(i, j) * pad
            for a in range(n_nts):
                upper[a] += lower[a]
            if length == n:
                for x in range(g.n_root):
                    s = g.root_rules[x]
                    if s >= g.n_tags:
                        upper[s - g.n_tags] += g.root_value[x]
                    elif n == 1 and may_be_bare(g, w, n, 0):
                        w.tag_outside[s] += g.root_value[x]
            # Outside scores are unbounded only for states whose inside score is zero.
            child = w.upper + by_start(n, i, j) * pad
            for a in range(n_nts):
                upper[a] = upper[a] if child[a] > 0.0 else 0.0
            push_unaries(g, w, limit_of(w, n, i, j), upper, lower)
            child = w.lower + by_start(n, i, j) * pad
            for a in range(n_nts):
                lower[a] = lower[a] if child[a] > 0.0 else 0.0
            if length > 1 and w.exponent[by_start(n, i, j)] == NOTHING:
                continue
            if length == 1:
                for u in range(w.n_tags[i]):
                    t = w.tags[i * g.n_tags + u]
                    value = 0.0
                    for x in range(g.unary_by_child[t], g.unary_by_child[t + 1]):
                        value += g.unary_value[x] * lower[g.unary_rules[2 * x] - g.n_tags]
                    w.tag_outside[i * g.n_tags + t] += value
                continue
            for k in range(i + 1, j):
                w.factor[k - i - 1] = power_of_two(
                    w.exponent[by_start(n, i, k)] + w.exponent[by_start(n, k, j)]
                    - w.exponent[by_start(n, i, j)]
                )
            for x in range(g.n_places):
                value = 0.0
                for s in range(g.place_begin[x], g.place_begin[x + 1]):
                    value += g.place_value[s] * lower[g.place_parent[s]]
                w.w[g.place[x]] = value
                w.wt[g.place_transposed[x]] = value
            add_products(w.outside + by_start(n, i, i + 1) * pad, pad,
                         w.upper_by_end + by_end(i + 1, j) * pad, pad, w.wt, g.n_left_pad,
                         w.factor, length - 1, g.n_right, g.n_left_pad)
            add_products(w.outside_by_end + by_end(i + 1, j) * pad, pad,
                         w.upper + by_start(n, i, i + 1) * pad, pad, w.w, g.n_right_pad,
                         w.factor, length - 1, g.n_left, g.n_right_pad)
            if may_be_bare(g, w, n, i):
                push_tags(&g.tag_nt, w, g.n_tags, i, w.factor[0], lower,
                          w.upper_by_end + by_end(i + 1, j) * pad,
                          w.outside_by_end + by_end(i + 1, j) * pad)
            if may_be_bare(g, w, n, j - 1):
                push_tags(&g.nt_tag, w, g.n_tags, j - 1, w.factor[length - 2], lower,
                          w.upper + by_start(n, i, j - 1) * pad,
                          w.outside + by_start(n, i, j - 1) * pad)
                if length == 2 and may_be_bare(g, w, n, i):
                    push_tags(&g.tag_tag, w, g.n_tags, i, w.factor[0], lower,
                              w.tag_value + (j - 1) * g.n_tags,
                              w.tag_outside + (j - 1) * g.n_tags)


cdef int build_forest(const Coarse* g, Work* w, int n, float z, float keep, float keep_edge,
                      const int32_t* gold) noexcept nogil:
    """List the items with a posterior of `keep` or more, and the edges with `keep_edge`.

    gold: NULL, or for each (i, j) of the gold tree, which is kept: the topmost symbol, the symbol
    that has two children or a tag, and where its children meet or the tag of the word; -1: none.
    """
    cdef Forest* f = &w.f
    cdef const int32_t* own = NULL
    cdef bint kept
    cdef int i, j, k, a, t, u, x, c, length, pad = g.n_pad, left, right, item, other
    cdef int begin, rule, parent, cell, allowed
    cdef bint limited = w.limits != NULL
    cdef Py_ssize_t row, row_end
    cdef float limit = keep * z, limit_edge = keep_edge * z, factor, value, ofactor
    cdef const float* lower_out
    begin_forest(w, n)
    for length in range(1, n + 1):
        for i in range(n - length + 1):
            j = i + length
            row = by_start(n, i, j) * pad
            row_end = by_end(i, j) * pad
            if reserve_more(f, 1, g.n_symbols, 0, 0, 0):
                return OUT_OF_MEMORY
            begin = f.n_items
            allowed = limit_of(w, n, i, j)
            if gold != NULL:
                own = gold + 3 * (<Py_ssize_t>i * (n + 1) + j)
            if length == 1:
                for u in range(w.n_tags[i]):
                    t = w.tags[i * g.n_tags + u]
                    value = w.tag_value[i * g.n_tags + t]
                    if (value * w.tag_outside[i * g.n_tags + t] >= limit
                            or (own != NULL and own[2] == t)):
                        f.item_symbol[f.n_items] = t
                        f.item_cell[f.n_items] = f.n_cells
                        f.n_items += 1
            for a in range(g.n_nts):
                kept = own != NULL and (own[0] == g.n_tags + a or own[1] == g.n_tags + a)
                if w.upper[row + a] <= 0 and not kept and (allowed < 0 or w.lower[row + a] <= 0):
                    continue
                if (kept or w.upper[row + a] * w.outside[row + a] >= limit
                        or w.lower[row + a] * w.outside_by_end[row_end + a] >= limit):
                    f.item_symbol[f.n_items] = g.n_tags + a
                    f.item_cell[f.n_items] = f.n_cells
                    f.n_items += 1
            if f.n_items == begin:
                continue
            cell = f.n_cells
            f.n_cells += 1
            f.cell_i[cell] = i
            f.cell_j[cell] = j
            f.cell_item[cell] = begin
            f.cell_item[cell + 1] = f.n_items
            f.cell_group[cell] = f.n_groups
            f.cell_unary[cell] = f.n_unaries
            w.grid[i * (n + 1) + j] = cell
            for item in range(begin, f.n_items):
                w.slot[f.item_symbol[item]] = item
            # unaries, those over tags first
            for item in range(begin, f.n_items):
                t = f.item_symbol[item]
                if reserve_more(f, 0, 0, 0, 0, g.n_nts):
                    return OUT_OF_MEMORY
                for x in range(g.unary_by_child[t], g.unary_by_child[t + 1]):
                    parent = w.slot[g.unary_rules[2 * x]]
                    if parent >= 0 and may_be_above(g, w, allowed, x):
                        f.unary_parent[f.n_unaries] = parent
                        f.unary_child[f.n_unaries] = item
                        f.unary_rule[f.n_unaries] = x
                        f.n_unaries += 1
            for k in range(i + 1, j):
                left = w.grid[i * (n + 1) + k]
                right = w.grid[k * (n + 1) + j]
                if left < 0 or right < 0:
                    continue
                factor = power_of_two(w.exponent[by_start(n, i, k)] + w.exponent[by_start(n, k, j)]
                                      - w.exponent[by_start(n, i, j)])
                for item in range(f.cell_item[left], f.cell_item[left + 1]):
                    t = f.item_symbol[item]
                    value = factor * coarse_inside(g, w, n, t, i, k)
                    for other in range(f.cell_item[right], f.cell_item[right + 1]):
                        u = f.item_symbol[other]
                        x = g.pairs[t * g.n_symbols + u]
                        if x == g.pairs[t * g.n_symbols + u + 1]:
                            continue
                        ofactor = value * coarse_inside(g, w, n, u, k, j)
                        # Nothing is listed of what constraints forbid, however low the threshold.
                        if limited and ofactor == 0.0:
                            continue
                        for rule in range(x, g.pairs[t * g.n_symbols + u + 1]):
                            a = g.rules[3 * rule]
                            parent = w.slot[a]
                            if parent < 0:
                                continue
                            if (ofactor * g.binary_value[rule]
                                    * w.outside_by_end[row_end + a - g.n_tags] < limit_edge):
                                if (own == NULL or own[1] != a or own[2] != k
                                        or gold[3 * (<Py_ssize_t>i * (n + 1) + k)] != t
                                        or gold[3 * (<Py_ssize_t>k * (n + 1) + j)] != u):
                                    continue
                            if chain_edge(w, rule, item, other):
                                return OUT_OF_MEMORY
            if write_edges(g, w):
                return OUT_OF_MEMORY
            for item in range(begin, f.n_items):
                w.slot[f.item_symbol[item]] = -1
            f.cell_group[f.n_cells] = f.n_groups
            f.cell_unary[f.n_cells] = f.n_unaries
    return list_roots(g, w)


cdef inline float coarse_inside(const Coarse* g, Work* w, int n, int symbol, int i, int j) noexcept nogil:
    if symbol < g.n_tags:
        return w.tag_value[i * g.n_tags + symbol] if may_be_bare(g, w, n, i) else 0.0
    return w.upper[by_start(n, i, j) * g.n_pad + symbol - g.n_tags]
