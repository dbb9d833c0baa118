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

cimport cython
from libc.math cimport log, INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

import numpy as np

from spacy_structlearn.arrays import cumulative
from spacy_structlearn.kernels.checks cimport check, check_ids, check_table
from spacy_structlearn.kernels.vectors cimport (
    dot,
    flush_subnormals,
    restore_subnormals,
    vecmat,
)

cdef enum:
    CHUNK = 8192  # number of outer products (float32) at a time, half of a first-level cache
    MOST_SUBSTATES = 1024  # largest number of substates of a symbol, as in `model`


cdef struct Params:
    const float* binary
    const float* unary
    const float* root
    const float* emissions


cdef class Groups:
    """Nodes sorted by group: those of group g are from starts[g] to starts[g + 1]."""

    cdef readonly const int32_t[::1] nodes
    cdef readonly const int64_t[::1] starts

    def __init__(self, nodes, group, Py_ssize_t n):
        order = np.argsort(group, kind="stable")
        self.nodes = np.asarray(nodes)[order].astype(np.int32)
        self.starts = cumulative(np.bincount(group, minlength=n))


cdef class Trees:
    """The nodes of observed trees, and the layout of their vectors.

    symbol, left, right, production, offsets, roots, pairs: as in `TreebankData`.
    binary, unary, root: as in `Rules`.
    n_symbols: number of symbols.

    After `lay_out`, the vector of node i is from node_offsets[i] to node_offsets[i + 1].
    Raises ValueError if the arrays do not fit together.
    """

    cdef const int32_t[::1] symbol, left, right, production, roots
    cdef const int64_t[::1] offsets
    cdef object rules, sizes
    cdef Groups by_binary, by_unary, by_root, by_pair
    cdef const int32_t[:, ::1] binary, unary
    cdef int n_symbols, widest
    cdef const int32_t[::1] substates
    cdef readonly const int64_t[::1] node_offsets
    cdef const int64_t[::1] binary_offsets, unary_offsets, root_offsets, pair_offsets

    @cython.wraparound(True)
    def __init__(self, symbol, left, right, production, offsets, roots, int n_symbols, binary,
                 unary, root, pairs):
        self.symbol, self.left, self.right = symbol, left, right
        self.production, self.offsets, self.roots = production, offsets, roots
        self.binary, self.unary = binary, unary
        self.n_symbols = n_symbols
        cdef const int32_t[::1] root_view = root
        cdef const int32_t[:, ::1] pairs_view = pairs
        n = len(symbol)
        shapes = binary.shape[1] == 3 and unary.shape[1] == 2 and pairs.shape[1] > 0
        check(shapes, "rules of the wrong shape")
        for rules in (binary, unary, root[:, None], np.ascontiguousarray(pairs[:, :1])):
            check_table(rules, 0, n_symbols, "a rule with an unknown symbol")
        same = len(left) == len(right) == len(production) == n
        check(same, "nodes must have a symbol, two children and a production each")
        if (
            len(offsets) != len(roots) + 1 or offsets[0] != 0 or offsets[-1] != n
            or (offsets[1:] <= offsets[:-1]).any()
        ):
            raise ValueError("offsets must delimit the nodes of each tree")
        nodes, begin = np.arange(n), np.repeat(offsets[:-1], np.diff(offsets))
        word, is_binary = left < 0, right >= 0
        sound = (left < nodes) & (right < nodes) & (word | (left >= begin))
        sound &= ~is_binary | (~word & (right >= begin))
        check(sound.all(), "a node and its children do not agree")
        tops = offsets[1:] - 1
        groups = []
        for parents, number, rules, children in (
            (nodes[is_binary], production[is_binary], binary, (left, right)),
            (nodes[~word & ~is_binary], production[~word & ~is_binary], unary, (left,)),
            (nodes[word], production[word], pairs[:, :1], ()),
            (tops, roots, root[:, None], ()),
        ):
            check_ids[int32_t](number, 0, len(rules), "a production is out of range")
            symbols = [symbol[parents], *(symbol[child[parents]] for child in children)]
            same = all((rules[number, k] == column).all() for k, column in enumerate(symbols))
            check(same, "a node and its production do not agree")
            groups.append(Groups(parents, number, len(rules)))
        self.by_binary, self.by_unary, self.by_pair, self.by_root = groups
        self.rules = (binary, unary, root[:, None], pairs[:, :1])

    def lay_out(self, substates):
        """Lay out the vectors of nodes and the blocks of rules. substates: int32 (n_symbols)."""
        if len(substates) != self.n_symbols or not self.n_symbols or not (
            1 <= np.min(substates) <= np.max(substates) <= MOST_SUBSTATES
        ):
            raise ValueError("a symbol with no substates or too many")
        self.substates = substates
        self.widest = np.max(substates)
        wide = np.asarray(substates, dtype=np.int64)
        self.node_offsets = cumulative(wide[self.symbol])
        offsets = [cumulative(wide[rules].prod(axis=1)) for rules in self.rules]
        self.binary_offsets, self.unary_offsets, self.root_offsets, self.pair_offsets = offsets
        self.sizes = [int(ends[len(ends) - 1]) for ends in offsets]

    cdef int check(self, const float[::1] inside, const float[::1] outside,
                   const float[::1] scale) except -1:
        check(self.widest > 0, "there is no layout yet")
        if not (
            inside.shape[0] == outside.shape[0] == self.node_offsets[self.symbol.shape[0]]
            and scale.shape[0] == self.symbol.shape[0]
        ):
            raise ValueError("an array has the wrong size")
        return 0

    def inside_outside(
        self, Py_ssize_t first, Py_ssize_t last, const float[::1] binary, const float[::1] unary,
        const float[::1] root, const float[::1] emissions, float[::1] inside, float[::1] outside,
        float[::1] scale, double[::1] log_likelihood,
    ):
        """Compute the scores of the nodes of trees `first` to `last` (not included).

        binary, unary, root, emissions: the blocks of rules and of `pairs`, one after another.
        scale: float32 (n_nodes).
        log_likelihood: float64 (n_trees).

        A tree without a derivation gets a log-likelihood of -inf and scores of 0.
        """
        cdef Params p
        cdef Py_ssize_t t
        cdef unsigned int mode
        self.check(inside, outside, scale)
        if not 0 <= first <= last <= self.roots.shape[0] == log_likelihood.shape[0]:
            raise ValueError("trees are out of range")
        if self.sizes != [binary.shape[0], unary.shape[0], root.shape[0], emissions.shape[0]]:
            raise ValueError("an array has the wrong size")
        if first == last:
            return
        p.binary = &binary[0]
        p.unary = &unary[0]
        p.root = &root[0]
        p.emissions = &emissions[0]
        cdef float* work = <float*>malloc(sizeof(float) * (self.widest * self.widest + self.widest))
        if work == NULL:
            raise MemoryError()
        with nogil:
            mode = flush_subnormals()
            for t in range(first, last):
                log_likelihood[t] = _tree(self, t, &p, &inside[0], &outside[0], &scale[0], work,
                                          work + self.widest * self.widest)
            restore_subnormals(mode)
        free(work)

    def work(self, bint unary):
        """Return the work of `rule_counts` up to each rule, int64 (n + 1)."""
        groups, offsets = (
            (self.by_unary, self.unary_offsets) if unary else (self.by_binary, self.binary_offsets)
        )
        # The size of the block of a rule times the number of its nodes.
        return cumulative(np.diff(offsets) * (np.diff(groups.starts) + 2))

    def rule_counts(
        self, bint unary, Py_ssize_t first, Py_ssize_t last, const float[::1] probabilities,
        const float[::1] inside, const float[::1] outside, const float[::1] scale,
        float[::1] counts,
    ):
        """Compute the expected counts of the refinements of rules `first` to `last` (not included).

        unary: whether the rules are unary, not binary.
        counts: in the layout of probabilities; only the blocks of these rules are written.
        """
        cdef Py_ssize_t r, i, k, n_nodes, done, chunk
        cdef int n, nb, nc, width, x
        cdef int64_t node
        cdef float factor, one = 1
        cdef const float* unit = &one
        cdef float* out
        cdef const float* left
        cdef const float* right
        cdef const float* mine
        cdef unsigned int mode
        self.check(inside, outside, scale)
        cdef const int32_t[:, ::1] rules = self.unary if unary else self.binary
        cdef const int64_t[::1] offsets = self.unary_offsets if unary else self.binary_offsets
        cdef Groups groups = self.by_unary if unary else self.by_binary
        cdef const int32_t[::1] nodes = groups.nodes
        cdef const int64_t[::1] starts = groups.starts
        check(0 <= first <= last <= rules.shape[0], "rules are out of range")
        if not probabilities.shape[0] == counts.shape[0] == offsets[rules.shape[0]]:
            raise ValueError("an array has the wrong size")
        cdef Py_ssize_t most = max(CHUNK, self.widest * self.widest)
        # Outer products, weights (n_parent, chunk), and one row of sums.
        cdef float* work = <float*>malloc(
            sizeof(float) * (most + <Py_ssize_t>self.widest * CHUNK + self.widest * self.widest)
        )
        if work == NULL:
            raise MemoryError()
        cdef float* weights = work + most
        cdef float* sums = weights + <Py_ssize_t>self.widest * CHUNK
        with nogil:
            mode = flush_subnormals()
            for r in range(first, last):
                n, nb = self.substates[rules[r, 0]], self.substates[rules[r, 1]]
                nc = 1 if unary else self.substates[rules[r, 2]]
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
                        left = &inside[self.node_offsets[self.left[node]]]
                        right = unit if unary else &inside[self.node_offsets[self.right[node]]]
                        outer(work + i * width, left, nb, right, nc)
                        mine = &outside[self.node_offsets[node]]
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
        self, bint roots, const float[::1] inside, const float[::1] outside,
        const float[::1] scale,
    ):
        """Return the sums of the posteriors of the substates of each root rule, or of each pair.

        The sums are float32, in the layout of the probabilities.
        """
        self.check(inside, outside, scale)
        cdef Groups groups = self.by_root if roots else self.by_pair
        cdef const int64_t[::1] offsets = self.root_offsets if roots else self.pair_offsets
        cdef Py_ssize_t g, k
        cdef int64_t x, at
        result = np.zeros(offsets[offsets.shape[0] - 1], dtype=np.float32)
        cdef float[::1] out = result
        with nogil:
            for g in range(offsets.shape[0] - 1):
                for k in range(groups.starts[g], groups.starts[g + 1]):
                    at = self.node_offsets[groups.nodes[k]]
                    for x in range(offsets[g + 1] - offsets[g]):
                        out[offsets[g] + x] += inside[at + x] * outside[at + x]
        return result


