# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of the parser: inside and outside scores, coarse to fine, and the decoders.

Petrov & Klein (2007), equations 2 and 3; section 3.2 for the cascade. The grammar of level 0 fills
a chart exhaustively. What has a posterior above a threshold is listed as a forest: cells, items (a
symbol in a cell), edges (an item made of two others) grouped by cell and rule, and unaries. The
grammars of the other levels only go through these lists, with one dense block of probabilities a
rule, and thin them out further. The decoders work on the posteriors of the last level.

Over each span stand a lower layer of nodes, made of two children or a tag (inside I0, outside O0),
and an upper one, I1(A) = I0(A) + sum_B P(A -> B) I0(B), from which the next nodes are made.

All scores are float32, each cell with a power of two of its own: the largest inside score of a
cell is between 1 and 2, and its outside scores have the power with which inside times outside
over the score of the sentence is the posterior. So nothing overflows or vanishes at any length.
States that are 2**80 times smaller than the best of their cell are taken for zero, and so are
splits whose two sides, multiplied, are 2**126 times smaller than those of the best split.
"""

from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset

import numpy as np

from spacy_structlearn.kernels.arrays cimport grow
from spacy_structlearn.kernels.vectors cimport (
    add_matvec,
    add_outer,
    add_products,
    dot,
    exponent_of,
    flush_subnormals,
    outer_sums,
    power_of_two,
    push_edge,
    restore_subnormals,
    vecmat,
)

cdef enum:
    VITERBI = 0
    SUM = 1
    PRODUCT = 2
    VARIATIONAL = 3
cdef enum:
    PARSED = 0
    UNPARSED = 1
    OUT_OF_MEMORY = 2

DECODERS = {
    "viterbi": VITERBI,
    "max_rule_sum": SUM,
    "max_rule_product": PRODUCT,
    "variational": VARIATIONAL,
}

cdef int NOTHING = -(1 << 28)  # the power of two of a cell of zeros
MOST_SUBSTATES = 2**10  # of a symbol: a rule of three such ones is 4 GB
cdef float TINY = 8.271806125530277e-25  # 2**-80
cdef Py_ssize_t MOST_WORDS = 2**15  # of a sentence: places in the chart are numbered by int32
cdef double LOG_2 = 0.6931471805599453
cdef double FLOOR = 1e-30  # of posteriors, before their logarithm is taken


cdef struct Fine:
    # One level of a grammar; offsets as in `model.Level`. The block of a binary rule is dense, or,
    # where its offset is -1, a list of entries: parent substate, pair of children, probability.
    const int32_t* n
    const int64_t* offsets
    const float* binary
    const int64_t* binary_offsets
    const int32_t* entries  # (n_rules + 1), where those of each rule begin
    const int32_t* entry_parent
    const int32_t* entry_pair
    const float* entry_value
    const float* unary
    const int64_t* unary_offsets
    const float* root
    const int64_t* root_offsets
    int widest  # the largest number of substates of a symbol


cdef struct Coarse:
    # Rules, and the grammar of level 0 by the kind of the children: nt a nonterminal, tag a tag.
    int n_symbols, n_tags, n_phrases, n_nts, n_pad  # n_pad: n_nts, as a multiple of 8
    int n_left, n_right, n_left_pad, n_right_pad  # nts up to the last that may be a left child...
    int n_rules, n_unary, n_root
    const int32_t* rules  # (n_rules, 3), by (left, right, parent)
    const int32_t* unary_rules  # (n_unary, 2), by (child, parent)
    const int32_t* root_rules
    const int32_t* pairs  # (n_symbols**2 + 1), where the rules of a (left, right) begin
    const int32_t* unary_by_child  # (n_symbols + 1)
    const int32_t* parent_begin  # (n_nts + 1), nt-nt rules by parent
    const int32_t* parent_place  # left * n_right_pad + right
    const float* parent_value
    int n_places
    const int32_t* place  # the places that occur, and transposed
    const int32_t* place_transposed
    const int32_t* place_begin
    const int32_t* place_parent
    const float* place_value
    const int32_t* tag_nt_begin  # by the tag, left: parent, right, value
    const int32_t* tag_nt  # (.., 2)
    const float* tag_nt_value
    const int32_t* nt_tag_begin  # by the tag, right: parent, left, value
    const int32_t* nt_tag
    const float* nt_tag_value
    const int32_t* tag_tag_begin  # by the left tag: parent, right tag, value
    const int32_t* tag_tag
    const float* tag_tag_value
    const float* unary_value  # of unary_rules, level 0
    const float* root_value
    const float* binary_value
    const int32_t* chain_begin  # (n_unary + 1): symbols between parent and child in the output
    const int32_t* chains


cdef struct Forest:
    int n_words
    int n_cells, n_items, n_groups, n_edges, n_unaries, n_roots
    int cells_size, items_size, groups_size, edges_size, unaries_size
    # cells, narrow ones first; the last is that of the sentence
    int32_t* cell_i
    int32_t* cell_j
    int32_t* cell_e
    int32_t* cell_item
    int32_t* cell_group
    int32_t* cell_unary
    # items: a symbol in a cell
    int32_t* item_symbol
    int32_t* item_cell
    int32_t* item_offset
    float* item_lower  # posterior of the lower node, or of the tag
    float* item_upper
    float* item_same  # of both being one
    float* item_mean  # of a bracket, and of a unary, summed over the grammars
    double* score_tag
    double* score_same
    # binary edges of one rule in one cell
    int32_t* group_parent
    int32_t* group_rule
    int32_t* group_edge
    int32_t* edge_left
    int32_t* edge_right
    float* edge_q
    double* edge_score
    int32_t* unary_parent
    int32_t* unary_child
    int32_t* unary_rule
    float* unary_q
    float* unary_mean
    double* unary_score
    int32_t* root_item
    int32_t* root_rule
    float* root_q
    double* root_score
    int root_size


cdef struct Packed:
    # The scored forests of several sentences as `hypergraph.Hypergraphs` has them.
    Py_ssize_t n_items, n_begins, n_edges
    Py_ssize_t items_size, begins_size, edges_size
    int32_t* items  # (.., 3)
    int32_t* begins
    int32_t* tails  # (.., 2)
    int32_t* made
    int32_t* chain
    double* scores


cdef struct Work:
    Forest f
    Packed packed
    # the chart of level 0: rows of n_pad floats; (i, j) by start or, transposed, by end
    int chart_words
    float* lower
    float* upper
    float* upper_by_end
    float* outside  # by start: pushes from parents of which the cell is the left child, then O1
    float* outside_by_end  # ... the right child, then O0
    int32_t* exponent
    float* tag_value
    float* tag_outside
    int32_t* tags
    int32_t* n_tags
    float* m
    float* w
    float* wt
    float* factor
    int matrix_size
    int32_t* grid  # (n, n + 1): number of the cell, or -1
    int32_t* slot  # by symbol
    int32_t* first  # by rule: its newest edge in the cell
    int32_t* next
    int32_t* touched
    int symbols_size, rules_size, next_size
    # the substates of the items
    Py_ssize_t n_values, values_size
    float* inside0
    float* inside1
    float* outside0
    float* outside1
    float* block
    int block_size
    # decoding
    int best_size
    double* best_lower
    double* best_upper
    int32_t* back_lower
    int32_t* back_upper
    int32_t* stack
    int32_t* seen
    int stack_size, seen_size
    float z  # score of the sentence at level 0
    int n_grammars, level  # of the scored forest, and log P(words)
    double log_z
    # the brackets of all sentences so far
    int n_out, out_size
    int32_t* out_symbol
    int32_t* out_start
    int32_t* out_end
    float* out_probability


# ---------------------------------------------------------------------------------------------
# memory
# ---------------------------------------------------------------------------------------------
cdef int reserve_cells(Forest* f, int n) noexcept nogil:
    if n <= f.cells_size:
        return 0
    n += n // 2 + 64
    if (grow(<void**>&f.cell_i, n, 4) or grow(<void**>&f.cell_j, n, 4)
            or grow(<void**>&f.cell_e, n, 4) or grow(<void**>&f.cell_item, n + 1, 4)
            or grow(<void**>&f.cell_group, n + 1, 4) or grow(<void**>&f.cell_unary, n + 1, 4)):
        return -1
    f.cells_size = n
    return 0


cdef int reserve_items(Forest* f, int n) noexcept nogil:
    if n <= f.items_size:
        return 0
    n += n // 2 + 256
    if (grow(<void**>&f.item_symbol, n, 4) or grow(<void**>&f.item_cell, n, 4)
            or grow(<void**>&f.item_offset, n + 1, 4) or grow(<void**>&f.item_lower, n, 4)
            or grow(<void**>&f.item_upper, n, 4) or grow(<void**>&f.item_same, n, 4)
            or grow(<void**>&f.item_mean, n, 4)
            or grow(<void**>&f.score_tag, n, 8) or grow(<void**>&f.score_same, n, 8)):
        return -1
    f.items_size = n
    return 0


cdef int reserve_groups(Forest* f, int n) noexcept nogil:
    if n <= f.groups_size:
        return 0
    n += n // 2 + 256
    if (grow(<void**>&f.group_parent, n, 4) or grow(<void**>&f.group_rule, n, 4)
            or grow(<void**>&f.group_edge, n + 1, 4)):
        return -1
    f.groups_size = n
    return 0


cdef int reserve_edges(Forest* f, int n) noexcept nogil:
    if n <= f.edges_size:
        return 0
    n += n // 2 + 1024
    if (grow(<void**>&f.edge_left, n, 4) or grow(<void**>&f.edge_right, n, 4)
            or grow(<void**>&f.edge_q, n, 4) or grow(<void**>&f.edge_score, n, 8)):
        return -1
    f.edges_size = n
    return 0


cdef int reserve_unaries(Forest* f, int n) noexcept nogil:
    if n <= f.unaries_size:
        return 0
    n += n // 2 + 256
    if (grow(<void**>&f.unary_parent, n, 4) or grow(<void**>&f.unary_child, n, 4)
            or grow(<void**>&f.unary_rule, n, 4) or grow(<void**>&f.unary_q, n, 4)
            or grow(<void**>&f.unary_mean, n, 4)
            or grow(<void**>&f.unary_score, n, 8)):
        return -1
    f.unaries_size = n
    return 0


cdef int reserve_values(Work* w, Py_ssize_t n) noexcept nogil:
    if n <= w.values_size:
        return 0
    n += n // 2 + 1024
    if (grow(<void**>&w.inside0, n, 4) or grow(<void**>&w.inside1, n, 4)
            or grow(<void**>&w.outside0, n, 4) or grow(<void**>&w.outside1, n, 4)):
        return -1
    w.values_size = n
    return 0


cdef int reserve_best(Work* w, int n) noexcept nogil:
    if n <= w.best_size:
        return 0
    n += n // 2 + 256
    if (grow(<void**>&w.best_lower, n, 8) or grow(<void**>&w.best_upper, n, 8)
            or grow(<void**>&w.back_lower, n, 4) or grow(<void**>&w.back_upper, n, 4)):
        return -1
    w.best_size = n
    return 0


cdef int reserve_out(Work* w, int n) noexcept nogil:
    if n <= w.out_size:
        return 0
    n += n // 2 + 1024
    if (grow(<void**>&w.out_symbol, n, 4) or grow(<void**>&w.out_start, n, 4)
            or grow(<void**>&w.out_end, n, 4) or grow(<void**>&w.out_probability, n, 4)):
        return -1
    w.out_size = n
    return 0


cdef int reserve_packed(Packed* p, Py_ssize_t items, Py_ssize_t begins, Py_ssize_t edges) noexcept nogil:
    """Room for so many more."""
    items += p.n_items
    begins += p.n_begins
    edges += p.n_edges
    if items > p.items_size:
        items += items // 2 + 256
        if grow(<void**>&p.items, 3 * items, 4):
            return -1
        p.items_size = items
    if begins > p.begins_size:
        begins += begins // 2 + 256
        if grow(<void**>&p.begins, begins, 4):
            return -1
        p.begins_size = begins
    if edges > p.edges_size:
        edges += edges // 2 + 1024
        if (grow(<void**>&p.tails, 2 * edges, 4) or grow(<void**>&p.made, edges, 4)
                or grow(<void**>&p.chain, edges, 4) or grow(<void**>&p.scores, edges, 8)):
            return -1
        p.edges_size = edges
    return 0


cdef int reserve_chart(Work* w, const Coarse* g, int n) noexcept nogil:
    """Room for a sentence of n words."""
    cdef size_t cells = <size_t>n * (n + 1) // 2
    cdef int size
    if n > w.chart_words:
        if n < 40:
            n = 40
            cells = <size_t>n * (n + 1) // 2
        if (grow(<void**>&w.lower, cells * g.n_pad, 4) or grow(<void**>&w.upper, cells * g.n_pad, 4)
                or grow(<void**>&w.upper_by_end, cells * g.n_pad, 4)
                or grow(<void**>&w.outside, cells * g.n_pad, 4)
                or grow(<void**>&w.outside_by_end, cells * g.n_pad, 4)
                or grow(<void**>&w.exponent, cells, 4)
                or grow(<void**>&w.tag_value, <size_t>n * g.n_tags, 4)
                or grow(<void**>&w.tag_outside, <size_t>n * g.n_tags, 4)
                or grow(<void**>&w.tags, <size_t>n * g.n_tags, 4)
                or grow(<void**>&w.n_tags, n, 4) or grow(<void**>&w.factor, n + 1, 4)
                or grow(<void**>&w.grid, <size_t>n * (n + 1), 4)):
            return -1
        w.chart_words = n
    size = (g.n_left_pad + 8) * (g.n_right_pad + 8)
    if size > w.matrix_size:
        if (grow(<void**>&w.m, size, 4) or grow(<void**>&w.w, size, 4)
                or grow(<void**>&w.wt, size, 4)):
            return -1
        w.matrix_size = size
        # Places without a rule are never written: they stay zero.
        memset(w.w, 0, <size_t>size * 4)
        memset(w.wt, 0, <size_t>size * 4)
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
        if (grow(<void**>&w.f.root_item, g.n_root, 4) or grow(<void**>&w.f.root_rule, g.n_root, 4)
                or grow(<void**>&w.f.root_q, g.n_root, 4)
                or grow(<void**>&w.f.root_score, g.n_root, 8)):
            return -1
        w.f.root_size = g.n_root
    return 0


cdef void free_work(Work* w) noexcept nogil:
    cdef Forest* f = &w.f
    free(f.cell_i); free(f.cell_j); free(f.cell_e)
    free(f.cell_item); free(f.cell_group); free(f.cell_unary)
    free(f.item_symbol); free(f.item_cell); free(f.item_offset)
    free(f.item_lower); free(f.item_upper); free(f.item_same)
    free(f.item_mean); free(f.unary_mean)
    free(f.score_tag); free(f.score_same)
    free(f.group_parent); free(f.group_rule); free(f.group_edge)
    free(f.edge_left); free(f.edge_right); free(f.edge_q); free(f.edge_score)
    free(f.unary_parent); free(f.unary_child); free(f.unary_rule)
    free(f.unary_q); free(f.unary_score)
    free(f.root_item); free(f.root_rule); free(f.root_q); free(f.root_score)
    free(w.lower); free(w.upper); free(w.upper_by_end); free(w.outside); free(w.outside_by_end)
    free(w.exponent); free(w.tag_value); free(w.tag_outside); free(w.tags); free(w.n_tags)
    free(w.m); free(w.w); free(w.wt); free(w.factor); free(w.grid)
    free(w.slot); free(w.first); free(w.next); free(w.touched)
    free(w.inside0); free(w.inside1); free(w.outside0); free(w.outside1); free(w.block)
    free(w.packed.items); free(w.packed.begins); free(w.packed.tails)
    free(w.packed.made); free(w.packed.chain); free(w.packed.scores)
    free(w.best_lower); free(w.best_upper); free(w.back_lower); free(w.back_upper); free(w.stack)
    free(w.seen)
    free(w.out_symbol); free(w.out_start); free(w.out_end); free(w.out_probability)


# ---------------------------------------------------------------------------------------------
# level 0: every cell, every symbol
# ---------------------------------------------------------------------------------------------
cdef inline Py_ssize_t by_start(int n, int i, int j) noexcept nogil:
    """The row of (i, j), beside that of (i, j + 1)."""
    return <Py_ssize_t>i * n - <Py_ssize_t>i * (i - 1) // 2 + (j - i - 1)


cdef inline Py_ssize_t by_end(int i, int j) noexcept nogil:
    """The row of (i, j), beside that of (i + 1, j)."""
    return <Py_ssize_t>j * (j - 1) // 2 + i


cdef inline int scale_cell(float* lower, float* upper, int n, int before) noexcept nogil:
    """Let the largest be between 1 and 2. Returns the power of two of the cell.

    before: its power until now. A cell of zeros has NOTHING, so that no other is scaled by it.
    """
    cdef float largest = 0.0, x
    cdef int a, e
    for a in range(n):
        largest = upper[a] if upper[a] > largest else largest
    if largest == 0.0:
        return NOTHING
    e = exponent_of(largest)
    x = power_of_two(-e)
    for a in range(n):
        lower[a] = lower[a] * x if lower[a] * x >= TINY else 0.0
        upper[a] = upper[a] * x if upper[a] * x >= TINY else 0.0
    return before + e


cdef int inside_coarse(const Coarse* g, Work* w, int n, const float* lexicon, int stride) noexcept nogil:
    """Fill `lower`, `upper`, `exponent` for a sentence; lexicon: (n, >= n_tags), `stride` apart."""
    cdef int i, j, k, a, b, t, u, x, r, e, best, pad = g.n_pad, n_nts = g.n_nts
    cdef Py_ssize_t row
    cdef float* lower
    cdef float* upper
    cdef const float* child
    cdef float value, largest, f
    for j in range(1, n + 1):
        for i in range(j - 1, -1, -1):
            row = by_start(n, i, j)
            lower = w.lower + row * pad
            upper = w.upper + row * pad
            memset(lower, 0, pad * 4)
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
                child = w.upper_by_end + by_end(i + 1, j) * pad
                for u in range(w.n_tags[i]):
                    t = w.tags[i * g.n_tags + u]
                    f = w.tag_value[i * g.n_tags + t] * w.factor[0]
                    for x in range(g.tag_nt_begin[t], g.tag_nt_begin[t + 1]):
                        lower[g.tag_nt[2 * x]] += f * g.tag_nt_value[x] * child[g.tag_nt[2 * x + 1]]
                child = w.upper + by_start(n, i, j - 1) * pad
                for u in range(w.n_tags[j - 1]):
                    t = w.tags[(j - 1) * g.n_tags + u]
                    f = w.tag_value[(j - 1) * g.n_tags + t] * w.factor[j - i - 2]
                    for x in range(g.nt_tag_begin[t], g.nt_tag_begin[t + 1]):
                        lower[g.nt_tag[2 * x]] += f * g.nt_tag_value[x] * child[g.nt_tag[2 * x + 1]]
                if j == i + 2:
                    child = w.tag_value + (j - 1) * g.n_tags
                    for u in range(w.n_tags[i]):
                        t = w.tags[i * g.n_tags + u]
                        f = w.tag_value[i * g.n_tags + t] * w.factor[0]
                        for x in range(g.tag_tag_begin[t], g.tag_tag_begin[t + 1]):
                            lower[g.tag_tag[2 * x]] += (
                                f * g.tag_tag_value[x] * child[g.tag_tag[2 * x + 1]]
                            )
            memcpy(upper, lower, pad * 4)
            for x in range(g.unary_by_child[g.n_tags], g.n_unary):
                upper[g.unary_rules[2 * x] - g.n_tags] += (
                    g.unary_value[x] * lower[g.unary_rules[2 * x + 1] - g.n_tags]
                )
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
        elif n == 1:
            z += g.root_value[x] * w.tag_value[s]
    return z


cdef void outside_coarse(const Coarse* g, Work* w, int n) noexcept nogil:
    """Leave O1 in `outside`, O0 in `outside_by_end` and the tags' in `tag_outside`."""
    cdef int i, j, k, a, t, u, x, s, length, pad = g.n_pad, n_nts = g.n_nts
    cdef float* upper  # O1
    cdef float* lower  # O0
    cdef float* out
    cdef const float* child
    cdef float value, f, tag
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
                    elif n == 1:
                        w.tag_outside[s] += g.root_value[x]
            # Only of states without an inside score may the outside score be beyond all bounds.
            child = w.upper + by_start(n, i, j) * pad
            for a in range(n_nts):
                upper[a] = upper[a] if child[a] > 0.0 else 0.0
            memcpy(lower, upper, pad * 4)
            for x in range(g.unary_by_child[g.n_tags], g.n_unary):
                lower[g.unary_rules[2 * x + 1] - g.n_tags] += (
                    g.unary_value[x] * upper[g.unary_rules[2 * x] - g.n_tags]
                )
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
            child = w.upper_by_end + by_end(i + 1, j) * pad
            out = w.outside_by_end + by_end(i + 1, j) * pad
            for u in range(w.n_tags[i]):
                t = w.tags[i * g.n_tags + u]
                tag = w.tag_value[i * g.n_tags + t]
                value = 0.0
                for x in range(g.tag_nt_begin[t], g.tag_nt_begin[t + 1]):
                    f = w.factor[0] * g.tag_nt_value[x] * lower[g.tag_nt[2 * x]]
                    value += f * child[g.tag_nt[2 * x + 1]]
                    out[g.tag_nt[2 * x + 1]] += f * tag
                w.tag_outside[i * g.n_tags + t] += value
            child = w.upper + by_start(n, i, j - 1) * pad
            out = w.outside + by_start(n, i, j - 1) * pad
            for u in range(w.n_tags[j - 1]):
                t = w.tags[(j - 1) * g.n_tags + u]
                tag = w.tag_value[(j - 1) * g.n_tags + t]
                value = 0.0
                for x in range(g.nt_tag_begin[t], g.nt_tag_begin[t + 1]):
                    f = w.factor[length - 2] * g.nt_tag_value[x] * lower[g.nt_tag[2 * x]]
                    value += f * child[g.nt_tag[2 * x + 1]]
                    out[g.nt_tag[2 * x + 1]] += f * tag
                w.tag_outside[(j - 1) * g.n_tags + t] += value
            if length == 2:
                child = w.tag_value + (j - 1) * g.n_tags
                out = w.tag_outside + (j - 1) * g.n_tags
                for u in range(w.n_tags[i]):
                    t = w.tags[i * g.n_tags + u]
                    tag = w.tag_value[i * g.n_tags + t]
                    value = 0.0
                    for x in range(g.tag_tag_begin[t], g.tag_tag_begin[t + 1]):
                        f = w.factor[0] * g.tag_tag_value[x] * lower[g.tag_tag[2 * x]]
                        value += f * child[g.tag_tag[2 * x + 1]]
                        out[g.tag_tag[2 * x + 1]] += f * tag
                    w.tag_outside[i * g.n_tags + t] += value


