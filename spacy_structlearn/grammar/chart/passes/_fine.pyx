# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""The passes through a forest, in the parser and in conditional training, and packing.

Petrov & Klein (2007), equations 2 and 3. The parser goes through the forest of the pass before with
probabilities whose blocks may be sparse. Training (`discriminative._forest`) has weights of any
size, dense blocks, a mask of the substates of each item, and adds up expected counts.

See `_chart` for the layout of nodes. The vector of each node is scaled by its own power of two, so
that its largest inside score is between 1 and 2; weights of any size can then occur in one cell.
Outside scores are scaled so that inside times outside over the score of the sentence is the
posterior.
"""

from libc.math cimport log
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from spacy_structlearn.grammar.chart.passes._structures cimport *
from spacy_structlearn.kernels.arrays cimport free_each, reserve
from spacy_structlearn.kernels.prefetch cimport PREFETCH
from spacy_structlearn.kernels.vectors cimport (
    add_counts,
    add_matvec,
    add_outer,
    dot,
    exponent_of,
    power_of_two,
    push_edge,
    vecmat,
)

cdef double FLOOR = 1e-30  # of posteriors, before their logarithm is taken
# 2**-64, the least score in a vector in training; in the parser TINY, except over single words.
# Outside scores are at most 2**64, so that float32 holds their products with weights up to 2**58.
cdef float LEAST = 5.421010862427522e-20


cdef void free_work(Work* w) noexcept nogil:
    free_each(<void**>&w.f.cell_i, <void**>&w.f.root_q)
    free_each(<void**>&w.packed.items, <void**>&w.packed.best)
    free_each(<void**>&w.lower, <void**>&w.next)
    free_each(<void**>&w.above, <void**>&w.open)
    free_each(<void**>&w.words, <void**>&w.factors)
    free(w.rows)
    free_each(<void**>&w.found_items, <void**>&w.right_chosen)
    free_each(<void**>&w.inside0, <void**>&w.block)
    free_each(<void**>&w.lower_number, <void**>&w.upper_number)
    free(w.place)
    free(w.stack)


cdef int lay_out(const Fine* g, Work* w) noexcept nogil:
    """Allocate the scores of the substates of every item."""
    cdef Forest* f = &w.f
    cdef int item, size = (2 * g.widest + 1) * g.widest
    cdef Py_ssize_t n = 0
    for item in range(f.n_items):
        f.item_offset[item] = <int32_t>n
        n += g.n[f.item_symbol[item]] + g.extra
    f.item_offset[f.n_items] = <int32_t>n
    w.n_values = n
    if (n > MOST or reserve(<void**>&w.inside0, 4, &w.values_size, n)
            or reserve(<void**>&w.lower_number, 2, &w.numbers_size, f.n_items + 1)):
        return OUT_OF_MEMORY
    return OUT_OF_MEMORY if reserve(<void**>&w.block, 1, &w.block_size, size) else PARSED


cdef void prune(const Coarse* g, Work* w, float keep, float keep_edge) noexcept nogil:
    """Remove items and edges with lower posteriors in the pass before, in place.

    What stays keeps its posterior.
    """
    cdef Forest* f = &w.f
    cdef int cell, item, x, e, n_cells = 0, n_items = 0, n_groups = 0, n_edges = 0, n_unaries = 0
    cdef int begin_item, begin_group, begin_unary, begin_edge, n_roots = 0
    cdef int32_t* place = w.lower_number  # new number of an item, or -1; reserved by the pass
    # Bounds are read before those of the next cell or group are written.
    for cell in range(f.n_cells):
        begin_item, begin_group, begin_unary = n_items, n_groups, n_unaries
        for item in range(f.cell_item[cell], f.cell_item[cell + 1]):
            place[item] = -1
            if f.item_lower[item] >= keep or f.item_upper[item] >= keep:
                place[item] = n_items
                f.item_symbol[n_items] = f.item_symbol[item]
                f.item_cell[n_items] = n_cells
                f.item_lower[n_items] = f.item_lower[item]
                f.item_upper[n_items] = f.item_upper[item]
                f.item_same[n_items] = f.item_same[item]
                n_items += 1
        for x in range(f.cell_unary[cell], f.cell_unary[cell + 1]):
            if (f.unary_q[x] >= keep_edge and place[f.unary_parent[x]] >= 0
                    and place[f.unary_child[x]] >= 0):
                f.unary_parent[n_unaries] = place[f.unary_parent[x]]
                f.unary_child[n_unaries] = place[f.unary_child[x]]
                f.unary_rule[n_unaries] = f.unary_rule[x]
                f.unary_q[n_unaries] = f.unary_q[x]
                n_unaries += 1
        for x in range(f.cell_group[cell], f.cell_group[cell + 1]):
            if place[f.group_parent[x]] < 0:
                continue
            begin_edge = n_edges
            for e in range(f.group_edge[x], f.group_edge[x + 1]):
                if (f.edge_q[e] >= keep_edge and place[f.edge_left[e]] >= 0
                        and place[f.edge_right[e]] >= 0):
                    f.edge_left[n_edges] = place[f.edge_left[e]]
                    f.edge_right[n_edges] = place[f.edge_right[e]]
                    f.edge_q[n_edges] = f.edge_q[e]
                    n_edges += 1
            if n_edges > begin_edge:
                f.group_parent[n_groups] = place[f.group_parent[x]]
                f.group_rule[n_groups] = f.group_rule[x]
                f.group_edge[n_groups] = begin_edge
                n_groups += 1
        if n_items > begin_item:
            f.cell_i[n_cells] = f.cell_i[cell]
            f.cell_j[n_cells] = f.cell_j[cell]
            f.cell_item[n_cells] = begin_item
            f.cell_group[n_cells] = begin_group
            f.cell_unary[n_cells] = begin_unary
            n_cells += 1
    f.group_edge[n_groups] = n_edges
    f.cell_item[n_cells] = n_items
    f.cell_group[n_cells] = n_groups
    f.cell_unary[n_cells] = n_unaries
    for x in range(f.n_roots):
        if place[f.root_item[x]] >= 0:
            f.root_item[n_roots] = place[f.root_item[x]]
            f.root_rule[n_roots] = f.root_rule[x]
            f.root_q[n_roots] = f.root_q[x]
            n_roots += 1
    f.n_cells = n_cells
    f.n_items = n_items
    f.n_groups = n_groups
    f.n_edges = n_edges
    f.n_unaries = n_unaries
    f.n_roots = n_roots


cdef inline bint is_whole(const Coarse* c, const Work* w, int item) noexcept nogil:
    """Whether the upper node of an item may be made of its lower node."""
    cdef const Forest* f = &w.f
    cdef int cell = f.item_cell[item]
    return w.limits == NULL or f.item_symbol[item] < c.n_tags or may_be_whole(
        c, w, limit_of(w, f.n_words, f.cell_i[cell], f.cell_j[cell]), f.item_symbol[item])


cdef bint has_tree(const Coarse* c, Work* w) noexcept nogil:
    """Whether the forest has a tree."""
    cdef Forest* f = &w.f
    cdef int cell, item, x, y
    cdef int32_t* lower = w.lower_number  # whether a node has a tree; reserved by the pass
    cdef int32_t* upper = w.upper_number
    for cell in range(f.n_cells):
        for item in range(f.cell_item[cell], f.cell_item[cell + 1]):
            lower[item] = upper[item] = f.item_symbol[item] < c.n_tags
        for x in range(f.cell_group[cell], f.cell_group[cell + 1]):
            for y in range(f.group_edge[x], f.group_edge[x + 1]):
                if upper[f.edge_left[y]] and upper[f.edge_right[y]]:
                    lower[f.group_parent[x]] = 1
        # Those over tags are first.
        for x in range(f.cell_unary[cell], f.cell_unary[cell + 1]):
            if f.item_symbol[f.unary_child[x]] < c.n_tags:
                lower[f.unary_parent[x]] = 1
            elif lower[f.unary_child[x]]:
                upper[f.unary_parent[x]] = 1
        for item in range(f.cell_item[cell], f.cell_item[cell + 1]):
            if is_whole(c, w, item):
                upper[item] |= lower[item]
    for x in range(f.n_roots):
        if upper[f.root_item[x]]:
            return True
    return False


cdef inline void unary_inside(const Fine* g, int rule, float* out, const float* child, float scale, int na,
                              int nc, bint best) noexcept nogil:
    """Add scale P(x -> y) child[y] to out[x], or put the larger one there."""
    if g.unary_offsets[rule] < 0:
        sparse_inside(g.unary_entries + g.unary_begins[rule],
                      g.unary_entries + g.unary_begins[rule + 1], out, child, scale, best)
    else:
        dense_inside(g.unary + g.unary_offsets[rule], out, child, na, nc, scale, best)


cdef inline float unary_outside(const Fine* g, int rule, const float* parent, const float* child, int power,
                                float* out, float* block, int na, int nc, float inverse,
                                const Sums* sums) noexcept nogil:
    """Add sum_x parent[x] P(x -> y) to out[y]. Returns its product with the inside scores `child`.

    power: of two, of `child` over the inside scores of the parent. inverse: times counts.
    """
    cdef const Entry* e
    cdef const Entry* end
    cdef const float* p
    cdef float* total
    cdef float* above = block + nc
    # Outside scores are as large as inside scores are small: large weights would overflow.
    cdef float before = power_of_two(min(power, 0)), factor = power_of_two(max(power, 0))
    cdef float value, q = 0.0
    cdef int x, y
    if g.unary_offsets[rule] < 0:
        e = g.unary_entries + g.unary_begins[rule]
        end = g.unary_entries + g.unary_begins[rule + 1]
        while e < end:
            value = factor * (e.value * (before * parent[e.parent]))
            out[e.pair] += value
            q += value * child[e.pair]
            e += 1
        return q
    p = g.unary + g.unary_offsets[rule]
    for x in range(na):
        above[x] = before * parent[x]
    vecmat(block, p, above, na, nc)
    for y in range(nc):
        out[y] += factor * block[y]
    q = factor * dot(block, child, nc)
    if sums != NULL:
        total = sums.unary + g.unary_offsets[rule]
        for x in range(na):
            value = inverse * above[x]
            if value == 0.0:
                continue
            for y in range(nc):
                # In this order nothing overflows: it is a part of the parent's inside score.
                total[x * nc + y] += value * (p[x * nc + y] * (factor * child[y]))
    return q


cdef inline void dense_inside(const float* p, float* out, const float* block, int na, int n, float scale,
                              bint best) noexcept nogil:
    """Add scale P(x -> pair) block[pair] to out[x], or put the larger one there."""
    cdef int x, y
    if not best:
        add_matvec(out, p, block, na, n, scale)
        return
    for x in range(na):
        for y in range(n):
            out[x] = max(out[x], scale * p[x * n + y] * block[y])


cdef inline void combine_outer(float* out, const float* b, const float* d, int nb, int nd, float factor,
                               bint best) noexcept nogil:
    """out[u, v] += factor b[u] d[v], or that if it is larger."""
    cdef int u, v
    if not best:
        add_outer(out, b, d, nb, nd, factor)
        return
    for u in range(nb):
        for v in range(nd):
            out[u * nd + v] = max(out[u * nd + v], factor * b[u] * d[v])


cdef inline void prefetch_rule(const Fine* g, int rule) noexcept nogil:
    """Begin to load the entries of a rule, if it has any."""
    cdef const Entry* e
    cdef const Entry* end
    if g.binary_offsets[rule] >= 0:
        return
    e = g.binary_entries + g.binary_begins[rule]
    end = g.binary_entries + g.binary_begins[rule + 1]
    PREFETCH(g.pairs + g.pair_begins[rule])
    while e < end:
        PREFETCH(e)
        e += 8


cdef inline void combine_pairs(const Pair* pairs, int n, float* out, const float* b, const float* d,
                               float factor, bint best) noexcept nogil:
    """Add factor b[y] d[z] of each of n pairs to out, or put the larger one there."""
    cdef int x
    cdef float value
    for x in range(n):
        value = factor * b[pairs[x].left] * d[pairs[x].right]
        out[x] = max(out[x], value) if best else out[x] + value


cdef inline void sparse_inside(const Entry* e, const Entry* end, float* out, const float* block,
                               float scale, bint best) noexcept nogil:
    """Add scale P(x -> pair) block[pair] to out[x], or put the larger one there."""
    cdef float value
    while e < end:
        value = scale * e.value * block[e.pair]
        out[e.parent] = max(out[e.parent], value) if best else out[e.parent] + value
        e += 1


cdef inline float push_pairs(const Pair* pairs, int n, const float* block, const float* b,
                             const float* d, float factor, float* ob, float* od) noexcept nogil:
    """Add the outside scores of both children of an edge; return their product with the inside ones.

    block: outside scores of the pairs. b, d: inside scores of the children.
    """
    cdef float value, left, right, total = 0.0
    cdef int x
    for x in range(n):
        value = factor * block[x]
        left = b[pairs[x].left]
        right = value * d[pairs[x].right]
        total += left * right
        ob[pairs[x].left] += right
        od[pairs[x].right] += value * left
    return total


cdef inline void spread_groups(const Fine* g, Work* w, int cell) noexcept nogil:
    """Add the scores of groups to those of their substates."""
    cdef Forest* f = &w.f
    cdef int item, x, n, cut
    cdef float* out
    for item in range(f.cell_item[cell], f.cell_item[cell + 1]):
        out = w.inside0 + f.item_offset[item]
        n = g.n[f.item_symbol[item]]
        cut = g.groups[f.item_symbol[item]]
        for x in range(cut):
            out[x] += out[n]
        for x in range(cut, n):
            out[x] += out[n + 1]
        out[n] = out[n + 1] = 0.0


cdef inline void sum_groups(const Fine* g, Work* w, int cell) noexcept nogil:
    """Compute the outside scores of groups, the sums of those of their substates."""
    cdef Forest* f = &w.f
    cdef int item, x, n, cut
    cdef float* out
    for item in range(f.cell_item[cell], f.cell_item[cell + 1]):
        out = w.outside0 + f.item_offset[item]
        n = g.n[f.item_symbol[item]]
        cut = g.groups[f.item_symbol[item]]
        out[n] = out[n + 1] = 0.0
        for x in range(cut):
            out[n] += out[x]
        for x in range(cut, n):
            out[n + 1] += out[x]


cdef inline const float* rule_row(const Fine* g, int rule, int x, int nc, int n, float* block) noexcept nogil:
    """Return P(x -> pair) of all n pairs; those of a sparse block are written to `block`."""
    cdef int e
    cdef const Pair* pair
    if g.binary_offsets[rule] >= 0:
        return g.binary + g.binary_offsets[rule] + <int64_t>x * n
    memset(block, 0, n * 4)
    for e in range(g.binary_begins[rule], g.binary_begins[rule + 1]):
        if g.binary_entries[e].parent == x:
            pair = g.pairs + g.pair_begins[rule] + g.binary_entries[e].pair
            block[pair.left * nc + pair.right] = g.binary_entries[e].value
    return block


cdef inline const float* unary_row(const Fine* g, int rule, int x, int n, float* block) noexcept nogil:
    """Return P(x -> y) of all n substates; those of a sparse block are written to `block`."""
    cdef int e
    if g.unary_offsets[rule] >= 0:
        return g.unary + g.unary_offsets[rule] + <int64_t>x * n
    memset(block, 0, n * 4)
    for e in range(g.unary_begins[rule], g.unary_begins[rule + 1]):
        if g.unary_entries[e].parent == x:
            block[g.unary_entries[e].pair] = g.unary_entries[e].value
    return block


cdef inline int scaled(float* v, int n, const uint64_t* mask, int power, float least) noexcept nogil:
    """Scale the largest score of a node to between 1 and 2. Returns its power of two.

    mask: of its substates, or NULL. power: before; nodes of zeros have NOTHING. least: scaled scores
    below this are set to zero.
    """
    cdef float largest = 0.0, second = 0.0, third = 0.0, fourth = 0.0, factor
    cdef int x, e
    if mask != NULL:
        for x in range(n):
            if not mask[0] >> x & 1:
                v[x] = 0.0
    # Four at a time, which do not wait for each other.
    for x in range(0, n - 3, 4):
        largest = v[x] if v[x] > largest else largest
        second = v[x + 1] if v[x + 1] > second else second
        third = v[x + 2] if v[x + 2] > third else third
        fourth = v[x + 3] if v[x + 3] > fourth else fourth
    for x in range(n - n % 4, n):
        largest = v[x] if v[x] > largest else largest
    second = second if second > third else third
    largest = largest if largest > second else second
    largest = largest if largest > fourth else fourth
    if largest == 0.0:
        return NOTHING
    e = exponent_of(largest)
    factor = power_of_two(-e)
    for x in range(n):
        v[x] = v[x] * factor if v[x] * factor >= least else 0.0
    return power + e


cdef inline uint64_t* mask_of(const Work* w, int item) noexcept nogil:
    return NULL if w.masks == NULL else w.masks + item


cdef inline void enter_word(const Fine* g, Work* w, int item, const float* lexicon, int stride,
                            float least) noexcept nogil:
    """Set the inside scores of a tag to those of its word."""
    cdef Forest* f = &w.f
    cdef int t = f.item_symbol[item]
    cdef const float* scores
    if g.word_offsets != NULL:
        scores = lexicon + g.word_offsets[w.words_of[item]]
    else:
        scores = lexicon + <Py_ssize_t>f.cell_i[f.item_cell[item]] * stride + g.offsets[t]
    memcpy(w.inside1 + f.item_offset[item], scores, g.n[t] * 4)
    f.upper_e[item] = scaled(w.inside1 + f.item_offset[item], g.n[t], mask_of(w, item), 0, least)


cdef void copy_between(const Coarse* c, const Work* w, int first, int end, float* out,
                       const float* scores) noexcept nogil:
    """Copy scores between the lower and the upper nodes of items that may be both, else zeros."""
    cdef const Forest* f = &w.f
    cdef int item, x, begin = f.item_offset[first]
    cdef float factor
    memcpy(out + begin, scores + begin, (f.item_offset[end] - begin) * 4)
    for item in range(first, end):
        if f.lower_e[item] == f.upper_e[item] and is_whole(c, w, item):
            continue
        factor = power_of_two(f.lower_e[item] - f.upper_e[item]) if is_whole(c, w, item) else 0.0
        for x in range(f.item_offset[item], f.item_offset[item + 1]):
            out[x] *= factor


cdef inline int power_of_edge(const Forest* f, int e) noexcept nogil:
    return f.upper_e[f.edge_left[e]] + f.upper_e[f.edge_right[e]]


cdef float inside_fine(const Coarse* c, const Fine* g, Work* w, const float* lexicon, int stride,
                       bint best) noexcept nogil:
    """Compute the inside scores of all items, or with `best` those of their best derivations.

    Returns the score of the sentence, without its power of two `z_e`: 0 if there is no parse.
    """
    cdef Forest* f = &w.f
    cdef int cell, x, e, n, parent, child, rule, na, nb, nc, item, first, end, first_unary, power
    cdef bint dense
    cdef float z = 0.0, factor, least = LEAST
    cdef int32_t* has_unary = w.lower_number  # reserved by the layout
    cdef const Pair* pairs
    cdef const float* b
    cdef const float* d
    cdef float* out
    memset(w.inside0, 0, w.n_values * 4)
    for item in range(f.n_items):
        f.lower_e[item] = f.upper_e[item] = NOTHING
    for cell in range(f.n_cells):
        if w.masks == NULL:
            least = TINY if f.cell_j[cell] > f.cell_i[cell] + 1 else 0.0
        first = f.cell_item[cell]
        end = f.cell_item[cell + 1]
        while first < end and f.item_symbol[first] < c.n_tags:
            enter_word(g, w, first, lexicon, stride, least)
            first += 1
        # The largest power of two of the children of each lower node.
        for x in range(f.cell_group[cell], f.cell_group[cell + 1]):
            power = f.lower_e[f.group_parent[x]]
            for e in range(f.group_edge[x], f.group_edge[x + 1]):
                power = max(power, power_of_edge(f, e))
            f.lower_e[f.group_parent[x]] = power
        x = f.cell_unary[cell]
        while x < f.cell_unary[cell + 1] and f.item_symbol[f.unary_child[x]] < c.n_tags:
            parent = f.unary_parent[x]
            f.lower_e[parent] = max(f.lower_e[parent], f.upper_e[f.unary_child[x]])
            x += 1
        first_unary = x
        for x in range(f.cell_group[cell], f.cell_group[cell + 1]):
            parent = f.group_parent[x]
            power = f.lower_e[parent]
            out = w.inside0 + f.item_offset[parent]
            rule = f.group_rule[x]
            na = g.n[c.rules[3 * rule]]
            nb = g.n[c.rules[3 * rule + 1]]
            nc = g.n[c.rules[3 * rule + 2]]
            if x + 1 < f.cell_group[cell + 1]:
                prefetch_rule(g, f.group_rule[x + 1])
            dense, n = g.binary_offsets[rule] >= 0, nb * nc
            if not dense:
                pairs = g.pairs + g.pair_begins[rule]
                n = g.pair_begins[rule + 1] - g.pair_begins[rule]
            memset(w.block, 0, n * 4)
            for e in range(f.group_edge[x], f.group_edge[x + 1]):
                factor = power_of_two(power_of_edge(f, e) - power)
                b = w.inside1 + f.item_offset[f.edge_left[e]]
                d = w.inside1 + f.item_offset[f.edge_right[e]]
                if dense:
                    combine_outer(w.block, b, d, nb, nc, factor, best)
                else:
                    combine_pairs(pairs, n, w.block, b, d, factor, best)
            if dense:
                dense_inside(g.binary + g.binary_offsets[rule], out, w.block, na, n, 1.0, best)
            else:
                sparse_inside(g.binary_entries + g.binary_begins[rule],
                              g.binary_entries + g.binary_begins[rule + 1], out, w.block, 1.0, best)
        if g.extra:
            spread_groups(g, w, cell)
        for x in range(f.cell_unary[cell], first_unary):
            child = f.unary_child[x]
            parent = f.unary_parent[x]
            unary_inside(g, f.unary_rule[x], w.inside0 + f.item_offset[parent],
                         w.inside1 + f.item_offset[child],
                         power_of_two(f.upper_e[child] - f.lower_e[parent]),
                         g.n[f.item_symbol[parent]], g.n[f.item_symbol[child]], best)
        # The lower nodes are done.
        for item in range(first, end):
            if f.lower_e[item] != NOTHING:
                f.lower_e[item] = scaled(w.inside0 + f.item_offset[item], g.n[f.item_symbol[item]],
                                         mask_of(w, item), f.lower_e[item], least)
            has_unary[item] = 0
            if is_whole(c, w, item):
                f.upper_e[item] = f.lower_e[item]
        for x in range(first_unary, f.cell_unary[cell + 1]):
            parent = f.unary_parent[x]
            has_unary[parent] = 1
            f.upper_e[parent] = max(f.upper_e[parent], f.lower_e[f.unary_child[x]])
        copy_between(c, w, first, end, w.inside1, w.inside0)
        for x in range(first_unary, f.cell_unary[cell + 1]):
            child = f.unary_child[x]
            parent = f.unary_parent[x]
            unary_inside(g, f.unary_rule[x], w.inside1 + f.item_offset[parent],
                         w.inside0 + f.item_offset[child],
                         power_of_two(f.lower_e[child] - f.upper_e[parent]),
                         g.n[f.item_symbol[parent]], g.n[f.item_symbol[child]], best)
        for item in range(first, end):
            if has_unary[item]:
                f.upper_e[item] = scaled(w.inside1 + f.item_offset[item], g.n[f.item_symbol[item]],
                                         mask_of(w, item), f.upper_e[item], least)
    w.z_e = NOTHING
    for x in range(f.n_roots):
        w.z_e = max(w.z_e, f.upper_e[f.root_item[x]])
    for x in range(f.n_roots):
        item = f.root_item[x]
        z += power_of_two(f.upper_e[item] - w.z_e) * dot(
            g.root + g.root_offsets[f.root_rule[x]], w.inside1 + f.item_offset[item],
            g.n[f.item_symbol[item]])
    return z


cdef inline void clear_outside(const Work* w, float* outside, const float* inside, int begin, int end) noexcept nogil:
    """Clear outside scores where inside scores are zero: only there can they be unbounded."""
    cdef int x
    for x in range(begin, end):
        outside[x] = outside[x] if inside[x] > 0.0 else 0.0


cdef void outside_fine(const Coarse* c, const Fine* g, Work* w, float z, const Sums* sums) noexcept nogil:
    """Compute outside scores, scaled so that inside times outside over z is a posterior.

    sums: expected counts are added there. NULL: none are wanted.

    The posteriors of edges, unaries and roots are set, and in the parser those of items.
    """
    cdef Forest* f = &w.f
    cdef int cell, x, y, e, parent, child, rule, na, nb, nc, n, item, first, end, left, right, power
    cdef int most
    cdef bint dense
    cdef float factor, q, inverse = 1.0 / z
    cdef float* products = w.block + g.widest * g.widest
    cdef float* above = products + g.widest * g.widest
    cdef const Pair* pairs
    cdef const Entry* entry
    cdef const Entry* last
    cdef const float* p
    cdef float* out
    cdef float* total
    memset(w.outside1, 0, w.n_values * 4)
    for x in range(f.n_roots):
        item = f.root_item[x]
        n = g.n[f.item_symbol[item]]
        factor = power_of_two(f.upper_e[item] - w.z_e)
        p = g.root + g.root_offsets[f.root_rule[x]]
        out = w.outside1 + f.item_offset[item]
        for y in range(n):
            out[y] += factor * p[y]
        f.root_q[x] = inverse * factor * dot(p, w.inside1 + f.item_offset[item], n)
        if sums != NULL:
            total = sums.root + g.root_offsets[f.root_rule[x]]
            for y in range(n):
                total[y] += inverse * factor * p[y] * w.inside1[f.item_offset[item] + y]
    for cell in range(f.n_cells - 1, -1, -1):
        first = f.cell_item[cell]
        end = f.cell_item[cell + 1]
        while first < end and f.item_symbol[first] < c.n_tags:
            first += 1
        clear_outside(w, w.outside1, w.inside1, f.item_offset[first], f.item_offset[end])
        copy_between(c, w, first, end, w.outside0, w.outside1)
        # unaries from above: those over phrases, then those over tags
        x = f.cell_unary[cell + 1] - 1
        while x >= f.cell_unary[cell] and f.item_symbol[f.unary_child[x]] >= c.n_tags:
            parent = f.unary_parent[x]
            child = f.unary_child[x]
            f.unary_q[x] = 0.0
            if f.upper_e[parent] != NOTHING and f.lower_e[child] != NOTHING:
                f.unary_q[x] = inverse * unary_outside(
                    g, f.unary_rule[x], w.outside1 + f.item_offset[parent],
                    w.inside0 + f.item_offset[child], f.lower_e[child] - f.upper_e[parent],
                    w.outside0 + f.item_offset[child], w.block, g.n[f.item_symbol[parent]],
                    g.n[f.item_symbol[child]], inverse, sums)
            x -= 1
        # The lower nodes of the phrases are complete: tags come last.
        clear_outside(w, w.outside0, w.inside0, f.item_offset[first], f.item_offset[end])
        while x >= f.cell_unary[cell]:
            parent = f.unary_parent[x]
            child = f.unary_child[x]
            f.unary_q[x] = 0.0
            if f.lower_e[parent] != NOTHING and f.upper_e[child] != NOTHING:
                f.unary_q[x] = inverse * unary_outside(
                    g, f.unary_rule[x], w.outside0 + f.item_offset[parent],
                    w.inside1 + f.item_offset[child], f.upper_e[child] - f.lower_e[parent],
                    w.outside1 + f.item_offset[child], w.block, g.n[f.item_symbol[parent]],
                    g.n[f.item_symbol[child]], inverse, sums)
            x -= 1
        clear_outside(w, w.outside1, w.inside1, f.item_offset[f.cell_item[cell]], f.item_offset[first])
        if sums != NULL:
            for item in range(f.cell_item[cell], first):
                total = sums.words + g.word_offsets[w.words_of[item]]
                e = f.item_offset[item]
                for x in range(f.item_offset[item + 1] - e):
                    total[x] += inverse * w.outside1[e + x] * w.inside1[e + x]
        if g.extra:
            sum_groups(g, w, cell)
        for x in range(f.cell_group[cell], f.cell_group[cell + 1]):
            parent = f.group_parent[x]
            if f.lower_e[parent] == NOTHING:
                for y in range(f.group_edge[x], f.group_edge[x + 1]):
                    f.edge_q[y] = 0.0
                continue
            rule = f.group_rule[x]
            na = g.n[c.rules[3 * rule]]
            nb = g.n[c.rules[3 * rule + 1]]
            nc = g.n[c.rules[3 * rule + 2]]
            if x + 1 < f.cell_group[cell + 1]:
                prefetch_rule(g, f.group_rule[x + 1])
            dense = g.binary_offsets[rule] >= 0
            out = w.outside0 + f.item_offset[parent]
            power = f.lower_e[parent]
            if dense:
                p = g.binary + g.binary_offsets[rule]
                if w.masks != NULL:
                    most = NOTHING
                    for y in range(f.group_edge[x], f.group_edge[x + 1]):
                        most = max(most, power_of_edge(f, y))
                    # Outside scores are as large as inside scores are small: large weights would
                    # overflow.
                    most = min(most - power, 0)
                    for y in range(na):
                        above[y] = out[y] * power_of_two(most)
                    out = above
                    power += most
                vecmat(w.block, p, out, na, nb * nc)
                if sums != NULL:
                    memset(products, 0, nb * nc * 4)
            else:
                pairs = g.pairs + g.pair_begins[rule]
                n = g.pair_begins[rule + 1] - g.pair_begins[rule]
                memset(w.block, 0, n * 4)
                entry = g.binary_entries + g.binary_begins[rule]
                last = g.binary_entries + g.binary_begins[rule + 1]
                while entry < last:
                    w.block[entry.pair] += entry.value * out[entry.parent]
                    entry += 1
            for y in range(f.group_edge[x], f.group_edge[x + 1]):
                left, right = f.item_offset[f.edge_left[y]], f.item_offset[f.edge_right[y]]
                factor = power_of_two(power_of_edge(f, y) - power)
                if sums != NULL:
                    add_outer(products, w.inside1 + left, w.inside1 + right, nb, nc, factor)
                if dense:
                    q = push_edge(w.block, w.inside1 + left, w.inside1 + right, nb, nc, factor,
                                  w.outside1 + left, w.outside1 + right)
                else:
                    q = push_pairs(pairs, n, w.block, w.inside1 + left, w.inside1 + right, factor,
                                   w.outside1 + left, w.outside1 + right)
                f.edge_q[y] = q * inverse
            if sums != NULL:
                add_counts(sums.binary + g.binary_offsets[rule], p, out, products, inverse, na, nb * nc)
        if w.masks != NULL:
            continue
        for item in range(f.cell_item[cell], end):
            n = g.n[f.item_symbol[item]]
            e = f.item_offset[item]
            f.item_upper[item] = inverse * dot(w.inside1 + e, w.outside1 + e, n)
            f.item_same[item] = 0.0
            if item < first:
                f.item_lower[item] = f.item_upper[item]
                continue
            f.item_lower[item] = inverse * dot(w.inside0 + e, w.outside0 + e, n)
            if is_whole(c, w, item):
                f.item_same[item] = (inverse * power_of_two(f.lower_e[item] - f.upper_e[item])
                                     * dot(w.inside0 + e, w.outside1 + e, n))


# ---------------------------------------------------------------------------------------------
# the packed forest
# ---------------------------------------------------------------------------------------------
cdef int reserve_packed(Work* w, Py_ssize_t items, Py_ssize_t begins, Py_ssize_t edges) noexcept nogil:
    """Make room for more items, begins and edges."""
    cdef Packed* p = &w.packed
    if reserve(<void**>&w.place, 1, &w.places_size, edges, sizeof(Py_ssize_t)):
        return -1
    edges += p.n_edges
    if (edges - p.n_edges > MOST or items + p.n_items > MOST
            or reserve(<void**>&p.items, 1, &p.items_size, 3 * (items + p.n_items))
            or reserve(<void**>&p.begins, 1, &p.begins_size, begins + p.n_begins)
            or reserve(<void**>&p.tails, 1, &p.tails_size, 2 * edges)
            or reserve(<void**>&p.made, 2, &p.made_size, edges)
            or reserve(<void**>&p.scores, 3, &p.scores_size, edges, sizeof(double))
            or reserve(<void**>&p.best, 1, &p.best_size, edges, 1)):
        return -1
    return 0


cdef inline double floored_log(double q) noexcept nogil:
    return log(q) if q > FLOOR else log(FLOOR)


cdef inline void add_edge(Packed* p, Py_ssize_t e, double q, double log_q, double log_head) noexcept nogil:
    p.scores[e] += log_q - log_head
    p.posteriors[e] += q
    p.logs[e] += log_q


cdef void add_scores(const Coarse* c, Work* w) noexcept nogil:
    """Add the posteriors of the last pass to those of the packed edges."""
    cdef Forest* f = &w.f
    cdef Packed* p = &w.packed
    cdef const Py_ssize_t* place = w.place
    cdef int x, e, item
    cdef double head
    for x in range(f.n_groups):
        head = floored_log(f.item_lower[f.group_parent[x]])
        for e in range(f.group_edge[x], f.group_edge[x + 1]):
            add_edge(p, place[e], f.edge_q[e], floored_log(f.edge_q[e]), head)
    place += f.n_edges
    for x in range(f.n_unaries):
        item = f.unary_parent[x]
        head = floored_log(f.item_lower[item] if f.item_symbol[f.unary_child[x]] < c.n_tags
                           else f.item_upper[item])
        add_edge(p, place[x], f.unary_q[x], floored_log(f.unary_q[x]), 0.0)
        p.scores[place[x]] -= head
    place += f.n_unaries
    for item in range(f.n_items):
        head = floored_log(f.item_upper[item])
        if f.item_symbol[item] < c.n_tags:
            add_edge(p, place[item], f.item_upper[item], head, head)
        elif place[item] >= 0:
            add_edge(p, place[item], f.item_same[item], floored_log(f.item_same[item]), head)
    place += f.n_items
    for x in range(f.n_roots):
        add_edge(p, place[x], f.root_q[x], floored_log(f.root_q[x]), 0.0)


cdef inline Py_ssize_t pack_edge(Packed* p, int32_t* begins, int head, int first, int second, Py_ssize_t made,
                                 int chain) noexcept nogil:
    """Put an edge without a score at the next free place of its head, begins[head + 1]; return it."""
    cdef Py_ssize_t e = p.n_edges + begins[head + 1]
    begins[head + 1] += 1
    p.tails[2 * e] = first
    p.tails[2 * e + 1] = second
    p.made[e] = <int32_t>made
    p.chain[e] = chain
    return e


cdef int pack_forest(const Coarse* c, Work* w) noexcept nogil:
    """Append the forest as a hypergraph without scores, and keep the place of each edge.

    The nodes of a cell are its tags, the lower nodes of its phrases, and their upper nodes; the
    last node is the root. A node has its binary edges first, then unary ones, then the one that
    takes over the lower node, unless constraints forbid it.
    """
    cdef Forest* f = &w.f
    cdef Packed* p = &w.packed
    cdef int cell, item, x, e, first, child, n_nodes = 0
    cdef Py_ssize_t n_edges
    cdef int32_t* lower
    cdef int32_t* upper
    cdef int32_t* begins
    cdef int32_t* out
    cdef Py_ssize_t* place
    cdef bint tag
    if reserve(<void**>&w.lower_number, 2, &w.numbers_size, f.n_items + 1):
        return OUT_OF_MEMORY
    lower = w.lower_number
    upper = w.upper_number
    for cell in range(f.n_cells):
        item = f.cell_item[cell]
        while item < f.cell_item[cell + 1] and f.item_symbol[item] < c.n_tags:
            upper[item] = n_nodes
            n_nodes += 1
            item += 1
        first = item
        for item in range(first, f.cell_item[cell + 1]):
            lower[item] = n_nodes
            n_nodes += 1
        for item in range(first, f.cell_item[cell + 1]):
            upper[item] = n_nodes
            n_nodes += 1
    n_nodes += 1
    n_edges = <Py_ssize_t>f.n_edges + f.n_unaries + f.n_items + f.n_roots
    if reserve_packed(w, f.n_items, n_nodes + 2, n_edges):
        return OUT_OF_MEMORY
    out = p.items + 3 * p.n_items
    for item in range(f.n_items):
        out[3 * item] = f.item_symbol[item]
        out[3 * item + 1] = f.cell_i[f.item_cell[item]]
        out[3 * item + 2] = f.cell_j[f.item_cell[item]]
    # Counts of edges, two places after their heads; their sums are the next free places.
    begins = p.begins + p.n_begins
    memset(begins, 0, <size_t>(n_nodes + 2) * 4)
    for item in range(f.n_items):
        if is_whole(c, w, item):
            begins[upper[item] + 2] += 1
        else:
            n_edges -= 1
    for x in range(f.n_groups):
        begins[lower[f.group_parent[x]] + 2] += f.group_edge[x + 1] - f.group_edge[x]
    for x in range(f.n_unaries):
        tag = f.item_symbol[f.unary_child[x]] < c.n_tags
        begins[(lower if tag else upper)[f.unary_parent[x]] + 2] += 1
    begins[n_nodes + 1] += f.n_roots
    for x in range(n_nodes):
        begins[x + 2] += begins[x + 1]
    memset(p.scores + p.n_edges, 0, n_edges * sizeof(double))
    memset(p.posteriors + p.n_edges, 0, n_edges * sizeof(double))
    memset(p.logs + p.n_edges, 0, n_edges * sizeof(double))
    memset(p.best + p.n_edges, 0, n_edges)
    place = w.place
    for x in range(f.n_groups):
        item = f.group_parent[x]
        for e in range(f.group_edge[x], f.group_edge[x + 1]):
            place[e] = pack_edge(p, begins, lower[item], upper[f.edge_left[e]],
                                 upper[f.edge_right[e]], p.n_items + item, -1)
    place += f.n_edges
    for x in range(f.n_unaries):
        item = f.unary_parent[x]
        child = f.unary_child[x]
        tag = f.item_symbol[child] < c.n_tags
        place[x] = pack_edge(p, begins, (lower if tag else upper)[item],
                             (upper if tag else lower)[child], -1, p.n_items + item,
                             f.unary_rule[x])
    place += f.n_unaries
    for item in range(f.n_items):
        if f.item_symbol[item] < c.n_tags:
            place[item] = pack_edge(p, begins, upper[item], -1, -1, p.n_items + item, -1)
        elif not is_whole(c, w, item):
            place[item] = -1
        else:
            place[item] = pack_edge(p, begins, upper[item], lower[item], -1, -1, -1)
    place += f.n_items
    for x in range(f.n_roots):
        place[x] = pack_edge(p, begins, n_nodes - 1, upper[f.root_item[x]], -1, -1, -1)
    p.n_items += f.n_items
    p.n_begins += n_nodes + 1
    p.n_edges += n_edges
    return PARSED


cdef int read_tree(const Coarse* c, Work* w, const int32_t* items, const int32_t* begins, Py_ssize_t n_nodes,
                   Py_ssize_t first, const uint8_t* kept, int32_t* item_of) noexcept nogil:
    """Make one tree of a packed forest the forest. Returns UNPARSED for edges that are not a tree.

    items: of all sentences. first: the first edge of the sentence. kept: which edges are in the
    tree, beginning with that one. item_of: workspace (n_nodes).
    """
    cdef Forest* f = &w.f
    cdef Packed* p = &w.packed
    cdef Py_ssize_t v, e
    cdef int cell = -1, item, left, right, pair, x, symbol
    cdef const int32_t* own
    f.n_cells = f.n_items = f.n_groups = f.n_edges = f.n_unaries = f.n_roots = 0
    for v in range(n_nodes):
        item_of[v] = -1
        for e in range(begins[v], begins[v + 1]):
            if not kept[e]:
                continue
            left = right = -1
            if p.tails[2 * (first + e)] >= 0:
                left = item_of[p.tails[2 * (first + e)]]
                if left < 0:
                    return UNPARSED
            if p.tails[2 * (first + e) + 1] >= 0:
                right = item_of[p.tails[2 * (first + e) + 1]]
                if right < 0:
                    return UNPARSED
            if item_of[v] >= 0:
                return UNPARSED
            item_of[v] = left
            if p.made[first + e] < 0:
                continue
            own = items + 3 * p.made[first + e]
            symbol = own[0]
            if reserve_more(f, 1, 1, 1, 1, 1):
                return OUT_OF_MEMORY
            if cell < 0 or f.cell_i[cell] != own[1] or f.cell_j[cell] != own[2]:
                cell += 1
                f.cell_i[cell] = own[1]
                f.cell_j[cell] = own[2]
                f.cell_item[cell] = f.n_items
                f.cell_group[cell] = f.n_groups
                f.cell_unary[cell] = f.n_unaries
                f.n_cells = cell + 1
            item = f.n_items
            item_of[v] = item
            f.item_symbol[item] = symbol
            f.item_cell[item] = cell
            f.n_items += 1
            if right >= 0:
                pair = f.item_symbol[left] * c.n_symbols + f.item_symbol[right]
                for x in range(c.pairs[pair], c.pairs[pair + 1]):
                    if c.rules[3 * x] == symbol:
                        f.group_rule[f.n_groups] = x
                f.group_parent[f.n_groups] = item
                f.group_edge[f.n_groups] = f.n_edges
                f.edge_left[f.n_edges] = left
                f.edge_right[f.n_edges] = right
                f.n_edges += 1
                f.n_groups += 1
                f.group_edge[f.n_groups] = f.n_edges
            elif left >= 0:
                f.unary_parent[f.n_unaries] = item
                f.unary_child[f.n_unaries] = left
                f.unary_rule[f.n_unaries] = p.chain[first + e]
                f.n_unaries += 1
            f.cell_item[cell + 1] = f.n_items
            f.cell_group[cell + 1] = f.n_groups
            f.cell_unary[cell + 1] = f.n_unaries
    item = item_of[n_nodes - 1]
    if item < 0:
        return UNPARSED
    for x in range(c.n_root):
        if c.root_rules[x] == f.item_symbol[item]:
            f.root_item[0] = item
            f.root_rule[0] = x
            f.n_roots = 1
    return PARSED


cdef inline int push(Work* w, int* n, int value) noexcept nogil:
    if reserve(<void**>&w.stack, 1, &w.stack_size, n[0] + 1):
        return OUT_OF_MEMORY
    w.stack[n[0]] = value
    n[0] += 1
    return PARSED


cdef inline void mark(Work* w, Py_ssize_t number) noexcept nogil:
    """Mark an edge of the packed forest as part of the best derivation."""
    w.packed.best[w.place[number]] = 1


cdef int best_derivation(const Coarse* c, const Fine* g, Work* w, const float* lexicon, int stride) noexcept nogil:
    """Mark the edges of the derivation of highest probability, substates and all.

    The forest must be packed. Overwrites the inside scores.
    """
    cdef Forest* f = &w.f
    cdef int cell, x, y, u, v, e, parent, child, rule, nb, nc, left, right, item, n = 0, s = 0
    cdef int root = -1, chosen
    cdef float value, top = 0.0, factor
    cdef const float* b
    cdef const float* d
    cdef const float* p
    inside_fine(c, g, w, lexicon, stride, True)
    for x in range(f.n_roots):
        item = f.root_item[x]
        p = g.root + g.root_offsets[f.root_rule[x]]
        factor = power_of_two(f.upper_e[item] - w.z_e)
        for y in range(g.n[f.item_symbol[item]]):
            value = factor * p[y] * w.inside1[f.item_offset[item] + y]
            if value > top:
                top = value
                root = x
                s = y
    if root < 0:
        return UNPARSED
    mark(w, f.n_edges + f.n_unaries + f.n_items + root)
    # From the top: pairs of an item and a substate of its upper node.
    if push(w, &n, f.root_item[root]) or push(w, &n, s):
        return OUT_OF_MEMORY
    while n:
        s = w.stack[n - 1]
        item = w.stack[n - 2]
        n -= 2
        cell = f.item_cell[item]
        # The number of the packed edge: first that of the upper node, or of the tag.
        chosen = f.n_edges + f.n_unaries + item
        if f.item_symbol[item] < c.n_tags:
            mark(w, chosen)
            continue
        parent = item
        top = w.inside0[f.item_offset[item] + s] * power_of_two(f.lower_e[item] - f.upper_e[item])
        y = s
        if not is_whole(c, w, item):
            chosen = -1
            top = -1.0
        for x in range(f.cell_unary[cell], f.cell_unary[cell + 1]):
            child = f.unary_child[x]
            if f.unary_parent[x] != item or f.item_symbol[child] < c.n_tags:
                continue
            nc = g.n[f.item_symbol[child]]
            p = unary_row(g, f.unary_rule[x], s, nc, w.block)
            factor = power_of_two(f.lower_e[child] - f.upper_e[item])
            for v in range(nc):
                value = factor * p[v] * w.inside0[f.item_offset[child] + v]
                if value > top:
                    top = value
                    parent = child
                    y = v
                    chosen = f.n_edges + x
        if chosen < 0:
            return UNPARSED
        mark(w, chosen)
        # Then that of the lower node, and the substates below it.
        s = y
        top = -1.0
        chosen = -1
        nb = nc = 0
        for x in range(f.cell_unary[cell], f.cell_unary[cell + 1]):
            child = f.unary_child[x]
            if f.unary_parent[x] != parent or f.item_symbol[child] >= c.n_tags:
                continue
            e = g.n[f.item_symbol[child]]
            p = unary_row(g, f.unary_rule[x], s, e, w.block)
            factor = power_of_two(f.upper_e[child] - f.lower_e[parent])
            for v in range(e):
                value = factor * p[v] * w.inside1[f.item_offset[child] + v]
                if value > top:
                    top = value
                    chosen = f.n_edges + x
                    nb = v
        for x in range(f.cell_group[cell], f.cell_group[cell + 1]):
            if f.group_parent[x] != parent:
                continue
            rule = f.group_rule[x]
            left = g.n[c.rules[3 * rule + 1]]
            right = g.n[c.rules[3 * rule + 2]]
            p = rule_row(g, rule, s, right, left * right, w.block)
            for e in range(f.group_edge[x], f.group_edge[x + 1]):
                factor = power_of_two(power_of_edge(f, e) - f.lower_e[parent])
                b = w.inside1 + f.item_offset[f.edge_left[e]]
                d = w.inside1 + f.item_offset[f.edge_right[e]]
                for u in range(left):
                    for v in range(right):
                        value = factor * p[u * right + v] * b[u] * d[v]
                        if value > top:
                            top = value
                            chosen = e
                            nb = u
                            nc = v
        if chosen < 0:  # of scores that are not numbers none is greater
            return UNPARSED
        mark(w, chosen)
        if chosen >= f.n_edges:
            if push(w, &n, f.unary_child[chosen - f.n_edges]) or push(w, &n, nb):
                return OUT_OF_MEMORY
        elif (push(w, &n, f.edge_right[chosen]) or push(w, &n, nc)
                or push(w, &n, f.edge_left[chosen]) or push(w, &n, nb)):
            return OUT_OF_MEMORY
    return PARSED
