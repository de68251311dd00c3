/* distance_simd.c - the kernels of distance.h in vector registers; each lane adds in the same order as
 * the scalar code. SSE2 has no conversion from float16, which is decoded first. */
#include <math.h>

#include "core/distance.h"
#include "core/number.h"
#include "core/simd.h"

#if defined(__x86_64__)

/* add_tail - the last N < 8 pairs, which fill no register. */
static void add_tail(ckpt_dtype dt, const unsigned char *a, const unsigned char *b, size_t n,
                     const struct tolerance *t, struct distance *out)
{
    double x[8], y[8];
    number_decode(dt, a, n, x);
    number_decode(dt, b, n, y);
    distance_add(out, x, y, n, t);
}

/* ---------------------------------------------------------------------- SSE2 */

struct sse {
    __m128d sum[4], max_abs, max_rel, abs, rel;
    __m128i differing;
};

INLINE struct sse sse_begin(const struct tolerance *t)
{
    __m128d zero = _mm_setzero_pd();
    return (struct sse){{zero, zero, zero, zero}, zero, zero, _mm_set1_pd(t->abs), _mm_set1_pd(t->rel),
                        _mm_setzero_si128()};
}

/* sse_two - two pairs, in lanes 2 I and 2 I + 1. */
INLINE void sse_two(struct sse *s, unsigned i, __m128d a, __m128d b)
{
    const __m128d sign = _mm_set1_pd(-0.0);
    __m128d apart = _mm_andnot_pd(sign, _mm_sub_pd(a, b)), base = _mm_andnot_pd(sign, b);
    __m128d within = _mm_cmple_pd(apart, _mm_add_pd(s->abs, _mm_mul_pd(s->rel, base)));
    __m128d differs = _mm_andnot_pd(within, _mm_cmpneq_pd(a, b));
    s->sum[i] = _mm_add_pd(s->sum[i], apart);
    s->max_abs = _mm_max_pd(apart, s->max_abs); /* if either is NaN, the result is the second operand */
    s->max_rel = _mm_max_pd(_mm_div_pd(apart, base), s->max_rel);
    s->differing = _mm_sub_epi64(s->differing, _mm_castpd_si128(differs));
}

INLINE void sse_four(struct sse *s, unsigned i, __m128 a, __m128 b)
{
    sse_two(s, i, _mm_cvtps_pd(a), _mm_cvtps_pd(b));
    sse_two(s, i + 1, _mm_cvtps_pd(_mm_movehl_ps(a, a)), _mm_cvtps_pd(_mm_movehl_ps(b, b)));
}

INLINE void sse_end(const struct sse *s, struct distance *out)
{
    double x[2];
    uint64_t n[2];
    for (unsigned i = 0; i < 4; i++)
        _mm_storeu_pd(out->sum + 2 * i, s->sum[i]);
    _mm_storeu_pd(x, s->max_abs);
    out->max_abs = max_of(x, 2);
    _mm_storeu_pd(x, s->max_rel);
    out->max_rel = max_of(x, 2);
    _mm_storeu_si128((__m128i *)(void *)n, s->differing);
    out->differing = n[0] + n[1];
}

static void sse_f64(const unsigned char *a, const unsigned char *b, size_t n, const struct tolerance *t,
                    struct distance *out)
{
    struct sse s = sse_begin(t);
    for (; n >= 8; n -= 8, a += 64, b += 64)
        for (unsigned i = 0; i < 4; i++)
            sse_two(&s, i, _mm_castsi128_pd(sse_load(a + (size_t)16 * i)),
                    _mm_castsi128_pd(sse_load(b + (size_t)16 * i)));
    sse_end(&s, out);
    add_tail(CKPT_DT_F64, a, b, n, t, out);
}

static void sse_f32(const unsigned char *a, const unsigned char *b, size_t n, const struct tolerance *t,
                    struct distance *out)
{
    struct sse s = sse_begin(t);
    for (; n >= 8; n -= 8, a += 32, b += 32) {
        sse_four(&s, 0, _mm_castsi128_ps(sse_load(a)), _mm_castsi128_ps(sse_load(b)));
        sse_four(&s, 2, _mm_castsi128_ps(sse_load(a + 16)), _mm_castsi128_ps(sse_load(b + 16)));
    }
    sse_end(&s, out);
    add_tail(CKPT_DT_F32, a, b, n, t, out);
}

static void sse_bf16(const unsigned char *a, const unsigned char *b, size_t n, const struct tolerance *t,
                     struct distance *out)
{
    struct sse s = sse_begin(t);
    for (; n >= 8; n -= 8, a += 16, b += 16) {
        __m128i x = sse_load(a), y = sse_load(b), zero = _mm_setzero_si128();
        sse_four(&s, 0, _mm_castsi128_ps(_mm_unpacklo_epi16(zero, x)),
                 _mm_castsi128_ps(_mm_unpacklo_epi16(zero, y)));
        sse_four(&s, 2, _mm_castsi128_ps(_mm_unpackhi_epi16(zero, x)),
                 _mm_castsi128_ps(_mm_unpackhi_epi16(zero, y)));
    }
    sse_end(&s, out);
    add_tail(CKPT_DT_BF16, a, b, n, t, out);
}

/* ---------------------------------------------------------------------- AVX2 */

struct avx {
    __m256d sum[2], max_abs, max_rel, abs, rel;
    __m256i differing;
};

