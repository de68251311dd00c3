/* elements.h - what has to be done to stored elements before they are values:
 * byte order, conjugation, negation. */
#ifndef CORE_ELEMENTS_H
#define CORE_ELEMENTS_H

#include "base/error.h"
#include "core/dtype.h"

enum negation { NEGATE_NOT, NEGATE_FLIP, NEGATE_INT, NEGATE_FNUZ };

struct elements {
    uint8_t swap;           /* width to swap; 0: none */
    uint8_t width;          /* of one element */
    uint8_t negation;       /* enum negation */
    unsigned char flip[16]; /* NEGATE_FLIP: sign bits to turn, repeated over 16 bytes */
};

/* elements_init - for views of DT (WIDTH bytes an element) on a storage to be
 * swapped by SWAP (0 and 1: not). CKPT_EUNSUPPORTED where that has no meaning. */
ckpt_status elements_init(struct elements *e, ckpt_dtype dt, uint32_t width, uint8_t swap, bool conj,
                          bool neg, ckpt_error *err);
/* swap_bytes - turns round each WIDTH of N bytes; a rest shorter than that stays. */
void swap_bytes(unsigned char *p, size_t n, size_t width);
/* elements_apply - on N bytes of whole elements, in place. */
void elements_apply(const struct elements *e, unsigned char *bytes, size_t n);

#endif
