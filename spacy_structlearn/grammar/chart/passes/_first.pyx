# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""The first pass, which fills a chart, and the forest of what is left of it.

There are two of them. That of level 0 goes through all rules. That of a level whose binary rules
are decomposed is a chart of short vectors: with P(A -> B C) = sum_r parent[A, r] left[B, r]
right[C, r] (`latent.factors`) a cell needs no states, only, for each r, the sum over its splits of
left child times right child. The states of a cell are a linear function of these, and so are the
vectors that stand for its nodes as left and right children of the next cells: Cohen, Satta &
Collins (2013). Therefore a split costs R products however many rules there are. States are computed
only in cells whose span is a constituent with some probability.

See `_chart` for the layout of nodes and the scales of scores.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from spacy_structlearn.grammar.chart.passes._structures cimport *
from spacy_structlearn.kernels.arrays cimport grow, grow_each, reserve
from spacy_structlearn.kernels.vectors cimport (
    add_products,
    clear_unbounded,
    dot,
    exponent_of,
    largest_of,
    matmul,
    mix,
    outer_sums,
    power_of_two,
    scale_row,
    select_rows,
    sum_products,
    times,
)

# A split is left out if the posteriors of its edges sum to less than this many times the least one
# of an edge, or than the second number, if that is less.
cdef float SPLIT = 3.0
cdef float MOST_OF_SPLIT = 0.01


# -------------------------------------------------------------------------------------------------
# lists of what is left
# -------------------------------------------------------------------------------------------------
cdef int begin_forest(Work* w, const Coarse* c, int n) noexcept nogil:
    """Empty the forest, for a sentence of n words."""
    cdef Forest* f = &w.f
    cdef size_t cells = <size_t>n * (n + 1)
    if (reserve(<void**>&w.grid, 1, &w.grid_size, cells)
            or reserve(<void**>&w.slot, 1, &w.symbols_size, c.n_symbols)
            or grow(<void**>&w.supported, c.n_symbols, 1)
            or reserve(<void**>&w.first, 2, &w.rules_size, c.n_rules)
            or reserve(<void**>&f.root_item, 3, &f.root_size, c.n_root)):
        return OUT_OF_MEMORY
    f.n_words = n
    f.n_cells = f.n_items = f.n_groups = f.n_edges = f.n_unaries = f.n_roots = 0
    w.n_touched = w.n_chained = 0
    memset(w.grid, 255, cells * 4)
    memset(w.slot, 255, <size_t>c.n_symbols * 4)
    memset(w.first, 255, <size_t>c.n_rules * 4)
    return PARSED


cdef int reserve_items(Work* w, int items) noexcept nogil:
    """Make room for a cell with at most this many items."""
    return (reserve_more(&w.f, 1, items, 0, 0, 0)
            or reserve(<void**>&w.state_inside, 2, &w.states_size, 2 * (<Py_ssize_t>w.f.n_items + items)))


cdef inline void add_item(Forest* f, int symbol) noexcept nogil:
    """Append an item to the cell that is listed."""
    f.item_symbol[f.n_items] = symbol
    f.item_cell[f.n_items] = f.n_cells
    f.n_items += 1


cdef inline void number_items(const Coarse* c, Work* w, int begin, bint every) noexcept nogil:
    """Note the places of the items of a cell. every: whether all of them stay, or only tags so far."""
    cdef Forest* f = &w.f
    cdef int item
    for item in range(begin, f.n_items):
        w.slot[f.item_symbol[item]] = item
        w.supported[f.item_symbol[item]] = every or f.item_symbol[item] < c.n_tags


cdef int chain_edge(const Coarse* c, Work* w, int rule, int left, int right) noexcept nogil:
    """Add an edge of the present cell to the chain of its rule, newest first."""
    cdef int last = w.n_chained
    if last == MOST or reserve(<void**>&w.next, 1, &w.next_size, 3 * (<Py_ssize_t>last + 1)):
        return OUT_OF_MEMORY
    if w.first[rule] < 0:
        w.touched[w.n_touched] = rule
        w.n_touched += 1
    w.next[3 * <Py_ssize_t>last] = w.first[rule]
    w.next[3 * <Py_ssize_t>last + 1] = left
    w.next[3 * <Py_ssize_t>last + 2] = right
    w.first[rule] = last
    w.n_chained = last + 1
    w.supported[c.rules[3 * rule]] = 1
    return PARSED


