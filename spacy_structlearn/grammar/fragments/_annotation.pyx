# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of refined forests: a copy of each node for each state that it can have.

A state says what a feature of a larger fragment of a tree asks for: what stands at the edges of the
span below a node, as in bottom-up finite tree automata, or what stands above it, as the annotations
of Johnson (1998). Edges are copied with their heads (top down) or for each choice of copies of
their tails (bottom up). This is the intersection of a hypergraph with a deterministic automaton, so
that derivations correspond one to one. Hypergraphs are as in `_hypergraph`. Up to three numbers
make a state, packed into one key.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

import numpy as np

from spacy_structlearn.kernels.arrays cimport grow

cdef enum:
    BITS = 20  # of each of the numbers in a key
    MASK = (1 << 20) - 1
    DONE = 0
    OUT_OF_MEMORY = 1
    TOO_LARGE = 2
    NO_FOREST = 3


# One hypergraph: what is left of it, and the place of each node's first and last copy.
cdef struct Graph:
    const int32_t* begins
    const int32_t* tails
    const int32_t* made
    const int32_t* symbol
    uint8_t* kept  # by edge
    uint8_t* reached  # by node
    int32_t* first
    int32_t* last
    Py_ssize_t n_nodes


cdef struct Copies:
    # Of nodes, as they are found; table: their places, by hash, -1 for none.
    int32_t* node
    int64_t* key
    int32_t* next  # of the same node, -1 for none
    int32_t* rank  # among all, of nodes in order
    int32_t* table
    Py_ssize_t n, size, slots, table_size
    int shift
    # Of edges, as they are found; copies of their heads and tails.
    int32_t* head
    int32_t* tails
    int32_t* source
    Py_ssize_t n_edges, edges_size


cdef struct Packed:
    # What is found of all hypergraphs.
    int32_t* begins
    int64_t* nodes
    int64_t* keys
    int32_t* tails
    int64_t* edges
    Py_ssize_t n_begins, n_nodes, n_edges, nodes_size, edges_size


cdef class AnnotationRoom:
    """Memory of one call."""

    cdef Copies copies
    cdef Packed packed

    def __cinit__(self):
        memset(&self.copies, 0, sizeof(Copies))
        memset(&self.packed, 0, sizeof(Packed))

    def __dealloc__(self):
        cdef Copies* c = &self.copies
        cdef Packed* p = &self.packed
        free(c.node); free(c.key); free(c.next); free(c.rank); free(c.table)
        free(c.head); free(c.tails); free(c.source)
        free(p.begins); free(p.nodes); free(p.keys); free(p.tails); free(p.edges)


cdef int reserve_nodes(Copies* c) noexcept nogil:
    cdef Py_ssize_t n = c.size + c.size // 2 + 1024
    if n > INT32_MAX:
        return TOO_LARGE
    if (grow(<void**>&c.node, n, 4) or grow(<void**>&c.key, n, 8) or grow(<void**>&c.next, n, 4)
            or grow(<void**>&c.rank, n, 4)):
        return OUT_OF_MEMORY
    c.size = n
    return DONE


cdef int reserve_edges(Copies* c) noexcept nogil:
    cdef Py_ssize_t n = c.edges_size + c.edges_size // 2 + 1024
    if n > INT32_MAX:
        return TOO_LARGE
    if (grow(<void**>&c.head, n, 4) or grow(<void**>&c.tails, 2 * n, 4)
            or grow(<void**>&c.source, n, 4)):
        return OUT_OF_MEMORY
    c.edges_size = n
    return DONE


cdef int reserve_packed(Packed* p, Py_ssize_t nodes, Py_ssize_t edges) noexcept nogil:
    """Make room for more nodes and edges. Nodes are counted with one more for the end."""
    nodes += p.n_begins
    edges += p.n_edges
    if nodes > p.nodes_size:
        nodes += nodes // 2 + 256
        if (grow(<void**>&p.begins, nodes, 4) or grow(<void**>&p.nodes, nodes, 8)
                or grow(<void**>&p.keys, nodes, 8)):
            return OUT_OF_MEMORY
        p.nodes_size = nodes
    if edges > p.edges_size:
        edges += edges // 2 + 1024
        if grow(<void**>&p.tails, 2 * edges, 4) or grow(<void**>&p.edges, edges, 8):
            return OUT_OF_MEMORY
        p.edges_size = edges
    return DONE


