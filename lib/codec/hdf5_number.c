/*
 * hdf5_number.c - converts numbers of HDF5 that are stored with other bits than those of a dtype: integers
 * with padding, floats with other fields. The values are exact, because the dtype has at least as many bits.
 *
 *   integer  PRECISION bits from bit OFFSET on, after which there are zeros or copies of the sign
 *   float    a sign, an exponent and a fraction, at any bits, as in IEEE 754: if all bits of the exponent are
 *            1, infinity, or NaN if the fraction is not 0; an exponent of 0 stands for 1, without a bit 1
 *            before the fraction. A NaN keeps its fraction
 */
#include "codec/hdf5_internal.h"

#define FLOAT(dtype, size, fraction, exponent)                                                               \
    {dtype,                                                                                                  \
     size,                                                                                                   \
     {.precision = 8 * (size),                                                                               \
      .sign_at = 8 * (size) - 1,                                                                             \
      .exponent_at = fraction,                                                                               \
      .exponent_bits = exponent,                                                                             \
      .fraction_bits = fraction,                                                                             \
      .bias = (1 << ((exponent) - 1)) - 1}}
/* The floats that have a dtype, small ones first. */
static const struct float_dtype {
    ckpt_dtype dtype;
    uint32_t size; /* bytes */
    struct hdf5_bits bits;
} float_dtypes[] = {FLOAT(CKPT_DT_F16, 2, 10, 5), FLOAT(CKPT_DT_F32, 4, 23, 8),
                    FLOAT(CKPT_DT_F64, 8, 52, 11)};

/* take_field - returns the COUNT bits of BITS from bit AT on. */
static uint64_t take_field(uint64_t bits, uint32_t at, uint32_t count)
{
    return count ? bits >> at & UINT64_MAX >> (64 - count) : 0;
}

static bool are_same_bits(const struct hdf5_bits *left, const struct hdf5_bits *right)
{
    return left->offset == right->offset && left->precision == right->precision &&
           left->sign_at == right->sign_at && left->exponent_at == right->exponent_at &&
           left->exponent_bits == right->exponent_bits && left->fraction_at == right->fraction_at &&
           left->fraction_bits == right->fraction_bits && left->bias == right->bias;
}

/* has_all_values - returns true if floats with the bits TO have all values of those with the bits FROM. */
static bool has_all_values(const struct hdf5_bits *to, const struct hdf5_bits *from)
{
    uint64_t from_ones = take_field(UINT64_MAX, 0, from->exponent_bits);
    uint64_t to_ones = take_field(UINT64_MAX, 0, to->exponent_bits);
    return from->fraction_bits <= to->fraction_bits && from->bias <= to->bias && from_ones <= to_ones &&
           to->bias - from->bias <= to_ones - from_ones;
}

/* are_apart - returns true if the COUNT bits from LEFT on and the NUMBER bits from RIGHT on have none in
 * common. */
static bool are_apart(uint32_t left, uint32_t count, uint32_t right, uint32_t number)
{
    return left + count <= right || right + number <= left;
}

bool hdf5_set_float(struct hdf5_type *type, const struct hdf5_bits *bits)
{
    uint32_t nbits = bits->offset + bits->precision;
    bool has_fields = type->size >= 2 && type->size <= 8 && nbits <= 8 * type->size &&
                      bits->sign_at < nbits && bits->exponent_bits &&
                      bits->exponent_at + bits->exponent_bits <= nbits && bits->fraction_bits &&
                      bits->fraction_at + bits->fraction_bits <= nbits &&
                      are_apart(bits->sign_at, 1, bits->exponent_at, bits->exponent_bits) &&
                      are_apart(bits->sign_at, 1, bits->fraction_at, bits->fraction_bits) &&
                      are_apart(bits->exponent_at, bits->exponent_bits, bits->fraction_at,
                                bits->fraction_bits);
    for (size_t i = 0; has_fields && i < sizeof float_dtypes / sizeof *float_dtypes; i++) {
        const struct float_dtype *f = &float_dtypes[i];
        if (f->size < type->size || !has_all_values(&f->bits, bits))
            continue;
        type->kind = HDF5_NUMBER;
        type->dtype = f->dtype;
        type->bits = *bits;
        type->is_converted = f->size != type->size || !are_same_bits(&f->bits, bits);
        return true;
    }
    return false;
}

MODULO static uint64_t convert_integer(const struct hdf5_bits *bits, uint64_t stored)
{
    uint64_t value = take_field(stored, bits->offset, bits->precision), sign = UINT64_C(1)
                                                                               << (bits->precision - 1);
    return bits->is_signed ? (value ^ sign) - sign : value;
}

static uint64_t convert_float(const struct hdf5_bits *bits, const struct hdf5_bits *to, uint64_t stored)
{
    uint64_t fraction = take_field(stored, bits->fraction_at, bits->fraction_bits);
    uint64_t exponent = take_field(stored, bits->exponent_at, bits->exponent_bits);
    uint64_t sign = take_field(stored, bits->sign_at, 1), one = UINT64_C(1) << bits->fraction_bits;
    uint32_t more_bias = to->bias - bits->bias;
    if (exponent == take_field(UINT64_MAX, 0, bits->exponent_bits))
        exponent = take_field(UINT64_MAX, 0, to->exponent_bits);
    else if (exponent)
        exponent += more_bias;
    else if (fraction) {
        for (exponent = more_bias + 1; exponent > 1 && !(fraction & one); exponent--)
            fraction <<= 1;
        exponent = fraction & one ? exponent : 0;
    }
    fraction = take_field(fraction, 0, bits->fraction_bits) << (to->fraction_bits - bits->fraction_bits);
    return sign << to->sign_at | exponent << to->exponent_at | fraction;
}

uint64_t hdf5_get_number(const struct hdf5_type *type, const unsigned char *bytes)
{
    uint64_t stored = load_number(bytes, type->size, type->big_endian);
    if (!type->is_converted)
        return stored;
    for (size_t i = 0; type->bits.exponent_bits && i < sizeof float_dtypes / sizeof *float_dtypes; i++)
        if (float_dtypes[i].dtype == type->dtype)
            return convert_float(&type->bits, &float_dtypes[i].bits, stored);
    return convert_integer(&type->bits, stored);
}

/* ------------------------------------------------------------------------- a source */

static void convert_numbers(const void *user, unsigned char *in, size_t count, unsigned char *out)
{
    const struct hdf5_type *type = user;
    uint32_t width = dtype_info(type->dtype)->block_bytes;
    for (size_t i = 0; i < count; i++) {
        uint64_t number = hdf5_get_number(type, in + i * type->size);
        for (uint32_t k = 0; k < width; k++)
            out[i * width + k] = (unsigned char)(number >> 8 * k);
    }
}

source *hdf5_numbers(source *from, uint64_t offset, uint64_t nbytes, const void *type)
{
    const struct hdf5_type *t = type;
    const struct element_converter how = {t->size, dtype_info(t->dtype)->block_bytes, convert_numbers};
    return source_elements(from, offset, nbytes, &how, t, sizeof *t);
}