cdef inline void outer(
    float* out, const float* left, int nb, const float* right, int nc
) noexcept nogil:
    cdef int y, x
    for y in range(nb):
        for x in range(nc):
            out[y * nc + x] = left[y] * right[x]


cdef double _tree(
    Trees trees, Py_ssize_t t, const Params* p, float* inside, float* outside,
    float* scale, float* pairs, float* scaled,
) noexcept nogil:
    """Fill the vectors of one tree. pairs, scaled: scratch for n_left * n_right, and n_parent."""
    cdef Py_ssize_t begin = trees.offsets[t], end = trees.offsets[t + 1], i, b, c
    cdef int x, y, n, nb, nc, rule
    cdef const int64_t* at = &trees.node_offsets[0]
    cdef float* mine
    cdef float* left
    cdef float* right
    cdef const float* block
    cdef float total, factor
    cdef double value = 0.0
    for i in range(begin, end):
        mine, n = inside + at[i], trees.substates[trees.symbol[i]]
        b, c, rule = trees.left[i], trees.right[i], trees.production[i]
        total = 0
        if b < 0:
            block = p.emissions + trees.pair_offsets[rule]
            for x in range(n):
                mine[x] = block[x]
                total += mine[x]
        else:
            left, nb = inside + at[b], trees.substates[trees.symbol[b]]
            if c < 0:
                block = p.unary + trees.unary_offsets[rule]
            else:
                right, nc = inside + at[c], trees.substates[trees.symbol[c]]
                block = p.binary + trees.binary_offsets[rule]
                outer(pairs, left, nb, right, nc)
                left, nb = pairs, nb * nc
            for x in range(n):
                mine[x] = dot(block + x * nb, left, nb)
                total += mine[x]
        if not total > 0:
            return _impossible(trees, t, inside, outside, scale)
        factor = 1 / total
        for x in range(n):
            mine[x] *= factor
        scale[i] = total
        value += log(total)
    block = p.root + trees.root_offsets[trees.roots[t]]
    mine, n = outside + at[end - 1], trees.substates[trees.symbol[end - 1]]
    total = dot(block, inside + at[end - 1], n)
    if not total > 0:
        return _impossible(trees, t, inside, outside, scale)
    for x in range(n):
        mine[x] = block[x] / total
    for i in range(end - 1, begin - 1, -1):
        b, c, rule = trees.left[i], trees.right[i], trees.production[i]
        if b < 0:
            continue
        mine, n, nb = outside + at[i], trees.substates[trees.symbol[i]], trees.substates[trees.symbol[b]]
        factor = 1 / scale[i]
        for x in range(n):
            scaled[x] = mine[x] * factor
        if c < 0:
            vecmat(outside + at[b], p.unary + trees.unary_offsets[rule], scaled, n, nb)
            continue
        nc = trees.substates[trees.symbol[c]]
        vecmat(pairs, p.binary + trees.binary_offsets[rule], scaled, n, nb * nc)
        vecmat(outside + at[c], pairs, inside + at[b], nb, nc)
        left, right = outside + at[b], inside + at[c]
        for y in range(nb):
            left[y] = dot(pairs + y * nc, right, nc)
    return value + log(total)


cdef double _impossible(
    Trees trees, Py_ssize_t t, float* inside, float* outside, float* scale,
) noexcept nogil:
    """Set the scores of a tree without a derivation. Returns its log-likelihood."""
    cdef Py_ssize_t i, begin = trees.offsets[t], end = trees.offsets[t + 1]
    cdef int64_t first = trees.node_offsets[begin], size = trees.node_offsets[end] - first
    for i in range(begin, end):
        scale[i] = 1
    memset(inside + first, 0, size * sizeof(float))
    memset(outside + first, 0, size * sizeof(float))
    return -INFINITY
