# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of conditional training: inside and outside scores over cached forests.

Petrov & Klein (2007), equations 2 and 3, over the pruned forest of each training sentence: items (a
symbol over a span) with a mask of their substates, and the rules between them. Each span has two
layers of nodes, as in `_chart`. Lower nodes (inside I0, outside O0) are made of two children or of a
tag. Upper nodes, I1(A) = I0(A) + sum_B w(A -> B) I0(B), are the children of larger spans.

All scores are float32. The inside vector of each layer of an item is scaled by its own power of two
so that its largest entry is between 1 and 2; weights of any size can then occur in one cell. The
outside vector is scaled so that inside times outside over the score of the sentence is the
posterior. Entries 2**64 times smaller than the largest of their vector are set to zero. Outside
scores are therefore at most 2**64, and their products with weights up to 2**58 fit float32.
"""

from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

import numpy as np

from spacy_structlearn.arrays import cumulative
from spacy_structlearn.kernels.arrays cimport free_each, reserve
from spacy_structlearn.kernels.vectors cimport (
    add_matvec,
    dot,
    exponent_of,
    flush_subnormals,
    lowest_bit,
    masked_count,
    masked_inside,
    masked_outer,
    masked_outside,
    masked_push,
    power_of_two,
    restore_subnormals,
    vecmat,
)

cdef int NOTHING = -(1 << 28)  # power of two of a vector of zeros
cdef double LOG_2 = 0.6931471805599453
cdef int MOST = 64  # largest number of substates of a symbol: the bits of a mask
cdef float TINY = 5.421010862427522e-20  # 2**-64


ARRAYS = (
    "sentence_cell", "cell_item", "cell_group", "cell_unary", "item_symbol", "item_terminal",
    "item_mask", "group_parent", "group_rule", "group_edge", "edge_left", "edge_right",
    "unary_parent", "unary_child", "unary_rule", "sentence_root", "root_item", "root_rule",
    "gold_item", "gold_edge", "gold_unary", "gold_root",
)


# The kind of element that each array has an entry of.
KINDS = {name: name.split("_")[name.startswith("gold")] for name in ARRAYS}
# Arrays of offsets have one more entry; the kind of element that they delimit.
PARTS = {
    name: name.split("_")[1]
    for name in ("sentence_cell", "cell_item", "cell_group", "cell_unary", "group_edge", "sentence_root")
}
# An array of each kind of element.
COUNTED = {kind: name for name, kind in KINDS.items()}


cdef struct Weights:
    const int32_t* n
    const float* binary
    const int64_t* binary_offsets
    const float* unary
    const int64_t* unary_offsets
    const float* root
    const int64_t* root_offsets
    const float* terminal
    const int64_t* terminal_offsets


cdef struct Sums:
    # Expected counts are added here; NULL: none are wanted.
    float* binary
    float* unary
    float* root
    float* terminal


cdef struct Memory:
    # Vectors of the items of one sentence: where they begin, and their powers of two. Arrays of one
    # size are neighbours, and are allocated together.
    int n_items, items_size
    Py_ssize_t n_values
    int values_size
    int32_t* offset
    int32_t* power0
    int32_t* power1
    float* inside0
    float* inside1
    float* outside0
    float* outside1
    float* edge_q
    float* unary_q
    float* root_q
    int edges_size, unaries_size, roots_size
    float* block
    float* pairs
    int block_size
    float above[64]  # MOST
    float z
    int z_power


def _check_offsets(offsets, total):
    if not len(offsets) or offsets[0] or offsets[len(offsets) - 1] != total or (
        (offsets[1:] < offsets[:len(offsets) - 1]).any()
    ):
        raise ValueError("offsets that do not delimit parts")


cdef class ForestArrays:
    """The forests of some sentences, one after another. Arrays are int32 unless stated otherwise.

    rules, unary_rules, root_rules: shapes (R, 3), (U, 2), (K,).
    sentence_cell: (S + 1), the first cell of each sentence; cells are ordered by width.
    cell_item, cell_group, cell_unary: (C + 1), the first element of each cell. Tags come first
        among the items of a cell, and unaries over tags first among its unaries.
    item_symbol; item_terminal: the index of the weights of a tag, -1 for other items; item_mask:
        uint64.
    group_parent, group_rule, group_edge: (G + 1): the edges of one rule to one item.
    edge_left, edge_right; unary_parent, unary_child, unary_rule.
    sentence_root: (S + 1); root_item, root_rule.
    gold_item, gold_edge, gold_unary, gold_root: uint8, marks of the gold tree, which is not pruned.

    Raises ValueError if the arrays do not fit together.
    """

    cdef readonly int n_tags, n_symbols
    cdef const int32_t[:, ::1] rules
    cdef const int32_t[:, ::1] unary_rules
    cdef const int32_t[:, ::1] root_rules
    cdef int32_t[::1] sentence_cell, cell_item, cell_group, cell_unary, item_symbol, item_terminal
    cdef uint64_t[::1] item_mask
    cdef int32_t[::1] group_parent, group_rule, group_edge, edge_left, edge_right
    cdef int32_t[::1] unary_parent, unary_child, unary_rule, sentence_root, root_item, root_rule
    cdef uint8_t[::1] gold_item, gold_edge, gold_unary, gold_root
    cdef Py_ssize_t n_terminals

    def __init__(
        self, int n_tags, int n_symbols, rules, unary_rules, root_rules, dict arrays not None
    ):
        self.n_tags, self.n_symbols = n_tags, n_symbols
        self.rules, self.unary_rules, self.root_rules = rules, unary_rules, root_rules[:, None]
        for array in (rules, unary_rules, root_rules):
            if np.size(array) and not 0 <= np.min(array) <= np.max(array) < n_symbols:
                raise ValueError("a rule with an unknown symbol")
        for name in ARRAYS:
            array = arrays[name]
            if not isinstance(array, np.ndarray) or not array.flags.c_contiguous or array.ndim != 1:
                raise ValueError(f"{name} must be a contiguous vector")
        (
            self.sentence_cell, self.cell_item, self.cell_group, self.cell_unary, self.item_symbol,
            self.item_terminal, self.item_mask, self.group_parent, self.group_rule, self.group_edge,
            self.edge_left, self.edge_right, self.unary_parent, self.unary_child, self.unary_rule,
            self.sentence_root, self.root_item, self.root_rule, self.gold_item, self.gold_edge,
            self.gold_unary, self.gold_root,
        ) = [arrays[name] for name in ARRAYS]
        self._check_sizes(arrays)
        self._check_places()

    def _check_sizes(self, arrays):
        """Raise ValueError unless there is one entry for each element, and offsets delimit them."""
        if self.rules.shape[1] != 3 or self.unary_rules.shape[1] != 2:
            raise ValueError("rules of the wrong shape")
        counts = {kind: len(arrays[name]) - (name in PARTS) for kind, name in COUNTED.items()}
        for name in ARRAYS:
            array = arrays[name]
            if len(array) != counts[KINDS[name]] + (name in PARTS):
                raise ValueError("arrays of different lengths")
            if name in PARTS:
                _check_offsets(array, counts[PARTS[name]])

    def _check_places(self):
        """Raise ValueError unless all items are what their rules and their cells ask for."""
        cdef Py_ssize_t s, c, x, e
        cdef int symbol, rule, first, begin, end
        self.n_terminals = 0
        for x in range(self.item_symbol.shape[0]):
            symbol = self.item_symbol[x]
            if not 0 <= symbol < self.n_symbols or (
                (symbol < self.n_tags) != (self.item_terminal[x] >= 0)
            ):
                raise ValueError("an item with an unknown symbol")
            self.n_terminals = max(self.n_terminals, <Py_ssize_t>self.item_terminal[x] + 1)
        for s in range(self.n_sentences):
            first = end = self.cell_item[self.sentence_cell[s]]
            for c in range(self.sentence_cell[s], self.sentence_cell[s + 1]):
                begin, end = self.cell_item[c], self.cell_item[c + 1]
                for x in range(self.cell_group[c], self.cell_group[c + 1]):
                    rule = self.group_rule[x]
                    self.check(self.group_parent[x], begin, end, self.rules, rule, 0)
                    for e in range(self.group_edge[x], self.group_edge[x + 1]):
                        self.check(self.edge_left[e], first, begin, self.rules, rule, 1)
                        self.check(self.edge_right[e], first, begin, self.rules, rule, 2)
                for x in range(self.cell_unary[c], self.cell_unary[c + 1]):
                    rule = self.unary_rule[x]
                    self.check(self.unary_parent[x], begin, end, self.unary_rules, rule, 0)
                    self.check(self.unary_child[x], begin, end, self.unary_rules, rule, 1)
            for x in range(self.sentence_root[s], self.sentence_root[s + 1]):
                self.check(self.root_item[x], first, end, self.root_rules, self.root_rule[x], 0)

    cdef inline int check(self, int item, int first, int end, const int32_t[:, ::1] rules, int rule,
                          int column) except -1:
        if not first <= item < end or not 0 <= rule < rules.shape[0] or (
            rules[rule, column] != self.item_symbol[item]
        ):
            raise ValueError("an edge, unary or root and its rule do not agree")
        return 0

    @property
    def n_sentences(self):
        return self.sentence_cell.shape[0] - 1


cdef class Scratch:
    """Scratch memory of one thread; it grows to the largest forest and is used again."""

    cdef Memory memory

    def __cinit__(self):
        memset(&self.memory, 0, sizeof(Memory))

    def __dealloc__(self):
        cdef Memory* w = &self.memory
        free_each(<void**>&w.offset, <void**>&w.root_q)
        free_each(<void**>&w.block, <void**>&w.pairs)


cdef int lay_out(ForestArrays f, Py_ssize_t s, const Weights* g, Memory* w) noexcept nogil:
    """Place the vectors of the items of a sentence. Returns -1 if there is too little memory."""
    cdef int first = f.cell_item[f.sentence_cell[s]], end = f.cell_item[f.sentence_cell[s + 1]]
    cdef int n = end - first, x, edges, unaries
    cdef Py_ssize_t size = 0
    if reserve(<void**>&w.offset, 3, &w.items_size, n + 1):
        return -1
    for x in range(n):
        w.offset[x] = <int32_t>size
        size += g.n[f.item_symbol[first + x]]
    w.offset[n] = <int32_t>size
    w.n_items, w.n_values = n, size
    edges = (f.group_edge[f.cell_group[f.sentence_cell[s + 1]]]
             - f.group_edge[f.cell_group[f.sentence_cell[s]]])
    unaries = f.cell_unary[f.sentence_cell[s + 1]] - f.cell_unary[f.sentence_cell[s]]
    if (reserve(<void**>&w.inside0, 4, &w.values_size, size)
            or reserve(<void**>&w.edge_q, 1, &w.edges_size, edges)
            or reserve(<void**>&w.unary_q, 1, &w.unaries_size, unaries)
            or reserve(<void**>&w.root_q, 1, &w.roots_size, f.sentence_root[s + 1] - f.sentence_root[s])
            or reserve(<void**>&w.block, 2, &w.block_size, MOST * MOST)):
        return -1
    return 0


cdef inline int scaled(float* v, int n, uint64_t mask, int power) noexcept nogil:
    """Scale the largest entry to between 1 and 2, and clear masked ones. Returns the power."""
    cdef int x, e
    cdef float largest = 0.0, f
    for x in range(n):
        if not mask >> x & 1:
            v[x] = 0.0
        elif v[x] > largest:
            largest = v[x]
    if largest == 0.0:
        return NOTHING
    e = exponent_of(largest)
    f = power_of_two(-e)
    for x in range(n):
        v[x] = v[x] * f if v[x] * f >= TINY else 0.0
    return power + e


cdef int inside(ForestArrays f, Py_ssize_t s, const Weights* g, Memory* w) noexcept nogil:
    """Compute the inside scores of a sentence; its own score is z 2**z_power.

    Returns 0, or -1 if there is no derivation.
    """
    cdef int first = f.cell_item[f.sentence_cell[s]], cell, item, x, e, here, n, nb, nc, rule, i
    cdef int parent, child, left, right
    cdef uint64_t rows
    cdef float value
    cdef float* out
    cdef const float* values
    for x in range(w.n_items):
        w.power0[x] = NOTHING
        w.power1[x] = NOTHING
    memset(w.inside0, 0, w.n_values * 4)
    for cell in range(f.sentence_cell[s], f.sentence_cell[s + 1]):
        item = f.cell_item[cell]
        while item < f.cell_item[cell + 1] and f.item_symbol[item] < f.n_tags:
            i = item - first
            n = g.n[f.item_symbol[item]]
            memcpy(w.inside1 + w.offset[i], g.terminal + g.terminal_offsets[f.item_terminal[item]],
                   n * 4)
            w.power1[i] = scaled(w.inside1 + w.offset[i], n, f.item_mask[item], 0)
            item += 1
        # The largest power of two of the children of each lower node.
        for x in range(f.cell_group[cell], f.cell_group[cell + 1]):
            parent = f.group_parent[x] - first
            for e in range(f.group_edge[x], f.group_edge[x + 1]):
                here = w.power1[f.edge_left[e] - first] + w.power1[f.edge_right[e] - first]
                if here > w.power0[parent]:
                    w.power0[parent] = here
        x = f.cell_unary[cell]
        while x < f.cell_unary[cell + 1] and f.item_symbol[f.unary_child[x]] < f.n_tags:
            parent = f.unary_parent[x] - first
            here = w.power1[f.unary_child[x] - first]
            if here > w.power0[parent]:
                w.power0[parent] = here
            x += 1
        for x in range(f.cell_group[cell], f.cell_group[cell + 1]):
            parent = f.group_parent[x] - first
            rule = f.group_rule[x]
            nb = g.n[f.rules[rule, 1]]
            nc = g.n[f.rules[rule, 2]]
            if nb * nc * g.n[f.rules[rule, 0]] == 1:
                value = 0.0
                for e in range(f.group_edge[x], f.group_edge[x + 1]):
                    left = f.edge_left[e] - first
                    right = f.edge_right[e] - first
                    value += (w.inside1[w.offset[left]] * w.inside1[w.offset[right]]
                              * power_of_two(w.power1[left] + w.power1[right] - w.power0[parent]))
                w.inside0[w.offset[parent]] += value * g.binary[g.binary_offsets[rule]]
                continue
            rows = 0
            for e in range(f.group_edge[x], f.group_edge[x + 1]):
                rows |= f.item_mask[f.edge_left[e]]
            clear_rows(w.block, rows, nc)
            for e in range(f.group_edge[x], f.group_edge[x + 1]):
                left = f.edge_left[e] - first
                right = f.edge_right[e] - first
                masked_outer(w.block, f.item_mask[f.edge_left[e]], w.inside1 + w.offset[left],
                             w.inside1 + w.offset[right],
                             power_of_two(w.power1[left] + w.power1[right] - w.power0[parent]), nc)
            masked_inside(w.inside0 + w.offset[parent], f.item_mask[f.group_parent[x]], rows,
                          g.binary + g.binary_offsets[rule], w.block, nb, 1.0, nc)
        x = f.cell_unary[cell]
        while x < f.cell_unary[cell + 1] and f.item_symbol[f.unary_child[x]] < f.n_tags:
            parent = f.unary_parent[x] - first
            child = f.unary_child[x] - first
            add_matvec(w.inside0 + w.offset[parent], g.unary + g.unary_offsets[f.unary_rule[x]],
                       w.inside1 + w.offset[child], g.n[f.item_symbol[f.unary_parent[x]]],
                       g.n[f.item_symbol[f.unary_child[x]]],
                       power_of_two(w.power1[child] - w.power0[parent]))
            x += 1
        # The lower nodes are done.
        for i in range(item - first, f.cell_item[cell + 1] - first):
            n = w.offset[i + 1] - w.offset[i]
            w.power0[i] = scaled(w.inside0 + w.offset[i], n, f.item_mask[first + i], w.power0[i])
            w.power1[i] = w.power0[i]
        here = x
        for x in range(here, f.cell_unary[cell + 1]):
            parent = f.unary_parent[x] - first
            child = f.unary_child[x] - first
            if w.power0[child] > w.power1[parent]:
                w.power1[parent] = w.power0[child]
        for i in range(item - first, f.cell_item[cell + 1] - first):
            out = w.inside1 + w.offset[i]
            values = w.inside0 + w.offset[i]
            if w.power1[i] == w.power0[i]:
                memcpy(out, values, (w.offset[i + 1] - w.offset[i]) * 4)
            else:
                for e in range(w.offset[i + 1] - w.offset[i]):
                    out[e] = values[e] * power_of_two(w.power0[i] - w.power1[i])
        for x in range(here, f.cell_unary[cell + 1]):
            parent = f.unary_parent[x] - first
            child = f.unary_child[x] - first
            add_matvec(w.inside1 + w.offset[parent], g.unary + g.unary_offsets[f.unary_rule[x]],
                       w.inside0 + w.offset[child], g.n[f.item_symbol[f.unary_parent[x]]],
                       g.n[f.item_symbol[f.unary_child[x]]],
                       power_of_two(w.power0[child] - w.power1[parent]))
        if here < f.cell_unary[cell + 1]:
            for i in range(item - first, f.cell_item[cell + 1] - first):
                n = w.offset[i + 1] - w.offset[i]
                w.power1[i] = scaled(w.inside1 + w.offset[i], n, f.item_mask[first + i],
                                     w.power1[i])
    w.z_power = NOTHING
    for x in range(f.sentence_root[s], f.sentence_root[s + 1]):
        i = f.root_item[x] - first
        w.z_power = max(w.z_power, w.power1[i])
    w.z = 0.0
    for x in range(f.sentence_root[s], f.sentence_root[s + 1]):
        i = f.root_item[x] - first
        w.z += (power_of_two(w.power1[i] - w.z_power)
                * dot(g.root + g.root_offsets[f.root_rule[x]], w.inside1 + w.offset[i],
                      w.offset[i + 1] - w.offset[i]))
    return 0 if w.z > 0 and w.z < INFINITY else -1


cdef inline void clear_rows(float* block, uint64_t rows, int nc) noexcept nogil:
    while rows:
        memset(block + lowest_bit(rows) * nc, 0, nc * 4)
        rows &= rows - 1


cdef inline void where_inside(float* out, const float* values, int n) noexcept nogil:
    """Clear outside scores where inside scores are zero: only there can they be unbounded."""
    cdef int x
    for x in range(n):
        out[x] = out[x] if values[x] > 0.0 else 0.0


cdef void outside(ForestArrays f, Py_ssize_t s, const Weights* g, Memory* w, const Sums* sums) noexcept nogil:
    """Compute outside scores and posteriors of edges and unaries; add expected counts to `sums`."""
    cdef int first = f.cell_item[f.sentence_cell[s]], cell, item, x, y, e, n, nb, nc, rule, i, end
    cdef int parent, child, left, right, tags, most
    cdef int first_edge = f.group_edge[f.cell_group[f.sentence_cell[s]]]
    cdef int first_unary = f.cell_unary[f.sentence_cell[s]]
    cdef uint64_t rows
    cdef float inverse = 1.0 / w.z, factor, value, weight, total_q
    cdef float* out
    cdef float* total
    cdef const float* p
    cdef const float* o
    cdef const float* v
    memset(w.outside1, 0, w.n_values * 4)
    for x in range(f.sentence_root[s], f.sentence_root[s + 1]):
        i = f.root_item[x] - first
        factor = power_of_two(w.power1[i] - w.z_power)
        p = g.root + g.root_offsets[f.root_rule[x]]
        out = w.outside1 + w.offset[i]
        v = w.inside1 + w.offset[i]
        value = 0.0
        for y in range(w.offset[i + 1] - w.offset[i]):
            out[y] += factor * p[y]
            value += p[y] * v[y]
        w.root_q[x - f.sentence_root[s]] = value * factor * inverse
        if sums != NULL:
            total = sums.root + g.root_offsets[f.root_rule[x]]
            for y in range(w.offset[i + 1] - w.offset[i]):
                total[y] += inverse * factor * p[y] * v[y]
    for cell in range(f.sentence_cell[s + 1] - 1, f.sentence_cell[s] - 1, -1):
        end = f.cell_item[cell + 1] - first
        tags = f.cell_item[cell] - first
        while tags < end and f.item_symbol[first + tags] < f.n_tags:
            tags += 1
        for i in range(tags, end):
            n = w.offset[i + 1] - w.offset[i]
            out = w.outside1 + w.offset[i]
            where_inside(out, w.inside1 + w.offset[i], n)
            factor = power_of_two(w.power0[i] - w.power1[i])
            for y in range(n):
                w.outside0[w.offset[i] + y] = factor * out[y]
        x = f.cell_unary[cell + 1] - 1
        while x >= f.cell_unary[cell] and f.item_symbol[f.unary_child[x]] >= f.n_tags:
            unary_outside(g, w, f.unary_rule[x], f.unary_parent[x] - first, f.unary_child[x] - first,
                          w.outside1, w.inside0, w.outside0, w.power1, w.power0, inverse,
                          &w.unary_q[x - first_unary], sums)
            x -= 1
        for i in range(tags, end):
            where_inside(w.outside0 + w.offset[i], w.inside0 + w.offset[i],
                         w.offset[i + 1] - w.offset[i])
        while x >= f.cell_unary[cell]:
            unary_outside(g, w, f.unary_rule[x], f.unary_parent[x] - first, f.unary_child[x] - first,
                          w.outside0, w.inside1, w.outside1, w.power0, w.power1, inverse,
                          &w.unary_q[x - first_unary], sums)
            x -= 1
        for i in range(f.cell_item[cell] - first, tags):
            n = w.offset[i + 1] - w.offset[i]
            where_inside(w.outside1 + w.offset[i], w.inside1 + w.offset[i], n)
            if sums != NULL:
                total = sums.terminal + g.terminal_offsets[f.item_terminal[first + i]]
                o = w.outside1 + w.offset[i]
                v = w.inside1 + w.offset[i]
                for y in range(n):
                    total[y] += inverse * o[y] * v[y]
        for x in range(f.cell_group[cell], f.cell_group[cell + 1]):
            parent = f.group_parent[x] - first
            if w.power0[parent] == NOTHING:
                for e in range(f.group_edge[x], f.group_edge[x + 1]):
                    w.edge_q[e - first_edge] = 0.0
                continue
            rule = f.group_rule[x]
            nb = g.n[f.rules[rule, 1]]
            nc = g.n[f.rules[rule, 2]]
            o = w.outside0 + w.offset[parent]
            if nb * nc * g.n[f.rules[rule, 0]] == 1:
                weight = g.binary[g.binary_offsets[rule]] * o[0]
                total_q = 0.0
                for e in range(f.group_edge[x], f.group_edge[x + 1]):
                    left = f.edge_left[e] - first
                    right = f.edge_right[e] - first
                    factor = weight * power_of_two(
                        w.power1[left] + w.power1[right] - w.power0[parent]
                    )
                    value = factor * w.inside1[w.offset[right]]
                    w.outside1[w.offset[left]] += value
                    value *= w.inside1[w.offset[left]]
                    w.outside1[w.offset[right]] += factor * w.inside1[w.offset[left]]
                    w.edge_q[e - first_edge] = value * inverse
                    total_q += value
                if sums != NULL:
                    sums.binary[g.binary_offsets[rule]] += total_q * inverse
                continue
            rows = 0
            most = NOTHING
            for e in range(f.group_edge[x], f.group_edge[x + 1]):
                rows |= f.item_mask[f.edge_left[e]]
                most = max(most, w.power1[f.edge_left[e] - first] + w.power1[f.edge_right[e] - first])
            # Outside scores are as large as inside scores are small: large weights would overflow.
            most = min(most - w.power0[parent], 0)
            for y in range(w.offset[parent + 1] - w.offset[parent]):
                w.above[y] = o[y] * power_of_two(most)
            o = w.above
            masked_outside(w.block, f.item_mask[f.group_parent[x]], rows,
                           g.binary + g.binary_offsets[rule], o, nb, nc)
            if sums != NULL:
                clear_rows(w.pairs, rows, nc)
            for e in range(f.group_edge[x], f.group_edge[x + 1]):
                left = f.edge_left[e] - first
                right = f.edge_right[e] - first
                factor = power_of_two(w.power1[left] + w.power1[right] - w.power0[parent] - most)
                if sums != NULL:
                    masked_outer(w.pairs, f.item_mask[f.edge_left[e]], w.inside1 + w.offset[left],
                                 w.inside1 + w.offset[right], factor, nc)
                value = masked_push(w.block, f.item_mask[f.edge_left[e]],
                                    w.inside1 + w.offset[left], w.inside1 + w.offset[right], factor,
                                    w.outside1 + w.offset[left], w.outside1 + w.offset[right], nc)
                w.edge_q[e - first_edge] = value * inverse
            if sums != NULL:
                masked_count(sums.binary + g.binary_offsets[rule], f.item_mask[f.group_parent[x]],
                             rows, g.binary + g.binary_offsets[rule], o, w.pairs, inverse, nb, nc)


cdef inline void unary_outside(
    const Weights* g, Memory* w, int rule, int parent, int child, const float* above,
    const float* below, float* out, const int32_t* power_above, const int32_t* power_below,
    float inverse, float* q, const Sums* sums,
) noexcept nogil:
    """Add the part of one unary to the outside scores of its child."""
    cdef int n = w.offset[parent + 1] - w.offset[parent], m = w.offset[child + 1] - w.offset[child]
    cdef int x, y
    cdef float factor, value, before
    cdef const float* o = above + w.offset[parent]
    cdef const float* v = below + w.offset[child]
    cdef float* into = out + w.offset[child]
    cdef const float* p = g.unary + g.unary_offsets[rule]
    cdef float* total
    q[0] = 0.0
    if power_above[parent] == NOTHING or power_below[child] == NOTHING:
        return
    x = power_below[child] - power_above[parent]
    before = power_of_two(min(x, 0))  # as in `outside`
    factor = power_of_two(max(x, 0))
    for x in range(n):
        w.above[x] = before * o[x]
    vecmat(w.block, p, w.above, n, m)
    for y in range(m):
        into[y] += factor * w.block[y]
        q[0] += w.block[y] * (factor * v[y])
    q[0] *= inverse
    if sums != NULL:
        total = sums.unary + g.unary_offsets[rule]
        for x in range(n):
            value = inverse * w.above[x]
            if value == 0.0:
                continue
            for y in range(m):
                # In this order nothing overflows: it is a part of the parent's inside score.
                total[x * m + y] += value * (p[x * m + y] * (factor * v[y]))


cdef int set_weights(
    ForestArrays f, Weights* g, tuple weights, Py_ssize_t begin, Py_ssize_t end
) except -1:
    """Check the arrays of `weights` for sentences `begin` to `end`, and point to them.

    The caller must keep the arrays alive.
    """
    if weights is None or len(weights) != 9:
        raise ValueError("there must be nine arrays of weights")
    cdef const int32_t[::1] substates = weights[0]
    cdef const float[::1] binary = weights[1], unary = weights[3], root = weights[5]
    cdef const float[::1] terminal = weights[7]
    cdef const int64_t[::1] binary_offsets = weights[2], unary_offsets = weights[4]
    cdef const int64_t[::1] root_offsets = weights[6], terminal_offsets = weights[8]
    cdef Py_ssize_t r
    cdef int s, t
    if not 0 <= begin <= end <= f.n_sentences:
        raise ValueError("no such sentence")
    if substates.shape[0] != f.n_symbols or terminal_offsets.shape[0] < f.n_terminals + 1:
        raise ValueError("an array has the wrong size")
    n = np.asarray(substates, dtype=np.int64)
    if len(n) and not 1 <= n.min() <= n.max() <= MOST:
        raise ValueError("a symbol with no substates or too many")
    for rules, values, offsets in zip((f.rules, f.unary_rules, f.root_rules), weights[1::2], weights[2::2]):
        ends = cumulative(n[np.asarray(rules)].prod(axis=1))
        if len(values) != ends[len(ends) - 1] or not np.array_equal(offsets, ends):
            raise ValueError("a block has the wrong size")
    _check_offsets(np.asarray(terminal_offsets), terminal.shape[0])
    for r in range(f.cell_item[f.sentence_cell[begin]], f.cell_item[f.sentence_cell[end]]):
        s = substates[f.item_symbol[r]]
        if s < MOST and f.item_mask[r] >> s:
            raise ValueError("a mask of more substates than there are")
        t = f.item_terminal[r]
        if t >= 0 and terminal_offsets[t + 1] - terminal_offsets[t] != s:
            raise ValueError("a word has the wrong number of weights")
    g.n = &substates[0]
    g.binary = &binary[0]
    g.binary_offsets = &binary_offsets[0]
    g.unary = &unary[0]
    g.unary_offsets = &unary_offsets[0]
    g.root = &root[0]
    g.root_offsets = &root_offsets[0]
    g.terminal = &terminal[0]
    g.terminal_offsets = &terminal_offsets[0]
    return 0


def expected_counts(
    ForestArrays f not None, Scratch workspace not None, Py_ssize_t begin, Py_ssize_t end,
    tuple weights, const uint8_t[::1] left_out, tuple sums, double[::1] log_z,
):
    """Compute log Z and expected counts of sentences `begin` to `end` (not included).

    weights: (substates, binary, binary_offsets, unary, unary_offsets, root, root_offsets, terminal,
        terminal_offsets), float32 and int64, see `forests.Weights`.
    left_out: uint8 (n_sentences), 1 for sentences to skip.
    sums: float32, in the layout of binary, unary, root and terminal; counts are added to them.
    log_z: float64 (n_sentences), set to -inf where there is no derivation.
    """
    cdef Weights g
    cdef Sums out
    cdef Py_ssize_t s
    cdef Memory* w = &workspace.memory
    cdef unsigned int mode
    cdef int short_of_memory = 0
    if sums is None or len(sums) != 4:
        raise ValueError("there must be four arrays of sums")
    cdef float[::1] binary = sums[0], unary = sums[1], root = sums[2], terminal = sums[3]
    set_weights(f, &g, weights, begin, end)
    if (
        log_z.shape[0] != f.n_sentences or left_out.shape[0] != f.n_sentences
        or binary.shape[0] != weights[1].shape[0] or unary.shape[0] != weights[3].shape[0]
        or root.shape[0] != weights[5].shape[0] or terminal.shape[0] != weights[7].shape[0]
    ):
        raise ValueError("an array has the wrong size")
    out.binary = &binary[0]
    out.unary = &unary[0]
    out.root = &root[0]
    out.terminal = &terminal[0]
    with nogil:
        mode = flush_subnormals()
        for s in range(begin, end):
            if left_out[s]:
                continue
            if lay_out(f, s, &g, w):
                short_of_memory = 1
                break
            if inside(f, s, &g, w):
                log_z[s] = -INFINITY
                continue
            log_z[s] = log(<double>w.z) + LOG_2 * w.z_power
            outside(f, s, &g, w, &out)
        restore_subnormals(mode)
    if short_of_memory:
        raise MemoryError


def scores(ForestArrays f not None, Scratch workspace not None, Py_ssize_t s, tuple weights):
    """All scores of one sentence, for tests and for figures.

    weights: as in `expected_counts`.

    Returns log Z; int64 (n_items + 1), where the vector of each item begins; I0, I1, O0, O1,
    float32, scaled so that I times O is a posterior; the posteriors of edges and of unaries,
    float32. None if there is no derivation.
    """
    cdef Weights g
    cdef Memory* w = &workspace.memory
    cdef Py_ssize_t n, x
    cdef int i
    cdef unsigned int mode
    set_weights(f, &g, weights, s, s + 1)
    if lay_out(f, s, &g, w):
        raise MemoryError
    mode = flush_subnormals()
    n = inside(f, s, &g, w)
    if n == 0:
        # Tags have no lower nodes.
        memset(w.outside0, 0, w.n_values * 4)
        outside(f, s, &g, w, NULL)
    restore_subnormals(mode)
    if n:
        return None
    offsets = np.array([w.offset[x] for x in range(w.n_items + 1)], dtype=np.int64)
    first_edge = f.group_edge[f.cell_group[f.sentence_cell[s]]]
    n_edges = f.group_edge[f.cell_group[f.sentence_cell[s + 1]]] - first_edge
    n_unaries = f.cell_unary[f.sentence_cell[s + 1]] - f.cell_unary[f.sentence_cell[s]]
    n = w.n_values
    return (
        log(<double>w.z) + LOG_2 * w.z_power,
        offsets,
        _copied(w.inside0, n), _copied(w.inside1, n),
        _copied(w.outside0, n) / np.float32(w.z), _copied(w.outside1, n) / np.float32(w.z),
        _copied(w.edge_q, n_edges), _copied(w.unary_q, n_unaries),
    )


cdef _copied(const float* values, Py_ssize_t n):
    return np.array(<const float[:n]>values) if n else np.empty(0, dtype=np.float32)


def prune(
    ForestArrays f not None, Scratch workspace not None, tuple weights, float keep, float keep_edge
):
    """Find what has a lower posterior and is not in the gold tree.

    weights: as in `expected_counts`.
    keep: least posterior of substates of items, whose bits in `item_mask` are cleared otherwise.
    keep_edge: least posterior of edges, unaries and roots.

    Returns bool (n_edges), (n_unaries) and (n_roots): which of them are left, with all their items.
    Everything is left of a sentence without a derivation.
    """
    cdef Weights g
    cdef Memory* w = &workspace.memory
    cdef Py_ssize_t s, x, e
    cdef int item, i, k, first, first_edge, first_unary, first_root, short_of_memory = 0
    cdef bint parsed
    cdef float inverse
    cdef unsigned int mode
    kept = [np.empty(n, dtype=bool) for n in (len(f.edge_left), len(f.unary_rule), len(f.root_rule))]
    cdef uint8_t[::1] edges, unaries, roots
    edges, unaries, roots = [marks.view(np.uint8) for marks in kept]
    set_weights(f, &g, weights, 0, f.n_sentences)
    with nogil:
        mode = flush_subnormals()
        for s in range(f.sentence_cell.shape[0] - 1):
            if lay_out(f, s, &g, w):
                short_of_memory = 1
                break
            parsed = inside(f, s, &g, w) == 0
            if parsed:
                outside(f, s, &g, w, NULL)
                inverse = 1.0 / w.z
            first = f.cell_item[f.sentence_cell[s]]
            first_unary = f.cell_unary[f.sentence_cell[s]]
            first_edge = f.group_edge[f.cell_group[f.sentence_cell[s]]]
            first_root = f.sentence_root[s]
            for item in range(first, first + w.n_items):
                if not parsed or f.gold_item[item]:
                    continue
                for i in range(w.offset[item - first], w.offset[item - first + 1]):
                    k = i - w.offset[item - first]
                    # Tags have no lower nodes.
                    if not (inverse * (w.inside1[i] * w.outside1[i]) >= keep
                            or f.item_symbol[item] >= f.n_tags
                            and inverse * (w.inside0[i] * w.outside0[i]) >= keep):
                        f.item_mask[item] &= ~(<uint64_t>1 << k)
            for x in range(first_unary, f.cell_unary[f.sentence_cell[s + 1]]):
                unaries[x] = (
                    (not parsed or f.gold_unary[x] or not w.unary_q[x - first_unary] < keep_edge)
                    and f.item_mask[f.unary_parent[x]] and f.item_mask[f.unary_child[x]]
                )
            for x in range(f.cell_group[f.sentence_cell[s]], f.cell_group[f.sentence_cell[s + 1]]):
                for e in range(f.group_edge[x], f.group_edge[x + 1]):
                    edges[e] = (
                        (not parsed or f.gold_edge[e] or not w.edge_q[e - first_edge] < keep_edge)
                        and f.item_mask[f.group_parent[x]] and f.item_mask[f.edge_left[e]]
                        and f.item_mask[f.edge_right[e]]
                    )
            for x in range(first_root, f.sentence_root[s + 1]):
                roots[x] = f.item_mask[f.root_item[x]] and (
                    not parsed or f.gold_root[x] or not w.root_q[x - first_root] < keep_edge
                )
        restore_subnormals(mode)
    if short_of_memory:
        raise MemoryError
    return kept