# ---------------------------------------------------------------------------------------------
# the forest of what is left
# ---------------------------------------------------------------------------------------------
cdef int build_forest(const Coarse* g, Work* w, int n, float z, float keep, float keep_edge,
                      const int32_t* gold) noexcept nogil:
    """List the items with a posterior of `keep` or more, and the edges with `keep_edge`.

    gold: NULL, or for each (i, j) the topmost symbol of the tree that is to stay, the one that has
    two children or a tag, and where these meet or, of one word, its tag; -1 for none.
    """
    cdef Forest* f = &w.f
    cdef const int32_t* own = NULL
    cdef bint kept
    cdef int i, j, k, a, t, u, x, c, length, pad = g.n_pad, left, right, item, other
    cdef int begin, last_edge, n_touched, rule, parent, cell
    cdef Py_ssize_t row, row_end
    cdef float limit = keep * z, limit_edge = keep_edge * z, factor, value, ofactor
    cdef const float* lower_out
    f.n_words = n
    f.n_cells = f.n_items = f.n_groups = f.n_edges = f.n_unaries = f.n_roots = 0
    memset(w.grid, 255, <size_t>n * (n + 1) * 4)
    for length in range(1, n + 1):
        for i in range(n - length + 1):
            j = i + length
            row = by_start(n, i, j) * pad
            row_end = by_end(i, j) * pad
            if reserve_cells(f, f.n_cells + 2) or reserve_items(f, f.n_items + g.n_symbols + 1):
                return OUT_OF_MEMORY
            begin = f.n_items
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
                if w.upper[row + a] <= 0 and not kept:
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
                if reserve_unaries(f, f.n_unaries + g.n_nts):
                    return OUT_OF_MEMORY
                for x in range(g.unary_by_child[t], g.unary_by_child[t + 1]):
                    parent = w.slot[g.unary_rules[2 * x]]
                    if parent >= 0:
                        f.unary_parent[f.n_unaries] = parent
                        f.unary_child[f.n_unaries] = item
                        f.unary_rule[f.n_unaries] = x
                        f.n_unaries += 1
            # edges: a chain for each rule, newest first, then the rules one after another
            n_touched = 0
            last_edge = 0
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
                            if last_edge >= w.next_size:
                                if grow(<void**>&w.next, 3 * (w.next_size * 2 + 1024), 4):
                                    return OUT_OF_MEMORY
                                w.next_size = w.next_size * 2 + 1024
                            if w.first[rule] < 0:
                                w.touched[n_touched] = rule
                                n_touched += 1
                            w.next[3 * last_edge] = w.first[rule]
                            w.next[3 * last_edge + 1] = item
                            w.next[3 * last_edge + 2] = other
                            w.first[rule] = last_edge
                            last_edge += 1
            if reserve_groups(f, f.n_groups + n_touched + 1) or reserve_edges(f, f.n_edges + last_edge):
                return OUT_OF_MEMORY
            for x in range(n_touched):
                rule = w.touched[x]
                f.group_parent[f.n_groups] = w.slot[g.rules[3 * rule]]
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
            for item in range(begin, f.n_items):
                w.slot[f.item_symbol[item]] = -1
            f.cell_group[f.n_cells] = f.n_groups
            f.cell_unary[f.n_cells] = f.n_unaries
    cell = w.grid[n]
    if cell < 0:
        return UNPARSED
    for item in range(f.cell_item[cell], f.cell_item[cell + 1]):
        for x in range(g.n_root):
            if g.root_rules[x] == f.item_symbol[item]:
                f.root_item[f.n_roots] = item
                f.root_rule[f.n_roots] = x
                f.n_roots += 1
    return PARSED if f.n_roots else UNPARSED


