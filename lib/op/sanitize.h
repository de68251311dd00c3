/* sanitize.h - a plan that holds tensors and plain data, nothing else. */
#ifndef OP_SANITIZE_H
#define OP_SANITIZE_H

#include "core/plan.h"

/* sanitize_plan - FLAT: for a format of plain tensors by name, which needs no graph. */
ckpt_status sanitize_plan(ckpt_plan *p, bool flat, ckpt_error *err);
/* sanitize_flat - for such a format. */
ckpt_status sanitize_flat(ckpt_plan *p, ckpt_error *err);
/* sanitize_strict - CKPT_ELOSSY where something is left out of P. */
ckpt_status sanitize_strict(const ckpt_plan *p, ckpt_error *err);

#endif
