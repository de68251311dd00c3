/* finite.c - see finite.h. Mostly all numbers are finite, and that is found out eight
 * bytes at a time: an exponent of all ones is the only thing to look for. */
#include "core/finite.h"

#include "base/cursor.h"
#include "core/number.h"

#define SOME 256u /* elements decoded at once */

bool finite_has(ckpt_dtype dt)
{
    char c = dtype_info(dt)->klass;
    return (c == 'f' || c == 'c') && number_lanes(dt) != 0;
}

/* sign and fraction do not count: added to one in the lowest bit of the exponent, only
 * an exponent of all ones carries into the bit above it. */
static bool all_finite(const unsigned char *p, size_t n, uint64_t exponent, uint64_t lowest)
{
    uint64_t carry = 0;
    for (size_t i = 0; i < n; i += 8)
        carry |= (load_u64le(p + i) & exponent) + lowest;
    return (carry & (exponent + lowest)) == 0;
}

/* one_by_one - N elements of at most SOME. */
static void one_by_one(struct finite *f, ckpt_dtype dt, const unsigned char *p, size_t n)
{
    double x[2 * SOME];
    unsigned lanes = number_lanes(dt);
    number_decode(dt, p, n, x);
    for (size_t i = 0; i < n; i++) {
        bool nan = false, inf = false;
        for (unsigned k = 0; k < lanes; k++) {
            double v = x[i * lanes + k];
            nan |= v != v;
            inf |= v - v != 0 && v == v;
        }
        f->nan += nan;
        f->inf += inf && !nan;
        if ((nan || inf) && f->first == UINT64_MAX)
            f->first = f->at + i;
    }
}

static bool quick(ckpt_dtype dt, const unsigned char *p, size_t n)
{
    switch (dt) {
    case CKPT_DT_F64:
    case CKPT_DT_C128: return all_finite(p, n, UINT64_C(0x7ff0000000000000), UINT64_C(0x0010000000000000));
    case CKPT_DT_F32:
    case CKPT_DT_C64: return all_finite(p, n, UINT64_C(0x7f8000007f800000), UINT64_C(0x0080000000800000));
    case CKPT_DT_BF16: return all_finite(p, n, UINT64_C(0x7f807f807f807f80), UINT64_C(0x0080008000800080));
    case CKPT_DT_F16:
    case CKPT_DT_C32: return all_finite(p, n, UINT64_C(0x7c007c007c007c00), UINT64_C(0x0400040004000400));
    default: return false;
    }
}

void finite_add(struct finite *f, ckpt_dtype dt, const unsigned char *p, size_t n)
{
    const struct dtype_info *d = dtype_info(dt);
    if (f->at == 0)
        f->first = UINT64_MAX;
    /* bounded: n is a size in memory */
    while (n) {
        size_t bytes = (size_t)SOME * d->block_bytes;
        bytes = n < bytes ? n : bytes;
        size_t elements = bytes / d->block_bytes * d->block_elems;
        if (bytes % 8 || !quick(dt, p, bytes))
            one_by_one(f, dt, p, elements);
        f->at += elements;
        p += bytes;
        n -= bytes;
    }
}
