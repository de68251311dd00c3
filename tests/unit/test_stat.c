/* ckpt_stat: statistics of tensors, which are read in chunks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/byte_histogram.h"
#include "small_files.h"
#include "unit.h"

/* stat_of - returns the statistics of a tensor of N elements of DT, whose SIZE bytes are BYTES. */
static ckpt_stats stat_of(const char *dt, size_t n, const void *bytes, size_t size)
{
    const uint32_t row = 0;
    ckpt_stats s = CKPT_INIT(ckpt_stats);
    ckpt_file *f = open_one_tensor("t", dt, n, bytes, size);
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_EQUAL(ckpt_stat(f, &row, 1, NULL, &s, NULL), CKPT_OK);
    close_open_files();
    return s;
}

static uint64_t sum_of_bins(const uint64_t *histogram)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < CKPT_STAT_BINS; i++)
        sum += histogram[i];
    return sum;
}

/* 300,001 floats are a multiple neither of the chunk size nor of the sampling step. */
static void statistics_of_a_large_tensor_are_right(void)
{
    size_t n = 300001;
    float *numbers = malloc(n * sizeof *numbers);
    struct moments expected = {0};
    for (size_t i = 0; i < n; i++)
        numbers[i] = (float)((i * 7919) % 1000) - 250;
    unit_to_host_order(numbers, n, sizeof *numbers); /* to little-endian, for moments_add() */
    moments_add(&expected, CKPT_DT_F32, (const unsigned char *)numbers, n);
    unit_to_host_order(numbers, n, sizeof *numbers); /* back to host byte order */
    ckpt_stats s = stat_of("F32", n, numbers, n * sizeof *numbers);
    CU_ASSERT(s.numeric && s.finite == n && s.min == -250 && s.max == 749 && s.zeros == expected.zeros &&
              !s.wide);
    CU_ASSERT(s.mean == expected.mean && s.norm == sqrt(expected.squares.value) &&
              s.std == sqrt(expected.m2.value / (double)(n - 1)));
    CU_ASSERT(s.sampled == sum_of_bins(s.histogram) && s.sampled <= 4096 && s.sampled >= 4000);
    for (size_t i = 0; i < CKPT_STAT_BINS; i++) /* uniform values: about 256 samples in each bin */
        CU_ASSERT(s.histogram[i] > 180 && s.histogram[i] < 330);
    ckpt_stats repeated = stat_of("F32", n, numbers, n * sizeof *numbers);
    CU_ASSERT(memcmp(&s, &repeated, sizeof s) == 0);
    free(numbers);
}

/* The columns of the matrix differ, and sampling at a fixed step would visit only one of them. */
static void all_columns_are_sampled(void)
{
    size_t n = 4096 * 64;
    float *x = malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(i % 64);
    ckpt_stats s = stat_of("F32", n, x, n * sizeof *x);
    for (size_t i = 0; i < CKPT_STAT_BINS; i++)
        CU_ASSERT(s.histogram[i] > 180 && s.histogram[i] < 330);
    free(x);
}

/* float6 values are packed into blocks of three bytes, which do not divide the chunk size of 256 KiB. */
static void float6_values_are_decoded(void)
{
    size_t bytes = 3 * 100001;
    unsigned char *packed = malloc(bytes);
    struct byte_histogram histogram = {{0}};
    for (size_t i = 0; i < bytes; i++)
        packed[i] = (unsigned char)(i * 151 + i / 256);
    byte_histogram_add(&histogram, CKPT_DT_F6_E3M2, packed, bytes / 3 * 4);
    struct moments expected = byte_histogram_moments(&histogram, CKPT_DT_F6_E3M2);
    ckpt_stats s = stat_of("F6_E3M2", bytes / 3 * 4, packed, bytes);
    CU_ASSERT(s.finite == bytes / 3 * 4 && s.mean == expected.mean && s.norm == sqrt(expected.squares.value));
    CU_ASSERT(s.zeros == expected.zeros && s.sampled == s.finite);
    free(packed);
}

static void statistics_of_64_bit_integers_are_exact(void)
{
    static const int64_t signed_numbers[] = {INT64_MAX - 1, INT64_MIN + 1, 0};
    static const uint64_t unsigned_numbers[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX};
    ckpt_stats s = stat_of("I64", 3, signed_numbers, sizeof signed_numbers);
    CU_ASSERT(s.wide && (int64_t)s.min_bits == INT64_MIN + 1 && (int64_t)s.max_bits == INT64_MAX - 1);
    CU_ASSERT(s.zeros == 1 && s.sampled == 3 && s.histogram[0] == 1 && s.histogram[15] == 1);
    s = stat_of("U64", 3, unsigned_numbers, sizeof unsigned_numbers);
    CU_ASSERT(s.wide && s.min_bits == UINT64_MAX - 1 && s.max_bits == UINT64_MAX);
    s = stat_of("U64", 0, unsigned_numbers, 0);
    CU_ASSERT(s.numeric && !s.wide && s.finite == 0 && isnan(s.min));
}

