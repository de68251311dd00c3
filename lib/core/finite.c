/* finite.c - see finite.h. Nearly always all numbers are finite, and that is checked eight bytes at a time:
 * only NaN and Inf have an exponent of all ones. */
#include "core/finite.h"

#include "base/cursor.h"
#include "core/number.h"

#define DECODED_AT_ONCE 256u /* elements decoded at once; whole blocks of any dtype */

bool finite_applies_to(ckpt_dtype dt)
{
    char c = dtype_info(dt)->klass;
    return (c == 'f' || c == 'c' || c == 'k') && numbers_per_element(dt) != 0;
}

/* are_all_finite - returns true if no element has an exponent of all ones. Keeps the bits of EXPONENT and
 * adds LOWEST, the lowest one in each element: only an exponent of all ones carries into the bit above it. */
static bool are_all_finite(const unsigned char *bytes, size_t nbytes, uint64_t exponent, uint64_t lowest)
{
    uint64_t carry = 0;
    for (size_t i = 0; i < nbytes; i += 8)
        carry |= (load_u64le(bytes + i) & exponent) + lowest;
    return (carry & (exponent + lowest)) == 0;
}

/* decode_and_count - decodes and counts COUNT elements, at most DECODED_AT_ONCE. */
static void decode_and_count(struct finite *finite, ckpt_dtype dt, const unsigned char *bytes, size_t count)
{
    double x[2 * DECODED_AT_ONCE];
    unsigned lanes = numbers_per_element(dt);
    number_decode(dt, bytes, count, x);
    for (size_t i = 0; i < count; i++) {
        bool nan = false, inf = false;
        for (unsigned k = 0; k < lanes; k++) {
            double v = x[i * lanes + k];
            nan |= v != v;
            inf |= v - v != 0 && v == v;
        }
        finite->nan += nan;
        finite->inf += inf && !nan;
        if ((nan || inf) && finite->first_index == UINT64_MAX)
            finite->first_index = finite->seen + i;
    }
}

static bool are_surely_finite(ckpt_dtype dt, const unsigned char *bytes, size_t nbytes)
{
    switch (dt) {
    case CKPT_DT_F64:
    case CKPT_DT_C128:
        return are_all_finite(bytes, nbytes, UINT64_C(0x7ff0000000000000), UINT64_C(0x0010000000000000));
    case CKPT_DT_F32:
    case CKPT_DT_C64:
        return are_all_finite(bytes, nbytes, UINT64_C(0x7f8000007f800000), UINT64_C(0x0080000000800000));
    case CKPT_DT_BF16:
        return are_all_finite(bytes, nbytes, UINT64_C(0x7f807f807f807f80), UINT64_C(0x0080008000800080));
    case CKPT_DT_F16:
    case CKPT_DT_C32:
        return are_all_finite(bytes, nbytes, UINT64_C(0x7c007c007c007c00), UINT64_C(0x0400040004000400));
    default: return false;
    }
}

void finite_add(struct finite *finite, ckpt_dtype dt, const unsigned char *at, size_t nbytes)
{
    const struct dtype_info *d = dtype_info(dt);
    if (finite->seen == 0)
        finite->first_index = UINT64_MAX;
    while (nbytes) {
        size_t bytes = (size_t)DECODED_AT_ONCE / d->block_elems * d->block_bytes;
        bytes = nbytes < bytes ? nbytes : bytes;
        size_t elements = bytes / d->block_bytes * d->block_elems;
        if (bytes % 8 || !are_surely_finite(dt, at, bytes))
            decode_and_count(finite, dt, at, elements);
        finite->seen += elements;
        at += bytes;
        nbytes -= bytes;
    }
}
