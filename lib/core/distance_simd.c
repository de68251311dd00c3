/* distance_simd.c - the kernels of distance.h for AVX2: pair i is added in lane i % 8, as in scalar code. */
#include "core/distance.h"
#include "core/number.h"
#include "core/simd.h"

#if defined(__x86_64__)

/* add_tail - adds the last COUNT pairs, fewer than 8, by scalar code. */
static void add_tail(ckpt_dtype dt, const unsigned char *left, const unsigned char *right, size_t count,
                     const struct tolerance *tolerance, struct distance *out)
{
    double x[8], y[8];
    number_decode(dt, left, count, x);
    number_decode(dt, right, count, y);
    distance_add(out, x, y, count, tolerance);
}

struct avx_totals {
    __m256d sum[2], max_abs, max_rel, abs, rel;
    __m256i differing;
};

AVX INLINE struct avx_totals avx_begin(const struct tolerance *tolerance)
{
    __m256d zero = _mm256_setzero_pd();
    return (struct avx_totals){
        {zero, zero},          zero, zero, _mm256_set1_pd(tolerance->abs), _mm256_set1_pd(tolerance->rel),
        _mm256_setzero_si256()};
}

/* avx_add_4 - adds four pairs, in lanes 4 INDEX to 4 INDEX + 3. */
AVX INLINE void avx_add_4(struct avx_totals *totals, unsigned index, __m256d left, __m256d right)
{
    const __m256d sign = _mm256_set1_pd(-0.0);
    __m256d apart = _mm256_andnot_pd(sign, _mm256_sub_pd(left, right)), base = _mm256_andnot_pd(sign, right);
    __m256d bound = _mm256_add_pd(totals->abs, _mm256_mul_pd(totals->rel, base));
    __m256d within = _mm256_cmp_pd(apart, bound, _CMP_LE_OQ);
    __m256d differs = _mm256_andnot_pd(within, _mm256_cmp_pd(left, right, _CMP_NEQ_UQ));
    totals->sum[index] = _mm256_add_pd(totals->sum[index], apart);
    totals->max_abs = _mm256_max_pd(apart,
                                    totals->max_abs); /* if either is NaN, the result is the second operand */
    totals->max_rel = _mm256_max_pd(_mm256_div_pd(apart, base), totals->max_rel);
    totals->differing = _mm256_sub_epi64(totals->differing, _mm256_castpd_si256(differs));
}

AVX INLINE void avx_add_8(struct avx_totals *totals, __m256 left, __m256 right)
{
    __m128 a_high = _mm256_extractf128_ps(left, 1), b_high = _mm256_extractf128_ps(right, 1);
    avx_add_4(totals, 0, _mm256_cvtps_pd(_mm256_castps256_ps128(left)),
              _mm256_cvtps_pd(_mm256_castps256_ps128(right)));
    avx_add_4(totals, 1, _mm256_cvtps_pd(a_high), _mm256_cvtps_pd(b_high));
}

AVX INLINE void avx_end(const struct avx_totals *totals, struct distance *out)
{
    double x[4];
    uint64_t n[4];
    for (unsigned i = 0; i < 2; i++)
        _mm256_storeu_pd(out->sum + 4 * i, totals->sum[i]);
    _mm256_storeu_pd(x, totals->max_abs);
    out->max_abs = get_max(x, 4);
    _mm256_storeu_pd(x, totals->max_rel);
    out->max_rel = get_max(x, 4);
    _mm256_storeu_si256((void *)n, totals->differing);
    out->differing = n[0] + n[1] + n[2] + n[3];
}

AVX INLINE void add_doubles(const unsigned char *left, const unsigned char *right, size_t count,
                            const struct tolerance *tolerance, struct distance *out)
{
    struct avx_totals s = avx_begin(tolerance);
    for (; count >= 8; count -= 8, left += 64, right += 64)
        for (unsigned i = 0; i < 2; i++)
            avx_add_4(&s, i, avx_load_doubles(left + (size_t)32 * i),
                      avx_load_doubles(right + (size_t)32 * i));
    avx_end(&s, out);
    add_tail(CKPT_DT_F64, left, right, count, tolerance, out);
}

/* add_floats - adds COUNT pairs of elements of DT, each of WIDTH bytes. */
AVX INLINE void add_floats(ckpt_dtype dt, size_t width, const unsigned char *left, const unsigned char *right,
                           size_t count, const struct tolerance *tolerance, struct distance *out)
{
    struct avx_totals s = avx_begin(tolerance);
    for (; count >= 8; count -= 8, left += 8 * width, right += 8 * width)
        avx_add_8(&s, avx_load_floats(dt, left), avx_load_floats(dt, right));
    avx_end(&s, out);
    add_tail(dt, left, right, count, tolerance, out);
}

AVX static void distance_avx(ckpt_dtype dt, const unsigned char *left, const unsigned char *right,
                             size_t count, const struct tolerance *tolerance, struct distance *out)
{
    switch (dt) {
    case CKPT_DT_F64: add_doubles(left, right, count, tolerance, out); break;
    case CKPT_DT_F32: add_floats(CKPT_DT_F32, 4, left, right, count, tolerance, out); break;
    case CKPT_DT_F16: add_floats(CKPT_DT_F16, 2, left, right, count, tolerance, out); break;
    default: add_floats(CKPT_DT_BF16, 2, left, right, count, tolerance, out);
    }
}

distance_kernel *distance_best_kernel(void) { return simd_has_avx() ? distance_avx : distance_scalar; }

#else

distance_kernel *distance_best_kernel(void) { return distance_scalar; }

#endif
