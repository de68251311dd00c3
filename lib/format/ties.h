/* ties.h - for formats without shared storages: writes a tensor that has several names (a tie) under one of
 * them, and records the others in the metadata. */
#pragma once

#include "core/plan.h"

/* ties_resolve - sets DROP[I] for each entry I of P that is the same view as an entry that stays, and notes
 * the alias in P. Views that only overlap stay: they are written as copies, with a notice. If HOW is
 * CKPT_TIES_COPY, all entries stay. If it is CKPT_TIES_ERROR, ties and overlaps are the error CKPT_ELOSSY.
 * The caller has called plan_update_entries and set all of DROP to false. CKPT_ELIMIT: the copies take more
 * bytes than max_expanded. */
ckpt_status ties_resolve(ckpt_plan *p, ckpt_ties how, bool *drop, ckpt_error *err);
/* ties_can_record_name - returns true unless KEY is "format" or "__metadata__": no tie has these names. */
bool ties_can_record_name(ckpt_str key);
/* ties_add_rows - adds a row to F for each pair of its metadata that records a second name of a tensor. F
 * must have all other rows already, and a mapping with flat names as its root. Sets f->nties. */
ckpt_status ties_add_rows(ckpt_file *f, ckpt_error *err);
int ties_compare_keys(const void *pa, const void *pb);
/* ties_update_metadata - updates *PAIRS (*COUNT, from plan_metadata) for the aliases of P from index FROM on.
 * Pairs of the input keep their order; ties that no longer exist are removed. New ties are sorted and begin
 * at index *ADDED. Leaves room for one more pair. */
ckpt_status ties_update_metadata(ckpt_plan *p, size_t from, struct plan_pair **pairs, size_t *count,
                                 size_t *added, ckpt_error *err);
