# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of the parser: from sentences to packed forests, coarse to fine.

Petrov & Klein (2007), equations 2 and 3; section 3.2 for the cascade. The first pass fills a chart:
that of level 1 with decomposed rules, or that of level 0 (`passes._first`). What has a posterior
above a threshold is listed as a forest: cells, items (a symbol in a cell), edges (an item made of
two others) grouped by cell and rule, and unaries. The grammars of the other levels only go through
these lists (`passes._fine`), with one block of probabilities a rule, and thin them out further. What the last level leaves is packed with its posteriors as a hypergraph
(`hypergraph.Hypergraphs`), from which all decoders read their trees.

There are two layers of nodes over each span: lower nodes, made of two children or a tag (inside I0,
outside O0), and upper nodes, I1(A) = I0(A) + sum_B P(A -> B) I0(B), from which the next nodes are
made.

All scores are float32, and each cell, after the first pass each node, has a power of two: its
largest inside score is between 1 and 2, and its outside scores have the power with which inside
times outside over the score of the sentence is the posterior. So nothing overflows or vanishes at
any length. States that are 2**80 times smaller than the best of their cell or node are set to zero,
and so are splits whose two sides, multiplied, are 2**126 times smaller than those of the best split.
"""

from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

import numpy as np

from spacy_structlearn.arrays import cumulative
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.chart.passes._fine cimport (
    add_scores,
    best_derivation,
    free_work,
    has_tree,
    inside_fine,
    lay_out,
    outside_fine,
    pack_forest,
    prune,
    read_tree,
)
from spacy_structlearn.grammar.chart.passes._first cimport fill_coarse, fill_factored
from spacy_structlearn.grammar.chart.passes._structures cimport *
from spacy_structlearn.kernels.checks cimport check, check_table
from spacy_structlearn.kernels.vectors cimport flush_subnormals, restore_subnormals

ENTRY = np.dtype([("value", np.float32), ("parent", np.uint16), ("pair", np.uint16)])
PAIR = np.dtype([("left", np.uint16), ("right", np.uint16)])
# An entry of a sparse unary block takes as long as this many entries of a dense one.
DENSE = 16
MOST_PAIRS = 2**16  # of the children of a rule with entries
MOST_SUBSTATES = 2**10  # of a symbol: a rule of three such symbols takes 4 GB
cdef Py_ssize_t MOST_WORDS = 2**15  # of a sentence: places in the chart are numbered by int32
cdef float HASTE = 3.0  # times all thresholds
cdef double LOG_2 = 0.6931471805599453


ctypedef fused number:
    int32_t
    double


cdef struct Task:
    # Grammars, the first of which runs the cascade; the others score its last forest.
    int n_grammars
    const Coarse* coarse
    const Factors* factors  # of the second level of the cascade; NULL: all begins with the first
    Fine** fine  # levels of each grammar
    int n_levels
    int* levels  # numbers of levels of the first grammar, the last one decides
    int* last  # number of the last level of each grammar
    float* keep  # thresholds of posteriors after each level but the last, which has that before
    float edge_factor
    bint derivations  # whether the best derivation is marked


cdef int cascade(const Task* t, Work* w, int n, const float** lexicon, const int* strides,
                 int n_levels, bint exhaustive, float relax, float* z) noexcept nogil:
    """Run the first `n_levels` levels; lexicon: word scores at each level of `t.levels`.

    exhaustive: whether level 0 fills the chart. relax: times all thresholds.
    """
    cdef int k, first = 1 if exhaustive else 2, status
    # What fills the chart has the threshold of its level.
    cdef float keep = relax * t.keep[0 if exhaustive or t.n_levels < 3 else 1]
    if exhaustive:
        status = fill_coarse(t.coarse, w, n, lexicon[0], strides[0], keep, keep * t.edge_factor, NULL)
    else:
        status = fill_factored(t.coarse, t.factors, w, n, lexicon[1], strides[1], keep,
                               keep * t.edge_factor)
    if status != PARSED:
        return status
    # The last level goes through the forest even if it is the one that filled the chart.
    for k in range(min(first, n_levels - 1), n_levels):
        status = lay_out(&t.fine[0][t.levels[k]], w)
        if status != PARSED:
            return status
        z[0] = inside_fine(t.coarse, &t.fine[0][t.levels[k]], w, lexicon[k], strides[k], False)
        if not z[0] > 0:
            return UNPARSED
        outside_fine(t.coarse, &t.fine[0][t.levels[k]], w, z[0], NULL)
        keep = t.keep[max(min(k, t.n_levels - 2), 0)] * relax
        prune(t.coarse, w, keep, keep * t.edge_factor)
        if k == n_levels - 1 and not has_tree(t.coarse, w):
            return UNPARSED
    return PARSED


cdef int search(const Task* t, Work* w, int n, const float** lexicon, const int* strides,
                bint hasty, float* z, int* n_levels) noexcept nogil:
    """Run the cascade; if nothing is left, with lower thresholds, then with fewer levels.

    hasty: whether thresholds are `HASTE` times as high, and the cascade runs only once.
    n_levels: set to the number of levels that parsed the sentence.
    """
    cdef int status = UNPARSED, levels
    # The factors do not tell a tag that is the whole tree from a phrase over it.
    cdef bint factored = t.factors != NULL and (w.limits == NULL or n > 1)
    cdef float relax = HASTE if hasty else 1.0
    n_levels[0] = t.n_levels
    if factored:
        status = cascade(t, w, n, lexicon, strides, t.n_levels, False, relax, z)
        if status == UNPARSED and not hasty:
            status = cascade(t, w, n, lexicon, strides, t.n_levels, False, 1e-4, z)
    if status == UNPARSED and not (hasty and factored):
        status = cascade(t, w, n, lexicon, strides, t.n_levels, True, relax, z)
    if status != UNPARSED or hasty or not w.z > 0:
        return status
    for levels in range(t.n_levels, 0, -1):
        n_levels[0] = levels
        status = cascade(t, w, n, lexicon, strides, levels, True, 1e-4, z)
        if status != UNPARSED:
            return status
    return status


cdef int pack_sentence(const Task* t, Work* w, int n, const float** lexicon, const int* strides,
                       const float** others, const int* other_strides, bint hasty, int* n_levels,
                       double* log_z) noexcept nogil:
    """Append the forest of n words, with the means of its scores by all grammars that parse it.

    hasty, n_levels: see `search`.
    """
    cdef Packed* p = &w.packed
    cdef float z = 0.0, score
    cdef int status = search(t, w, n, lexicon, strides, hasty, &z, n_levels), n_grammars = 1, x, k
    cdef Py_ssize_t e, first = p.n_edges
    cdef double scale
    cdef const Fine* g
    if status != PARSED:
        return status
    log_z[0] = log(<double>z) + LOG_2 * w.z_e
    if pack_forest(t.coarse, w) != PARSED:
        return OUT_OF_MEMORY
    # The posteriors of the cascade are still there.
    add_scores(t.coarse, w)
    if n_levels[0] == t.n_levels:
        for x in range(1, t.n_grammars):
            g = &t.fine[x][t.last[x]]
            if lay_out(g, w) != PARSED:
                return OUT_OF_MEMORY
            score = inside_fine(t.coarse, g, w, others[x - 1], other_strides[x - 1], False)
            if score > 0:
                outside_fine(t.coarse, g, w, score, NULL)
                add_scores(t.coarse, w)
                n_grammars += 1
    scale = 1.0 / n_grammars
    for e in range(first, p.n_edges):
        p.scores[e] *= scale
        p.posteriors[e] *= scale
        p.logs[e] *= scale
    # Where scores are not numbers nothing is marked.
    if t.derivations:
        k = n_levels[0] - 1
        g = &t.fine[0][t.levels[k]]
        if (lay_out(g, w) != PARSED
                or best_derivation(t.coarse, g, w, lexicon[k], strides[k]) == OUT_OF_MEMORY):
            return OUT_OF_MEMORY
    return PARSED


# ---------------------------------------------------------------------------------------------
# for Python
# ---------------------------------------------------------------------------------------------
cdef class Grammar:
    """A latent grammar as the kernel reads it, made by `compiled.compile_grammar`.

    n_tags, n_phrases, n_symbols: numbers of symbols.
    binary, unary, root: int32 (R, 3), (U, 2) and (K,), see `symbols.Rules`.
    levels: tuples of contiguous arrays: substates, offsets, binary, binary_offsets, unary,
        unary_offsets, root, root_offsets, and of `compiled.Blocks` begins, parent, pair, value and
        groups; see `model.Level` and `Fine`.
    coarse: the binary probabilities of level 0.
    factors: the matrices of level 1 for a factored first pass, see `compiled.factored`, or None.
    """

    cdef Coarse coarse
    cdef Factors factors
    cdef readonly bint is_factored
    cdef Fine* fine
    cdef readonly int n_levels
    cdef tuple rules
    cdef list _kept

    def __cinit__(self, int n_tags, int n_phrases, int n_symbols,
                  const int32_t[:, ::1] binary not None, const int32_t[:, ::1] unary not None,
                  const int32_t[::1] root not None, list levels, const float[::1] coarse,
                  dict factors=None):
        cdef int k
        _check_symbols(n_tags, n_phrases, n_symbols, np.asarray(binary), np.asarray(unary),
                       np.asarray(root))
        for parts in levels or ():
            _check_level(n_symbols, np.asarray(binary), np.asarray(unary), np.asarray(root), parts)
        if not levels or coarse is None or len(coarse) != len(binary) or not (
            len(levels[0][4]) == len(unary) and len(levels[0][6]) == len(root)
        ):
            raise ValueError("there must be a level 0, with one probability for each rule")
        self._kept = []
        self.rules = (n_tags, n_phrases, n_symbols, binary, unary, root)
        self.n_levels = len(levels)
        self.fine = <Fine*>calloc(max(self.n_levels, 1), sizeof(Fine))
        if self.fine == NULL:
            raise MemoryError
        for k, parts in enumerate(levels):
            self.fine[k].n = self._ints(parts[0])
            self.fine[k].offsets = self._longs(parts[1])
            self.fine[k].binary = self._floats(parts[2])
            self.fine[k].binary_offsets = self._longs(parts[3])
            self.fine[k].root = self._floats(parts[6])
            self.fine[k].root_offsets = self._longs(parts[7])
            self._set_entries(&self.fine[k], np.asarray(binary), np.asarray(unary), parts)
            self.fine[k].widest = int(np.max(parts[0]))
        self._set_coarse(n_tags, n_symbols, np.asarray(binary), np.asarray(unary), np.asarray(root),
                         (np.asarray(coarse), levels[0][4], levels[0][6]))
        self.is_factored = factors is not None
        if self.is_factored:
            self._set_factors(factors, levels)

    def __dealloc__(self):
        free(self.fine)

    def _keep(self, array, dtype):
        """Return the values in one piece and not empty, so that a pointer can be taken."""
        values = np.ascontiguousarray(np.ravel(array), dtype=dtype)
        self._kept.append(values if len(values) else np.zeros(1, dtype))
        return self._kept[len(self._kept) - 1]

    cdef const int32_t* _ints(self, array) except NULL:
        cdef const int32_t[::1] view = self._keep(array, np.int32)
        return &view[0]

    cdef const int64_t* _longs(self, array) except NULL:
        cdef const int64_t[::1] view = self._keep(array, np.int64)
        return &view[0]

    cdef const float* _floats(self, array) except NULL:
        cdef const float[::1] view = self._keep(array, np.float32)
        return &view[0]

    cdef _set_entries(self, Fine* fine, binary, unary, parts):
        """Take the entries of sparse blocks of binary rules, and find those of unary rules."""
        fine.groups = self._ints(parts[12])
        fine.extra = 2 if len(parts[9]) and np.any(parts[9] >= np.asarray(parts[0])[
            binary[np.repeat(np.arange(len(binary)), np.diff(parts[8])), 0]]) else 0
        substates, values, offsets = np.asarray(parts[0]), np.asarray(parts[4]), np.asarray(parts[5])
        begins, parents, pairs = (np.asarray(part) for part in parts[8:11])
        # The pairs of each rule, numbered anew.
        rule = np.repeat(np.arange(len(binary)), np.diff(begins))
        keys, pairs = np.unique(rule << 32 | pairs, return_inverse=True)
        width = substates[binary[keys >> 32, 2]]
        order = _spread(keys >> 32, (keys & (2**32 - 1)) // width)
        keys, width, number = keys[order], width[order], np.argsort(order)
        fine.pair_begins = self._ints(np.searchsorted(keys >> 32, np.arange(len(binary) + 1)))
        pairs = number[pairs] - np.searchsorted(keys >> 32, rule)
        keys &= 2**32 - 1
        fine.pairs = <const Pair*>self._records(_records(
            PAIR, left=keys // width, right=keys % width))
        order = _spread(rule, parents)
        fine.binary_begins = self._ints(begins)
        fine.binary_entries = <const Entry*>self._records(_records(
            ENTRY, value=parts[11][order], parent=parents[order], pair=pairs[order]))
        # Unary rules are dense in the model.
        places = np.flatnonzero(values)
        counts = np.diff(np.searchsorted(places, offsets))
        sparse = counts * DENSE < np.diff(offsets)
        rule = np.repeat(np.arange(len(unary)), counts)
        places, rule = places[sparse[rule]], rule[sparse[rule]]
        child, local = substates[unary[rule, 1]], places - offsets[rule]
        fine.unary = self._floats(values)
        fine.unary_offsets = self._longs(np.where(sparse, -1, offsets[:len(unary)]))
        fine.unary_begins = self._ints(np.searchsorted(rule, np.arange(len(unary) + 1)))
        order = _spread(rule, local // child)
        local, child, values = local[order], child[order], values[places[order]]
        fine.unary_entries = <const Entry*>self._records(_records(
            ENTRY, value=values, parent=local // child, pair=local % child))

    cdef const void* _records(self, records) except NULL:
        cdef const uint8_t[::1] view = records.view(np.uint8)
        self._kept.append(records)
        return &view[0]

    def _set_factors(self, factors, levels):
        """Take the matrices of a factored first pass."""
        cdef Factors* f = &self.factors
        cdef Coarse* c = &self.coarse
        two = len(levels) > 1 and np.max(levels[1][0]) <= 2
        check(two, "level 1 must have at most two states a symbol")
        offsets = levels[1][1]
        tags, states = int(offsets[c.n_tags]), int(offsets[c.n_symbols])
        rank = len(factors["root"])
        tag_pad, pad = len(factors["root_tags"]), len(factors["root_states"])
        shapes = {
            "begins": (c.n_symbols + 1,), "combine": (rank, 2 * rank), "divide": (2 * rank, rank),
            "enter": (tags, 2 * rank), "leave": (2 * rank, tag_pad), "inside": (rank, pad),
            "inside_words": (tags, pad), "outside": (2 * rank, pad), "root": (rank,),
            "root_states": (pad,), "root_tags": (tag_pad,), "left": (states, rank),
            "right": (states, rank), "blocks": (c.n_rules, 8),
            "unaries": (2, len(factors["unary_values"])),
        }
        given = {name: np.shape(factors[name]) for name in shapes}
        if (given != shapes or rank % 32 or rank == 0 or tag_pad % 8 or pad % 8 or tag_pad < tags
                or not states - tags <= pad <= 2**16 or not np.array_equal(factors["begins"], offsets)
                or not (np.asarray(factors["unaries"]) < pad).all()):
            raise ValueError("the factors do not fit the grammar")
        f.rank, f.n_tag_states, f.n_tag_pad, f.n_state_pad = rank, tags, tag_pad, pad
        f.begins = self._ints(factors["begins"])
        names = ("combine", "divide", "enter", "leave", "inside", "inside_words", "outside", "root",
                 "root_states", "root_tags", "left", "right", "blocks")
        for x, name in enumerate(names):
            # They are neighbours in the struct.
            (&f.combine)[x] = self._floats(factors[name])
        numbers = {tuple(rule): x for x, rule in enumerate(np.asarray(self.rules[4]).tolist())}
        symbol = np.searchsorted(offsets, np.asarray(factors["unaries"]).T + tags, "right") - 1
        self._set_unaries(&f.unaries, offsets - tags, c.n_tags, pad, factors["unary_values"],
                          factors["unaries"], [numbers[tuple(pair)] for pair in symbol.tolist()])

    def _set_coarse(self, n_tags, n_symbols, binary, unary, root, values):
        """Take the rules and their probabilities at level 0."""
        cdef Coarse* c = &self.coarse
        n_nts, n_over_tags = n_symbols - n_tags, np.searchsorted(unary[:, 1], n_tags)
        c.n_symbols, c.n_tags = n_symbols, n_tags
        c.n_pad = n_tags + (n_nts + 7) // 8 * 8
        c.n_rules, c.n_unary, c.n_root = len(binary), len(unary), len(root)
        c.rules, c.unary_rules = self._ints(binary), self._ints(unary)
        c.root_rules, c.root_value = self._ints(root), self._floats(values[2])
        c.binary_value, c.unary_value = self._floats(values[0]), self._floats(values[1])
        c.unary_by_child = self._ints(np.searchsorted(unary[:, 1], np.arange(n_symbols + 1)))
        left, right = binary[:, 1].astype(np.int64), binary[:, 2]
        keys = left * n_symbols + right
        c.pairs = self._ints(np.searchsorted(keys, np.arange(n_symbols * n_symbols + 1)))
        pairs, begins = np.unique(keys, return_index=True)
        c.n_pairs = len(pairs)
        c.pair = self._ints(np.column_stack(np.divmod(pairs, max(n_symbols, 1))))
        c.pair_begin = self._ints(np.append(begins, len(keys)))
        both = (left >= n_tags) & (right >= n_tags)
        c.n_left, c.n_right = (
            int(child.max(initial=n_tags - 1, where=both)) + 1 - n_tags for child in (left, right)
        )
        c.n_left_pad = (max(c.n_left, 1) + 7) // 8 * 8
        c.n_right_pad = (max(c.n_right, 1) + 7) // 8 * 8
        self._set_unaries(&c.unaries, np.arange(n_symbols + 1), 0, c.n_pad, values[1][n_over_tags:],
                          unary[n_over_tags:].T, np.arange(n_over_tags, len(unary)))

    cdef _set_unaries(self, Unaries* unaries, begins, first_symbol, n_pad, values, places, rules):
        unaries.n, unaries.n_pad, unaries.first_symbol = len(values), n_pad, first_symbol
        unaries.begins, unaries.rule = self._ints(begins), self._ints(rules)
        unaries.entries = <const Entry*>self._records(_records(
            ENTRY, value=values, parent=places[0], pair=places[1]))


def _records(dtype, **columns):
    """Return an array of structs, at least one, from their fields."""
    records = np.zeros(max(len(next(iter(columns.values()))), 1), dtype=dtype)
    for name, values in columns.items():
        records[name][:len(values)] = values
    return records


def _spread(rule, substate):
    """Return an order in which each rule, ascending, has its substates evenly mixed."""
    order = np.lexsort((np.random.default_rng(0).permutation(len(rule)), substate, rule))
    # The elements of a rule with one substate, the number of them, and the place among them.
    change = np.flatnonzero((np.diff(rule[order]) != 0) | (np.diff(substate[order]) != 0)) + 1
    begins = np.concatenate([[0], change])
    counts = np.diff(np.append(begins, len(order)))
    place = np.arange(len(order)) - np.repeat(begins, counts)
    return order[np.lexsort(((place + 0.5) / np.repeat(counts, counts), rule[order]))]


def _check_symbols(n_tags, n_phrases, n_symbols, binary, unary, root):
    """Raise ValueError unless these are rules of the symbols, in order: the loops trust them."""
    sound = 0 <= n_tags and 0 <= n_phrases and n_tags + n_phrases <= n_symbols <= 2**15
    check(sound, "tags and phrases must be symbols, and these at most 2**15")
    check(binary.shape[1] == 3 and unary.shape[1] == 2, "rules of the wrong shape")
    for rules in (binary, unary, root[:, None]):
        check_table(rules, 0, n_symbols, "a rule with an unknown symbol")
    for rules in (binary, unary):
        check(rules[:, 0].min(initial=n_tags) >= n_tags, "a tag has a rule")
    keys = (binary[:, 1].astype(np.int64) * n_symbols + binary[:, 2]) * n_symbols + binary[:, 0]
    if (np.diff(keys) <= 0).any() or (unary[1:, 1] < unary[:len(unary) - 1, 1]).any():
        raise ValueError("rules must be in the order of their children")


def _check_level(n_symbols, binary, unary, root, parts):
    """Raise ValueError unless the arrays of a level are as `Grammar` and `Fine` have them."""
    if len(parts) != 13 or not all(isinstance(x, np.ndarray) and x.ndim == 1 for x in parts):
        raise ValueError("a level has thirteen arrays of one dimension")
    n, offsets, dense, dense_offsets, _, _, _, _, entries, parents, pairs, values, groups = parts
    if len(n) != n_symbols or not (n_symbols and 1 <= n.min() <= n.max() <= MOST_SUBSTATES):
        raise ValueError("a symbol with no substates or too many")
    if len(groups) != n_symbols or (groups < 0).any() or (groups > n).any():
        raise ValueError("a group of substates that a symbol has not")
    n = n.astype(np.int64)
    check(np.array_equal(offsets, cumulative(n)), "offsets must delimit the substates of each symbol")
    sizes = n[binary].prod(axis=1)
    if len(dense_offsets) != len(binary) or (len(binary) and not (
        dense_offsets.min() >= -1 and (np.maximum(dense_offsets, 0) <= len(dense)).all()
        and (np.where(dense_offsets >= 0, dense_offsets + sizes, 0) <= len(dense)).all()
    )):
        raise ValueError("a block is not among the probabilities")
    for rules, place in ((unary, 4), (root[:, None], 6)):
        ends = cumulative(n[rules].prod(axis=1))
        if len(parts[place]) != ends[len(ends) - 1] or not np.array_equal(parts[place + 1], ends):
            raise ValueError("a block has the wrong size")
    if len(entries) != len(binary) + 1 or entries[0] != 0 or entries[len(binary)] != len(values) or (
        (entries[1:] < entries[:len(binary)]).any()
    ):
        raise ValueError("entries must say where those of each rule begin, and the end")
    rule = np.repeat(np.arange(len(binary)), np.diff(entries))
    if not len(parents) == len(pairs) == len(values) or len(values) and not (
        parents.min() >= 0 and (parents < n[binary[rule, 0]] + 2).all() and pairs.min() >= 0
        and (pairs < np.minimum(n[binary[rule, 1]] * n[binary[rule, 2]], MOST_PAIRS)).all()
    ):
        raise ValueError("an entry is of no substates of its rule")


cdef class Parser:
    """Grammars with the same symbols and rules, and settings of the cascade; threads share it.

    grammars: the first one runs the cascade, and all score its last forest.
    levels: of the cascade, ascending from 0. If the second is 1 and the first grammar has factors,
        that level fills the chart, and level 0 only where nothing is left of it.
    last: the level of each grammar that scores the forest.
    keep: posteriors below which items are pruned after each level but the last.
    edge_factor: productions are pruned below keep * edge_factor.
    derivations: whether the edges of the best derivation of each sentence are marked.
    """

    cdef Task task
    cdef readonly list grammars
    cdef size_t[::1] _fine
    cdef int[::1] _numbers
    cdef float[::1] _keep

    def __cinit__(self, list grammars, levels, last, keep, float edge_factor,
                  bint derivations=False):
        cdef Task* t = &self.task
        cdef Grammar grammar
        check(grammars and all(isinstance(g, Grammar) for g in grammars), "there must be a grammar")
        grammar = grammars[0]
        for other in grammars:
            same = all(map(np.array_equal, grammar.rules, (<Grammar>other).rules))
            check(same, "the grammars must have the same symbols and rules")
        self.grammars = list(grammars)
        if not levels or len(last) != len(grammars) or len(keep) < max(1, len(levels) - 1):
            raise ValueError("levels, last and keep do not fit together")
        used = [*((grammar, level) for level in levels), *zip(grammars, last)]
        check(all(0 <= k < other.n_levels for other, k in used), "there is no such level")
        t.n_grammars = len(grammars)
        t.coarse = &grammar.coarse
        t.factors = &grammar.factors if grammar.is_factored and list(levels[:2]) == [0, 1] else NULL
        t.n_levels = len(levels)
        t.edge_factor = edge_factor
        t.derivations = derivations
        # Arrays that are kept alive, since the task points to them.
        self._fine = np.array([<size_t>(<Grammar>other).fine for other in grammars], dtype=np.uintp)
        self._numbers = np.array([*levels, *last], dtype=np.intc)
        self._keep = np.array(keep, dtype=np.float32)
        t.fine = <Fine**>&self._fine[0]
        t.levels = &self._numbers[0]
        t.last = t.levels + t.n_levels
        t.keep = &self._keep[0]

    cdef int check(self, list lexicon, list others, const int64_t[::1] offsets) except -1:
        """Raise ValueError unless there are scores of all words at all levels."""
        cdef Task* t = &self.task
        cdef Py_ssize_t k, rows, columns, x
        cdef const Fine* g
        cdef const float[:, ::1] view
        if len(lexicon) != t.n_levels or len(others) != t.n_grammars - 1:
            raise ValueError("there must be scores for each level and for each further grammar")
        sizes = np.diff(offsets)
        if offsets.shape[0] == 0 or offsets[0] < 0 or (sizes < 1).any():
            raise ValueError("offsets must ascend from 0 or more")
        if (sizes > MOST_WORDS).any():
            raise StructlearnError("SL444", number=int(sizes.max()))
        rows = offsets[offsets.shape[0] - 1]
        for k in range(t.n_levels + t.n_grammars - 1):
            view = lexicon[k] if k < t.n_levels else others[k - t.n_levels]
            x = max(k - t.n_levels + 1, 0)
            g = &t.fine[x][t.levels[k] if x == 0 else t.last[x]]
            # The first is that of level 0, too.
            columns = max(g.offsets[t.coarse.n_tags], <int64_t>t.coarse.n_tags)
            if view is None or view.shape[0] < rows or view.shape[1] < columns:
                raise ValueError("there must be a score of each word for each substate of a tag")
        return 0


cdef class Chart:
    """The workspace of one thread; it grows to the longest sentence and is used again."""

    cdef Work work
    cdef Grammar grammar  # that the workspace is for
    cdef Parser parser  # that made the packed forests, with the other arguments and results
    cdef tuple batch

    def __cinit__(self):
        memset(&self.work, 0, sizeof(Work))

    def __dealloc__(self):
        free_work(&self.work)

    cdef int begin(self, Grammar grammar) except -1:
        """Prepare for this grammar; what was there before is no longer read."""
        if grammar is not self.grammar:
            free_work(&self.work)
            memset(&self.work, 0, sizeof(Work))
            self.grammar = grammar
        self.parser = None
        self.batch = None
        return 0

    def hypergraphs(self, Parser parser not None, list lexicon not None, list others not None,
                    const int64_t[::1] offsets, list limits=None, hasty=None):
        """Pack the scored forests of a batch of sentences, none of which is empty.

        lexicon: P(word | tag substate) at each level of the cascade, float32 (words, columns).
        others: the same at the last level of each further grammar.
        offsets: where the words of each sentence begin, int64 (sentences + 1).
        limits: `constraints.Limits` of each sentence, or None for those without constraints.
        hasty: whether each sentence has no parse if nothing survives thresholds that are `HASTE`
            times as high, bool (sentences).

        Returns a dict of the arrays items, begins, tails, scores, made and chain of
        `hypergraph.Hypergraphs` for the sentences that have a parse; of each edge its mean
        posterior (posteriors), the mean of its logarithm (logs), float64, and whether it is in the
        best derivation (best); places, where the items, begins and edges of each sentence begin,
        int64 (sentences + 1, 3); levels, the number of levels that parsed each sentence (0: no
        parse), int32, and log_likelihoods, log P(words), float64.
        """
        cdef int x, k, status = PARSED, n_sentences = offsets.shape[0] - 1, n, used
        cdef int n_levels = parser.task.n_levels, n_others = parser.task.n_grammars - 1
        cdef unsigned int mode
        cdef Work* w = &self.work
        cdef Packed* p = &w.packed
        parser.check(lexicon, others, offsets)
        self.begin(parser.grammars[0])
        p.n_items = p.n_begins = p.n_edges = 0
        places = np.zeros((n_sentences + 1, 3), dtype=np.int64)
        levels = np.zeros(n_sentences, dtype=np.int32)
        logs = np.full(n_sentences, -np.inf)
        cdef int64_t[:, ::1] place = places
        cdef int32_t[::1] through = levels
        cdef double[::1] log_of = logs
        cdef size_t[::1] pointers = np.empty(2 * (n_levels + n_others), dtype=np.uintp)
        cdef int[::1] widths = np.empty(n_levels + n_others, dtype=np.intc)
        cdef const float** first = <const float**>&pointers[0]
        cdef const float** rows = first + n_levels + n_others
        cdef int* strides = &widths[0]
        cdef const float[:, ::1] view
        cdef size_t[:, ::1] limits_of = _limit_pointers(parser, limits, np.diff(offsets))
        cdef const uint8_t[::1] in_haste = np.zeros(n_sentences, dtype=np.uint8) if hasty is None \
            else np.ascontiguousarray(hasty, dtype=bool).view(np.uint8)
        check(in_haste.shape[0] == n_sentences, "there must be one value of hasty for each sentence")
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
                w.limits = <const int32_t*>limits_of[x, 0]
                w.whole = <const uint8_t*>limits_of[x, 1]
                w.unaries = <const uint8_t*>limits_of[x, 2]
                status = pack_sentence(&parser.task, w, n, rows, strides, rows + n_levels,
                                       strides + n_levels, in_haste[x], &used, &log_of[x])
                if status == OUT_OF_MEMORY:
                    break
                through[x] = used if status == PARSED else 0
                place[x + 1, 0] = p.n_items
                place[x + 1, 1] = p.n_begins
                place[x + 1, 2] = p.n_edges
            w.limits = NULL
            restore_subnormals(mode)
        if status == OUT_OF_MEMORY:
            raise MemoryError
        self.parser, self.batch = parser, (lexicon, offsets, places, levels, logs)
        return {
            "items": _copied(p.items, 3 * p.n_items).reshape(-1, 3),
            "begins": _copied(p.begins, p.n_begins),
            "tails": _copied(p.tails, 2 * p.n_edges).reshape(-1, 2),
            "made": _copied(p.made, p.n_edges),
            "chain": _copied(p.chain, p.n_edges),
            "scores": _copied(p.scores, p.n_edges),
            "posteriors": _copied(p.posteriors, p.n_edges),
            "logs": _copied(p.logs, p.n_edges),
            "best": np.array([] if p.n_edges == 0 else <uint8_t[:p.n_edges]>p.best, dtype=bool),
            "places": places,
            "levels": levels,
            "log_likelihoods": logs,
        }

    def log_probabilities(self, Parser parser not None, kept):
        """log P(tree | words) of one tree of each of the forests packed last, by the first grammar.

        kept: the edges of the trees, a mask (E). Returns float64 (sentences): -inf for those without
        a parse. Raises ValueError for edges that are not trees, or if the parser is another one.
        """
        cdef int x, status = PARSED, k
        cdef unsigned int mode
        cdef float z = 0.0
        cdef Py_ssize_t n_nodes
        cdef Work* w = &self.work
        cdef const uint8_t[::1] mask = np.ascontiguousarray(kept, dtype=bool).view(np.uint8)
        cdef const Coarse* c
        cdef const Fine* g
        cdef const float[:, ::1] view
        if parser is not self.parser or mask.shape[0] != w.packed.n_edges:
            raise ValueError("the edges are not those of the forests of this parser")
        lexicon, offsets, places, levels, logs = self.batch
        cdef const int64_t[::1] begin = offsets
        cdef const int64_t[:, ::1] place = places
        cdef int32_t[::1] item_of = np.empty(max(w.packed.n_begins, 1), dtype=np.int32)
        probabilities = np.full(len(levels), -np.inf)
        c = parser.task.coarse
        mode = flush_subnormals()
        for x in range(len(levels)):
            k = levels[x] - 1
            if k < 0 or not np.any(mask[place[x, 2]:place[x + 1, 2]]):
                continue
            view = lexicon[k]
            g = &parser.task.fine[0][parser.task.levels[k]]
            n_nodes = place[x + 1, 1] - place[x, 1] - 1
            with nogil:
                status = read_tree(c, w, w.packed.items, w.packed.begins + place[x, 1], n_nodes,
                                   place[x, 2], &mask[place[x, 2]], &item_of[0])
                if status == PARSED:
                    status = lay_out(g, w)
                if status == PARSED:
                    z = inside_fine(c, g, w, &view[begin[x], 0], view.shape[1], False)
            if status != PARSED:
                break
            if z > 0:
                probabilities[x] = log(<double>z) + LOG_2 * w.z_e - logs[x]
        restore_subnormals(mode)
        if status == OUT_OF_MEMORY:
            raise MemoryError
        check(status != UNPARSED, "the edges are not trees")
        return probabilities

    def coarse_forest(self, Grammar grammar not None, const float[:, ::1] lexicon,
                      const int32_t[:, :, ::1] gold, float keep, float keep_edge):
        """Return the forest that the grammar of level 0 leaves of one sentence, as arrays.

        lexicon: float32 (n, tags or more).
        gold: int32 (n, n + 1, 3), see `build_forest`.
        keep, keep_edge: posteriors below which items and edges are pruned, except those of the gold
            tree.

        Returns log P(words), the number of pairs of a span and a symbol that have a score, and a
        dict of int32 arrays: `cell_i` and `cell_j`, the ends of each cell, and others as in
        `_forest.ForestArrays`. Returns None if the sentence has no parse.
        """
        cdef const Coarse* c = &grammar.coarse
        cdef Work* w = &self.work
        cdef Forest* f = &w.f
        cdef int n = lexicon.shape[0], status
        cdef Py_ssize_t made = 0, k
        cdef unsigned int mode
        if gold.shape[0] != n or gold.shape[1] != n + 1 or gold.shape[2] != 3 or n == 0:
            raise ValueError("gold must have three symbols a cell")
        check(lexicon.shape[1] >= c.n_tags, "a word has fewer scores than there are tags")
        if n > MOST_WORDS:
            raise StructlearnError("SL444", number=n)
        self.begin(grammar)
        with nogil:
            mode = flush_subnormals()
            status = fill_coarse(c, w, n, &lexicon[0, 0], lexicon.shape[1], keep, keep_edge,
                                 &gold[0, 0, 0])
            if status == PARSED:
                for k in range(<Py_ssize_t>n * (n + 1) // 2 * c.n_pad):
                    made += w.upper[k] > 0.0
            restore_subnormals(mode)
        if status == OUT_OF_MEMORY:
            raise MemoryError
        if status == UNPARSED:
            return None
        log_z = log(<double>w.z) + LOG_2 * w.exponent[by_start(n, 0, n)]
        return log_z, made, {
            "cell_i": _copied(f.cell_i, f.n_cells),
            "cell_j": _copied(f.cell_j, f.n_cells),
            "cell_item": _copied(f.cell_item, f.n_cells + 1),
            "cell_group": _copied(f.cell_group, f.n_cells + 1),
            "cell_unary": _copied(f.cell_unary, f.n_cells + 1),
            "item_symbol": _copied(f.item_symbol, f.n_items),
            "group_parent": _copied(f.group_parent, f.n_groups),
            "group_rule": _copied(f.group_rule, f.n_groups),
            "group_edge": _copied(f.group_edge, f.n_groups + 1) if f.n_groups else np.zeros(1, np.int32),
            "edge_left": _copied(f.edge_left, f.n_edges),
            "edge_right": _copied(f.edge_right, f.n_edges),
            "unary_parent": _copied(f.unary_parent, f.n_unaries),
            "unary_child": _copied(f.unary_child, f.n_unaries),
            "unary_rule": _copied(f.unary_rule, f.n_unaries),
            "root_item": _copied(f.root_item, f.n_roots),
            "root_rule": _copied(f.root_rule, f.n_roots),
        }


cdef _limit_pointers(Parser parser, list limits, sizes):
    """Return where the arrays of the limits of each sentence are, 0 for none, uintp (sentences, 3).

    Raises ValueError for arrays that do not fit.
    """
    cdef const Coarse* c = parser.task.coarse
    cdef const int32_t[:, ::1] spans
    cdef const uint8_t[:, ::1] whole, unary
    cdef size_t[:, ::1] pointers = np.zeros((len(sizes), 3), dtype=np.uintp)
    if limits is None:
        return pointers
    check(len(limits) == len(sizes), "there must be limits of each sentence")
    for x, (of_sentence, n) in enumerate(zip(limits, sizes.tolist())):
        if of_sentence is None:
            continue
        spans, whole, unary = of_sentence
        rows = len(whole)
        sound = np.shape(spans) == (n, n + 1) and np.shape(whole) == (rows, c.n_symbols)
        if not sound or np.shape(unary) != (rows, c.n_unary) or not (
            BLOCKED <= np.min(spans) and np.max(spans) < rows
        ):
            raise ValueError("the limits do not fit the sentence or the grammar")
        pointers[x, 0] = <size_t>&spans[0, 0]
        if rows:
            pointers[x, 1] = <size_t>&whole[0, 0]
            pointers[x, 2] = <size_t>&unary[0, 0] if c.n_unary else 0
    return pointers


def room(Py_ssize_t present, Py_ssize_t more):
    """Return for how many edges a forest of `present` edges has room after adding more; -1: too many.

    Items have no bytes, so that nothing is allocated.
    """
    cdef void* nothing = NULL
    cdef Py_ssize_t size = present
    cdef int failed = reserve_counted(&nothing, 1, &size, present + more, 0)
    free(nothing)
    return -1 if failed else size


cdef _copied(number* values, Py_ssize_t n):
    return np.array(<number[:n]>values) if n else np.empty(0, np.int32 if number is int32_t else float)