cdef int write_edges(const Coarse* c, Work* w) noexcept nogil:
    """Append the edges of the chains, one rule after another, and empty the chains."""
    cdef Forest* f = &w.f
    cdef int x, k, rule
    if reserve_more(f, 0, 0, w.n_touched, w.n_chained, 0):
        return OUT_OF_MEMORY
    for x in range(w.n_touched):
        rule = w.touched[x]
        f.group_parent[f.n_groups] = w.slot[c.rules[3 * rule]]
        f.group_rule[f.n_groups] = rule
        f.group_edge[f.n_groups] = f.n_edges
        k = w.first[rule]
        w.first[rule] = -1
        while k >= 0:
            f.edge_left[f.n_edges] = w.next[3 * <Py_ssize_t>k + 1]
            f.edge_right[f.n_edges] = w.next[3 * <Py_ssize_t>k + 2]
            f.n_edges += 1
            k = w.next[3 * <Py_ssize_t>k]
        f.n_groups += 1
        f.group_edge[f.n_groups] = f.n_edges
    w.n_touched = w.n_chained = 0
    return PARSED


cdef void support_parents(const Coarse* c, Work* w, int begin, int limits) noexcept nogil:
    """Mark symbols above a tag or a symbol with edges: 1 has edges or a tag below it, 2 has not.

    limits: of the cell, see `limit_of`.
    """
    cdef Forest* f = &w.f
    cdef int item, t, x, parent
    for item in range(begin, f.n_items):
        t = f.item_symbol[item]
        if w.supported[t] != 1:
            continue
        for x in range(c.unary_by_child[t], c.unary_by_child[t + 1]):
            parent = c.unary_rules[2 * x]
            if (w.slot[parent] >= 0 and w.supported[parent] != 1
                    and may_be_above(c, w, limits, x)):
                w.supported[parent] = 1 if t < c.n_tags else 2


cdef inline void drop_unsupported(Work* w, int begin) noexcept nogil:
    """Remove the items of the last cell that have neither edges nor unaries."""
    cdef Forest* f = &w.f
    cdef int item, x, kept = begin
    for item in range(begin, f.n_items):
        x = f.item_symbol[item]
        if not w.supported[x]:
            w.slot[x] = -1
            continue
        f.item_symbol[kept] = x
        memcpy(w.state_inside + 2 * <Py_ssize_t>kept, w.state_inside + 2 * <Py_ssize_t>item, 8)
        w.slot[x] = kept
        kept += 1
    f.n_items = kept


cdef int write_unaries(const Coarse* c, Work* w, int begin, int limits) noexcept nogil:
    """Append the unaries of a cell, those over tags first. limits: of the cell."""
    cdef Forest* f = &w.f
    cdef int item, t, x, parent
    for item in range(begin, f.n_items):
        t = f.item_symbol[item]
        if w.supported[t] != 1:
            continue
        if reserve_more(f, 0, 0, 0, 0, c.unary_by_child[t + 1] - c.unary_by_child[t]):
            return OUT_OF_MEMORY
        for x in range(c.unary_by_child[t], c.unary_by_child[t + 1]):
            parent = w.slot[c.unary_rules[2 * x]]
            if parent >= 0 and may_be_above(c, w, limits, x):
                f.unary_parent[f.n_unaries] = parent
                f.unary_child[f.n_unaries] = item
                f.unary_rule[f.n_unaries] = x
                f.n_unaries += 1
    return PARSED


cdef int write_cell(const Coarse* c, Work* w, int i, int j, int begin) noexcept nogil:
    """Append a cell: its items from `begin` on that can be made, its chained edges, and unaries."""
    cdef Forest* f = &w.f
    cdef int item, cell = f.n_cells, limits = limit_of(w, f.n_words, i, j)
    f.cell_i[cell] = i
    f.cell_j[cell] = j
    f.cell_item[cell] = begin
    f.cell_group[cell] = f.n_groups
    f.cell_unary[cell] = f.n_unaries
    support_parents(c, w, begin, limits)
    drop_unsupported(w, begin)
    if write_edges(c, w) or write_unaries(c, w, begin, limits):
        return OUT_OF_MEMORY
    for item in range(begin, f.n_items):
        w.slot[f.item_symbol[item]] = -1
    if f.n_items == begin:
        return PARSED
    f.n_cells += 1
    f.cell_item[cell + 1] = f.n_items
    f.cell_group[cell + 1] = f.n_groups
    f.cell_unary[cell + 1] = f.n_unaries
    w.grid[i * (f.n_words + 1) + j] = cell
    return PARSED


