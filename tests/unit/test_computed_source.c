/* Computed tensors: the bytes do not depend on how they are read, and numbers are rounded once. */
#include <math.h>
#include <stdlib.h>

#include "core/computed_source.h"
#include "core/number.h"
#include "unit.h"

enum { NUMBERS = 1000, AT_ONCE = 64 };

static float left_numbers[NUMBERS], right_numbers[NUMBERS];
static unsigned nwrong_calls;

static source *source_of(const void *numbers, size_t size)
{
    source *src = source_mem(numbers, size, CKPT_NO_OFFSET);
    CU_ASSERT_PTR_NOT_NULL_FATAL(src);
    return src;
}

/* add - computes the sums of the numbers of both inputs, float32 each, by way of SCRATCH. */
static ckpt_status add(const struct computed *how, uint64_t first, size_t count, double *out, void *scratch,
                       ckpt_error *err)
{
    double *right = scratch;
    nwrong_calls += !count || first % AT_ONCE + count > AT_ONCE || first + count > NUMBERS;
    CKPT_TRY(read_numbers(how->inputs[0], CKPT_DT_F32, first, count, out, err));
    CKPT_TRY(read_numbers(how->inputs[1], CKPT_DT_F32, first, count, right, err));
    for (size_t i = 0; i < count; i++)
        out[i] += right[i];
    return CKPT_OK;
}

/* open_sum_of - returns the source of the sums, of dtype DT. The left numbers end after LEFT_SIZE bytes. */
static source *open_sum_of(ckpt_dtype dt, size_t left_size, atomic_bool *is_overflow)
{
    source *inputs[2] = {source_of(left_numbers, left_size), source_of(right_numbers, sizeof right_numbers)};
    const struct computed how = {.dtype = dt,
                                 .numbers = NUMBERS,
                                 .at_once = AT_ONCE,
                                 .scratch = AT_ONCE * sizeof(double),
                                 .compute = add,
                                 .inputs = inputs,
                                 .ninputs = 2,
                                 .is_overflow = is_overflow};
    source *src = computed_source(&how);
    CU_ASSERT_PTR_NOT_NULL_FATAL(src);
    return src;
}

static source *open_sum(ckpt_dtype dt, atomic_bool *is_overflow)
{
    return open_sum_of(dt, sizeof left_numbers, is_overflow);
}

static void set_numbers(void)
{
    for (unsigned i = 0; i < NUMBERS; i++) {
        left_numbers[i] = (float)(int)(i * 2654435761u >> 8) * 0x1p-20f;
        right_numbers[i] = 1.0f / (float)(i + 1);
    }
    unit_to_host_order(left_numbers, NUMBERS, 4);
    unit_to_host_order(right_numbers, NUMBERS, 4);
}

static float number_at(const float *numbers, unsigned i)
{
    float number = numbers[i];
    unit_to_host_order(&number, 1, 4);
    return number;
}

static void numbers_are_computed_in_doubles(void)
{
    static double sums[NUMBERS];
    ckpt_error err;
    unsigned nwrong = 0;
    set_numbers();
    source *src = open_sum(CKPT_DT_F64, NULL);
    CU_ASSERT_EQUAL(src->size, sizeof sums);
    CU_ASSERT_EQUAL(source_read(src, 0, sums, sizeof sums, &err), CKPT_OK);
    unit_to_host_order(sums, NUMBERS, 8);
    for (unsigned i = 0; i < NUMBERS; i++)
        nwrong += sums[i] != (double)number_at(left_numbers, i) + (double)number_at(right_numbers, i);
    CU_ASSERT_EQUAL(nwrong, 0);
    CU_ASSERT_EQUAL(nwrong_calls, 0);
    source_unref(src);
}

static void any_range_has_the_same_bytes(void)
{
    static unsigned char all[NUMBERS * 8], part[NUMBERS * 8];
    static const ckpt_dtype dtypes[] = {CKPT_DT_F64, CKPT_DT_F32, CKPT_DT_BF16, CKPT_DT_F8_E4M3};
    ckpt_error err;
    unsigned nwrong = 0;
    uint32_t seed = 1;
    set_numbers();
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
        source *src = open_sum(dtypes[k], NULL);
        size_t size = (size_t)src->size;
        CU_ASSERT_EQUAL(source_read(src, 0, all, size, &err), CKPT_OK);
        for (unsigned i = 0; i < 2000; i++) {
            seed = seed * 1664525u + 1013904223u;
            size_t off = (seed >> 8) % size, n = (seed >> 16) % (i & 1 ? 40 : size - off + 1);
            n = n < size - off ? n : size - off;
            nwrong += source_read(src, off, part, n, &err) != CKPT_OK || memcmp(part, all + off, n) != 0;
        }
        source_unref(src);
    }
    CU_ASSERT_EQUAL(nwrong, 0);
    CU_ASSERT_EQUAL(nwrong_calls, 0);
}

/* 1 + 2^-8 + 2^-40 is above the middle of two bfloat16, but its nearest float32 is the middle. */
static void sums_are_rounded_once(void)
{
    unsigned char out[2];
    ckpt_error err;
    set_numbers();
    left_numbers[0] = 1 + 0x1p-8f;
    right_numbers[0] = 0x1p-40f;
    unit_to_host_order(left_numbers, 1, 4);
    unit_to_host_order(right_numbers, 1, 4);
    source *src = open_sum(CKPT_DT_BF16, NULL);
    CU_ASSERT_EQUAL(source_read(src, 0, out, 2, &err), CKPT_OK);
    CU_ASSERT_EQUAL(out[0] | out[1] << 8, 0x3f81);
    source_unref(src);
}

