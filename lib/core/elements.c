/* elements.c - see elements.h. conj() and the like do not change a storage: torch stores its bytes
 * unchanged and sets a flag of the view (torch/_utils.py set_tensor_metadata). */
#include "core/elements.h"

static void choose_sign_flips(struct element_transform *transform, const struct dtype_info *info, bool conj,
                              bool neg)
{
    transform->negation = NEGATE_FLIP;
    for (size_t i = 0; i < sizeof transform->flip_mask; i++) {
        bool sign = i % info->swap_bytes == (size_t)info->swap_bytes - 1;
        bool imaginary = info->klass == 'c' && i % transform->width >= transform->width / 2u;
        transform->flip_mask[i] = sign && (imaginary ? neg != conj : neg) ? 0x80 : 0;
    }
}

ckpt_status element_transform_init(struct element_transform *transform, ckpt_dtype dt, uint32_t width,
                                   uint8_t swap, bool conj, bool neg, ckpt_error *err)
{
    const struct dtype_info *d = dtype_info(dt);
    *transform = (struct element_transform){.width = (uint8_t)width, .swap_width = swap > 1 ? swap : 0};
    if (transform->swap_width && width % transform->swap_width != 0)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "its storage is big-endian in units of {=%u bytes}, its elements have {%u}", swap, width);
    conj = conj && d->klass == 'c';
    if (!conj && !neg)
        return CKPT_OK;
    if (dt == CKPT_DT_F8_E4M3FNUZ || dt == CKPT_DT_F8_E5M2FNUZ)
        transform->negation = NEGATE_FNUZ;
    else if (d->klass == 'c' || (d->klass == 'f' && dt != CKPT_DT_F8_E8M0))
        choose_sign_flips(transform, d, conj, neg);
    else if (d->klass == 'i' || d->klass == 'u')
        transform->negation = NEGATE_INT;
    else
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "its view is negated, which %s values cannot be",
                    d->name);
    return CKPT_OK;
}

/* swap_pairs - swaps bytes pairwise, 8 bytes at a time; returns the number of swapped bytes. */
static size_t swap_pairs(unsigned char *bytes, size_t nbytes)
{
    const uint64_t low = UINT64_C(0x00FF00FF00FF00FF);
    size_t i = 0;
    for (uint64_t v; i + 8 <= nbytes; i += 8) {
        memcpy(&v, bytes + i, 8);
        v = (v & low) << 8 | (v >> 8 & low);
        memcpy(bytes + i, &v, 8);
    }
    return i;
}

#define SWAP_EACH(bits)                                                                                      \
    for (uint##bits##_t v; nbytes >= sizeof v; bytes += sizeof v, nbytes -= sizeof v) {                      \
        memcpy(&v, bytes, sizeof v);                                                                         \
        v = __builtin_bswap##bits(v);                                                                        \
        memcpy(bytes, &v, sizeof v);                                                                         \
    }

void swap_bytes(unsigned char *bytes, size_t nbytes, size_t width)
{
    size_t done;
    switch (width) {
    case 2:
        done = swap_pairs(bytes, nbytes);
        bytes += done;
        nbytes -= done;
        SWAP_EACH(16);
        return;
    case 4: SWAP_EACH(32); return;
    case 8: SWAP_EACH(64); return;
    default:
        for (; nbytes >= width; bytes += width, nbytes -= width)
            for (size_t i = 0; i < width / 2; i++) {
                unsigned char c = bytes[i];
                bytes[i] = bytes[width - 1 - i];
                bytes[width - 1 - i] = c;
            }
    }
}

/* negate_ints - negates little-endian integers in two's complement, of any width. */
static void negate_ints(unsigned char *bytes, size_t nbytes, size_t width)
{
    for (; nbytes; bytes += width, nbytes -= width) {
        unsigned carry = 1;
        for (size_t i = 0; i < width; i++) {
            carry += (unsigned char)~bytes[i];
            bytes[i] = (unsigned char)carry;
            carry >>= 8;
        }
    }
}

void element_transform_apply(const struct element_transform *transform, unsigned char *bytes, size_t nbytes)
{
    if (transform->swap_width)
        swap_bytes(bytes, nbytes, transform->swap_width);
    switch ((enum negation)transform->negation) {
    case NEGATE_NONE: return;
    case NEGATE_FLIP:
        for (size_t i = 0; i < nbytes; i++)
            bytes[i] ^= transform->flip_mask[i % sizeof transform->flip_mask];
        return;
    case NEGATE_INT: negate_ints(bytes, nbytes, transform->width); return;
    case NEGATE_FNUZ: /* fnuz has no -0: the sign bit alone is NaN, whose negation is NaN */
        for (size_t i = 0; i < nbytes; i++)
            bytes[i] ^= bytes[i] & 0x7F ? 0x80 : 0;
        return;
    }
}