# --- copies of nodes and edges -------------------------------------------------------------------
cdef inline Py_ssize_t slot_of(const Copies* c, int32_t node, int64_t key) noexcept nogil:
    """Where a copy stands in the table, or the free place where it is to stand."""
    cdef uint64_t mixed = <uint64_t>key * <uint64_t>0x9E3779B97F4A7C15 + <uint64_t>node
    cdef Py_ssize_t slot
    mixed = (mixed ^ (mixed >> 32)) * <uint64_t>0xBF58476D1CE4E5B9
    slot = <Py_ssize_t>(mixed >> c.shift)
    while c.table[slot] >= 0 and (c.node[c.table[slot]] != node or c.key[c.table[slot]] != key):
        slot = (slot + 1) & (c.slots - 1)
    return slot


cdef int resize(Copies* c, Py_ssize_t slots) noexcept nogil:
    """Make the table of this size, a power of two, for the copies that there are."""
    cdef Py_ssize_t x
    if slots > c.table_size:
        if grow(<void**>&c.table, slots, 4):
            return OUT_OF_MEMORY
        c.table_size = slots
    memset(c.table, 0xFF, <size_t>slots * 4)
    c.slots = slots
    c.shift = 64
    while slots > 1:
        slots >>= 1
        c.shift -= 1
    for x in range(c.n):
        c.table[slot_of(c, c.node[x], c.key[x])] = <int32_t>x
    return DONE


cdef int clear(Graph* g, Copies* c) noexcept nogil:
    """No copies, but a table of about the size that is needed."""
    cdef Py_ssize_t v, slots = 64
    while slots < 2 * g.n_nodes:
        slots *= 2
    c.n = c.n_edges = 0
    for v in range(g.n_nodes):
        g.first[v] = -1
    return resize(c, slots)


cdef inline int copy_node(Graph* g, Copies* c, int32_t node, int64_t key,
                          int32_t* copy) noexcept nogil:
    """Find the copy of a node with this key, or make it."""
    cdef Py_ssize_t slot = slot_of(c, node, key), x = c.n
    cdef int status
    if c.table[slot] >= 0:
        copy[0] = c.table[slot]
        return DONE
    if x >= c.size:
        status = reserve_nodes(c)
        if status:
            return status
    c.node[x] = node
    c.key[x] = key
    c.next[x] = -1
    if g.first[node] < 0:
        g.first[node] = <int32_t>x
    else:
        c.next[g.last[node]] = <int32_t>x
    g.last[node] = <int32_t>x
    c.table[slot] = copy[0] = <int32_t>x
    c.n += 1
    if 2 * c.n > c.slots:
        return resize(c, 2 * c.slots)
    return DONE


cdef inline int copy_edge(Copies* c, int32_t head, int32_t left, int32_t right,
                          int32_t source) noexcept nogil:
    cdef int status
    if c.n_edges >= c.edges_size:
        status = reserve_edges(c)
        if status:
            return status
    c.head[c.n_edges] = head
    c.tails[2 * c.n_edges] = left
    c.tails[2 * c.n_edges + 1] = right
    c.source[c.n_edges] = source
    c.n_edges += 1
    return DONE


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


cdef int pack(Graph* g, Copies* c, Packed* p, int64_t first_node,
              int64_t first_edge) noexcept nogil:
    """Append the copies in the order of their nodes, edges in that of their heads.

    first_node, first_edge: of the source, among all.
    """
    cdef Py_ssize_t v, x, e, place
    cdef int32_t copy, tail
    cdef int32_t* begins
    if reserve_packed(p, c.n + 2, c.n_edges):
        return OUT_OF_MEMORY
    x = 0
    for v in range(g.n_nodes):
        copy = g.first[v]
        while copy >= 0:
            c.rank[copy] = <int32_t>x
            p.nodes[p.n_nodes + x] = first_node + v
            p.keys[p.n_nodes + x] = c.key[copy]
            x += 1
            copy = c.next[copy]
    # Numbers of edges two places behind their heads; summed up, each head's next place one behind.
    begins = p.begins + p.n_begins
    memset(begins, 0, <size_t>(x + 2) * 4)
    for e in range(c.n_edges):
        begins[c.rank[c.head[e]] + 2] += 1
    for v in range(x):
        begins[v + 2] += begins[v + 1]
    for e in range(c.n_edges):
        v = c.rank[c.head[e]] + 1
        place = p.n_edges + begins[v]
        begins[v] += 1
        p.edges[place] = first_edge + c.source[e]
        tail = c.tails[2 * e]
        p.tails[2 * place] = c.rank[tail] if tail >= 0 else -1
        tail = c.tails[2 * e + 1]
        p.tails[2 * place + 1] = c.rank[tail] if tail >= 0 else -1
    p.n_begins += x + 1
    p.n_nodes += x
    p.n_edges += c.n_edges
    return DONE


