# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""64-bit keys: hashes of pairs, their distinct values, and an index.

The keys of an index are hashes themselves, so their upper bits serve as the bucket of a hash table.
"""

from libc.stdint cimport int32_t, uint64_t

import numpy as np

from spacy_structlearn.kernels.hashing cimport mix


cdef class KeyIndex:
    """From keys to their places: ascending keys, in about as many buckets as there are keys.

    keys: uint64 (n), distinct hashes, in any order, n < 2**31. Ascending keys need less memory and
        time.
    key_bits: their upper bits that are compared; the others are zero. There are more of them than
        log2(n).
    Raises ValueError if a key occurs twice.
    """

    def __init__(self, const uint64_t[::1] keys not None, int key_bits=64):
        cdef Py_ssize_t i, n = keys.shape[0]
        cdef int bits = max(1, (n - 1).bit_length())
        if n >= 2**31 - 1:
            raise ValueError("there are too many keys")
        self.original = np.asarray(keys)
        self.known = keys
        self.shift = 64 - bits
        if not 1 <= key_bits <= 64:
            raise ValueError("there is no such number of bits")
        self.mask = ~<uint64_t>0 << (64 - key_bits)
        self.is_sorted = bool((self.original[1:] > self.original[:-1]).all())
        self.buckets = np.zeros((1 << bits) + 1, dtype=np.int32)
        if not self.is_sorted:
            order = np.argsort(self.original)
            ascending = self.original[order]
            if (np.diff(ascending) == 0).any():
                raise ValueError("a key occurs twice")
            self.known, self.order = ascending, order.astype(np.int32)
        with nogil:
            for i in range(n):
                self.buckets[(self.known[i] >> self.shift) + 1] += 1
            for i in range(1, self.buckets.shape[0]):
                self.buckets[i] += self.buckets[i - 1]

    def __reduce__(self):
        return KeyIndex, (self.original, int(self.mask).bit_count())

    def __len__(self):
        return self.known.shape[0]

    def find(self, wanted):
        """Return the place of each wanted key, or -1: int32 of the shape of `wanted`, uint64."""
        wanted = np.ascontiguousarray(wanted, dtype=np.uint64)
        out = np.empty(wanted.shape, dtype=np.int32)
        cdef const uint64_t[::1] keys = wanted.reshape(-1)
        cdef int32_t[::1] places = out.reshape(-1)
        cdef Py_ssize_t i
        with nogil:
            for i in range(keys.shape[0]):
                places[i] = self.place(keys[i])
        return out


def number_keys(const uint64_t[::1] keys):
    """Number the distinct keys from 0 in order of first occurrence.

    keys: uint64 (n), any numbers, n < 2**31.
    Returns int32 (n_distinct), where each distinct key occurs first, and int32 (n), the number of
    each key.
    """
    cdef Py_ssize_t i, n = keys.shape[0]
    cdef int32_t n_distinct = 0
    cdef uint64_t slot, mask = 15
    if n >= 2**31 - 1:
        raise ValueError("there are too many keys")
    while mask < <uint64_t>(2 * n):
        mask = 2 * mask + 1
    firsts, ids = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    cdef int32_t[::1] first = firsts, numbers = ids, slots = np.full(mask + 1, -1, dtype=np.int32)
    with nogil:
        for i in range(n):
            slot = mix(keys[i]) & mask
            while slots[slot] >= 0 and keys[first[slots[slot]]] != keys[i]:
                slot = (slot + 1) & mask
            if slots[slot] < 0:
                slots[slot] = n_distinct
                first[n_distinct] = <int32_t>i
                n_distinct += 1
            numbers[i] = slots[slot]
    return firsts[:n_distinct].copy(), ids


def group(keys):
    """Number the distinct keys in ascending order.

    keys: uint64 (n), n < 2**31.
    Returns uint64 (n_distinct), the distinct keys; int32 (n), the number of each key; int64
    (n_distinct), how often each occurs.
    """
    firsts, ids = number_keys(keys)
    distinct = np.asarray(keys)[firsts]
    order = np.argsort(distinct)
    places = np.empty(len(firsts), dtype=np.int32)
    places[order] = np.arange(len(firsts), dtype=np.int32)
    ids = places[ids]
    return distinct[order], ids, np.bincount(ids, minlength=len(firsts))


def mix_pairs(const uint64_t[::1] keys, const uint64_t[::1] values):
    """Return a hash of each ordered pair of a key and a value, uint64 (n).

    These hashes are part of the format of models and must never change.
    """
    cdef Py_ssize_t i, n = keys.shape[0]
    if values.shape[0] != n:
        raise ValueError("there must be a value for each key")
    hashes = np.empty(n, dtype=np.uint64)
    cdef uint64_t[::1] out = hashes
    with nogil:
        for i in range(n):
            out[i] = mix(keys[i] * <uint64_t>0xD1342543DE82EF95 + values[i])
    return hashes