cdef inline float coarse_inside(const Coarse* g, Work* w, int n, int symbol, int i, int j) noexcept nogil:
    if symbol < g.n_tags:
        return w.tag_value[i * g.n_tags + symbol]
    return w.upper[by_start(n, i, j) * g.n_pad + symbol - g.n_tags]


cdef void prune(const Coarse* g, Work* w, float keep, float keep_edge) noexcept nogil:
    """Leave out what has less posterior in the pass before; everything moves down in place."""
    cdef Forest* f = &w.f
    cdef int cell, item, x, e, n_cells = 0, n_items = 0, n_groups = 0, n_edges = 0, n_unaries = 0
    cdef int begin_item, begin_group, begin_unary, begin_edge, item_from, item_to
    cdef int group_from, group_to, unary_from, unary_to, edge_from, edge_to, n_roots = 0
    cdef int32_t* place = w.back_lower  # new number of an item, or -1; reserved by the pass
    item_to = f.cell_item[0]
    group_to = f.cell_group[0]
    unary_to = f.cell_unary[0]
    edge_to = f.group_edge[0] if f.n_groups else 0
    for cell in range(f.n_cells):
        item_from = item_to
        item_to = f.cell_item[cell + 1]
        group_from = group_to
        group_to = f.cell_group[cell + 1]
        unary_from = unary_to
        unary_to = f.cell_unary[cell + 1]
        begin_item = n_items
        begin_group = n_groups
        begin_unary = n_unaries
        for item in range(item_from, item_to):
            if f.item_lower[item] >= keep or f.item_upper[item] >= keep:
                place[item] = n_items
                f.item_symbol[n_items] = f.item_symbol[item]
                f.item_cell[n_items] = n_cells
                n_items += 1
            else:
                place[item] = -1
        for x in range(unary_from, unary_to):
            if (f.unary_q[x] >= keep_edge and place[f.unary_parent[x]] >= 0
                    and place[f.unary_child[x]] >= 0):
                f.unary_parent[n_unaries] = place[f.unary_parent[x]]
                f.unary_child[n_unaries] = place[f.unary_child[x]]
                f.unary_rule[n_unaries] = f.unary_rule[x]
                n_unaries += 1
        for x in range(group_from, group_to):
            edge_from = edge_to
            edge_to = f.group_edge[x + 1]
            if place[f.group_parent[x]] < 0:
                continue
            begin_edge = n_edges
            for e in range(edge_from, edge_to):
                if (f.edge_q[e] >= keep_edge and place[f.edge_left[e]] >= 0
                        and place[f.edge_right[e]] >= 0):
                    f.edge_left[n_edges] = place[f.edge_left[e]]
                    f.edge_right[n_edges] = place[f.edge_right[e]]
                    n_edges += 1
            if n_edges > begin_edge:
                f.group_parent[n_groups] = place[f.group_parent[x]]
                f.group_rule[n_groups] = f.group_rule[x]
                f.group_edge[n_groups] = begin_edge
                n_groups += 1
                # Not before the bound at x + 1 has been read: n_groups <= x + 1.
                f.group_edge[n_groups] = n_edges
        if n_items > begin_item:
            f.cell_i[n_cells] = f.cell_i[cell]
            f.cell_j[n_cells] = f.cell_j[cell]
            f.cell_item[n_cells] = begin_item
            f.cell_group[n_cells] = begin_group
            f.cell_unary[n_cells] = begin_unary
            n_cells += 1
            f.cell_item[n_cells] = n_items
            f.cell_group[n_cells] = n_groups
            f.cell_unary[n_cells] = n_unaries
    for x in range(f.n_roots):
        if place[f.root_item[x]] >= 0:
            f.root_item[n_roots] = place[f.root_item[x]]
            f.root_rule[n_roots] = f.root_rule[x]
            n_roots += 1
    f.n_cells = n_cells
    f.n_items = n_items
    f.n_groups = n_groups
    f.n_edges = n_edges
    f.n_unaries = n_unaries
    f.n_roots = n_roots


# ---------------------------------------------------------------------------------------------
# a level on the forest
# ---------------------------------------------------------------------------------------------
cdef int lay_out(const Fine* g, Work* w) noexcept nogil:
    """Give every item its substates."""
    cdef Forest* f = &w.f
    cdef int item, size = g.widest * g.widest
    cdef Py_ssize_t n = 0
    for item in range(f.n_items):
        f.item_offset[item] = <int32_t>n
        n += g.n[f.item_symbol[item]]
    f.item_offset[f.n_items] = <int32_t>n
    w.n_values = n
    if reserve_values(w, n) or reserve_best(w, f.n_items + 1):
        return OUT_OF_MEMORY
    if size > w.block_size:
        if grow(<void**>&w.block, size, 4):
            return OUT_OF_MEMORY
        w.block_size = size
    return PARSED


cdef inline void rule_inside(const Fine* g, int rule, float* out, const float* block, int na, int n) noexcept nogil:
    """out[x] += sum over pairs of children of P(x -> pair) block[pair]"""
    cdef int e
    if g.binary_offsets[rule] >= 0:
        add_matvec(out, g.binary + g.binary_offsets[rule], block, na, n, 1.0)
        return
    for e in range(g.entries[rule], g.entries[rule + 1]):
        out[g.entry_parent[e]] += g.entry_value[e] * block[g.entry_pair[e]]


cdef inline void rule_outside(const Fine* g, int rule, float* block, const float* w, int na, int n) noexcept nogil:
    """block[pair] = sum_x w[x] P(x -> pair)"""
    cdef int e
    if g.binary_offsets[rule] >= 0:
        vecmat(block, g.binary + g.binary_offsets[rule], w, na, n)
        return
    memset(block, 0, n * 4)
    for e in range(g.entries[rule], g.entries[rule + 1]):
        block[g.entry_pair[e]] += g.entry_value[e] * w[g.entry_parent[e]]


cdef inline const float* rule_row(const Fine* g, int rule, int x, int n, float* block) noexcept nogil:
    """P(x -> pair) for all pairs, in `block` if it is not there already."""
    cdef int e
    if g.binary_offsets[rule] >= 0:
        return g.binary + g.binary_offsets[rule] + <int64_t>x * n
    memset(block, 0, n * 4)
    for e in range(g.entries[rule], g.entries[rule + 1]):
        if g.entry_parent[e] == x:
            block[g.entry_pair[e]] = g.entry_value[e]
    return block


cdef void enter_words(const Coarse* c, const Fine* g, Work* w, int cell, const float* lexicon,
                      int stride) noexcept nogil:
    """The tags of a one-word cell get the scores of their word."""
    cdef Forest* f = &w.f
    cdef int item, t, x, e, i = f.cell_i[cell]
    cdef float largest = 0.0, scale
    cdef const float* row = lexicon + <Py_ssize_t>i * stride
    cdef float* out
    for item in range(f.cell_item[cell], f.cell_item[cell + 1]):
        t = f.item_symbol[item]
        if t >= c.n_tags:
            break
        for x in range(g.n[t]):
            if row[g.offsets[t] + x] > largest:
                largest = row[g.offsets[t] + x]
    e = exponent_of(largest) if largest > 0 else 0
    f.cell_e[cell] = e
    scale = power_of_two(-e)
    for item in range(f.cell_item[cell], f.cell_item[cell + 1]):
        t = f.item_symbol[item]
        if t >= c.n_tags:
            break
        out = w.inside1 + f.item_offset[item]
        for x in range(g.n[t]):
            out[x] = row[g.offsets[t] + x] * scale


cdef float inside_fine(const Coarse* c, const Fine* g, Work* w, const float* lexicon, int stride) noexcept nogil:
    """Inside scores of all items. Returns the score of the sentence, 0 if there is no parse."""
    cdef Forest* f = &w.f
    cdef int cell, x, e, best, parent, child, rule, nb, nc, here, item
    cdef float z = 0.0
    cdef const float* b
    cdef const float* d
    memset(w.inside0, 0, w.n_values * 4)
    for cell in range(f.n_cells):
        if f.cell_j[cell] == f.cell_i[cell] + 1:
            enter_words(c, g, w, cell, lexicon, stride)
        else:
            best = -(1 << 30)
            for x in range(f.cell_group[cell], f.cell_group[cell + 1]):
                for e in range(f.group_edge[x], f.group_edge[x + 1]):
                    here = (f.cell_e[f.item_cell[f.edge_left[e]]]
                            + f.cell_e[f.item_cell[f.edge_right[e]]])
                    best = here if here > best else best
            f.cell_e[cell] = best
            for x in range(f.cell_group[cell], f.cell_group[cell + 1]):
                parent = f.group_parent[x]
                rule = f.group_rule[x]
                nb = g.n[c.rules[3 * rule + 1]]
                nc = g.n[c.rules[3 * rule + 2]]
                memset(w.block, 0, nb * nc * 4)
                for e in range(f.group_edge[x], f.group_edge[x + 1]):
                    here = (f.cell_e[f.item_cell[f.edge_left[e]]]
                            + f.cell_e[f.item_cell[f.edge_right[e]]])
                    b = w.inside1 + f.item_offset[f.edge_left[e]]
                    d = w.inside1 + f.item_offset[f.edge_right[e]]
                    add_outer(w.block, b, d, nb, nc, power_of_two(here - best))
                rule_inside(g, rule, w.inside0 + f.item_offset[parent], w.block,
                            g.n[c.rules[3 * rule]], nb * nc)
        # unaries over tags, then those among phrases
        x = f.cell_unary[cell]
        while x < f.cell_unary[cell + 1]:
            child = f.unary_child[x]
            if f.item_symbol[child] >= c.n_tags:
                break
            parent = f.unary_parent[x]
            add_matvec(w.inside0 + f.item_offset[parent],
                       g.unary + g.unary_offsets[f.unary_rule[x]],
                       w.inside1 + f.item_offset[child], g.n[f.item_symbol[parent]],
                       g.n[f.item_symbol[child]], 1.0)
            x += 1
        item = f.cell_item[cell]
        while item < f.cell_item[cell + 1] and f.item_symbol[item] < c.n_tags:
            item += 1
        here = f.item_offset[f.cell_item[cell + 1]]
        e = f.item_offset[item]
        memcpy(w.inside1 + e, w.inside0 + e, (here - e) * 4)
        while x < f.cell_unary[cell + 1]:
            child = f.unary_child[x]
            parent = f.unary_parent[x]
            add_matvec(w.inside1 + f.item_offset[parent],
                       g.unary + g.unary_offsets[f.unary_rule[x]],
                       w.inside0 + f.item_offset[child], g.n[f.item_symbol[parent]],
                       g.n[f.item_symbol[child]], 1.0)
            x += 1
        if f.cell_j[cell] > f.cell_i[cell] + 1:
            f.cell_e[cell] = scale_cell(w.inside0 + e, w.inside1 + e, here - e, f.cell_e[cell])
    for x in range(f.n_roots):
        item = f.root_item[x]
        z += dot(g.root + g.root_offsets[f.root_rule[x]], w.inside1 + f.item_offset[item],
                 g.n[f.item_symbol[item]])
    return z


