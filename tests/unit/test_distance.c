/* The kernel for this CPU computes the same distances as the scalar code, bit for bit, and the scalar code is
 * correct. */
#include <math.h>
#include <stdlib.h>

#include "core/distance.h"
#include "core/number.h"
#include "pseudo_random.h"
#include "unit.h"

#define MAX_ELEMENTS 1024

/* absolute and relative tolerances */
static const struct tolerance tolerances[] = {{0, 0}, {1e-3, 0}, {0, 1e-2}, {1e-2, 0.5}, {INFINITY, 0}};
static const struct tolerance *tolerance = tolerances;

/* is_same_distance - returns true if A and B are equal, or both not finite. */
static bool is_same_distance(const struct distance *a, const struct distance *b)
{
    bool finite = isfinite(distance_sum(a));
    return finite == (isfinite(distance_sum(b)) != 0) && (!finite || memcmp(a, b, sizeof *a) == 0);
}

static bool same_as_scalar(distance_kernel *k, ckpt_dtype dt, const unsigned char *a, const unsigned char *b,
                           size_t n)
{
    double x[MAX_ELEMENTS], y[MAX_ELEMENTS];
    struct distance want, got;
    number_decode(dt, a, n, x);
    number_decode(dt, b, n, y);
    distance_scalar(CKPT_DT_F64, (const void *)x, (const void *)y, n, tolerance, &want);
    k(CKPT_DT_F64, (const void *)x, (const void *)y, n, tolerance, &got);
    bool same = is_same_distance(&want, &got);
    if (k != distance_scalar && dtype_has_kernels(dt)) {
        k(dt, a, b, n, tolerance, &got);
        same = same && is_same_distance(&want, &got);
    }
    return same;
}

/* The kernel for this CPU. */
static distance_kernel *best_kernel;

static bool kernels_agree(ckpt_dtype dt, const unsigned char *a, const unsigned char *b, size_t n)
{
    return same_as_scalar(best_kernel, dt, a, b, n);
}

static void kernels_agree_on_any_length_and_alignment(void)
{
    static unsigned char x[8 * 260 + 8], y[8 * 260 + 8];
    for (size_t d = 0; d < VECTOR_DTYPES; d++) {
        size_t width = ckpt_dtype_bits(vector_dtypes[d]) / 8, nwrong = 0;
        for (size_t n = 0; n <= 256; n++) {
            size_t offset_x = n % 7, offset_y = n % 5;
            tolerance = &tolerances[n % 5];
            fill_random_elements(vector_dtypes[d], x + offset_x, n, n % 3 != 0);
            fill_random_elements(vector_dtypes[d], y + offset_y, n, n % 3 != 0);
            if (n % 2)
                memcpy(y + offset_y, x + offset_x, n / 2 * width);
            unsigned char *a = unit_guard(x, offset_x + n * width), *b = unit_guard(y, offset_y + n * width);
            nwrong += !kernels_agree(vector_dtypes[d], a + offset_x, b + offset_y, n);
            unit_guard_free(a, offset_x + n * width);
            unit_guard_free(b, offset_y + n * width);
        }
        CU_ASSERT_EQUAL(nwrong, 0);
    }
}

/* Each float16 and bfloat16 value is compared with values close to it and with random values. Each of 2^20
 * float32 values is compared with values close to it. */
static void kernels_agree_on_bit_patterns(void)
{
    unsigned char x[32], y[32];
    size_t nwrong = 0;
    for (uint32_t bits = 0; bits < 1u << 20; bits++) {
        uint32_t float_bits = bits * 4096u + (bits >> 7 & 4095u);
        bool has_16_bits = bits < 65536;
        tolerance = &tolerances[bits % 5];
        for (size_t i = 0; has_16_bits && i < 16; i++) {
            uint32_t other_bits = i < 8 ? bits + (uint32_t)i : (uint32_t)next_random();
            x[2 * i] = (unsigned char)bits;
            x[2 * i + 1] = (unsigned char)(bits >> 8);
            y[2 * i] = (unsigned char)other_bits;
            y[2 * i + 1] = (unsigned char)(other_bits >> 8);
        }
        if (has_16_bits)
            nwrong += !kernels_agree(CKPT_DT_F16, x, y, 16) || !kernels_agree(CKPT_DT_BF16, y, x, 16);
        for (size_t i = 0; i < 8; i++)
            for (size_t k = 0; k < 4; k++) {
                x[4 * i + k] = (unsigned char)(float_bits >> (8 * k));
                y[4 * i + k] = (unsigned char)((float_bits + i * i * i) >> (8 * k));
            }
        nwrong += !kernels_agree(CKPT_DT_F32, x, y, 8);
    }
    CU_ASSERT_EQUAL(nwrong, 0);
}

