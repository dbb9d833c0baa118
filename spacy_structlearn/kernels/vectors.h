/* Vector arithmetic of the grammar kernels, float32. It uses eight lanes by the vector extension of
   GCC and Clang, and a single one elsewhere. */

#ifndef STRUCTLEARN_VECTORS_H
#define STRUCTLEARN_VECTORS_H

#include "lanes.h"

#include <math.h>

#if defined(__GNUC__)
#define LANES 8
typedef float lanes_t __attribute__((vector_size(32), aligned(4), may_alias));
#define LOAD(p) (*(const lanes_t *)(p))
#define STORE(p, v) (*(lanes_t *)(p) = (v))
#define SUM(a) (((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7])))
#else
#define LANES 1
typedef float lanes_t;
#define LOAD(p) (*(p))
#define STORE(p, v) (*(p) = (v))
#define SUM(a) (a)
#endif

/* 2**e, for any e: 0 below 2**-126, 2**126 above that. */
static inline float power_of_two(int e)
{
    uint32_t bits;
    float x;
    if (e < -126) return 0.0f;
    if (e > 126) e = 126;
    bits = (uint32_t)(e + 127) << 23;
    memcpy(&x, &bits, 4);
    return x;
}

/* The e with 2**e <= x < 2**(e + 1), for x > 0 and not subnormal. */
static inline int exponent_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return (int)(bits >> 23) - 127;
}

/* Arithmetic with subnormal numbers is a hundred times slower. */
#if defined(__SSE__) || defined(_M_X64)
#include <xmmintrin.h>
static UNUSED unsigned int flush_subnormals(void)
{
    unsigned int before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);
    return before;
}
static UNUSED void restore_subnormals(unsigned int before) { _mm_setcsr(before); }
#else
static UNUSED unsigned int flush_subnormals(void) { return 0; }
static UNUSED void restore_subnormals(unsigned int before) { (void)before; }
#endif

INLINE float dot_inline(const float *p, const float *x, int n)
{
    float sum = 0.0f;
    int k = 0;
    lanes_t a = {0}, b = {0};
    for (; k + 2 * LANES <= n; k += 2 * LANES) {
        a += LOAD(p + k) * LOAD(x + k);
        b += LOAD(p + k + LANES) * LOAD(x + k + LANES);
    }
    for (; k + LANES <= n; k += LANES) a += LOAD(p + k) * LOAD(x + k);
    a += b;
    sum = SUM(a);
    for (; k < n; k++) sum += p[k] * x[k];
    return sum;
}

/* sum_k p[k] x[k] */
MULTIVERSION static UNUSED float dot(const float *p, const float *x, int n)
{
    return dot_inline(p, x, n);
}

/* out[r] += scale * sum_k p[r, k] x[k], p of shape (rows, n) */
MULTIVERSION static UNUSED void add_matvec(float *out, const float *p, const float *x, int rows,
                                           int n, float scale)
{
    int r;
    for (r = 0; r < rows; r++, p += n) out[r] += scale * dot_inline(p, x, n);
}

/* out[k] = sum_r w[r] p[r, k], p of shape (rows, n) */
MULTIVERSION static UNUSED void vecmat(float *out, const float *p, const float *w, int rows, int n)
{
    int r, k = 0;
    for (; k + 2 * LANES <= n; k += 2 * LANES) {
        lanes_t a = {0}, b = {0};
        for (r = 0; r < rows; r++) {
            a += w[r] * LOAD(p + (int64_t)r * n + k);
            b += w[r] * LOAD(p + (int64_t)r * n + k + LANES);
        }
        STORE(out + k, a);
        STORE(out + k + LANES, b);
    }
    for (; k + LANES <= n; k += LANES) {
        lanes_t a = {0};
        for (r = 0; r < rows; r++) a += w[r] * LOAD(p + (int64_t)r * n + k);
        STORE(out + k, a);
    }
    for (; k < n; k++) {
        float sum = 0.0f;
        for (r = 0; r < rows; r++) sum += w[r] * p[(int64_t)r * n + k];
        out[k] = sum;
    }
}

/* out[y, z] += scale * b[y] c[z] */
MULTIVERSION static UNUSED void add_outer(float *out, const float *b, const float *c, int nb,
                                          int nc, float scale)
{
    int y, z;
    for (y = 0; y < nb; y++, out += nc) {
        float s = scale * b[y];
        for (z = 0; z < nc; z++) out[z] += s * c[z];
    }
}

/* One row of `push_edge`, b being b[y]: returns its part of the result. */
INLINE float push_row(const float *w, float b, const float *c, float g, float *ob, float *oc,
                      const int nc)
{
    float s = g * b, sum = 0.0f;
    int z = 0;
    if (nc >= LANES) {
        lanes_t a = {0};
        for (; z + LANES <= nc; z += LANES) {
            lanes_t v = LOAD(w + z);
            a += v * LOAD(c + z);
            STORE(oc + z, LOAD(oc + z) + s * v);
        }
        sum = SUM(a);
    }
    for (; z < nc; z++) {
        sum += w[z] * c[z];
        oc[z] += s * w[z];
    }
    *ob += g * sum;
    return s * sum;
}