cdef void outside_fine(const Coarse* c, const Fine* g, Work* w, float z) noexcept nogil:
    """Outside scores, and the posteriors of items, edges and unaries."""
    cdef Forest* f = &w.f
    cdef int cell, x, y, e, parent, child, rule, nb, nc, n, item, first
    cdef float value, factor, q, inverse = 1.0 / z
    cdef const float* p
    cdef float* out
    memset(w.outside1, 0, w.n_values * 4)
    for x in range(f.n_roots):
        item = f.root_item[x]
        p = g.root + g.root_offsets[f.root_rule[x]]
        out = w.outside1 + f.item_offset[item]
        for y in range(g.n[f.item_symbol[item]]):
            out[y] += p[y]
        f.root_q[x] = inverse * dot(p, w.inside1 + f.item_offset[item], g.n[f.item_symbol[item]])
    for cell in range(f.n_cells - 1, -1, -1):
        first = f.cell_item[cell]
        while first < f.cell_item[cell + 1] and f.item_symbol[first] < c.n_tags:
            first += 1
        # Only of states without an inside score may the outside score be beyond all bounds.
        for x in range(f.item_offset[f.cell_item[cell]], f.item_offset[f.cell_item[cell + 1]]):
            w.outside1[x] = w.outside1[x] if w.inside1[x] > 0.0 else 0.0
        e = f.item_offset[first]
        memcpy(w.outside0 + e, w.outside1 + e, (f.item_offset[f.cell_item[cell + 1]] - e) * 4)
        # from above: phrases, then tags
        for x in range(f.cell_unary[cell + 1] - 1, f.cell_unary[cell] - 1, -1):
            parent = f.unary_parent[x]
            child = f.unary_child[x]
            n = g.n[f.item_symbol[child]]
            p = g.unary + g.unary_offsets[f.unary_rule[x]]
            if f.item_symbol[child] < c.n_tags:
                # The lower nodes of the phrases here are complete: tags come last.
                vecmat(w.block, p, w.outside0 + f.item_offset[parent],
                       g.n[f.item_symbol[parent]], n)
                out = w.outside1 + f.item_offset[child]
                f.unary_q[x] = inverse * dot(w.block, w.inside1 + f.item_offset[child], n)
            else:
                vecmat(w.block, p, w.outside1 + f.item_offset[parent],
                       g.n[f.item_symbol[parent]], n)
                out = w.outside0 + f.item_offset[child]
                f.unary_q[x] = inverse * dot(w.block, w.inside0 + f.item_offset[child], n)
            for y in range(n):
                out[y] += w.block[y]
        for x in range(e, f.item_offset[f.cell_item[cell + 1]]):
            w.outside0[x] = w.outside0[x] if w.inside0[x] > 0.0 else 0.0
        for x in range(f.cell_group[cell], f.cell_group[cell + 1]):
            if f.cell_e[cell] == NOTHING:
                for y in range(f.group_edge[x], f.group_edge[x + 1]):
                    f.edge_q[y] = 0.0
                continue
            parent = f.group_parent[x]
            rule = f.group_rule[x]
            nb = g.n[c.rules[3 * rule + 1]]
            nc = g.n[c.rules[3 * rule + 2]]
            rule_outside(g, rule, w.block, w.outside0 + f.item_offset[parent],
                         g.n[c.rules[3 * rule]], nb * nc)
            for y in range(f.group_edge[x], f.group_edge[x + 1]):
                e = (f.cell_e[f.item_cell[f.edge_left[y]]]
                     + f.cell_e[f.item_cell[f.edge_right[y]]] - f.cell_e[cell])
                q = push_edge(w.block, w.inside1 + f.item_offset[f.edge_left[y]],
                              w.inside1 + f.item_offset[f.edge_right[y]], nb, nc,
                              power_of_two(e), w.outside1 + f.item_offset[f.edge_left[y]],
                              w.outside1 + f.item_offset[f.edge_right[y]])
                f.edge_q[y] = q * inverse
        for item in range(f.cell_item[cell], f.cell_item[cell + 1]):
            n = g.n[f.item_symbol[item]]
            e = f.item_offset[item]
            f.item_upper[item] = inverse * dot(w.inside1 + e, w.outside1 + e, n)
            if item < first:
                f.item_lower[item] = f.item_upper[item]
                f.item_same[item] = 0.0
            else:
                f.item_lower[item] = inverse * dot(w.inside0 + e, w.outside0 + e, n)
                f.item_same[item] = inverse * dot(w.inside0 + e, w.outside1 + e, n)


# ---------------------------------------------------------------------------------------------
# decoding
# ---------------------------------------------------------------------------------------------
cdef inline double floored_log(double q) noexcept nogil:
    return log(q) if q > FLOOR else log(FLOOR)


cdef void add_scores(const Coarse* c, Work* w, int decoder, int first) noexcept nogil:
    """Add to the score of each production what it is worth to the decoder; `first` begins anew."""
    cdef Forest* f = &w.f
    cdef int x, e, item
    cdef double value
    if first:
        memset(f.edge_score, 0, f.n_edges * sizeof(double))
        memset(f.unary_score, 0, f.n_unaries * sizeof(double))
        memset(f.root_score, 0, f.n_roots * sizeof(double))
        memset(f.score_tag, 0, f.n_items * sizeof(double))
        memset(f.score_same, 0, f.n_items * sizeof(double))
        memset(f.item_mean, 0, f.n_items * sizeof(float))
        memset(f.unary_mean, 0, f.n_unaries * sizeof(float))
    for item in range(f.n_items):
        f.item_mean[item] += f.item_upper[item] + f.item_lower[item] - f.item_same[item]
        if f.item_symbol[item] < c.n_tags:
            f.item_mean[item] -= f.item_lower[item]
        if f.item_symbol[item] < c.n_tags:
            if decoder == SUM:
                f.score_tag[item] += f.item_upper[item]
            elif decoder != VARIATIONAL:
                f.score_tag[item] += floored_log(f.item_upper[item])
        elif decoder == VARIATIONAL:
            f.score_same[item] += floored_log(f.item_same[item]) - floored_log(f.item_upper[item])
    for x in range(f.n_groups):
        value = floored_log(f.item_lower[f.group_parent[x]]) if decoder == VARIATIONAL else 0.0
        for e in range(f.group_edge[x], f.group_edge[x + 1]):
            if decoder == SUM:
                f.edge_score[e] += f.edge_q[e]
            else:
                f.edge_score[e] += floored_log(f.edge_q[e]) - value
    for x in range(f.n_unaries):
        f.unary_mean[x] += f.unary_q[x]
        if decoder == SUM:
            f.unary_score[x] += f.unary_q[x]
        else:
            f.unary_score[x] += floored_log(f.unary_q[x])
            if decoder == VARIATIONAL:
                item = f.unary_parent[x]
                f.unary_score[x] -= floored_log(
                    f.item_lower[item] if f.item_symbol[f.unary_child[x]] < c.n_tags
                    else f.item_upper[item]
                )
    for x in range(f.n_roots):
        f.root_score[x] += f.root_q[x] if decoder == SUM else floored_log(f.root_q[x])


cdef int best_tree(const Coarse* c, Work* w) noexcept nogil:
    """Best score of every item, with back-pointers. Returns the best root, -1 if there is none.

    back_lower: an edge, or -2 - x for unary x over a tag; back_upper: a unary, or -1 for the node
    below itself.
    """
    cdef Forest* f = &w.f
    cdef int cell, item, x, e, left, right, parent, best = -1
    cdef double value, top = -INFINITY
    for item in range(f.n_items):
        w.best_lower[item] = -INFINITY
        w.back_lower[item] = -1
        w.back_upper[item] = -1
    for cell in range(f.n_cells):
        for x in range(f.cell_group[cell], f.cell_group[cell + 1]):
            parent = f.group_parent[x]
            for e in range(f.group_edge[x], f.group_edge[x + 1]):
                value = (f.edge_score[e] + w.best_upper[f.edge_left[e]]
                         + w.best_upper[f.edge_right[e]])
                if value > w.best_lower[parent]:
                    w.best_lower[parent] = value
                    w.back_lower[parent] = e
        for item in range(f.cell_item[cell], f.cell_item[cell + 1]):
            if f.item_symbol[item] < c.n_tags:
                w.best_upper[item] = f.score_tag[item]
        x = f.cell_unary[cell]
        while x < f.cell_unary[cell + 1] and f.item_symbol[f.unary_child[x]] < c.n_tags:
            parent = f.unary_parent[x]
            value = f.unary_score[x] + w.best_upper[f.unary_child[x]]
            if value > w.best_lower[parent]:
                w.best_lower[parent] = value
                w.back_lower[parent] = -2 - x
            x += 1
        for item in range(f.cell_item[cell], f.cell_item[cell + 1]):
            if f.item_symbol[item] >= c.n_tags:
                w.best_upper[item] = w.best_lower[item] + f.score_same[item]
        while x < f.cell_unary[cell + 1]:
            parent = f.unary_parent[x]
            value = f.unary_score[x] + w.best_lower[f.unary_child[x]]
            if value > w.best_upper[parent]:
                w.best_upper[parent] = value
                w.back_upper[parent] = x
            x += 1
    for x in range(f.n_roots):
        value = f.root_score[x] + w.best_upper[f.root_item[x]]
        if value > top:
            top = value
            best = x
    return best


cdef inline int put(const Coarse* c, Work* w, int symbol, int cell, double probability) noexcept nogil:
    """Write a bracket or a tag to the output, unless it is an intermediate symbol."""
    cdef Forest* f = &w.f
    if reserve_out(w, w.n_out + 1):
        return OUT_OF_MEMORY
    w.out_symbol[w.n_out] = symbol
    w.out_start[w.n_out] = f.cell_i[cell]
    w.out_end[w.n_out] = f.cell_j[cell]
    w.out_probability[w.n_out] = <float>(1.0 if probability > 1.0 else probability)
    w.n_out += 1
    return PARSED


cdef inline int push(Work* w, int* n, int value) noexcept nogil:
    if n[0] >= w.stack_size:
        if grow(<void**>&w.stack, 2 * w.stack_size + 256, 4):
            return OUT_OF_MEMORY
        w.stack_size = 2 * w.stack_size + 256
    w.stack[n[0]] = value
    n[0] += 1
    return PARSED


cdef int read_tree(const Coarse* c, const Fine* g, Work* w, int root, double log_z, int n_grammars,
                   double* log_probability) noexcept nogil:
    """Write the tree of the back-pointers, in pre-order, with the posterior of every bracket.

    log_z: of the sentence. log_probability: of the tree, given the sentence; its inside score goes
    through `outside0` and `outside1`, and a power of two for each node through `best_upper`, which
    nobody needs any more. (A tree may be 2**-200 of its sentence: those of cells will not do.)
    """
    cdef Forest* f = &w.f
    cdef int n = 0, item, x, y, e, child, begin, end, nb, nc, rule, here, cell, m
    cdef double scale = 1.0 / n_grammars, power
    cdef float largest, factor
    cdef float* out
    cdef int n_seen = 0
    if push(w, &n, f.root_item[root]):
        return OUT_OF_MEMORY
    while n:
        n -= 1
        item = w.stack[n]
        if 2 * n_seen + 2 > w.seen_size:
            if grow(<void**>&w.seen, 2 * w.seen_size + 512, 4):
                return OUT_OF_MEMORY
            w.seen_size = 2 * w.seen_size + 512
        w.seen[2 * n_seen] = item
        child = item
        cell = f.item_cell[item]
        if f.item_symbol[item] < c.n_tags:
            w.seen[2 * n_seen + 1] = -1
            n_seen += 1
            if put(c, w, f.item_symbol[item], cell, scale * f.item_mean[item]):
                return OUT_OF_MEMORY
            continue
        if f.item_symbol[item] < c.n_tags + c.n_phrases:
            if put(c, w, f.item_symbol[item], cell, scale * f.item_mean[item]):
                return OUT_OF_MEMORY
        x = w.back_upper[item]
        if x >= 0:
            rule = f.unary_rule[x]
            for y in range(c.chain_begin[rule], c.chain_begin[rule + 1]):
                if put(c, w, c.chains[y], cell, scale * f.unary_mean[x]):
                    return OUT_OF_MEMORY
            child = f.unary_child[x]
            if put(c, w, f.item_symbol[child], cell, scale * f.item_mean[child]):
                return OUT_OF_MEMORY
        w.seen[2 * n_seen + 1] = child
        n_seen += 1
        e = w.back_lower[child]
        if e >= 0:
            if push(w, &n, f.edge_right[e]) or push(w, &n, f.edge_left[e]):
                return OUT_OF_MEMORY
        else:
            if push(w, &n, f.unary_child[-2 - e]):
                return OUT_OF_MEMORY
    for y in range(n_seen - 1, -1, -1):
        item = w.seen[2 * y]
        child = w.seen[2 * y + 1]
        begin = f.item_offset[item]
        m = f.item_offset[item + 1] - begin
        if child < 0:
            memcpy(w.outside1 + begin, w.inside1 + begin, m * 4)
            w.best_upper[item] = f.cell_e[f.item_cell[item]]
            continue
        out = w.outside0 + f.item_offset[child]
        memset(out, 0, (f.item_offset[child + 1] - f.item_offset[child]) * 4)
        e = w.back_lower[child]
        if e >= 0:
            rule = rule_of_edge(f, f.item_cell[child], e)
            nb = g.n[c.rules[3 * rule + 1]]
            nc = g.n[c.rules[3 * rule + 2]]
            power = w.best_upper[f.edge_left[e]] + w.best_upper[f.edge_right[e]]
            memset(w.block, 0, nb * nc * 4)
            add_outer(w.block, w.outside1 + f.item_offset[f.edge_left[e]],
                      w.outside1 + f.item_offset[f.edge_right[e]], nb, nc, 1.0)
            rule_inside(g, rule, out, w.block, g.n[c.rules[3 * rule]], nb * nc)
        else:
            x = -2 - e
            power = w.best_upper[f.unary_child[x]]
            add_matvec(out, g.unary + g.unary_offsets[f.unary_rule[x]],
                       w.outside1 + f.item_offset[f.unary_child[x]],
                       g.n[f.item_symbol[child]], g.n[f.item_symbol[f.unary_child[x]]], 1.0)
        x = w.back_upper[item]
        if x >= 0:
            memset(w.outside1 + begin, 0, m * 4)
            add_matvec(w.outside1 + begin, g.unary + g.unary_offsets[f.unary_rule[x]], out, m,
                       g.n[f.item_symbol[child]], 1.0)
        else:
            memcpy(w.outside1 + begin, out, m * 4)
        largest = 0.0
        for x in range(m):
            largest = max(largest, w.outside1[begin + x])
        here = exponent_of(largest) if largest > 0.0 else 0
        factor = power_of_two(-here)
        for x in range(m):
            w.outside1[begin + x] *= factor
        w.best_upper[item] = power + here
    item = f.root_item[root]
    log_probability[0] = log(
        dot(g.root + g.root_offsets[f.root_rule[root]], w.outside1 + f.item_offset[item],
            g.n[f.item_symbol[item]])
    ) + LOG_2 * w.best_upper[item] - log_z
    return PARSED


cdef inline void pack_edge(Packed* p, int32_t* begins, int head, int first, int second, Py_ssize_t made,
                           int chain, double score) noexcept nogil:
    """Put an edge at the next free place of its head, begins[head + 1]."""
    cdef Py_ssize_t e = p.n_edges + begins[head + 1]
    begins[head + 1] += 1
    p.tails[2 * e] = first
    p.tails[2 * e + 1] = second
    p.made[e] = <int32_t>made
    p.chain[e] = chain
    p.scores[e] = score


