/* The vector kernel must compute the same bits of moments as the scalar one, which is compared with a
 * computation in long double. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "core/moments.h"
#include "core/number.h"
#include "noise.h"
#include "unit.h"

static bool same_as_scalar(moments_kernel *k, ckpt_dtype dt, const unsigned char *p, size_t n)
{
    struct moments a = {0}, b = {0};
    moments_add_by(moments_scalar, &a, dt, p, n);
    moments_add_by(k, &b, dt, p, n);
    return memcmp(&a, &b, sizeof a) == 0;
}

static bool kernels_agree(ckpt_dtype dt, const unsigned char *p, size_t n)
{
    return same_as_scalar(moments_best(), dt, p, n);
}

static void kernels_agree_on_any_length_and_alignment(void)
{
    static unsigned char bytes[8 * 260 + 8];
    for (size_t d = 0; d < NOISE_DTYPES; d++) {
        size_t width = ckpt_dtype_bits(noise_dtypes[d]) / 8, wrong = 0;
        for (size_t n = 0; n <= 256; n++) {
            size_t shift = n % 7;
            noise_fill(noise_dtypes[d], bytes + shift, n, n % 3 != 0);
            unsigned char *at = unit_guard(bytes, shift + n * width);
            wrong += !kernels_agree(noise_dtypes[d], at + shift, n);
            unit_guard_free(at, shift + n * width);
        }
        CU_ASSERT_EQUAL(wrong, 0);
    }
}

static void kernels_agree_at_block_ends(void)
{
    size_t most = 3 * MOMENTS_BLOCK + 9;
    unsigned char *bytes = malloc(8 * most);
    for (size_t d = 0; d < NOISE_DTYPES; d++) {
        noise_fill(noise_dtypes[d], bytes, most, true);
        for (size_t n = MOMENTS_BLOCK - 1; n <= most; n += MOMENTS_BLOCK / 2 + 1)
            CU_ASSERT(kernels_agree(noise_dtypes[d], bytes, n));
        noise_fill(noise_dtypes[d], bytes, most, false);
        CU_ASSERT(kernels_agree(noise_dtypes[d], bytes, most));
    }
    free(bytes);
}

/* ---------------------------------------------------------------- patterns */

/* Each of the 2^16 patterns is repeated 16 times, in a block of its own. */
static void kernels_agree_on_every_float16(void)
{
    unsigned char bytes[32];
    size_t wrong = 0;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        for (size_t i = 0; i < 16; i++) {
            bytes[2 * i] = (unsigned char)bits;
            bytes[2 * i + 1] = (unsigned char)(bits >> 8);
        }
        wrong += !kernels_agree(CKPT_DT_F16, bytes, 16);
        wrong += !kernels_agree(CKPT_DT_BF16, bytes, 16);
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

static void kernels_agree_on_2_to_the_24_floats(void)
{
    static unsigned char bytes[4 * MOMENTS_BLOCK];
    size_t wrong = 0;
    for (uint32_t i = 0; i < 1u << 24; i++) {
        uint32_t bits = i * 256u + (i >> 7 & 255u);
        for (size_t k = 0; k < 4; k++)
            bytes[i % MOMENTS_BLOCK * 4 + k] = (unsigned char)(bits >> (8 * k));
        if (i % MOMENTS_BLOCK == MOMENTS_BLOCK - 1)
            wrong += !kernels_agree(CKPT_DT_F32, bytes, MOMENTS_BLOCK);
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

/* --------------------------------------------------------------- reference */

struct reference {
    uint64_t finite, nan, inf, zeros;
    long double min, max, mean, m2, squares;
};

static struct reference compute_reference(const double *x, size_t n)
{
    struct reference t = {.min = INFINITY, .max = -INFINITY};
    for (size_t i = 0; i < n; i++) {
        t.nan += isnan(x[i]) != 0;
        t.inf += isinf(x[i]) != 0;
        if (!isfinite(x[i]))
            continue;
        t.finite++;
        t.zeros += x[i] == 0;
        t.min = x[i] < t.min ? x[i] : t.min;
        t.max = x[i] > t.max ? x[i] : t.max;
        t.mean += x[i];
        t.squares += (long double)x[i] * x[i];
    }
    t.mean /= t.finite ? t.finite : 1;
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i]))
            t.m2 += (x[i] - t.mean) * (x[i] - t.mean);
    return t;
}

static long double tolerance = 1e-11L;

static bool is_near(double got, long double want, long double scale)
{
    return fabsl(got - want) <= tolerance * scale + (long double)DBL_MIN;
}

