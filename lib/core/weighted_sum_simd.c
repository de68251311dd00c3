/* weighted_sum_simd.c - the kernel of weighted_sum.h for AVX2. Products are rounded before they are added. */
#include "core/number.h"
#include "core/simd.h"
#include "core/weighted_sum.h"

#if defined(__x86_64__)

/* sum_tail - computes the numbers from FIRST on, fewer than 8, by scalar code. */
static void sum_tail(const struct weighted_sum *sum, size_t width, size_t first, size_t count, double *out)
{
    for (size_t i = first; i < count; i++) {
        double total = 0;
        for (size_t k = 0; k < sum->n; k++) {
            double x, part;
            const unsigned char *in = (const unsigned char *)&x;
            number_decode(sum->dt, sum->in[k] + i * width, 1, &x);
            const struct weighted_sum one = {.in = &in,
                                             .n = 1,
                                             .weights = &sum->weights[k],
                                             .base = sum->base ? &sum->base[i] : NULL,
                                             .divisor = 1};
            weighted_sum_scalar(&one, 1, &part);
            total = k ? total + part : part;
        }
        out[i] = sum->divisor == 1 ? total : total / sum->divisor;
    }
}

/* Eight numbers. */
struct eight {
    __m256d low, high;
};

/* load_eight - loads eight elements of DT, each of WIDTH bytes, from number FIRST of array NUMBER, less the
 * base. */
AVX INLINE struct eight load_eight(const struct weighted_sum *sum, ckpt_dtype dt, size_t width, size_t number,
                                   size_t first)
{
    const unsigned char *in = sum->in[number] + first * width;
    struct eight x;
    if (dt == CKPT_DT_F64) {
        x = (struct eight){avx_load_doubles(in), avx_load_doubles(in + 32)};
    } else {
        __m256 floats = avx_load_floats(dt, in);
        x = (struct eight){_mm256_cvtps_pd(_mm256_castps256_ps128(floats)),
                           _mm256_cvtps_pd(_mm256_extractf128_ps(floats, 1))};
    }
    if (sum->base) {
        x.low = _mm256_sub_pd(x.low, _mm256_loadu_pd(sum->base + first));
        x.high = _mm256_sub_pd(x.high, _mm256_loadu_pd(sum->base + first + 4));
    }
    __m256d weight = _mm256_set1_pd(sum->weights[number]);
    return (struct eight){_mm256_mul_pd(weight, x.low), _mm256_mul_pd(weight, x.high)};
}

AVX INLINE void sum_elements(const struct weighted_sum *sum, ckpt_dtype dt, size_t width, size_t count,
                             double *out)
{
    const __m256d divisor = _mm256_set1_pd(sum->divisor);
    const bool divides = sum->divisor != 1;
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        struct eight total = load_eight(sum, dt, width, 0, i);
        for (size_t k = 1; k < sum->n; k++) {
            struct eight x = load_eight(sum, dt, width, k, i);
            total = (struct eight){_mm256_add_pd(total.low, x.low), _mm256_add_pd(total.high, x.high)};
        }
        if (divides)
            total = (struct eight){_mm256_div_pd(total.low, divisor), _mm256_div_pd(total.high, divisor)};
        _mm256_storeu_pd(out + i, total.low);
        _mm256_storeu_pd(out + i + 4, total.high);
    }
    sum_tail(sum, width, i, count, out);
}

AVX static void weighted_sum_avx(const struct weighted_sum *sum, size_t count, double *out)
{
    switch (sum->dt) {
    case CKPT_DT_F64: sum_elements(sum, CKPT_DT_F64, 8, count, out); break;
    case CKPT_DT_F32: sum_elements(sum, CKPT_DT_F32, 4, count, out); break;
    case CKPT_DT_F16: sum_elements(sum, CKPT_DT_F16, 2, count, out); break;
    default: sum_elements(sum, CKPT_DT_BF16, 2, count, out);
    }
}

weighted_sum_kernel *weighted_sum_best_kernel(void)
{
    return simd_has_avx() ? weighted_sum_avx : weighted_sum_scalar;
}

#else

weighted_sum_kernel *weighted_sum_best_kernel(void) { return weighted_sum_scalar; }

#endif