cdef int pack_forest(const Coarse* c, Work* w, int n_grammars) noexcept nogil:
    """Append the scored forest as a hypergraph; scores are means over the grammars.

    The nodes of a cell are its tags, the lower nodes of its phrases, and their upper nodes; the
    last node is the root. A node has its binary edges first, then unary ones, then the one that
    takes over the lower node. Overwrites the back-pointers with the numbers of the nodes.
    """
    cdef Forest* f = &w.f
    cdef Packed* p = &w.packed
    cdef int cell, item, x, e, first, child, n_nodes = 0, n_edges
    cdef double scale = 1.0 / n_grammars
    cdef int32_t* lower = w.back_lower
    cdef int32_t* upper = w.back_upper
    cdef int32_t* begins
    cdef int32_t* out
    cdef bint tag
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
    n_edges = f.n_edges + f.n_unaries + f.n_items + f.n_roots
    if reserve_packed(p, f.n_items, n_nodes + 2, n_edges):
        return OUT_OF_MEMORY
    out = p.items + 3 * p.n_items
    for item in range(f.n_items):
        out[3 * item] = f.item_symbol[item]
        out[3 * item + 1] = f.cell_i[f.item_cell[item]]
        out[3 * item + 2] = f.cell_j[f.item_cell[item]]
    # Numbers of edges two places behind their heads; summed up, each node's next place one behind.
    begins = p.begins + p.n_begins
    memset(begins, 0, <size_t>(n_nodes + 2) * 4)
    for item in range(f.n_items):
        begins[upper[item] + 2] += 1
    for x in range(f.n_groups):
        begins[lower[f.group_parent[x]] + 2] += f.group_edge[x + 1] - f.group_edge[x]
    for x in range(f.n_unaries):
        tag = f.item_symbol[f.unary_child[x]] < c.n_tags
        begins[(lower if tag else upper)[f.unary_parent[x]] + 2] += 1
    begins[n_nodes + 1] += f.n_roots
    for x in range(n_nodes):
        begins[x + 2] += begins[x + 1]
    for x in range(f.n_groups):
        item = f.group_parent[x]
        for e in range(f.group_edge[x], f.group_edge[x + 1]):
            pack_edge(p, begins, lower[item], upper[f.edge_left[e]], upper[f.edge_right[e]],
                      p.n_items + item, -1, scale * f.edge_score[e])
    for x in range(f.n_unaries):
        item = f.unary_parent[x]
        child = f.unary_child[x]
        tag = f.item_symbol[child] < c.n_tags
        pack_edge(p, begins, (lower if tag else upper)[item], (upper if tag else lower)[child], -1,
                  p.n_items + item, f.unary_rule[x], scale * f.unary_score[x])
    for item in range(f.n_items):
        if f.item_symbol[item] < c.n_tags:
            pack_edge(p, begins, upper[item], -1, -1, p.n_items + item, -1,
                      scale * f.score_tag[item])
        else:
            pack_edge(p, begins, upper[item], lower[item], -1, -1, -1,
                      scale * f.score_same[item])
    for x in range(f.n_roots):
        pack_edge(p, begins, n_nodes - 1, upper[f.root_item[x]], -1, -1, -1,
                  scale * f.root_score[x])
    p.n_items += f.n_items
    p.n_begins += n_nodes + 1
    p.n_edges += n_edges
    return PARSED


cdef int is_tree(const Coarse* c, Work* w, int root) noexcept nogil:
    """Whether the back-pointers make a tree below a root: PARSED or UNPARSED; OUT_OF_MEMORY."""
    cdef Forest* f = &w.f
    cdef int n = 0, item, x, e, cell
    if push(w, &n, f.root_item[root]):
        return OUT_OF_MEMORY
    while n:
        n -= 1
        item = w.stack[n]
        if f.item_symbol[item] < c.n_tags:
            continue
        x = w.back_upper[item]
        if x >= 0:
            if (x >= f.n_unaries or f.unary_parent[x] != item
                    or f.item_symbol[f.unary_child[x]] < c.n_tags):
                return UNPARSED
            item = f.unary_child[x]
        e = w.back_lower[item]
        if e >= 0:
            cell = f.item_cell[item]
            x = group_of_edge(f, cell, e)
            if not (
                x < f.cell_group[cell + 1] and f.group_edge[x] <= e < f.group_edge[x + 1]
                and f.group_parent[x] == item
            ):
                return UNPARSED
            if push(w, &n, f.edge_right[e]) or push(w, &n, f.edge_left[e]):
                return OUT_OF_MEMORY
            continue
        x = -2 - e
        if (not 0 <= x < f.n_unaries or f.unary_parent[x] != item
                or f.item_symbol[f.unary_child[x]] >= c.n_tags):
            return UNPARSED
    return PARSED


cdef int rule_of_edge(const Forest* f, int cell, int edge) noexcept nogil:
    return f.group_rule[group_of_edge(f, cell, edge)]


cdef int group_of_edge(const Forest* f, int cell, int edge) noexcept nogil:
    """The group of an edge of this cell; if it is not, another one or one beyond them."""
    cdef int low = f.cell_group[cell], high = f.cell_group[cell + 1], middle
    while high - low > 1:
        middle = (low + high) // 2
        if f.group_edge[middle] <= edge:
            low = middle
        else:
            high = middle
    return low


cdef inline void max_matvec(float* out, const float* p, const float* x, int rows, int n) noexcept nogil:
    cdef int r, k
    cdef float best
    for r in range(rows):
        best = out[r]
        for k in range(n):
            if p[r * n + k] * x[k] > best:
                best = p[r * n + k] * x[k]
        out[r] = best


cdef inline void rule_maximum(const Fine* g, int rule, float* out, const float* block, int na, int n) noexcept nogil:
    """`rule_inside` with a maximum for the sum."""
    cdef int e
    cdef float value
    if g.binary_offsets[rule] >= 0:
        max_matvec(out, g.binary + g.binary_offsets[rule], block, na, n)
        return
    for e in range(g.entries[rule], g.entries[rule + 1]):
        value = g.entry_value[e] * block[g.entry_pair[e]]
        if value > out[g.entry_parent[e]]:
            out[g.entry_parent[e]] = value


cdef int viterbi(const Coarse* c, const Fine* g, Work* w, const float* lexicon, int stride) noexcept nogil:
    """The derivation of highest probability: maxima in place of the sums of `inside_fine`.

    Its productions become the back-pointers. Returns the best root, -1 if there is no derivation.
    Overwrites the inside scores.
    """
    cdef Forest* f = &w.f
    cdef int cell, x, y, u, v, e, best, parent, child, rule, nb, nc, here, item, n = 0, s, root = -1
    cdef float value, top = 0.0, factor
    cdef const float* b
    cdef const float* d
    cdef const float* p
    memset(w.inside0, 0, w.n_values * 4)
    for cell in range(f.n_cells):
        best = 0
        if f.cell_j[cell] == f.cell_i[cell] + 1:
            enter_words(c, g, w, cell, lexicon, stride)
        else:
            best = -(1 << 30)
            for x in range(f.cell_group[cell], f.cell_group[cell + 1]):
                for e in range(f.group_edge[x], f.group_edge[x + 1]):
                    here = (f.cell_e[f.item_cell[f.edge_left[e]]]
                            + f.cell_e[f.item_cell[f.edge_right[e]]])
                    best = here if here > best else best
            f.cell_e[cell] = best
            for x in range(f.cell_group[cell], f.cell_group[cell + 1]):
                parent = f.group_parent[x]
                rule = f.group_rule[x]
                nb = g.n[c.rules[3 * rule + 1]]
                nc = g.n[c.rules[3 * rule + 2]]
                memset(w.block, 0, nb * nc * 4)
                for e in range(f.group_edge[x], f.group_edge[x + 1]):
                    factor = power_of_two(f.cell_e[f.item_cell[f.edge_left[e]]]
                                          + f.cell_e[f.item_cell[f.edge_right[e]]] - best)
                    b = w.inside1 + f.item_offset[f.edge_left[e]]
                    d = w.inside1 + f.item_offset[f.edge_right[e]]
                    for u in range(nb):
                        for v in range(nc):
                            value = factor * b[u] * d[v]
                            if value > w.block[u * nc + v]:
                                w.block[u * nc + v] = value
                rule_maximum(g, rule, w.inside0 + f.item_offset[parent], w.block,
                             g.n[c.rules[3 * rule]], nb * nc)
        x = f.cell_unary[cell]
        while x < f.cell_unary[cell + 1] and f.item_symbol[f.unary_child[x]] < c.n_tags:
            child = f.unary_child[x]
            parent = f.unary_parent[x]
            max_matvec(w.inside0 + f.item_offset[parent],
                       g.unary + g.unary_offsets[f.unary_rule[x]],
                       w.inside1 + f.item_offset[child], g.n[f.item_symbol[parent]],
                       g.n[f.item_symbol[child]])
            x += 1
        item = f.cell_item[cell]
        while item < f.cell_item[cell + 1] and f.item_symbol[item] < c.n_tags:
            item += 1
        e = f.item_offset[item]
        here = f.item_offset[f.cell_item[cell + 1]]
        memcpy(w.inside1 + e, w.inside0 + e, (here - e) * 4)
        while x < f.cell_unary[cell + 1]:
            child = f.unary_child[x]
            parent = f.unary_parent[x]
            max_matvec(w.inside1 + f.item_offset[parent],
                       g.unary + g.unary_offsets[f.unary_rule[x]],
                       w.inside0 + f.item_offset[child], g.n[f.item_symbol[parent]],
                       g.n[f.item_symbol[child]])
            x += 1
        if f.cell_j[cell] > f.cell_i[cell] + 1:
            f.cell_e[cell] = scale_cell(w.inside0 + e, w.inside1 + e, here - e, f.cell_e[cell])
    s = 0
    for x in range(f.n_roots):
        item = f.root_item[x]
        p = g.root + g.root_offsets[f.root_rule[x]]
        for y in range(g.n[f.item_symbol[item]]):
            value = p[y] * w.inside1[f.item_offset[item] + y]
            if value > top:
                top = value
                root = x
                s = y
    if root < 0:
        return -1
    # From the top: pairs of an item and a substate of its upper node.
    if push(w, &n, f.root_item[root]) or push(w, &n, s):
        return -2
    while n:
        s = w.stack[n - 1]
        item = w.stack[n - 2]
        n -= 2
        if f.item_symbol[item] < c.n_tags:
            continue
        cell = f.item_cell[item]
        child = item
        top = w.inside0[f.item_offset[item] + s]
        w.back_upper[item] = -1
        y = s
        for x in range(f.cell_unary[cell], f.cell_unary[cell + 1]):
            if f.unary_parent[x] != item or f.item_symbol[f.unary_child[x]] < c.n_tags:
                continue
            here = f.unary_child[x]
            nc = g.n[f.item_symbol[here]]
            p = g.unary + g.unary_offsets[f.unary_rule[x]] + s * nc
            for v in range(nc):
                value = p[v] * w.inside0[f.item_offset[here] + v]
                if value > top:
                    top = value
                    child = here
                    y = v
                    w.back_upper[item] = x
        s = y
        top = -1.0
        w.back_lower[child] = -1
        nb = nc = 0  # the substates below
        for x in range(f.cell_unary[cell], f.cell_unary[cell + 1]):
            if f.unary_parent[x] != child or f.item_symbol[f.unary_child[x]] >= c.n_tags:
                continue
            here = f.unary_child[x]
            e = g.n[f.item_symbol[here]]
            p = g.unary + g.unary_offsets[f.unary_rule[x]] + s * e
            for v in range(e):
                value = p[v] * w.inside1[f.item_offset[here] + v]
                if value > top:
                    top = value
                    w.back_lower[child] = -2 - x
                    nb = v
        for x in range(f.cell_group[cell], f.cell_group[cell + 1]):
            if f.group_parent[x] != child:
                continue
            rule = f.group_rule[x]
            here = g.n[c.rules[3 * rule + 2]]
            best = g.n[c.rules[3 * rule + 1]]
            p = rule_row(g, rule, s, best * here, w.block)
            for e in range(f.group_edge[x], f.group_edge[x + 1]):
                factor = power_of_two(f.cell_e[f.item_cell[f.edge_left[e]]]
                                      + f.cell_e[f.item_cell[f.edge_right[e]]] - f.cell_e[cell])
                b = w.inside1 + f.item_offset[f.edge_left[e]]
                d = w.inside1 + f.item_offset[f.edge_right[e]]
                for u in range(best):
                    for v in range(here):
                        value = factor * p[u * here + v] * b[u] * d[v]
                        if value > top:
                            top = value
                            w.back_lower[child] = e
                            nb = u
                            nc = v
        e = w.back_lower[child]
        if e == -1:  # of scores that are no numbers none is greater
            return -1
        if e >= 0:
            if (push(w, &n, f.edge_right[e]) or push(w, &n, nc)
                    or push(w, &n, f.edge_left[e]) or push(w, &n, nb)):
                return -2
    return root


