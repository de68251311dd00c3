/* simd.h - what kernels for x86-64 share; nothing elsewhere. SSE2 is on all of
 * them, AVX2 with conversions of halves on those that simd_avx knows. */
#ifndef CORE_SIMD_H
#define CORE_SIMD_H

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdbool.h>

#define INLINE static inline __attribute__((always_inline))
#define AVX    __attribute__((target("avx2,f16c")))

INLINE __m128i sse_load(const unsigned char *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }

/* avx_brains - eight bfloat16 as floats. */
AVX INLINE __m256 avx_brains(const unsigned char *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(sse_load(p)), 16));
}

/* most - the largest of N numbers, none a NaN. */
INLINE double most(const double *x, unsigned n)
{
    double most = x[0];
    for (unsigned i = 1; i < n; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

/* simd_avx - may AVX code run here? */
bool simd_avx(void);
#endif

#endif
