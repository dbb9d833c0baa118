"""Arrays of C that grow."""

from libc.stdlib cimport realloc


cdef inline int grow(void** data, size_t n, size_t item) noexcept nogil:
    """Make room for n items of `item` bytes. Returns -1 if memory is short; `data` stays valid."""
    cdef void* fresh = realloc(data[0], n * item if n * item > 0 else 1)
    if fresh == NULL:
        return -1
    data[0] = fresh
    return 0