# ---------------------------------------------------------------------------------------------
# one sentence
# ---------------------------------------------------------------------------------------------
cdef struct Task:
    # Grammars, the first of which runs the cascade; the others score its last forest.
    int n_grammars
    const Coarse* coarse
    Fine** fine  # levels of each grammar
    int n_levels
    int* levels  # numbers of levels of the first grammar, the last one decides
    int* last  # number of the last level of each grammar
    float* keep  # thresholds of posteriors after each level but the last
    float edge_factor
    int decoder


cdef int cascade(const Task* t, Work* w, int n, const float** lexicon, const int* strides,
                 int n_levels, float relax, float* z) noexcept nogil:
    """Inside and outside of the last of `n_levels` levels. lexicon: one a level of `t.levels`."""
    cdef int k, status
    cdef float keep
    if reserve_chart(w, t.coarse, n):
        return OUT_OF_MEMORY
    if relax == 1.0:  # otherwise the chart is still there
        inside_coarse(t.coarse, w, n, lexicon[0], strides[0])
        z[0] = sentence_score_coarse(t.coarse, w, n)
        w.z = z[0]
        if not z[0] > 0:
            return UNPARSED
        outside_coarse(t.coarse, w, n)
    keep = t.keep[0] * relax
    status = build_forest(t.coarse, w, n, w.z, keep, keep * t.edge_factor, NULL)
    if status != PARSED:
        return status
    for k in range(1 if n_levels > 1 else 0, n_levels):
        status = lay_out(&t.fine[0][t.levels[k]], w)
        if status != PARSED:
            return status
        z[0] = inside_fine(t.coarse, &t.fine[0][t.levels[k]], w, lexicon[k], strides[k])
        if not z[0] > 0:
            return UNPARSED
        outside_fine(t.coarse, &t.fine[0][t.levels[k]], w, z[0])
        if k < n_levels - 1:
            keep = t.keep[k] * relax
            prune(t.coarse, w, keep, keep * t.edge_factor)
            if w.f.n_roots == 0:
                return UNPARSED
    return PARSED


cdef int search(const Task* t, Work* w, int n, const float** lexicon, const int* strides,
                float* z, int* n_levels) noexcept nogil:
    """The cascade; with lower thresholds where nothing is left, then with fewer levels.

    n_levels: of the cascade that went through.
    """
    cdef int status, levels
    n_levels[0] = t.n_levels
    status = cascade(t, w, n, lexicon, strides, t.n_levels, 1.0, z)
    if status != UNPARSED or not w.z > 0:
        return status
    for levels in range(t.n_levels, 0, -1):
        n_levels[0] = levels
        status = cascade(t, w, n, lexicon, strides, levels, 1e-4, z)
        if status != UNPARSED:
            return status
    return status


cdef int score(const Task* t, Work* w, int n_levels, const float** lexicon, const int* strides,
               const float** others, const int* other_strides, float* z) noexcept nogil:
    """Scores of the last forest for the decoder, summed over the grammars. Returns their number."""
    cdef int x, status, n = 0, level
    cdef float own
    cdef Fine* g
    if n_levels == t.n_levels:
        for x in range(1, t.n_grammars):
            g = &t.fine[x][t.last[x]]
            if lay_out(g, w) != PARSED:
                return 0
            own = inside_fine(t.coarse, g, w, others[x - 1], other_strides[x - 1])
            if own > 0:
                outside_fine(t.coarse, g, w, own)
                add_scores(t.coarse, w, t.decoder, n == 0)
                n += 1
    level = t.levels[n_levels - 1]
    if n or t.n_grammars > 1:
        g = &t.fine[0][level]
        if lay_out(g, w) != PARSED:
            return 0
        z[0] = inside_fine(t.coarse, g, w, lexicon[n_levels - 1], strides[n_levels - 1])
        outside_fine(t.coarse, g, w, z[0])
    add_scores(t.coarse, w, t.decoder, n == 0)
    return n + 1


cdef int parse_sentence(const Task* t, Work* w, int n, const float** lexicon, const int* strides,
                        const float** others, const int* other_strides, int* n_levels,
                        double* log_z, double* log_probability) noexcept nogil:
    """Parse n words and write the brackets and tags to the output."""
    cdef float z = 0.0
    cdef int status, root, n_grammars, k
    cdef Fine* g
    status = search(t, w, n, lexicon, strides, &z, n_levels)
    if status != PARSED:
        return status
    k = n_levels[0] - 1
    g = &t.fine[0][t.levels[k]]
    n_grammars = score(t, w, n_levels[0], lexicon, strides, others, other_strides, &z)
    if n_grammars == 0:
        return OUT_OF_MEMORY
    log_z[0] = log(<double>z) + LOG_2 * w.f.cell_e[w.f.n_cells - 1]
    if t.decoder == VITERBI:
        root = viterbi(t.coarse, g, w, lexicon[k], strides[k])
        if root == -2:
            return OUT_OF_MEMORY
    else:
        root = best_tree(t.coarse, w)
    if root < 0:
        return UNPARSED
    return read_tree(t.coarse, g, w, root, log_z[0], n_grammars, log_probability)


cdef int pack_sentence(const Task* t, Work* w, int n, const float** lexicon, const int* strides,
                       const float** others, const int* other_strides, int* n_levels,
                       double* log_z) noexcept nogil:
    """Append the scored forest of n words to the packed ones."""
    cdef float z = 0.0
    cdef int status = search(t, w, n, lexicon, strides, &z, n_levels), n_grammars
    if status != PARSED:
        return status
    n_grammars = score(t, w, n_levels[0], lexicon, strides, others, other_strides, &z)
    if n_grammars == 0:
        return OUT_OF_MEMORY
    log_z[0] = log(<double>z) + LOG_2 * w.f.cell_e[w.f.n_cells - 1]
    return pack_forest(t.coarse, w, n_grammars)


# ---------------------------------------------------------------------------------------------
# for Python
# ---------------------------------------------------------------------------------------------
cdef class Grammar:
    """A latent grammar, laid out for the kernel.

    symbols: (tags, phrases, all); rules: int32 (R, 3), (U, 2), (K,), see `symbols.Rules`; levels:
    tuples of contiguous arrays (substates, offsets, binary, binary_offsets, unary, unary_offsets,
    root, root_offsets, entries, entry_parent, entry_pair, entry_value), see `model.Level` and
    `Fine`; coarse: the binary probabilities of level 0; chain_begin, chains: int32, what stands between parent
    and child of each unary rule in the output. `decode.compile_grammar` makes it.
    """

    cdef Coarse coarse
    cdef Fine* fine
    cdef readonly int n_levels
    cdef list _kept

    def __cinit__(self, int n_tags, int n_phrases, int n_symbols, const int32_t[:, ::1] binary,
                  const int32_t[:, ::1] unary, const int32_t[::1] root, list levels,
                  const float[::1] coarse, const int32_t[::1] chain_begin, const int32_t[::1] chains):
        cdef int k
        cdef const int32_t[::1] n
        cdef const int64_t[::1] offsets
        cdef const float[::1] values
        _check_symbols(n_tags, n_phrases, n_symbols, np.asarray(binary), np.asarray(unary),
                       np.asarray(root))
        for parts in levels or ():
            _check_level(n_symbols, np.asarray(binary), np.asarray(unary), np.asarray(root), parts)
        if not levels or coarse is None or chain_begin is None or chains is None:
            raise ValueError("there must be a level 0, with one probability for each rule")
        _check_begins(np.asarray(chain_begin), len(unary), len(chains))
        if len(coarse) != len(binary) or not (
            len(levels[0][4]) == len(unary) and len(levels[0][6]) == len(root)
        ):
            raise ValueError("there must be a level 0, with one probability for each rule")
        if len(chains) and not 0 <= np.min(chains) <= np.max(chains) < n_symbols:
            raise ValueError("a chain has a symbol that is none")
        self._kept = []
        self.n_levels = len(levels)
        self.fine = <Fine*>calloc(max(self.n_levels, 1), sizeof(Fine))
        if self.fine == NULL:
            raise MemoryError
        for k, parts in enumerate(levels):
            n = self._keep(parts[0])
            self.fine[k].n = &n[0]
            offsets = self._keep(parts[1])
            self.fine[k].offsets = &offsets[0]
            values = self._keep(_some(parts[2]))
            self.fine[k].binary = &values[0]
            offsets = self._keep(parts[3])
            self.fine[k].binary_offsets = &offsets[0]
            values = self._keep(_some(parts[4]))
            self.fine[k].unary = &values[0]
            offsets = self._keep(parts[5])
            self.fine[k].unary_offsets = &offsets[0]
            values = self._keep(_some(parts[6]))
            self.fine[k].root = &values[0]
            offsets = self._keep(parts[7])
            self.fine[k].root_offsets = &offsets[0]
            self.fine[k].entries = self._ints(parts[8])
            self.fine[k].entry_parent = self._ints(parts[9])
            self.fine[k].entry_pair = self._ints(parts[10])
            self.fine[k].entry_value = self._floats(parts[11])
            self.fine[k].widest = int(np.max(parts[0]))
        self._set_coarse(n_tags, n_phrases, n_symbols, np.asarray(binary), np.asarray(unary),
                         np.asarray(root), (np.asarray(coarse), levels[0][4], levels[0][6]))
        self.coarse.chain_begin = self._ints(chain_begin)
        self.coarse.chains = self._ints(chains)

    def __dealloc__(self):
        free(self.fine)

    def _keep(self, array):
        self._kept.append(array)
        return array

    cdef const int32_t* _ints(self, array) except NULL:
        cdef const int32_t[::1] view = self._keep(
            np.ascontiguousarray(np.append(np.ravel(array), 0), dtype=np.int32)
        )
        return &view[0]

    cdef const float* _floats(self, array) except NULL:
        cdef const float[::1] view = self._keep(_some(np.ravel(array)))
        return &view[0]

    def _set_coarse(self, n_tags, n_phrases, n_symbols, binary, unary, root, values):
        """Sort the rules by the kind of their children."""
        cdef Coarse* c = &self.coarse
        parent, left, right = binary.T
        value, unary_value, root_value = values
        n_nts = n_symbols - n_tags
        c.n_symbols, c.n_tags, c.n_phrases, c.n_nts = n_symbols, n_tags, n_phrases, n_nts
        c.n_pad = (n_nts + 7) // 8 * 8
        c.n_rules, c.n_unary, c.n_root = len(binary), len(unary), len(root)
        c.rules = self._ints(binary)
        c.unary_rules = self._ints(unary)
        c.root_rules = self._ints(root)
        c.pairs = self._ints(
            np.searchsorted(left.astype(np.int64) * n_symbols + right,
                            np.arange(n_symbols * n_symbols + 1))
        )
        c.unary_by_child = self._ints(np.searchsorted(unary[:, 1], np.arange(n_symbols + 1)))
        c.unary_value = self._floats(unary_value)
        c.root_value = self._floats(root_value)
        c.binary_value = self._floats(value)
        a, b, d = parent - n_tags, left - n_tags, right - n_tags
        both = (b >= 0) & (d >= 0)
        c.n_left = int(b.max(initial=-1, where=both)) + 1
        c.n_right = int(d.max(initial=-1, where=both)) + 1
        c.n_left_pad = (max(c.n_left, 1) + 7) // 8 * 8
        c.n_right_pad = (max(c.n_right, 1) + 7) // 8 * 8
        order = np.flatnonzero(both)[np.argsort(a[both], kind="stable")]
        place = b * c.n_right_pad + d
        c.parent_begin = self._ints(np.searchsorted(a[order], np.arange(n_nts + 1)))
        c.parent_place = self._ints(place[order])
        c.parent_value = self._floats(value[order])
        # Already sorted by (left, right).
        order = np.flatnonzero(both)
        places, begin = np.unique(place[order], return_index=True)
        c.n_places = len(places)
        c.place = self._ints(places)
        c.place_transposed = self._ints(
            places % c.n_right_pad * c.n_left_pad + places // c.n_right_pad
        )
        c.place_begin = self._ints(np.append(begin, len(order)))
        c.place_parent = self._ints(a[order])
        c.place_value = self._floats(value[order])
        tags = np.arange(n_tags + 1)
        for which in range(3):
            if which == 0:
                chosen, key, other = (left < n_tags) & (d >= 0), left, d
            elif which == 1:
                chosen, key, other = (b >= 0) & (right < n_tags), right, b
            else:
                chosen, key, other = (left < n_tags) & (right < n_tags), left, right
            order = np.flatnonzero(chosen)[np.argsort(key[chosen], kind="stable")]
            begin = np.searchsorted(key[order], tags)
            pairs = np.column_stack([a[order], other[order]])
            if which == 0:
                c.tag_nt_begin = self._ints(begin)
                c.tag_nt = self._ints(pairs)
                c.tag_nt_value = self._floats(value[order])
            elif which == 1:
                c.nt_tag_begin = self._ints(begin)
                c.nt_tag = self._ints(pairs)
                c.nt_tag_value = self._floats(value[order])
            else:
                c.tag_tag_begin = self._ints(begin)
                c.tag_tag = self._ints(pairs)
                c.tag_tag_value = self._floats(value[order])


