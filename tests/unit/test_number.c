/* number_decode() must decode every value of the small types as their formats define it. */
#include <math.h>
#include <stdlib.h>

#include "base/store.h"
#include "core/number.h"
#include "core/dtype.h"
#include "unit.h"

static double decode_one(ckpt_dtype dt, const void *bytes)
{
    double out[4] = {0};
    number_decode(dt, bytes, 1, out);
    return out[0];
}

static int is_same(double a, double b) { return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b); }

/* decode_ieee - returns the value of BITS, which have EXPONENT_BITS bits of exponent with this BIAS and
 * MANTISSA_BITS bits of mantissa. If HAS_INF, the largest exponent means infinity or NaN. */
static double decode_ieee(unsigned bits, int exponent_bits, int mantissa_bits, int bias, bool has_inf)
{
    unsigned mantissa = bits & ((1u << mantissa_bits) - 1);
    unsigned exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
    double sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1.0 : 1.0;
    if (has_inf && exponent == (1u << exponent_bits) - 1)
        return mantissa ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * mantissa * pow(2, 1 - bias - mantissa_bits);
    return sign * (1 + mantissa * pow(2, -mantissa_bits)) * pow(2, (int)exponent - bias);
}

static void types_of_two_bytes_are_decoded(void)
{
    unsigned nwrong = 0;
    for (unsigned i = 0; i < 65536; i++) {
        unsigned char b[2] = {(unsigned char)i, (unsigned char)(i >> 8)};
        nwrong += !is_same(decode_one(CKPT_DT_F16, b), decode_ieee(i, 5, 10, 15, true));
        nwrong += !is_same(decode_one(CKPT_DT_BF16, b), decode_ieee(i, 8, 7, 127, true));
        nwrong += decode_one(CKPT_DT_I16, b) != (i < 32768 ? (double)i : (double)i - 65536);
        nwrong += decode_one(CKPT_DT_U16, b) != (double)i;
    }
    CU_ASSERT_EQUAL(nwrong, 0);
}

static void types_of_one_byte_are_decoded(void)
{
    unsigned nwrong = 0;
    for (unsigned i = 0; i < 256; i++) {
        unsigned char b = (unsigned char)i;
        nwrong += !is_same(decode_one(CKPT_DT_F8_E5M2, &b), decode_ieee(i, 5, 2, 15, true));
        nwrong += !is_same(decode_one(CKPT_DT_F8_E4M3, &b),
                           (i & 127) == 127 ? (double)NAN : decode_ieee(i, 4, 3, 7, false));
        nwrong += !is_same(decode_one(CKPT_DT_F8_E4M3FNUZ, &b),
                           i == 128 ? (double)NAN : decode_ieee(i, 4, 3, 8, false));
        nwrong += !is_same(decode_one(CKPT_DT_F8_E5M2FNUZ, &b),
                           i == 128 ? (double)NAN : decode_ieee(i, 5, 2, 16, false));
        nwrong += !is_same(decode_one(CKPT_DT_F8_E8M0, &b), i == 255 ? (double)NAN : pow(2, (int)i - 127));
        nwrong += decode_one(CKPT_DT_I8, &b) != (i < 128 ? (double)i : (double)i - 256);
        nwrong += decode_one(CKPT_DT_BOOL, &b) != (i != 0);
    }
    CU_ASSERT_EQUAL(nwrong, 0);
    /* the largest values, from the papers about these formats */
    CU_ASSERT_EQUAL(decode_one(CKPT_DT_F8_E4M3, "\x7e"), 448);
    CU_ASSERT_EQUAL(decode_one(CKPT_DT_F8_E5M2, "\x7b"), 57344);
    CU_ASSERT_EQUAL(decode_one(CKPT_DT_F8_E4M3FNUZ, "\x7f"), 240);
    CU_ASSERT_EQUAL(decode_one(CKPT_DT_F8_E5M2FNUZ, "\x7f"), 57344);
}

static void many_elements_are_decoded_like_one(void)
{
    unsigned char in[512];
    double out[512];
    unsigned nwrong = 0;
    for (unsigned i = 0; i < 512; i++)
        in[i] = (unsigned char)i;
    unsigned char *guarded = unit_guard(in, sizeof in);
    for (ckpt_dtype dt = CKPT_DT_F8_E4M3; dt <= CKPT_DT_F8_E8M0; dt++) {
        number_decode(dt, guarded, 512, out);
        for (unsigned i = 0; i < 512; i++)
            nwrong += !is_same(out[i], decode_one(dt, &in[i]));
    }
    unit_guard_free(guarded, sizeof in);
    CU_ASSERT_EQUAL(nwrong, 0);
}