static void empty_tensors_and_scalars_have_statistics(void)
{
    static const float numbers[] = {2.5f, NAN, -INFINITY, INFINITY};
    ckpt_stats s = stat_of("F32", 0, numbers, 0);
    CU_ASSERT(s.numeric && !s.finite && isnan(s.min) && isnan(s.mean) && isnan(s.std) && s.norm == 0);
    s = stat_of("F32", 1, numbers, 4);
    CU_ASSERT(s.min == 2.5 && s.max == 2.5 && s.mean == 2.5 && isnan(s.std));
    CU_ASSERT(s.norm == 2.5 && s.sampled == 1);
    s = stat_of("F32", 4, numbers, 16);
    CU_ASSERT(s.finite == 1 && s.nan == 1 && s.inf == 2 && s.mean == 2.5 && s.sampled == 1);
    s = stat_of("F32", 3, numbers + 1, 12);
    CU_ASSERT(s.finite == 0 && s.nan == 1 && s.inf == 2 && isnan(s.max) && s.sampled == 0);
}

static void the_range_of_the_values_may_overflow_a_double(void)
{
    static const double x[] = {-1.7e308, -1e308, 0, 1.7e308};
    ckpt_stats s = stat_of("F64", 4, x, sizeof x);
    CU_ASSERT(s.histogram[0] == 1 && s.histogram[3] == 1 && s.histogram[8] == 1 && s.histogram[15] == 1);
    CU_ASSERT(isinf(s.norm) && fabs(s.std / 1.47535e308 - 1) < 1e-5 && fabs(s.mean / -2.5e307 - 1) < 1e-12);
}

/* Statistics of all tensors of a file are computed, in reverse order; some tensors are tied. A tensor that
 * does not exist is refused, and a tensor without data has no statistics. */
static void statistics_of_several_rows_are_right(void)
{
    ckpt_file *f = open_corpus_file("torch/t215/tied.pt");
    uint32_t n = ckpt_tensor_count(f), rows[64];
    ckpt_stats s[64] = {CKPT_INIT(ckpt_stats)};
    for (uint32_t i = 0; i < n; i++)
        rows[i] = n - 1 - i;
    CU_ASSERT_EQUAL(ckpt_stat(f, rows, n, NULL, s, NULL), CKPT_OK);
    for (uint32_t i = 0; i < n; i++) {
        const ckpt_tensor t = tensor_at(f, rows[i]);
        if (t.alias_of != CKPT_NO_TENSOR)
            CU_ASSERT(memcmp(&s[i], &s[n - 1 - t.alias_of], sizeof *s) == 0);
        CU_ASSERT(s[i].numeric && s[i].finite == t.elements);
    }
    rows[0] = n; /* a tensor that does not exist */
    CU_ASSERT_EQUAL(ckpt_stat(f, rows, n, NULL, s, NULL), CKPT_EUSAGE);
    CU_ASSERT_EQUAL(ckpt_stat(f, rows, 0, NULL, s, NULL), CKPT_OK);
    f = open_corpus_file("torch/t215/meta.pt");
    rows[0] = 0;
    s[0].numeric = true;
    CU_ASSERT_EQUAL(ckpt_stat(f, rows, 1, NULL, s, NULL), CKPT_OK);
    CU_ASSERT(!s[0].numeric && s[0].finite == 0);
    close_open_files();
}

static int cancel(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    (void)done;
    (void)total;
    return 1;
}

static void statistics_can_be_cancelled(void)
{
    const uint32_t row = 0;
    ckpt_work how = {.struct_size = sizeof how, .threads = 1, .progress = cancel};
    ckpt_stats s = CKPT_INIT(ckpt_stats);
    ckpt_file *f = open_safetensors("{\"t\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}", "abc",
                                    3);
    CU_ASSERT_EQUAL(ckpt_stat(f, &row, 1, &how, &s, NULL), CKPT_ECANCELLED);
    close_open_files();
}

void suite_stat(void)
{
    UNIT(statistics_of_a_large_tensor_are_right);
    UNIT(all_columns_are_sampled);
    UNIT(float6_values_are_decoded);
    UNIT(statistics_of_64_bit_integers_are_exact);
    UNIT(empty_tensors_and_scalars_have_statistics);
    UNIT(the_range_of_the_values_may_overflow_a_double);
    UNIT(statistics_of_several_rows_are_right);
    UNIT(statistics_can_be_cancelled);
}
