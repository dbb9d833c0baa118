"""Products of short vectors and matrices of floats, and powers of two; see `vectors.h`."""

from libc.stdint cimport int32_t, int64_t, uint64_t


cdef extern from "vectors.h" nogil:
    float power_of_two(int e) noexcept
    int exponent_of(float x) noexcept
    unsigned int flush_subnormals() noexcept
    void restore_subnormals(unsigned int before) noexcept
    float dot(const float* p, const float* x, int n) noexcept
    void add_matvec(float* out, const float* p, const float* x, int rows, int n, float
        scale) noexcept
    void vecmat(float* out, const float* p, const float* w, int rows, int n) noexcept
    void add_outer(float* out, const float* b, const float* c, int nb, int nc, float scale) noexcept
    float push_edge(const float* w, const float* b, const float* c, int nb, int nc, float g,
        float* ob, float* oc) noexcept
    void outer_sums(float* m, int ldm, const float* left, int ldl, const float* right, int ldr,
        const float* f, int nk, int nl, int nr) noexcept
    void add_products(float* out, int ldo, const float* a, int lda, const float* b, int ldb,
        const float* g, int nk, int nd, int nc) noexcept
    void matmul(float* out, int ldo, const float* a, int lda, const float* b, int ldb, int nk, int nd,
        int nc) noexcept
    void sum_products(float* out, const float* a, const float* b, const int64_t* places_a,
        const int64_t* places_b, const float* f, int nk, int n) noexcept
    void scale_row(float* x, float scale, float least, int n) noexcept
    void clear_unbounded(float* x, const float* by, float least, int n) noexcept
    float largest_of(const float* x, int n) noexcept
    void times(float* out, const float* a, const float* b, float scale, int n) noexcept
    void mix(float* out, const float* p, const float* q, float a, float b, int n) noexcept
    int select_rows(const float* x, int rows, int n, const float* w, float limit, int32_t first,
        int32_t* chosen) noexcept
    void add_counts(float* counts, const float* p, const float* o, const float* m, float scale,
        int rows, int n) noexcept
    void norm_of_sum(float* out, const float** rows, const float* gain, const float* offset,
        float epsilon, int n) noexcept
