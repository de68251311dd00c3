/* Casts must round to nearest, ties to even. Each vector kernel must equal the scalar one for all float16 and
 * bfloat16 values, 2^24 floats, random doubles, every length up to 256, and unaligned addresses. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32.h"
#include "base/store.h"
#include "core/convert.h"
#include "core/number.h"
#include "unit.h"

static const ckpt_dtype targets[] = {CKPT_DT_F16,     CKPT_DT_BF16,        CKPT_DT_F8_E4M3,
                                     CKPT_DT_F8_E5M2, CKPT_DT_F8_E4M3FNUZ, CKPT_DT_F8_E5M2FNUZ};
enum { TARGETS = sizeof targets / sizeof *targets, SAMPLE_VALUES = 1 << 16 };

static void put_float(unsigned char *to, float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    store_u32le(to, bits);
}

/* q8_0 blocks must equal those of gguf-py 0.19.0: 512 blocks of all magnitudes (compared by CRC-32), a block
 * of rounding ties, and blocks whose scale is 0, infinite or NaN. */
static void q8_0_blocks_equal_those_of_gguf(void)
{
    enum { N = 32 * 512 };
    static unsigned char in[4 * N], out[34 * 512];
    static const unsigned char ties_expected[34] = {
        0x00, 0x3c, 0x7f, 0x81, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd,
        0xfe, 0xff, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f};
    static const struct {
        float other_elements, element_3;       /* the input: element 3 of the block, and all others */
        unsigned char scale[2], first_element; /* the output: the float16 scale, and element 0 */
        uint64_t overflowed;
    } cases[] = {{0, 0, {0, 0}, 0, 0},
                 {1e-42f, 1e-42f, {0, 0}, 0, 0},
                 {3e38f, 1, {0, 0x7c}, 0x7f, 32},
                 {1, NAN, {0, 0x7e}, 0, 0},
                 {1, INFINITY, {0, 0x7c}, 0, 0}};
    struct conversion c;
    struct convert_tally t = {0};
    CU_ASSERT_FALSE(conversion_init(&c, CKPT_DT_F32, CKPT_DT_Q8_0));
    CU_ASSERT_TRUE_FATAL(conversion_init_float_or_q8_0(&c, CKPT_DT_F32, CKPT_DT_Q8_0));
    for (uint32_t i = 0; i < N; i++) {
        uint32_t h = i * 2654435761u;
        put_float(in + 4 * i, ldexpf((float)(int32_t)((h >> 8) - (1u << 23)), (int)(i / 32 % 60) - 40));
    }
    convert_run(&c, in, N, out, &t);
    CU_ASSERT_EQUAL(crc32_update(0, out, sizeof out), 0xf595b426);
    CU_ASSERT_EQUAL(t.overflowed, 4928); /* elements of blocks whose scale overflows float16 */
    for (int i = 0; i < 32; i++)
        put_float(in + 4 * i, i < 2 ? (float)(127 - 254 * i) : (float)(i - 17) + 0.5f);
    convert_run(&c, in, 32, out, &t);
    CU_ASSERT_EQUAL(memcmp(out, ties_expected, sizeof ties_expected), 0);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        for (int i = 0; i < 32; i++)
            put_float(in + 4 * i, i == 3 ? cases[k].element_3 : cases[k].other_elements);
        t.overflowed = 0;
        convert_run(&c, in, 32, out, &t);
        CU_ASSERT_EQUAL(memcmp(out, cases[k].scale, 2), 0);
        CU_ASSERT_EQUAL(out[2], cases[k].first_element);
        CU_ASSERT_EQUAL(t.overflowed, cases[k].overflowed);
    }
}

static uint64_t convert_one(ckpt_dtype from, ckpt_dtype to, const void *in, void *out)
{
    struct conversion c;
    struct convert_tally t = {0};
    CU_ASSERT_TRUE_FATAL(conversion_init(&c, from, to));
    convert_run(&c, in, 1, out, &t);
    return t.overflowed;
}

static double decode_value(ckpt_dtype dt, unsigned bits)
{
    unsigned char b[2] = {(unsigned char)bits, (unsigned char)(bits >> 8)};
    double d;
    number_decode(dt, b, 1, &d);
    return d;
}

