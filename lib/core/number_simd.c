/* number_simd.c - decodes floats to doubles on AVX2 and F16C. */
#include "core/number.h"
#include "core/simd.h"

#if defined(__x86_64__)

/* decode_floats - decodes COUNT / 8 * 8 elements of DT, each of WIDTH bytes. Returns how many. */
AVX INLINE size_t decode_floats(ckpt_dtype dt, size_t width, const unsigned char *in, size_t count,
                                double *out)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256 x = avx_load_floats(dt, in + i * width); /* before OUT is written: IN may be at its end */
        _mm256_storeu_pd(out + i, _mm256_cvtps_pd(_mm256_castps256_ps128(x)));
        _mm256_storeu_pd(out + i + 4, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));
    }
    return i;
}

AVX static size_t decode_avx(ckpt_dtype dt, const unsigned char *in, size_t count, double *out)
{
    switch (dt) {
    case CKPT_DT_F32: return decode_floats(CKPT_DT_F32, 4, in, count, out);
    case CKPT_DT_F16: return decode_floats(CKPT_DT_F16, 2, in, count, out);
    default: return decode_floats(CKPT_DT_BF16, 2, in, count, out);
    }
}

size_t number_decode_fast(ckpt_dtype dt, const unsigned char *in, size_t count, double *out)
{
    bool is_float = dt == CKPT_DT_F32 || dt == CKPT_DT_F16 || dt == CKPT_DT_BF16;
    return is_float && simd_has_avx() ? decode_avx(dt, in, count, out) : 0;
}

#else

size_t number_decode_fast(ckpt_dtype dt, const unsigned char *in, size_t count, double *out)
{
    (void)dt;
    (void)in;
    (void)count;
    (void)out;
    return 0;
}

#endif
