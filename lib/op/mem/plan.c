/* plan.c - finds the segments of a step of training.
 *
 * A plan cuts blocks 0..n-1 into segments. stored(j) is what the segments before block j keep: the input of
 * each recomputed segment, and all of each kept block. During the backward pass of a segment [i, j), the
 * later segments have been freed. The most memory is needed at one of its blocks t:
 *     outside + stored(i) + kept(i..t) + work(t) + gradients(after t)  =  outside + stored(i) + high(i, j)
 * A kept block needs the same as a segment of one block. Before the backward pass of the blocks, stored(n)
 * exists together with head and loss. At the end of the forward pass, the cast copies of recomputed weights
 * are added, which autocast caches until then: forward(n).
 *
 * A way to cut the blocks before j is never worse for the later blocks if it stores less. So the lowest peak
 * is found by bisection of a limit: for each j, only the way with the least stored(j) has to be known
 * (plan_fits). The cheapest plan below a limit needs, for each j, all ways that no other way beats in work
 * done again, stored and forward together (struct search). They are a front (in the sense of Pareto), which
 * is computed from the fronts of earlier blocks. Two kinds of ways are left out, so that fronts stay short:
 *  - those that cost more than a plan that is already known: the shortest beginning recomputed, and all
 *    later blocks kept;
 *  - block i-1 kept and [i, j) recomputed, if the blocks i-1 to j-1 are alike: [i-1, j-1) recomputed
 *    and j-1 kept stores the same, and needs no more at any of them. Ways that end with a kept block and
 *    ways that end with a recomputed block have separate fronts, so that the way that replaces it is kept. */
#include "op/mem/plan.h"

#include <stdlib.h>

/* The sums over a timeline that do not depend on the plan, as long as anything is recomputed. */
struct needs {
    const struct mem_timeline *t;
    uint32_t n;
    uint64_t *kept, *again, *copies; /* of blocks before i */
    uint64_t *level;                 /* of block i: kept(..i) + its work + the gradients of later blocks */
    uint32_t *alike;                 /* of block i: the first block from which on all blocks equal block i */
    uint64_t outside;                /* during the backward pass of blocks */
    uint64_t head;                   /* the most before the blocks, beyond stored(n) */
    uint64_t forward;                /* at the end of the forward pass, beyond forward(n) */
    uint64_t floor;                  /* at moments that no plan changes */
};

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* fill_sums - sets the sums by block. */
static void fill_sums(struct needs *needs)
{
    const struct mem_block *b = needs->t->blocks;
    uint64_t gradients = needs->t->head_gradient;
    for (uint32_t i = 0; i < needs->n; i++) {
        needs->kept[i + 1] = size_add(needs->kept[i], b[i].kept);
        needs->again[i + 1] = size_add(needs->again[i], b[i].forward);
        needs->copies[i + 1] = size_add(needs->copies[i], b[i].copies);
        needs->alike[i] = i && memcmp(&b[i], &b[i - 1], sizeof *b) == 0 ? needs->alike[i - 1] : i;
    }
    for (uint32_t i = needs->n; i-- > 0;) {
        needs->level[i] = size_add(needs->kept[i + 1], size_add(b[i].work, gradients));
        gradients = size_add(gradients, b[i].gradient);
    }
}

static ckpt_status init_needs(struct needs *needs, const struct mem_timeline *t, arena *a, ckpt_error *err)
{
    uint64_t **sums[] = {&needs->kept, &needs->again, &needs->copies, &needs->level};
    uint64_t all = size_add(size_add(t->input, t->head), t->checkpointed);
    *needs = (struct needs){.t = t, .n = t->n};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        *sums[i] = arena_array(a, (uint64_t)t->n + 1, sizeof **sums[i]);
        if (!*sums[i])
            return fail_memory(err);
    }
    needs->alike = arena_array(a, (uint64_t)t->n + 1, sizeof *needs->alike);
    if (!needs->alike)
        return fail_memory(err);
    fill_sums(needs);
    needs->outside = size_add(t->input, t->checkpointed);
    needs->head = larger(size_add(size_add(all, t->loss), t->moment[LOSS_BACKWARD]),
                         size_add(all, larger(t->moment[HEAD_BACKWARD], t->moment[HEAD_CAST])));
    needs->forward = size_add(size_add(all, t->loss), t->moment[FORWARD_END]);
    needs->floor = size_add(size_add(t->gradients, t->end), t->checkpointed);
    return CKPT_OK;
}

/* ---- one way */

/* The way with the least stored if the blocks from KEPT_FROM on are kept, and all others recomputed. */
struct way {
    uint64_t *stored; /* before block i; UINT64_MAX: no way */
    uint32_t *from;   /* where the segment that ends before i begins */
};

