from spacy_structlearn.grammar.chart._structures cimport Coarse, Factors, Work


cdef int list_forest(
    const Coarse* c, const Factors* g, Work* w, int n, float z, float keep_edge
) noexcept nogil
