/* elements.h - applies to stored elements what their view requires: byte order, conjugation, negation. */
#ifndef CORE_ELEMENTS_H
#define CORE_ELEMENTS_H

#include "base/error.h"
#include "core/dtype.h"

enum negation { NEGATE_NOT, NEGATE_FLIP, NEGATE_INT, NEGATE_FNUZ };

struct elements {
    uint8_t swap;           /* width of the unit to swap in bytes; 0: none */
    uint8_t width;          /* of one element in bytes */
    uint8_t negation;       /* enum negation */
    unsigned char flip[16]; /* NEGATE_FLIP: sign bits to invert, repeated over 16 bytes */
};

/* elements_init - prepares for views of DT (WIDTH bytes an element) on a storage whose bytes are swapped
 * in units of SWAP (0 and 1: not). CKPT_EUNSUPPORTED if DT has no such values. */
ckpt_status elements_init(struct elements *e, ckpt_dtype dt, uint32_t width, uint8_t swap, bool conj,
                          bool neg, ckpt_error *err);
/* swap_bytes - reverses each unit of WIDTH bytes in the N bytes at P, but not an incomplete last unit. */
void swap_bytes(unsigned char *p, size_t n, size_t width);
/* elements_apply - converts N bytes of complete elements in place. */
void elements_apply(const struct elements *e, unsigned char *bytes, size_t n);

#endif
