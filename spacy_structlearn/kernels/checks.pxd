"""Checks of the arrays that kernels get; all raise ValueError."""

from libc.stdint cimport int16_t, int32_t, int64_t

ctypedef fused integer:
    int16_t
    int32_t
    int64_t


cdef inline int check(bint sound, str message) except -1:
    if not sound:
        raise ValueError(message)
    return 0


cdef inline int check_shape(
    const double[:, ::1] array, Py_ssize_t n_rows, Py_ssize_t n_columns
) except -1:
    cdef bint sound = array.shape[0] == n_rows and array.shape[1] == n_columns
    return check(sound, "an array has a wrong shape")


cdef inline int check_starts(const integer[::1] starts, Py_ssize_t total) except -1:
    """Refuse offsets that do not ascend from 0 to `total`."""
    cdef Py_ssize_t i, n = starts.shape[0] - 1
    cdef bint sound = n >= 0 and starts[0] == 0 and starts[n] == total
    for i in range(n):
        sound = sound and starts[i] <= starts[i + 1]
    return check(sound, "offsets must ascend from 0 to the number of items")


cdef inline int check_ids(
    const integer[::1] ids, Py_ssize_t low, Py_ssize_t end, str message
) except -1:
    """Refuse numbers below `low`, and numbers from `end` on."""
    cdef Py_ssize_t i
    cdef bint sound = True
    for i in range(ids.shape[0]):
        sound &= low <= ids[i] < end
    return check(sound, message)


cdef inline int check_table(
    const int32_t[:, ::1] ids, Py_ssize_t low, Py_ssize_t end, str message
) except -1:
    """Refuse numbers below `low`, and numbers from `end` on."""
    cdef Py_ssize_t i, j
    cdef bint sound = True
    for i in range(ids.shape[0]):
        for j in range(ids.shape[1]):
            sound &= low <= ids[i, j] < end
    return check(sound, message)