AVX INLINE struct avx avx_begin(const struct tolerance *t)
{
    __m256d zero = _mm256_setzero_pd();
    return (struct avx){{zero, zero}, zero, zero, _mm256_set1_pd(t->abs), _mm256_set1_pd(t->rel),
                        _mm256_setzero_si256()};
}

/* avx_add_4 - four pairs, in lanes 4 I to 4 I + 3. */
AVX INLINE void avx_add_4(struct avx *s, unsigned i, __m256d a, __m256d b)
{
    const __m256d sign = _mm256_set1_pd(-0.0);
    __m256d apart = _mm256_andnot_pd(sign, _mm256_sub_pd(a, b)), base = _mm256_andnot_pd(sign, b);
    __m256d bound = _mm256_add_pd(s->abs, _mm256_mul_pd(s->rel, base));
    __m256d within = _mm256_cmp_pd(apart, bound, _CMP_LE_OQ);
    __m256d differs = _mm256_andnot_pd(within, _mm256_cmp_pd(a, b, _CMP_NEQ_UQ));
    s->sum[i] = _mm256_add_pd(s->sum[i], apart);
    s->max_abs = _mm256_max_pd(apart, s->max_abs);
    s->max_rel = _mm256_max_pd(_mm256_div_pd(apart, base), s->max_rel);
    s->differing = _mm256_sub_epi64(s->differing, _mm256_castpd_si256(differs));
}

AVX INLINE void avx_add_8(struct avx *s, __m256 a, __m256 b)
{
    __m128 a_high = _mm256_extractf128_ps(a, 1), b_high = _mm256_extractf128_ps(b, 1);
    avx_add_4(s, 0, _mm256_cvtps_pd(_mm256_castps256_ps128(a)), _mm256_cvtps_pd(_mm256_castps256_ps128(b)));
    avx_add_4(s, 1, _mm256_cvtps_pd(a_high), _mm256_cvtps_pd(b_high));
}

AVX INLINE void avx_end(const struct avx *s, struct distance *out)
{
    double x[4];
    uint64_t n[4];
    for (unsigned i = 0; i < 2; i++)
        _mm256_storeu_pd(out->sum + 4 * i, s->sum[i]);
    _mm256_storeu_pd(x, s->max_abs);
    out->max_abs = max_of(x, 4);
    _mm256_storeu_pd(x, s->max_rel);
    out->max_rel = max_of(x, 4);
    _mm256_storeu_si256((void *)n, s->differing);
    out->differing = n[0] + n[1] + n[2] + n[3];
}

AVX INLINE __m256i avx_load(const unsigned char *p) { return _mm256_loadu_si256((const void *)p); }

AVX static void avx_f64(const unsigned char *a, const unsigned char *b, size_t n, const struct tolerance *t,
                        struct distance *out)
{
    struct avx s = avx_begin(t);
    for (; n >= 8; n -= 8, a += 64, b += 64)
        for (unsigned i = 0; i < 2; i++)
            avx_add_4(&s, i, _mm256_castsi256_pd(avx_load(a + (size_t)32 * i)),
                     _mm256_castsi256_pd(avx_load(b + (size_t)32 * i)));
    avx_end(&s, out);
    add_tail(CKPT_DT_F64, a, b, n, t, out);
}

AVX static void avx_f32(const unsigned char *a, const unsigned char *b, size_t n, const struct tolerance *t,
                        struct distance *out)
{
    struct avx s = avx_begin(t);
    for (; n >= 8; n -= 8, a += 32, b += 32)
        avx_add_8(&s, _mm256_castsi256_ps(avx_load(a)), _mm256_castsi256_ps(avx_load(b)));
    avx_end(&s, out);
    add_tail(CKPT_DT_F32, a, b, n, t, out);
}

AVX static void avx_f16(const unsigned char *a, const unsigned char *b, size_t n, const struct tolerance *t,
                        struct distance *out)
{
    struct avx s = avx_begin(t);
    for (; n >= 8; n -= 8, a += 16, b += 16)
        avx_add_8(&s, _mm256_cvtph_ps(sse_load(a)), _mm256_cvtph_ps(sse_load(b)));
    avx_end(&s, out);
    add_tail(CKPT_DT_F16, a, b, n, t, out);
}

AVX static void avx_bf16(const unsigned char *a, const unsigned char *b, size_t n, const struct tolerance *t,
                         struct distance *out)
{
    struct avx s = avx_begin(t);
    for (; n >= 8; n -= 8, a += 16, b += 16)
        avx_add_8(&s, avx_load_bf16(a), avx_load_bf16(b));
    avx_end(&s, out);
    add_tail(CKPT_DT_BF16, a, b, n, t, out);
}

/* ------------------------------------------------------------------ choosing */

static const struct distance_kernels sse = {"SSE2", sse_f64, sse_f64, sse_f32, NULL, sse_bf16};
static const struct distance_kernels avx = {"AVX2", avx_f64, avx_f64, avx_f32, avx_f16, avx_bf16};

const struct distance_kernels *distance_simd(unsigned i)
{
    return i == 0 ? &sse : i == 1 && simd_avx() ? &avx : NULL;
}

const struct distance_kernels *distance_best(void) { return simd_avx() ? &avx : &sse; }

#else

const struct distance_kernels *distance_simd(unsigned i)
{
    (void)i;
    return NULL;
}

const struct distance_kernels *distance_best(void) { return &distance_scalar; }

#endif
