from libc.stdint cimport int32_t

from spacy_structlearn.grammar.chart.passes._structures cimport Coarse, Factors, Work


cdef int fill_coarse(
    const Coarse* g, Work* w, int n, const float* lexicon, int stride, float keep, float keep_edge,
    const int32_t* gold
) noexcept nogil
cdef int fill_factored(
    const Coarse* c, const Factors* g, Work* w, int n, const float* lexicon, int stride, float keep,
    float keep_edge
) noexcept nogil
