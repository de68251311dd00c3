/* plan.c - finds the segments of a step of training.
 *
 * A plan cuts blocks 0..n-1 into segments. stored(j) is what the segments before block j keep: the input of
 * each recomputed segment, and all of each kept block. During the backward pass of a segment [i, j), the
 * later segments have been freed. The most memory is needed at one block t of the segment:
 *     outside + stored(i) + kept(i..t) + backward(t) + gradients(after t) = outside + stored(i) + need(i, j)
 * A kept block needs the same as a segment of one block. Before the backward pass of the blocks, stored(n)
 * exists together with head and loss. At the end of the forward pass, forward(n) exists: stored(n) and the
 * cast copies of the weights of recomputed blocks, which autocast caches until then.
 *
 * A way to cut the blocks before j is never worse for the later blocks if it stores less. So the lowest peak
 * is found by bisection of a limit: for each j, only the way with the least stored(j) has to be known
 * (find_partition). The cheapest plan below a limit needs, for each j, all ways that no other way beats in
 * all three costs: work done again, stored and forward (struct search). They are a Pareto front, which is
 * computed from the fronts of earlier blocks. Two kinds of ways are left out, so that fronts stay short:
 *  - those that do more work again than the plan of find_fewest_recomputed, which is already known;
 *  - block i-1 kept and [i, j) recomputed, if the blocks i-1 to j-1 are alike: instead, [i-1, j-1) recomputed
 *    and j-1 kept stores the same, and needs no more at any of these blocks. Ways that end with a kept block
 *    have fronts of their own, so that this replacement is not dropped for an equal way. */
#include "mem/plan.h"

#include <stdlib.h>

/* The sums over a timeline that do not depend on the plan, as long as anything is recomputed. */
struct needs {
    const struct mem_timeline *t;
    uint32_t n;
    /* [i], sums over the blocks before block i: bytes kept, multiply-adds, bytes of cast copies */
    uint64_t *kept_before, *work_before, *copies_before;
    /* [i], bytes: kept_before[i + 1] + backward_bytes of block i + gradients of later blocks */
    uint64_t *backward_need;
    uint32_t *first_alike;   /* [i]: the first block from which on all blocks up to i equal block i */
    uint64_t outside_blocks; /* bytes that exist besides those of blocks during their backward pass */
    uint64_t head_need;      /* the most before the backward pass of the blocks, beyond stored(n) */
    uint64_t forward_end;    /* at the end of the forward pass, beyond forward(n) */
    uint64_t fixed_peak;     /* the most at moments that no plan changes */
};

static uint64_t larger(uint64_t left, uint64_t right) { return left > right ? left : right; }

static void fill_sums(struct needs *needs)
{
    const struct mem_block *b = needs->t->blocks;
    uint64_t gradients = needs->t->head_gradient;
    for (uint32_t i = 0; i < needs->n; i++) {
        needs->kept_before[i + 1] = size_add(needs->kept_before[i], b[i].kept_bytes);
        needs->work_before[i + 1] = size_add(needs->work_before[i], b[i].multiply_adds);
        needs->copies_before[i + 1] = size_add(needs->copies_before[i], b[i].copy_bytes);
        needs->first_alike[i] = i && memcmp(&b[i], &b[i - 1], sizeof *b) == 0 ? needs->first_alike[i - 1] : i;
    }
    for (uint32_t i = needs->n; COUNT_DOWN(i);) {
        uint64_t backward_bytes = size_add(b[i].backward_bytes, gradients);
        needs->backward_need[i] = size_add(needs->kept_before[i + 1], backward_bytes);
        gradients = size_add(gradients, b[i].gradient_bytes);
    }
}

