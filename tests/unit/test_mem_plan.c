/* mem/plan is run on 10,000 random networks of up to 14 blocks. Its plans are compared with every way to
 * cut the blocks into segments and to keep or recompute each segment. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "mem/plan.h"
#include "pseudo_random.h"
#include "unit.h"

#define MAX_BLOCKS 14

static uint64_t random_state = 1;
static uint64_t random_below(uint64_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % n;
}

/* random_timeline - returns a timeline of N random blocks, and sets BLOCKS to them. If ALL_EQUAL, all blocks
 * are the same. If HAS_COPIES, the blocks keep cast copies of their weights. */
static struct mem_timeline random_timeline(struct mem_block *blocks, uint32_t n, bool all_equal,
                                           bool has_copies)
{
    struct mem_timeline t = {
        .blocks = blocks, .n = n, .input_bytes = random_below(50), .head_bytes = random_below(50)};
    t.loss_bytes = random_below(80);
    t.checkpoint_bytes = random_below(4);
    t.moment_bytes[HELD] = random_below(4);
    for (int i = FORWARD_END; i < MEM_MOMENTS; i++)
        t.moment_bytes[i] = random_below(120);
    t.head_gradient = random_below(40);
    t.gradients = t.head_gradient;
    uint64_t repeats = random_below(5); /* of 4 blocks, how many repeat the previous one */
    t.end_bytes = random_below(60);
    for (uint32_t i = 0; i < n; i++) {
        struct mem_block *b = &blocks[i];
        b->input_bytes = 1 + random_below(20);
        b->copy_bytes = has_copies ? random_below(10) : 0;
        b->kept_bytes = b->input_bytes + b->copy_bytes + random_below(60);
        b->gradient_bytes = random_below(15);
        b->backward_bytes = random_below(30);
        b->multiply_adds = 1 + random_below(9);
        if (i && (all_equal || repeats > random_below(4)))
            *b = blocks[i - 1];
        t.gradients += b->gradient_bytes;
    }
    return t;
}

/* The best results of all ways to cut the blocks into segments and to recompute some of the segments. */
struct best_results {
    uint64_t lowest_peak;
    uint64_t limit;               /* highest peak allowed for least_recomputation */
    uint64_t least_recomputation; /* UINT64_MAX if every way has a peak above LIMIT */
};

/* try_cuts - updates BEST with the results of one way to cut. Bit I of CUTS is set if a segment ends after
 * block I. Bit I of RECOMPUTED is set if the segment that begins with block I is recomputed. */
static void try_cuts(const struct mem_timeline *t, uint32_t cuts, uint32_t recomputed,
                     struct best_results *best)
{
    ckpt_mem_segment list[MAX_BLOCKS];
    struct mem_segments s = {.list = list};
    uint32_t first = 0;
    for (uint32_t i = 0; i < t->n; i++)
        if (i + 1 == t->n || cuts >> i & 1) {
            list[s.n++] = (ckpt_mem_segment){
                .first = first, .blocks = i + 1 - first, .recomputed = recomputed >> first & 1};
            first = i + 1;
        }
    uint64_t peak = timeline_peak(t, &s).bytes, recomputation = timeline_extra_work(t, &s);
    best->lowest_peak = peak < best->lowest_peak ? peak : best->lowest_peak;
    if (peak <= best->limit && recomputation < best->least_recomputation)
        best->least_recomputation = recomputation;
}

/* segment_starts - returns a bit for each of N blocks, set if CUTS lets a segment begin with the block. */
static uint32_t segment_starts(uint32_t n, uint32_t cuts) { return (cuts << 1 | 1) & ((1u << n) - 1); }

/* is_canonical - returns true if each segment that is not recomputed has only one block. A longer one
 * would have the same results as a segment for each of its blocks. */
static bool is_canonical(uint32_t n, uint32_t cuts, uint32_t recomputed)
{
    for (uint32_t i = 0, first = 0; i + 1 < n; i++) {
        first = segment_starts(n, cuts) >> i & 1 ? i : first;
        bool next_is_in_same_segment = !(cuts >> i & 1);
        if (next_is_in_same_segment && !(recomputed >> first & 1))
            return false;
    }
    return true;
}

static struct best_results try_all_cuts(const struct mem_timeline *t, uint64_t limit)
{
    struct best_results best = {.lowest_peak = UINT64_MAX, .limit = limit, .least_recomputation = UINT64_MAX};
    for (uint32_t cuts = 0; cuts < 1u << (t->n - 1); cuts++) {
        /* every subset of the segments, from all of them to none */
        uint32_t segments = segment_starts(t->n, cuts);
        for (uint32_t recomputed = segments;; recomputed = (recomputed - 1) & segments) {
            if (is_canonical(t->n, cuts, recomputed))
                try_cuts(t, cuts, recomputed, &best);
            if (!recomputed)
                break;
        }
    }
    return best;
}