static bool init_way(struct way *way, uint32_t n, arena *a)
{
    way->stored = arena_array(a, (uint64_t)n + 1, sizeof *way->stored);
    way->from = arena_array(a, (uint64_t)n + 1, sizeof *way->from);
    return way->stored && way->from;
}

/* find_best_cut - sets the least stored before J if all blocks before J are recomputed. */
static void find_best_cut(const struct needs *needs, uint64_t limit, struct way *way, uint32_t j)
{
    uint64_t top = 0, room = limit - needs->outside;
    way->stored[j] = UINT64_MAX;
    for (uint32_t i = j; i-- > 0;) {
        top = larger(top, needs->level[i]);
        uint64_t high = top - needs->kept[i];
        if (high > room)
            return; /* a longer segment needs no less */
        if (way->stored[i] > room - high || way->stored[i] + needs->t->blocks[i].input >= way->stored[j])
            continue; /* bounded: by stored(n), which is no more than all blocks keep */
        way->stored[j] = way->stored[i] + needs->t->blocks[i].input;
        way->from[j] = i;
    }
}

/* plan_fits - finds the way *WAY, with the blocks from KEPT_FROM on kept; false: its peak is above LIMIT. */
static bool plan_fits(const struct needs *needs, uint64_t limit, uint32_t kept_from, struct way *way)
{
    if (limit < needs->floor || limit < needs->outside)
        return false;
    way->stored[0] = 0;
    for (uint32_t j = 1; j <= needs->n; j++) {
        uint32_t i = j - 1;
        if (j <= kept_from) {
            find_best_cut(needs, limit, way, j);
        } else {
            uint64_t need = size_add(size_add(needs->outside, way->stored[i]),
                                     needs->level[i] - needs->kept[i]);
            way->stored[j] = need > limit ? UINT64_MAX : size_add(way->stored[i], needs->t->blocks[i].kept);
            way->from[j] = i;
        }
        if (way->stored[j] == UINT64_MAX)
            return false;
    }
    return size_add(way->stored[needs->n], needs->head) <= limit &&
           size_add(size_add(way->stored[needs->n], needs->copies[kept_from]), needs->forward) <= limit;
}

/* ---- all ways */

enum last_block { RECOMPUTED, KEPT, LASTS };

/* The costs of one way to cut the blocks before a block. */
struct point {
    uint64_t again, stored, forward;
    uint32_t from;  /* the first block of its last segment */
    uint32_t index; /* of the point before it, in the front of FROM and LAST */
    uint8_t last;   /* enum last_block of the point before it */
};

struct front {
    struct point *at;
    size_t n, cap;
};

struct search {
    const struct needs *needs;
    uint64_t limit, most_again;
    struct front *fronts; /* of J blocks: LASTS of them, from LASTS * J on */
    struct front added, merged;
    size_t points;
    bool too_many;
};

static struct front *front_at(const struct search *search, uint32_t j, enum last_block last)
{
    return &search->fronts[(size_t)LASTS * j + last];
}

static bool front_add(struct front *front, const struct point *p)
{
    return arena_push(NULL, &front->at, &front->n, &front->cap, p, sizeof *p);
}

static bool is_before(const struct point *a, const struct point *b)
{
    if (a->again != b->again)
        return a->again < b->again;
    return a->stored != b->stored ? a->stored < b->stored : a->forward <= b->forward;
}

/* merge - adds to FRONT the points of search->added, both sorted, and removes points that an earlier point
 * beats in all costs. False: out of memory. */
static bool merge(struct search *search, struct front *front)
{
    const struct front *add = &search->added;
    uint64_t least_stored = UINT64_MAX, least_forward = UINT64_MAX;
    search->merged.n = 0;
    for (size_t i = 0, k = 0; i < front->n || k < add->n;) {
        bool first = k == add->n || (i < front->n && is_before(&front->at[i], &add->at[k]));
        const struct point *p = first ? &front->at[i++] : &add->at[k++];
        if (p->stored >= least_stored && p->forward >= least_forward)
            continue;
        least_stored = p->stored < least_stored ? p->stored : least_stored;
        least_forward = p->forward < least_forward ? p->forward : least_forward;
        if (!front_add(&search->merged, p))
            return false;
    }
    struct front old = *front;
    *front = search->merged;
    search->merged = old;
    return true;
}

/* A last segment: the blocks from FIRST up to END, which need HIGH. */
struct last_segment {
    uint32_t first, end;
    enum last_block how;
    uint64_t high;
};

