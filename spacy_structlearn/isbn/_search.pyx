# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of the search for the likeliest derivations of given words.

Titov & Henderson (2007), section 6.2, with the beam of Henderson (2003): the search between two
words is best-first, by log probability. The beam consists of the first hypotheses that shift the
word. The search is lazy: a move is first scored by its first elementary decision, an upper bound,
and the other decisions are computed when it becomes the best entry. The alternatives of a state come
in the order of their scores, so its `branching` best ones are the first ones.

A node of the search is a state with a pointer to its parent, so that hypotheses share nodes. They
also share the products of recurrent weights and means, which are computed when a later state first
needs them. After each word, nodes on no path of a hypothesis are reused. Entries with equal scores
are processed in the order in which they were added.
"""

from libc.math cimport INFINITY, isfinite, log
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memmove, memset

from spacy_structlearn.kernels.arrays cimport grow
from spacy_structlearn.kernels.doubles cimport add_to, matvec

from spacy_structlearn.isbn._network cimport *

import numpy as np

cdef enum:
    # The decisions of an entry of the agenda that are not scored yet
    OPEN  # none: a state of the beam
    SHIFT_ANY  # tag and word of a shift
    SHIFT_TAG  # its word
    SHIFT_WORD  # none
    PROJECT_ANY  # label
    MAKE  # none: any other move

cdef enum:
    # Vectors of a node, each of n doubles. PRIOR: means before the first decision. The mean field
    # has more: natural parameters of the prior; both after the first decision of a shift and of a
    # project; and READ, the final means of the state before, as they are after the move to here.
    PRIOR = 0
    PRODUCTS = 1
    FEED_FORWARD_VECTORS = 5
    PRIOR_PHI = 5
    AFTER_SHIFT_PHI = 6
    AFTER_PROJECT_PHI = 8
    READ_PHI = 10
    READ = 11
    MEAN_FIELD_VECTORS = 12

cdef enum:
    FIRST_CAPACITY = 256  # of nodes
    KEPT_BYTES = 33554432  # maximum size of vectors kept after a search
    HAS_READ = 16  # the other bits of `made` are the products

cdef struct node_t:
    state_t state
    double score  # log P of the moves so far, with the bonus of each word
    int parent, n_moves
    int taken  # of the alternatives here
    int candidate  # of the word shifted to get here
    int made
    int kept  # the last word after which it was kept


cdef struct entry_t:
    double score  # an upper bound
    double exact  # log P of the decisions so far
    int64_t order
    int node
    int value  # move, label or candidate
    int kind


cdef struct workspace_t:
    # Growing arrays that are reused for the next sentence
    node_t *nodes
    double *vectors
    int *spare
    int64_t capacity, stride
    int n_nodes, n_spare
    entry_t *heap
    int64_t heap_capacity, n_heap, order
    double *p  # of a block; the solver's vectors follow


cdef struct search_t:
    isbn_t net
    workspace_t *workspace
    solver_t solver
    int n_words
    const int64_t *offsets
    const int32_t *tags
    const int32_t *items
    const int32_t *signatures
    const double *bonus
    const double *best_bonus  # of each word
    int beam, branching, k
    int64_t max_pops, limit
    double margin
    int64_t pops, all_pops
    int only_ends  # whether only shifts and final moves are considered
    int *found  # nodes that have shifted the word, or complete nodes, best first
    int n_found
    double *ranked  # (branching)
    int *ranks


# --- workspace -----------------------------------------------------------------------------------
cdef void forget(workspace_t *r) noexcept nogil:
    free(r.nodes)
    free(r.vectors)
    free(r.spare)
    free(r.heap)
    free(r.p)
    memset(r, 0, sizeof(workspace_t))


cdef int resize(void **data, int64_t n, size_t item) except -1 nogil:
    if grow(data, n, item):
        with gil:
            raise MemoryError
    return 0


cdef int prepare(search_t *s) except -1 nogil:
    """Empty the workspace for a new sentence."""
    cdef workspace_t *r = s.workspace
    cdef int64_t n = s.net.n, largest = largest_block(&s.net)
    cdef int64_t stride = n * (MEAN_FIELD_VECTORS if s.net.mean_field else FEED_FORWARD_VECTORS)
    if r.stride != stride:
        forget(r)
        r.stride = stride
    resize(<void **> &r.p, SOLVER_VECTORS * n + 2 * largest, sizeof(double))
    set_solver(&s.solver, r.p + largest, s.net.n)
    r.n_nodes = r.n_spare = 0
    r.n_heap = r.order = 0
    return 0


cdef int new_node(workspace_t *r, int parent, double score) except -1 nogil:
    """Return the number of a new node. Invalidates pointers to nodes."""
    cdef int number
    cdef int64_t capacity
    cdef node_t *node
    if r.n_spare:
        r.n_spare -= 1
        number = r.spare[r.n_spare]
    else:
        if r.n_nodes == r.capacity:
            capacity = max(2 * r.capacity, <int64_t> FIRST_CAPACITY)
            resize(<void **> &r.nodes, capacity, sizeof(node_t))
            resize(<void **> &r.spare, capacity, sizeof(int))
            resize(<void **> &r.vectors, capacity * r.stride, sizeof(double))
            r.capacity = capacity
        number = r.n_nodes
        r.n_nodes += 1
    node = r.nodes + number
    node.parent, node.score = parent, score
    node.n_moves = r.nodes[parent].n_moves + 1 if parent >= 0 else 0
    node.taken = node.made = node.kept = 0
    node.candidate = -1
    return number


cdef void keep_paths(search_t *s, int word) noexcept nogil:
    """Free the nodes that are on no path to the nodes found."""
    cdef workspace_t *r = s.workspace
    cdef int i, number
    for i in range(s.n_found):
        number = s.found[i]
        while number >= 0 and r.nodes[number].kept != word + 1:
            r.nodes[number].kept = word + 1
            number = r.nodes[number].parent
    # Low numbers are used first, so that vectors stay in the cache.
    r.n_spare = 0
    for number in range(r.n_nodes - 1, -1, -1):
        if r.nodes[number].kept != word + 1:
            r.spare[r.n_spare] = number
            r.n_spare += 1


cdef inline double *vector(workspace_t *r, int number, int which, int n) noexcept nogil:
    return r.vectors + number * r.stride + <int64_t> which * n


# --- agenda --------------------------------------------------------------------------------------
cdef inline int comes_before(const entry_t *a, const entry_t *b) noexcept nogil:
    return a.score > b.score or (a.score == b.score and a.order < b.order)


cdef int push(workspace_t *r, double score, double exact, int kind, int node,
              int value) except -1 nogil:
    """Add an entry."""
    cdef entry_t entry = entry_t(score, exact, r.order, node, value, kind)
    cdef int64_t place = r.n_heap, above, capacity
    if r.n_heap == r.heap_capacity:
        capacity = max(2 * r.heap_capacity, <int64_t> FIRST_CAPACITY)
        resize(<void **> &r.heap, capacity, sizeof(entry_t))
        r.heap_capacity = capacity
    r.order += 1
    r.n_heap += 1
    while place > 0:
        above = (place - 1) >> 1
        if not comes_before(&entry, r.heap + above):
            break
        r.heap[place] = r.heap[above]
        place = above
    r.heap[place] = entry
    return 0


cdef entry_t pop(workspace_t *r) noexcept nogil:
    cdef entry_t first = r.heap[0], last
    cdef int64_t place = 0, below
    r.n_heap -= 1
    if r.n_heap:
        last = r.heap[r.n_heap]
        while True:
            below = 2 * place + 1
            if below >= r.n_heap:
                break
            if below + 1 < r.n_heap and comes_before(r.heap + below + 1, r.heap + below):
                below += 1
            if not comes_before(r.heap + below, &last):
                break
            r.heap[place] = r.heap[below]
            place = below
        r.heap[place] = last
    return first


# --- states and means ----------------------------------------------------------------------------
cdef inline const state_t *state_below(search_t *s, int number) noexcept nogil:
    """Return the state of the node below the top, or NULL."""
    cdef int below = s.workspace.nodes[number].state.below
    return &s.workspace.nodes[below].state if below >= 0 else NULL


cdef inline int legal_here(search_t *s, int number) noexcept nogil:
    return legal_moves(&s.net, &s.workspace.nodes[number].state, state_below(s, number))


cdef int follow(search_t *s, int parent, double score, int move, int label,
                int candidate) except -1 nogil:
    """Add the node after a move. Returns its number."""
    cdef workspace_t *r = s.workspace
    cdef int number = new_node(r, parent, score)
    cdef leaf_t leaf = leaf_t(-1, -1, -1)
    if candidate >= 0:
        leaf = leaf_t(s.tags[candidate], s.items[candidate], s.signatures[candidate])
    next_state(&r.nodes[parent].state, parent, &r.nodes[number].state, number,
               state_below(s, parent), move, label, leaf, s.net.n_labels)
    r.nodes[number].candidate = candidate
    return number


cdef void decide(search_t *s, const block_t *block, int chosen, const double *phi,
                 const double *mu, double *new_phi, double *new_mu) noexcept nogil:
    """Compute the mean field after a decision."""
    cdef double log_sum = softmax(block, mu, s.net.n, s.workspace.p)
    memmove(new_mu, mu, s.net.n * sizeof(double))
    update_means(&s.net, block, phi, chosen, new_phi, new_mu, s.workspace.p, log_sum, &s.solver)


cdef const double *means_after(search_t *s, int number, int move) noexcept nogil:
    """Return the means of a state after the decision to shift or to project."""
    cdef workspace_t *r = s.workspace
    cdef int n = s.net.n, phi = AFTER_SHIFT_PHI if move == SHIFT else AFTER_PROJECT_PHI
    cdef block_t block
    if not s.net.mean_field:
        return vector(r, number, PRIOR, n)
    block = move_block(&s.net, legal_here(s, number))
    decide(s, &block, move, vector(r, number, PRIOR_PHI, n), vector(r, number, PRIOR, n),
           vector(r, number, phi, n), vector(r, number, phi + 1, n))
    return vector(r, number, phi + 1, n)


cdef void end_step(search_t *s, int number) noexcept nogil:
    """Compute the final mean field of the parent of a node."""
    cdef workspace_t *r = s.workspace
    cdef node_t *node = r.nodes + number
    cdef int n = s.net.n, move = node.state.move, chosen, parent = node.parent
    cdef double *phi = vector(r, number, READ_PHI, n)
    cdef double *mu = vector(r, number, READ, n)
    cdef block_t block
    if node.made & HAS_READ or parent < 0:
        return
    node.made |= HAS_READ
    if move == SHIFT:
        block = item_block(&s.net, node.state.leaf.tag)
        chosen = node.state.leaf.item - s.net.item_offsets[node.state.leaf.tag]
        decide(s, &block, chosen, phi, mu, phi, mu)
    elif move == PROJECT:
        block = label_block(&s.net)
        decide(s, &block, node.state.label, vector(r, parent, AFTER_PROJECT_PHI, n),
               vector(r, parent, AFTER_PROJECT_PHI + 1, n), phi, mu)
    else:
        block = move_block(&s.net, legal_here(s, parent))
        decide(s, &block, move, vector(r, parent, PRIOR_PHI, n), vector(r, parent, PRIOR, n), phi,
               mu)


cdef const double *product(search_t *s, int tau, int number) noexcept nogil:
    """Return J^tau times the final means that are stored for a node."""
    cdef workspace_t *r = s.workspace
    cdef int n = s.net.n, owner = number, means = READ
    cdef double *out
    if not s.net.mean_field:
        # The means do not depend on the move.
        owner, means = r.nodes[number].parent, PRIOR
    out = vector(r, owner, PRODUCTS + tau, n)
    if not r.nodes[owner].made >> tau & 1:
        r.nodes[owner].made |= 1 << tau
        matvec(out, s.net.recurrent + <int64_t> tau * n * n, vector(r, owner, means, n), n, n, 0)
    return out


cdef int prior_of(search_t *s, int number, double *p) noexcept nogil:
    """Compute the means of a state before its first decision, and P(move) into p (N_MOVES).

    Returns a bit for each legal move.
    """
    cdef workspace_t *r = s.workspace
    cdef node_t *node = r.nodes + number
    cdef int n = s.net.n, tau, related, legal
    cdef block_t block
    cdef double *mu = vector(r, number, PRIOR, n)
    # The feed-forward approximation does not keep phi and does not use the solver.
    cdef double *phi = vector(r, number, PRIOR_PHI, n) if s.net.mean_field else s.solver.force
    if s.net.mean_field:
        end_step(s, number)
    memset(phi, 0, n * sizeof(double))
    for tau in range(N_RELATIONS):
        related = node.state.related[tau]
        if related >= 0:
            add_to(phi, product(s, tau, related), 1.0, n)
    prior_means(&s.net, &node.state, phi, mu)
    legal = legal_here(s, number)
    block = move_block(&s.net, legal)
    softmax(&block, mu, n, p)
    return legal


# --- entries -------------------------------------------------------------------------------------
cdef int expand(search_t *s, int number) except -1 nogil:
    """Add the moves of a state to the agenda."""
    cdef workspace_t *r = s.workspace
    cdef double p[4]
    cdef int legal = prior_of(s, number, p), move, word = r.nodes[number].state.n_words
    cdef double score = r.nodes[number].score, exact
    s.pops += 1
    for move in range(N_MOVES):
        if not legal >> move & 1:
            continue
        exact = score + log(p[move])
        if move == SHIFT:
            if word < s.n_words:
                push(r, exact + s.best_bonus[word], exact, SHIFT_ANY, number, 0)
        elif move == PROJECT:
            push(r, exact, exact, PROJECT_ANY, number, 0)
        elif (move == MODIFY or word == s.n_words
                or state_below(s, number).symbol != s.net.n_labels):
            # Attaching to the root ends the derivation.
            push(r, exact, exact, MAKE, number, move)
    return 0


cdef int tags_of(search_t *s, int number, double exact) except -1 nogil:
    """Score the tags of a shift."""
    cdef workspace_t *r = s.workspace
    cdef int n = s.net.n, word = r.nodes[number].state.n_words
    cdef int64_t c
    cdef double score
    cdef const double *mu = means_after(s, number, SHIFT)
    cdef block_t block = tag_block(&s.net)
    softmax(&block, mu, n, r.p)
    for c in range(s.offsets[word], s.offsets[word + 1]):
        score = exact + log(r.p[s.tags[c]])
        push(r, score + s.bonus[c], score, SHIFT_TAG, number, <int> c)
    return 0


cdef int word_of(search_t *s, int parent, int candidate, double exact) except -1 nogil:
    """Score the word of a shift with its tag."""
    cdef workspace_t *r = s.workspace
    cdef int n = s.net.n, tag = s.tags[candidate]
    cdef int number = follow(s, parent, 0.0, SHIFT, -1, candidate)
    cdef double *mu = vector(r, parent, PRIOR, n)
    cdef block_t block
    cdef double score
    if s.net.mean_field:
        mu = vector(r, number, READ, n)
        block = tag_block(&s.net)
        decide(s, &block, tag, vector(r, parent, AFTER_SHIFT_PHI, n),
               vector(r, parent, AFTER_SHIFT_PHI + 1, n), vector(r, number, READ_PHI, n),
               mu)
    block = item_block(&s.net, tag)
    softmax(&block, mu, n, r.p)
    score = exact + log(r.p[s.items[candidate] - s.net.item_offsets[tag]]) + s.bonus[candidate]
    r.nodes[number].score = score
    push(r, score, score, SHIFT_WORD, number, 0)
    return 0


cdef int labels_of(search_t *s, int number, double exact) except -1 nogil:
    """Score the `branching` best labels of a project."""
    cdef workspace_t *r = s.workspace
    cdef int n = s.net.n, label, place, count = 0
    cdef double p
    cdef const double *mu = means_after(s, number, PROJECT)
    cdef block_t block = label_block(&s.net)
    softmax(&block, mu, n, r.p)
    for label in range(s.net.n_labels):
        p = r.p[label]
        if count == s.branching:
            if p <= s.ranked[count - 1]:
                continue
            count -= 1
        place = count
        while place > 0 and s.ranked[place - 1] < p:
            s.ranked[place], s.ranks[place] = s.ranked[place - 1], s.ranks[place - 1]
            place -= 1
        s.ranked[place], s.ranks[place] = p, label
        count += 1
    for place in range(count):
        p = exact + log(s.ranked[place])
        push(r, p, p, MAKE, number, N_MOVES + s.ranks[place])
    return 0


cdef int take(search_t *s, const entry_t *entry) except -1 nogil:
    """Process the best entry."""
    cdef workspace_t *r = s.workspace
    cdef int move = entry.value, label = -1, number = entry.node, parent = entry.node
    if entry.kind == SHIFT_ANY:
        return tags_of(s, number, entry.exact)
    if entry.kind == SHIFT_TAG:
        return word_of(s, number, entry.value, entry.exact)
    if entry.kind == SHIFT_WORD:
        parent = r.nodes[number].parent
    elif s.only_ends and not (
        entry.kind == MAKE and move == ATTACH
        and state_below(s, parent).symbol == s.net.n_labels
    ):
        return 0
    if entry.kind == OPEN:
        return expand(s, number)
    if entry.kind == PROJECT_ANY:
        return labels_of(s, number, entry.exact)
    if r.nodes[parent].taken >= s.branching and not s.only_ends:
        return 0
    r.nodes[parent].taken += 1
    if entry.kind == MAKE:
        if move >= N_MOVES:
            move, label = PROJECT, move - N_MOVES
        number = follow(s, parent, entry.score, move, label, -1)
        if not r.nodes[number].state.is_done:
            return expand(s, number)
    s.found[s.n_found] = number
    s.n_found += 1
    return 0


# --- search --------------------------------------------------------------------------------------
cdef int complete(search_t *s, int number) except -1 nogil:
    """Attach everything on the stack."""
    cdef workspace_t *r = s.workspace
    cdef double p[4]
    cdef int legal, move
    while not r.nodes[number].state.is_done:
        legal = prior_of(s, number, p)
        move = ATTACH
        if not legal >> ATTACH & 1 or (legal >> MODIFY & 1 and p[MODIFY] > p[ATTACH]):
            move = MODIFY
        number = follow(s, number, r.nodes[number].score + log(p[move]), move, -1, -1)
    s.found[0] = number
    s.n_found = 1
    return 0


cdef int run(search_t *s) except -1 nogil:
    """Search for derivations. Returns whether the only one is a fallback."""
    cdef workspace_t *r = s.workspace
    cdef entry_t entry
    cdef int word, is_last, i, most, best = -1
    prepare(s)
    s.found[0] = new_node(r, -1, 0.0)
    s.n_found = 1
    first_state(&s.net, &r.nodes[s.found[0]].state)
    for word in range(s.n_words + (s.net.n_labels > 0)):
        best = s.found[0]
        is_last = word == s.n_words or (s.net.n_labels == 0 and word == s.n_words - 1)
        s.limit, most = s.max_pops, s.beam
        if is_last:
            # At most one node for each word is left to be attached.
            most = max(s.beam, s.k)
            s.limit += <int64_t> most * s.n_words
        # The search continues from the nodes found before.
        for i in range(s.n_found):
            push(r, r.nodes[s.found[i]].score, r.nodes[s.found[i]].score, OPEN, s.found[i], 0)
        s.n_found = s.pops = s.only_ends = 0
        # Until the beam is full, or at the end enough derivations are complete
        while r.n_heap and s.n_found < most:
            if is_last and s.n_found >= s.k and (
                s.n_found >= s.beam
                or (s.n_found and r.heap[0].score <= r.nodes[s.found[0]].score - s.margin)
            ):
                break
            entry = pop(r)
            take(s, &entry)
            if s.pops >= s.limit:
                # Every state seen so far gets its shift.
                s.only_ends = 1
        r.n_heap = 0
        s.all_pops += s.pops
        if word == s.n_words:
            break
        if not s.n_found:
            return 0
        keep_paths(s, word)
    if s.n_found:
        return 0
    complete(s, best)
    return 1


# --- brackets ------------------------------------------------------------------------------------
cdef struct open_t:
    # A node of the stack; label -1: a word
    int label
    int first  # word
    int end  # of its children, once it has a modifier
    int n_children
    int child  # the phrase that its first child is, -1 for a word
    int modifiers, last  # in a list, each with its end and the next one; -1: none


cdef inline void bracket(int32_t *row, int phrase, int first, int end) noexcept nogil:
    row[0], row[1], row[2] = phrase, first, end


cdef int64_t brackets(const int8_t *moves, const int32_t *labels, int64_t n_moves,
                      const int64_t *chain_offsets, const int32_t *chains, int root, open_t *stack,
                      int *modifiers, int32_t *out) noexcept nogil:
    """Set `out` to the phrases of a derivation, lower ones first. Returns their number.

    modifiers: workspace for two numbers for each move.
    """
    cdef int64_t m, k, count = 0
    cdef int n_open = 0, n_words = 0, n_modifiers = 0, label, end, child
    cdef open_t *top
    for m in range(n_moves):
        if moves[m] == SHIFT:
            top = stack + n_open
            n_open += 1
            top.label, top.first, top.modifiers = -1, n_words, -1
            n_words += 1
            continue
        # The top is complete.
        top = stack + n_open - 1
        label, child, end = top.label, -1, n_words
        if label >= 0:
            child = chains[chain_offsets[label + 1] - 1]
            if top.modifiers >= 0:
                end = top.end
            if top.n_children > 1 or top.child != child:
                bracket(out + 3 * count, child, top.first, end)
                count += 1
            k = top.modifiers
            while k >= 0:
                bracket(out + 3 * count, child, top.first, modifiers[2 * k])
                count += 1
                k = modifiers[2 * k + 1]
            for k in range(chain_offsets[label + 1] - 2, chain_offsets[label] - 1, -1):
                if chains[k] != child:
                    child = chains[k]
                    bracket(out + 3 * count, child, top.first, n_words)
                    count += 1
        if moves[m] == PROJECT:
            top.label, top.child, top.n_children, top.modifiers = labels[m], child, 1, -1
            continue
        n_open -= 1
        if not n_open:
            # Attached to the root: the end. The root itself is the last one.
            return count - 1 if count and child == root else count
        end = top.first
        top = stack + n_open - 1
        if moves[m] == ATTACH:
            top.n_children += 1
        else:
            if top.modifiers < 0:
                top.end, top.modifiers = end, n_modifiers
            else:
                modifiers[2 * top.last + 1] = n_modifiers
            modifiers[2 * n_modifiers], modifiers[2 * n_modifiers + 1] = n_words, -1
            top.last = n_modifiers
            n_modifiers += 1
    return 0  # a sequence


cdef enum:
    MOST_BEAM = 1 << 20


# --- results -------------------------------------------------------------------------------------
cdef class Workspace:
    """Memory for one search at a time, used again by the next one."""

    cdef workspace_t memory

    def __dealloc__(self):
        forget(&self.memory)


cdef class Searcher:
    """A network with its weights, to search with.

    weights: float64 (n_weights).
    chains: the phrases of each label, topmost first.
    root: the phrase that is omitted at the top of a tree, or -1.

    Raises ValueError for another number of weights or chains than the network has.
    """

    cdef isbn_t net
    cdef Network network
    cdef const double[::1] weights
    cdef int64_t[::1] chain_offsets
    cdef int32_t[::1] chains
    cdef int root

    def __init__(
        self, Network network not None, const double[::1] weights not None, chains, int root
    ):
        if (
            weights.shape[0] != network.n_weights or len(chains) != network.net.n_labels
            or not all(len(chain) for chain in chains)
        ):
            raise ValueError("the weights or the chains do not fit the network")
        lengths = [len(chain) for chain in chains]
        self.chain_offsets = np.cumsum([0, *lengths], dtype=np.int64)
        self.chains = np.array([phrase for chain in chains for phrase in chain], np.int32)
        self.root = root
        self.network, self.weights, self.net = network, weights, network.net
        set_weights(&self.net, &self.weights[0])

    def search(self, const int64_t[::1] offsets, const int32_t[::1] tags,
               const int32_t[::1] items, const int32_t[::1] signatures, const double[::1] bonus,
               int beam, int branching, int k, int64_t max_pops, double margin,
               Workspace workspace not None):
        """Return the likeliest derivations of a sentence of n words, best first.

        offsets: int64 (n + 1), of the candidates of each word, at least one.
        tags, items, signatures, bonus: int32 and float64, of each candidate. The bonus, at most 0,
            is added to the score.
        beam: maximum number of hypotheses after each word.
        branching: maximum number of alternatives of a state.
        max_pops: maximum number of states between two words; after the last word there may be more,
            to attach all nodes. Beyond it only shifts and final moves are considered.
        k, margin: after the last word the search continues until k derivations are complete, and
            then until `beam` are, or the others are `margin` nats less likely than the best.
        workspace: used by one search at a time.

        Returns scores, float64 (m); moves, int8, and labels, int32, of all derivations; their
        offsets, int64 (m + 1); the candidates of their words, int32 (m, n); whether the only
        derivation is a fallback, in which all open nodes were attached; the number of states; the
        phrases of all trees in pre-order, each its label, first word and end, int32 (n, 3), and
        their offsets, int64 (m + 1). The GIL is released.
        Raises ValueError if the arrays are inconsistent, and MemoryError.
        """
        cdef search_t s
        cdef int64_t most = max(beam, k)
        cdef int64_t n_words = offsets.shape[0] - 1, n = tags.shape[0], i
        cdef int is_fallback
        cdef const int32_t *first = self.net.item_offsets
        cdef bint sound = (n_words >= 1 and offsets[0] == 0 and offsets[n_words] == n
                           and items.shape[0] == signatures.shape[0] == bonus.shape[0] == n
                           and bool((np.diff(offsets) > 0).all()))
        for i in range(n if sound else 0):
            sound = (sound and 0 <= tags[i] < self.net.n_tags
                     and first[tags[i]] <= items[i] < first[tags[i] + 1]
                     and -1 <= signatures[i] < self.net.n_signatures
                     and bonus[i] <= 0 and isfinite(bonus[i]))
        if not sound:
            raise ValueError("each word must have candidates that the network knows")
        if not (0 < beam <= MOST_BEAM and 0 < branching <= MOST_BEAM and 0 <= k <= MOST_BEAM):
            raise ValueError(f"beam, branching and k must be positive, and at most {MOST_BEAM}")
        cdef int[::1] nodes = np.empty(most, dtype=np.intc)
        cdef int[::1] ranks = np.empty(branching, dtype=np.intc)
        cdef double[::1] ranked = np.empty(branching)
        cdef double[::1] best_bonus = np.maximum.reduceat(bonus, offsets[:offsets.shape[0] - 1])
        memset(&s, 0, sizeof(search_t))
        s.net, s.workspace = self.net, &workspace.memory
        s.n_words = <int> n_words
        s.offsets, s.tags, s.items = &offsets[0], &tags[0], &items[0]
        s.signatures, s.bonus, s.best_bonus = &signatures[0], &bonus[0], &best_bonus[0]
        s.beam, s.branching, s.k = beam, branching, k
        s.max_pops, s.margin = max_pops, margin
        s.found = &nodes[0]
        s.ranked, s.ranks = &ranked[0], &ranks[0]
        try:
            with nogil:
                is_fallback = run(&s)
            return self.results(&s, is_fallback)
        finally:
            if s.workspace.capacity * s.workspace.stride * <int64_t> sizeof(double) > KEPT_BYTES:
                forget(s.workspace)

    cdef object results(self, search_t *s, int is_fallback):
        cdef workspace_t *r = s.workspace
        cdef int i, number, word
        cdef int64_t place
        cdef double[::1] scores
        cdef int64_t[::1] begins
        cdef int8_t[::1] moves
        cdef int32_t[::1] labels
        cdef int32_t[:, ::1] words
        lengths = [r.nodes[s.found[i]].n_moves for i in range(s.n_found)]
        found = (
            np.empty(s.n_found),
            np.empty(sum(lengths), dtype=np.int8),
            np.empty(sum(lengths), dtype=np.int32),
            np.cumsum([0, *lengths], dtype=np.int64),
            np.empty((s.n_found, s.n_words), dtype=np.int32),
        )
        scores, moves, labels, begins, words = found
        for i in range(s.n_found):
            number = s.found[i]
            scores[i] = r.nodes[number].score
            place = begins[i + 1]
            word = s.n_words
            while r.nodes[number].parent >= 0:
                place -= 1
                moves[place] = <int8_t> r.nodes[number].state.move
                labels[place] = r.nodes[number].state.label
                if r.nodes[number].candidate >= 0:
                    word -= 1
                    words[i, word] = r.nodes[number].candidate
                number = r.nodes[number].parent
        cdef int64_t most = max(lengths, default=0), count = 0
        cdef uint8_t[::1] stack = np.empty((most + 1) * sizeof(open_t), dtype=np.uint8)
        cdef int[::1] modifiers = np.empty(2 * most, dtype=np.intc)
        # A node has at most its chain and its modifiers, each of which is a move.
        chain_lengths, projected = np.diff(self.chain_offsets), found[2][found[2] >= 0]
        size = chain_lengths[projected].sum() + np.count_nonzero(found[1] == MODIFY)
        rows = np.empty((size + 1, 3), dtype=np.int32)
        cdef int32_t[:, ::1] out = rows
        cdef int64_t[::1] ends = np.zeros(s.n_found + 1, dtype=np.int64)
        for i in range(s.n_found):
            count += brackets(&moves[begins[i]], &labels[begins[i]], lengths[i],
                              &self.chain_offsets[0], &self.chains[0], self.root,
                              <open_t *> &stack[0], &modifiers[0], &out[count, 0])
            ends[i + 1] = count
        rows = rows[:count]
        # In pre-order: of equal spans, the one that was made last is on top.
        owner = np.repeat(np.arange(s.n_found), np.diff(ends))
        order = np.lexsort((-np.arange(count), -rows[:, 2], rows[:, 1], owner))
        return (*found, bool(is_fallback), s.all_pops, rows[order], np.asarray(ends))
