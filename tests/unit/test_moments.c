/* The vector kernel must compute the same bits of moments as the scalar one, which is compared with a
 * computation in long double. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "core/moments.h"
#include "core/number.h"
#include "pseudo_random.h"
#include "unit.h"

/* same_as_scalar - returns whether K and the scalar kernel compute the same bits for the N elements at P. */
static bool same_as_scalar(moments_kernel *k, ckpt_dtype dt, const unsigned char *p, size_t n)
{
    struct moments by_scalar = {0}, by_kernel = {0};
    moments_add_by(moments_scalar, &by_scalar, dt, p, n);
    moments_add_by(k, &by_kernel, dt, p, n);
    return memcmp(&by_scalar, &by_kernel, sizeof by_scalar) == 0;
}

static bool kernels_agree(ckpt_dtype dt, const unsigned char *p, size_t n)
{
    return same_as_scalar(moments_best_kernel(), dt, p, n);
}

static void kernels_agree_on_any_length_and_alignment(void)
{
    static unsigned char bytes[8 * 260 + 8];
    for (size_t d = 0; d < VECTOR_DTYPES; d++) {
        size_t width = ckpt_dtype_bits(vector_dtypes[d]) / 8, nwrong = 0;
        for (size_t n = 0; n <= 256; n++) {
            size_t shift = n % 7;
            fill_random_elements(vector_dtypes[d], bytes + shift, n, n % 3 != 0);
            unsigned char *copy = unit_guard(bytes, shift + n * width);
            nwrong += !kernels_agree(vector_dtypes[d], copy + shift, n);
            unit_guard_free(copy, shift + n * width);
        }
        CU_ASSERT_EQUAL(nwrong, 0);
    }
}

static void kernels_agree_at_block_ends(void)
{
    size_t longest = 3 * MOMENTS_BLOCK + 9; /* the last 9 elements do not fill a block */
    unsigned char *bytes = malloc(8 * longest);
    for (size_t d = 0; d < VECTOR_DTYPES; d++) {
        fill_random_elements(vector_dtypes[d], bytes, longest, true);
        for (size_t n = MOMENTS_BLOCK - 1; n <= longest; n += MOMENTS_BLOCK / 2 + 1)
            CU_ASSERT(kernels_agree(vector_dtypes[d], bytes, n));
        fill_random_elements(vector_dtypes[d], bytes, longest, false);
        CU_ASSERT(kernels_agree(vector_dtypes[d], bytes, longest));
    }
    free(bytes);
}

/* ---------------------------------------------------------------- patterns */

/* For each of the 2^16 patterns, a kernel is called with 16 elements of this pattern. */
static void kernels_agree_on_every_float16(void)
{
    unsigned char bytes[32];
    size_t nwrong = 0;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        for (size_t i = 0; i < 16; i++) {
            bytes[2 * i] = (unsigned char)bits;
            bytes[2 * i + 1] = (unsigned char)(bits >> 8);
        }
        nwrong += !kernels_agree(CKPT_DT_F16, bytes, 16);
        nwrong += !kernels_agree(CKPT_DT_BF16, bytes, 16);
    }
    CU_ASSERT_EQUAL(nwrong, 0);
}

static void kernels_agree_on_2_to_the_24_floats(void)
{
    static unsigned char bytes[4 * MOMENTS_BLOCK];
    size_t nwrong = 0;
    for (uint32_t i = 0; i < 1u << 24; i++) {
        uint32_t bits = i * 256u + (i >> 7 & 255u);
        for (size_t k = 0; k < 4; k++)
            bytes[i % MOMENTS_BLOCK * 4 + k] = (unsigned char)(bits >> (8 * k));
        if (i % MOMENTS_BLOCK == MOMENTS_BLOCK - 1)
            nwrong += !kernels_agree(CKPT_DT_F32, bytes, MOMENTS_BLOCK);
    }
    CU_ASSERT_EQUAL(nwrong, 0);
}

/* --------------------------------------------------------------- reference */

struct reference {
    uint64_t finite, nan, inf, zeros;
    long double min, max, mean, m2, squares;
};

static struct reference compute_reference(const double *x, size_t n)
{
    struct reference reference = {.min = INFINITY, .max = -INFINITY};
    for (size_t i = 0; i < n; i++) {
        reference.nan += isnan(x[i]) != 0;
        reference.inf += isinf(x[i]) != 0;
        if (!isfinite(x[i]))
            continue;
        reference.finite++;
        reference.zeros += x[i] == 0;
        reference.min = x[i] < reference.min ? x[i] : reference.min;
        reference.max = x[i] > reference.max ? x[i] : reference.max;
        reference.mean += x[i];
        reference.squares += (long double)x[i] * x[i];
    }
    reference.mean /= reference.finite ? reference.finite : 1;
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i]))
            reference.m2 += (x[i] - reference.mean) * (x[i] - reference.mean);
    return reference;
}