cdef int list_roots(const Coarse* c, Work* w) noexcept nogil:
    """List the root rules of the items of the whole sentence. Returns UNPARSED if there are none."""
    cdef Forest* f = &w.f
    cdef int item, x, cell = w.grid[f.n_words], limits = limit_of(w, f.n_words, 0, f.n_words)
    if cell < 0:
        return UNPARSED
    for item in range(f.cell_item[cell], f.cell_item[cell + 1]):
        if f.item_symbol[item] < c.n_tags and not may_be_whole(c, w, limits, f.item_symbol[item]):
            continue
        for x in range(c.n_root):
            if c.root_rules[x] == f.item_symbol[item]:
                f.root_item[f.n_roots] = item
                f.root_rule[f.n_roots] = x
                f.n_roots += 1
    return PARSED if f.n_roots else UNPARSED


cdef void through_unaries(const Coarse* c, const Unaries* u, const Work* w, int limit, const float* scores,
                          float* out, bint up) noexcept nogil:
    """Compute the inside scores of the upper nodes of a cell from those of the lower ones.

    limit: of the cell, see `limit_of`. up: false: the outside scores of the lower nodes from those
    of the upper ones.
    """
    cdef int a, x
    cdef const Entry* e = u.entries
    memcpy(out, scores, u.n_pad * 4)
    if limit >= 0:
        for a in range(u.first_symbol, c.n_symbols):
            if not may_be_whole(c, w, limit, a):
                memset(out + u.begins[a], 0, (u.begins[a + 1] - u.begins[a]) * 4)
    for x in range(u.n):
        if not may_be_above(c, w, limit, u.rule[x]):
            continue
        if up:
            out[e[x].parent] += e[x].value * scores[e[x].pair]
        else:
            out[e[x].pair] += e[x].value * scores[e[x].parent]


# -------------------------------------------------------------------------------------------------
# level 0
# -------------------------------------------------------------------------------------------------
# Over single words rows have the tags, too: their lower nodes are those of the lexicon, and tags
# that may have no phrase above them are also upper nodes. Pairs of two phrases are summed over all
# splits by products of matrices; a tag is a child in the first or the last split alone.
cdef int reserve_chart(Work* w, const Coarse* g, int n) noexcept nogil:
    """Allocate the chart of a sentence of n words."""
    cdef size_t cells = <size_t>max(n, 40) * (max(n, 40) + 1) // 2
    cdef size_t size = <size_t>(g.n_left_pad + 8) * (g.n_right_pad + 8)
    if cells > w.chart_cells:
        if (grow_each(<void**>&w.lower, 5, cells * g.n_pad) or grow(<void**>&w.exponent, cells, 4)
                or grow(<void**>&w.factor, max(n, 40) + 1, 4)):
            return OUT_OF_MEMORY
        w.chart_cells = cells
    if size > w.matrix_size:
        if grow_each(<void**>&w.m, 3, size):
            return OUT_OF_MEMORY
        w.matrix_size = size
        # Places without a rule are never written: they stay zero.
        memset(w.w, 0, size * 4)
        memset(w.wt, 0, size * 4)
    return PARSED


cdef int word_coarse(const Coarse* g, const float* lexicon, float* lower) noexcept nogil:
    """Set the inside scores of the lower nodes of a word. Returns their power of two."""
    cdef int t, x, e
    cdef float largest = 0.0
    for t in range(g.n_tags):
        largest = lexicon[t] if lexicon[t] > largest else largest
    e = exponent_of(largest) if largest > 0.0 else 0
    memcpy(lower, lexicon, g.n_tags * 4)
    scale_row(lower, power_of_two(-e), TINY, g.n_tags)
    for x in range(g.unary_by_child[g.n_tags]):
        t = g.unary_rules[2 * x + 1]
        lower[g.unary_rules[2 * x]] += g.unary_value[x] * lower[t]
    return e