static unsigned round_to(ckpt_dtype to, double d, uint64_t *overflowed)
{
    unsigned char b[2] = {0, 0}, d8[8], f4[4];
    float f = (float)d;
    memcpy(d8, &d, 8);
    memcpy(f4, &f, 4);
    unit_to_host_order(d8, 1, 8);
    unit_to_host_order(f4, 1, 4);
    *overflowed = convert_one(CKPT_DT_F32, to, f4, b);
    unsigned bits = b[0] | (unsigned)b[1] << 8;
    unsigned char from_float64[2] = {0, 0};
    (void)convert_one(CKPT_DT_F64, to, d8, from_float64); /* also rounds D to a float first */
    CU_ASSERT_EQUAL(bits, from_float64[0] | (unsigned)from_float64[1] << 8);
    return bits;
}

/* A value of the target dtype stays the same. The middle of two adjacent values is rounded to the even one,
 * and a float next to the middle to the nearer one. The float above the middle is tested as negative. */
static void casts_round_to_nearest_even(void)
{
    for (unsigned k = 0; k < TARGETS; k++) {
        unsigned sign_bit = ckpt_dtype_bits(targets[k]) == 16 ? 0x8000 : 0x80, nwrong = 0;
        uint64_t overflowed, overflow_count = 0;
        for (unsigned b = 0; b + 1 < sign_bit; b++) {
            double value = decode_value(targets[k], b), next = decode_value(targets[k], b + 1),
                   middle = (value + next) / 2;
            if (!isfinite(value) || !isfinite(next))
                continue;
            nwrong += round_to(targets[k], value, &overflowed) != b;
            overflow_count += overflowed;
            nwrong += round_to(targets[k], middle, &overflowed) != b + (b & 1);
            overflow_count += overflowed;
            nwrong += round_to(targets[k], (double)nextafterf((float)middle, 0), &overflowed) != b;
            overflow_count += overflowed;
            nwrong += round_to(targets[k], -(double)nextafterf((float)middle, INFINITY), &overflowed) !=
                      (b + 1) + sign_bit;
            overflow_count += overflowed;
        }
        CU_ASSERT_EQUAL(nwrong, 0);
        CU_ASSERT_EQUAL(overflow_count, 0);
    }
}

static void overflow_infinity_and_nan_are_converted(void)
{
    static const struct {
        ckpt_dtype to;
        double largest, too_large;         /* the last value that fits, and the first that does not */
        unsigned from_too_large, from_inf; /* what TOO_LARGE and infinity become */
        unsigned inf_overflows;            /* 1 if infinity is counted as overflow */
        unsigned from_nan;
    } cases[] = {
        {CKPT_DT_F16, 65519.996, 65520, 0x7c00, 0x7c00, 0, 0x7e00},
        {CKPT_DT_BF16, 0x1.fefffep127, 0x1.ffp127, 0x7f80, 0x7f80, 0, 0x7fc0},
        {CKPT_DT_F8_E4M3, 464, 464.00004, 0x7e, 0x7e, 1, 0x7f},
        {CKPT_DT_F8_E5M2, 61439.996, 61440, 0x7c, 0x7c, 0, 0x7f},
        {CKPT_DT_F8_E4M3FNUZ, 247.99998, 248, 0x80, 0x80, 1, 0x80},
        {CKPT_DT_F8_E5M2FNUZ, 61439.996, 61440, 0x80, 0x80, 1, 0x80},
    };
    for (unsigned k = 0; k < TARGETS; k++) {
        uint64_t overflowed;
        CU_ASSERT_TRUE(
            isfinite(decode_value(cases[k].to, round_to(cases[k].to, cases[k].largest, &overflowed))));
        CU_ASSERT_EQUAL(overflowed, 0);
        CU_ASSERT_EQUAL(round_to(cases[k].to, cases[k].too_large, &overflowed), cases[k].from_too_large);
        CU_ASSERT_EQUAL(overflowed, 1);
        CU_ASSERT_EQUAL(round_to(cases[k].to, (double)INFINITY, &overflowed), cases[k].from_inf);
        CU_ASSERT_EQUAL(overflowed, cases[k].inf_overflows);
        CU_ASSERT_EQUAL(round_to(cases[k].to, (double)NAN, &overflowed), cases[k].from_nan);
        CU_ASSERT_EQUAL(overflowed, 0);
    }
    uint64_t overflowed;
    CU_ASSERT_EQUAL(round_to(CKPT_DT_F8_E4M3FNUZ, -0.0, &overflowed), 0);
    CU_ASSERT_EQUAL(round_to(CKPT_DT_F8_E4M3, -0.0, &overflowed), 0x80);
}

