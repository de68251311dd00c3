/* elements.h - applies to stored elements what their view requires: byte order, conjugation, negation. */
#pragma once

#include "base/error.h"
#include "core/dtype.h"

enum negation { NEGATE_NONE, NEGATE_FLIP, NEGATE_INT, NEGATE_FNUZ };

struct element_transform {
    uint8_t swap_width;          /* bytes of the unit whose bytes are reversed; 0: none */
    uint8_t width;               /* bytes of one element */
    uint8_t negation;            /* enum negation */
    unsigned char flip_mask[16]; /* NEGATE_FLIP: the sign bits to invert, repeated over 16 bytes */
};

/* element_transform_init - prepares TRANSFORM for a view that conjugates (CONJ) or negates (NEG) elements of
 * DT, of WIDTH bytes each. In each unit of SWAP bytes, the stored bytes are in reverse order (0 and 1: no
 * units). CKPT_EUNSUPPORTED: an element is not whole units, or values of DT cannot be negated. */
ckpt_status element_transform_init(struct element_transform *transform, ckpt_dtype dt, uint32_t width,
                                   uint8_t swap, bool conj, bool neg, ckpt_error *err);
/* swap_bytes - reverses each unit of WIDTH bytes in the NBYTES bytes at BYTES, but not an incomplete last
 * unit. */
void swap_bytes(unsigned char *bytes, size_t nbytes, size_t width);
/* element_transform_apply - transforms NBYTES bytes of complete elements in place. */
void element_transform_apply(const struct element_transform *transform, unsigned char *bytes, size_t nbytes);
