/* distance_simd.c - the kernels of distance.h for AVX2: pair i is added in lane i % 8, as in scalar code. */
#include "core/distance.h"
#include "core/number.h"
#include "core/simd.h"

#if defined(__x86_64__)

/* add_tail - adds the last N pairs, fewer than 8, by scalar code. */
static void add_tail(ckpt_dtype dt, const unsigned char *a, const unsigned char *b, size_t n,
                     const struct tolerance *t, struct distance *out)
{
    double x[8], y[8];
    number_decode(dt, a, n, x);
    number_decode(dt, b, n, y);
    distance_add(out, x, y, n, t);
}

struct avx_totals {
    __m256d sum[2], max_abs, max_rel, abs, rel;
    __m256i differing;
};

AVX INLINE struct avx_totals avx_begin(const struct tolerance *t)
{
    __m256d zero = _mm256_setzero_pd();
    return (struct avx_totals){
        {zero, zero}, zero, zero, _mm256_set1_pd(t->abs), _mm256_set1_pd(t->rel), _mm256_setzero_si256()};
}

/* avx_add_4 - adds four pairs, in lanes 4 I to 4 I + 3. */
AVX INLINE void avx_add_4(struct avx_totals *s, unsigned i, __m256d a, __m256d b)
{
    const __m256d sign = _mm256_set1_pd(-0.0);
    __m256d apart = _mm256_andnot_pd(sign, _mm256_sub_pd(a, b)), base = _mm256_andnot_pd(sign, b);
    __m256d bound = _mm256_add_pd(s->abs, _mm256_mul_pd(s->rel, base));
    __m256d within = _mm256_cmp_pd(apart, bound, _CMP_LE_OQ);
    __m256d differs = _mm256_andnot_pd(within, _mm256_cmp_pd(a, b, _CMP_NEQ_UQ));
    s->sum[i] = _mm256_add_pd(s->sum[i], apart);
    s->max_abs = _mm256_max_pd(apart, s->max_abs); /* if either is NaN, the result is the second operand */
    s->max_rel = _mm256_max_pd(_mm256_div_pd(apart, base), s->max_rel);
    s->differing = _mm256_sub_epi64(s->differing, _mm256_castpd_si256(differs));
}

AVX INLINE void avx_add_8(struct avx_totals *s, __m256 a, __m256 b)
{
    __m128 a_high = _mm256_extractf128_ps(a, 1), b_high = _mm256_extractf128_ps(b, 1);
    avx_add_4(s, 0, _mm256_cvtps_pd(_mm256_castps256_ps128(a)), _mm256_cvtps_pd(_mm256_castps256_ps128(b)));
    avx_add_4(s, 1, _mm256_cvtps_pd(a_high), _mm256_cvtps_pd(b_high));
}

AVX INLINE void avx_end(const struct avx_totals *s, struct distance *out)
{
    double x[4];
    uint64_t n[4];
    for (unsigned i = 0; i < 2; i++)
        _mm256_storeu_pd(out->sum + 4 * i, s->sum[i]);
    _mm256_storeu_pd(x, s->max_abs);
    out->max_abs = get_max(x, 4);
    _mm256_storeu_pd(x, s->max_rel);
    out->max_rel = get_max(x, 4);
    _mm256_storeu_si256((void *)n, s->differing);
    out->differing = n[0] + n[1] + n[2] + n[3];
}

AVX INLINE void add_doubles(const unsigned char *a, const unsigned char *b, size_t n,
                            const struct tolerance *t, struct distance *out)
{
    struct avx_totals s = avx_begin(t);
    for (; n >= 8; n -= 8, a += 64, b += 64)
        for (unsigned i = 0; i < 2; i++)
            avx_add_4(&s, i, avx_load_doubles(a + (size_t)32 * i), avx_load_doubles(b + (size_t)32 * i));
    avx_end(&s, out);
    add_tail(CKPT_DT_F64, a, b, n, t, out);
}

/* add_floats - adds N pairs of elements of DT, each of WIDTH bytes. */
AVX INLINE void add_floats(ckpt_dtype dt, size_t width, const unsigned char *a, const unsigned char *b,
                           size_t n, const struct tolerance *t, struct distance *out)
{
    struct avx_totals s = avx_begin(t);
    for (; n >= 8; n -= 8, a += 8 * width, b += 8 * width)
        avx_add_8(&s, avx_load_floats(dt, a), avx_load_floats(dt, b));
    avx_end(&s, out);
    add_tail(dt, a, b, n, t, out);
}

AVX static void distance_avx(ckpt_dtype dt, const unsigned char *a, const unsigned char *b, size_t n,
                             const struct tolerance *t, struct distance *out)
{
    switch (dt) {
    case CKPT_DT_F64: add_doubles(a, b, n, t, out); break;
    case CKPT_DT_F32: add_floats(CKPT_DT_F32, 4, a, b, n, t, out); break;
    case CKPT_DT_F16: add_floats(CKPT_DT_F16, 2, a, b, n, t, out); break;
    default: add_floats(CKPT_DT_BF16, 2, a, b, n, t, out);
    }
}

distance_kernel *distance_best_kernel(void) { return simd_has_avx() ? distance_avx : distance_scalar; }

#else

distance_kernel *distance_best_kernel(void) { return distance_scalar; }

#endif
