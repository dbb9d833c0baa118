# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""The forest that a factored first pass leaves.

An edge is listed if its posterior is high enough, by the outside score of its parent and the inside
scores of its children in the factored grammar, but with the probability of the rule as it is. Most
combinations are never looked at: first the split must have a posterior, as a sum over ranks, then
its left and right children, each with all others, and only then pairs of these are looked up.
"""

from libc.string cimport memset

from spacy_structlearn.grammar.chart._structures cimport (
    NOTHING,
    OUT_OF_MEMORY,
    PARSED,
    UNPARSED,
    Coarse,
    Factors,
    Forest,
    Work,
    by_length,
    limit_of,
    may_be_above,
    may_be_whole,
    reserve_more,
)
from spacy_structlearn.kernels.arrays cimport grow, grow_each, reserve
from spacy_structlearn.kernels.vectors cimport dot, mix, power_of_two, select_rows, times

# A split is left out if the posteriors of its edges sum to less than this many times the least one
# of an edge, or than the second number, if that is less.
cdef float SPLIT = 3.0
cdef float MOST_OF_SPLIT = 0.01


cdef int reserve_lists(Work* w, const Coarse* g, int n) noexcept nogil:
    """Allocate what lists the forest of a sentence of n words."""
    if n > w.grid_words:
        if grow(<void**>&w.grid, <size_t>n * (n + 1), 4):
            return -1
        w.grid_words = n
    if g.n_symbols > w.symbols_size:
        if grow(<void**>&w.slot, g.n_symbols, 4):
            return -1
        w.symbols_size = g.n_symbols
        memset(w.slot, 255, <size_t>g.n_symbols * 4)
    if g.n_rules > w.rules_size:
        if grow(<void**>&w.first, g.n_rules, 4) or grow(<void**>&w.touched, g.n_rules, 4):
            return -1
        w.rules_size = g.n_rules
        memset(w.first, 255, <size_t>g.n_rules * 4)
    if g.n_root > w.f.root_size:
        if grow_each(<void**>&w.f.root_item, 3, g.n_root):
            return -1
        w.f.root_size = g.n_root
    return 0


cdef void begin_forest(Work* w, int n) noexcept nogil:
    """Empty the forest, for a sentence of n words."""
    cdef Forest* f = &w.f
    cdef int x
    f.n_words = n
    f.n_cells = f.n_items = f.n_groups = f.n_edges = f.n_unaries = f.n_roots = 0
    memset(w.grid, 255, <size_t>n * (n + 1) * 4)
    # Chains are left where memory was short.
    for x in range(w.n_touched):
        w.first[w.touched[x]] = -1
    w.n_touched = w.n_chained = 0


cdef int list_forest(const Coarse* c, const Factors* g, Work* w, int n, float z,
                     float keep_edge) noexcept nogil:
    """List the items that were found, without those that have no edge, and their edges.

    z: the score of the sentence. keep_edge: the least posterior of an edge.
    """
    cdef Forest* f = &w.f
    cdef float limit = keep_edge * z, whole = SPLIT * keep_edge
    cdef int i, length, begin, cell, x, item, limits, status
    cdef Py_ssize_t row
    whole = z * (whole if whole < MOST_OF_SPLIT else MOST_OF_SPLIT)
    begin_forest(w, n)
    for length in range(1, n + 1):
        for i in range(n - length + 1):
            row = by_length(n, i, i + length)
            if w.found[2 * row + 1] == 0:
                continue
            if (reserve_more(f, 1, w.found[2 * row + 1], 0, 0, 0)
                    or reserve(<void**>&w.state_inside, 2, &w.states_size,
                               2 * (f.n_items + w.found[2 * row + 1]))):
                return OUT_OF_MEMORY
            begin = f.n_items
            cell = f.n_cells
            f.cell_item[cell] = begin
            f.cell_group[cell] = f.n_groups
            f.cell_unary[cell] = f.n_unaries
            write_items(w, row, cell)
            for item in range(begin, f.n_items):
                w.slot[f.item_symbol[item]] = item
                w.supported[f.item_symbol[item]] = f.item_symbol[item] < c.n_tags
            status = PARSED
            if length > 1:
                status = list_edges(c, g, w, n, i, i + length, limit, whole)
            if status == PARSED:
                limits = limit_of(w, n, i, i + length)
                support_parents(c, w, begin, limits)
                drop_unsupported(w, begin)
                if write_edges(c, w) or write_unaries(c, w, begin, limits):
                    status = OUT_OF_MEMORY
            for x in range(w.found[2 * row], w.found[2 * row] + w.found[2 * row + 1]):
                w.slot[w.found_symbol[x]] = -1
            if status != PARSED or write_vectors(g, w, begin):
                return OUT_OF_MEMORY
            if f.n_items == begin:
                continue
            f.cell_i[cell] = i
            f.cell_j[cell] = i + length
            f.n_cells += 1
            f.cell_item[cell + 1] = f.n_items
            f.cell_group[cell + 1] = f.n_groups
            f.cell_unary[cell + 1] = f.n_unaries
            w.grid[i * (n + 1) + i + length] = cell
    return list_roots(c, w)


cdef inline void write_items(Work* w, Py_ssize_t row, int cell) noexcept nogil:
    """Append the items that were found in a cell, with their scores."""
    cdef Forest* f = &w.f
    cdef int x, y
    for x in range(w.found[2 * row], w.found[2 * row] + w.found[2 * row + 1]):
        f.item_symbol[f.n_items] = w.found_symbol[x]
        f.item_cell[f.n_items] = cell
        for y in range(2):
            w.state_inside[2 * f.n_items + y] = w.found_inside[2 * x + y]
            w.state_outside[2 * f.n_items + y] = w.found_outside[2 * x + y]
        f.n_items += 1


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
        if f.cell_item[left + 1] - x + f.cell_item[right + 1] - y + 2 > w.chosen_size:
            e = 2 * (f.cell_item[left + 1] - x + f.cell_item[right + 1] - y) + 64
            if grow(<void**>&w.left_chosen, e, 4) or grow(<void**>&w.right_chosen, e, 4):
                return OUT_OF_MEMORY
            w.chosen_size = e
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
                    w.supported[c.rules[3 * rule]] = 1
                    if chain_edge(w, rule, item, other):
                        return OUT_OF_MEMORY
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
        f.item_cell[kept] = f.item_cell[item]
        w.state_inside[2 * kept] = w.state_inside[2 * item]
        w.state_inside[2 * kept + 1] = w.state_inside[2 * item + 1]
        w.slot[x] = kept
        kept += 1
    f.n_items = kept


cdef int chain_edge(Work* w, int rule, int left, int right) noexcept nogil:
    """Add an edge of the present cell to the chain of its rule, newest first."""
    cdef int last = w.n_chained
    if last >= w.next_size:
        if grow(<void**>&w.next, 3 * (w.next_size * 2 + 1024), 4):
            return OUT_OF_MEMORY
        w.next_size = w.next_size * 2 + 1024
    if w.first[rule] < 0:
        w.touched[w.n_touched] = rule
        w.n_touched += 1
    w.next[3 * last] = w.first[rule]
    w.next[3 * last + 1] = left
    w.next[3 * last + 2] = right
    w.first[rule] = last
    w.n_chained = last + 1
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
            f.edge_left[f.n_edges] = w.next[3 * k + 1]
            f.edge_right[f.n_edges] = w.next[3 * k + 2]
            f.n_edges += 1
            k = w.next[3 * k]
        f.n_groups += 1
        f.group_edge[f.n_groups] = f.n_edges
    w.n_touched = w.n_chained = 0
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
    return 0


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