cdef int splits_coarse(const Coarse* g, Work* w, int n, int i, int j, float* lower) noexcept nogil:
    """Set the inside scores of the lower nodes of a span. Returns their power of two."""
    cdef int k, x, s, left, right, e, best = -(1 << 30), pad = g.n_pad
    cdef float value
    cdef const float* first = w.upper + by_start(n, i, i + 1) * pad
    cdef const float* rest = w.upper_by_end + by_end(i + 1, j) * pad
    cdef const float* most = w.upper + by_start(n, i, j - 1) * pad
    cdef const float* last = w.upper_by_end + by_end(j - 1, j) * pad
    for k in range(i + 1, j):
        e = w.exponent[by_start(n, i, k)] + w.exponent[by_start(n, k, j)]
        best = e if e > best else best
    for k in range(i + 1, j):
        e = w.exponent[by_start(n, i, k)] + w.exponent[by_start(n, k, j)]
        w.factor[k - i - 1] = power_of_two(e - best)
    outer_sums(w.m, g.n_right_pad, first + g.n_tags, pad, rest + g.n_tags, pad, w.factor, j - i - 1,
               g.n_left, g.n_right_pad)
    for x in range(g.n_pairs):
        left, right = g.pair[2 * x], g.pair[2 * x + 1]
        if left < g.n_tags:
            value = w.factor[0] * first[left] * rest[right]
        elif right < g.n_tags:
            value = w.factor[j - i - 2] * most[left] * last[right]
        else:
            value = w.m[(left - g.n_tags) * g.n_right_pad + right - g.n_tags]
        if value > 0.0:
            for s in range(g.pair_begin[x], g.pair_begin[x + 1]):
                lower[g.rules[3 * s]] += g.binary_value[s] * value
    return best


cdef float inside_coarse(const Coarse* g, Work* w, int n, const float* lexicon, int stride) noexcept nogil:
    """Compute the inside scores `lower`, `upper` and their `exponent`. Returns that of the sentence.

    lexicon: scores of n words with all tags, in rows that are `stride` apart.
    """
    cdef int i, j, x, limit, pad = g.n_pad
    cdef Py_ssize_t row
    cdef float* lower
    cdef float* upper
    cdef float z = 0.0
    for j in range(1, n + 1):
        for i in range(j - 1, -1, -1):
            row = by_start(n, i, j)
            lower = w.lower + row * pad
            upper = w.upper + row * pad
            memset(lower, 0, pad * 4)
            limit = limit_of(w, n, i, j)
            if limit == BLOCKED:
                memset(upper, 0, pad * 4)
                w.exponent[row] = NOTHING
            elif j == i + 1:
                w.exponent[row] = word_coarse(g, lexicon + <Py_ssize_t>i * stride, lower)
                through_unaries(g, &g.unaries, w, limit, lower, upper, True)
            else:
                x = splits_coarse(g, w, n, i, j, lower)
                through_unaries(g, &g.unaries, w, limit, lower, upper, True)
                w.exponent[row] = scale_cell(lower, upper, pad, x)
            memcpy(w.upper_by_end + by_end(i, j) * pad, upper, pad * 4)
    for x in range(g.n_root):
        z += g.root_value[x] * w.upper[by_start(n, 0, n) * pad + g.root_rules[x]]
    return z


cdef void push_coarse(const Coarse* g, Work* w, int n, int i, int j, const float* lower) noexcept nogil:
    """Add the outside scores `lower` of the lower nodes of a span to those of their children."""
    cdef int k, x, s, left, right, pad = g.n_pad
    cdef float value
    cdef Py_ssize_t a, b
    for k in range(i + 1, j):
        w.factor[k - i - 1] = power_of_two(
            w.exponent[by_start(n, i, k)] + w.exponent[by_start(n, k, j)] - w.exponent[by_start(n, i, j)]
        )
    for x in range(g.n_pairs):
        left, right = g.pair[2 * x], g.pair[2 * x + 1]
        value = 0.0
        for s in range(g.pair_begin[x], g.pair_begin[x + 1]):
            value += g.binary_value[s] * lower[g.rules[3 * s]]
        if left >= g.n_tags and right >= g.n_tags:
            w.w[(left - g.n_tags) * g.n_right_pad + right - g.n_tags] = value
            w.wt[(right - g.n_tags) * g.n_left_pad + left - g.n_tags] = value
        elif value > 0.0:
            k = i + 1 if left < g.n_tags else j - 1
            a, b = by_start(n, i, k) * pad + left, by_end(k, j) * pad + right
            value *= w.factor[k - i - 1]
            w.outside[a] += value * w.upper_by_end[b]
            w.outside_by_end[b] += value * w.upper[a]
    a, b = by_start(n, i, i + 1) * pad + g.n_tags, by_end(i + 1, j) * pad + g.n_tags
    add_products(w.outside + a, pad, w.upper_by_end + b, pad, w.wt, g.n_left_pad, w.factor, j - i - 1,
                 g.n_right, g.n_left_pad)
    add_products(w.outside_by_end + b, pad, w.upper + a, pad, w.w, g.n_right_pad, w.factor, j - i - 1,
                 g.n_left, g.n_right_pad)