/* is_optimal - returns true if no way to cut has better results than the plans for T: the one with the lowest
 * peak and the cheapest one with a peak of at most LIMIT. */
static bool is_optimal(const struct mem_timeline *t, uint64_t limit)
{
    arena *a = arena_new(1 << 20);
    struct mem_segments s;
    struct mem_plan plan;
    struct best_results best = try_all_cuts(t, limit);
    bool ok = plan_lowest_peak(t, a, &plan, NULL) == CKPT_OK;
    s = (struct mem_segments){.list = plan.list, .n = plan.n};
    ok = ok && plan.proven && timeline_peak(t, &s).bytes == best.lowest_peak;
    ok = ok && plan_cheapest(t, limit, a, &plan, NULL) == CKPT_OK;
    s = (struct mem_segments){.list = plan.list, .n = plan.n};
    ok = ok && (plan.list ? plan.proven && timeline_peak(t, &s).bytes <= limit &&
                                timeline_extra_work(t, &s) == best.least_recomputation
                          : best.least_recomputation == UINT64_MAX);
    arena_free(a);
    return ok;
}

static void plans_are_optimal(void)
{
    struct mem_block blocks[MAX_BLOCKS];
    unsigned nwrong = 0;
    for (unsigned i = 0; i < 10000; i++) {
        /* most cases are short: for 14 blocks, try_all_cuts() goes through 3.2 million choices */
        uint32_t n = i < 4 ? 14 : i < 40 ? 11 + (uint32_t)random_below(2) : 1 + (uint32_t)random_below(8);
        struct mem_timeline t = random_timeline(blocks, n, i % 5 == 0, i % 2 == 0);
        uint64_t kept_bytes = 0;
        for (uint32_t k = 0; k < n; k++)
            kept_bytes += blocks[k].kept_bytes;
        nwrong += !is_optimal(&t, 60 + random_below(kept_bytes + 200));
    }
    CU_ASSERT_EQUAL(nwrong, 0);
}

/* Only block 2 alone is cheapest: it saves 6 of stored and 3 of forward, for 5 multiply-adds. For 4, block 0
 * saves 10 and 0, block 1 saves 4 and 4; at least 5 and 2 have to be saved. Before the last block, which has
 * to be kept, all of these fit. Each cost of block 2 is no less than one of the other two. */
static void a_point_that_no_single_point_beats_is_kept(void)
{
    struct mem_block blocks[] = {
        {.input_bytes = 1, .kept_bytes = 11, .copy_bytes = 10, .multiply_adds = 4},
        {.input_bytes = 1, .kept_bytes = 5, .multiply_adds = 4},
        {.input_bytes = 1, .kept_bytes = 7, .copy_bytes = 3, .multiply_adds = 5},
        {.input_bytes = 1, .kept_bytes = 2, .multiply_adds = 100},
        {.input_bytes = 1, .kept_bytes = 10, .multiply_adds = 100},
    };
    struct mem_timeline t = {.blocks = blocks, .n = sizeof blocks / sizeof *blocks};
    t.moment_bytes[LOSS_BACKWARD] = 100;
    t.moment_bytes[FORWARD_END] = 97;
    CU_ASSERT_EQUAL(try_all_cuts(&t, 130).least_recomputation, 5);
    CU_ASSERT(is_optimal(&t, 130));
}

/* If 200 blocks all differ, there are more ways than the planner tries. */
static void plans_that_are_not_proven_optimal_are_marked(void)
{
    struct mem_block blocks[200];
    struct mem_timeline t = {.blocks = blocks, .n = 200, .input_bytes = 1000};
    uint64_t kept_bytes = 0;
    for (uint32_t i = 0; i < t.n; i++) {
        blocks[i] = (struct mem_block){.input_bytes = 1000 + random_below(100000),
                                       .multiply_adds = 1000 + random_below(1000000),
                                       .backward_bytes = random_below(1000),
                                       .copy_bytes = random_below(100000)};
        blocks[i].kept_bytes = blocks[i].input_bytes + blocks[i].copy_bytes + random_below(1000000);
        kept_bytes += blocks[i].kept_bytes;
    }
    arena *a = arena_new(1 << 24);
    struct mem_plan plan;
    CU_ASSERT_EQUAL(plan_cheapest(&t, kept_bytes / 2, a, &plan, NULL), CKPT_OK);
    struct mem_segments s = {.list = plan.list, .n = plan.n};
    CU_ASSERT(!plan.proven);
    CU_ASSERT(plan.list && timeline_peak(&t, &s).bytes <= kept_bytes / 2);
    arena_free(a);
}

void suite_mem_plan(void);
void suite_mem_plan(void)
{
    UNIT(plans_are_optimal);
    UNIT(a_point_that_no_single_point_beats_is_kept);
    UNIT(plans_that_are_not_proven_optimal_are_marked);
}
