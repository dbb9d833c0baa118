from spacy_structlearn.grammar.chart._structures cimport Coarse, Factors, Work


cdef int reserve_lists(Work* w, const Coarse* g, int n) noexcept nogil
cdef void begin_forest(Work* w, int n) noexcept nogil
cdef int list_forest(
    const Coarse* c, const Factors* g, Work* w, int n, float z, float keep_edge
) noexcept nogil
cdef int chain_edge(Work* w, int rule, int left, int right) noexcept nogil
cdef int write_edges(const Coarse* c, Work* w) noexcept nogil
cdef int list_roots(const Coarse* c, Work* w) noexcept nogil