cdef void outside_coarse(const Coarse* g, Work* w, int n) noexcept nogil:
    """Compute the outside scores O1 (`outside`) and O0 (`outside_by_end`)."""
    cdef int i, j, a, x, length, pad = g.n_pad
    cdef float* upper  # O1
    cdef float* lower  # O0
    cdef const float* child
    cdef size_t cells = <size_t>n * (n + 1) // 2
    memset(w.outside, 0, cells * pad * 4)
    memset(w.outside_by_end, 0, cells * pad * 4)
    for length in range(n, 0, -1):
        for i in range(n - length + 1):
            j = i + length
            upper = w.outside + by_start(n, i, j) * pad
            lower = w.outside_by_end + by_end(i, j) * pad
            for a in range(pad):
                upper[a] += lower[a]
            for x in range(g.n_root if length == n else 0):
                upper[g.root_rules[x]] += g.root_value[x]
            # Outside scores are unbounded only for states whose inside score is zero.
            child = w.upper + by_start(n, i, j) * pad
            for a in range(pad):
                upper[a] = upper[a] if child[a] > 0.0 else 0.0
            through_unaries(g, &g.unaries, w, limit_of(w, n, i, j), upper, lower, False)
            child = w.lower + by_start(n, i, j) * pad
            for a in range(pad):
                lower[a] = lower[a] if child[a] > 0.0 else 0.0
            if length > 1:
                if w.exponent[by_start(n, i, j)] != NOTHING:
                    push_coarse(g, w, n, i, j, lower)
                continue
            for x in range(g.unary_by_child[g.n_tags]):
                a = g.unary_rules[2 * x + 1]
                if child[a] > 0.0:
                    lower[a] += g.unary_value[x] * lower[g.unary_rules[2 * x]]


cdef int list_coarse(const Coarse* g, Work* w, int n, float z, float keep, float keep_edge,
                     const int32_t* gold) noexcept nogil:
    """List the items with a posterior of `keep` or more, and the edges with `keep_edge`.

    gold: NULL, or for each (i, j) of the gold tree, which is kept: the topmost symbol, the symbol
    that has two children or a tag, and where its children meet or the tag of the word; -1: none.
    """
    cdef Forest* f = &w.f
    cdef const int32_t* own = NULL
    cdef bint kept
    cdef int i, j, k, a, t, u, length, pad = g.n_pad, left, right, item, other, begin, rule, pair
    cdef Py_ssize_t row, row_end
    cdef float limit = keep * z, limit_edge = keep_edge * z, factor, value
    for length in range(1, n + 1):
        for i in range(n - length + 1):
            j = i + length
            row = by_start(n, i, j) * pad
            row_end = by_end(i, j) * pad
            if reserve_items(w, g.n_symbols):
                return OUT_OF_MEMORY
            begin = f.n_items
            if gold != NULL:
                own = gold + 3 * (<Py_ssize_t>i * (n + 1) + j)
            for a in range(g.n_symbols):
                kept = own != NULL and (own[2] == a if a < g.n_tags else own[0] == a or own[1] == a)
                if w.lower[row + a] <= 0 and (a < g.n_tags or w.upper[row + a] <= 0 and not kept):
                    continue
                if (kept or w.upper[row + a] * w.outside[row + a] >= limit
                        or w.lower[row + a] * w.outside_by_end[row_end + a] >= limit):
                    add_item(f, a)
            number_items(g, w, begin, True)
            for k in range(i + 1, j):
                left = w.grid[i * (n + 1) + k]
                right = w.grid[k * (n + 1) + j]
                if left < 0 or right < 0:
                    continue
                factor = power_of_two(w.exponent[by_start(n, i, k)] + w.exponent[by_start(n, k, j)]
                                      - w.exponent[by_start(n, i, j)])
                for item in range(f.cell_item[left], f.cell_item[left + 1]):
                    t = f.item_symbol[item]
                    for other in range(f.cell_item[right], f.cell_item[right + 1]):
                        u = f.item_symbol[other]
                        pair = t * g.n_symbols + u
                        if g.pairs[pair] == g.pairs[pair + 1]:
                            continue
                        value = (factor * w.upper[by_start(n, i, k) * pad + t]
                                 * w.upper[by_start(n, k, j) * pad + u])
                        # Nothing is listed of what constraints forbid, however low the threshold.
                        if w.limits != NULL and value == 0.0:
                            continue
                        for rule in range(g.pairs[pair], g.pairs[pair + 1]):
                            a = g.rules[3 * rule]
                            if w.slot[a] < 0:
                                continue
                            if value * g.binary_value[rule] * w.outside_by_end[row_end + a] < limit_edge:
                                if (own == NULL or own[1] != a or own[2] != k
                                        or gold[3 * (<Py_ssize_t>i * (n + 1) + k)] != t
                                        or gold[3 * (<Py_ssize_t>k * (n + 1) + j)] != u):
                                    continue
                            if chain_edge(g, w, rule, item, other):
                                return OUT_OF_MEMORY
            if write_cell(g, w, i, j, begin):
                return OUT_OF_MEMORY
    return list_roots(g, w)