static ckpt_status init_needs(struct needs *needs, const struct mem_timeline *timeline, arena *a,
                              ckpt_error *err)
{
    uint64_t **sums[] = {&needs->kept_before, &needs->work_before, &needs->copies_before,
                         &needs->backward_need};
    uint64_t all = size_add(size_add(timeline->input_bytes, timeline->head_bytes),
                            timeline->checkpoint_bytes);
    *needs = (struct needs){.t = timeline, .n = timeline->n};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        *sums[i] = arena_array(a, (uint64_t)timeline->n + 1, sizeof **sums[i]);
        CKPT_TRY_ALLOC(*sums[i], err);
    }
    needs->first_alike = arena_array(a, (uint64_t)timeline->n + 1, sizeof *needs->first_alike);
    CKPT_TRY_ALLOC(needs->first_alike, err);
    fill_sums(needs);
    needs->outside_blocks = size_add(timeline->input_bytes, timeline->checkpoint_bytes);
    needs->head_need = larger(
        size_add(size_add(all, timeline->loss_bytes), timeline->moment_bytes[LOSS_BACKWARD]),
        size_add(all, larger(timeline->moment_bytes[HEAD_BACKWARD], timeline->moment_bytes[HEAD_CAST])));
    needs->forward_end = size_add(size_add(all, timeline->loss_bytes), timeline->moment_bytes[FORWARD_END]);
    needs->fixed_peak = size_add(size_add(timeline->gradients, timeline->end_bytes),
                                 timeline->checkpoint_bytes);
    return CKPT_OK;
}

/* ---- one partition of the blocks into segments */

/* The cuts that store least, if the blocks from KEPT_FROM on are kept and all others recomputed. */
struct partition {
    uint64_t *stored_before; /* [i]: stored(i); UINT64_MAX: no cuts fit into the limit */
    uint32_t *segment_start; /* [i]: the first block of the segment that ends before block i */
};

static bool init_partition(struct partition *partition, uint32_t count, arena *a)
{
    partition->stored_before = arena_array(a, (uint64_t)count + 1, sizeof *partition->stored_before);
    partition->segment_start = arena_array(a, (uint64_t)count + 1, sizeof *partition->segment_start);
    return partition->stored_before && partition->segment_start;
}

/* find_best_cut - finds the least stored(INDEX) within LIMIT, if all blocks before INDEX are recomputed. */
static void find_best_cut(const struct needs *needs, uint64_t limit, struct partition *partition,
                          uint32_t index)
{
    uint64_t peak_need = 0, room = limit - needs->outside_blocks;
    partition->stored_before[index] = UINT64_MAX;
    for (uint32_t i = index; COUNT_DOWN(i);) {
        peak_need = larger(peak_need, needs->backward_need[i]);
        uint64_t need = peak_need - needs->kept_before[i];
        if (need > room)
            return; /* a longer segment needs no less */
        uint64_t before = partition->stored_before[i];
        uint64_t stored = before + needs->t->blocks[i].input_bytes;
        if (before > room - need || stored >= partition->stored_before[index])
            continue;
        partition->stored_before[index] = stored;
        partition->segment_start[index] = i;
    }
}

/* find_partition - fills in *PARTITION for KEPT_FROM. False: no such cuts have a peak of at most LIMIT. */
static bool find_partition(const struct needs *needs, uint64_t limit, uint32_t kept_from,
                           struct partition *partition)
{
    if (limit < needs->fixed_peak || limit < needs->outside_blocks)
        return false;
    partition->stored_before[0] = 0;
    for (uint32_t j = 1; j <= needs->n; j++) {
        uint32_t i = j - 1;
        if (j <= kept_from) {
            find_best_cut(needs, limit, partition, j);
        } else {
            uint64_t need = size_add(size_add(needs->outside_blocks, partition->stored_before[i]),
                                     needs->backward_need[i] - needs->kept_before[i]);
            uint64_t stored = size_add(partition->stored_before[i], needs->t->blocks[i].kept_bytes);
            partition->stored_before[j] = need > limit ? UINT64_MAX : stored;
            partition->segment_start[j] = i;
        }
        if (partition->stored_before[j] == UINT64_MAX)
            return false;
    }
    return size_add(partition->stored_before[needs->n], needs->head_need) <= limit &&
           size_add(size_add(partition->stored_before[needs->n], needs->copies_before[kept_from]),
                    needs->forward_end) <= limit;
}

/* ---- all partitions */

enum last_block { RECOMPUTED, KEPT, LAST_BLOCK_KINDS };

/* The costs of one way to cut the blocks before a block. */
struct point {
    uint64_t extra_work;          /* multiply-adds done again */
    uint64_t stored, forward_end; /* bytes */
    uint32_t segment_start;       /* the first block of its last segment */
    /* The way without its last segment is point FRONT_INDEX of the front at SEGMENT_START and LAST. */
    uint32_t front_index;
    uint8_t last; /* enum last_block */
};

