from libc.stdint cimport int32_t

from spacy_structlearn.grammar.chart.passes._structures cimport Coarse, Factors, Work


cdef int reserve_lists(Work* w, const Coarse* g, int n) noexcept nogil
cdef int reserve_chart(Work* w, const Coarse* g, int n) noexcept nogil
cdef int inside_coarse(
    const Coarse* g, Work* w, int n, const float* lexicon, int stride
) noexcept nogil
cdef float sentence_score_coarse(const Coarse* g, Work* w, int n) noexcept nogil
cdef void outside_coarse(const Coarse* g, Work* w, int n) noexcept nogil
cdef int build_forest(
    const Coarse* g, Work* w, int n, float z, float keep, float keep_edge, const int32_t* gold
) noexcept nogil
cdef int reserve_factored(Work* w, const Coarse* c, const Factors* g, int n) noexcept nogil
cdef float inside_factored(
    const Coarse* c, const Factors* g, Work* w, int n, const float* lexicon, int stride
) noexcept nogil
cdef int outside_factored(
    const Coarse* c, const Factors* g, Work* w, int n, float z, float keep
) noexcept nogil
cdef int list_forest(
    const Coarse* c, const Factors* g, Work* w, int n, float z, float keep_edge
) noexcept nogil