/* torch rounds float64 to float32 first; -1e300 is too large for a float32. */
static void float64_is_rounded_twice(void)
{
    unsigned char in[8], out[8];
    double d = 1 + 0x1p-8 + 0x1p-40;
    memcpy(in, &d, 8);
    unit_to_host_order(in, 1, 8);
    CU_ASSERT_EQUAL(convert_one(CKPT_DT_F64, CKPT_DT_BF16, in, out), 0);
    CU_ASSERT_EQUAL(out[0] | out[1] << 8, 0x3f80);
    d = -1e300;
    memcpy(in, &d, 8);
    unit_to_host_order(in, 1, 8);
    CU_ASSERT_EQUAL(convert_one(CKPT_DT_F64, CKPT_DT_BF16, in, out), 1);
    CU_ASSERT_EQUAL(convert_one(CKPT_DT_F64, CKPT_DT_F32, in, out), 1);
    CU_ASSERT_EQUAL(convert_one(CKPT_DT_F64, CKPT_DT_F8_E4M3, in, out), 1);
    CU_ASSERT_EQUAL(out[0], 0xfe);
    int64_t i = (INT64_C(1) << 53) + 3; /* int64 does not pass through float32: it is rounded once */
    memcpy(in, &i, 8);
    unit_to_host_order(in, 1, 8);
    CU_ASSERT_EQUAL(convert_one(CKPT_DT_I64, CKPT_DT_F64, in, out), 0);
    memcpy(&d, out, 8);
    unit_to_host_order(&d, 1, 8);
    CU_ASSERT_EQUAL(d, 0x1p53 + 4);
}

static unsigned round_once(const struct conversion *once, double d)
{
    unsigned char b[2] = {0, 0}, d8[8];
    struct convert_tally t = {0};
    memcpy(d8, &d, 8);
    unit_to_host_order(d8, 1, 8);
    convert_run(once, d8, 1, b, &t);
    CU_ASSERT_EQUAL(t.overflowed, 0);
    return b[0] | (unsigned)b[1] << 8;
}

/* The doubles next to the middle of two adjacent values are rounded to the nearer one: no float is between.
 * */
static void float64_can_be_rounded_once(void)
{
    for (unsigned k = 0; k < TARGETS; k++) {
        struct conversion once;
        unsigned sign_bit = ckpt_dtype_bits(targets[k]) == 16 ? 0x8000 : 0x80, nwrong = 0;
        CU_ASSERT_TRUE_FATAL(conversion_init_once(&once, targets[k]));
        for (unsigned b = 0; b + 1 < sign_bit; b++) {
            double value = decode_value(targets[k], b), next = decode_value(targets[k], b + 1),
                   middle = (value + next) / 2;
            if (!isfinite(value) || !isfinite(next))
                continue;
            nwrong += round_once(&once, value) != b;
            nwrong += round_once(&once, nextafter(value, INFINITY)) != b;
            nwrong += round_once(&once, middle) != b + (b & 1);
            nwrong += round_once(&once, nextafter(middle, 0)) != b;
            nwrong += round_once(&once, -nextafter(middle, INFINITY)) != (b + 1) + sign_bit;
            nwrong += round_once(&once, nextafter(next, 0)) != b + 1;
        }
        CU_ASSERT_EQUAL(nwrong, 0);
    }
}

/* Overflow begins at the same values as when a float32 is converted, and no rounding comes before it. */
static void overflow_is_counted_when_rounding_once(void)
{
    static const struct {
        ckpt_dtype to;
        double largest; /* that does not overflow, by one bit */
        unsigned from_larger;
    } cases[] = {{CKPT_DT_F16, 65520, 0x7c00},
                 {CKPT_DT_BF16, 0x1.ffp127, 0x7f80},
                 {CKPT_DT_F8_E5M2, 61440, 0x7c},
                 {CKPT_DT_F8_E4M3FNUZ, 248, 0x80},
                 {CKPT_DT_F8_E5M2FNUZ, 61440, 0x80}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct conversion once;
        struct convert_tally t = {0};
        double d[3] = {nextafter(cases[k].largest, 0), cases[k].largest, 1e300};
        unsigned char out[6];
        size_t width = ckpt_dtype_bits(cases[k].to) / 8;
        CU_ASSERT_TRUE_FATAL(conversion_init_once(&once, cases[k].to));
        unit_to_host_order(d, 3, 8);
        convert_run(&once, d, 3, out, &t);
        CU_ASSERT_EQUAL(t.overflowed, 2);
        for (size_t i = 1; i < 3; i++) {
            unsigned bits = out[i * width] | (width == 2 ? (unsigned)out[i * width + 1] << 8 : 0);
            CU_ASSERT_EQUAL(bits, cases[k].from_larger);
        }
    }
}

