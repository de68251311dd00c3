/* moments_simd.c - the sums of moments.h in AVX2's registers. Eight lanes of doubles fill two, and
 * each lane adds in the same order as the scalar code. AVX-512 gains nothing where memory is the limit. */

#include "core/moments.h"
#include "core/number.h"
#include "core/simd.h"

#if defined(__x86_64__)

/* add_tail - adds the last COUNT < 8 elements, which fill no register. */
static void add_tail(ckpt_dtype dt, const unsigned char *bytes, size_t count, double shift,
                     struct moment_sums *out)
{
    double x[8];
    number_decode(dt, bytes, count, x);
    moment_sums_add(out, x, count, shift);
}

static double get_least(const double *in, unsigned count)
{
    double least = in[0];
    for (unsigned i = 1; i < count; i++)
        least = in[i] < least ? in[i] : least;
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

AVX INLINE void avx_add_4(struct avx_sums *sums, unsigned index, __m256d lanes)
{
    __m256d d = _mm256_sub_pd(lanes, sums->shift);
    sums->sum[index] = _mm256_add_pd(sums->sum[index], d);
    sums->square[index] = _mm256_add_pd(sums->square[index], _mm256_mul_pd(d, d));
}

AVX INLINE void avx_end(const struct avx_sums *sums, __m256d min, __m256d max, struct moment_sums *out)
{
    double low[4], high[4];
    for (unsigned i = 0; i < 2; i++) {
        _mm256_storeu_pd(out->sum + 4 * i, sums->sum[i]);
        _mm256_storeu_pd(out->square + 4 * i, sums->square[i]);
    }
    _mm256_storeu_pd(low, min);
    _mm256_storeu_pd(high, max);
    out->min = get_least(low, 4);
    out->max = get_max(high, 4);
}

AVX INLINE void add_doubles(const unsigned char *bytes, size_t count, double shift, struct moment_sums *out)
{
    struct avx_sums a = avx_begin(shift);
    __m256d min = _mm256_set1_pd((double)INFINITY), max = _mm256_set1_pd(-(double)INFINITY);
    __m256i zeros = _mm256_setzero_si256();
    for (; count >= 8; count -= 8, bytes += 64) {
        for (unsigned i = 0; i < 2; i++) {
            __m256d x = avx_load_doubles(bytes + (size_t)32 * i);
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
    add_tail(CKPT_DT_F64, bytes, count, shift, out);
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
AVX INLINE void avx_add_8(struct avx_floats *floats, __m256 lanes)
{
    __m256i bits = _mm256_castps_si256(lanes), without_sign = _mm256_add_epi32(bits, bits);
    floats->min = _mm256_min_ps(floats->min, lanes);
    floats->max = _mm256_max_ps(floats->max, lanes);
    floats->zeros = _mm256_sub_epi32(floats->zeros, _mm256_cmpeq_epi32(without_sign, _mm256_setzero_si256()));
    avx_add_4(&floats->a, 0, _mm256_cvtps_pd(_mm256_castps256_ps128(lanes)));
    avx_add_4(&floats->a, 1, _mm256_cvtps_pd(_mm256_extractf128_ps(lanes, 1)));
}

AVX INLINE void avx_floats_end(const struct avx_floats *floats, struct moment_sums *out)
{
    uint32_t z[8];
    __m128 min = _mm_min_ps(_mm256_castps256_ps128(floats->min), _mm256_extractf128_ps(floats->min, 1));
    __m128 max = _mm_max_ps(_mm256_castps256_ps128(floats->max), _mm256_extractf128_ps(floats->max, 1));
    _mm256_storeu_si256((void *)z, floats->zeros);
    out->zeros = 0;
    for (unsigned i = 0; i < 8; i++)
        out->zeros += z[i];
    avx_end(&floats->a, _mm256_cvtps_pd(min), _mm256_cvtps_pd(max), out);
}

/* add_floats - adds COUNT elements of DT, each of WIDTH bytes. */
AVX INLINE void add_floats(ckpt_dtype dt, size_t width, const unsigned char *bytes, size_t count,
                           double shift, struct moment_sums *out)
{
    struct avx_floats f = avx_floats_begin(shift);
    for (; count >= 8; count -= 8, bytes += 8 * width)
        avx_add_8(&f, avx_load_floats(dt, bytes));
    avx_floats_end(&f, out);
    add_tail(dt, bytes, count, shift, out);
}

AVX static void moments_avx(ckpt_dtype dt, const unsigned char *bytes, size_t count, double shift,
                            struct moment_sums *out)
{
    switch (dt) {
    case CKPT_DT_F64: add_doubles(bytes, count, shift, out); break;
    case CKPT_DT_F32: add_floats(CKPT_DT_F32, 4, bytes, count, shift, out); break;
    case CKPT_DT_F16: add_floats(CKPT_DT_F16, 2, bytes, count, shift, out); break;
    default: add_floats(CKPT_DT_BF16, 2, bytes, count, shift, out);
    }
}

moments_kernel *moments_best_kernel(void) { return simd_has_avx() ? moments_avx : moments_scalar; }

#else

moments_kernel *moments_best_kernel(void) { return moments_scalar; }

#endif
