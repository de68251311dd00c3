/* ties.h - one name for each tensor, where a format has no shared storages: the others are recorded. */
#ifndef FORMAT_TIES_H
#define FORMAT_TIES_H

#include "core/plan.h"

/* ties_resolve - sets DROP[i] for each of P's entries that shows the very same
 * tensor as another one that stays, and notes the alias in the plan. Views
 * that only overlap others stay: they become copies, and a notice says so.
 * CKPT_TIES_COPY: all stay. CKPT_TIES_ERROR: CKPT_ELOSSY names both. P's
 * entries must be up to date; DROP holds one false for each. CKPT_ELIMIT: what
 * is written more than once is beyond max_expanded. */
ckpt_status ties_resolve(ckpt_plan *p, ckpt_ties how, bool *drop, ckpt_error *err);
/* ties_name - may KEY of the metadata be the name of a tensor? */
bool ties_name(ckpt_str key);
/* ties_read - adds a row to F, which has all others, for each pair of its metadata that records a second
 * name of one: flat names below the root, which is a mapping. Sets f->nties. */
ckpt_status ties_read(ckpt_file *f, ckpt_error *err);
/* ties_by_key - sorts plan_pairs. */
int ties_by_key(const void *a, const void *b);
/* ties_metadata - *PAIRS of plan_metadata with the aliases that P noted from FROM on: what the file recorded
 * keeps its place, unless that is no tie any more; others are sorted and begin at *ADDED, with room for one
 * more. */
ckpt_status ties_metadata(ckpt_plan *p, size_t from, struct plan_pair **pairs, size_t *n, size_t *added,
                          ckpt_error *err);

#endif
