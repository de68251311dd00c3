/* moments_simd.c - the sums of moments.h in AVX2's registers. Eight lanes of doubles fill two, and
 * each lane adds in the same order as the scalar code. AVX-512 gains nothing where memory is the limit. */
#include <math.h>

#include "core/moments.h"
#include "core/number.h"
#include "core/simd.h"

#if defined(__x86_64__)

/* add_tail - adds the last N < 8 elements, which fill no register. */
static void add_tail(ckpt_dtype dt, const unsigned char *p, size_t n, double shift, struct moment_sums *out)
{
    double x[8];
    number_decode(dt, p, n, x);
    moment_sums_add(out, x, n, shift);
}

static double get_least(const double *x, unsigned n)
{
    double least = x[0];
    for (unsigned i = 1; i < n; i++)
        least = x[i] < least ? x[i] : least;
    return least;
}

struct avx_sums {
    __m256d sum[2], square[2], shift;
};

AVX INLINE struct avx_sums avx_begin(double shift)
{
    __m256d zero = _mm256_setzero_pd();
    return (struct avx_sums){{zero, zero}, {zero, zero}, _mm256_set1_pd(shift)};
}

AVX INLINE void avx_add_4(struct avx_sums *a, unsigned i, __m256d x)
{
    __m256d d = _mm256_sub_pd(x, a->shift);
    a->sum[i] = _mm256_add_pd(a->sum[i], d);
    a->square[i] = _mm256_add_pd(a->square[i], _mm256_mul_pd(d, d));
}

AVX INLINE void avx_end(const struct avx_sums *a, __m256d min, __m256d max, struct moment_sums *out)
{
    double low[4], high[4];
    for (unsigned i = 0; i < 2; i++) {
        _mm256_storeu_pd(out->sum + 4 * i, a->sum[i]);
        _mm256_storeu_pd(out->square + 4 * i, a->square[i]);
    }
    _mm256_storeu_pd(low, min);
    _mm256_storeu_pd(high, max);
    out->min = get_least(low, 4);
    out->max = get_max(high, 4);
}

AVX INLINE void add_doubles(const unsigned char *p, size_t n, double shift, struct moment_sums *out)
{
    struct avx_sums a = avx_begin(shift);
    __m256d min = _mm256_set1_pd((double)INFINITY), max = _mm256_set1_pd(-(double)INFINITY);
    __m256i zeros = _mm256_setzero_si256();
    for (; n >= 8; n -= 8, p += 64) {
        for (unsigned i = 0; i < 2; i++) {
            __m256d x = avx_load_doubles(p + (size_t)32 * i);
            __m256d is_zero = _mm256_cmp_pd(x, _mm256_setzero_pd(), _CMP_EQ_OQ);
            min = _mm256_min_pd(min, x);
            max = _mm256_max_pd(max, x);
            zeros = _mm256_sub_epi64(zeros, _mm256_castpd_si256(is_zero));
            avx_add_4(&a, i, x);
        }
    }
    uint64_t z[4];
    _mm256_storeu_si256((void *)z, zeros);
    out->zeros = z[0] + z[1] + z[2] + z[3];
    avx_end(&a, min, max, out);
    add_tail(CKPT_DT_F64, p, n, shift, out);
}

struct avx_floats {
    struct avx_sums a;
    __m256 min, max;
    __m256i zeros;
};

AVX INLINE struct avx_floats avx_floats_begin(double shift)
{
    return (struct avx_floats){avx_begin(shift), _mm256_set1_ps(INFINITY), _mm256_set1_ps(-INFINITY),
                               _mm256_setzero_si256()};
}

/* avx_add_8 - adds eight floats. Zeros are found by comparing integers, because clang 14 does not compare
 * floats in parallel if they were converted from float16. */
AVX INLINE void avx_add_8(struct avx_floats *f, __m256 x)
{
    __m256i bits = _mm256_castps_si256(x), without_sign = _mm256_add_epi32(bits, bits);
    f->min = _mm256_min_ps(f->min, x);
    f->max = _mm256_max_ps(f->max, x);
    f->zeros = _mm256_sub_epi32(f->zeros, _mm256_cmpeq_epi32(without_sign, _mm256_setzero_si256()));
    avx_add_4(&f->a, 0, _mm256_cvtps_pd(_mm256_castps256_ps128(x)));
    avx_add_4(&f->a, 1, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));
}

AVX INLINE void avx_floats_end(const struct avx_floats *f, struct moment_sums *out)
{
    uint32_t z[8];
    __m128 min = _mm_min_ps(_mm256_castps256_ps128(f->min), _mm256_extractf128_ps(f->min, 1));
    __m128 max = _mm_max_ps(_mm256_castps256_ps128(f->max), _mm256_extractf128_ps(f->max, 1));
    _mm256_storeu_si256((void *)z, f->zeros);
    out->zeros = 0;
    for (unsigned i = 0; i < 8; i++)
        out->zeros += z[i];
    avx_end(&f->a, _mm256_cvtps_pd(min), _mm256_cvtps_pd(max), out);
}

/* add_floats - adds N elements of DT, each of WIDTH bytes. */
AVX INLINE void add_floats(ckpt_dtype dt, size_t width, const unsigned char *p, size_t n, double shift,
                           struct moment_sums *out)
{
    struct avx_floats f = avx_floats_begin(shift);
    for (; n >= 8; n -= 8, p += 8 * width)
        avx_add_8(&f, avx_load_floats(dt, p));
    avx_floats_end(&f, out);
    add_tail(dt, p, n, shift, out);
}

AVX static void moments_avx(ckpt_dtype dt, const unsigned char *p, size_t n, double shift,
                            struct moment_sums *out)
{
    switch (dt) {
    case CKPT_DT_F64: add_doubles(p, n, shift, out); break;
    case CKPT_DT_F32: add_floats(CKPT_DT_F32, 4, p, n, shift, out); break;
    case CKPT_DT_F16: add_floats(CKPT_DT_F16, 2, p, n, shift, out); break;
    default: add_floats(CKPT_DT_BF16, 2, p, n, shift, out);
    }
}

moments_kernel *moments_best_kernel(void) { return simd_has_avx() ? moments_avx : moments_scalar; }

#else

moments_kernel *moments_best_kernel(void) { return moments_scalar; }

#endif
