/* cast.h - `--cast`: more than ckpt_plan_cast of ckpt.h, for other operations and for writing. */
#pragma once

#include "core/plan.h"

/* is_step_counter - returns true if TENSOR, which is ENTRY, is an optimizer's step counter, which is a float
 * in some optimizers. */
bool is_step_counter(const struct plan_entry *entry, const ckpt_tensor *tensor);
/* plan_cast_rows - casts the SELECTED tensors, an array by tensor, to DTYPE, as ckpt_plan_cast does those
 * that a pattern matches. */
ckpt_status plan_cast_rows(ckpt_plan *p, const bool *selected, ckpt_dtype dtype, ckpt_error *err);
/* cast_skips_counter - returns true if ROW, called NAME, is an optimizer's step counter, which only a cast
 * by its full name changes. */
bool cast_skips_counter(const ckpt_plan *p, uint32_t row, ckpt_str name);
/* cast_notice_skipped - adds a notice about the tensors outside the weights that a cast of the weights
 * skipped. To be called before P is written. */
void cast_notice_skipped(ckpt_plan *p);
/* cast_strict - fails with CKPT_ELOSSY if a cast of P left quantized weights as they are. */
ckpt_status cast_strict(const ckpt_plan *p, ckpt_error *err);