/* extend - adds to the front of segment->end each point of the front of segment->first and LAST, extended by
 * SEGMENT. False: out of memory. */
static bool extend(struct search *search, const struct last_segment *segment, enum last_block last)
{
    const struct needs *needs = search->needs;
    const struct mem_block *b = &needs->t->blocks[segment->first];
    const struct front *before = front_at(search, segment->first, last);
    bool recomputed = segment->how == RECOMPUTED;
    uint64_t again = recomputed ? needs->again[segment->end] - needs->again[segment->first] : 0,
             stored = recomputed ? b->input : b->kept;
    uint64_t forward = size_add(stored,
                                recomputed ? needs->copies[segment->end] - needs->copies[segment->first] : 0);
    search->added.n = 0;
    for (size_t k = 0; k < before->n; k++) {
        const struct point *at = &before->at[k];
        struct point p = {size_add(at->again, again),
                          size_add(at->stored, stored),
                          size_add(at->forward, forward),
                          segment->first,
                          (uint32_t)k,
                          (uint8_t)last};
        if (p.again > search->most_again)
            break; /* all later points cost more */
        if (segment->end == needs->n && !p.again)
            continue; /* nothing is recomputed: fits_without */
        if (size_add(size_add(needs->outside, at->stored), segment->high) <= search->limit &&
            size_add(p.stored, needs->head) <= search->limit &&
            size_add(p.forward, needs->forward) <= search->limit && !front_add(&search->added, &p))
            return false;
    }
    return !search->added.n || merge(search, front_at(search, segment->end, segment->how));
}

/* fill_front - computes the fronts of J blocks. False: out of memory. */
static bool fill_front(struct search *search, uint32_t j)
{
    const struct needs *needs = search->needs;
    uint64_t top = 0;
    for (uint32_t i = j; i-- > 0;) {
        top = larger(top, needs->level[i]);
        struct last_segment again = {i, j, RECOMPUTED, top - needs->kept[i]},
                            kept = {i, j, KEPT, top - needs->kept[i]};
        if (size_add(needs->outside, again.high) > search->limit)
            break;
        bool later = i &&
                     needs->alike[j - 1] < i; /* the kept block before it could as well be its last one */
        if (!extend(search, &again, RECOMPUTED) || (!later && !extend(search, &again, KEPT)))
            return false;
        if (i + 1 == j && (!extend(search, &kept, RECOMPUTED) || !extend(search, &kept, KEPT)))
            return false;
    }
    search->points += front_at(search, j, RECOMPUTED)->n + front_at(search, j, KEPT)->n;
    search->too_many = search->points > PLAN_POINTS_MAX;
    return true;
}

static bool search_run(struct search *search)
{
    struct point nothing = {0};
    search->fronts = calloc(LASTS * ((size_t)search->needs->n + 1), sizeof *search->fronts);
    bool ok = search->fronts && front_add(front_at(search, 0, RECOMPUTED), &nothing);
    for (uint32_t j = 1; ok && !search->too_many && j <= search->needs->n; j++)
        ok = fill_front(search, j);
    return ok;
}

static void search_free(struct search *search)
{
    for (size_t i = 0; search->fronts && i < LASTS * ((size_t)search->needs->n + 1); i++)
        free(search->fronts[i].at);
    free(search->fronts);
    free(search->added.at);
    free(search->merged.at);
}

/* find_best_front - returns the front whose first point is the cheapest way to cut all blocks; NULL: there
 * is none. */
static const struct front *find_best_front(const struct search *search)
{
    const struct front *a = front_at(search, search->needs->n, RECOMPUTED),
                       *b = front_at(search, search->needs->n, KEPT);
    if (!a->n || !b->n)
        return a->n ? a : b->n ? b : NULL;
    return is_before(&a->at[0], &b->at[0]) ? a : b;
}

/* ---- segments */

/* The segments of a plan, collected from its end. */
struct segment_list {
    ckpt_mem_segment *at;
    size_t n;
};

/* add_before - adds a segment before those of LIST, or extends the first of them if both are kept. */
static void add_before(struct segment_list *list, uint32_t first, uint32_t end, bool recomputed)
{
    ckpt_mem_segment *next = list->n ? &list->at[list->n - 1] : NULL;
    if (next && !recomputed && !next->recomputed) {
        next->blocks += end - first;
        next->first = first;
        return;
    }
    list->at[list->n++] = (ckpt_mem_segment){.first = first, .blocks = end - first, .recomputed = recomputed};
}