static void widening_is_exact(void)
{
    static const ckpt_dtype from[] = {CKPT_DT_F16,     CKPT_DT_BF16,        CKPT_DT_F8_E4M3,
                                      CKPT_DT_F8_E5M2, CKPT_DT_F8_E4M3FNUZ, CKPT_DT_F8_E5M2FNUZ,
                                      CKPT_DT_F8_E8M0, CKPT_DT_I8,          CKPT_DT_U8,
                                      CKPT_DT_I16,     CKPT_DT_U16};
    for (size_t k = 0; k < sizeof from / sizeof *from; k++) {
        unsigned n = ckpt_dtype_bits(from[k]) == 16 ? 0x10000 : 0x100, nwrong = 0;
        for (unsigned b = 0; b < n; b++) {
            unsigned char in[2] = {(unsigned char)b, (unsigned char)(b >> 8)}, out[8];
            double want = decode_value(from[k], b), d;
            float f;
            convert_one(from[k], CKPT_DT_F32, in, out);
            memcpy(&f, out, 4);
            unit_to_host_order(&f, 1, 4);
            convert_one(from[k], CKPT_DT_F64, in, out);
            memcpy(&d, out, 8);
            unit_to_host_order(&d, 1, 8);
            nwrong += isnan(want) ? !isnan(f) || !isnan(d) || !signbit(f) != !signbit(d)
                                  : (double)f != want || d != want || !signbit(f) != !signbit(want);
        }
        CU_ASSERT_EQUAL(nwrong, 0);
    }
}

static void unsupported_casts_are_refused(void)
{
    struct conversion c;
    CU_ASSERT_FALSE(conversion_init(&c, CKPT_DT_F32, CKPT_DT_F8_E8M0));
    CU_ASSERT_FALSE(conversion_init(&c, CKPT_DT_F32, CKPT_DT_I64));
    CU_ASSERT_FALSE(conversion_init(&c, CKPT_DT_C64, CKPT_DT_F32));
    CU_ASSERT_FALSE(conversion_init(&c, CKPT_DT_QI8, CKPT_DT_F32));
    CU_ASSERT_FALSE(conversion_init(&c, CKPT_DT_F4, CKPT_DT_F32));
    CU_ASSERT_FALSE(conversion_init(&c, CKPT_DT_NONE, CKPT_DT_F32));
}

/* ------------------------------------------------------- kernels on this CPU */

/* The values to convert, the results of the scalar kernels, and those of the best kernels for this CPU. The
 * results in by_kernel begin at its byte 1, which is not aligned. */
static unsigned char sample[SAMPLE_VALUES * 8 + 16], by_scalar[SAMPLE_VALUES * 4 + 16],
    by_kernel[SAMPLE_VALUES * 4 + 16];

static int kernels_from_f32_agree(size_t n, const unsigned char *from)
{
    const struct convert_kernels *best = convert_best_kernels(), *scalar = &convert_scalar;
    unsigned nwrong = 0;
    scalar->f32_to_f16(from, n, by_scalar);
    best->f32_to_f16(from, n, by_kernel + 1);
    nwrong += memcmp(by_scalar, by_kernel + 1, n * 2) != 0;
    CU_ASSERT_EQUAL(scalar->f32_to_bf16(from, n, by_scalar), best->f32_to_bf16(from, n, by_kernel + 1));
    nwrong += memcmp(by_scalar, by_kernel + 1, n * 2) != 0;
    for (unsigned i = 2; i < TARGETS; i++) {
        struct conversion c;
        CU_ASSERT_TRUE(conversion_init(&c, CKPT_DT_F32, targets[i]));
        scalar->f32_to_f8(&c.f8_format, from, n, by_scalar);
        best->f32_to_f8(&c.f8_format, from, n, by_kernel + 1);
        nwrong += memcmp(by_scalar, by_kernel + 1, n) != 0;
        if (i == 2) /* one target is enough */
            nwrong += scalar->count_in_range(from, n, c.overflow_start, c.overflow_end) !=
                      best->count_in_range(from, n, c.overflow_start, c.overflow_end);
    }
    return nwrong == 0;
}

