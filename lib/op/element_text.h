/* element_text.h - the number that a text is, as a stored element. */
#pragma once

#include "base/error.h"
#include "core/dtype.h"

#define ELEMENT_MAX 16u /* bytes of an element of a dtype without blocks */

/* element_is_number - returns true if TEXT is a number for some dtype, or true or false. */
bool element_is_number(ckpt_str text);
/* element_of_text - sets OUT to the number TEXT as an element of DTYPE, little-endian; a complex one has no
 * imaginary part. Floats are rounded as Tensor.to rounds them, and may be inf or nan; bools are 0, 1, true or
 * false. *HOLDS is false if TEXT is no number that DTYPE holds, or overflows it. */
ckpt_status element_of_text(ckpt_str text, ckpt_dtype dtype, unsigned char out[ELEMENT_MAX], bool *holds,
                            ckpt_error *err);
