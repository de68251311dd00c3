/* plan.h - which segments to recompute: the exact optimum over all ways to cut the blocks into segments,
 * each of which is kept or recomputed. */
#ifndef OP_MEM_PLAN_H
#define OP_MEM_PLAN_H

#include "op/mem/timeline.h"

/* plan_lowest - the segments, all in A, with the lowest peak of T; *N of them at *OUT. */
ckpt_status plan_lowest(const struct mem_timeline *t, arena *a, ckpt_mem_segment **out, size_t *n,
                        ckpt_error *err);
/* plan_cheapest - the segments whose peak is LIMIT or less with the fewest multiply-adds done again, of
 * equals those that keep least. *OUT is NULL: there are none. */
ckpt_status plan_cheapest(const struct mem_timeline *t, uint64_t limit, arena *a, ckpt_mem_segment **out,
                          size_t *n, ckpt_error *err);

#endif
