/* plan.h - which segments to recompute: the exact optimum over all ways to cut the blocks into segments,
 * each of which is kept or recomputed. */
#ifndef OP_MEM_PLAN_H
#define OP_MEM_PLAN_H

#include "op/mem/timeline.h"

#define PLAN_POINTS_MAX (1u << 20) /* of all fronts: beyond, the plan that is already known is the answer */

/* plan_lowest_peak - *PEAK: the lowest of T by any segments. */
ckpt_status plan_lowest_peak(const struct mem_timeline *t, arena *a, uint64_t *peak, ckpt_error *err);
/* plan_lowest - the segments, all in A, with the lowest peak of T. */
ckpt_status plan_lowest(const struct mem_timeline *t, arena *a, struct mem_plan *out, ckpt_error *err);
/* plan_cheapest - the segments whose peak is LIMIT or less with the fewest multiply-adds done again, of
 * equals those that keep least. There are none: OUT has none. */
ckpt_status plan_cheapest(const struct mem_timeline *t, uint64_t limit, arena *a, struct mem_plan *out,
                          ckpt_error *err);

#endif
