# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of `nodes`: the nodes of trees in pre-order, from brackets."""

from libc.stdint cimport int32_t, int64_t

import numpy as np

from spacy_structlearn.kernels.checks cimport check, check_starts


def build(
    const int64_t[::1] offsets, const int32_t[::1] starts, const int32_t[::1] ends, bint tags
):
    """Number the nodes of trees in pre-order: brackets, and for each word a leaf.

    offsets: (t + 1), the words of each tree. starts, ends: (b), the brackets tree by tree in
        pre-order, in words of all trees; the first one of a tree covers it.
    tags: whether there is a tag above each leaf.

    Returns int32 (8, n) with n = b + words or b + 2 * words, and int32 (t + 1), the first node of
    each tree, or None and the number of a bracket that is out of order or crosses another. The rows
    are: parent (-1 for a root); first node after the subtree; depth (0 for a root); number of
    sisters to the left; number of children; first word; word after the last; origin: the number of
    the bracket, b + the word for a tag, or a leaf without a tag, b + words + the word for other
    leaves.
    Raises ValueError for arrays that do not fit together.
    """
    cdef Py_ssize_t n_trees = offsets.shape[0] - 1, n_brackets = starts.shape[0]
    check(n_trees >= 0 and ends.shape[0] == n_brackets, "arrays must fit together")
    cdef Py_ssize_t n_words = offsets[n_trees]
    check(n_brackets < 2**30 and n_words < 2**29, "there are too many nodes")
    check_starts(offsets, n_words)
    cdef Py_ssize_t n = n_brackets + (1 + tags) * n_words
    found, firsts = np.empty((8, n), dtype=np.int32), np.empty(n_trees + 1, dtype=np.int32)
    cdef int32_t[:, ::1] nodes = found
    cdef int32_t[::1] first = firsts, stack = np.empty(n_brackets + 1, dtype=np.int32)
    cdef int32_t node = 0, bracket = 0, word, depth, parent
    cdef Py_ssize_t tree, bad = -1
    cdef int64_t last
    with nogil:
        for tree in range(n_trees):
            depth, last = 0, offsets[tree + 1]
            first[tree] = node
            for word in range(<int32_t>offsets[tree], <int32_t>last):
                while depth and nodes[6, stack[depth - 1]] <= word:
                    depth -= 1
                    nodes[1, stack[depth]] = node
                while bracket < n_brackets and starts[bracket] == word:
                    parent = stack[depth - 1] if depth else -1
                    if ends[bracket] <= word or ends[bracket] > last or (
                        depth and ends[bracket] > nodes[6, parent]
                    ) or (depth == 0 and node > first[tree]):
                        bad = bracket
                        break
                    add(nodes, node, parent, depth, word, ends[bracket], bracket)
                    stack[depth] = node
                    depth, node, bracket = depth + 1, node + 1, bracket + 1
                if bad >= 0 or (depth == 0 and last > offsets[tree] + 1):
                    break
                parent = stack[depth - 1] if depth else -1  # a tree may be one word
                add(nodes, node, parent, depth, word, word + 1, n_brackets + word)
                nodes[1, node] = node + 1 + tags
                node += 1
                if tags:
                    add(nodes, node, node - 1, depth + 1, word, word + 1, n_brackets + n_words + word)
                    nodes[1, node] = node + 1
                    node += 1
            while depth:
                depth -= 1
                nodes[1, stack[depth]] = node
            if bad < 0 and (
                (bracket < n_brackets and starts[bracket] < last)
                or (last > offsets[tree] and (node == first[tree] or nodes[6, first[tree]] < last))
            ):
                bad = max(min(<Py_ssize_t>bracket, n_brackets - 1), 0)
            if bad >= 0:
                break
    if bad >= 0 or bracket < n_brackets:
        return None, max(bad, 0)
    first[n_trees] = node
    return found, firsts


cdef inline void add(
    int32_t[:, ::1] nodes, int32_t node, int32_t parent, int32_t depth, int32_t start,
    int32_t stop, Py_ssize_t origin
) noexcept nogil:
    nodes[0, node] = parent
    nodes[2, node] = depth
    nodes[3, node] = 0 if parent < 0 else nodes[4, parent]
    nodes[4, node] = 0
    if parent >= 0:
        nodes[4, parent] += 1
    nodes[5, node] = start
    nodes[6, node] = stop
    nodes[7, node] = <int32_t>origin