# -------------------------------------------------------------------------------------------------
# a level with decomposed rules
# -------------------------------------------------------------------------------------------------
# The matrices from cell to cell take in all nodes. In cells with constraints, the functions that
# begin with `limit` go from node to node instead, without what is forbidden.


cdef int reserve_factored(Work* w, const Factors* g, int n) noexcept nogil:
    """Allocate the chart of a sentence of n words."""
    cdef size_t cells = <size_t>n * (n + 1) // 2
    if cells > w.factored_cells:
        if (grow_each(<void**>&w.above, 2, cells * g.rank) or grow(<void**>&w.below, cells * 2 * g.rank, 4)
                or grow(<void**>&w.power, cells, 4) or grow_each(<void**>&w.found, 2, 2 * cells)):
            return OUT_OF_MEMORY
        w.factored_cells = cells
    if n > w.factored_words:
        if (grow(<void**>&w.words, <size_t>n * g.n_tag_pad, 4)
                or grow(<void**>&w.places, 2 * <size_t>n, 8) or grow(<void**>&w.survivors, n, 4)
                or grow(<void**>&w.n_open, 2 * <size_t>n + 2, 4) or grow(<void**>&w.factors, n, 4)):
            return OUT_OF_MEMORY
        w.factored_words = n
    return reserve(<void**>&w.rows, 1, &w.rows_size,
                   <Py_ssize_t>n * (4 * g.rank + g.n_tag_pad + 4 * g.n_state_pad))


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
    through_unaries(c, &g.unaries, w, limit, w.rows, upper, True)
    for r in range(2 * rank):
        below[r] = dot(g.outside + <Py_ssize_t>r * pad, upper, pad)
    if j > i + 1 or not may_be_bare(c, w, n, i):
        return
    for s in range(g.n_tag_states):
        for r in range(rank):
            below[r] += words[s] * g.left[<Py_ssize_t>s * rank + r]
            below[rank + r] += words[s] * g.right[<Py_ssize_t>s * rank + r]


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
                    through_unaries(c, &g.unaries, w, limited, outside + pad, outside, False)
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
            if w.n_found > MOST - c.n_symbols or reserve(
                <void**>&w.found_items, 1, &w.found_size, w.n_found + c.n_symbols, sizeof(Found)
            ):
                return OUT_OF_MEMORY
            x = w.survivors[i]
            w.found[2 * (row + x)] = w.n_found
            limited = limit_of(w, n, x, x + length)
            through_unaries(c, &g.unaries, w, limited, inside + <Py_ssize_t>i * 2 * pad,
                          inside + <Py_ssize_t>(i * 2 + 1) * pad, True)
            through_unaries(c, &g.unaries, w, limited, outside + <Py_ssize_t>(i * 2 + 1) * pad,
                          outside + <Py_ssize_t>i * 2 * pad, False)
            if length == 1:
                if limited >= 0:
                    limit_tags(c, g, w, n, x, out + <Py_ssize_t>i * 2 * rank,
                               outside + <Py_ssize_t>i * 2 * pad,
                               survived + <Py_ssize_t>i * g.n_tag_pad)
                find_tags(c, g, w, w.words + <Py_ssize_t>i * g.n_tag_pad,
                          survived + <Py_ssize_t>i * g.n_tag_pad, limit, may_be_bare(c, w, n, x))
            find_phrases(c, g, w, inside + <Py_ssize_t>i * 2 * pad, outside + <Py_ssize_t>i * 2 * pad,
                         limit)
            w.found[2 * (row + x) + 1] = w.n_found - w.found[2 * (row + x)]
    return PARSED


cdef inline void find_tags(const Coarse* c, const Factors* g, Work* w, const float* inside,
                           const float* outside, float limit, bint bare) noexcept nogil:
    """List the tags of a word whose inside times outside score is `limit` or more.

    bare: whether the word may have no phrase of its own; if not, no edge begins with its tag.
    """
    cdef int t, x, y
    cdef float score
    cdef Found* found
    for t in range(c.n_tags):
        x, y = g.begins[t], g.begins[t + 1] - 1
        score = inside[x] * outside[x]
        if y > x:
            score += inside[y] * outside[y]
        if score >= limit and score > 0.0:
            found = w.found_items + w.n_found
            found.symbol = t
            found.inside[0] = inside[x] if bare else 0.0
            found.inside[1] = inside[y] if bare and y > x else 0.0
            w.n_found += 1