/* A Pareto front: ways to cut the blocks before one block, without those that others beat in all costs. */
struct front {
    struct point *points; /* sorted, see is_before */
    size_t n, cap;
};

struct search {
    const struct needs *needs;
    uint64_t limit, most_extra_work;
    struct front *fronts; /* [LAST_BLOCK_KINDS * j + last]: of the first j blocks, see front_at */
    struct front added, merged, least; /* least: see trim_least */
    size_t npoints;                    /* of all fronts */
    bool too_many;                     /* more than PLAN_POINTS_MAX: the search was stopped */
};

static struct front *front_at(const struct search *search, uint32_t index, enum last_block last)
{
    return &search->fronts[(size_t)LAST_BLOCK_KINDS * index + last];
}

static bool front_add(struct front *front, const struct point *point)
{
    if (front->n == front->cap)
        return arena_push(NULL, &front->points, &front->n, &front->cap, point, sizeof *point);
    front->points[front->n++] = *point; /* no call for most points */
    return true;
}

static bool is_before(const struct point *left, const struct point *right)
{
    if (left->extra_work != right->extra_work)
        return left->extra_work < right->extra_work;
    return left->stored != right->stored ? left->stored < right->stored
                                         : left->forward_end <= right->forward_end;
}

/* trim_least - removes from LEAST the points that POINT beats in stored and forward_end. False: one beats
 * POINT. */
static bool trim_least(struct front *least, const struct point *point)
{
    for (size_t i = least->n; COUNT_DOWN(i);) {
        struct point *q = &least->points[i];
        if (q->stored <= point->stored && q->forward_end <= point->forward_end)
            return false; /* and POINT beats none, because no point of LEAST beats another */
        if (q->stored >= point->stored && q->forward_end >= point->forward_end)
            *q = least->points[--least->n]; /* what Q beats, POINT beats, too */
    }
    return true;
}

/* merge - adds the points of search->added to FRONT, and removes points that an earlier point beats in all
 * costs: since both are sorted, one of search->least (in tests, up to 24 points). False: out of memory. */
static bool merge(struct search *search, struct front *front)
{
    const struct front *added = &search->added;
    search->merged.n = search->least.n = 0;
    for (size_t i = 0, k = 0; i < front->n || k < added->n;) {
        bool from_front = k == added->n || (i < front->n && is_before(&front->points[i], &added->points[k]));
        const struct point *p = from_front ? &front->points[i++] : &added->points[k++];
        if (trim_least(&search->least, p) && !(front_add(&search->least, p) && front_add(&search->merged, p)))
            return false;
    }
    struct front old = *front;
    *front = search->merged;
    search->merged = old;
    return true;
}

/* A last segment: the blocks from FIRST to END - 1. */
struct last_segment {
    uint32_t first, end;
    enum last_block how;
    uint64_t need; /* bytes in its backward pass, without those outside of blocks and stored(FIRST) */
};

/* extend - adds to the front of segment->end each point of the front of segment->first and LAST, extended by
 * SEGMENT. False: out of memory. */
static bool extend(struct search *search, const struct last_segment *segment, enum last_block last)
{
    const struct needs *needs = search->needs;
    const struct mem_block *b = &needs->t->blocks[segment->first];
    const struct front *before = front_at(search, segment->first, last);
    bool recomputed = segment->how == RECOMPUTED;
    uint64_t extra_work = recomputed ? needs->work_before[segment->end] - needs->work_before[segment->first]
                                     : 0,
             stored = recomputed ? b->input_bytes : b->kept_bytes;
    uint64_t forward_end = size_add(
        stored, recomputed ? needs->copies_before[segment->end] - needs->copies_before[segment->first] : 0);
    search->added.n = 0;
    for (size_t k = 0; k < before->n; k++) {
        const struct point *shorter = &before->points[k];
        struct point p = {size_add(shorter->extra_work, extra_work),
                          size_add(shorter->stored, stored),
                          size_add(shorter->forward_end, forward_end),
                          segment->first,
                          (uint32_t)k,
                          (uint8_t)last};
        if (p.extra_work > search->most_extra_work)
            break; /* all later points cost more */
        if (segment->end == needs->n && !p.extra_work)
            continue; /* nothing is recomputed: fits_if_all_kept() has tried that */
        bool fits = size_add(size_add(needs->outside_blocks, shorter->stored), segment->need) <=
                        search->limit &&
                    size_add(p.stored, needs->head_need) <= search->limit &&
                    size_add(p.forward_end, needs->forward_end) <= search->limit;
        if (fits && !front_add(&search->added, &p))
            return false;
    }
    return !search->added.n || merge(search, front_at(search, segment->end, segment->how));
}

