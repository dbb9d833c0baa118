/* Attributes of the vector functions. With GCC on x86-64 Linux a MULTIVERSION function is built
   twice, for any processor and for processors with AVX2 and FMA, so that the wheel stays portable. */

#ifndef STRUCTLEARN_LANES_H
#define STRUCTLEARN_LANES_H

#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__gnu_linux__)
#if __GNUC__ >= 12
#define MULTIVERSION __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define MULTIVERSION __attribute__((target_clones("default", "avx2")))
#endif
#else
#define MULTIVERSION
#endif

#if defined(__GNUC__)
#define UNUSED __attribute__((unused))
#define INLINE static inline __attribute__((always_inline))
#else
#define UNUSED
#define INLINE static inline
#endif

#endif
