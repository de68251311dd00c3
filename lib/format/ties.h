/* ties.h - one name for each tensor, for targets without shared storages. */
#ifndef FORMAT_TIES_H
#define FORMAT_TIES_H

#include "core/plan.h"

/* ties_resolve - sets DROP[i] for each of P's entries that shows the very same
 * tensor as another one that stays, and notes the alias in the plan. Views
 * that only overlap others stay: they become copies, and a notice says so.
 * CKPT_TIES_COPY: all stay. CKPT_TIES_ERROR: CKPT_ELOSSY names both. P's
 * entries must be up to date; DROP holds one false for each. */
ckpt_status ties_resolve(ckpt_plan *p, ckpt_ties how, bool *drop, ckpt_error *err);

#endif