/* fill_front - computes both fronts of the first INDEX blocks. False: out of memory. */
static bool fill_front(struct search *search, uint32_t index)
{
    const struct needs *needs = search->needs;
    uint64_t peak_need = 0;
    for (uint32_t i = index; COUNT_DOWN(i);) {
        peak_need = larger(peak_need, needs->backward_need[i]);
        struct last_segment recomputed = {i, index, RECOMPUTED, peak_need - needs->kept_before[i]},
                            kept = {i, index, KEPT, peak_need - needs->kept_before[i]};
        if (size_add(needs->outside_blocks, recomputed.need) > search->limit)
            break;
        bool alike = i && needs->first_alike[index - 1] < i; /* blocks i-1 to j-1: see the top of the file */
        if (!extend(search, &recomputed, RECOMPUTED) || (!alike && !extend(search, &recomputed, KEPT)))
            return false;
        if (i + 1 == index && (!extend(search, &kept, RECOMPUTED) || !extend(search, &kept, KEPT)))
            return false;
    }
    search->npoints += front_at(search, index, RECOMPUTED)->n + front_at(search, index, KEPT)->n;
    search->too_many = search->npoints > PLAN_POINTS_MAX;
    return true;
}

static bool search_run(struct search *search)
{
    struct point nothing = {0};
    search->fronts = calloc(LAST_BLOCK_KINDS * ((size_t)search->needs->n + 1), sizeof *search->fronts);
    bool ok = search->fronts && front_add(front_at(search, 0, RECOMPUTED), &nothing);
    for (uint32_t j = 1; ok && !search->too_many && j <= search->needs->n; j++)
        ok = fill_front(search, j);
    return ok;
}

static void search_free(struct search *search)
{
    for (size_t i = 0; search->fronts && i < LAST_BLOCK_KINDS * ((size_t)search->needs->n + 1); i++)
        free(search->fronts[i].points);
    free(search->fronts);
    free(search->added.points);
    free(search->merged.points);
    free(search->least.points);
}

/* find_best_front - returns the front whose first point is the cheapest way to cut all blocks, or NULL. */
static const struct front *find_best_front(const struct search *search)
{
    const struct front *a = front_at(search, search->needs->n, RECOMPUTED),
                       *b = front_at(search, search->needs->n, KEPT);
    if (!a->n || !b->n)
        return a->n ? a : b->n ? b : NULL;
    return is_before(&a->points[0], &b->points[0]) ? a : b;
}

/* The segments of a plan, in reverse order until reverse() is called. */
struct segment_list {
    ckpt_mem_segment *segments;
    size_t n;
};

/* prepend_segment - adds a segment before those of the plan, or extends the first if both are kept. */
static void prepend_segment(struct segment_list *list, uint32_t first, uint32_t end, bool recomputed)
{
    ckpt_mem_segment *next = list->n ? &list->segments[list->n - 1] : NULL;
    if (next && !recomputed && !next->recomputed) {
        next->blocks += end - first;
        next->first = first;
        return;
    }
    list->segments[list->n++] = (ckpt_mem_segment){
        .first = first, .blocks = end - first, .recomputed = recomputed};
}

static void reverse(struct segment_list *list)
{
    for (size_t i = 0; i < list->n / 2; i++) {
        ckpt_mem_segment moved = list->segments[i];
        list->segments[i] = list->segments[list->n - 1 - i];
        list->segments[list->n - 1 - i] = moved;
    }
}

/* list_segments - sets *OUT to the segments of the COUNT blocks; those before KEPT_FROM are recomputed. */
static void list_segments(const struct partition *partition, uint32_t count, uint32_t kept_from,
                          struct segment_list *out)
{
    for (uint32_t j = count; j > 0; j = partition->segment_start[j])
        prepend_segment(out, partition->segment_start[j], j, j <= kept_from);
    reverse(out);
}