cdef inline void find_phrases(const Coarse* c, const Factors* g, Work* w, const float* inside,
                              const float* outside, float limit) noexcept nogil:
    """List the phrases of a cell one of whose nodes has a score of `limit` or more.

    inside, outside: of lower nodes, then of upper ones.
    """
    cdef int a, x, y, first = g.n_tag_states, pad = g.n_state_pad
    cdef float lower, upper
    cdef Found* found
    for a in range(c.n_tags, c.n_symbols):
        x, y = g.begins[a] - first, g.begins[a + 1] - 1 - first
        lower = inside[x] * outside[x]
        upper = inside[pad + x] * outside[pad + x]
        if y > x:
            lower += inside[y] * outside[y]
            upper += inside[pad + y] * outside[pad + y]
        if (lower if lower > upper else upper) >= limit and (lower > 0.0 or upper > 0.0):
            found = w.found_items + w.n_found
            found.symbol = a
            found.inside[0] = inside[pad + x]
            found.inside[1] = inside[pad + y] if y > x else 0.0
            found.outside[0] = outside[x]
            found.outside[1] = outside[y] if y > x else 0.0
            w.n_found += 1


# -------------------------------------------------------------------------------------------------
# the forest of a level with decomposed rules
# -------------------------------------------------------------------------------------------------
# An edge is listed if its posterior is high enough, by the outside score of its parent and the inside
# scores of its children in the factored grammar, but with the probability of the rule as it is. Most
# combinations are never looked at: first the split must have a posterior, as a sum over ranks, then
# its left and right children, each with all others, and only then pairs of these are looked up.
cdef int list_forest(const Coarse* c, const Factors* g, Work* w, int n, float z,
                     float keep_edge) noexcept nogil:
    """List the items that were found, without those that have no edge, and their edges.

    z: the score of the sentence. keep_edge: the least posterior of an edge.
    """
    cdef Forest* f = &w.f
    cdef float limit = keep_edge * z, whole = SPLIT * keep_edge
    cdef int i, length, begin, x
    cdef Py_ssize_t row
    whole = z * (whole if whole < MOST_OF_SPLIT else MOST_OF_SPLIT)
    for length in range(1, n + 1):
        for i in range(n - length + 1):
            row = by_length(n, i, i + length)
            if w.found[2 * row + 1] == 0:
                continue
            begin = f.n_items
            if reserve_items(w, w.found[2 * row + 1]):
                return OUT_OF_MEMORY
            for x in range(w.found[2 * row], w.found[2 * row] + w.found[2 * row + 1]):
                memcpy(w.state_inside + 2 * <Py_ssize_t>f.n_items, w.found_items[x].inside, 8)
                memcpy(w.state_outside + 2 * <Py_ssize_t>f.n_items, w.found_items[x].outside, 8)
                add_item(f, w.found_items[x].symbol)
            number_items(c, w, begin, False)
            if ((length > 1 and list_edges(c, g, w, n, i, i + length, limit, whole))
                    or write_cell(c, w, i, i + length, begin) or write_vectors(g, w, begin)):
                return OUT_OF_MEMORY
    return list_roots(c, w)