# --- states --------------------------------------------------------------------------------------
cdef int from_below(Graph* g, Copies* c, int32_t n_tags) noexcept nogil:
    """States are the first and the last tag below a node; the root has one copy, of key 0."""
    cdef Py_ssize_t v, e
    cdef int32_t left, right, copy
    cdef int64_t key
    cdef int status
    cdef const int32_t* tail
    cdef bint root
    for v in range(g.n_nodes):
        root = v == g.n_nodes - 1
        if root:
            # It stays, even if nothing makes it.
            status = copy_node(g, c, <int32_t>v, 0, &copy)
            if status:
                return status
        for e in range(g.begins[v], g.begins[v + 1]):
            if not g.kept[e]:
                continue
            tail = g.tails + 2 * e
            if tail[0] < 0:
                if not 0 <= g.symbol[v] < n_tags:
                    return NO_FOREST
                key = <int64_t>g.symbol[v] << BITS | g.symbol[v]
                status = (copy_node(g, c, <int32_t>v, key, &copy)
                          or copy_edge(c, copy, -1, -1, <int32_t>e))
                if status:
                    return status
                continue
            left = g.first[tail[0]]
            while left >= 0:
                right = g.first[tail[1]] if tail[1] >= 0 else -1
                while True:
                    key = c.key[left]
                    if right >= 0:
                        key = key & ~<int64_t>MASK | c.key[right] & MASK
                    if not root:
                        status = copy_node(g, c, <int32_t>v, key, &copy)
                        if status:
                            return status
                    status = copy_edge(c, copy, left, right, <int32_t>e)
                    if status:
                        return status
                    if right >= 0:
                        right = c.next[right]
                    if right < 0:
                        break
                left = c.next[left]
    return DONE


cdef inline int64_t key_below(int64_t key, int32_t above, int depth) noexcept nogil:
    """The key of a child that begins a phrase or is a tag, under the phrase `above`."""
    cdef int64_t parent = key >> 2 * BITS, below = 0
    if depth >= 1:
        below = <int64_t>above << 2 * BITS
    if depth >= 2:
        below |= parent << BITS
    return below


cdef int from_above(Graph* g, Copies* c, const int32_t* above, int32_t first_inner, int place,
                    int depth, bint sibling) noexcept nogil:
    """States are parent, grandparent and sibling; see `annotation.with_ancestors`.

    above: 1 + the phrase of each symbol, 0 for tags. first_inner: the first intermediate symbol.
    place: the tail of a binary edge, 0 or 1, that goes on with the phrase of its head.
    """
    cdef Py_ssize_t v, e
    cdef int32_t head, phrase, symbol, other
    cdef int32_t[2] below
    cdef int64_t key, own
    cdef int status, t
    cdef const int32_t* tail
    cdef bint root, same
    status = copy_node(g, c, <int32_t>(g.n_nodes - 1), 0, &head)
    if status:
        return status
    for v in range(g.n_nodes - 1, -1, -1):
        head = g.first[v]
        root = v == g.n_nodes - 1
        phrase = above[g.symbol[v]] if g.symbol[v] >= 0 else 0
        while head >= 0:
            own = c.key[head]
            for e in range(g.begins[v], g.begins[v + 1]):
                if not g.kept[e]:
                    continue
                tail = g.tails + 2 * e
                same = root or (g.made[e] < 0 and tail[1] < 0)
                if not same and tail[0] >= 0 and phrase <= 0:
                    return NO_FOREST
                below[0] = below[1] = -1
                for t in range(2):
                    if tail[t] < 0:
                        break
                    symbol = g.symbol[tail[t]]
                    if same:
                        key = own
                    elif symbol >= first_inner:
                        key = own & ~<int64_t>MASK
                        other = tail[1 - t]
                        if sibling and t == place and other >= 0:
                            key |= 1 + g.symbol[other]
                    else:
                        key = key_below(own, phrase, depth)
                    status = copy_node(g, c, tail[t], key, &below[t])
                    if status:
                        return status
                status = copy_edge(c, head, below[0], below[1], <int32_t>e)
                if status:
                    return status
            head = c.next[head]
    return DONE


