/*
 * hdf5_number.c - converts numbers of HDF5 that are stored with other bits than those of a dtype: integers
 * with padding, floats with other fields. The values are exact, because the dtype has at least as many bits.
 *
 *   integer  PRECISION bits from bit OFFSET on, after which there are zeros or copies of the sign
 *   float    a sign, an exponent and a fraction, at any bits, as in IEEE 754: if all bits of the exponent are
 *            1, infinity, or NaN if the fraction is not 0; an exponent of 0 stands for 1, without a bit 1
 *            before the fraction. A NaN keeps its fraction
 */
#include <stdlib.h>

#include "base/checked.h"
#include "codec/hdf5_internal.h"

#define AT_ONCE 512u /* elements that are converted at a time */

/* The floats that have a dtype, small ones first. */
static const struct float_dtype {
    ckpt_dtype dtype;
    uint32_t size; /* bytes */
    struct hdf5_bits bits;
} float_dtypes[] = {
    {CKPT_DT_F16,
     2,
     {.precision = 16,
      .sign_at = 15,
      .exponent_at = 10,
      .exponent_bits = 5,
      .fraction_bits = 10,
      .bias = 15}},
    {CKPT_DT_F32,
     4,
     {.precision = 32,
      .sign_at = 31,
      .exponent_at = 23,
      .exponent_bits = 8,
      .fraction_bits = 23,
      .bias = 127}},
    {CKPT_DT_F64,
     8,
     {.precision = 64,
      .sign_at = 63,
      .exponent_at = 52,
      .exponent_bits = 11,
      .fraction_bits = 52,
      .bias = 1023}},
};

/* take_field - returns the N bits of BITS from bit AT on. */
static uint64_t take_field(uint64_t bits, uint32_t at, uint32_t n)
{
    return n ? bits >> at & UINT64_MAX >> (64 - n) : 0;
}

static bool are_same_bits(const struct hdf5_bits *a, const struct hdf5_bits *b)
{
    return a->offset == b->offset && a->precision == b->precision && a->sign_at == b->sign_at &&
           a->exponent_at == b->exponent_at && a->exponent_bits == b->exponent_bits &&
           a->fraction_at == b->fraction_at && a->fraction_bits == b->fraction_bits && a->bias == b->bias;
}

/* has_all_values - returns true if floats with the bits TO have all values of those with the bits FROM. */
static bool has_all_values(const struct hdf5_bits *to, const struct hdf5_bits *from)
{
    uint64_t from_ones = take_field(UINT64_MAX, 0, from->exponent_bits);
    uint64_t to_ones = take_field(UINT64_MAX, 0, to->exponent_bits);
    return from->fraction_bits <= to->fraction_bits && from->bias <= to->bias && from_ones <= to_ones &&
           to->bias - from->bias <= to_ones - from_ones;
}

/* are_apart - returns true if the N bits from A on and the M bits from B on have none in common. */
static bool are_apart(uint32_t a, uint32_t n, uint32_t b, uint32_t m) { return a + n <= b || b + m <= a; }

bool hdf5_set_float(struct hdf5_type *t, const struct hdf5_bits *bits)
{
    uint32_t nbits = bits->offset + bits->precision;
    bool has_fields = t->size >= 2 && t->size <= 8 && nbits <= 8 * t->size && bits->sign_at < nbits &&
                      bits->exponent_bits && bits->exponent_at + bits->exponent_bits <= nbits &&
                      bits->fraction_bits && bits->fraction_at + bits->fraction_bits <= nbits &&
                      are_apart(bits->sign_at, 1, bits->exponent_at, bits->exponent_bits) &&
                      are_apart(bits->sign_at, 1, bits->fraction_at, bits->fraction_bits) &&
                      are_apart(bits->exponent_at, bits->exponent_bits, bits->fraction_at,
                                bits->fraction_bits);
    for (size_t i = 0; has_fields && i < sizeof float_dtypes / sizeof *float_dtypes; i++) {
        const struct float_dtype *f = &float_dtypes[i];
        if (f->size < t->size || !has_all_values(&f->bits, bits))
            continue;
        t->kind = HDF5_NUMBER;
        t->dtype = f->dtype;
        t->bits = *bits;
        t->is_converted = f->size != t->size || !are_same_bits(&f->bits, bits);
        return true;
    }
    return false;
}

