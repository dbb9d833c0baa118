# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of hypergraphs: inside and outside scores, and best derivations.

Huang & Chiang (2005), section 2; Li & Eisner (2009), figures 2 and 3, in the log domain. A
hypergraph is a list of nodes in topological order, children first; the last node is the root. Node
v has the edges from begins[v] to begins[v + 1]. An edge has up to two tails, which precede v, and a
score, which is added to those of its tails. Several hypergraphs follow each other, and the nodes
and edges of each are numbered from 0.
"""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np

from spacy_structlearn.kernels.checks cimport check


cdef inline double total(const int32_t* tails, double score, const double* below) noexcept nogil:
    """Return the score of an edge plus those of its two tails."""
    if tails[0] >= 0:
        score = score + below[tails[0]]
    if tails[1] >= 0:
        score = score + below[tails[1]]
    return score


cdef double inside(const int32_t* begins, const int32_t* tails, const double* scores,
                   Py_ssize_t n_nodes, double* beta, double* given) noexcept nogil:
    """Compute log of the sum over the derivations of each node (`beta`); return that of the root.

    given: set to the probability of each edge given its head.
    """
    cdef Py_ssize_t v, e
    cdef double best, share
    for v in range(n_nodes):
        best = -INFINITY
        for e in range(begins[v], begins[v + 1]):
            given[e] = total(tails + 2 * e, scores[e], beta)
            if given[e] > best:
                best = given[e]
        if best == -INFINITY:
            beta[v] = best
            for e in range(begins[v], begins[v + 1]):
                given[e] = 0.0
            continue
        share = 0.0
        for e in range(begins[v], begins[v + 1]):
            given[e] = exp(given[e] - best)
            share = share + given[e]
        beta[v] = best + log(share)
        share = 1.0 / share
        for e in range(begins[v], begins[v + 1]):
            given[e] = given[e] * share
    return beta[n_nodes - 1]


cdef void outside(const int32_t* begins, const int32_t* tails, Py_ssize_t n_nodes, double root,
                  double* reach, double* posteriors) noexcept nogil:
    """Turn the probabilities of edges given their heads into posteriors, in place.

    root: the posterior of the last node. reach: workspace for that of each node.
    """
    cdef Py_ssize_t v, e
    for v in range(n_nodes):
        reach[v] = 0.0
    reach[n_nodes - 1] = root
    for v in range(n_nodes - 1, -1, -1):
        for e in range(begins[v], begins[v + 1]):
            posteriors[e] = posteriors[e] * reach[v]
            if tails[2 * e] >= 0:
                reach[tails[2 * e]] += posteriors[e]
            if tails[2 * e + 1] >= 0:
                reach[tails[2 * e + 1]] += posteriors[e]


cdef double viterbi(const int32_t* begins, const int32_t* tails, const double* scores,
                    Py_ssize_t n_nodes, double* best, int32_t* back,
                    uint8_t* mask) noexcept nogil:
    """Mark the edges of the best derivation in `mask`, which is all zeros, and return its score.

    The first of equally good edges is taken. Nothing is marked if the score is -inf.
    """
    cdef Py_ssize_t v, e
    cdef double score
    for v in range(n_nodes):
        best[v] = -INFINITY
        back[v] = -1
        for e in range(begins[v], begins[v + 1]):
            score = total(tails + 2 * e, scores[e], best)
            if score > best[v]:
                best[v] = score
                back[v] = <int32_t>e
    # The edge above a node is visited first, and marks the best edge of the node.
    if back[n_nodes - 1] >= 0:
        mask[back[n_nodes - 1]] = 1
    for v in range(n_nodes - 1, -1, -1):
        e = back[v]
        if e >= 0 and mask[e]:
            if tails[2 * e] >= 0:
                mask[back[tails[2 * e]]] = 1
            if tails[2 * e + 1] >= 0:
                mask[back[tails[2 * e + 1]]] = 1
    return best[n_nodes - 1]


def inside_outside(
    const int64_t[::1] node_offsets, const int64_t[::1] edge_offsets, const int32_t[::1] begins,
    const int32_t[:, ::1] tails, const double[::1] scores,
):
    """Return log Z, float64 (s), and the posteriors of edges, float64 (E): 0 where log Z is -inf.

    node_offsets, edge_offsets: int64 (s + 1). begins: int32 (nodes + s), tails: int32 (E, 2),
    scores: float64 (E), see the module. Raises ValueError for arrays that are not hypergraphs, and
    for scores that are NaN or +inf.
    """
    cdef Py_ssize_t n = node_offsets.shape[0] - 1, x, most, e
    most = _check(node_offsets, edge_offsets, begins, tails, scores)
    cdef double[::1] beta = np.empty(most), z = np.empty(n), posterior = np.empty(scores.shape[0])
    cdef const int32_t* begin
    cdef const int32_t* tail
    with nogil:
        for x in range(n):
            e = edge_offsets[x]
            begin = &begins[node_offsets[x] + x]
            tail = &tails[0, 0] + 2 * e
            z[x] = inside(begin, tail, &scores[0] + e, node_offsets[x + 1] - node_offsets[x],
                          &beta[0], &posterior[0] + e)
            outside(begin, tail, node_offsets[x + 1] - node_offsets[x],
                    0.0 if z[x] == -INFINITY else 1.0, &beta[0], &posterior[0] + e)
    return np.asarray(z), np.asarray(posterior)


def best(
    const int64_t[::1] node_offsets, const int64_t[::1] edge_offsets, const int32_t[::1] begins,
    const int32_t[:, ::1] tails, const double[::1] scores,
):
    """Return the score of the best derivation of each, float64 (s), and its edges, a mask (E).

    For the arguments see `inside_outside`. Where the score is -inf no edge is marked.
    """
    cdef Py_ssize_t n = node_offsets.shape[0] - 1, x, most, e
    most = _check(node_offsets, edge_offsets, begins, tails, scores)
    cdef double[::1] value = np.empty(most), top = np.empty(n)
    cdef int32_t[::1] back = np.empty(most, dtype=np.int32)
    mask = np.zeros(scores.shape[0], dtype=bool)
    cdef uint8_t[::1] marked = mask.view(np.uint8)
    with nogil:
        for x in range(n):
            e = edge_offsets[x]
            top[x] = viterbi(&begins[node_offsets[x] + x], &tails[0, 0] + 2 * e, &scores[0] + e,
                             node_offsets[x + 1] - node_offsets[x], &value[0], &back[0],
                             &marked[0] + e)
    return np.asarray(top), mask


cdef Py_ssize_t _check(node_offsets, edge_offsets, begins, tails, scores) except -1:
    """Return the number of nodes of the largest hypergraph. Raise ValueError for bad arguments."""
    most = check_structure(node_offsets, edge_offsets, begins, tails)
    if len(scores) != len(tails) or not (np.asarray(scores) < INFINITY).all():
        raise ValueError("there must be a score for each edge, a number or -inf")
    return most


def check_structure(
    const int64_t[::1] node_offsets, const int64_t[::1] edge_offsets, const int32_t[::1] begins,
    const int32_t[:, ::1] tails,
):
    """Return the number of nodes of the largest hypergraph. Raise ValueError for bad indices."""
    cdef Py_ssize_t n = node_offsets.shape[0] - 1, n_edges = tails.shape[0], x, v, e, nodes, most = 1
    cdef const int32_t* begin
    cdef const int32_t* tail
    cdef bint sound
    sound = (n >= 0 and edge_offsets.shape[0] == n + 1 and tails.shape[1] == 2
             and node_offsets[0] == 0 and edge_offsets[0] == 0
             and node_offsets[n] == begins.shape[0] - n and edge_offsets[n] == n_edges)
    if sound:
        for x in range(n):
            sound = (sound and node_offsets[x] < node_offsets[x + 1] <= node_offsets[n]
                     and edge_offsets[x] <= edge_offsets[x + 1])
    check(sound, "offsets must ascend from 0 to the number of nodes and of edges")
    with nogil:
        for x in range(n):
            nodes = node_offsets[x + 1] - node_offsets[x]
            most = max(most, nodes)
            begin = &begins[node_offsets[x] + x]
            tail = &tails[0, 0] + 2 * edge_offsets[x]
            n_edges = edge_offsets[x + 1] - edge_offsets[x]
            sound = sound and begin[0] == 0 and begin[nodes] == n_edges
            for v in range(nodes):
                if not (sound and begin[v] <= begin[v + 1] <= n_edges):
                    sound = False
                    break
                for e in range(begin[v], begin[v + 1]):
                    if not (-1 <= tail[2 * e] < v and -1 <= tail[2 * e + 1] < v
                            and (tail[2 * e] >= 0 or tail[2 * e + 1] < 0)):
                        sound = False
    check(sound, "tails must be nodes before their heads, and the only one the first")
    return most