# --- calls ---------------------------------------------------------------------------------------
def from_edges(
    const int64_t[::1] node_offsets, const int64_t[::1] edge_offsets, const int32_t[::1] begins,
    const int32_t[:, ::1] tails, const int32_t[::1] made, const int32_t[::1] symbol, int n_tags,
):
    """Hypergraphs with a copy of each node for each pair of a first and a last tag below it.

    The arrays are those of `Hypergraphs`; symbol: int32 (nodes), of the item of each node, -1 for
    none. RETURNS: node_offsets, edge_offsets, begins and tails of the refined ones, int64 (edges)
    the source of each edge, int64 (nodes) that of each node, and int64 (nodes, 2) its state; that
    of a root is (0, 0). Raises ValueError for what is no forest, OverflowError if the nodes or the
    edges of one are too many for int32.
    """
    return _refine(node_offsets, edge_offsets, begins, tails, made, symbol, n_tags,
                   None, 0, 0, 0, False)


def from_ancestors(
    const int64_t[::1] node_offsets, const int64_t[::1] edge_offsets, const int32_t[::1] begins,
    const int32_t[:, ::1] tails, const int32_t[::1] made, const int32_t[::1] symbol,
    const int32_t[::1] above, int first_inner, int place, int depth, bint sibling,
):
    """Hypergraphs with a copy of each node for each parent, grandparent and sibling it can have.

    As `from_edges`, with int64 (nodes, 3) states. above: int32 (symbols), 1 + the phrase of each, 0
    for tags. first_inner: the first intermediate symbol. place: 0 or 1, which tail of a binary edge
    goes on with the phrase of its head. depth: 0 to 2. sibling: whether siblings are asked for.
    """
    return _refine(node_offsets, edge_offsets, begins, tails, made, symbol, 0, above, first_inner,
                   place, depth, sibling)


cdef _refine(
    const int64_t[::1] node_offsets, const int64_t[::1] edge_offsets, const int32_t[::1] begins,
    const int32_t[:, ::1] tails, const int32_t[::1] made, const int32_t[::1] symbol, int n_tags,
    const int32_t[::1] above, int first_inner, int place, int depth, bint sibling,
):
    cdef Py_ssize_t n = node_offsets.shape[0] - 1, x, e, v
    cdef Py_ssize_t nodes = 1, edges = 1
    cdef int status = DONE
    cdef bint down = above is not None
    cdef Graph g
    cdef AnnotationRoom room = AnnotationRoom()
    _check(node_offsets, edge_offsets, begins, tails, made, symbol)
    if np.min(symbol, initial=-1) < -1 or n_tags > MASK or (down and (
            above.shape[0] > MASK or np.max(symbol, initial=-1) >= above.shape[0]
            or np.min(above, initial=0) < 0 or np.max(above, initial=0) > MASK)):
        raise ValueError("there are other symbols than those given, or too many")
    for x in range(n):
        nodes = max(nodes, node_offsets[x + 1] - node_offsets[x])
        edges = max(edges, edge_offsets[x + 1] - edge_offsets[x])
    new_nodes, new_edges = np.zeros((2, n + 1), dtype=np.int64)
    cdef int64_t[::1] node_ends = new_nodes, edge_ends = new_edges
    cdef uint8_t[::1] kept = np.empty(edges, dtype=np.uint8)
    cdef uint8_t[::1] reached = np.empty(nodes, dtype=np.uint8)
    cdef int32_t[:, ::1] ends = np.empty((2, nodes), dtype=np.int32)
    g.kept, g.reached, g.first, g.last = &kept[0], &reached[0], &ends[0, 0], &ends[1, 0]
    with nogil:
        for x in range(n):
            v, e = node_offsets[x], edge_offsets[x]
            g.n_nodes = node_offsets[x + 1] - v
            g.begins, g.symbol = &begins[0] + v + x, &symbol[0] + v
            g.tails, g.made = &tails[0, 0] + 2 * e, &made[0] + e
            keep(&g)
            status = clear(&g, &room.copies)
            if status == DONE:
                if down:
                    status = from_above(&g, &room.copies, &above[0], first_inner, place, depth,
                                        sibling)
                else:
                    status = from_below(&g, &room.copies, n_tags)
            if status == DONE:
                status = pack(&g, &room.copies, &room.packed, v, e)
            if status:
                break
            node_ends[x + 1] = room.packed.n_nodes
            edge_ends[x + 1] = room.packed.n_edges
    if status == OUT_OF_MEMORY:
        raise MemoryError
    if status == TOO_LARGE:
        raise OverflowError("a refined forest has more nodes or edges than int32 can number")
    if status == NO_FOREST:
        raise ValueError("edges without tails must make tags, others phrases or intermediates")
    return (new_nodes, new_edges, *_arrays(room, 3 if down else 2))