MODULO static uint64_t convert_integer(const struct hdf5_bits *b, uint64_t stored)
{
    uint64_t value = take_field(stored, b->offset, b->precision), sign = UINT64_C(1) << (b->precision - 1);
    return b->is_signed ? (value ^ sign) - sign : value;
}

static uint64_t convert_float(const struct hdf5_bits *b, const struct hdf5_bits *to, uint64_t stored)
{
    uint64_t fraction = take_field(stored, b->fraction_at, b->fraction_bits);
    uint64_t exponent = take_field(stored, b->exponent_at, b->exponent_bits);
    uint64_t sign = take_field(stored, b->sign_at, 1), one = UINT64_C(1) << b->fraction_bits;
    uint32_t more_bias = to->bias - b->bias;
    if (exponent == take_field(UINT64_MAX, 0, b->exponent_bits))
        exponent = take_field(UINT64_MAX, 0, to->exponent_bits);
    else if (exponent)
        exponent += more_bias;
    else if (fraction) {
        for (exponent = more_bias + 1; exponent > 1 && !(fraction & one); exponent--)
            fraction <<= 1;
        exponent = fraction & one ? exponent : 0;
    }
    fraction = take_field(fraction, 0, b->fraction_bits) << (to->fraction_bits - b->fraction_bits);
    return sign << to->sign_at | exponent << to->exponent_at | fraction;
}

uint64_t hdf5_get_number(const struct hdf5_type *t, const unsigned char *b)
{
    uint64_t stored = load_number(b, t->size, t->big_endian);
    if (!t->is_converted)
        return stored;
    for (size_t i = 0; t->bits.exponent_bits && i < sizeof float_dtypes / sizeof *float_dtypes; i++)
        if (float_dtypes[i].dtype == t->dtype)
            return convert_float(&t->bits, &float_dtypes[i].bits, stored);
    return convert_integer(&t->bits, stored);
}

/* ------------------------------------------------------------------------- a source */

struct numbers {
    source source;
    source *from;
    uint64_t from_offset; /* offset in FROM of the first element */
    uint32_t width;       /* bytes of an element of the dtype */
    struct hdf5_type type;
};

static ckpt_status read_numbers(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    const struct numbers *x = (const struct numbers *)(const void *)s;
    unsigned char stored[8 * AT_ONCE], converted[8 * AT_ONCE], *to = out;
    uint32_t size = x->type.size, width = x->width;
    while (n) {
        size_t skip = (size_t)(off % width), room = AT_ONCE * width - skip, take = n < room ? n : room;
        size_t count = (skip + take + width - 1) / width;
        uint64_t at = x->from_offset + off / width * size;
        CKPT_TRY(source_read(x->from, at, stored, count * size, err));
        for (size_t i = 0; i < count; i++) {
            uint64_t number = hdf5_get_number(&x->type, stored + i * size);
            for (uint32_t k = 0; k < width; k++)
                converted[i * width + k] = (unsigned char)(number >> 8 * k);
        }
        memcpy(to, converted + skip, take);
        to += take;
        off += take;
        n -= take;
    }
    return CKPT_OK;
}

static void close_numbers(source *s)
{
    source_unref(((struct numbers *)(void *)s)->from);
    free(s);
}

source *hdf5_numbers(source *from, uint64_t offset, uint64_t nbytes, const void *type)
{
    static const struct source_ops ops = {.read_at = read_numbers, .close = close_numbers};
    struct numbers *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->source = (source){.ops = &ops,
                         .size = nbytes,
                         .position = CKPT_NO_OFFSET,
                         .refs = 1,
                         .serializes_reads = from->serializes_reads,
                         .block_size = from->block_size};
    x->from = source_ref(from);
    x->from_offset = offset;
    x->type = *(const struct hdf5_type *)type;
    x->width = dtype_info(x->type.dtype)->block_bytes;
    return &x->source;
}
