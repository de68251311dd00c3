/* The plans of op/mem/plan for 10,000 random cases of up to 14 blocks are compared with every way to cut the
 * blocks into segments and to keep or recompute each segment. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "noise.h"
#include "op/mem/plan.h"
#include "unit.h"

#define BRUTE_BLOCKS 14

static uint64_t random_state = 1;
static uint64_t random_below(uint64_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % n;
}

/* random_timeline - returns a timeline of N random BLOCKS. EQUAL: they are all the same. COPIES: they have
 * copies. */
static struct mem_timeline random_timeline(struct mem_block *blocks, uint32_t n, bool equal, bool copies)
{
    struct mem_timeline t = {.blocks = blocks, .n = n, .input = random_below(50), .head = random_below(50)};
    t.loss = random_below(80);
    t.checkpointed = random_below(4);
    t.moment[HELD] = random_below(4);
    for (int i = FORWARD_END; i < MEM_MOMENTS; i++)
        t.moment[i] = random_below(120);
    t.head_gradient = random_below(40);
    t.gradients = t.head_gradient;
    uint64_t alike = random_below(5);
    t.end = random_below(60);
    for (uint32_t i = 0; i < n; i++) {
        struct mem_block *b = &blocks[i];
        b->input = 1 + random_below(20);
        b->copies = copies ? random_below(10) : 0;
        b->kept = b->input + b->copies + random_below(60);
        b->gradient = random_below(15);
        b->work = random_below(30);
        b->forward = 1 + random_below(9);
        if (i && (equal || alike > random_below(4)))
            *b = blocks[i - 1];
        t.gradients += b->gradient;
    }
    return t;
}

/* The best results of all ways. */
struct best {
    uint64_t lowest; /* the lowest peak */
    uint64_t limit;
    uint64_t again; /* the least recomputation with a peak up to LIMIT; UINT64_MAX: impossible */
};

/* try_way - updates BEST with one way. Bit i of CUTS: a segment ends after block i. Bit i of AGAIN: the
 * segment that begins with block i is recomputed. */
static void try_way(const struct mem_timeline *t, uint32_t cuts, uint32_t again, struct best *best)
{
    ckpt_mem_segment list[BRUTE_BLOCKS];
    struct mem_segments s = {.list = list};
    uint32_t first = 0;
    for (uint32_t i = 0; i < t->n; i++)
        if (i + 1 == t->n || cuts >> i & 1) {
            list[s.n++] = (ckpt_mem_segment){
                .first = first, .blocks = i + 1 - first, .recomputed = again >> first & 1};
            first = i + 1;
        }
    uint64_t peak = timeline_peak(t, &s).bytes, work = timeline_again(t, &s);
    best->lowest = peak < best->lowest ? peak : best->lowest;
    if (peak <= best->limit && work < best->again)
        best->again = work;
}

/* is_canonical - returns true if AGAIN has only bits of first blocks of segments, and kept segments have one
 * block each (longer ones would be the same way). */
static bool is_canonical(uint32_t n, uint32_t cuts, uint32_t again)
{
    uint32_t firsts = (cuts << 1 | 1) & ((1u << n) - 1), joined = ~cuts & ((1u << (n - 1)) - 1);
    if (again & ~firsts)
        return false;
    for (uint32_t i = 0, first = 0; i < n; i++) {
        first = firsts >> i & 1 ? i : first;
        if ((joined >> i & 1) && !(again >> first & 1))
            return false;
    }
    return true;
}

static struct best try_all(const struct mem_timeline *t, uint64_t limit)
{
    struct best best = {.lowest = UINT64_MAX, .limit = limit, .again = UINT64_MAX};
    for (uint32_t cuts = 0; cuts < 1u << (t->n - 1); cuts++) {
        uint32_t firsts = (cuts << 1 | 1) & ((1u << t->n) - 1);
        for (uint32_t again = firsts;; again = (again - 1) & firsts) {
            if (is_canonical(t->n, cuts, again))
                try_way(t, cuts, again, &best);
            if (!again)
                break;
        }
    }
    return best;
}

/* is_optimal - returns true if the plans for T are as good as the best of all ways. */
static bool is_optimal(const struct mem_timeline *t)
{
    arena *a = arena_new(1 << 20);
    struct mem_segments s;
    struct mem_plan plan;
    uint64_t all = 0;
    for (uint32_t i = 0; i < t->n; i++)
        all += t->blocks[i].kept;
    uint64_t limit = 60 + random_below(all + 200);
    struct best best = try_all(t, limit);
    bool ok = plan_lowest(t, a, &plan, NULL) == CKPT_OK;
    s = (struct mem_segments){.list = plan.list, .n = plan.n};
    ok = ok && plan.proven && timeline_peak(t, &s).bytes == best.lowest;
    ok = ok && plan_cheapest(t, limit, a, &plan, NULL) == CKPT_OK;
    s = (struct mem_segments){.list = plan.list, .n = plan.n};
    ok = ok && (plan.list ? plan.proven && timeline_peak(t, &s).bytes <= limit &&
                                timeline_again(t, &s) == best.again
                          : best.again == UINT64_MAX);
    arena_free(a);
    return ok;
}