static void packed_types_are_decoded(void)
{
    static const double f4[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    double out[4];
    for (unsigned i = 0; i < 256; i++) {
        unsigned char b = (unsigned char)i;
        number_decode(CKPT_DT_F4, &b, 1, out);
        CU_ASSERT(is_same(out[0], i & 8 ? -f4[i & 7] : f4[i & 7]) &&
                  is_same(out[1], i & 128 ? -f4[i >> 4 & 7] : f4[i >> 4 & 7]));
        number_decode(CKPT_DT_QU4X2, &b, 2, out);
        CU_ASSERT(out[0] == (i & 15) && out[1] == i >> 4);
        number_decode(CKPT_DT_QU2X4, &b, 4, out);
        CU_ASSERT(out[0] == (i & 3) && out[3] == i >> 6);
    }
    for (unsigned i = 0; i < 64; i++) { /* V has the six bits of I four times */
        uint32_t v = i * 0x41041u;
        unsigned char b[3] = {(unsigned char)v, (unsigned char)(v >> 8), (unsigned char)(v >> 16)};
        number_decode(CKPT_DT_F6_E2M3, b, 4, out);
        CU_ASSERT(is_same(out[0], decode_ieee(i, 2, 3, 1, false)) && is_same(out[3], out[0]));
        number_decode(CKPT_DT_F6_E3M2, b, 4, out);
        CU_ASSERT(is_same(out[1], decode_ieee(i, 3, 2, 3, false)) && is_same(out[2], out[1]));
    }
}

static void wide_and_complex_types_are_decoded(void)
{
    double out[2];
    CU_ASSERT_EQUAL(decode_one(CKPT_DT_F64, "\0\0\0\0\0\0\xf0\x3f"), 1.0);
    CU_ASSERT_EQUAL(decode_one(CKPT_DT_I64, "\xff\xff\xff\xff\xff\xff\xff\xff"), -1.0);
    CU_ASSERT_EQUAL(decode_one(CKPT_DT_U64, "\0\0\0\0\0\0\0\x80"), 0x1p63);
    CU_ASSERT_EQUAL(decode_one(CKPT_DT_I32, "\0\0\0\x80"), -0x1p31);
    CU_ASSERT_EQUAL(decode_one(CKPT_DT_U32, "\0\0\0\x80"), 0x1p31);
    number_decode(CKPT_DT_C64, (const unsigned char *)"\0\0\x80\x3f\0\0\0\xc0", 1, out);
    CU_ASSERT(out[0] == 1 && out[1] == -2);
    number_decode(CKPT_DT_C32, (const unsigned char *)"\0\x3c\0\xc0", 1, out);
    CU_ASSERT(out[0] == 1 && out[1] == -2);
    number_decode(CKPT_DT_BC32, (const unsigned char *)"\x80\x3f\0\xc0", 1, out);
    CU_ASSERT(out[0] == 1 && out[1] == -2);
}

static void low_part_is_what_a_double_rounds_off(void)
{
    const struct {
        ckpt_dtype dt;
        uint64_t u;
        double low;
    } cases[] = {
        {CKPT_DT_I64, (uint64_t)INT64_MAX, -1},
        {CKPT_DT_I64, UINT64_C(1) << 63, 0},
        {CKPT_DT_I64, (UINT64_C(1) << 63) + 511, 511},
        {CKPT_DT_I64, UINT64_MAX, 0},
        {CKPT_DT_I64, (UINT64_C(1) << 53) + 3, -1},
        {CKPT_DT_U64, UINT64_MAX, -1},
        {CKPT_DT_U64, UINT64_MAX - 1023, -1024},
        {CKPT_DT_U64, (UINT64_C(1) << 63) + 1, 1},
        {CKPT_DT_U64, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char bytes[8];
        double low = 0.5;
        store_u64le(bytes, cases[i].u);
        number_decode_low(cases[i].dt, bytes, 1, &low);
        CU_ASSERT_EQUAL(low, cases[i].low);
    }
}

/* number_decode() reads only the bytes of the elements, and writes numbers_per_element() values for each. */
static void two_blocks_are_decoded_within_bounds(void)
{
    for (ckpt_dtype dt = CKPT_DT_NONE; dt < DTYPE_COUNT; dt++) {
        const struct dtype_info *d = dtype_info(dt);
        unsigned char zero[600] = {0};
        double out[513];
        const double unwritten = -7; /* no type decodes zeros to this value */
        size_t size = (size_t)d->block_bytes * 2, elements = size ? (size_t)d->block_elems * 2 : 0;
        for (int i = 0; i < 513; i++)
            out[i] = unwritten;
        unsigned char *guarded = unit_guard(zero, size);
        number_decode(dt, guarded, elements, out);
        unit_guard_free(guarded, size);
        size_t lanes = elements * numbers_per_element(dt);
        CU_ASSERT(out[lanes] == unwritten);
        CU_ASSERT(lanes == 0 || out[lanes - 1] != unwritten);
    }
}

void suite_number(void)
{
    UNIT(types_of_two_bytes_are_decoded);
    UNIT(types_of_one_byte_are_decoded);
    UNIT(many_elements_are_decoded_like_one);
    UNIT(packed_types_are_decoded);
    UNIT(wide_and_complex_types_are_decoded);
    UNIT(low_part_is_what_a_double_rounds_off);
    UNIT(two_blocks_are_decoded_within_bounds);
}