/* The outside pass over one binary edge: ob[y] += g sum_z w[y, z] c[z] and
   oc[z] += g sum_y w[y, z] b[y]. Returns g sum_yz w[y, z] b[y] c[z]. */
MULTIVERSION static UNUSED float push_edge(const float *w, const float *b, const float *c, int nb,
                                           int nc, float g, float *ob, float *oc)
{
    float total = 0.0f;
    int y;
    for (y = 0; y < nb; y++, w += nc) total += push_row(w, b[y], c, g, ob + y, oc, nc);
    return total;
}

/* out[i, c] = sum_k f[k] a[i, k] b[k, c] of `rows` rows and `wide` vectors of columns; with g,
   g[i] times that is added to it. An element of `a` is `lda` from the next row, and `step` from the
   next k. f may be NULL. Sums stay in registers: compilers unroll the loops for constant sizes. */
INLINE void product_tile(float *out, int ldo, const float *a, int lda, int step, const float *f,
                         const float *b, int ldb, int n, const float *g, const int rows,
                         const int wide)
{
    lanes_t sums[4][4] = {{{0}}};
    int i, j, k;
    for (k = 0; k < n; k++, a += step, b += ldb)
        for (j = 0; j < wide; j++) {
            lanes_t v = LOAD(b + j * LANES);
            if (f) v = f[k] * v;
            for (i = 0; i < rows; i++) sums[i][j] += a[i * lda] * v;
        }
    for (i = 0; i < rows; i++, out += ldo)
        for (j = 0; j < wide; j++) {
            float *to = out + j * LANES;
            lanes_t sum = sums[i][j];
            if (g) sum = LOAD(to) + g[i] * sum;
            STORE(to, sum);
        }
}

/* m[l, r] = sum_k f[k] left[k, l] right[k, r]. Rows of m, left, right are `ld*` apart and padded to
   multiples of 8, which are read and written. */
MULTIVERSION static UNUSED void outer_sums(float *m, int ldm, const float *left, int ldl,
                                           const float *right, int ldr, const float *f, int nk,
                                           int nl, int nr)
{
    int l, r;
    for (l = 0; l < nl; l += 4, m += 4 * ldm, left += 4) {
        for (r = 0; r + LANES < nr; r += 2 * LANES)
            product_tile(m + r, ldm, left, 1, ldl, f, right + r, ldr, nk, NULL, 4, 2);
        if (r < nr) product_tile(m + r, ldm, left, 1, ldl, f, right + r, ldr, nk, NULL, 4, 1);
    }
}

/* out[k, c] += g[k] * sum_d a[k, d] b[d, c]; padded as above. */
MULTIVERSION static UNUSED void add_products(float *out, int ldo, const float *a, int lda,
                                             const float *b, int ldb, const float *g, int nk,
                                             int nd, int nc)
{
    int k = 0, c;
    for (; k + 4 <= nk; k += 4, out += 4 * ldo, a += 4 * lda)
        for (c = 0; c < nc; c += LANES)
            product_tile(out + c, ldo, a, lda, 1, NULL, b + c, ldb, nd, g + k, 4, 1);
    for (; k < nk; k++, out += ldo, a += lda) {
        for (c = 0; c + LANES < nc; c += 2 * LANES)
            product_tile(out + c, ldo, a, lda, 1, NULL, b + c, ldb, nd, g + k, 1, 2);
        if (c < nc) product_tile(out + c, ldo, a, lda, 1, NULL, b + c, ldb, nd, g + k, 1, 1);
    }
}

/* out[k, c] = sum_d a[k, d] b[d, c] for nk rows; columns are padded to multiples of 8. */
MULTIVERSION static UNUSED void matmul(float *out, int ldo, const float *a, int lda,
                                       const float *b, int ldb, int nk, int nd, int nc)
{
    int k = 0, c;
    for (; k + 4 <= nk; k += 4, out += 4 * ldo, a += 4 * lda) {
        for (c = 0; c + 2 * LANES <= nc; c += 2 * LANES)
            product_tile(out + c, ldo, a, lda, 1, NULL, b + c, ldb, nd, NULL, 4, 2);
        for (; c < nc; c += LANES)
            product_tile(out + c, ldo, a, lda, 1, NULL, b + c, ldb, nd, NULL, 4, 1);
    }
    for (; k < nk; k++, out += ldo, a += lda) {
        for (c = 0; c + 4 * LANES <= nc; c += 4 * LANES)
            product_tile(out + c, ldo, a, lda, 1, NULL, b + c, ldb, nd, NULL, 1, 4);
        for (; c < nc; c += LANES)
            product_tile(out + c, ldo, a, lda, 1, NULL, b + c, ldb, nd, NULL, 1, 1);
    }
}

