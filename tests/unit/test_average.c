/* What an average computes of tensors in memory: ties must keep what sorting all differences keeps, whatever
 * their magnitudes are; slerp must have the factors that the C library computes. */
#include <math.h>
#include <stdlib.h>

#include "core/number.h"
#include "core/weighted_sum.h"
#include "op/average.h"
#include "pseudo_random.h"
#include "unit.h"

enum { NUMBERS = 200000 };

static double base_numbers[NUMBERS], numbers[NUMBERS], merged[NUMBERS];

static source *source_of(const double *from, size_t count)
{
    source *src = source_mem(from, count * sizeof *from, CKPT_NO_OFFSET);
    CU_ASSERT_PTR_NOT_NULL_FATAL(src);
    return src;
}

/* compute - computes COUNT numbers by MEAN of LEFT and RIGHT to OUT. */
static void compute(const struct mean *mean, const double *left, const double *right, size_t count,
                    double *out)
{
    ckpt_error err;
    struct computed how;
    source *inputs[2] = {source_of(left, count), source_of(right, count)};
    CU_ASSERT_EQUAL_FATAL(mean_describe(mean, CKPT_DT_F64, count, &how, &err), CKPT_OK);
    how.inputs = inputs;
    how.ninputs = 2;
    source *src = computed_source(&how);
    CU_ASSERT_PTR_NOT_NULL_FATAL(src);
    CU_ASSERT_EQUAL(source_read(src, 0, out, count * sizeof *out, &err), CKPT_OK);
    unit_to_host_order(out, count, 8);
    source_unref(src);
}

/* ------------------------------------------------------------------------------- sums */

enum { ARRAYS = 3, LENGTH = 300 };

/* same_as_scalar - returns true if the kernel for this CPU computes COUNT sums of random elements of DT as
 * the scalar code does. NaN is NaN, whatever its bits are. */
static bool same_as_scalar(ckpt_dtype dt, size_t count, const double *base, double divisor)
{
    static unsigned char stored[ARRAYS][8 * LENGTH + 8];
    static double decoded[ARRAYS][LENGTH], want[LENGTH], got[LENGTH];
    static const double weights[ARRAYS] = {0.3, -1.5, 1e-3};
    const unsigned char *in[ARRAYS], *doubles[ARRAYS];
    for (size_t k = 0; k < ARRAYS; k++) {
        in[k] = stored[k] + (count + k) % 8; /* at any address */
        fill_random_elements(dt, stored[k] + (count + k) % 8, count, count % 3 != 0);
        number_decode(dt, in[k], count, decoded[k]);
        doubles[k] = (const unsigned char *)decoded[k];
    }
    struct weighted_sum sum = {
        .in = doubles, .n = ARRAYS, .weights = weights, .base = base, .divisor = divisor, .dt = CKPT_DT_F64};
    weighted_sum_scalar(&sum, count, want);
    if (weighted_sum_best_kernel() != weighted_sum_scalar) {
        sum.in = in;
        sum.dt = dt;
    }
    weighted_sum_best_kernel()(&sum, count, got);
    size_t nwrong = 0;
    for (size_t i = 0; i < count; i++)
        nwrong += memcmp(&want[i], &got[i], sizeof *got) != 0 && !(isnan(want[i]) && isnan(got[i]));
    return nwrong == 0;
}

static void kernels_agree(void)
{
    static double base[LENGTH];
    for (size_t i = 0; i < LENGTH; i++)
        base[i] = 1 / (double)(i + 3);
    for (size_t d = 0; d < VECTOR_DTYPES; d++)
        for (size_t count = 0; count < LENGTH; count++)
            CU_ASSERT(same_as_scalar(vector_dtypes[d], count, count & 1 ? base : NULL, count & 2 ? 3 : 1));
}

/* A sum of -0 is -0, and an average of equal numbers is that number. */
static void sums_begin_with_the_first_product(void)
{
    static const double zeros[2] = {-0.0, -0.0}, weights[2] = {1, 1};
    const unsigned char *in[2] = {(const unsigned char *)zeros, (const unsigned char *)zeros};
    const struct weighted_sum sum = {.in = in, .n = 2, .weights = weights, .divisor = 2, .dt = CKPT_DT_F64};
    double out[2] = {1, 1};
    weighted_sum_best_kernel()(&sum, 2, out);
    CU_ASSERT(out[0] == 0 && signbit(out[0]) && out[1] == 0 && signbit(out[1]));
}

/* ------------------------------------------------------------------------------- ties */

