"""Hashes of 64 bits."""

from libc.stdint cimport uint64_t


cdef inline uint64_t finalize(uint64_t state) noexcept nogil:
    """The finaliser of splitmix64 (Steele et al. 2014): every bit changes half of the others."""
    state = (state ^ (state >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    state = (state ^ (state >> 27)) * <uint64_t>0x94D049BB133111EB
    return state ^ (state >> 31)


cdef inline uint64_t mix(uint64_t state) noexcept nogil:
    """One step of splitmix64."""
    return finalize(state + <uint64_t>0x9E3779B97F4A7C15)


cdef inline uint64_t extend(uint64_t key, uint64_t symbol) noexcept nogil:
    """The key of a tuple with one more symbol; see `classification.features.tuple_keys`."""
    return finalize(finalize(key + 1) ^ symbol)
