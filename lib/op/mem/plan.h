/* plan.h - chooses the segments to recompute: the optimum over all ways to cut the blocks into segments. */
#ifndef OP_MEM_PLAN_H
#define OP_MEM_PLAN_H

#include "op/mem/timeline.h"

#define PLAN_POINTS_MAX (1u << 20) /* of all fronts; if there are more, the best plan so far is returned */

/* find_lowest_peak - sets *PEAK to the lowest peak of T that any segments reach. */
ckpt_status find_lowest_peak(const struct mem_timeline *t, arena *a, uint64_t *peak, ckpt_error *err);
/* plan_lowest_peak - sets *OUT to the segments, all in A, with the lowest peak of T. */
ckpt_status plan_lowest_peak(const struct mem_timeline *t, arena *a, struct mem_plan *out, ckpt_error *err);
/* plan_cheapest - sets *OUT to the segments with the fewest multiply-adds done again, and of these to those
 * that keep least, whose peak is at most LIMIT. *OUT has no segments if LIMIT is too low. */
ckpt_status plan_cheapest(const struct mem_timeline *t, uint64_t limit, arena *a, struct mem_plan *out,
                          ckpt_error *err);

#endif
