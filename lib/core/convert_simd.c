/* convert_simd.c - the kernels of convert.c for AVX2 and F16C, chosen at run time. Each leaves the last
 * elements to the scalar kernel and gives the same bits. */
#include "core/convert.h"
#include "core/simd.h"

#if defined(__x86_64__)

#define ABS32 0x7fffffff
#define INF32 0x7f800000

AVX INLINE __m256i load_256(const unsigned char *bytes)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)bytes);
}
AVX INLINE void store_256(unsigned char *bytes, __m256i lanes)
{
    _mm256_storeu_si256((__m256i *)(void *)bytes, lanes);
}

/* select_lanes - returns YES where MASK is set, else NO. */
AVX INLINE __m256i select_lanes(__m256i mask, __m256i yes, __m256i no)
{
    return _mm256_blendv_epi8(no, yes, mask);
}

AVX static void f32_to_f16(const unsigned char *in, size_t count, unsigned char *out)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m128i a = _mm256_cvtps_ph(_mm256_castsi256_ps(load_256(in + 4 * i)), _MM_FROUND_TO_NEAREST_INT);
        __m128i b = _mm256_cvtps_ph(_mm256_castsi256_ps(load_256(in + 4 * i + 32)),
                                    _MM_FROUND_TO_NEAREST_INT);
        store_256(out + 2 * i, _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1));
    }
    convert_scalar.f32_to_f16(in + 4 * i, count - i, out + 2 * i);
}

/* bfloat16_lanes - rounds eight floats that are not NaN to bfloat16. */
AVX INLINE __m256i bfloat16_lanes(__m256i lanes)
{
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(lanes, 16), _mm256_set1_epi32(1));
    __m256i rounding = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    return _mm256_srli_epi32(_mm256_add_epi32(lanes, rounding), 16);
}

/* bfloat16_or_nan - rounds as bfloat16_lanes does, and keeps NaN as NaN. */
AVX INLINE __m256i bfloat16_or_nan(__m256i lanes)
{
    __m256i nan = _mm256_cmpgt_epi32(_mm256_and_si256(lanes, _mm256_set1_epi32(ABS32)),
                                     _mm256_set1_epi32(INF32));
    __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(lanes, 16), _mm256_set1_epi32(0x40));
    return select_lanes(nan, quiet, bfloat16_lanes(lanes));
}

AVX static uint32_t f32_to_bf16(const unsigned char *in, size_t count, unsigned char *out)
{
    const __m256i abs = _mm256_set1_epi32(ABS32), inf = _mm256_set1_epi32(INF32);
    __m256i top = _mm256_setzero_si256();
    uint32_t lanes[8];
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m256i x = load_256(in + 4 * i), y = load_256(in + 4 * i + 32);
        __m256i larger = _mm256_max_epi32(_mm256_and_si256(x, abs), _mm256_and_si256(y, abs));
        __m256i r = _mm256_packus_epi32(bfloat16_lanes(x), bfloat16_lanes(y));
        top = _mm256_max_epi32(top, larger);
        if (_mm256_movemask_epi8(_mm256_cmpgt_epi32(larger, inf))) /* there is a NaN */
            r = _mm256_packus_epi32(bfloat16_or_nan(x), bfloat16_or_nan(y));
        store_256(out + 2 * i, _mm256_permute4x64_epi64(r, 0xd8));
    }
    store_256((unsigned char *)lanes, top);
    uint32_t largest = convert_scalar.f32_to_bf16(in + 4 * i, count - i, out + 2 * i);
    for (unsigned k = 0; k < 8; k++)
        largest = lanes[k] > largest ? lanes[k] : largest;
    return largest;
}

/* f8_lanes - rounds eight floats as f8_from_float in convert.c does. */
AVX INLINE __m256i f8_lanes(const struct f8_format *to, __m256i lanes)
{
    const __m256i zero = _mm256_setzero_si256(), sign_bit = _mm256_set1_epi32(0x80);
    __m256i sign = _mm256_and_si256(_mm256_srli_epi32(lanes, 24), sign_bit);
    __m256i a = _mm256_and_si256(lanes, _mm256_set1_epi32(ABS32));
    __m128i shift = _mm_cvtsi32_si128((int)to->shift);
    __m256i odd = _mm256_and_si256(_mm256_srl_epi32(a, shift), _mm256_set1_epi32(1));
    __m256i rounding = _mm256_set1_epi32((int)(to->rebias + (1u << (to->shift - 1)) - 1u));
    __m256i r = _mm256_srl_epi32(_mm256_add_epi32(_mm256_add_epi32(a, rounding), odd), shift);
    __m256i magic = _mm256_set1_epi32((int)to->magic);
    __m256 sum = _mm256_add_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(magic));
    __m256i small = _mm256_sub_epi32(_mm256_castps_si256(sum), magic);
    r = select_lanes(_mm256_cmpgt_epi32(_mm256_set1_epi32((int)to->min_normal), a), small, r);
    if (to->no_minus_zero)
        sign = _mm256_andnot_si256(_mm256_cmpeq_epi32(r, zero), sign);
    r = _mm256_or_si256(r, sign);
    sign = _mm256_and_si256(_mm256_srli_epi32(lanes, 24), _mm256_set1_epi32((int)to->sign_mask));
    __m256i over = _mm256_or_si256(sign, _mm256_set1_epi32((int)to->overflow_to));
    __m256i nan = _mm256_or_si256(sign, _mm256_set1_epi32((int)to->nan));
    r = select_lanes(_mm256_cmpgt_epi32(a, _mm256_set1_epi32((int)to->overflow_start - 1)), over, r);
    return select_lanes(_mm256_cmpgt_epi32(a, _mm256_set1_epi32(INF32)), nan, r);
}

