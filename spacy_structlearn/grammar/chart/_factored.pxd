from spacy_structlearn.grammar.chart._structures cimport Coarse, Factors, Work


cdef int reserve_factored(Work* w, const Coarse* c, const Factors* g, int n) noexcept nogil
cdef float inside_factored(
    const Coarse* c, const Factors* g, Work* w, int n, const float* lexicon, int stride
) noexcept nogil
cdef int outside_factored(
    const Coarse* c, const Factors* g, Work* w, int n, float z, float keep
) noexcept nogil
