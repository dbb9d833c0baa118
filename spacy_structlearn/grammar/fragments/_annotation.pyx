# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of refined forests: a copy of each node for each state that it can have.

A state is the context that a feature of a larger fragment looks at: the tags at the ends of the
span below a node, as in bottom-up finite tree automata, or its ancestors, as in the annotations of
Johnson (1998). Edges are copied with their heads (top down) or for each combination of copies of
their tails (bottom up). This is the intersection of a hypergraph with a deterministic automaton, so
that derivations correspond one to one. Hypergraphs are as in `_hypergraph`. A state consists of two
numbers, packed into one key.
"""

cimport cython
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

import numpy as np

from spacy_structlearn.grammar.chart._hypergraph import check_structure
from spacy_structlearn.kernels.arrays cimport grow
from spacy_structlearn.kernels.hashing cimport finalize

cdef enum:
    BITS = 20  # of each number in a key
    MASK = (1 << 20) - 1


# One hypergraph.
cdef struct Graph:
    const int32_t* begins
    const int32_t* tails
    const int32_t* made
    const int32_t* symbol
    uint8_t* kept  # of each edge: whether a derivation of the root has it
    uint8_t* reached  # of each node
    int32_t* first  # the first and the last copy of each node, -1 for none
    int32_t* last
    Py_ssize_t n_nodes
    int64_t first_node, first_edge  # among those of all hypergraphs


cdef struct Copy:
    int64_t node
    int64_t key
    int32_t next  # copy of the same node, -1 for none


cdef struct Edge:
    int64_t source
    int32_t head, left, right  # copies, -1 for no tail


cdef int extend(void** array, Py_ssize_t* size, size_t width) except -1 nogil:
    """Make an array of nodes or edges larger by a half."""
    size[0] += size[0] // 2 + 1024
    if size[0] > INT32_MAX:
        with gil:
            raise OverflowError("refined forests have more nodes or edges than int32 can number")
    if grow(array, size[0], width):
        with gil:
            raise MemoryError
    return 0


cdef int no_forest() except -1 nogil:
    with gil:
        raise ValueError("edges without tails must make tags, others phrases or intermediates")


@cython.final
cdef class _Refinement:
    """The copies of nodes and edges of all hypergraphs, in the order in which they are made."""

    cdef Copy* copies
    cdef Edge* edges
    cdef int32_t* table  # hash table of the copies of the present hypergraph, -1 for empty slots
    cdef Py_ssize_t n, size, n_edges, edges_size, begin, slots, table_size

    def __dealloc__(self):
        free(self.copies); free(self.edges); free(self.table)

    cdef inline Py_ssize_t slot_of(self, int64_t node, int64_t key) noexcept nogil:
        """The slot of a copy, or the empty slot where it belongs."""
        cdef uint64_t mixed = <uint64_t>key * <uint64_t>0x9E3779B97F4A7C15 + <uint64_t>node
        cdef Py_ssize_t slot = <Py_ssize_t>finalize(mixed) & (self.slots - 1)
        cdef const Copy* copy
        while self.table[slot] >= 0:
            copy = &self.copies[self.table[slot]]
            if copy.node == node and copy.key == key:
                break
            slot = (slot + 1) & (self.slots - 1)
        return slot

    cdef int resize(self, Py_ssize_t slots) except -1 nogil:
        """Set the size of the table, a power of two, and fill it."""
        cdef Py_ssize_t x
        if slots > self.table_size:
            if grow(<void**>&self.table, slots, 4):
                with gil:
                    raise MemoryError
            self.table_size = slots
        memset(self.table, 0xFF, <size_t>slots * 4)
        self.slots = slots
        for x in range(self.begin, self.n):
            self.table[self.slot_of(self.copies[x].node, self.copies[x].key)] = <int32_t>x
        return 0

    cdef int start(self, Graph* g) except -1 nogil:
        """Begin another hypergraph."""
        cdef Py_ssize_t v, slots = 64
        while slots < 2 * g.n_nodes:
            slots *= 2
        self.begin = self.n
        for v in range(g.n_nodes):
            g.first[v] = -1
        return self.resize(slots)

    cdef inline int32_t copy_node(self, Graph* g, int32_t node, int64_t key) except -1 nogil:
        """Return the copy of a node with this key; make it if it is new."""
        cdef Py_ssize_t slot = self.slot_of(g.first_node + node, key), x = self.n
        if self.table[slot] >= 0:
            return self.table[slot]
        if x >= self.size:
            extend(<void**>&self.copies, &self.size, sizeof(Copy))
        self.copies[x] = Copy(g.first_node + node, key, -1)
        if g.first[node] < 0:
            g.first[node] = <int32_t>x
        else:
            self.copies[g.last[node]].next = <int32_t>x
        g.last[node] = <int32_t>x
        self.table[slot] = <int32_t>x
        self.n += 1
        if 2 * (self.n - self.begin) > self.slots:
            self.resize(2 * self.slots)
        return <int32_t>x

    cdef inline int copy_edge(self, int64_t source, int32_t head, int32_t left,
                              int32_t right) except -1 nogil:
        if self.n_edges >= self.edges_size:
            extend(<void**>&self.edges, &self.edges_size, sizeof(Edge))
        self.edges[self.n_edges] = Edge(source, head, left, right)
        self.n_edges += 1
        return 0


cdef void keep(Graph* g) noexcept nogil:
    """Mark the edges that derivations of the root have."""
    cdef Py_ssize_t v, e
    cdef const int32_t* tail
    for v in range(g.n_nodes):
        g.reached[v] = 0
        for e in range(g.begins[v], g.begins[v + 1]):
            tail = g.tails + 2 * e
            g.kept[e] = (tail[0] < 0 or g.reached[tail[0]]) and (tail[1] < 0 or g.reached[tail[1]])
            g.reached[v] |= g.kept[e]
    for v in range(g.n_nodes):
        g.reached[v] = 0
    g.reached[g.n_nodes - 1] = 1
    for v in range(g.n_nodes - 1, -1, -1):
        for e in range(g.begins[v], g.begins[v + 1]):
            g.kept[e] &= g.reached[v]
            if g.kept[e]:
                tail = g.tails + 2 * e
                if tail[0] >= 0:
                    g.reached[tail[0]] = 1
                if tail[1] >= 0:
                    g.reached[tail[1]] = 1


cdef int from_below(Graph* g, _Refinement c, int32_t n_tags) except -1 nogil:
    """Split nodes by the first and the last tag below them; the root has one copy, of key 0."""
    cdef Py_ssize_t v, e
    cdef int32_t left, right, copy
    cdef int64_t key
    cdef const int32_t* tail
    cdef bint root
    for v in range(g.n_nodes):
        root = v == g.n_nodes - 1
        if root:
            # It stays, even if it has no derivation.
            copy = c.copy_node(g, <int32_t>v, 0)
        for e in range(g.begins[v], g.begins[v + 1]):
            if not g.kept[e]:
                continue
            tail = g.tails + 2 * e
            if tail[0] < 0:
                if not 0 <= g.symbol[v] < n_tags:
                    no_forest()
                key = <int64_t>g.symbol[v] << BITS | g.symbol[v]
                copy = c.copy_node(g, <int32_t>v, key)
                c.copy_edge(g.first_edge + e, copy, -1, -1)
                continue
            left = g.first[tail[0]]
            while left >= 0:
                right = g.first[tail[1]] if tail[1] >= 0 else -1
                while True:
                    key = c.copies[left].key
                    if right >= 0:
                        key = key & ~<int64_t>MASK | c.copies[right].key & MASK
                    if not root:
                        copy = c.copy_node(g, <int32_t>v, key)
                    c.copy_edge(g.first_edge + e, copy, left, right)
                    if right >= 0:
                        right = c.copies[right].next
                    if right < 0:
                        break
                left = c.copies[left].next
    return 0


cdef int from_above(Graph* g, _Refinement c, const int32_t* above, int32_t first_inner,
                    int place) except -1 nogil:
    """Split nodes by parent and sibling."""
    cdef Py_ssize_t v, e
    cdef int32_t head, phrase, symbol, other
    cdef int32_t[2] below
    cdef int64_t key
    cdef int t
    cdef const int32_t* tail
    cdef bint root, same
    c.copy_node(g, <int32_t>(g.n_nodes - 1), 0)
    for v in range(g.n_nodes - 1, -1, -1):
        head = g.first[v]
        root = v == g.n_nodes - 1
        phrase = above[g.symbol[v]] if g.symbol[v] >= 0 else 0
        while head >= 0:
            for e in range(g.begins[v], g.begins[v + 1]):
                if not g.kept[e]:
                    continue
                tail = g.tails + 2 * e
                same = root or (g.made[e] < 0 and tail[1] < 0)
                if not same and tail[0] >= 0 and phrase <= 0:
                    no_forest()
                below[0] = below[1] = -1
                for t in range(2):
                    if tail[t] < 0:
                        break
                    symbol = g.symbol[tail[t]]
                    key = c.copies[head].key
                    if not same and symbol < first_inner:
                        # The child begins a phrase or is a tag.
                        key = <int64_t>phrase << BITS
                    elif not same:
                        other = tail[1 - t]
                        key &= ~<int64_t>MASK
                        if t == place and other >= 0:
                            key |= 1 + g.symbol[other]
                    below[t] = c.copy_node(g, tail[t], key)
                c.copy_edge(g.first_edge + e, head, below[0], below[1])
            head = c.copies[head].next
    return 0


def refine(
    const int64_t[::1] node_offsets, const int64_t[::1] edge_offsets, const int32_t[::1] begins,
    const int32_t[:, ::1] tails, const int32_t[::1] made, const int32_t[::1] symbol,
    int n_tags=0, const int32_t[::1] above=None, int first_inner=0, int place=0,
):
    """Split nodes by parent and sibling or, without `above`, by the tags at their ends.

    The first five arrays are those of `Hypergraphs`; n_tags as in `annotation`.
    symbol: int32 (nodes), the symbol of the item of each node, -1 for none.
    above: int32 (symbols), 1 + the phrase of each symbol, 0 for tags.
    first_inner: the first intermediate symbol.
    place: 0 or 1, the tail of a binary edge that continues the phrase of its head.

    Returns node_offsets, edge_offsets, begins and tails of the refined hypergraphs, the source of
    each edge, int64 (edges), the source of each node, int64 (nodes), and its state, int32
    (nodes, 2). The state of a root is 0.
    Raises ValueError for arrays that are not forests, OverflowError for more than int32 nodes or
    edges.
    """
    cdef Py_ssize_t n = node_offsets.shape[0] - 1, x, e, v, to, rank
    cdef int32_t copy
    cdef const Edge* edge
    cdef bint down = above is not None
    cdef Graph g
    cdef _Refinement c = _Refinement()
    check_structure(node_offsets, edge_offsets, begins, tails)
    if made.shape[0] != tails.shape[0] or symbol.shape[0] != begins.shape[0] - n:
        raise ValueError("there must be an item for each edge, and a symbol for each node")
    if np.min(symbol, initial=-1) < -1 or n_tags > MASK or (down and (
            above.shape[0] > MASK or np.max(symbol, initial=-1) >= above.shape[0]
            or np.min(above, initial=0) < 0 or np.max(above, initial=0) > MASK)):
        raise ValueError("there are other symbols than those given, or too many")
    cdef uint8_t[::1] kept = np.empty(made.shape[0] + 1, dtype=np.uint8)
    cdef uint8_t[::1] reached = np.empty(symbol.shape[0] + 1, dtype=np.uint8)
    cdef int32_t[:, ::1] ends = np.empty((2, symbol.shape[0] + 1), dtype=np.int32)
    new_nodes, new_edges = np.zeros((2, n + 1), dtype=np.int64)
    cdef int64_t[::1] node_ends = new_nodes, edge_ends = new_edges
    with nogil:
        for x in range(n):
            v, e = node_offsets[x], edge_offsets[x]
            g.n_nodes, g.first_node, g.first_edge = node_offsets[x + 1] - v, v, e
            g.begins, g.symbol = &begins[0] + v + x, &symbol[0] + v
            g.tails, g.made = &tails[0, 0] + 2 * e, &made[0] + e
            g.kept, g.reached, g.first, g.last = &kept[e], &reached[v], &ends[0, v], &ends[1, v]
            keep(&g)
            c.start(&g)
            if down:
                from_above(&g, c, &above[0], first_inner, place)
            else:
                from_below(&g, c, n_tags)
            node_ends[x + 1], edge_ends[x + 1] = c.n, c.n_edges
    # Sort the copies by their nodes and the edges by their heads.
    new_begins = np.zeros(c.n + n, dtype=np.int32)
    new_tails, sources = np.empty((c.n_edges, 2), dtype=np.int32), np.empty(c.n_edges, dtype=np.int64)
    nodes, states = np.empty(c.n, dtype=np.int64), np.empty((c.n, 2), dtype=np.int32)
    cdef int32_t[::1] begin = new_begins, ranks = np.empty(c.n + 1, dtype=np.int32)
    cdef int32_t[::1] places = np.zeros(c.n + 1, dtype=np.int32)  # of the next edge of each node
    cdef int32_t[:, ::1] tail = new_tails, state = states
    cdef int64_t[::1] source = sources, node = nodes
    with nogil:
        for x in range(n):
            rank = node_ends[x]
            for v in range(node_offsets[x], node_offsets[x + 1]):
                copy = ends[0, v]
                while copy >= 0:
                    ranks[copy] = <int32_t>rank
                    node[rank] = v
                    state[rank, 0] = <int32_t>(c.copies[copy].key >> BITS)
                    state[rank, 1] = <int32_t>(c.copies[copy].key & MASK)
                    rank += 1
                    copy = c.copies[copy].next
            for e in range(edge_ends[x], edge_ends[x + 1]):
                places[ranks[c.edges[e].head]] += 1
            for rank in range(node_ends[x], node_ends[x + 1]):
                begin[rank + x + 1] = begin[rank + x] + places[rank]
                places[rank] = begin[rank + x]
            for e in range(edge_ends[x], edge_ends[x + 1]):
                edge = &c.edges[e]
                to = edge_ends[x] + places[ranks[edge.head]]
                places[ranks[edge.head]] += 1
                source[to] = edge.source
                tail[to, 0] = tail[to, 1] = -1
                if edge.left >= 0:
                    tail[to, 0] = <int32_t>(ranks[edge.left] - node_ends[x])
                if edge.right >= 0:
                    tail[to, 1] = <int32_t>(ranks[edge.right] - node_ends[x])
    return new_nodes, new_edges, new_begins, new_tails, sources, nodes, states
