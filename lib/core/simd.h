/* simd.h - what kernels for x86-64 share; nothing elsewhere. SSE2 is on all of
 * them, AVX2 with conversions of halves on those that has_avx knows. */
#ifndef CORE_SIMD_H
#define CORE_SIMD_H

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdbool.h>

#define INLINE static inline __attribute__((always_inline))
#define AVX    __attribute__((target("avx2,f16c")))

INLINE __m128i sse_load(const unsigned char *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }

static inline bool has_avx(void)
{
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}
#endif

#endif
