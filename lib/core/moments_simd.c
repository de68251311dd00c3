/* moments_simd.c - the sums of moments.h in vector registers. Eight lanes of doubles are four registers
 * of SSE2 or two of AVX2, and each lane adds in the same order as the scalar code. More lanes would not
 * fit the sixteen registers of SSE2, and AVX-512 gains nothing where memory is the limit. */
#include <math.h>

#include "core/moments.h"
#include "core/number.h"
#include "core/simd.h"

#if defined(__x86_64__)

/* add_tail - the last N < 8 elements, which fill no register. */
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

/* ---------------------------------------------------------------------- SSE2 */

struct sse {
    __m128d sum[4], square[4], shift;
};

INLINE struct sse sse_begin(double shift)
{
    struct sse a = {.shift = _mm_set1_pd(shift)};
    for (unsigned i = 0; i < 4; i++)
        a.sum[i] = a.square[i] = _mm_setzero_pd();
    return a;
}

INLINE void sse_pair(struct sse *a, unsigned i, __m128d x)
{
    __m128d d = _mm_sub_pd(x, a->shift);
    a->sum[i] = _mm_add_pd(a->sum[i], d);
    a->square[i] = _mm_add_pd(a->square[i], _mm_mul_pd(d, d));
}

INLINE void sse_end(const struct sse *a, __m128d min, __m128d max, struct moment_sums *out)
{
    double low[2], high[2];
    for (unsigned i = 0; i < 4; i++) {
        _mm_storeu_pd(out->sum + 2 * i, a->sum[i]);
        _mm_storeu_pd(out->square + 2 * i, a->square[i]);
    }
    _mm_storeu_pd(low, min);
    _mm_storeu_pd(high, max);
    out->min = get_least(low, 2);
    out->max = max_of(high, 2);
}

INLINE __m128d sse_load_pd(const unsigned char *p) { return _mm_castsi128_pd(sse_load(p)); }

static void sse_f64(const unsigned char *p, size_t n, double shift, struct moment_sums *out)
{
    struct sse a = sse_begin(shift);
    __m128d min = _mm_set1_pd((double)INFINITY), max = _mm_set1_pd(-(double)INFINITY);
    __m128i zeros = _mm_setzero_si128();
    size_t left = n;
    for (; left >= 8; left -= 8, p += 64) {
        for (unsigned i = 0; i < 4; i++) {
            __m128d x = sse_load_pd(p + (size_t)16 * i);
            min = _mm_min_pd(min, x);
            max = _mm_max_pd(max, x);
            zeros = _mm_sub_epi64(zeros, _mm_castpd_si128(_mm_cmpeq_pd(x, _mm_setzero_pd())));
            sse_pair(&a, i, x);
        }
    }
    uint64_t z[2];
    _mm_storeu_si128((__m128i *)(void *)z, zeros);
    out->zeros = z[0] + z[1];
    sse_end(&a, min, max, out);
    add_tail(CKPT_DT_F64, p, left, shift, out);
}

struct sse_floats {
    struct sse a;
    __m128 min, max;
    __m128i zeros;
};

INLINE struct sse_floats sse_floats_begin(double shift)
{
    return (struct sse_floats){sse_begin(shift), _mm_set1_ps(INFINITY), _mm_set1_ps(-INFINITY),
                               _mm_setzero_si128()};
}

/* sse_four - four floats, in lanes 2 I to 2 I + 3. */
INLINE void sse_four(struct sse_floats *f, unsigned i, __m128 x)
{
    f->min = _mm_min_ps(f->min, x);
    f->max = _mm_max_ps(f->max, x);
    f->zeros = _mm_sub_epi32(f->zeros, _mm_castps_si128(_mm_cmpeq_ps(x, _mm_setzero_ps())));
    sse_pair(&f->a, i, _mm_cvtps_pd(x));
    sse_pair(&f->a, i + 1, _mm_cvtps_pd(_mm_movehl_ps(x, x)));
}

