"""What the passes over the chart of a sentence share: grammars, forests, workspaces."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t

from spacy_structlearn.kernels.arrays cimport reserve
from spacy_structlearn.kernels.vectors cimport exponent_of, power_of_two

cdef enum:
    MOST = 2147483647  # of each kind of element of a forest: their numbers are int32
    PARSED = 0
    UNPARSED = 1
    OUT_OF_MEMORY = 2
    NOTHING = -268435456  # -2**28, the power of two of a cell or node of zeros
    # what a span may be: anything, or nothing since it crosses a bracket that must be
    FREE = -1
    BLOCKED = -2

cdef extern from *:
    """
    #define TINY 8.271806125530277e-25f  /* 2**-80 */
    """
    const float TINY


cdef struct Entry:
    # A probability of a sparse block. The two substates after the last one of a parent are groups
    # of its substates, see `compiled`.
    float value
    uint16_t parent
    uint16_t pair  # number of the pair of children, in its rule; or the child of a unary rule


cdef struct Pair:
    # Substates of the children of a binary rule.
    uint16_t left, right


cdef struct Fine:
    # One level of a grammar; offsets as in `model.Level`. The block of a binary or unary rule is
    # dense, or, where its offset is -1, a list of entries. Entries and pairs are in an order in which
    # neighbours have little in common: an addition waits for the one before to the same place.
    const int32_t* n
    const int64_t* offsets
    const float* binary
    const int64_t* binary_offsets
    const int32_t* binary_begins  # (n_rules + 1), where the entries of each rule begin
    const Entry* binary_entries
    const int32_t* pair_begins  # (n_rules + 1), where the pairs of each rule begin
    const Pair* pairs
    const float* unary
    const int64_t* unary_offsets
    const int32_t* unary_begins
    const Entry* unary_entries
    const float* root
    const int64_t* root_offsets
    int widest  # the largest number of substates of a symbol
    const int32_t* groups  # for each symbol the first substate of the second group
    const int64_t* word_offsets  # where the scores of each pair of a word and a tag begin; or NULL
    int extra  # 2 if there are entries of groups, otherwise 0: places after the substates of an item


cdef struct Unaries:
    # Unary productions among phrases, of rows that have a place for each state.
    int n, n_pad, first_symbol  # of the rows
    const int32_t* begins  # (n_symbols + 1), where the places of each symbol begin
    const Entry* entries
    const int32_t* rule  # (n)


cdef struct Coarse:
    # Rules, and their probabilities at level 0; nts: nonterminals, which come after tags.
    int n_symbols, n_tags, n_pad  # n_pad: n_symbols, with n_nts as a multiple of 8
    int n_left, n_right, n_left_pad, n_right_pad  # nts up to the last that may be a left child...
    int n_rules, n_unary, n_root, n_pairs
    const int32_t* rules  # (n_rules, 3), by (left, right, parent)
    const int32_t* unary_rules  # (n_unary, 2), by (child, parent)
    const int32_t* root_rules
    const int32_t* pairs  # (n_symbols**2 + 1), where the rules of a (left, right) begin
    const int32_t* pair  # (n_pairs, 2), the pairs with rules
    const int32_t* pair_begin  # (n_pairs + 1)
    const int32_t* unary_by_child  # (n_symbols + 1)
    const float* binary_value
    const float* unary_value
    const float* root_value
    Unaries unaries


cdef struct Factors:
    # Level 1 by its factors, see `compiled`. States are numbered as in the level, those of tags
    # first; rows of states are n_state_pad wide, rows of tags n_tag_pad.
    int rank, n_tag_states, n_tag_pad, n_state_pad
    const int32_t* begins  # (n_symbols + 1), the states of each symbol, of which there are 1 or 2
    Unaries unaries
    const float* combine  # (rank, 2 rank)
    const float* divide  # (2 rank, rank), transposed
    const float* enter  # (n_tag_states, 2 rank)
    const float* leave  # (2 rank, n_tag_pad), transposed
    const float* inside  # (rank, n_state_pad), of lower nodes
    const float* inside_words  # (n_tag_states, n_state_pad)
    const float* outside  # (2 rank, n_state_pad), of upper nodes
    const float* root  # (rank)
    const float* root_states  # (n_state_pad)
    const float* root_tags  # (n_tag_pad)
    const float* left  # (states, rank)
    const float* right
    const float* blocks  # (n_rules, 8)


cdef struct Found:
    # An item of a factored pass: inside scores of its upper node, outside scores of its lower one.
    int32_t symbol
    float[2] inside
    float[2] outside


cdef struct Forest:
    # What a pass leaves of the chart of a sentence. The arrays of one kind are allocated together.
    int n_words
    int n_cells, n_items, n_groups, n_edges, n_unaries, n_roots
    Py_ssize_t cells_size, items_size, groups_size, edges_size, unaries_size, root_size
    # cells, narrow ones first; the last is that of the sentence
    int32_t* cell_i
    int32_t* cell_j
    int32_t* cell_item
    int32_t* cell_group
    int32_t* cell_unary
    # items: a symbol in a cell
    int32_t* item_symbol
    int32_t* item_cell
    int32_t* item_offset  # of its vector of substates
    int32_t* lower_e  # powers of two of the vectors of its nodes
    int32_t* upper_e
    float* item_lower  # posterior of the lower node, or of the tag
    float* item_upper
    float* item_same  # of both being one
    # binary edges of one rule in one cell
    int32_t* group_parent
    int32_t* group_rule
    int32_t* group_edge
    int32_t* edge_left
    int32_t* edge_right
    float* edge_q
    int32_t* unary_parent
    int32_t* unary_child
    int32_t* unary_rule
    float* unary_q
    int32_t* root_item
    int32_t* root_rule
    float* root_q


cdef struct Packed:
    # The scored forests of several sentences, laid out as in `hypergraph.Hypergraphs`.
    Py_ssize_t n_items, n_begins, n_edges
    Py_ssize_t items_size, begins_size, tails_size, made_size, scores_size, best_size
    int32_t* items  # (.., 3)
    int32_t* begins
    int32_t* tails  # (.., 2)
    int32_t* made
    int32_t* chain
    double* scores  # log of the posterior of an edge given its head
    double* posteriors
    double* logs  # of posteriors
    uint8_t* best  # whether the edge is part of the best derivation


cdef struct Sums:
    # Expected counts are added here, in the layout of a level and of the scores of its words.
    float* binary
    float* unary
    float* root
    float* words


cdef struct Work:
    # The workspace of one thread.
    Forest f
    # by item of the forest, NULL in the parser: its substates, and the pair of a word and a tag
    uint64_t* masks
    const int32_t* words_of
    Packed packed
    # constraints of the sentence, see `constraints.Limits`; NULL: none
    const int32_t* limits  # (n, n + 1): FREE, BLOCKED, or the row of the span in the others
    const uint8_t* whole  # (rows, n_symbols): whether one node may be the lower and the upper one
    const uint8_t* unaries  # (rows, n_unary): whether there may be this unary production
    # the chart of level 0: rows of n_pad floats; (i, j) by start or, transposed, by end
    size_t chart_cells, matrix_size
    float* lower
    float* upper
    float* upper_by_end
    float* outside  # by start: pushes from parents of which the cell is the left child, then O1
    float* outside_by_end  # ... the right child, then O0
    int32_t* exponent
    float* m
    float* w
    float* wt
    float* factor
    int32_t* grid  # (n, n + 1): number of the cell, or -1
    int32_t* slot  # by symbol: its item in the cell that is listed, or -1
    uint8_t* supported  # by symbol: whether its node can be made
    # the edges of a cell while it is listed, in a chain for each rule
    int32_t* first  # by rule: its newest edge
    int32_t* touched  # rules with edges
    int32_t* next  # (.., 3), the edge before, the left and the right item
    int n_touched, n_chained
    Py_ssize_t grid_size, symbols_size, rules_size, next_size
    float z  # score of the sentence in the first pass
    # the chart of a factored first pass; cells by their length, then their beginning
    size_t factored_cells
    float* above  # (cells, rank): the parents of a cell
    float* above_outside
    float* below  # (cells, 2 rank): its nodes as left and as right children
    int32_t* power
    int32_t* found  # (cells, 2): the first of the items that were found, and the number of them
    int32_t* open  # of the cells with a posterior their ends by start, then their starts by end
    float* words  # (words, n_tag_pad)
    int64_t* places  # (2, words)
    int32_t* survivors
    int32_t* n_open  # (2, words + 1)
    float* factors  # (words)
    int factored_words
    float* rows  # (words, 4 rank + n_tag_pad + 4 n_state_pad): workspace of a length
    # items that were found, from wide cells to narrow ones
    int n_found
    Found* found_items
    # of the items of the forest: (.., 2), (.., 2), (.., rank), (.., rank)
    float* state_inside
    float* state_outside
    float* left_rows
    float* right_rows
    int32_t* left_chosen
    int32_t* right_chosen
    Py_ssize_t rows_size, found_size, states_size, vectors_size, chosen_size
    int z_e  # power of two of the score of the sentence
    # the substates of the items
    Py_ssize_t n_values
    Py_ssize_t values_size
    float* inside0
    float* inside1
    float* outside0
    float* outside1
    float* block  # of pairs of substates, twice, and of those of a node
    Py_ssize_t block_size
    # numbers of items in another list, or of their lower and upper nodes in the packed forest
    Py_ssize_t numbers_size
    int32_t* lower_number
    int32_t* upper_number
    # the packed edges of: edges, unaries, items (a tag, or an upper node that is the lower one), roots
    Py_ssize_t places_size
    Py_ssize_t* place
    int32_t* stack
    Py_ssize_t stack_size


cdef inline int reserve_counted(void** arrays, int count, Py_ssize_t* size, Py_ssize_t n,
                                size_t item=4) noexcept nogil:
    """Make room for n elements that are numbered by int32, and for one more. Returns -1 if it fails."""
    return -1 if n >= MOST else reserve(arrays, count, size, n, item)


cdef inline int reserve_more(Forest* f, Py_ssize_t cells, Py_ssize_t items, Py_ssize_t groups,
                             Py_ssize_t edges, Py_ssize_t unaries) noexcept nogil:
    """Make room for more elements of a forest. Returns -1 if memory is short, or for too many."""
    if (reserve_counted(<void**>&f.cell_i, 5, &f.cells_size, f.n_cells + cells + 1)
            or reserve_counted(<void**>&f.item_symbol, 8, &f.items_size, f.n_items + items + 1)
            or reserve_counted(<void**>&f.group_parent, 3, &f.groups_size, f.n_groups + groups + 1)
            or reserve_counted(<void**>&f.edge_left, 3, &f.edges_size, f.n_edges + edges)
            or reserve_counted(<void**>&f.unary_parent, 4, &f.unaries_size, f.n_unaries + unaries)):
        return -1
    return 0


cdef inline Py_ssize_t by_length(int n, int i, int j) noexcept nogil:
    """Return the row of (i, j), which is next to that of (i + 1, j + 1)."""
    return <Py_ssize_t>(j - i - 1) * n - <Py_ssize_t>(j - i - 1) * (j - i - 2) // 2 + i


cdef inline Py_ssize_t by_start(int n, int i, int j) noexcept nogil:
    """Return the row of (i, j), which is next to that of (i, j + 1)."""
    return <Py_ssize_t>i * n - <Py_ssize_t>i * (i - 1) // 2 + (j - i - 1)


cdef inline Py_ssize_t by_end(int i, int j) noexcept nogil:
    """Return the row of (i, j), which is next to that of (i + 1, j)."""
    return <Py_ssize_t>j * (j - 1) // 2 + i


cdef inline int limit_of(const Work* w, int n, int i, int j) noexcept nogil:
    """Return the row of the constraints of a span, or FREE, or BLOCKED."""
    return FREE if w.limits == NULL else w.limits[<Py_ssize_t>i * (n + 1) + j]


cdef inline bint may_be_whole(const Coarse* c, const Work* w, int limit, int symbol) noexcept nogil:
    """Whether a node may be the lower and the upper one of its span; of a tag: have no phrase."""
    return limit < 0 or w.whole[<Py_ssize_t>limit * c.n_symbols + symbol]


cdef inline bint may_be_above(const Coarse* c, const Work* w, int limit, int rule) noexcept nogil:
    """Whether there may be this unary production over a span."""
    return limit < 0 or w.unaries[<Py_ssize_t>limit * c.n_unary + rule]


cdef inline bint may_be_bare(const Coarse* c, const Work* w, int n, int i) noexcept nogil:
    """Whether a word may have no phrase of its own. This does not depend on its tag."""
    return w.limits == NULL or may_be_whole(c, w, limit_of(w, n, i, i + 1), 0)


cdef inline int scale_cell(float* lower, float* upper, int n, int before) noexcept nogil:
    """Scale the largest score to between 1 and 2. Return the power of two of the cell.

    before: its present power. A cell of zeros has NOTHING, so that no other cell is scaled by it.
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