static void plans_are_optimal(void)
{
    struct mem_block blocks[BRUTE_BLOCKS];
    unsigned wrong = 0;
    for (unsigned i = 0; i < 10000; i++) {
        /* most cases are short: 14 blocks can be cut in 1.6 million ways */
        uint32_t n = i < 4 ? 14 : i < 40 ? 11 + (uint32_t)random_below(2) : 1 + (uint32_t)random_below(8);
        struct mem_timeline t = random_timeline(blocks, n, i % 5 == 0, i % 2 == 0);
        wrong += !is_optimal(&t);
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

/* deep_timeline - returns 200 blocks as in a transformer or, if UNEVEN, as in a ResNet. */
static struct mem_timeline deep_timeline(struct mem_block *blocks, bool uneven)
{
    struct mem_timeline t = {.blocks = blocks, .n = 200, .input = 1000, .head = 5000, .loss = 20000};
    t.moment[LOSS_BACKWARD] = 30000;
    for (uint32_t i = 0; i < t.n; i++) {
        uint64_t stage = uneven ? 8u >> (i / 50) : 1u;
        blocks[i] = (struct mem_block){.input = 200 * stage,
                                       .kept = 3400 * stage + (uneven ? i % 7 * 100 : 0),
                                       .work = 400,
                                       .forward = 1000,
                                       .gradient = 700,
                                       .copies = 300};
        t.gradients += 700;
    }
    return t;
}

static void planning_takes_milliseconds(void)
{
    struct mem_block blocks[200];
    for (int uneven = 0; uneven < 2; uneven++) {
        struct mem_timeline t = deep_timeline(blocks, uneven);
        ckpt_mem_segment all = {.blocks = 200};
        struct mem_plan plan;
        struct mem_segments s = {.list = &all, .n = 1};
        uint64_t most = timeline_peak(&t, &s).bytes;
        for (unsigned part = 1; part <= 10; part++) {
            arena *a = arena_new(1 << 24);
            clock_t begun = clock();
            CU_ASSERT_EQUAL(part == 10 ? plan_lowest(&t, a, &plan, NULL)
                                       : plan_cheapest(&t, most * part / 10, a, &plan, NULL),
                            CKPT_OK);
            double ms = (double)(clock() - begun) * 1000 / CLOCKS_PER_SEC;
            if (getenv("MEM_PLAN_TIMES"))
                printf("\n%d %u %.2f ms", uneven, part, ms);
            CU_ASSERT(!unit_timed() || ms < 10);
            arena_free(a);
        }
    }
}

/* If 200 blocks all differ, there are more ways than the planner tries. */
static void plans_that_are_not_proven_are_flagged(void)
{
    struct mem_block blocks[200];
    struct mem_timeline t = {.blocks = blocks, .n = 200, .input = 1000};
    uint64_t all = 0;
    for (uint32_t i = 0; i < t.n; i++) {
        blocks[i] = (struct mem_block){.input = 1000 + random_below(100000),
                                       .forward = 1000 + random_below(1000000),
                                       .work = random_below(1000),
                                       .copies = random_below(100000)};
        blocks[i].kept = blocks[i].input + blocks[i].copies + random_below(1000000);
        all += blocks[i].kept;
    }
    arena *a = arena_new(1 << 24);
    struct mem_plan plan;
    clock_t begun = clock();
    CU_ASSERT_EQUAL(plan_cheapest(&t, all / 2, a, &plan, NULL), CKPT_OK);
    if (getenv("MEM_PLAN_TIMES"))
        printf("\nall differ: %.2f ms, proven %d", (double)(clock() - begun) * 1000 / CLOCKS_PER_SEC,
               plan.proven);
    struct mem_segments s = {.list = plan.list, .n = plan.n};
    CU_ASSERT(!plan.proven);
    CU_ASSERT(plan.list && timeline_peak(&t, &s).bytes <= all / 2);
    arena_free(a);
}

void suite_mem_plan(void);
void suite_mem_plan(void)
{
    UNIT(plans_are_optimal);
    UNIT(planning_takes_milliseconds);
    UNIT(plans_that_are_not_proven_are_flagged);
}
