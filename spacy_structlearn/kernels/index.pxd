# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""From 64-bit keys to their places; see `index.pyx`."""

cimport cython
from libc.stdint cimport int32_t, uint64_t


@cython.final
cdef class KeyIndex:
    cdef object original
    cdef const uint64_t[::1] known  # ascending
    cdef const int32_t[::1] order  # the place of each of them in the original keys
    cdef int32_t[::1] buckets
    cdef int shift
    cdef uint64_t mask  # the bits that are compared
    cdef bint is_sorted

    cdef inline int32_t place(self, uint64_t key) noexcept nogil:
        """The place of a key, or -1."""
        cdef int32_t row = self.row(key, self.buckets[key >> self.shift])
        return row if row < 0 or self.is_sorted else self.order[row]

    cdef inline int32_t row(self, uint64_t key, int32_t low) noexcept nogil:
        """The place of a key among the ascending keys, or -1; low: where its bucket begins."""
        cdef Py_ssize_t middle, high = self.buckets[(key >> self.shift) + 1]
        key &= self.mask
        while high - low > 4:  # rare, unless the keys are not hashes
            middle = (low + high) // 2
            if self.known[middle] < key:
                low = <int32_t>(middle + 1)
            else:
                high = middle + 1
        if low + 4 > self.known.shape[0]:
            while low < high and self.known[low] != key:
                low += 1
            return low if low < high else -1
        # Without branches, which could not be predicted: it is one of the next four, or none.
        cdef int32_t found = (self.known[low] == key) + 2 * (self.known[low + 1] == key)
        found += 3 * (self.known[low + 2] == key) + 4 * (self.known[low + 3] == key)
        return low + found - 1 if found else -1