static void every_nan_is_the_same(void)
{
    static const uint32_t nan_bits[] = {0x7fc00000, 0xffc00001, 0x7f800001, 0x7fffffff};
    uint32_t out[4];
    ckpt_error err;
    atomic_bool is_overflow = false;
    set_numbers();
    memcpy(left_numbers, nan_bits, sizeof nan_bits);
    unit_to_host_order(left_numbers, 4, 4);
    source *src = open_sum(CKPT_DT_F32, &is_overflow);
    CU_ASSERT_EQUAL(source_read(src, 0, out, sizeof out, &err), CKPT_OK);
    unit_to_host_order(out, 4, 4);
    for (unsigned i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(out[i], 0x7fc00000);
    CU_ASSERT_FALSE(is_overflow);
    source_unref(src);
}

static void overflow_is_reported(void)
{
    static unsigned char out[NUMBERS * 2];
    atomic_bool is_overflow = false;
    ckpt_error err;
    set_numbers();
    left_numbers[5] = INFINITY; /* which is no overflow */
    right_numbers[NUMBERS - 1] = 1e6f;
    unit_to_host_order(left_numbers + 5, 1, 4);
    unit_to_host_order(right_numbers + NUMBERS - 1, 1, 4);
    source *src = open_sum(CKPT_DT_F16, &is_overflow);
    CU_ASSERT_EQUAL(source_read(src, 0, out, 2 * NUMBERS - 2, &err), CKPT_OK);
    CU_ASSERT_FALSE(is_overflow);
    CU_ASSERT_EQUAL(source_read(src, 2 * NUMBERS - 1, out, 1, &err), CKPT_OK);
    CU_ASSERT_TRUE(is_overflow);
    CU_ASSERT_EQUAL(out[0], 0x7c);
    source_unref(src);
}

static void errors_of_inputs_are_passed_on(void)
{
    unsigned char out[8];
    ckpt_error err;
    source *src = open_sum_of(CKPT_DT_F64, 100, NULL);
    CU_ASSERT_EQUAL(source_read(src, 8 * 24, out, 8, &err), CKPT_OK);
    CU_ASSERT_EQUAL(source_read(src, 8 * 25, out, 8, &err), CKPT_ETRUNCATED);
    CU_ASSERT_EQUAL(source_read(src, 8 * NUMBERS, out, 1, &err), CKPT_ETRUNCATED);
    source_unref(src);
}

static void only_floats_can_be_computed(void)
{
    static const ckpt_dtype floats[] = {
        CKPT_DT_F64,         CKPT_DT_F32, CKPT_DT_F16,         CKPT_DT_BF16, CKPT_DT_F8_E4M3, CKPT_DT_F8_E5M2,
        CKPT_DT_F8_E4M3FNUZ, CKPT_DT_C32, CKPT_DT_F8_E5M2FNUZ, CKPT_DT_C64,  CKPT_DT_C128,    CKPT_DT_BC32};
    unsigned found = 0;
    uint64_t count;
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        CU_ASSERT_TRUE(computed_has_dtype(floats[i]));
    for (unsigned dt = 0; dt < DTYPE_COUNT; dt++)
        found += computed_has_dtype((ckpt_dtype)dt);
    CU_ASSERT_EQUAL(found, sizeof floats / sizeof *floats);
    CU_ASSERT_TRUE(computed_count(CKPT_DT_C64, 5, &count));
    CU_ASSERT_EQUAL(count, 10);
    CU_ASSERT_FALSE(computed_count(CKPT_DT_C64, UINT64_MAX, &count));
}

/* Numbers of every dtype are read in place, and are those that number_decode gives. */
static void numbers_are_read_in_place(void)
{
    static unsigned char bytes[16 * 100];
    static double in_place[200], decoded[200];
    ckpt_error err;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 2654435761u >> 13);
    source *src = source_of(bytes, sizeof bytes);
    for (unsigned i = 0; i < DTYPE_COUNT; i++) {
        ckpt_dtype dt = (ckpt_dtype)i;
        if (!dtype_is_number(dt))
            continue;
        unsigned each = numbers_per_element(dt), width = ckpt_dtype_bits(dt) / 8;
        CU_ASSERT_EQUAL(read_numbers(src, dt, 3 * each, 90 * each, in_place, &err), CKPT_OK);
        number_decode(dt, bytes + 3 * width, 90, decoded);
        CU_ASSERT_EQUAL(memcmp(in_place, decoded, 90 * each * sizeof *decoded), 0);
    }
    source_unref(src);
}

void suite_computed_source(void)
{
    UNIT(numbers_are_computed_in_doubles);
    UNIT(any_range_has_the_same_bytes);
    UNIT(sums_are_rounded_once);
    UNIT(every_nan_is_the_same);
    UNIT(overflow_is_reported);
    UNIT(errors_of_inputs_are_passed_on);
    UNIT(only_floats_can_be_computed);
    UNIT(numbers_are_read_in_place);
}
