from libc.stdint cimport int32_t, uint8_t

from spacy_structlearn.grammar.chart.passes._structures cimport Coarse, Fine, Sums, Work


cdef int lay_out(const Fine* g, Work* w) noexcept nogil
cdef void prune(const Coarse* g, Work* w, float keep, float keep_edge) noexcept nogil
cdef bint has_tree(const Coarse* c, Work* w) noexcept nogil
cdef float inside_fine(
    const Coarse* c, const Fine* g, Work* w, const float* lexicon, int stride, bint best
) noexcept nogil
cdef void outside_fine(
    const Coarse* c, const Fine* g, Work* w, float z, const Sums* sums
) noexcept nogil
cdef void free_work(Work* w) noexcept nogil
cdef int best_derivation(
    const Coarse* c, const Fine* g, Work* w, const float* lexicon, int stride
) noexcept nogil
cdef int pack_forest(const Coarse* c, Work* w) noexcept nogil
cdef void add_scores(const Coarse* c, Work* w) noexcept nogil
cdef int read_tree(
    const Coarse* c, Work* w, const int32_t* items, const int32_t* begins, Py_ssize_t n_nodes,
    Py_ssize_t first, const uint8_t* kept, int32_t* item_of
) noexcept nogil
