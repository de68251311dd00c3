/* simd.h - helpers of the x86-64 kernels. Call functions marked AVX only if simd_has_avx() is true, those
 * marked AVX_FMA only if simd_has_fma() is. */
#pragma once

#define INLINE static inline __attribute__((always_inline))

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>

#include "core/dtype.h"

#define AVX     __attribute__((target("avx2,f16c")))
#define AVX_FMA __attribute__((target("avx2,f16c,fma")))

INLINE __m128i sse_load(const unsigned char *bytes)
{
    return _mm_loadu_si128((const __m128i *)(const void *)bytes);
}

AVX INLINE __m256 avx_load_bf16(const unsigned char *bytes)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(sse_load(bytes)), 16));
}

/* avx_load_floats - loads eight elements of DT (float32, float16 or bfloat16) as floats. */
AVX INLINE __m256 avx_load_floats(ckpt_dtype dt, const unsigned char *bytes)
{
    switch (dt) {
    case CKPT_DT_F16: return _mm256_cvtph_ps(sse_load(bytes));
    case CKPT_DT_BF16: return avx_load_bf16(bytes);
    default: return _mm256_loadu_ps((const void *)bytes);
    }
}

AVX INLINE __m256d avx_load_doubles(const unsigned char *bytes)
{
    return _mm256_loadu_pd((const void *)bytes);
}

/* get_max - returns the largest of COUNT numbers, none of them NaN. */
INLINE double get_max(const double *in, unsigned count)
{
    double largest = in[0];
    for (unsigned i = 1; i < count; i++)
        largest = in[i] > largest ? in[i] : largest;
    return largest;
}

static inline bool detect_avx(void)
{
    unsigned a, b, c = 0, d;
    /* F16C by cpuid, because clang 14's __builtin_cpu_supports has no "f16c" */
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}

/* simd_has_avx - returns true if this CPU can run functions marked AVX. Cached: cpuid in a VM takes 30 us. */
static inline bool simd_has_avx(void)
{
    enum { UNKNOWN, NO, YES };
    static _Atomic unsigned char cached; /* any thread stores the same answer */
    unsigned char answer = atomic_load_explicit(&cached, memory_order_relaxed);
    if (answer == UNKNOWN) {
        answer = detect_avx() ? YES : NO;
        atomic_store_explicit(&cached, answer, memory_order_relaxed);
    }
    return answer == YES;
}

static inline bool simd_has_fma(void) { return simd_has_avx() && __builtin_cpu_supports("fma"); }
#endif
