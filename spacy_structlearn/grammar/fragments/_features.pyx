# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Kernel of features that are known by hashes: mixing two hashes, and finding places of keys.

Places are found in a hash table with linear probing (Knuth 1998, algorithm 6.4L), which starts at
the slot of the upper bits of the key. A binary search is more than ten times as slow.
"""

from libc.stdint cimport int32_t, uint64_t

import numpy as np

from spacy_structlearn.kernels.hashing cimport mix


cdef inline uint64_t mixed(uint64_t state, uint64_t value) noexcept nogil:
    return mix(state * <uint64_t>0xD1342543DE82EF95 + value)


def mix_pairs(const uint64_t[::1] keys, const uint64_t[::1] values):
    """Return a hash of each ordered pair, uint64 (n).

    keys, values: uint64 (n).
    Raises ValueError if their lengths differ.
    """
    cdef Py_ssize_t i, n = keys.shape[0]
    if values.shape[0] != n:
        raise ValueError("keys and values are not as many")
    found = np.empty(n, dtype=np.uint64)
    cdef uint64_t[::1] out = found
    with nogil:
        for i in range(n):
            out[i] = mixed(keys[i], values[i])
    return found


cdef class FragmentTable:
    """Finds the places of keys.

    keys: uint64 (n), distinct.
    Raises ValueError for duplicates.
    """

    cdef uint64_t[::1] slots
    cdef int32_t[::1] places
    cdef int shift

    def __init__(self, const uint64_t[::1] keys):
        cdef Py_ssize_t i, slot, n = keys.shape[0]
        cdef int bits = 3
        while (<Py_ssize_t>1 << bits) < 2 * n:
            bits += 1
        self.shift = 64 - bits
        self.slots = np.zeros(<Py_ssize_t>1 << bits, dtype=np.uint64)
        self.places = np.full(<Py_ssize_t>1 << bits, -1, dtype=np.int32)
        cdef bint twice = False
        with nogil:
            for i in range(n):
                slot = self.slot(keys[i])
                if self.places[slot] >= 0:
                    twice = True
                    break
                self.slots[slot] = keys[i]
                self.places[slot] = <int32_t>i
        if twice:
            raise ValueError("a key is there twice")

    cdef inline Py_ssize_t slot(self, uint64_t key) noexcept nogil:
        """The slot of a key, or the empty slot where it belongs."""
        cdef Py_ssize_t last = self.slots.shape[0] - 1
        cdef Py_ssize_t slot = <Py_ssize_t>(key >> self.shift)
        while self.places[slot] >= 0 and self.slots[slot] != key:
            slot = (slot + 1) & last
        return slot

    def find(self, const uint64_t[::1] keys):
        """Return the place of each key, int32 (m); -1 for unknown keys."""
        cdef Py_ssize_t i, m = keys.shape[0]
        found = np.empty(m, dtype=np.int32)
        cdef int32_t[::1] out = found
        with nogil:
            for i in range(m):
                out[i] = self.places[self.slot(keys[i])]
        return found
