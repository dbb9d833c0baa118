# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of EM on observed trees: inside and outside scores of their nodes, expected counts.

Petrov & Klein (2007), equations 2, 3 and 5. The coarse symbols are known, so that each node has one
vector of inside and one of outside scores over its substates. The layout is that of `TreebankData`
and `Level`. Vectors are float32 and scaled: the inside scores of a node sum to 1, `scale` holds
their divisor, and sum_x O(A_x) I(A_x) = 1, so that O I is the posterior of the substates.
Logarithms are added up in float64.

Counts are summed rule by rule, not tree by tree. The block of a rule then stays in the cache, no
thread needs a copy, and the order of summation does not depend on the number of threads.
"""

from libc.math cimport log, INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc

import numpy as np

from spacy_structlearn.kernels.vectors cimport (
    dot,
    flush_subnormals,
    restore_subnormals,
    vecmat,
)

cdef enum:
    CHUNK = 8192  # number of outer products (float32) at a time, half of a first-level cache
    MOST_SUBSTATES = 1024  # largest number of substates of a symbol, as in `model`


cdef class Trees:
    """The nodes of observed trees, checked once; the arrays are those of `TreebankData`.

    n_binary, n_unary, n_pairs, n_roots: numbers of coarse productions of each kind.
    """

    cdef const int32_t[::1] symbol, left, right, production, roots
    cdef const int64_t[::1] offsets
    cdef const int32_t[:, ::1] binary, unary, pairs
    cdef const int32_t[::1] root
    cdef readonly int n_symbols, n_binary, n_unary, n_pairs, n_roots

    def __init__(
        self, const int32_t[::1] symbol, const int32_t[::1] left, const int32_t[::1] right,
        const int32_t[::1] production, const int64_t[::1] offsets, const int32_t[::1] roots,
        int n_symbols, const int32_t[:, ::1] binary, const int32_t[:, ::1] unary,
        const int32_t[::1] root, const int32_t[:, ::1] pairs,
    ):
        self.symbol, self.left, self.right = symbol, left, right
        self.production, self.offsets, self.roots = production, offsets, roots
        self.binary, self.unary, self.root, self.pairs = binary, unary, root, pairs
        self.n_symbols = n_symbols
        self.n_binary, self.n_unary = binary.shape[0], unary.shape[0]
        self.n_roots, self.n_pairs = root.shape[0], pairs.shape[0]
        cdef Py_ssize_t n = symbol.shape[0], t, i, begin
        cdef int a, b, c, p
        if binary.shape[1] != 3 or unary.shape[1] != 2 or pairs.shape[1] < 1:
            raise ValueError("rules of the wrong shape")
        for rules in (binary, unary, root, np.asarray(pairs)[:, 0]):
            if np.size(rules) and not 0 <= np.min(rules) <= np.max(rules) < n_symbols:
                raise ValueError("a rule with an unknown symbol")
        if not (left.shape[0] == right.shape[0] == production.shape[0] == n):
            raise ValueError("nodes must have a symbol, two children and a production each")
        if offsets.shape[0] != roots.shape[0] + 1 or offsets[0] != 0 or offsets[roots.shape[0]] != n:
            raise ValueError("offsets must delimit the nodes of each tree")
        for t in range(roots.shape[0]):
            begin = offsets[t]
            if begin >= offsets[t + 1] or offsets[t + 1] > n:
                raise ValueError("a tree has no nodes, or more than there are")
            for i in range(begin, offsets[t + 1]):
                a, b, c, p = symbol[i], left[i], right[i], production[i]
                if not (0 <= a < n_symbols) or p < 0:
                    raise ValueError("a symbol or production is out of range")
                if b < 0:
                    sound = c < 0 and p < self.n_pairs and pairs[p, 0] == a
                elif b < begin or b >= i or c >= i or (c >= 0 and c < begin):
                    sound = False
                elif c < 0:
                    sound = p < self.n_unary and unary[p, 0] == a and unary[p, 1] == symbol[b]
                else:
                    sound = (
                        p < self.n_binary and binary[p, 0] == a
                        and binary[p, 1] == symbol[b] and binary[p, 2] == symbol[c]
                    )
                if not sound:
                    raise ValueError("a node and its production do not agree")
            p = roots[t]
            if not (0 <= p < self.n_roots) or root[p] != symbol[offsets[t + 1] - 1]:
                raise ValueError("a tree and its root rule do not agree")

    @property
    def n_trees(self):
        return self.roots.shape[0]

    @property
    def n_nodes(self):
        return self.symbol.shape[0]


cdef struct Params:
    const int32_t* substates
    const float* binary
    const int64_t* binary_offsets
    const float* unary
    const int64_t* unary_offsets
    const float* root
    const int64_t* root_offsets
    const float* emissions
    const int64_t* emission_offsets


def inside_outside(
    Trees trees not None, Py_ssize_t first, Py_ssize_t last, const int32_t[::1] substates,
    const float[::1] binary, const int64_t[::1] binary_offsets,
    const float[::1] unary, const int64_t[::1] unary_offsets,
    const float[::1] root, const int64_t[::1] root_offsets,
    const float[::1] emissions, const int64_t[::1] emission_offsets,
    const int64_t[::1] node_offsets,
    float[::1] inside, float[::1] outside, float[::1] scale, double[::1] log_likelihood,
):
    """Compute the scores of the nodes of trees `first` to `last` (not included).

    node_offsets: int64 (n_nodes + 1), where the vectors of nodes begin in inside and outside.
    scale: float32 (n_nodes).
    log_likelihood: float64 (n_trees).

    A tree without a derivation gets a log-likelihood of -inf and scores of 0.
    """
    cdef Params p
    cdef Py_ssize_t t
    cdef int widest
    cdef unsigned int mode
    if not 0 <= first <= last <= trees.n_trees or substates.shape[0] != trees.n_symbols:
        raise ValueError("trees or substates are out of range")
    if (
        binary_offsets.shape[0] != trees.n_binary + 1 or unary_offsets.shape[0] != trees.n_unary + 1
        or root_offsets.shape[0] != trees.n_roots + 1
        or emission_offsets.shape[0] != trees.n_pairs + 1
        or node_offsets.shape[0] != trees.n_nodes + 1
        or binary.shape[0] != binary_offsets[trees.n_binary]
        or unary.shape[0] != unary_offsets[trees.n_unary]
        or root.shape[0] != root_offsets[trees.n_roots]
        or emissions.shape[0] != emission_offsets[trees.n_pairs]
        or inside.shape[0] != node_offsets[trees.n_nodes] or outside.shape[0] != inside.shape[0]
        or scale.shape[0] != trees.n_nodes or log_likelihood.shape[0] != trees.n_trees
    ):
        raise ValueError("an array has the wrong size")
    if first == last:
        return
    widest = _widest(substates)
    _check_blocks(binary_offsets, trees.binary, substates)
    _check_blocks(unary_offsets, trees.unary, substates)
    _check_blocks(root_offsets, np.asarray(trees.root)[:, None], substates)
    _check_blocks(emission_offsets, np.asarray(trees.pairs)[:, :1].copy(), substates)
    _check_nodes(trees, trees.offsets[first], trees.offsets[last], substates, node_offsets)
    p.substates = &substates[0]
    p.binary = &binary[0] if binary.shape[0] else NULL
    p.binary_offsets = &binary_offsets[0]
    p.unary = &unary[0] if unary.shape[0] else NULL
    p.unary_offsets = &unary_offsets[0]
    p.root = &root[0] if root.shape[0] else NULL
    p.root_offsets = &root_offsets[0]
    p.emissions = &emissions[0] if emissions.shape[0] else NULL
    p.emission_offsets = &emission_offsets[0]
    cdef float* work = <float*>malloc(sizeof(float) * (widest * widest + widest))
    if work == NULL:
        raise MemoryError()
    with nogil:
        mode = flush_subnormals()
        for t in range(first, last):
            log_likelihood[t] = _tree(
                trees, t, &p, &node_offsets[0], &inside[0], &outside[0], &scale[0],
                work, work + widest * widest,
            )
        restore_subnormals(mode)
    free(work)


cdef int _widest(const int32_t[::1] substates) except -1:
    """The largest number of substates."""
    cdef Py_ssize_t s
    cdef int widest = 1
    for s in range(substates.shape[0]):
        if not 1 <= substates[s] <= MOST_SUBSTATES:
            raise ValueError("a symbol with no substates or too many")
        widest = max(widest, substates[s])
    return widest


cdef int _check_blocks(
    const int64_t[::1] offsets, const int32_t[:, ::1] rules, const int32_t[::1] substates
) except -1:
    """Check the offsets of the blocks of rules."""
    cdef Py_ssize_t r, k
    cdef int64_t size
    cdef bint sound = offsets[0] == 0
    for r in range(rules.shape[0]):
        size = 1
        for k in range(rules.shape[1]):
            size *= substates[rules[r, k]]
        # The offsets may be any numbers, whose difference might overflow.
        if offsets[r] < 0 or offsets[r + 1] < 0 or offsets[r + 1] - offsets[r] != size:
            sound = False
    if not sound:
        raise ValueError("a block has the wrong size")
    return 0


cdef int _check_nodes(
    Trees trees, Py_ssize_t begin, Py_ssize_t end, const int32_t[::1] substates,
    const int64_t[::1] node_offsets,
) except -1:
    cdef Py_ssize_t i, total = trees.symbol.shape[0]
    cdef bint sound = True
    for i in range(begin, end):
        if not (
            0 <= node_offsets[i] <= node_offsets[total] and node_offsets[i + 1] >= 0
            and node_offsets[i + 1] - node_offsets[i] == substates[trees.symbol[i]]
        ):
            sound = False
    if not sound or (end > begin and node_offsets[end] > node_offsets[total]):
        raise ValueError("the offsets of a node do not fit its substates")
    return 0


cdef double _tree(
    Trees trees, Py_ssize_t t, const Params* p, const int64_t* at, float* inside, float* outside,
    float* scale, float* pairs, float* scaled,
) noexcept nogil:
    """Fill the vectors of one tree. pairs, scaled: scratch for n_left * n_right, and n_parent."""
    cdef Py_ssize_t begin = trees.offsets[t], end = trees.offsets[t + 1], i, b, c
    cdef int x, y, n, nb, nc, rule
    cdef float* mine
    cdef float* left
    cdef float* right
    cdef const float* block
    cdef float total, factor
    cdef double value = 0.0
    for i in range(begin, end):
        mine, n = inside + at[i], p.substates[trees.symbol[i]]
        b, c, rule = trees.left[i], trees.right[i], trees.production[i]
        total = 0
        if b < 0:
            block = p.emissions + p.emission_offsets[rule]
            for x in range(n):
                mine[x] = block[x]
                total += mine[x]
        else:
            left, nb = inside + at[b], p.substates[trees.symbol[b]]
            if c < 0:
                block = p.unary + p.unary_offsets[rule]
            else:
                right, nc = inside + at[c], p.substates[trees.symbol[c]]
                block = p.binary + p.binary_offsets[rule]
                for y in range(nb):
                    factor = left[y]
                    for x in range(nc):
                        pairs[y * nc + x] = factor * right[x]
                left = pairs
                nb = nb * nc
            for x in range(n):
                mine[x] = dot(block + x * nb, left, nb)
                total += mine[x]
        if not total > 0:
            return _impossible(trees, t, p, at, inside, outside, scale)
        factor = 1 / total
        for x in range(n):
            mine[x] *= factor
        scale[i] = total
        value += log(total)
    block = p.root + p.root_offsets[trees.roots[t]]
    mine, n = outside + at[end - 1], p.substates[trees.symbol[end - 1]]
    total = dot(block, inside + at[end - 1], n)
    if not total > 0:
        return _impossible(trees, t, p, at, inside, outside, scale)
    for x in range(n):
        mine[x] = block[x] / total
    for i in range(end - 1, begin - 1, -1):
        b, c, rule = trees.left[i], trees.right[i], trees.production[i]
        if b < 0:
            continue
        mine, n, nb = outside + at[i], p.substates[trees.symbol[i]], p.substates[trees.symbol[b]]
        factor = 1 / scale[i]
        for x in range(n):
            scaled[x] = mine[x] * factor
        if c < 0:
            vecmat(outside + at[b], p.unary + p.unary_offsets[rule], scaled, n, nb)
            continue
        nc = p.substates[trees.symbol[c]]
        vecmat(pairs, p.binary + p.binary_offsets[rule], scaled, n, nb * nc)
        vecmat(outside + at[c], pairs, inside + at[b], nb, nc)
        left, right = outside + at[b], inside + at[c]
        for y in range(nb):
            left[y] = dot(pairs + y * nc, right, nc)
    return value + log(total)


cdef double _impossible(
    Trees trees, Py_ssize_t t, const Params* p, const int64_t* at, float* inside, float* outside,
    float* scale,
) noexcept nogil:
    """Set the scores of a tree without a derivation. Returns its log-likelihood."""
    cdef Py_ssize_t i
    cdef int x
    for i in range(trees.offsets[t], trees.offsets[t + 1]):
        scale[i] = 1
        for x in range(p.substates[trees.symbol[i]]):
            inside[at[i] + x] = 0
            outside[at[i] + x] = 0
    return -INFINITY


def rule_counts(
    Trees trees not None, bint unary, const int32_t[::1] nodes, const int64_t[::1] starts,
    Py_ssize_t first, Py_ssize_t last, const int32_t[:, ::1] rules, const int32_t[::1] substates,
    const float[::1] probabilities, const int64_t[::1] offsets, const int64_t[::1] node_offsets,
    const float[::1] inside, const float[::1] outside, const float[::1] scale, float[::1] counts,
):
    """Compute the expected counts of the refinements of rules `first` to `last` (not included).

    nodes: int32; those of rule r are from starts[r] to starts[r + 1].
    rules: (n, 3) binary or (n, 2) unary.
    counts: in the layout of probabilities; only the blocks of these rules are written.
    """
    cdef Py_ssize_t r, i, k, n_nodes, done, chunk
    cdef Py_ssize_t total = trees.symbol.shape[0]
    cdef int n, nb, nc, width, widest, x, y
    cdef int64_t node
    cdef float factor
    cdef float* row
    cdef float* out
    cdef const float* left
    cdef const float* right
    cdef const float* mine
    cdef unsigned int mode
    if not 0 <= first <= last <= rules.shape[0] or starts.shape[0] != rules.shape[0] + 1:
        raise ValueError("rules are out of range")
    if (
        rules.shape[1] != (2 if unary else 3) or offsets.shape[0] != rules.shape[0] + 1
        or starts[0] != 0 or starts[rules.shape[0]] != nodes.shape[0]
        or probabilities.shape[0] != offsets[rules.shape[0]]
        or counts.shape[0] != probabilities.shape[0] or substates.shape[0] != trees.n_symbols
        or node_offsets.shape[0] != trees.n_nodes + 1 or scale.shape[0] != trees.n_nodes
        or inside.shape[0] != node_offsets[trees.n_nodes] or outside.shape[0] != inside.shape[0]
    ):
        raise ValueError("an array has the wrong size")
    widest = _widest(substates)
    for r in range(rules.shape[0]):
        if not 0 <= starts[r] <= starts[r + 1]:
            raise ValueError("starts must not fall")
        for k in range(rules.shape[1]):
            if not 0 <= rules[r, k] < trees.n_symbols:
                raise ValueError("a rule with an unknown symbol")
    _check_blocks(offsets, rules, substates)
    _check_nodes(trees, 0, total, substates, node_offsets)
    for r in range(first, last):
        for i in range(starts[r], starts[r + 1]):
            node = nodes[i]
            if (
                not 0 <= node < total or trees.production[node] != r
                or trees.left[node] < 0 or (trees.right[node] < 0) != unary
                or trees.symbol[node] != rules[r, 0]
                or trees.symbol[trees.left[node]] != rules[r, 1]
                or (not unary and trees.symbol[trees.right[node]] != rules[r, 2])
            ):
                raise ValueError("a node is not of its rule")
    cdef Py_ssize_t most = max(CHUNK, widest * widest)
    # Outer products, weights (n_parent, chunk), and one row of sums.
    cdef float* work = <float*>malloc(
        sizeof(float) * (most + <Py_ssize_t>widest * CHUNK + widest * widest)
    )
    if work == NULL:
        raise MemoryError()
    cdef float* weights = work + most
    cdef float* sums = weights + <Py_ssize_t>widest * CHUNK
    with nogil:
        mode = flush_subnormals()
        for r in range(first, last):
            n, nb = substates[rules[r, 0]], substates[rules[r, 1]]
            nc = 1 if unary else substates[rules[r, 2]]
            width = nb * nc
            out = &counts[offsets[r]]
            for k in range(n * width):
                out[k] = 0
            chunk = max(1, CHUNK // width)
            done = starts[r]
            while done < starts[r + 1]:
                n_nodes = min(chunk, starts[r + 1] - done)
                for i in range(n_nodes):
                    node = nodes[done + i]
                    row = work + i * width
                    left = &inside[node_offsets[trees.left[node]]]
                    if unary:
                        for y in range(nb):
                            row[y] = left[y]
                    else:
                        right = &inside[node_offsets[trees.right[node]]]
                        for y in range(nb):
                            factor = left[y]
                            for x in range(nc):
                                row[y * nc + x] = factor * right[x]
                    mine = &outside[node_offsets[node]]
                    factor = 1 / scale[node]
                    for x in range(n):
                        weights[x * n_nodes + i] = mine[x] * factor
                for x in range(n):
                    vecmat(sums, work, weights + x * n_nodes, <int>n_nodes, width)
                    for k in range(width):
                        out[x * width + k] += sums[k]
                done += n_nodes
            for k in range(n * width):
                out[k] *= probabilities[offsets[r] + k]
        restore_subnormals(mode)
    free(work)


def posterior_sums(
    const int32_t[::1] nodes, const int64_t[::1] starts, const int64_t[::1] offsets,
    const int64_t[::1] node_offsets, const float[::1] inside, const float[::1] outside,
    float[::1] sums,
):
    """Sum the posteriors of substates over groups of nodes.

    nodes: int32; those of group g are from starts[g] to starts[g + 1].
    sums: float32, set; the vector of group g is from offsets[g] to offsets[g + 1], and as long as
        the vectors of its nodes.
    """
    cdef Py_ssize_t g, k
    cdef int64_t x, at, n
    cdef float* out
    if (
        starts.shape[0] != offsets.shape[0] or starts.shape[0] < 1 or starts[0] != 0
        or node_offsets.shape[0] < 1 or starts[starts.shape[0] - 1] != nodes.shape[0]
        or sums.shape[0] != offsets[offsets.shape[0] - 1]
        or outside.shape[0] != inside.shape[0]
        or inside.shape[0] != node_offsets[node_offsets.shape[0] - 1]
    ):
        raise ValueError("an array has the wrong size")
    for k in range(nodes.shape[0]):
        if not 0 <= nodes[k] < node_offsets.shape[0] - 1:
            raise ValueError("a node is out of range")
    for g in range(starts.shape[0] - 1):
        if not starts[g] <= starts[g + 1] <= nodes.shape[0]:
            raise ValueError("starts must not fall")
        if not 0 <= offsets[g] <= offsets[g + 1] <= sums.shape[0]:
            raise ValueError("offsets must not fall")
        n = offsets[g + 1] - offsets[g]
        for k in range(starts[g], starts[g + 1]):
            if not 0 <= node_offsets[nodes[k]] <= inside.shape[0] - n:
                raise ValueError("a node has fewer substates than its group")
    with nogil:
        for g in range(starts.shape[0] - 1):
            n = offsets[g + 1] - offsets[g]
            out = &sums[offsets[g]] if n else NULL
            for x in range(n):
                out[x] = 0
            for k in range(starts[g], starts[g + 1]):
                at = node_offsets[nodes[k]]
                for x in range(n):
                    out[x] += inside[at + x] * outside[at + x]