static long double tolerance = 1e-11L;

static bool is_near(double got, long double want, long double scale)
{
    return fabsl(got - want) <= tolerance * scale + (long double)DBL_MIN;
}

/* check_moments - checks that M equals the moments of the N elements at P, computed in long double. */
static void check_moments(const struct moments *m, ckpt_dtype dt, const unsigned char *p, size_t n)
{
    double *x = malloc((n * 2 + 1) * sizeof *x);
    struct reference want = compute_reference(x, moments_decode(dt, p, n, x));
    free(x);
    CU_ASSERT(m->finite == want.finite && m->nan == want.nan && m->inf == want.inf && m->zeros == want.zeros);
    if (!want.finite)
        return;
    CU_ASSERT(m->min == (double)want.min && m->max == (double)want.max && !(m->min == 0 && signbit(m->min)));
    CU_ASSERT(is_near(m->mean, want.mean, sqrtl(want.squares / want.finite)));
    CU_ASSERT(is_near(m->m2.value, want.m2, want.m2));
    CU_ASSERT(is_near(m->squares.value, want.squares, want.squares));
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

static void moments_of_every_dtype_are_right(void)
{
    static unsigned char bytes[16 * 5000];
    for (ckpt_dtype dt = CKPT_DT_F64; dt < CKPT_DT_NAMED; dt++) {
        size_t n = 5000; /* a multiple of 4: complete blocks of packed dtypes */
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (unsigned char)(next_random() >> 16);
        /* larger exponents are tested in the_largest_doubles_do_not_overflow() */
        for (size_t i = 7; i < sizeof bytes && (dt == CKPT_DT_F64 || dt == CKPT_DT_C128); i += 8)
            bytes[i] = (unsigned char)((bytes[i] & 0x80) | 0x3f);
        check_bytes(dt, bytes, n);
        check_bytes(dt, bytes, 4);
        check_bytes(dt, bytes, 0);
    }
    struct moments none = {0}, m = {0};
    moments_add(&m, CKPT_DT_NAMED, bytes, 7);
    moments_add(&m, CKPT_DT_NONE, bytes, 7);
    CU_ASSERT(memcmp(&m, &none, sizeof m) == 0);
}

/* Some digits may be inexact if the spread is a billionth of the mean, or if the first element is an
 * outlier. */
static void a_small_spread_is_accurate(void)
{
    tolerance = 1e-9L;
    static double doubles[10000];
    static float floats[10000];
    for (size_t i = 0; i < 10000; i++) {
        doubles[i] = 1e9 + (double)(next_random() >> 40) * 0x1p-24;
        floats[i] = 4096.0f + (float)(next_random() & 3) * 0x1p-11f;
    }
    check_numbers(CKPT_DT_F64, doubles, 10000);
    check_numbers(CKPT_DT_F32, floats, 10000);
    /* an outlier: the kernel sums up the differences from the first element */
    floats[0] = 1e38f;
    check_numbers(CKPT_DT_F32, floats, 10000);
    doubles[0] = 1e60;
    check_numbers(CKPT_DT_F64, doubles, 10000);
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
        CU_ASSERT(m.mean == 0.1 && m.m2.value == 0 && m.min == 0.1 && m.max == 0.1 && m.finite == n);
    }
}

static void small_integers_are_exact(void)
{
    static const int32_t x[] = {1, 2, 2, -4};
    static int32_t many[10000];
    struct moments m = {0}, all = {0};
    add_numbers(&m, CKPT_DT_I32, x, 4);
    CU_ASSERT(m.squares.value == 25 && m.mean == 0.25 && m.m2.value == 24.75 && m.min == -4 && m.max == 2);
    for (int32_t i = 0; i < 10000; i++)
        many[i] = i;
    add_numbers(&all, CKPT_DT_I32, many, 10000);
    CU_ASSERT(all.mean == 4999.5 && all.squares.value == 333283335000.0 && all.zeros == 1);
}