/* check_moments - M must equal the moments of the N elements at P, computed in long double. */
static void check_moments(const struct moments *m, ckpt_dtype dt, const unsigned char *p, size_t n)
{
    double *x = malloc((n * 2 + 1) * sizeof *x);
    struct reference t = compute_reference(x, moments_decode(dt, p, n, x));
    free(x);
    CU_ASSERT(m->finite == t.finite && m->nan == t.nan && m->inf == t.inf && m->zeros == t.zeros);
    if (!t.finite)
        return;
    CU_ASSERT(m->min == (double)t.min && m->max == (double)t.max && !(m->min == 0 && signbit(m->min)));
    CU_ASSERT(is_near(m->mean, t.mean, sqrtl(t.squares / t.finite)));
    CU_ASSERT(is_near(m->m2, t.m2, t.m2));
    CU_ASSERT(is_near(m->squares, t.squares, t.squares));
    CU_ASSERT(m->mean >= m->min && m->mean <= m->max);
}

/* check_bytes - checks the moments of the N elements at P, and that kernels agree on them. */
static void check_bytes(ckpt_dtype dt, const void *p, size_t n)
{
    struct moments m = {0};
    moments_add(&m, dt, p, n);
    check_moments(&m, dt, p, n);
    CU_ASSERT(number_is_complex(dt) || kernels_agree(dt, p, n));
}

/* check_numbers - calls check_bytes() for N numbers X in host byte order. */
static void check_numbers(ckpt_dtype dt, void *x, size_t n)
{
    unit_to_host_order(x, n, dtype_info(dt)->block_bytes);
    check_bytes(dt, x, n);
    unit_to_host_order(x, n, dtype_info(dt)->block_bytes);
}

static void every_dtype_is_right(void)
{
    static unsigned char bytes[16 * 5000];
    for (ckpt_dtype dt = CKPT_DT_F64; dt < CKPT_DT_NP; dt++) {
        size_t n = 5000 / 4 * 4;
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (unsigned char)(noise() >> 16);
        /* larger exponents are tested in the_largest_doubles_may_overflow() */
        for (size_t i = 7; i < sizeof bytes && (dt == CKPT_DT_F64 || dt == CKPT_DT_C128); i += 8)
            bytes[i] = (unsigned char)((bytes[i] & 0x80) | 0x3f);
        check_bytes(dt, bytes, n);
        check_bytes(dt, bytes, 4);
        check_bytes(dt, bytes, 0);
    }
    struct moments none = {0}, m = {0};
    moments_add(&m, CKPT_DT_NP, bytes, 7);
    moments_add(&m, CKPT_DT_NONE, bytes, 7);
    CU_ASSERT(memcmp(&m, &none, sizeof m) == 0);
}

/* Some digits may be lost if the spread is a billionth of the mean, or if the first element is an outlier. */
static void a_small_spread_is_accurate(void)
{
    tolerance = 1e-9L;
    static double x[10000];
    static float y[10000];
    for (size_t i = 0; i < 10000; i++) {
        x[i] = 1e9 + (double)(noise() >> 40) * 0x1p-24;
        y[i] = 4096.0f + (float)(noise() & 3) * 0x1p-11f;
    }
    check_numbers(CKPT_DT_F64, x, 10000);
    check_numbers(CKPT_DT_F32, y, 10000);
    x[0] = 1e300; /* all differences are from the first element */
    y[0] = 1e38f;
    check_numbers(CKPT_DT_F32, y, 10000);
    x[0] = 1e60;
    check_numbers(CKPT_DT_F64, x, 10000);
    tolerance = 1e-11L;
}

/* add_numbers - calls moments_add() for N numbers X in host byte order. */
static void add_numbers(struct moments *m, ckpt_dtype dt, const void *x, size_t n)
{
    const size_t width = dtype_info(dt)->block_bytes;
    unsigned char *bytes = malloc(n * width);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    memcpy(bytes, x, n * width);
    unit_to_host_order(bytes, n, width);
    moments_add(m, dt, bytes, n);
    free(bytes);
}

static void equal_elements_have_no_spread(void)
{
    static double x[9001];
    for (size_t n = 1; n <= 9001; n += 1500) {
        struct moments m = {0};
        for (size_t i = 0; i < n; i++)
            x[i] = 0.1;
        add_numbers(&m, CKPT_DT_F64, x, n);
        CU_ASSERT(m.mean == 0.1 && m.m2 == 0 && m.min == 0.1 && m.max == 0.1 && m.finite == n);
    }
}

static void small_integers_are_exact(void)
{
    static const int32_t x[] = {1, 2, 2, -4};
    static int32_t many[10000];
    struct moments m = {0}, all = {0};
    add_numbers(&m, CKPT_DT_I32, x, 4);
    CU_ASSERT(m.squares == 25 && m.mean == 0.25 && m.m2 == 24.75 && m.min == -4 && m.max == 2);
    for (int32_t i = 0; i < 10000; i++)
        many[i] = i;
    add_numbers(&all, CKPT_DT_I32, many, 10000);
    CU_ASSERT(all.mean == 4999.5 && all.squares == 333283335000.0 && all.zeros == 1);
}