/* The scalar code is compared with a simple loop. */
static void scalar_distances_are_correct(void)
{
    double a[MAX_ELEMENTS], b[MAX_ELEMENTS];
    long double sum = 0;
    double max_abs = 0, max_rel = 0;
    uint64_t differing = 0;
    const struct tolerance t = {1e-3, 0.1};
    struct distance d;
    for (size_t i = 0; i < MAX_ELEMENTS; i++) {
        a[i] = (double)(int64_t)next_random() * 0x1p-63;
        b[i] = i % 3 == 0 ? a[i] : a[i] * (1 + (double)(next_random() % 1000) * 2e-4);
        sum += fabsl((long double)a[i] - b[i]);
        max_abs = fmax(max_abs, fabs(a[i] - b[i]));
        max_rel = fmax(max_rel, fabs(a[i] - b[i]) / fabs(b[i]));
        differing += fabs(a[i] - b[i]) > t.abs + t.rel * fabs(b[i]);
    }
    distance_scalar(CKPT_DT_F64, (const void *)a, (const void *)b, MAX_ELEMENTS, &t, &d);
    CU_ASSERT(fabsl(distance_sum(&d) - sum) < 1e-12L * sum);
    CU_ASSERT_EQUAL(d.max_abs, max_abs);
    CU_ASSERT_EQUAL(d.max_rel, max_rel);
    CU_ASSERT_EQUAL(d.differing, differing);
    CU_ASSERT(differing > 100 && differing < 600);
}

/* At any position, one value that is not finite makes the sum infinite or NaN. So do two equal infinities,
 * and two numbers whose distance overflows. */
static void values_that_are_not_finite_are_noticed(void)
{
    const double pairs[][2] = {{INFINITY, 1}, {1, -INFINITY}, {INFINITY, INFINITY}, {NAN, 1},
                               {1, NAN},      {NAN, NAN},     {0x1p1023, -0x1p1023}};
    distance_kernel *const kernels[2] = {distance_scalar, distance_best_kernel()};
    double a[21] = {0}, b[21] = {0};
    for (size_t kernel = 0; kernel < 2; kernel++)
        for (size_t j = 0; j < sizeof pairs / sizeof *pairs; j++)
            for (size_t i = 0; i < 21; i++) {
                struct distance d;
                a[i] = pairs[j][0];
                b[i] = pairs[j][1];
                kernels[kernel](CKPT_DT_F64, (const void *)a, (const void *)b, 21, tolerances, &d);
                CU_ASSERT(!isfinite(distance_sum(&d)));
                a[i] = b[i] = 0;
            }
}

/* The sums for relative distance and cosine are computed in two calls and in many, and both results are
 * compared with those of a simple loop. */