static void elements_may_all_be_infinite_or_nan(void)
{
    static const float x[] = {NAN, INFINITY, -INFINITY, -NAN}, zeros[] = {-0.0f, 0.0f, -0.0f};
    struct moments m = {0};
    check_bytes(CKPT_DT_F32, x, 4);
    add_numbers(&m, CKPT_DT_F32, x, 4);
    CU_ASSERT(m.finite == 0 && m.nan == 2 && m.inf == 2 && m.mean == 0 && m.squares.value == 0);
    add_numbers(&m, CKPT_DT_F32, zeros, 3);
    CU_ASSERT(m.finite == 3 && m.zeros == 3 && !signbit(m.min) && !signbit(m.max) && !signbit(m.mean));
}

static double std_of(const struct moments *m) { return scaled_sum_sqrt(&m->m2, (double)(m->finite - 1)); }

/* Squares of the largest doubles are summed up, too. */
static void the_largest_doubles_do_not_overflow(void)
{
    static const double mixed_numbers[] = {DBL_MAX, -DBL_MAX, DBL_MAX, DBL_MAX},
                        equal_numbers[] = {-DBL_MAX, -DBL_MAX, -DBL_MAX};
    struct moments mixed = {0}, equal = {0};
    add_numbers(&mixed, CKPT_DT_F64, mixed_numbers, 4);
    CU_ASSERT(mixed.finite == 4 && mixed.inf == 0);
    CU_ASSERT_DOUBLE_EQUAL(std_of(&mixed) / DBL_MAX, 1, 1e-15);
    CU_ASSERT(isinf(scaled_sum_sqrt(&mixed.squares, 1)));
    CU_ASSERT_DOUBLE_EQUAL(mixed.mean / DBL_MAX, 0.5, 1e-15);
    add_numbers(&equal, CKPT_DT_F64, equal_numbers, 3);
    CU_ASSERT(equal.mean == -DBL_MAX && equal.m2.value == 0);
    CU_ASSERT_DOUBLE_EQUAL(scaled_sum_sqrt(&equal.squares, 4) / DBL_MAX, sqrt(3) / 2, 1e-15);
    moments_merge(&mixed, &equal);
    CU_ASSERT(isinf(std_of(&mixed))); /* it is above DBL_MAX */
    CU_ASSERT(mixed.finite == 7 && mixed.min == -DBL_MAX && mixed.max == DBL_MAX);
    CU_ASSERT_DOUBLE_EQUAL(mixed.mean / DBL_MAX, -1.0 / 7, 1e-15);
    double large[] = {1e160, 3e160};
    struct moments large_moments = {0};
    add_numbers(&large_moments, CKPT_DT_F64, large, 2);
    CU_ASSERT_DOUBLE_EQUAL(large_moments.mean / 1e160, 2, 1e-15);
    CU_ASSERT_DOUBLE_EQUAL(std_of(&large_moments) / 1e160, sqrt(2), 1e-15);
}

/* The squares of the smallest doubles do not vanish, not even next to larger numbers of other blocks. */
static void the_smallest_doubles_do_not_vanish(void)
{
    static double x[2 * MOMENTS_BLOCK];
    const double sizes[] = {1e-160, 0x1p-1074, 1e-320};
    for (size_t k = 0; k < 3; k++) {
        struct moments m = {0};
        for (size_t i = 0; i < MOMENTS_BLOCK; i++)
            x[i] = i % 2 ? sizes[k] : 3 * sizes[k];
        add_numbers(&m, CKPT_DT_F64, x, MOMENTS_BLOCK);
        CU_ASSERT_DOUBLE_EQUAL(m.mean / sizes[k], 2, 1e-12);
        CU_ASSERT(fabs(std_of(&m) / sizes[k] - 1) < 1e-3);
        CU_ASSERT(fabs(scaled_sum_sqrt(&m.squares, MOMENTS_BLOCK) / sizes[k] - sqrt(5)) < 0.5);
    }
    struct moments m = {0};
    for (size_t i = 0; i < 2 * MOMENTS_BLOCK; i++)
        x[i] = i < MOMENTS_BLOCK ? 1e-200 : 2e-200;
    add_numbers(&m, CKPT_DT_F64, x, 2 * MOMENTS_BLOCK);
    CU_ASSERT(fabs(std_of(&m) / 1e-200 - 0.5) < 1e-4);
    x[MOMENTS_BLOCK] = 3;
    m = (struct moments){0};
    add_numbers(&m, CKPT_DT_F64, x, 2 * MOMENTS_BLOCK);
    CU_ASSERT(scaled_sum_sqrt(&m.squares, 1) == 3);
}