/* list_front_segments - sets *OUT to the segments that the first point of FRONT stands for. */
static void list_front_segments(const struct search *search, const struct front *front,
                                struct segment_list *out)
{
    size_t k = 0;
    for (uint32_t j = search->needs->n; j > 0;) {
        const struct point *p = &front->points[k];
        bool recomputed = front == front_at(search, j, RECOMPUTED);
        prepend_segment(out, p->segment_start, j, recomputed);
        k = p->front_index;
        j = p->segment_start;
        front = front_at(search, j, (enum last_block)p->last);
    }
    reverse(out);
}

/* find_fewest_recomputed - returns how many blocks at the beginning have to be recomputed, all others kept:
 * the smallest number that bisection finds, or n + 1 if LIMIT is too low. Fills in *PARTITION. */
static uint32_t find_fewest_recomputed(const struct needs *needs, uint64_t limit, struct partition *partition)
{
    uint32_t low = 0, high = needs->n;
    if (!find_partition(needs, limit, needs->n, partition))
        return needs->n + 1;
    while (low + 1 < high) {
        uint32_t middle = low + (high - low) / 2;
        if (find_partition(needs, limit, middle, partition))
            high = middle;
        else
            low = middle;
    }
    find_partition(needs, limit, high, partition);
    return high;
}

static uint64_t peak_if_all_kept(const struct mem_timeline *timeline)
{
    ckpt_mem_segment all = {.blocks = timeline->n};
    return timeline_peak(timeline, &(struct mem_segments){.list = &all, .n = timeline->n ? 1 : 0}).bytes;
}

/* fits_if_all_kept - sets *OUT and returns true if the peak is at most LIMIT without recomputing anything. */
static bool fits_if_all_kept(const struct mem_timeline *timeline, uint64_t limit, struct segment_list *out)
{
    if (peak_if_all_kept(timeline) > limit)
        return false;
    out->segments[0] = (ckpt_mem_segment){.blocks = timeline->n};
    out->n = timeline->n ? 1 : 0;
    return true;
}

ckpt_status plan_cheapest(const struct mem_timeline *timeline, uint64_t limit, arena *a, struct mem_plan *out,
                          ckpt_error *err)
{
    struct needs needs;
    struct partition partition;
    struct segment_list list = {.segments = arena_array(a, (uint64_t)timeline->n + 1, sizeof *list.segments)};
    *out = (struct mem_plan){0};
    CKPT_TRY_ALLOC(list.segments && init_partition(&partition, timeline->n, a), err);
    if (fits_if_all_kept(timeline, limit, &list)) {
        *out = (struct mem_plan){list.segments, list.n, true};
        return CKPT_OK;
    }
    CKPT_TRY(init_needs(&needs, timeline, a, err));
    uint32_t fewest = find_fewest_recomputed(&needs, limit, &partition);
    if (fewest > timeline->n)
        return CKPT_OK;
    struct search search = {.needs = &needs, .limit = limit, .most_extra_work = needs.work_before[fewest]};
    bool ok = search_run(&search);
    const struct front *best = ok && !search.too_many ? find_best_front(&search) : NULL;
    if (best)
        list_front_segments(&search, best, &list);
    else
        list_segments(&partition, timeline->n, fewest, &list);
    search_free(&search);
    *out = (struct mem_plan){list.segments, list.n, !search.too_many};
    return ok ? CKPT_OK : fail_memory(err);
}

ckpt_status find_lowest_peak(const struct mem_timeline *timeline, arena *a, uint64_t *peak, ckpt_error *err)
{
    struct needs needs;
    struct partition partition;
    uint64_t low = 0, high = peak_if_all_kept(timeline);
    CKPT_TRY_ALLOC(init_partition(&partition, timeline->n, a), err);
    CKPT_TRY(init_needs(&needs, timeline, a, err));
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (find_partition(&needs, middle, timeline->n, &partition))
            high = middle;
        else
            low = middle + 1;
    }
    *peak = high;
    return CKPT_OK;
}

ckpt_status plan_lowest_peak(const struct mem_timeline *timeline, arena *a, struct mem_plan *out,
                             ckpt_error *err)
{
    uint64_t peak;
    CKPT_TRY(find_lowest_peak(timeline, a, &peak, err));
    return plan_cheapest(timeline, peak, a, out, err);
}