INLINE void sse_floats_end(const struct sse_floats *f, struct moment_sums *out)
{
    uint32_t z[4];
    _mm_storeu_si128((__m128i *)(void *)z, f->zeros);
    out->zeros = (uint64_t)z[0] + z[1] + z[2] + z[3];
    sse_end(&f->a, _mm_cvtps_pd(_mm_min_ps(f->min, _mm_movehl_ps(f->min, f->min))),
            _mm_cvtps_pd(_mm_max_ps(f->max, _mm_movehl_ps(f->max, f->max))), out);
}

/* sse_halves - four float16, each in the low 16 bits of a lane, as floats. Rebiasing the exponent is
 * right except for exponent 0, which a subtraction corrects, and 31. */
INLINE __m128 sse_halves(__m128i h)
{
    const __m128i bias = _mm_set1_epi32(112 << 23), tiny = _mm_set1_epi32(113 << 23);
    __m128i sign = _mm_slli_epi32(_mm_and_si128(h, _mm_set1_epi32(0x8000)), 16);
    __m128i rest = _mm_slli_epi32(_mm_and_si128(h, _mm_set1_epi32(0x7fff)), 13);
    __m128i x = _mm_add_epi32(rest, bias);
    __m128i small = _mm_cmplt_epi32(rest, _mm_set1_epi32(1 << 23));
    __m128i large = _mm_cmpgt_epi32(rest, _mm_set1_epi32((31 << 23) - 1));
    __m128 mended = _mm_sub_ps(_mm_castsi128_ps(_mm_add_epi32(rest, tiny)), _mm_castsi128_ps(tiny));
    x = _mm_add_epi32(x, _mm_and_si128(large, bias));
    x = _mm_or_si128(_mm_andnot_si128(small, x), _mm_and_si128(small, _mm_castps_si128(mended)));
    return _mm_castsi128_ps(_mm_or_si128(x, sign));
}

static void sse_f32(const unsigned char *p, size_t n, double shift, struct moment_sums *out)
{
    struct sse_floats f = sse_floats_begin(shift);
    size_t left = n;
    for (; left >= 8; left -= 8, p += 32) {
        sse_four(&f, 0, _mm_castsi128_ps(sse_load(p)));
        sse_four(&f, 2, _mm_castsi128_ps(sse_load(p + 16)));
    }
    sse_floats_end(&f, out);
    add_tail(CKPT_DT_F32, p, left, shift, out);
}

static void sse_f16(const unsigned char *p, size_t n, double shift, struct moment_sums *out)
{
    struct sse_floats f = sse_floats_begin(shift);
    size_t left = n;
    for (; left >= 8; left -= 8, p += 16) {
        __m128i x = sse_load(p), zero = _mm_setzero_si128();
        sse_four(&f, 0, sse_halves(_mm_unpacklo_epi16(x, zero)));
        sse_four(&f, 2, sse_halves(_mm_unpackhi_epi16(x, zero)));
    }
    sse_floats_end(&f, out);
    add_tail(CKPT_DT_F16, p, left, shift, out);
}

static void sse_bf16(const unsigned char *p, size_t n, double shift, struct moment_sums *out)
{
    struct sse_floats f = sse_floats_begin(shift);
    size_t left = n;
    for (; left >= 8; left -= 8, p += 16) {
        __m128i x = sse_load(p), zero = _mm_setzero_si128();
        sse_four(&f, 0, _mm_castsi128_ps(_mm_unpacklo_epi16(zero, x)));
        sse_four(&f, 2, _mm_castsi128_ps(_mm_unpackhi_epi16(zero, x)));
    }
    sse_floats_end(&f, out);
    add_tail(CKPT_DT_BF16, p, left, shift, out);
}

/* ---------------------------------------------------------------------- AVX2 */

struct avx {
    __m256d sum[2], square[2], shift;
};

AVX INLINE struct avx avx_begin(double shift)
{
    __m256d zero = _mm256_setzero_pd();
    return (struct avx){{zero, zero}, {zero, zero}, _mm256_set1_pd(shift)};
}