static int kernels_to_f32_agree(size_t n, const unsigned char *from)
{
    const struct convert_kernels *best = convert_best_kernels(), *scalar = &convert_scalar;
    unsigned nwrong = 0;
    scalar->f16_to_f32(from, n, by_scalar);
    best->f16_to_f32(from, n, by_kernel + 1);
    nwrong += memcmp(by_scalar, by_kernel + 1, n * 4) != 0;
    scalar->bf16_to_f32(from, n, by_scalar);
    best->bf16_to_f32(from, n, by_kernel + 1);
    nwrong += memcmp(by_scalar, by_kernel + 1, n * 4) != 0;
    scalar->f64_to_f32(from, n, by_scalar);
    best->f64_to_f32(from, n, by_kernel + 1);
    nwrong += memcmp(by_scalar, by_kernel + 1, n * 4) != 0;
    scalar->f64_to_odd_f32(from, n, by_scalar);
    best->f64_to_odd_f32(from, n, by_kernel + 1);
    return nwrong == 0 && memcmp(by_scalar, by_kernel + 1, n * 4) == 0;
}

/* set_sample_number - sets the float32 number I of the sample. */
static void set_sample_number(size_t i, uint32_t v) { store_u32le(sample + 4 * i, v); }

/* 2^24 floats: each of the 2^16 upper halves with 256 lower halves, which include ties. */
static void kernels_agree_on_floats(void)
{
    unsigned nwrong = 0;
    for (uint32_t low = 0; low < 256; low++) {
        uint32_t bits = low < 8 ? (const uint32_t[]){0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0xfff, 0x1000}[low]
                                : low * 0x9e37u % 0x10000u;
        for (uint32_t high = 0; high < SAMPLE_VALUES; high++)
            set_sample_number(high, high << 16 | bits);
        nwrong += !kernels_from_f32_agree(SAMPLE_VALUES, sample);
    }
    CU_ASSERT_EQUAL(nwrong, 0);
}

static void kernels_agree_on_small_types_and_doubles(void)
{
    uint64_t seed = 1;
    for (unsigned i = 0; i < SAMPLE_VALUES; i++) {
        sample[2 * i] = (unsigned char)i;
        sample[2 * i + 1] = (unsigned char)(i >> 8);
    }
    CU_ASSERT_TRUE(kernels_to_f32_agree(SAMPLE_VALUES, sample)); /* all float16 values */
    for (unsigned pass = 0; pass < 16; pass++) {
        for (unsigned i = 0; i < SAMPLE_VALUES; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            /* all bits are random, or the exponent is in or near the range of float32 */
            uint64_t bits = pass & 1 ? seed
                                     : (seed & 0x800fffffffffffffu) | ((uint64_t)(890 + i % 270) << 52);
            store_u64le(sample + 8 * i, bits);
        }
        CU_ASSERT_TRUE(kernels_to_f32_agree(SAMPLE_VALUES, sample));
    }
}

static void kernels_agree_on_any_length_and_alignment(void)
{
    unsigned nwrong = 0;
    uint32_t seed = 1;
    for (size_t i = 0; i < 4096; i++)
        sample[i] = (unsigned char)((seed = seed * 1664525u + 1013904223u) >> 24);
    for (size_t n = 0; n <= 256; n++)
        for (size_t at = 0; at < 8; at++) {
            memset(by_kernel, 0x5a, 2048);
            nwrong += !kernels_from_f32_agree(n, sample + at) || !kernels_to_f32_agree(n, sample + at);
            nwrong += by_kernel[0] != 0x5a || by_kernel[1 + 4 * n] != 0x5a;
        }
    CU_ASSERT_EQUAL(nwrong, 0);
}

void suite_convert(void)
{
    UNIT(casts_round_to_nearest_even);
    UNIT(overflow_infinity_and_nan_are_converted);
    UNIT(float64_is_rounded_twice);
    UNIT(float64_can_be_rounded_once);
    UNIT(overflow_is_counted_when_rounding_once);
    UNIT(widening_is_exact);
    UNIT(unsupported_casts_are_refused);
    UNIT(kernels_agree_on_floats);
    UNIT(kernels_agree_on_small_types_and_doubles);
    UNIT(q8_0_blocks_equal_those_of_gguf);
    UNIT(kernels_agree_on_any_length_and_alignment);
}
