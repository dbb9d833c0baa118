"""Arrays of C that grow."""

from libc.stdlib cimport free, realloc


cdef inline int grow(void** data, size_t n, size_t item) noexcept nogil:
    """Make room for n items of `item` bytes. Returns -1 if memory is short; `data` stays valid."""
    cdef void* fresh = realloc(data[0], n * item if n * item > 0 else 1)
    if fresh == NULL:
        return -1
    data[0] = fresh
    return 0


cdef inline int grow_each(void** arrays, int count, size_t n, size_t item=4) noexcept nogil:
    """Do this for each of `count` arrays, which are neighbours in their struct."""
    cdef int x
    for x in range(count):
        if grow(arrays + x, n, item):
            return -1
    return 0


cdef inline void free_each(void** first, void** last) noexcept nogil:
    """Free arrays, which are neighbours in their struct."""
    while first <= last:
        free(first[0])
        first += 1


cdef inline int reserve(void** arrays, int count, Py_ssize_t* size, Py_ssize_t n, size_t item=4) noexcept nogil:
    """Make room for n + 1 items in each of `count` arrays, as in `grow_each`.

    size: the present number of items, which is updated. Returns -1 if memory is short.
    """
    if n <= size[0]:
        return 0
    n += n // 2 + 256
    if grow_each(arrays, count, n + 1, item):
        return -1
    size[0] = n
    return 0
