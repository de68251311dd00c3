/* sanitize.h - `ckpt sanitize`, and what api.c checks and reports before any plan is written. */
#pragma once

#include "core/plan.h"

/* has_dtype - returns true if a format can hold the element type of T. Only called if safetensors cannot. */
typedef bool has_dtype(const ckpt_tensor *t);

/* sanitize_plan - reduces P to tensors and plain data or, if FLAT, calls sanitize_flat. */
ckpt_status sanitize_plan(ckpt_plan *p, bool flat, has_dtype *holds, ckpt_error *err);
/* sanitize_flat - leaves out of P what a format of dense tensors by name cannot hold. If HOLDS is NULL, the
 * format has only the element types of safetensors. */
ckpt_status sanitize_flat(ckpt_plan *p, has_dtype *holds, ckpt_error *err);
/* sanitize_strict - fails with CKPT_ELOSSY if sanitize_plan or sanitize_flat left anything out of P. */
ckpt_status sanitize_strict(const ckpt_plan *p, ckpt_error *err);