static void elements_may_all_be_infinite_or_nan(void)
{
    static const float x[] = {NAN, INFINITY, -INFINITY, -NAN}, zeros[] = {-0.0f, 0.0f, -0.0f};
    struct moments m = {0};
    check_bytes(CKPT_DT_F32, x, 4);
    add_numbers(&m, CKPT_DT_F32, x, 4);
    CU_ASSERT(m.finite == 0 && m.nan == 2 && m.inf == 2 && m.mean == 0 && m.squares == 0);
    add_numbers(&m, CKPT_DT_F32, zeros, 3);
    CU_ASSERT(m.finite == 3 && m.zeros == 3 && !signbit(m.min) && !signbit(m.max) && !signbit(m.mean));
}

/* If squares overflow, the mean is still right, and the sums of squares are infinite. */
static void the_largest_doubles_may_overflow(void)
{
    static const double x[] = {DBL_MAX, -DBL_MAX, DBL_MAX, DBL_MAX}, same[] = {-DBL_MAX, -DBL_MAX, -DBL_MAX};
    struct moments m = {0}, s = {0};
    add_numbers(&m, CKPT_DT_F64, x, 4);
    CU_ASSERT(m.finite == 4 && m.inf == 0 && isinf(m.m2) && isinf(m.squares));
    CU_ASSERT_DOUBLE_EQUAL(m.mean / DBL_MAX, 0.5, 1e-15);
    add_numbers(&s, CKPT_DT_F64, same, 3);
    CU_ASSERT(s.mean == -DBL_MAX && s.m2 == 0 && isinf(s.squares));
    moments_merge(&m, &s);
    CU_ASSERT(m.finite == 7 && isinf(m.m2) && m.min == -DBL_MAX && m.max == DBL_MAX);
    CU_ASSERT_DOUBLE_EQUAL(m.mean / DBL_MAX, -1.0 / 7, 1e-15);
    double large[] = {1e160, 3e160};
    struct moments l = {0};
    add_numbers(&l, CKPT_DT_F64, large, 2);
    CU_ASSERT_DOUBLE_EQUAL(l.mean / 1e160, 2, 1e-15);
}

static void merged_parts_equal_the_whole(void)
{
    static float x[20000];
    struct moments parts = {0}, whole = {0}, none = {0};
    for (size_t i = 0; i < 20000; i++)
        x[i] = (float)(noise() >> 40) * 0x1p-24f - 0.25f;
    unit_to_host_order(x, 20000, sizeof *x);
    for (size_t i = 0; i < 20000; i += 1000) {
        struct moments m = {0};
        moments_add(&m, CKPT_DT_F32, (const unsigned char *)(x + i), 1000);
        moments_merge(&parts, &m);
        moments_merge(&parts, &none);
    }
    check_moments(&parts, CKPT_DT_F32, (const unsigned char *)x, 20000);
    moments_add(&whole, CKPT_DT_F32, (const unsigned char *)x, MOMENTS_BLOCK);
    moments_add(&whole, CKPT_DT_F32, (const unsigned char *)(x + MOMENTS_BLOCK), 20000 - MOMENTS_BLOCK);
    struct moments once = {0};
    moments_add(&once, CKPT_DT_F32, (const unsigned char *)x, 20000);
    CU_ASSERT(memcmp(&once, &whole, sizeof once) == 0);
}

static void complex_numbers_count_by_magnitude(void)
{
    static double z[][2] = {{3, -4}, {0, -0.0}, {INFINITY, NAN}, {-INFINITY, 1}, {3e200, 4e200}};
    static float y[][2] = {{3, -4}, {0, 2}};
    double x[5];
    unit_to_host_order(z, 10, sizeof **z);
    unit_to_host_order(y, 4, sizeof **y);
    CU_ASSERT_EQUAL(moments_decode(CKPT_DT_C128, (const unsigned char *)z, 5, x), 5);
    CU_ASSERT(x[0] == 5 && x[1] == 0 && isnan(x[2]) && isinf(x[3]));
    CU_ASSERT_DOUBLE_EQUAL(x[4] / 1e200, 5, 1e-14);
    struct moments m = {0};
    moments_add(&m, CKPT_DT_C64, (const unsigned char *)y, 2);
    CU_ASSERT(m.min == 2 && m.max == 5 && m.squares == 29 && m.finite == 2);
}

void suite_moments(void)
{
    UNIT(kernels_agree_on_any_length_and_alignment);
    UNIT(kernels_agree_at_block_ends);
    UNIT(kernels_agree_on_every_float16);
    UNIT(kernels_agree_on_2_to_the_24_floats);
    UNIT(every_dtype_is_right);
    UNIT(a_small_spread_is_accurate);
    UNIT(equal_elements_have_no_spread);
    UNIT(small_integers_are_exact);
    UNIT(elements_may_all_be_infinite_or_nan);
    UNIT(the_largest_doubles_may_overflow);
    UNIT(merged_parts_equal_the_whole);
    UNIT(complex_numbers_count_by_magnitude);
}
