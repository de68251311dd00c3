/* flax.h - what the files of this folder share. */
#pragma once

#include "codec/flax.h"
#include "format/format.h"

#define FLAX_MAX_DEPTH 1000u /* nested containers; Flax itself fails somewhere above 600 */

/* flax_is_scalar - returns true if VALUE, a node of type TENSOR of F, is a NumPy scalar rather than an
 * array. */
bool flax_is_scalar(const ckpt_file *f, const ckpt_value *value);
ckpt_status flax_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err);