/* out[r] = sum_k f[k] a[k][r] b[k][r], whose rows begin at a + places_a[k] and b + places_b[k]; n is
   a multiple of 32. */
MULTIVERSION static UNUSED void sum_products(float *out, const float *a, const float *b,
                                             const int64_t *places_a, const int64_t *places_b,
                                             const float *f, int nk, int n)
{
    int r, k;
    for (r = 0; r < n; r += 4 * LANES) {
        lanes_t s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
        for (k = 0; k < nk; k++) {
            const float *x = a + places_a[k] + r, *y = b + places_b[k] + r;
            float g = f[k];
            s0 += g * LOAD(x) * LOAD(y);
            s1 += g * LOAD(x + LANES) * LOAD(y + LANES);
            s2 += g * LOAD(x + 2 * LANES) * LOAD(y + 2 * LANES);
            s3 += g * LOAD(x + 3 * LANES) * LOAD(y + 3 * LANES);
        }
        STORE(out + r, s0);
        STORE(out + r + LANES, s1);
        STORE(out + r + 2 * LANES, s2);
        STORE(out + r + 3 * LANES, s3);
    }
}

/* Multiply a row of n values of the chart by `scale`. Values below `least` become zero. */
MULTIVERSION static UNUSED void scale_row(float *x, float scale, float least, int n)
{
    int r;
    for (r = 0; r < n; r++) {
        float value = x[r] * scale;
        x[r] = value >= least ? value : 0.0f;
    }
}

/* x[r] = 0 where by[r] is below `least` */
MULTIVERSION static UNUSED void clear_unbounded(float *x, const float *by, float least, int n)
{
    int r;
    for (r = 0; r < n; r++) x[r] = by[r] >= least ? x[r] : 0.0f;
}

/* The largest of n values, or 0; n is a multiple of 8. */
MULTIVERSION static UNUSED float largest_of(const float *x, int n)
{
    float best[8] = {0}, largest = 0.0f;
    int r, i;
    for (r = 0; r < n; r += 8)
        for (i = 0; i < 8; i++) best[i] = x[r + i] > best[i] ? x[r + i] : best[i];
    for (i = 0; i < 8; i++) largest = best[i] > largest ? best[i] : largest;
    return largest;
}

/* out[r] = scale a[r] b[r] */
MULTIVERSION static UNUSED void times(float *out, const float *a, const float *b, float scale, int n)
{
    int r;
    for (r = 0; r < n; r++) out[r] = scale * a[r] * b[r];
}

/* out[r] = a p[r] + b q[r] */
MULTIVERSION static UNUSED void mix(float *out, const float *p, const float *q, float a, float b, int n)
{
    int r;
    for (r = 0; r < n; r++) out[r] = a * p[r] + b * q[r];
}

/* The rows x of (rows, n) with sum_r x[r] w[r] >= limit: writes first + their numbers, returns how
   many there are. n is a multiple of 16. */
MULTIVERSION static UNUSED int select_rows(const float *x, int rows, int n, const float *w,
                                           float limit, int32_t first, int32_t *chosen)
{
    int k, found = 0;
    for (k = 0; k < rows; k++, x += n) {
        chosen[found] = first + k;
        found += dot_inline(x, w, n) >= limit;
    }
    return found;
}

/* counts[x, k] += scale o[x] p[x, k] m[k], of shape (rows, n) */
MULTIVERSION static UNUSED void add_counts(float *counts, const float *p, const float *o,
                                           const float *m, float scale, int rows, int n)
{
    int x, k;
    for (x = 0; x < rows; x++, counts += n, p += n) {
        float s = scale * o[x];
        if (s == 0.0f) continue;
        /* In this order nothing overflows: it is a part of the parent's inside score. */
        for (k = 0; k < n; k++) counts[k] += s * (p[k] * m[k]);
    }
}

/* The layer norm of a sum of vectors whose mean is 0, without what is negative. rows: NULL at the
   end. */
MULTIVERSION static UNUSED void norm_of_sum(float *out, const float *const *rows, const float *gain,
                                            const float *offset, float epsilon, int n)
{
    float scale, x;
    int k;
    memcpy(out, *rows, n * sizeof(float));
    for (rows++; *rows; rows++)
        for (k = 0; k < n; k++) out[k] += (*rows)[k];
    scale = 1.0f / sqrtf(dot_inline(out, out, n) / n + epsilon);
    for (k = 0; k < n; k++) {
        x = out[k] * scale * gain[k] + offset[k];
        out[k] = x > 0.0f ? x : 0.0f;
    }
}

#endif