AVX static void f32_to_f8(const struct f8_format *to, const unsigned char *in, size_t count,
                          unsigned char *out)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7); /* undoes the order of two packus */
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        const unsigned char *p = in + 4 * i;
        __m256i a = _mm256_packus_epi32(f8_lanes(to, load_256(p)), f8_lanes(to, load_256(p + 32)));
        __m256i b = _mm256_packus_epi32(f8_lanes(to, load_256(p + 64)), f8_lanes(to, load_256(p + 96)));
        store_256(out + i, _mm256_permutevar8x32_epi32(_mm256_packus_epi16(a, b), order));
    }
    convert_scalar.f32_to_f8(to, in + 4 * i, count - i, out + i);
}

AVX static void f16_to_f32(const unsigned char *in, size_t count, unsigned char *out)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m128i h = _mm_loadu_si128((const __m128i *)(const void *)(in + 2 * i));
        store_256(out + 4 * i, _mm256_castps_si256(_mm256_cvtph_ps(h)));
    }
    convert_scalar.f16_to_f32(in + 2 * i, count - i, out + 4 * i);
}

AVX static void bf16_to_f32(const unsigned char *in, size_t count, unsigned char *out)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m128i h = _mm_loadu_si128((const __m128i *)(const void *)(in + 2 * i));
        store_256(out + 4 * i, _mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
    }
    convert_scalar.bf16_to_f32(in + 2 * i, count - i, out + 4 * i);
}

AVX static void f64_to_f32(const unsigned char *in, size_t count, unsigned char *out)
{
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        __m128 f = _mm256_cvtpd_ps(_mm256_castsi256_pd(load_256(in + 8 * i)));
        _mm_storeu_si128((__m128i *)(void *)(out + 4 * i), _mm_castps_si128(f));
    }
    convert_scalar.f64_to_f32(in + 8 * i, count - i, out + 4 * i);
}

/* odd_floats - returns the four doubles as odd_float_from_double in convert.c does. */
AVX INLINE __m128i odd_floats(__m256d exact)
{
    const __m256d sign = _mm256_set1_pd(-0.0);
    const __m256i even_lanes = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6); /* the low halves of 64 bits */
    __m128 nearest = _mm256_cvtpd_ps(exact);
    __m256d rounded = _mm256_cvtps_pd(nearest);
    __m256d differs = _mm256_cmp_pd(rounded, exact, _CMP_NEQ_OQ);
    __m256d exceeds = _mm256_cmp_pd(_mm256_andnot_pd(sign, rounded), _mm256_andnot_pd(sign, exact),
                                    _CMP_GT_OQ);
    __m128i is_odd = _mm256_castsi256_si128(
        _mm256_permutevar8x32_epi32(_mm256_castpd_si256(differs), even_lanes));
    __m128i minus_one = _mm256_castsi256_si128(
        _mm256_permutevar8x32_epi32(_mm256_castpd_si256(exceeds), even_lanes));
    return _mm_or_si128(_mm_add_epi32(_mm_castps_si128(nearest), minus_one), _mm_srli_epi32(is_odd, 31));
}

AVX static void f64_to_odd_f32(const unsigned char *in, size_t count, unsigned char *out)
{
    size_t i = 0;
    for (; i + 4 <= count; i += 4)
        _mm_storeu_si128((__m128i *)(void *)(out + 4 * i),
                         odd_floats(_mm256_castsi256_pd(load_256(in + 8 * i))));
    convert_scalar.f64_to_odd_f32(in + 8 * i, count - i, out + 4 * i);
}

AVX static void unify_nan(unsigned char *doubles, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256d x = _mm256_castsi256_pd(load_256(doubles + 8 * i)),
                y = _mm256_castsi256_pd(load_256(doubles + 8 * i + 32));
        if (_mm256_movemask_pd(_mm256_cmp_pd(x, y, _CMP_UNORD_Q))) /* there is a NaN */
            convert_scalar.unify_nan(doubles + 8 * i, 8);
    }
    convert_scalar.unify_nan(doubles + 8 * i, count - i);
}

/* Signed comparisons are right: HIGH is at most INF32 + 1. Lanes cannot overflow: COUNT is at most 2^32. */
AVX static uint64_t count_in_range(const unsigned char *in, size_t count, uint32_t low, uint32_t high)
{
    const __m256i below = _mm256_set1_epi32((int)low - 1), end = _mm256_set1_epi32((int)high);
    __m256i sum = _mm256_setzero_si256();
    size_t i = 0;
    uint32_t lanes[8];
    for (; i + 8 <= count; i += 8) {
        __m256i a = _mm256_and_si256(load_256(in + 4 * i), _mm256_set1_epi32(ABS32));
        __m256i hit = _mm256_and_si256(_mm256_cmpgt_epi32(a, below), _mm256_cmpgt_epi32(end, a));
        sum = _mm256_sub_epi32(sum, hit);
    }
    store_256((unsigned char *)lanes, sum);
    uint64_t found = convert_scalar.count_in_range(in + 4 * i, count - i, low, high);
    for (unsigned k = 0; k < 8; k++)
        found += lanes[k];
    return found;
}

static const struct convert_kernels convert_avx2 = {f32_to_f16,     f32_to_bf16, f32_to_f8,
                                                    f16_to_f32,     bf16_to_f32, f64_to_f32,
                                                    f64_to_odd_f32, unify_nan,   count_in_range};

const struct convert_kernels *convert_best_kernels(void)
{
    return simd_has_avx() ? &convert_avx2 : &convert_scalar;
}

#else

const struct convert_kernels *convert_best_kernels(void) { return &convert_scalar; }

#endif