cdef _arrays(AnnotationRoom room, int width):
    """What is packed: begins, tails, sources of edges and of nodes, and states."""
    cdef Packed* p = &room.packed
    begins = np.empty(p.n_begins, dtype=np.int32)
    tails = np.empty((p.n_edges, 2), dtype=np.int32)
    edges = np.empty(p.n_edges, dtype=np.int64)
    nodes = np.empty(p.n_nodes, dtype=np.int64)
    states = np.empty((p.n_nodes, width), dtype=np.int32)
    cdef int32_t[::1] single = begins
    cdef int32_t[:, ::1] several = tails
    cdef int64_t[::1] wide = edges
    cdef Py_ssize_t v
    cdef int t
    if p.n_begins:
        memcpy(&single[0], p.begins, p.n_begins * 4)
    if p.n_edges:
        memcpy(&several[0, 0], p.tails, p.n_edges * 8)
        memcpy(&wide[0], p.edges, p.n_edges * 8)
    wide, several = nodes, states
    for v in range(p.n_nodes):
        wide[v] = p.nodes[v]
        for t in range(width):
            several[v, t] = <int32_t>(p.keys[v] >> (BITS * (width - 1 - t)) & MASK)
    return begins, tails, edges, nodes, states


cdef int _check(
    const int64_t[::1] node_offsets, const int64_t[::1] edge_offsets, const int32_t[::1] begins,
    const int32_t[:, ::1] tails, const int32_t[::1] made, const int32_t[::1] symbol,
) except -1:
    """ValueError where an array would be left."""
    cdef Py_ssize_t n = node_offsets.shape[0] - 1, n_edges = made.shape[0], x, v, e, nodes
    cdef const int32_t* begin
    cdef const int32_t* tail
    cdef bint sound
    sound = (n >= 0 and edge_offsets.shape[0] == n + 1 and tails.shape[0] == n_edges
             and tails.shape[1] == 2 and symbol.shape[0] == begins.shape[0] - n)
    sound = sound and node_offsets[0] == 0 and edge_offsets[0] == 0
    sound = sound and node_offsets[n] == symbol.shape[0] and edge_offsets[n] == n_edges
    if sound:
        for x in range(n):
            sound = (sound and node_offsets[x] < node_offsets[x + 1] <= node_offsets[n]
                     and edge_offsets[x] <= edge_offsets[x + 1])
    if not sound:
        raise ValueError("offsets must ascend from 0 to the number of nodes and of edges")
    with nogil:
        for x in range(n):
            nodes = node_offsets[x + 1] - node_offsets[x]
            begin = &begins[0] + node_offsets[x] + x
            tail = &tails[0, 0] + 2 * edge_offsets[x]
            if begin[0] != 0 or begin[nodes] != edge_offsets[x + 1] - edge_offsets[x]:
                sound = False
            for v in range(nodes):
                if begin[v] > begin[v + 1]:
                    sound = False
            if not sound:
                break
            for v in range(nodes):
                for e in range(begin[v], begin[v + 1]):
                    if not (-1 <= tail[2 * e] < v and -1 <= tail[2 * e + 1] < v
                            and (tail[2 * e] >= 0 or tail[2 * e + 1] < 0)):
                        sound = False
    if not sound:
        raise ValueError("tails must be nodes before their heads, and the only one the first")
    return 0