AVX INLINE void avx_add_4(struct avx *a, unsigned i, __m256d x)
{
    __m256d d = _mm256_sub_pd(x, a->shift);
    a->sum[i] = _mm256_add_pd(a->sum[i], d);
    a->square[i] = _mm256_add_pd(a->square[i], _mm256_mul_pd(d, d));
}

AVX INLINE void avx_end(const struct avx *a, __m256d min, __m256d max, struct moment_sums *out)
{
    double low[4], high[4];
    for (unsigned i = 0; i < 2; i++) {
        _mm256_storeu_pd(out->sum + 4 * i, a->sum[i]);
        _mm256_storeu_pd(out->square + 4 * i, a->square[i]);
    }
    _mm256_storeu_pd(low, min);
    _mm256_storeu_pd(high, max);
    out->min = get_least(low, 4);
    out->max = max_of(high, 4);
}

AVX static void avx_f64(const unsigned char *p, size_t n, double shift, struct moment_sums *out)
{
    struct avx a = avx_begin(shift);
    __m256d min = _mm256_set1_pd((double)INFINITY), max = _mm256_set1_pd(-(double)INFINITY);
    __m256i zeros = _mm256_setzero_si256();
    size_t left = n;
    for (; left >= 8; left -= 8, p += 64) {
        for (unsigned i = 0; i < 2; i++) {
            __m256d x = _mm256_castsi256_pd(_mm256_loadu_si256((const void *)(p + (size_t)32 * i)));
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
    add_tail(CKPT_DT_F64, p, left, shift, out);
}

struct avx_floats {
    struct avx a;
    __m256 min, max;
    __m256i zeros;
};

AVX INLINE struct avx_floats avx_floats_begin(double shift)
{
    return (struct avx_floats){avx_begin(shift), _mm256_set1_ps(INFINITY), _mm256_set1_ps(-INFINITY),
                               _mm256_setzero_si256()};
}

/* avx_add_8 - adds eight floats. Zeros are found by integer comparison: clang 14 would compare converted
 * float16 numbers one by one. */
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

AVX static void avx_f32(const unsigned char *p, size_t n, double shift, struct moment_sums *out)
{
    struct avx_floats f = avx_floats_begin(shift);
    size_t left = n;
    for (; left >= 8; left -= 8, p += 32)
        avx_add_8(&f, _mm256_castsi256_ps(_mm256_loadu_si256((const void *)p)));
    avx_floats_end(&f, out);
    add_tail(CKPT_DT_F32, p, left, shift, out);
}

AVX static void avx_f16(const unsigned char *p, size_t n, double shift, struct moment_sums *out)
{
    struct avx_floats f = avx_floats_begin(shift);
    size_t left = n;
    for (; left >= 8; left -= 8, p += 16)
        avx_add_8(&f, _mm256_cvtph_ps(sse_load(p)));
    avx_floats_end(&f, out);
    add_tail(CKPT_DT_F16, p, left, shift, out);
}

AVX static void avx_bf16(const unsigned char *p, size_t n, double shift, struct moment_sums *out)
{
    struct avx_floats f = avx_floats_begin(shift);
    size_t left = n;
    for (; left >= 8; left -= 8, p += 16)
        avx_add_8(&f, avx_load_bf16(p));
    avx_floats_end(&f, out);
    add_tail(CKPT_DT_BF16, p, left, shift, out);
}

/* ------------------------------------------------------------------ choosing */

static const struct moments_kernels sse = {"SSE2", sse_f64, sse_f64, sse_f32, sse_f16, sse_bf16};
static const struct moments_kernels avx = {"AVX2", avx_f64, avx_f64, avx_f32, avx_f16, avx_bf16};

const struct moments_kernels *moments_simd(unsigned i)
{
    return i == 0 ? &sse : i == 1 && simd_avx() ? &avx : NULL;
}

const struct moments_kernels *moments_best(void) { return simd_avx() ? &avx : &sse; }

#else

const struct moments_kernels *moments_simd(unsigned i)
{
    (void)i;
    return NULL;
}

const struct moments_kernels *moments_best(void) { return &moments_scalar; }

#endif