static void reverse(struct segment_list *list)
{
    for (size_t i = 0; i < list->n / 2; i++) {
        ckpt_mem_segment moved = list->at[i];
        list->at[i] = list->at[list->n - 1 - i];
        list->at[list->n - 1 - i] = moved;
    }
}

/* list_segments - sets *OUT to the segments of the N blocks by WAY; those before KEPT_FROM are recomputed. */
static void list_segments(const struct way *way, uint32_t n, uint32_t kept_from, struct segment_list *out)
{
    for (uint32_t j = n; j > 0; j = way->from[j])
        add_before(out, way->from[j], j, j <= kept_from);
    reverse(out);
}

/* list_front_segments - sets *OUT to the segments of the way that is the first point of FRONT. */
static void list_front_segments(const struct search *search, const struct front *front,
                                struct segment_list *out)
{
    size_t k = 0;
    for (uint32_t j = search->needs->n; j > 0;) {
        const struct point *p = &front->at[k];
        bool recomputed = front == front_at(search, j, RECOMPUTED);
        add_before(out, p->from, j, recomputed);
        k = p->index;
        j = p->from;
        front = front_at(search, j, (enum last_block)p->last);
    }
    reverse(out);
}

/* ---- */

/* find_fewest_recomputed - returns the smallest number of blocks at the beginning that have to be
 * recomputed, all others kept, as far as bisection finds it; n + 1: LIMIT is too low. Sets *WAY to that
 * way. */
static uint32_t find_fewest_recomputed(const struct needs *needs, uint64_t limit, struct way *way)
{
    uint32_t low = 0, high = needs->n;
    if (!plan_fits(needs, limit, needs->n, way))
        return needs->n + 1;
    while (low + 1 < high) {
        uint32_t middle = low + (high - low) / 2;
        if (plan_fits(needs, limit, middle, way))
            high = middle;
        else
            low = middle;
    }
    plan_fits(needs, limit, high, way);
    return high;
}

/* peak_without - returns the peak if nothing is recomputed. */
static uint64_t peak_without(const struct mem_timeline *t)
{
    ckpt_mem_segment all = {.blocks = t->n};
    return timeline_peak(t, &(struct mem_segments){.list = &all, .n = t->n ? 1 : 0}).bytes;
}

/* fits_without - sets *OUT and returns true if the peak is at most LIMIT without recomputing anything. */
static bool fits_without(const struct mem_timeline *t, uint64_t limit, struct segment_list *out)
{
    if (peak_without(t) > limit)
        return false;
    out->at[0] = (ckpt_mem_segment){.blocks = t->n};
    out->n = t->n ? 1 : 0;
    return true;
}

ckpt_status plan_cheapest(const struct mem_timeline *t, uint64_t limit, arena *a, struct mem_plan *out,
                          ckpt_error *err)
{
    struct needs needs;
    struct way way;
    struct segment_list list = {.at = arena_array(a, (uint64_t)t->n + 1, sizeof *list.at)};
    *out = (struct mem_plan){0};
    if (!list.at || !init_way(&way, t->n, a))
        return fail_memory(err);
    if (fits_without(t, limit, &list)) {
        *out = (struct mem_plan){list.at, list.n, true};
        return CKPT_OK;
    }
    CKPT_TRY(init_needs(&needs, t, a, err));
    uint32_t known = find_fewest_recomputed(&needs, limit, &way);
    if (known > t->n)
        return CKPT_OK;
    struct search search = {.needs = &needs, .limit = limit, .most_again = needs.again[known]};
    bool ok = search_run(&search);
    const struct front *best = ok && !search.too_many ? find_best_front(&search) : NULL;
    if (best)
        list_front_segments(&search, best, &list);
    else
        list_segments(&way, t->n, known, &list);
    search_free(&search);
    *out = (struct mem_plan){list.at, list.n, !search.too_many};
    return ok ? CKPT_OK : fail_memory(err);
}

ckpt_status plan_lowest_peak(const struct mem_timeline *t, arena *a, uint64_t *peak, ckpt_error *err)
{
    struct needs needs;
    struct way way;
    uint64_t low = 0, high = peak_without(t);
    if (!init_way(&way, t->n, a))
        return fail_memory(err);
    CKPT_TRY(init_needs(&needs, t, a, err));
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (plan_fits(&needs, middle, t->n, &way))
            high = middle;
        else
            low = middle + 1;
    }
    *peak = high;
    return CKPT_OK;
}

ckpt_status plan_lowest(const struct mem_timeline *t, arena *a, struct mem_plan *out, ckpt_error *err)
{
    uint64_t peak;
    CKPT_TRY(plan_lowest_peak(t, a, &peak, err));
    return plan_cheapest(t, peak, a, out, err);
}
