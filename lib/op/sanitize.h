/* sanitize.h - `ckpt sanitize`: reduces a plan to tensors and plain data. */
#ifndef OP_SANITIZE_H
#define OP_SANITIZE_H

#include "core/plan.h"

/* sanitize_plan - reduces P to tensors and plain data or, if FLAT, to what a format of dense tensors by name
 * holds. */
ckpt_status sanitize_plan(ckpt_plan *p, bool flat, ckpt_error *err);
/* sanitize_flat - leaves out of P what a format of dense tensors by name cannot hold. */
ckpt_status sanitize_flat(ckpt_plan *p, ckpt_error *err);
/* sanitize_strict - CKPT_ELOSSY if anything is left out of P. */
ckpt_status sanitize_strict(const ckpt_plan *p, ckpt_error *err);

#endif
