/* plan.h - chooses the segments to recompute: the optimum over all ways to cut the blocks into segments. */
#pragma once

#include "mem/timeline.h"

#define PLAN_POINTS_MAX (1u << 20) /* of all fronts; with more, the plan is not proven to be cheapest */

/* find_lowest_peak - sets *PEAK to the lowest peak that TIMELINE has with any segments. */
ckpt_status find_lowest_peak(const struct mem_timeline *timeline, arena *a, uint64_t *peak, ckpt_error *err);
/* plan_lowest_peak - sets *OUT to the segments, all in A, with the lowest peak of TIMELINE. */
ckpt_status plan_lowest_peak(const struct mem_timeline *timeline, arena *a, struct mem_plan *out,
                             ckpt_error *err);
/* plan_cheapest - sets *OUT to those segments with a peak of at most LIMIT that do the fewest multiply-adds
 * again, and of these to those that keep least. *OUT has no segments if LIMIT is too low. */
ckpt_status plan_cheapest(const struct mem_timeline *timeline, uint64_t limit, arena *a, struct mem_plan *out,
                          ckpt_error *err);