cdef int list_edges(const Coarse* c, const Factors* g, Work* w, int n, int i, int j, float limit,
                    float whole) noexcept nogil:
    """List the edges of a cell, in chains."""
    cdef Forest* f = &w.f
    cdef int k, x, y, e, left, right, item, other, rule, parent, n_left, n_right, pair
    cdef int t, u, rank = g.rank
    cdef Py_ssize_t row = by_length(n, i, j), first, second
    cdef float factor, score
    cdef const float* above = w.above_outside + row * rank
    cdef const float* b
    cdef const float* d
    cdef const float* o
    cdef const float* p
    cdef float* weights = w.rows
    cdef float[4] both
    for k in range(i + 1, j):
        left = w.grid[i * (n + 1) + k]
        right = w.grid[k * (n + 1) + j]
        if left < 0 or right < 0:
            continue
        first = by_length(n, i, k)
        second = by_length(n, k, j)
        e = w.power[first] + w.power[second] - w.power[row]
        if e < -126 or w.power[row] == NOTHING:
            continue
        factor = power_of_two(e)
        times(weights, w.below + second * 2 * rank + rank, above, factor, rank)
        if not dot(weights, w.below + first * 2 * rank, rank) >= whole:
            continue
        x = f.cell_item[left]
        y = f.cell_item[right]
        if reserve(<void**>&w.left_chosen, 2, &w.chosen_size, 2 * c.n_symbols):
            return OUT_OF_MEMORY
        n_left = select_rows(w.left_rows + <Py_ssize_t>x * rank, f.cell_item[left + 1] - x, rank,
                             weights, limit, x, w.left_chosen)
        if n_left == 0:
            continue
        times(weights, w.below + first * 2 * rank, above, factor, rank)
        n_right = select_rows(w.right_rows + <Py_ssize_t>y * rank, f.cell_item[right + 1] - y, rank,
                              weights, limit, y, w.right_chosen)
        for x in range(n_left):
            item = w.left_chosen[x]
            t = f.item_symbol[item]
            b = w.state_inside + 2 * <Py_ssize_t>item
            for y in range(n_right):
                other = w.right_chosen[y]
                u = f.item_symbol[other]
                pair = t * c.n_symbols + u
                if c.pairs[pair] == c.pairs[pair + 1]:
                    continue
                d = w.state_inside + 2 * <Py_ssize_t>other
                both[0] = factor * b[0] * d[0]
                both[1] = factor * b[0] * d[1]
                both[2] = factor * b[1] * d[0]
                both[3] = factor * b[1] * d[1]
                for rule in range(c.pairs[pair], c.pairs[pair + 1]):
                    parent = w.slot[c.rules[3 * rule]]
                    if parent < 0:
                        continue
                    o = w.state_outside + 2 * <Py_ssize_t>parent
                    p = g.blocks + 8 * <Py_ssize_t>rule
                    score = (o[0] * (p[0] * both[0] + p[1] * both[1] + p[2] * both[2] + p[3] * both[3])
                             + o[1] * (p[4] * both[0] + p[5] * both[1] + p[6] * both[2]
                                       + p[7] * both[3]))
                    if not (score >= limit and score > 0.0):
                        continue
                    if chain_edge(c, w, rule, item, other):
                        return OUT_OF_MEMORY
    return PARSED


cdef int write_vectors(const Factors* g, Work* w, int begin) noexcept nogil:
    """Compute what the items of the last cell are as left and as right children."""
    cdef Forest* f = &w.f
    cdef int item, x, rank = g.rank
    cdef float first, second
    cdef Py_ssize_t row
    if reserve(<void**>&w.left_rows, 2, &w.vectors_size, <Py_ssize_t>f.n_items * rank):
        return OUT_OF_MEMORY
    for item in range(begin, f.n_items):
        x = g.begins[f.item_symbol[item]]
        first = w.state_inside[2 * item]
        second = w.state_inside[2 * item + 1]
        # A symbol with one state has no second row.
        row = <Py_ssize_t>x * rank
        x = rank if second > 0.0 else 0
        mix(w.left_rows + <Py_ssize_t>item * rank, g.left + row, g.left + row + x, first, second, rank)
        mix(w.right_rows + <Py_ssize_t>item * rank, g.right + row, g.right + row + x, first, second,
            rank)
    return 0


# -------------------------------------------------------------------------------------------------
# the two passes
# -------------------------------------------------------------------------------------------------
cdef int fill_coarse(const Coarse* g, Work* w, int n, const float* lexicon, int stride, float keep,
                     float keep_edge, const int32_t* gold) noexcept nogil:
    """Fill the chart of a sentence by level 0, set its score z, and list what is left.

    keep, keep_edge, gold: see `list_coarse`.
    """
    if begin_forest(w, g, n) or reserve_chart(w, g, n):
        return OUT_OF_MEMORY
    w.z = inside_coarse(g, w, n, lexicon, stride)
    if not w.z > 0:
        return UNPARSED
    outside_coarse(g, w, n)
    return list_coarse(g, w, n, w.z, keep, keep_edge, gold)


cdef int fill_factored(const Coarse* c, const Factors* g, Work* w, int n, const float* lexicon, int stride,
                       float keep, float keep_edge) noexcept nogil:
    """Do the same by a level with decomposed rules. keep, keep_edge: least posteriors."""
    if begin_forest(w, c, n) or reserve_factored(w, g, n):
        return OUT_OF_MEMORY
    w.z = inside_factored(c, g, w, n, lexicon, stride)
    if not w.z > 0:
        return UNPARSED
    if outside_factored(c, g, w, n, w.z, keep) != PARSED:
        return OUT_OF_MEMORY
    return list_forest(c, g, w, n, w.z, keep_edge)
