"""A hint to load memory that is needed soon."""

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define PREFETCH(address) __builtin_prefetch(address)
    #else
    #define PREFETCH(address) ((void)0)
    #endif
    """
    void PREFETCH(const void* address) noexcept nogil