def _check_symbols(n_tags, n_phrases, n_symbols, binary, unary, root):
    """Raise ValueError unless these are rules of the symbols, in order: the loops trust them."""
    if not (0 <= n_tags and 0 <= n_phrases and n_tags + n_phrases <= n_symbols <= 2**15):
        raise ValueError("tags and phrases must be symbols, and these at most 2**15")
    if (binary.ndim, unary.ndim, root.ndim) != (2, 2, 1):
        raise ValueError("rules of the wrong shape")
    if binary.shape[1] != 3 or unary.shape[1] != 2:
        raise ValueError("rules of the wrong shape")
    for rules in (binary, unary, root):
        if rules.size and not 0 <= rules.min() <= rules.max() < n_symbols:
            raise ValueError("a rule with a symbol that is none")
    for rules in (binary, unary):
        if len(rules) and rules[:, 0].min() < n_tags:
            raise ValueError("a tag has a rule")
    keys = (binary[:, 1].astype(np.int64) * n_symbols + binary[:, 2]) * n_symbols + binary[:, 0]
    if (np.diff(keys) <= 0).any() or (unary[1:, 1] < unary[:len(unary) - 1, 1]).any():
        raise ValueError("rules must be in the order of their children")


def _check_level(n_symbols, binary, unary, root, parts):
    """Raise ValueError unless the arrays of a level are as `Grammar` and `Fine` have them."""
    if len(parts) != 12:
        raise ValueError("a level has twelve arrays")
    if not all(isinstance(part, np.ndarray) and part.ndim == 1 for part in parts):
        raise ValueError("the arrays of a level have one dimension")
    n, offsets, dense, dense_offsets = parts[:4]
    entries, parents, pairs, values = parts[8:]
    if len(n) != n_symbols or not (n_symbols and 1 <= n.min() <= n.max() <= MOST_SUBSTATES):
        raise ValueError("a symbol with no substates or too many")
    n = n.astype(np.int64)
    if len(offsets) != n_symbols + 1 or offsets[0] != 0 or (np.diff(offsets) != n).any():
        raise ValueError("offsets must delimit the substates of each symbol")
    sizes = n[binary].prod(axis=1)
    if len(dense_offsets) != len(binary) or (len(binary) and not (
        dense_offsets.min() >= -1 and (np.maximum(dense_offsets, 0) <= len(dense)).all()
        and (np.where(dense_offsets >= 0, dense_offsets + sizes, 0) <= len(dense)).all()
    )):
        raise ValueError("a block is not among the probabilities")
    for rules, place in ((unary, 4), (root[:, None], 6)):
        _check_begins(parts[place + 1], len(rules), len(parts[place]))
        if (np.diff(parts[place + 1]) != n[rules].prod(axis=1)).any():
            raise ValueError("a block has the wrong size")
    _check_begins(entries, len(binary), len(values))
    rule = np.repeat(np.arange(len(binary)), np.diff(entries))
    if not len(parents) == len(pairs) == len(values) or len(values) and not (
        parents.min() >= 0 and (parents < n[binary[rule, 0]]).all() and pairs.min() >= 0
        and (pairs < n[binary[rule, 1]] * n[binary[rule, 2]]).all()
    ):
        raise ValueError("an entry is of no substates of its rule")


def _check_begins(begins, parts, total):
    if len(begins) != parts + 1 or begins[0] != 0 or begins[parts] != total:
        raise ValueError("begins must say where each part begins, and the end")
    if (begins[1:] < begins[:len(begins) - 1]).any():
        raise ValueError("begins must not fall")


def _some(values):
    """float32, contiguous, and not empty, so that a pointer can be taken; no copy if need be."""
    values = np.ascontiguousarray(values, dtype=np.float32)
    return values if len(values) else np.zeros(1, dtype=np.float32)


cdef class Parser:
    """Grammars with one set of symbols and rules, and how to parse with them; shared by threads.

    grammars: the first runs the cascade over its `levels`, ascending, from 0; level `last` of each
    scores the forest. keep: posteriors below which an item is left out after each level but
    the last; edge_factor: productions, below keep * edge_factor. decoder: of `DECODERS`.
    """

    cdef Task task
    cdef readonly list grammars
    cdef readonly tuple levels

    def __cinit__(self, list grammars, levels, last, keep, float edge_factor, str decoder):
        cdef int k
        cdef Task* t = &self.task
        cdef Grammar grammar
        if not grammars or not all(isinstance(other, Grammar) for other in grammars):
            raise ValueError("there must be a grammar")
        grammar = grammars[0]
        for other in grammars:
            if not _same_rules(grammar, other):
                raise ValueError("the grammars must have the same symbols and rules")
        self.grammars = list(grammars)
        self.levels = tuple(levels)
        if not self.levels or len(last) != len(grammars) or len(keep) < max(1, len(levels) - 1):
            raise ValueError("levels, last and keep do not fit together")
        if not all(0 <= level < grammar.n_levels for level in self.levels):
            raise ValueError("there is no such level")
        if not all(0 <= k < other.n_levels for k, other in zip(last, grammars)):
            raise ValueError("there is no such level")
        t.n_grammars = len(grammars)
        t.coarse = &grammar.coarse
        t.n_levels = len(self.levels)
        t.edge_factor = edge_factor
        t.decoder = DECODERS[decoder]
        t.fine = <Fine**>calloc(t.n_grammars, sizeof(Fine*))
        t.last = <int*>calloc(t.n_grammars, sizeof(int))
        t.levels = <int*>calloc(t.n_levels, sizeof(int))
        t.keep = <float*>calloc(t.n_levels, sizeof(float))
        if t.fine == NULL or t.last == NULL or t.levels == NULL or t.keep == NULL:
            raise MemoryError
        for k in range(t.n_grammars):
            grammar = grammars[k]
            t.fine[k] = grammar.fine
            t.last[k] = last[k]
        for k in range(t.n_levels):
            t.levels[k] = self.levels[k]
            t.keep[k] = keep[k] if k < t.n_levels - 1 or k == 0 else 0.0

    cdef int check(self, list lexicon, list others, const int64_t[::1] offsets) except -1:
        """Raise ValueError unless these are scores of the words of some sentences."""
        cdef Task* t = &self.task
        cdef Py_ssize_t k, rows, s, columns
        cdef const Fine* g
        cdef const float[:, ::1] view
        if len(lexicon) != t.n_levels or len(others) != t.n_grammars - 1:
            raise ValueError("there must be scores for each level and for each further grammar")
        if offsets.shape[0] == 0 or offsets[0] < 0:
            raise ValueError("offsets must begin at 0 or later")
        for s in range(offsets.shape[0] - 1):
            if not offsets[s] < offsets[s + 1] or offsets[s + 1] - offsets[s] > MOST_WORDS:
                raise ValueError("a sentence has no words, or too many")
        rows = offsets[offsets.shape[0] - 1]
        for k in range(t.n_levels + t.n_grammars - 1):
            view = lexicon[k] if k < t.n_levels else others[k - t.n_levels]
            g = &t.fine[0][t.levels[k]] if k < t.n_levels else NULL
            if g == NULL:
                g = &t.fine[k - t.n_levels + 1][t.last[k - t.n_levels + 1]]
            # The first is that of level 0, too.
            columns = max(g.offsets[t.coarse.n_tags], <int64_t>t.coarse.n_tags)
            if view is None or view.shape[0] < rows or view.shape[1] < columns:
                raise ValueError("there must be a score of each word for each substate of a tag")
        return 0

    def __dealloc__(self):
        free(self.task.fine)
        free(self.task.last)
        free(self.task.levels)
        free(self.task.keep)


cdef bint _same_rules(Grammar one, Grammar other) noexcept:
    cdef const Coarse* a = &one.coarse
    cdef const Coarse* b = &other.coarse
    return (
        a.n_symbols == b.n_symbols and a.n_tags == b.n_tags and a.n_phrases == b.n_phrases
        and a.n_rules == b.n_rules and a.n_unary == b.n_unary and a.n_root == b.n_root
        and memcmp(a.rules, b.rules, 12 * <size_t>a.n_rules) == 0
        and memcmp(a.unary_rules, b.unary_rules, 8 * <size_t>a.n_unary) == 0
        and memcmp(a.root_rules, b.root_rules, 4 * <size_t>a.n_root) == 0
    )


