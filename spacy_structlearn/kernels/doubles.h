/* Vector arithmetic of the belief network kernels, float64: sums have four lanes by the vector
   extension of GCC and Clang, and a single one elsewhere. */

#ifndef STRUCTLEARN_DOUBLES_H
#define STRUCTLEARN_DOUBLES_H

#include "lanes.h"

#if defined(__GNUC__)
#define LANES 4
typedef double lanes_t __attribute__((vector_size(32), aligned(8), may_alias));
#define LOAD(p) (*(const lanes_t *)(p))
#define STORE(p, v) (*(lanes_t *)(p) = (v))
#define SUM(a) ((a[0] + a[1]) + (a[2] + a[3]))
#else
#define LANES 1
typedef double lanes_t;
#define LOAD(p) (*(p))
#define STORE(p, v) (*(p) = (v))
#define SUM(a) (a)
#endif

/* out[r] (+)= sum_k m[r, k] x[k], m of shape (rows, n) */
MULTIVERSION static UNUSED void matvec(double *out, const double *m, const double *x, int rows,
                                       int n, int add)
{
    int r, k;
    for (r = 0; r < rows; r++, m += n) {
        double sum;
        lanes_t a = {0}, b = {0};
        for (k = 0; k + 2 * LANES <= n; k += 2 * LANES) {
            a += LOAD(m + k) * LOAD(x + k);
            b += LOAD(m + k + LANES) * LOAD(x + k + LANES);
        }
        for (; k + LANES <= n; k += LANES) a += LOAD(m + k) * LOAD(x + k);
        a += b;
        sum = SUM(a);
        for (; k < n; k++) sum += m[k] * x[k];
        out[r] = add ? out[r] + sum : sum;
    }
}

/* out[k] += factor x[k] */
MULTIVERSION static UNUSED void add_to(double *restrict out, const double *restrict x,
                                       double factor, int n)
{
    int k;
    for (k = 0; k < n; k++) out[k] += factor * x[k];
}

/* out[k] += sum_r w[r] m[r, k], m of shape (rows, n) */
MULTIVERSION static UNUSED void vecmat(double *restrict out, const double *restrict m,
                                       const double *restrict w, int rows, int n)
{
    int r, k = 0;
    /* Sums stay in registers, which makes the search by mean field a tenth faster. */
    for (; k + 2 * LANES <= n; k += 2 * LANES) {
        lanes_t a = LOAD(out + k), b = LOAD(out + k + LANES);
        for (r = 0; r < rows; r++) {
            a += w[r] * LOAD(m + (int64_t)r * n + k);
            b += w[r] * LOAD(m + (int64_t)r * n + k + LANES);
        }
        STORE(out + k, a);
        STORE(out + k + LANES, b);
    }
    for (; k + LANES <= n; k += LANES) {
        lanes_t a = LOAD(out + k);
        for (r = 0; r < rows; r++) a += w[r] * LOAD(m + (int64_t)r * n + k);
        STORE(out + k, a);
    }
    for (; k < n; k++)
        for (r = 0; r < rows; r++) out[k] += w[r] * m[(int64_t)r * n + k];
}

/* m[r, k] += w[r] x[k], m of shape (rows, n) */
MULTIVERSION static UNUSED void add_outer(double *restrict m, const double *restrict w,
                                          const double *restrict x, int rows, int n)
{
    int r, k;
    for (r = 0; r < rows; r++, m += n) {
        if (w[r] == 0.0) continue;
        for (k = 0; k < n; k++) m[k] += w[r] * x[k];
    }
}

/* x[k] = exp(x[k]), to the last digits but one. Entries below -700 count as -700; none is above
   700. */
MULTIVERSION static UNUSED void exponentials(double *x, int n)
{
    int k;
    for (k = 0; k < n; k++) {
        double v = x[k] < -700.0 ? -700.0 : x[k];
        /* v = e ln 2 + r with |r| <= ln(2) / 2; adding 1.5 * 2**52 rounds to a whole number */
        double shifted = v * 1.4426950408889634 + 6755399441055744.0;
        double e = shifted - 6755399441055744.0;
        double r = (v - e * 6.93147180369123816490e-01) - e * 1.90821492927058770002e-10;
        double p = 1.0 / 479001600.0;
        uint64_t bits;
        double power;
        p = p * r + 1.0 / 39916800.0;
        p = p * r + 1.0 / 3628800.0;
        p = p * r + 1.0 / 362880.0;
        p = p * r + 1.0 / 40320.0;
        p = p * r + 1.0 / 5040.0;
        p = p * r + 1.0 / 720.0;
        p = p * r + 1.0 / 120.0;
        p = p * r + 1.0 / 24.0;
        p = p * r + 1.0 / 6.0;
        p = p * r + 0.5;
        p = p * r + 1.0;
        p = p * r + 1.0;
        memcpy(&bits, &shifted, 8);
        bits = (bits + 1023) << 52;
        memcpy(&power, &bits, 8);
        x[k] = p * power;
    }
}

/* mu[k] = 1 / (1 + exp(-phi[k])) */
MULTIVERSION static UNUSED void sigmoids(double *mu, const double *phi, int n)
{
    int k;
    for (k = 0; k < n; k++) mu[k] = -phi[k];
    exponentials(mu, n);
    for (k = 0; k < n; k++) mu[k] = 1.0 / (1.0 + mu[k]);
}

#endif