static int compare_falling(const void *left, const void *right)
{
    double a, b;
    memcpy(&a, left, sizeof a);
    memcpy(&b, right, sizeof b);
    return (fabs(a) < fabs(b)) - (fabs(a) > fabs(b));
}

/* check_ties - merges the first COUNT of NUMBERS by DENSITY, and compares with what sorting them tells. */
static void check_ties(size_t count, double density)
{
    static double sorted[NUMBERS], stored[NUMBERS];
    static const double weight = 1;
    static const char *paths[] = {"input", "base"};
    const struct mean mean = {.method = CKPT_AVERAGE_TIES,
                              .n = 1,
                              .has_base = true,
                              .normalizes = true,
                              .weights = &weight,
                              .densities = &density,
                              .divisor = 1,
                              .lambda = 1,
                              .paths = paths};
    size_t kept = (size_t)(density * (double)count), nwrong = 0;
    memcpy(sorted, numbers, count * sizeof *sorted);
    memcpy(stored, numbers, count * sizeof *stored);
    unit_to_host_order(stored, count, 8);
    qsort(sorted, count, sizeof *sorted, compare_falling);
    compute(&mean, stored, base_numbers, count, merged);
    double least = fabs(sorted[(kept ? kept : 1) - 1]);
    for (size_t i = 0; i < count; i++)
        nwrong += merged[i] != (fabs(numbers[i]) >= least ? numbers[i] : 0);
    CU_ASSERT_EQUAL(nwrong, 0);
}

enum { ANY_SIZE, MANY_EQUAL, SAME_LEADING_BITS, ALL_EQUAL, KINDS };

static void set_numbers(unsigned kind)
{
    for (size_t i = 0; i < NUMBERS; i++) {
        uint64_t bits = next_random();
        double x = (double)(int64_t)(bits & 0xfffff) - 0x80000;
        numbers[i] = kind == ANY_SIZE            ? ldexp(x, (int)(bits >> 32 & 63) - 30)
                     : kind == SAME_LEADING_BITS ? 1 + ldexp(x, -40)
                     : kind == ALL_EQUAL         ? 7
                                                 : x;
    }
}

/* Few elements fit memory at once; of more, a histogram finds the bin of the threshold, or several do. */
static void ties_keeps_the_largest_differences(void)
{
    static const double densities[] = {1e-9, 0.001, 0.2, 0.5, 0.9, 0.999};
    static const size_t sizes[] = {1, 2, 100, 8192, 8193, 65536, 65537, NUMBERS};
    for (unsigned kind = 0; kind < KINDS; kind++) {
        set_numbers(kind);
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            for (size_t d = 0; d < sizeof densities / sizeof *densities; d++)
                check_ties(sizes[k], densities[d]);
    }
}

/* ------------------------------------------------------------------------------ slerp */

/* check_slerp - interpolates between two vectors whose angle has the cosine COSINE. */
static void check_slerp(double cosine, double t)
{
    static const char *paths[] = {"first", "second"};
    const struct mean mean = {.method = CKPT_AVERAGE_SLERP, .n = 2, .t = t, .paths = paths};
    double left[2] = {2, 0}, right[2] = {3 * cosine, 3 * sqrt(1 - cosine * cosine)}, second[2], out[2];
    double angle = acos(cosine), first_factor = sin((1 - t) * angle) / sin(angle),
           second_factor = sin(t * angle) / sin(angle);
    if (fabs(cosine) > 0.9995) {
        first_factor = 1 - t;
        second_factor = t;
    }
    memcpy(second, right, sizeof second);
    unit_to_host_order(left, 2, 8);
    unit_to_host_order(right, 2, 8);
    compute(&mean, left, right, 2, out);
    for (int i = 0; i < 2; i++) {
        double expected = (i ? 0 : 2 * first_factor) + second_factor * second[i];
        CU_ASSERT_DOUBLE_EQUAL(out[i], expected, 1e-12 * (1 + fabs(expected)));
    }
}

static void slerp_has_the_factors_of_the_angle(void)
{
    static const double cosines[] = {0,      0.1,     -0.1,   0.5,     -0.5, 0.9, -0.9,
                                     0.9994, -0.9994, 0.9996, -0.9996, 1,    -1};
    for (size_t i = 0; i < sizeof cosines / sizeof *cosines; i++)
        for (double t = 0; t <= 1; t += 0.125)
            check_slerp(cosines[i], t);
}

void suite_average(void)
{
    UNIT(kernels_agree);
    UNIT(sums_begin_with_the_first_product);
    UNIT(ties_keeps_the_largest_differences);
    UNIT(slerp_has_the_factors_of_the_angle);
}