/* 64-bit integers that are equal as doubles have a spread, within a block and between blocks. */
static void wide_integers_are_subtracted_exactly(void)
{
    static uint64_t x[3 * MOMENTS_BLOCK];
    const struct {
        ckpt_dtype dtype;
        uint64_t base;
    } cases[] = {{CKPT_DT_I64, UINT64_C(1) << 62},
                 {CKPT_DT_U64, UINT64_MAX - 9},
                 {CKPT_DT_I64, UINT64_C(1) << 63},
                 {CKPT_DT_I64, (uint64_t)-5}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct moments within = {0}, between = {0};
        for (size_t i = 0; i < 3 * MOMENTS_BLOCK; i++)
            x[i] = cases[k].base + i % 3;
        unit_to_host_order(x, 3 * MOMENTS_BLOCK, sizeof *x);
        moments_add(&within, cases[k].dtype, (const unsigned char *)x, 3 * MOMENTS_BLOCK);
        CU_ASSERT_DOUBLE_EQUAL(within.m2.value, 2 * MOMENTS_BLOCK, 1e-6);
        for (size_t i = 0; i < 3 * MOMENTS_BLOCK; i++)
            x[i] = cases[k].base + i / MOMENTS_BLOCK * 4;
        unit_to_host_order(x, 3 * MOMENTS_BLOCK, sizeof *x);
        moments_add(&between, cases[k].dtype, (const unsigned char *)x, 3 * MOMENTS_BLOCK);
        CU_ASSERT_DOUBLE_EQUAL(between.m2.value, 32.0 * MOMENTS_BLOCK, 1e-6);
    }
}

static void merged_moments_equal_those_of_all_elements(void)
{
    static float x[20000];
    struct moments merged = {0}, in_two_calls = {0}, none = {0};
    for (size_t i = 0; i < 20000; i++)
        x[i] = (float)(next_random() >> 40) * 0x1p-24f - 0.25f;
    unit_to_host_order(x, 20000, sizeof *x);
    for (size_t i = 0; i < 20000; i += 1000) {
        struct moments m = {0};
        moments_add(&m, CKPT_DT_F32, (const unsigned char *)(x + i), 1000);
        moments_merge(&merged, &m);
        moments_merge(&merged, &none);
    }
    check_moments(&merged, CKPT_DT_F32, (const unsigned char *)x, 20000);
    moments_add(&in_two_calls, CKPT_DT_F32, (const unsigned char *)x, MOMENTS_BLOCK);
    moments_add(&in_two_calls, CKPT_DT_F32, (const unsigned char *)(x + MOMENTS_BLOCK),
                20000 - MOMENTS_BLOCK);
    struct moments in_one_call = {0};
    moments_add(&in_one_call, CKPT_DT_F32, (const unsigned char *)x, 20000);
    CU_ASSERT(memcmp(&in_one_call, &in_two_calls, sizeof in_one_call) == 0);
}

static void complex_numbers_are_replaced_by_their_magnitude(void)
{
    static double z[][2] = {{3, -4}, {0, -0.0}, {INFINITY, NAN}, {-INFINITY, 1}, {3e200, 4e200}};
    static float y[][2] = {{3, -4}, {0, 2}};
    double magnitudes[5];
    unit_to_host_order(z, 10, sizeof **z);
    unit_to_host_order(y, 4, sizeof **y);
    CU_ASSERT_EQUAL(moments_decode(CKPT_DT_C128, (const unsigned char *)z, 5, magnitudes), 5);
    CU_ASSERT(magnitudes[0] == 5 && magnitudes[1] == 0 && isnan(magnitudes[2]) && isinf(magnitudes[3]));
    CU_ASSERT_DOUBLE_EQUAL(magnitudes[4] / 1e200, 5, 1e-14);
    struct moments m = {0};
    moments_add(&m, CKPT_DT_C64, (const unsigned char *)y, 2);
    CU_ASSERT(m.min == 2 && m.max == 5 && m.squares.value == 29 && m.finite == 2);
}

void suite_moments(void)
{
    UNIT(kernels_agree_on_any_length_and_alignment);
    UNIT(kernels_agree_at_block_ends);
    UNIT(kernels_agree_on_every_float16);
    UNIT(kernels_agree_on_2_to_the_24_floats);
    UNIT(moments_of_every_dtype_are_right);
    UNIT(a_small_spread_is_accurate);
    UNIT(equal_elements_have_no_spread);
    UNIT(small_integers_are_exact);
    UNIT(elements_may_all_be_infinite_or_nan);
    UNIT(the_largest_doubles_do_not_overflow);
    UNIT(the_smallest_doubles_do_not_vanish);
    UNIT(wide_integers_are_subtracted_exactly);
    UNIT(merged_moments_equal_those_of_all_elements);
    UNIT(complex_numbers_are_replaced_by_their_magnitude);
}
