/* sanitize.h - `ckpt sanitize`: reduces a plan to tensors and plain data. */
#ifndef OP_SANITIZE_H
#define OP_SANITIZE_H

#include "core/plan.h"

/* has_dtype - can a format hold the element type of T, which safetensors cannot? */
typedef bool has_dtype(const ckpt_tensor *t);

/* sanitize_plan - reduces P to tensors and plain data or, if FLAT, to what a format of dense tensors by name
 * holds; HOLDS is as for sanitize_flat. */
ckpt_status sanitize_plan(ckpt_plan *p, bool flat, has_dtype *holds, ckpt_error *err);
/* sanitize_flat - leaves out of P what a format of dense tensors by name cannot hold; HOLDS may be NULL: no
 * type that safetensors lacks. */
ckpt_status sanitize_flat(ckpt_plan *p, has_dtype *holds, ckpt_error *err);
/* sanitize_strict - returns CKPT_ELOSSY if anything is left out of P. */
ckpt_status sanitize_strict(const ckpt_plan *p, ckpt_error *err);

#endif