cdef class Chart:
    """Room to parse in, for one thread; it grows to the longest sentence and is used again."""

    cdef Work work
    cdef Grammar grammar  # for which the room is
    cdef Parser scored  # by which the forest was that `read` reads; None: there is none

    def __cinit__(self):
        memset(&self.work, 0, sizeof(Work))

    def __dealloc__(self):
        free_work(&self.work)

    cdef int begin(self, Grammar grammar) except -1:
        """Room for this grammar; what was there before is no longer read."""
        if grammar is not self.grammar:
            free_work(&self.work)
            memset(&self.work, 0, sizeof(Work))
            self.grammar = grammar
        self.scored = None
        return 0

    def parse(self, Parser parser not None, list lexicon not None, list others not None,
              const int64_t[::1] offsets):
        """Parse a batch of sentences, none of which is empty.

        lexicon: for each level of the cascade, float32 (words, columns), P(word | tag substate);
        others: the same for that level of each further grammar. offsets: int64 (sentences + 1).
        RETURNS: symbol, start, end, probability of brackets and tags in pre-order, the sentences
        one after another; where each begins, int64 (sentences + 1); the levels that it went through
        (0 if there is no parse), log P(words) and log P(tree | words).
        """
        parser.check(lexicon, others, offsets)
        self.begin(parser.grammars[0])
        self.work.n_out = 0
        places, went, logs = self._batch(parser, lexicon, others, offsets, False)
        return self._output() + (places[:, 0], went, logs)

    def hypergraphs(self, Parser parser not None, list lexicon not None, list others not None,
                    const int64_t[::1] offsets):
        """The scored forests of a batch of sentences, none of which is empty, as hypergraphs.

        The arguments are those of `parse`; the decoder, "variational" as a rule, says what the
        scores are, of several grammars their mean. RETURNS: the arrays items, begins, tails,
        scores, made and chain of `hypergraph.Hypergraphs`, for the sentences that have a parse;
        where the items, begins and edges of each sentence begin, int64 (sentences + 1, 3); the
        levels that it went through (0 if there is no parse), and log P(words).
        """
        cdef Packed* p = &self.work.packed
        parser.check(lexicon, others, offsets)
        self.begin(parser.grammars[0])
        p.n_items = p.n_begins = p.n_edges = 0
        places, went, logs = self._batch(parser, lexicon, others, offsets, True)
        items = np.empty((p.n_items, 3), dtype=np.int32)
        begins = np.empty(p.n_begins, dtype=np.int32)
        tails = np.empty((p.n_edges, 2), dtype=np.int32)
        scores = np.empty(p.n_edges)
        made = np.empty(p.n_edges, dtype=np.int32)
        chain = np.empty(p.n_edges, dtype=np.int32)
        cdef int32_t[:, ::1] pairs
        cdef int32_t[::1] single
        cdef double[::1] double_view = scores
        if p.n_edges:
            pairs = items
            memcpy(&pairs[0, 0], p.items, p.n_items * 12)
            pairs = tails
            memcpy(&pairs[0, 0], p.tails, p.n_edges * 8)
            single = begins
            memcpy(&single[0], p.begins, p.n_begins * 4)
            single = made
            memcpy(&single[0], p.made, p.n_edges * 4)
            single = chain
            memcpy(&single[0], p.chain, p.n_edges * 4)
            memcpy(&double_view[0], p.scores, p.n_edges * 8)
        return items, begins, tails, scores, made, chain, places, went, logs[:, 0]

    cdef _batch(self, Parser parser, list lexicon, list others, const int64_t[::1] offsets,
                bint packed):
        """Parse each sentence, or append its forest to the packed ones.

        RETURNS: where the output of each begins, int64 (sentences + 1, 3), by brackets in the first
        column, or if packed by items, begins and edges; levels and logarithms as in `parse`.
        """
        cdef int x, k, status = PARSED, n_sentences = offsets.shape[0] - 1, n_levels = parser.task.n_levels
        cdef int n_others = parser.task.n_grammars - 1, n, used
        cdef const float[:, ::1] view
        cdef unsigned int mode
        places = np.zeros((n_sentences + 1, 3), dtype=np.int64)
        went = np.zeros(n_sentences, dtype=np.int32)
        logs = np.zeros((n_sentences, 2))
        cdef int64_t[:, ::1] place = places
        cdef int32_t[::1] through = went
        cdef double[:, ::1] log_of = logs
        cdef const float** first = <const float**>calloc(2 * (n_levels + n_others), sizeof(void*))
        cdef int* strides = <int*>calloc(n_levels + n_others, sizeof(int))
        if first == NULL or strides == NULL:
            free(first)
            free(strides)
            raise MemoryError
        cdef const float** rows = first + n_levels + n_others
        cdef Work* w = &self.work
        try:
            for k in range(n_levels + n_others):
                view = lexicon[k] if k < n_levels else others[k - n_levels]
                first[k] = &view[0, 0]
                strides[k] = view.shape[1]
            with nogil:
                mode = flush_subnormals()
                for x in range(n_sentences):
                    n = <int>(offsets[x + 1] - offsets[x])
                    for k in range(n_levels + n_others):
                        rows[k] = first[k] + offsets[x] * strides[k]
                    used = 0
                    log_of[x, 0] = -INFINITY
                    log_of[x, 1] = -INFINITY
                    if packed:
                        status = pack_sentence(&parser.task, w, n, rows, strides, rows + n_levels,
                                               strides + n_levels, &used, &log_of[x, 0])
                    else:
                        status = parse_sentence(&parser.task, w, n, rows, strides, rows + n_levels,
                                                strides + n_levels, &used, &log_of[x, 0],
                                                &log_of[x, 1])
                    if status == OUT_OF_MEMORY:
                        break
                    through[x] = used if status == PARSED else 0
                    if packed:
                        place[x + 1, 0] = w.packed.n_items
                        place[x + 1, 1] = w.packed.n_begins
                        place[x + 1, 2] = w.packed.n_edges
                    else:
                        place[x + 1, 0] = w.n_out
                restore_subnormals(mode)
        finally:
            free(first)
            free(strides)
        if status == OUT_OF_MEMORY:
            raise MemoryError
        return places, went, logs

    def forest(self, Parser parser not None, list lexicon not None, list others not None):
        """The scored forest of one sentence, as arrays, for the k best trees; None if no parse.

        lexicon, others: as in `parse`. RETURNS: a dict of: log_likelihood; levels, how many it went
        through; items, int32 (n, 3), symbol, start, end;
        tag_score, same_score, float64 (n); edges, int32 (m, 3), parent, left, right, and
        edge_score; unaries, int32 (p, 2), parent, child, unary_score, and unary_rules, int32 (p),
        their places in the grammar; roots, int32 (q), and root_score.
        """
        cdef int k, status, used = 0, n_levels = parser.task.n_levels, root, x, e
        cdef int n_others = parser.task.n_grammars - 1
        cdef const float* rows[64]
        cdef int strides[64]
        cdef const float[:, ::1] view
        cdef float z = 0.0
        cdef Work* w = &self.work
        cdef Forest* f = &w.f
        if n_levels + n_others > 64:
            raise ValueError(n_levels + n_others)
        if len(lexicon) != n_levels or len(others) != n_others:
            raise ValueError("there must be scores for each level and for each further grammar")
        offsets = np.array([0, max(map(len, [*lexicon, *others]))], dtype=np.int64)
        parser.check(lexicon, others, offsets)
        self.begin(parser.grammars[0])
        for k in range(n_levels + n_others):
            view = lexicon[k] if k < n_levels else others[k - n_levels]
            rows[k] = &view[0, 0]
            strides[k] = view.shape[1]
        cdef int n = offsets[1]
        cdef unsigned int mode = flush_subnormals()
        status = search(&parser.task, w, n, rows, strides, &z, &used)
        if status == PARSED:
            w.n_grammars = score(&parser.task, w, used, rows, strides, rows + n_levels,
                                 strides + n_levels, &z)
            if w.n_grammars == 0:
                status = OUT_OF_MEMORY
        restore_subnormals(mode)
        if status == OUT_OF_MEMORY:
            raise MemoryError
        if status == UNPARSED:
            return None
        self.scored = parser
        w.log_z = log(<double>z) + LOG_2 * f.cell_e[f.n_cells - 1]
        w.level = parser.task.levels[used - 1]
        items = np.zeros((f.n_items, 3), dtype=np.int32)
        edges = np.zeros((f.n_edges, 3), dtype=np.int32)
        unaries = np.zeros((f.n_unaries, 2), dtype=np.int32)
        unary_rules = np.zeros(f.n_unaries, dtype=np.int32)
        roots = np.zeros(f.n_roots, dtype=np.int32)
        cdef int32_t[:, ::1] item_view = items
        cdef int32_t[:, ::1] edge_view = edges
        cdef int32_t[:, ::1] unary_view = unaries
        cdef int32_t[::1] rule_view = unary_rules
        for x in range(f.n_items):
            item_view[x, 0] = f.item_symbol[x]
            item_view[x, 1] = f.cell_i[f.item_cell[x]]
            item_view[x, 2] = f.cell_j[f.item_cell[x]]
        for x in range(f.n_groups):
            for e in range(f.group_edge[x], f.group_edge[x + 1]):
                edge_view[e, 0] = f.group_parent[x]
                edge_view[e, 1] = f.edge_left[e]
                edge_view[e, 2] = f.edge_right[e]
        for x in range(f.n_unaries):
            unary_view[x, 0] = f.unary_parent[x]
            unary_view[x, 1] = f.unary_child[x]
            rule_view[x] = f.unary_rule[x]
        for x in range(f.n_roots):
            roots[x] = f.root_item[x]
        return {
            "log_likelihood": w.log_z,
            "levels": used,
            "items": items,
            "tag_score": _doubles(f.score_tag, f.n_items),
            "same_score": _doubles(f.score_same, f.n_items),
            "edges": edges,
            "edge_score": _doubles(f.edge_score, f.n_edges),
            "unaries": unaries,
            "unary_score": _doubles(f.unary_score, f.n_unaries),
            "unary_rules": unary_rules,
            "roots": roots,
            "root_score": _doubles(f.root_score, f.n_roots),
        }

    def coarse_forest(self, Grammar grammar not None, const float[:, ::1] lexicon,
                      const int32_t[:, :, ::1] gold, float keep, float keep_edge):
        """The forest that the grammar of level 0 leaves of one sentence, as arrays.

        lexicon: float32 (n, tags or more). gold: int32 (n, n + 1, 3), see `build_forest`. keep,
        keep_edge: posteriors below which items and edges are left out, those of the gold tree not.
        RETURNS: log P(words), how many pairs of a span and a symbol have a score, and int32 arrays: cells (n, 5), each one's i, j and first item, group
        and unary, with one more row for the ends; symbols of items; groups (n + 1, 3), parent,
        rule, first edge, with one more row for the end; edges (n, 2); unaries (n, 3), parent,
        child, rule; roots (n, 2), item and rule. None if the sentence has no parse.
        """
        cdef const Coarse* c = &grammar.coarse
        cdef Work* w = &self.work
        cdef Forest* f = &w.f
        cdef int n = lexicon.shape[0], x, status
        cdef Py_ssize_t made = 0, k
        cdef unsigned int mode
        if gold.shape[0] != n or gold.shape[1] != n + 1 or gold.shape[2] != 3 or n == 0:
            raise ValueError("gold must have three symbols a cell")
        if lexicon.shape[1] < c.n_tags:
            raise ValueError("a word has fewer scores than there are tags")
        if n > MOST_WORDS:
            raise ValueError("a sentence has too many words")
        self.begin(grammar)
        with nogil:
            mode = flush_subnormals()
            status = OUT_OF_MEMORY
            if reserve_chart(w, c, n) == 0:
                inside_coarse(c, w, n, &lexicon[0, 0], lexicon.shape[1])
                w.z = sentence_score_coarse(c, w, n)
                status = UNPARSED
                if w.z > 0:
                    for x in range(n):
                        made += w.n_tags[x]
                    for k in range(<Py_ssize_t>n * (n + 1) // 2 * c.n_pad):
                        made += w.upper[k] > 0.0
                    outside_coarse(c, w, n)
                    status = build_forest(c, w, n, w.z, keep, keep_edge, &gold[0, 0, 0])
            restore_subnormals(mode)
        if status == OUT_OF_MEMORY:
            raise MemoryError
        if status == UNPARSED:
            return None
        cells = np.empty((f.n_cells + 1, 5), dtype=np.int32)
        symbols = np.empty(f.n_items, dtype=np.int32)
        groups = np.empty((f.n_groups + 1, 3), dtype=np.int32)
        edges = np.empty((f.n_edges, 2), dtype=np.int32)
        unaries = np.empty((f.n_unaries, 3), dtype=np.int32)
        roots = np.empty((f.n_roots, 2), dtype=np.int32)
        cdef int32_t[:, ::1] cell = cells, group = groups, edge = edges, unary = unaries, root = roots
        cdef int32_t[::1] symbol = symbols
        for x in range(f.n_cells + 1):
            cell[x, 0] = f.cell_i[x] if x < f.n_cells else n
            cell[x, 1] = f.cell_j[x] if x < f.n_cells else n
            cell[x, 2] = f.cell_item[x]
            cell[x, 3] = f.cell_group[x]
            cell[x, 4] = f.cell_unary[x]
        for x in range(f.n_items):
            symbol[x] = f.item_symbol[x]
        for x in range(f.n_groups + 1):
            group[x, 0] = f.group_parent[x] if x < f.n_groups else -1
            group[x, 1] = f.group_rule[x] if x < f.n_groups else -1
            group[x, 2] = f.group_edge[x] if f.n_groups else 0
        for x in range(f.n_edges):
            edge[x, 0] = f.edge_left[x]
            edge[x, 1] = f.edge_right[x]
        for x in range(f.n_unaries):
            unary[x, 0] = f.unary_parent[x]
            unary[x, 1] = f.unary_child[x]
            unary[x, 2] = f.unary_rule[x]
        for x in range(f.n_roots):
            root[x, 0] = f.root_item[x]
            root[x, 1] = f.root_rule[x]
        log_z = log(<double>w.z) + LOG_2 * w.exponent[by_start(n, 0, n)]
        return log_z, made, cells, symbols, groups, edges, unaries, roots

    def read(self, Parser parser not None, int root, choices):
        """A tree of the forest made last.

        root: a place in its `roots`. choices: triples (item, edge, unary) of each phrase or
        intermediate node: edge, or -2 - x for the unary x over a tag; unary below the upper node,
        or -1. A node that only stands below a unary has the unary -1.
        RETURNS: symbol, start, end, probability in pre-order, and log P(tree | words).
        """
        cdef Work* w = &self.work
        cdef Grammar grammar = parser.grammars[0]
        cdef double log_probability = -INFINITY
        cdef int item, lower, upper, status
        if parser is not self.scored or not 0 <= root < w.f.n_roots:
            raise ValueError("there is no such root in the forest of this parser")
        for item in range(w.f.n_items):
            w.back_lower[item] = w.back_upper[item] = -1
        for item, lower, upper in choices:
            if not 0 <= item < w.f.n_items:
                raise ValueError("a choice for no item of the forest")
            w.back_lower[item] = lower
            w.back_upper[item] = upper
        status = is_tree(&grammar.coarse, w, root)
        if status == UNPARSED:
            raise ValueError("the choices make no tree of the forest")
        w.n_out = 0
        if status == PARSED:
            status = read_tree(&grammar.coarse, &grammar.fine[w.level], w, root, w.log_z,
                               w.n_grammars, &log_probability)
        if status != PARSED:
            raise MemoryError
        return self._output() + (log_probability,)

    def _output(self):
        cdef Work* w = &self.work
        cdef int n = w.n_out
        symbols = np.empty((3, n), dtype=np.int32)
        probabilities = np.empty(n, dtype=np.float32)
        cdef int32_t[:, ::1] out = symbols
        cdef float[::1] probability = probabilities
        if n:
            memcpy(&out[0, 0], w.out_symbol, n * 4)
            memcpy(&out[1, 0], w.out_start, n * 4)
            memcpy(&out[2, 0], w.out_end, n * 4)
            memcpy(&probability[0], w.out_probability, n * 4)
        return symbols[0], symbols[1], symbols[2], probabilities

    def counts(self):
        """Cells, items and edges of the forest made last."""
        cdef Forest* f = &self.work.f
        return {"cells": f.n_cells, "items": f.n_items, "edges": f.n_edges}

    def posteriors(self, Parser parser not None, const float[:, ::1] lexicon):
        """Level 0 alone: posteriors of lower and upper nodes, of tags, and log P(words).

        lexicon: float32 (n, tags). RETURNS: float64 (2, n, n + 1, nonterminals), (n, tags), a float.
        """
        cdef Grammar grammar = parser.grammars[0]
        cdef const Coarse* c = &grammar.coarse
        cdef Work* w = &self.work
        cdef int n = lexicon.shape[0], i, j, a, t
        cdef float z
        if not 1 <= lexicon.shape[0] <= MOST_WORDS or lexicon.shape[1] < c.n_tags:
            raise ValueError("there must be words, with a score for each tag")
        self.begin(grammar)
        if reserve_chart(w, c, n):
            raise MemoryError
        inside_coarse(c, w, n, &lexicon[0, 0], lexicon.shape[1])
        z = sentence_score_coarse(c, w, n)
        nodes = np.zeros((2, n, n + 1, c.n_nts))
        tags = np.zeros((n, c.n_tags))
        if not z > 0:
            return nodes, tags, -np.inf
        outside_coarse(c, w, n)
        cdef double[:, :, :, ::1] node = nodes
        cdef double[:, ::1] tag = tags
        for i in range(n):
            for t in range(c.n_tags):
                tag[i, t] = <double>w.tag_value[i * c.n_tags + t] * w.tag_outside[i * c.n_tags + t] / z
            for j in range(i + 1, n + 1):
                for a in range(c.n_nts):
                    node[0, i, j, a] = (
                        <double>w.lower[by_start(n, i, j) * c.n_pad + a]
                        * w.outside_by_end[by_end(i, j) * c.n_pad + a] / z
                    )
                    node[1, i, j, a] = (
                        <double>w.upper[by_start(n, i, j) * c.n_pad + a]
                        * w.outside[by_start(n, i, j) * c.n_pad + a] / z
                    )
        return nodes, tags, log(<double>z) + LOG_2 * w.exponent[by_start(n, 0, n)]


cdef _doubles(const double* values, int n):
    out = np.empty(n)
    cdef double[::1] view = out
    if n:
        memcpy(&view[0], values, n * sizeof(double))
    return out