static void norms_are_correct(void)
{
    double a[MAX_ELEMENTS], b[MAX_ELEMENTS];
    long double aa = 0, bb = 0, ab = 0, dd = 0;
    struct norms in_two_calls = {0}, in_many_calls = {0};
    for (size_t i = 0; i < MAX_ELEMENTS; i++) {
        a[i] = (double)(int64_t)next_random() * 0x1p-63;
        b[i] = a[i] + (double)(int64_t)next_random() * 0x1p-66;
        aa += (long double)a[i] * a[i];
        bb += (long double)b[i] * b[i];
        ab += (long double)a[i] * b[i];
        dd += ((long double)a[i] - b[i]) * ((long double)a[i] - b[i]);
    }
    norms_add(&in_two_calls, a, b, NULL, MAX_ELEMENTS - 3);
    for (size_t at = 0; at < MAX_ELEMENTS - 3; at += 64)
        norms_add(&in_many_calls, a + at, b + at, NULL,
                  MAX_ELEMENTS - 3 - at < 64 ? MAX_ELEMENTS - 3 - at : 64);
    norms_add(&in_two_calls, a + MAX_ELEMENTS - 3, b + MAX_ELEMENTS - 3, NULL, 3);
    norms_add(&in_many_calls, a + MAX_ELEMENTS - 3, b + MAX_ELEMENTS - 3, NULL, 3);
    CU_ASSERT(fabsl(in_two_calls.aa.value - aa) < 1e-12L * aa &&
              fabsl(in_two_calls.bb.value - bb) < 1e-12L * bb);
    CU_ASSERT(fabsl(in_two_calls.ab.value - ab) < 1e-12L * ab &&
              fabsl(in_two_calls.dd.value - dd) < 1e-12L * dd);
    CU_ASSERT(fabsl((long double)norms_distance(&in_two_calls) - sqrtl(dd / bb)) < 1e-12L);
    CU_ASSERT(fabsl((long double)norms_cosine(&in_many_calls) - ab / sqrtl(aa * bb)) < 1e-12L);
    CU_ASSERT(fabs(norms_distance(&in_two_calls) - norms_distance(&in_many_calls)) < 1e-13);
}

/* The eight lanes are added in a fixed order, as in distances, so the result is the same on all CPUs. */
static void norms_are_added_in_a_fixed_order(void)
{
    double a[19], b[19] = {0}, lanes[8] = {0};
    struct norms s = {0};
    for (size_t i = 0; i < 19; i++) {
        a[i] = (double)(int64_t)next_random() * 0x1p-40;
        lanes[i % 8] += a[i] * a[i];
    }
    norms_add(&s, a, b, NULL, 19);
    double want = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
                  ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
    CU_ASSERT(s.aa.value == want && s.dd.value == want && s.bb.value == 0 && s.ab.value == 0);
}

/* Sums of squares neither overflow nor vanish. The cosine is NaN if a norm is 0. */
static void pairs_that_are_not_finite_are_skipped(void)
{
    double a[] = {3, NAN, 1, INFINITY, -4}, b[] = {3, 2, -INFINITY, INFINITY, -4};
    struct norms s = {0}, no_pairs = {0}, zero_b = {0}, big = {0};
    norms_add(&s, a, b, NULL, 5);
    CU_ASSERT(s.aa.value == 25 && s.bb.value == 25 && s.ab.value == 25 && s.dd.value == 0);
    CU_ASSERT(norms_distance(&s) == 0 && norms_cosine(&s) == 1);
    CU_ASSERT(norms_distance(&no_pairs) == 0 && isnan(norms_cosine(&no_pairs)));
    double x[] = {1, 0x1p600}, y[] = {0, 0x1p599};
    norms_add(&zero_b, x, y, NULL, 1);
    CU_ASSERT(isinf(norms_distance(&zero_b)) && isnan(norms_cosine(&zero_b)));
    norms_add(&big, x + 1, y + 1, NULL, 1);
    CU_ASSERT(norms_distance(&big) == 1 && norms_cosine(&big) == 1);
    double small[] = {3e-200, 1e-200, 1e-300}, other[] = {0, 2e-200, 1e-300};
    struct norms tiny = {0}, beside_one = {0};
    norms_add(&tiny, small, other, NULL, 3);
    CU_ASSERT(fabs(norms_distance(&tiny) - sqrt(10) / 2) < 1e-15);
    CU_ASSERT(fabs(norms_cosine(&tiny) - 1 / sqrt(10)) < 1e-15);
    double one[] = {1, 1e-200}, near_one[] = {1, 3e-200};
    norms_add(&beside_one, one, near_one, NULL, 2);
    CU_ASSERT(fabs(norms_distance(&beside_one) / 2e-200 - 1) < 1e-15 && norms_cosine(&beside_one) == 1);
}

void suite_distance(void)
{
    best_kernel = distance_best_kernel();
    UNIT(kernels_agree_on_any_length_and_alignment);
    UNIT(kernels_agree_on_bit_patterns);
    UNIT(scalar_distances_are_correct);
    UNIT(values_that_are_not_finite_are_noticed);
    UNIT(norms_are_correct);
    UNIT(norms_are_added_in_a_fixed_order);
    UNIT(pairs_that_are_not_finite_are_skipped);
}
