# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""The forests of training sentences, on which conditional training calls the passes of the chart.

The arrays of a forest are those of `chart.passes`, of one sentence after another, with a mask of the
substates of each item. One sentence after another is loaded into a workspace of the chart, and
`passes._fine` computes its inside and outside scores and expected counts: Petrov & Klein (2007),
equations 2 and 3.
"""

from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

import numpy as np

from spacy_structlearn.arrays import cumulative
from spacy_structlearn.grammar.chart.passes._fine cimport (
    free_work,
    inside_fine,
    lay_out,
    outside_fine,
)
from spacy_structlearn.grammar.chart.passes._structures cimport *
from spacy_structlearn.kernels.arrays cimport grow_each
from spacy_structlearn.kernels.checks cimport check, check_ids, check_starts, check_table
from spacy_structlearn.kernels.vectors cimport flush_subnormals, restore_subnormals

cdef double LOG_2 = 0.6931471805599453
cdef int MOST_SUBSTATES = 64  # largest number of substates of a symbol: the bits of a mask


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
        for array in (rules, unary_rules, root_rules[:, None]):
            check_table(array, 0, n_symbols, "a rule with an unknown symbol")
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
        check(self.rules.shape[1] == 3 and self.unary_rules.shape[1] == 2, "rules of the wrong shape")
        counts = {kind: len(arrays[name]) - (name in PARTS) for kind, name in COUNTED.items()}
        for name in ARRAYS:
            array, n = arrays[name], counts[KINDS[name]] + (name in PARTS)
            check(len(array) == n, "arrays of different lengths")
            if name in PARTS:
                check_starts[int32_t](array, counts[PARTS[name]])

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

    cdef Work work

    def __cinit__(self):
        memset(&self.work, 0, sizeof(Work))

    def __dealloc__(self):
        free_work(&self.work)


cdef void move(int32_t* to, const int32_t[::1] values, Py_ssize_t begin, Py_ssize_t n, int first) noexcept nogil:
    """Copy n values from `begin` on, less the number of the first element of the sentence."""
    cdef Py_ssize_t x
    for x in range(n):
        to[x] = values[begin + x] - first


cdef int load(ForestArrays a, Py_ssize_t s, const Fine* g, Work* w) noexcept nogil:
    """Make the forest of a sentence that of the workspace. Returns -1 if memory is short."""
    cdef Forest* f = &w.f
    cdef int cell = a.sentence_cell[s], end = a.sentence_cell[s + 1], root = a.sentence_root[s]
    cdef int item = a.cell_item[cell], group = a.cell_group[cell], unary = a.cell_unary[cell]
    cdef int edge = a.group_edge[group]
    cdef int n_cells = end - cell, n_items = a.cell_item[end] - item
    cdef int n_groups = a.cell_group[end] - group, n_unaries = a.cell_unary[end] - unary
    cdef int n_edges = a.group_edge[group + n_groups] - edge, n_roots = a.sentence_root[s + 1] - root
    f.n_cells = f.n_items = f.n_groups = f.n_edges = f.n_unaries = 0
    if reserve_more(f, n_cells, n_items, n_groups, n_edges, n_unaries):
        return -1
    if n_roots > f.root_size:
        if grow_each(<void**>&f.root_item, 3, n_roots):
            return -1
        f.root_size = n_roots
    f.n_cells, f.n_items, f.n_groups, f.n_edges = n_cells, n_items, n_groups, n_edges
    f.n_unaries, f.n_roots = n_unaries, n_roots
    move(f.cell_item, a.cell_item, cell, n_cells + 1, item)
    move(f.cell_group, a.cell_group, cell, n_cells + 1, group)
    move(f.cell_unary, a.cell_unary, cell, n_cells + 1, unary)
    move(f.item_symbol, a.item_symbol, item, n_items, 0)
    move(f.group_parent, a.group_parent, group, n_groups, item)
    move(f.group_rule, a.group_rule, group, n_groups, 0)
    move(f.group_edge, a.group_edge, group, n_groups + 1, edge)
    move(f.edge_left, a.edge_left, edge, n_edges, item)
    move(f.edge_right, a.edge_right, edge, n_edges, item)
    move(f.unary_parent, a.unary_parent, unary, n_unaries, item)
    move(f.unary_child, a.unary_child, unary, n_unaries, item)
    move(f.unary_rule, a.unary_rule, unary, n_unaries, 0)
    move(f.root_item, a.root_item, root, n_roots, item)
    move(f.root_rule, a.root_rule, root, n_roots, 0)
    w.masks = &a.item_mask[0] + item
    w.words_of = &a.item_terminal[0] + item
    return lay_out(g, w)


cdef class Weights:
    """The arrays of `forests.Weights` as the passes read them.

    Raises ValueError unless they fit sentences `begin` to `end` of the forests.
    """

    cdef Fine fine
    cdef Coarse coarse
    cdef const float* words
    cdef tuple arrays
    cdef ForestArrays forests

    def __cinit__(
        self, ForestArrays f not None, tuple weights, Py_ssize_t begin, Py_ssize_t end
    ):
        check(weights is not None and len(weights) == 9, "there must be nine arrays of weights")
        cdef const int32_t[::1] substates = weights[0]
        cdef const float[::1] binary = weights[1], unary = weights[3], root = weights[5]
        cdef const float[::1] terminal = weights[7]
        cdef const int64_t[::1] binary_offsets = weights[2], unary_offsets = weights[4]
        cdef const int64_t[::1] root_offsets = weights[6], terminal_offsets = weights[8]
        cdef Py_ssize_t r
        cdef int s, t
        check(0 <= begin <= end <= f.n_sentences, "no such sentence")
        if substates.shape[0] != f.n_symbols or terminal_offsets.shape[0] < f.n_terminals + 1:
            raise ValueError("an array has the wrong size")
        check_ids(substates, 1, MOST_SUBSTATES + 1, "a symbol with no substates or too many")
        n = np.asarray(substates, dtype=np.int64)
        for rules, values, offsets in zip(
            (f.rules, f.unary_rules, f.root_rules), weights[1::2], weights[2::2]
        ):
            ends = cumulative(n[np.asarray(rules)].prod(axis=1))
            if len(values) != ends[len(ends) - 1] or not np.array_equal(offsets, ends):
                raise ValueError("a block has the wrong size")
        check_starts(terminal_offsets, terminal.shape[0])
        for r in range(f.cell_item[f.sentence_cell[begin]], f.cell_item[f.sentence_cell[end]]):
            s, t = substates[f.item_symbol[r]], f.item_terminal[r]
            if s < MOST_SUBSTATES and f.item_mask[r] >> s:
                raise ValueError("a mask of more substates than there are")
            if t >= 0 and terminal_offsets[t + 1] - terminal_offsets[t] != s:
                raise ValueError("a word has the wrong number of weights")
        self.arrays, self.forests = weights, f  # which the pointers need
        memset(&self.fine, 0, sizeof(Fine))
        self.fine.n = &substates[0]
        self.fine.binary, self.fine.binary_offsets = &binary[0], &binary_offsets[0]
        self.fine.unary, self.fine.unary_offsets = &unary[0], &unary_offsets[0]
        self.fine.root, self.fine.root_offsets = &root[0], &root_offsets[0]
        self.fine.word_offsets = &terminal_offsets[0]
        self.fine.widest = int(n.max(initial=1))
        self.words = &terminal[0]
        memset(&self.coarse, 0, sizeof(Coarse))
        self.coarse.n_tags, self.coarse.n_symbols = f.n_tags, f.n_symbols
        self.coarse.rules, self.coarse.unary_rules = &f.rules[0, 0], &f.unary_rules[0, 0]

    cdef float inside(self, Py_ssize_t s, Work* w) noexcept nogil:
        """Load a sentence, and return its score without `z_e`: 0 for none, -1 if memory is short."""
        cdef float z
        if load(self.forests, s, &self.fine, w) != PARSED:
            return -1.0
        z = inside_fine(&self.coarse, &self.fine, w, self.words, 0, False)
        return z if 0.0 < z < INFINITY else 0.0


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
    cdef Sums out
    cdef Py_ssize_t s
    cdef Work* w = &workspace.work
    cdef unsigned int mode
    cdef float z = 0.0
    check(sums is not None and len(sums) == 4, "there must be four arrays of sums")
    cdef float[::1] binary = sums[0], unary = sums[1], root = sums[2], terminal = sums[3]
    cdef Weights g = Weights(f, weights, begin, end)
    if log_z.shape[0] != f.n_sentences or left_out.shape[0] != f.n_sentences or (
        [len(part) for part in sums] != [len(part) for part in weights[1::2]]
    ):
        raise ValueError("an array has the wrong size")
    out.binary, out.unary, out.root, out.words = &binary[0], &unary[0], &root[0], &terminal[0]
    with nogil:
        mode = flush_subnormals()
        for s in range(begin, end):
            if left_out[s]:
                continue
            z = g.inside(s, w)
            if z < 0.0:
                break
            log_z[s] = -INFINITY
            if z > 0.0:
                log_z[s] = log(<double>z) + LOG_2 * w.z_e
                outside_fine(&g.coarse, &g.fine, w, z, &out)
        restore_subnormals(mode)
    if z < 0.0:
        raise MemoryError


def prune(
    ForestArrays a not None, Scratch workspace not None, tuple weights, float keep, float keep_edge
):
    """Find what has a lower posterior and is not in the gold tree.

    weights: as in `expected_counts`.
    keep: least posterior of substates of items, whose bits in `item_mask` are cleared otherwise.
    keep_edge: least posterior of edges, unaries and roots.

    Returns bool (n_edges), (n_unaries) and (n_roots): which of them are left, with all their items.
    Everything is left of a sentence without a derivation.
    """
    cdef Weights g = Weights(a, weights, 0, a.n_sentences)
    cdef Work* w = &workspace.work
    cdef Forest* f = &w.f
    cdef Py_ssize_t s, x, e, item, edge, unary, root
    cdef int i, k
    cdef bint parsed
    cdef float inverse, z = 0.0
    cdef unsigned int mode
    kept = [np.empty(n, dtype=bool) for n in (len(a.edge_left), len(a.unary_rule), len(a.root_rule))]
    cdef uint8_t[::1] edges, unaries, roots
    edges, unaries, roots = [marks.view(np.uint8) for marks in kept]
    with nogil:
        mode = flush_subnormals()
        for s in range(a.sentence_cell.shape[0] - 1):
            z = g.inside(s, w)
            if z < 0.0:
                break
            parsed = z > 0.0
            inverse = 1.0
            if parsed:
                outside_fine(&g.coarse, &g.fine, w, z, NULL)
                inverse = 1.0 / z
            x = a.sentence_cell[s]
            item, unary, root = a.cell_item[x], a.cell_unary[x], a.sentence_root[s]
            edge = a.group_edge[a.cell_group[x]]
            for x in range(f.n_items):
                if not parsed or a.gold_item[item + x]:
                    continue
                for i in range(f.item_offset[x], f.item_offset[x + 1]):
                    k = i - f.item_offset[x]
                    # Tags have no lower nodes.
                    if not (inverse * (w.inside1[i] * w.outside1[i]) >= keep
                            or f.item_symbol[x] >= a.n_tags
                            and inverse * (w.inside0[i] * w.outside0[i]) >= keep):
                        a.item_mask[item + x] &= ~(<uint64_t>1 << k)
            for x in range(f.n_unaries):
                unaries[unary + x] = (
                    (not parsed or a.gold_unary[unary + x] or not f.unary_q[x] < keep_edge)
                    and w.masks[f.unary_parent[x]] and w.masks[f.unary_child[x]]
                )
            for x in range(f.n_groups):
                for e in range(f.group_edge[x], f.group_edge[x + 1]):
                    edges[edge + e] = (
                        (not parsed or a.gold_edge[edge + e] or not f.edge_q[e] < keep_edge)
                        and w.masks[f.group_parent[x]] and w.masks[f.edge_left[e]]
                        and w.masks[f.edge_right[e]]
                    )
            for x in range(f.n_roots):
                roots[root + x] = w.masks[f.root_item[x]] and (
                    not parsed or a.gold_root[root + x] or not f.root_q[x] < keep_edge
                )
        restore_subnormals(mode)
    if z < 0.0:
        raise MemoryError
    return kept
