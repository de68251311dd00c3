/* The thread pool: each task runs once, the first failure is reported, and results do not depend on the
 * number of threads. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/parallel_rows.h"
#include "io/pool.h"
#include "small_files.h"
#include "unit.h"

#define TASKS 500

/* How the tasks of a pool behave, and how often they ran. */
struct task_counts {
    atomic_int runs[TASKS];  /* number of times that each task ran */
    size_t failing_tasks[3]; /* indices of tasks that fail; TASKS: none */
    size_t cancelling_task;  /* index of the task that cancels the pool; TASKS: none */
    unsigned threads;
    atomic_int nruns; /* number of tasks that ran */
};

static ckpt_status run_task(void *user, struct pool *p, size_t i, unsigned worker, ckpt_error *err)
{
    struct task_counts *c = user;
    CU_ASSERT_FATAL(worker < c->threads);
    atomic_fetch_add(&c->runs[i], 1);
    atomic_fetch_add(&c->nruns, 1);
    if (i == c->cancelling_task)
        pool_cancel(p);
    for (int k = 0; k < 3; k++)
        if (i == c->failing_tasks[k])
            return fail(err, CKPT_EFORMAT, i, "task %zu", i);
    return CKPT_OK;
}

/* uneven_weight - returns the weight of task I. The sum of all weights exceeds 64 bits. */
static uint64_t uneven_weight(void *user, size_t i)
{
    (void)user;
    return i % 7 == 0 ? UINT64_MAX / 2 : i;
}

static ckpt_status run_pool(struct task_counts *c, unsigned threads, ckpt_error *err)
{
    struct pool_job job = {
        .n = TASKS, .weigh = uneven_weight, .threads = threads, .task = run_task, .user = c};
    c->threads = threads;
    return pool_run(&job, err);
}

static void each_task_runs_once(void)
{
    for (unsigned threads = 1; threads <= 9; threads++) {
        struct task_counts c = {.failing_tasks = {TASKS, TASKS, TASKS}, .cancelling_task = TASKS};
        ckpt_error err;
        int nwrong = 0;
        CU_ASSERT_EQUAL(run_pool(&c, threads, &err), CKPT_OK);
        for (size_t i = 0; i < TASKS; i++)
            nwrong += atomic_load(&c.runs[i]) != 1;
        CU_ASSERT_EQUAL(nwrong, 0);
    }
}

/* The first failure is that of the task with the lowest index, even if another task fails earlier. */
static void the_first_failure_is_reported(void)
{
    for (int round = 0; round < 20; round++)
        for (unsigned threads = 1; threads <= 7; threads += 2) {
            struct task_counts c = {.failing_tasks = {411, 37, 300}, .cancelling_task = TASKS};
            ckpt_error err = {0};
            CU_ASSERT_EQUAL(run_pool(&c, threads, &err), CKPT_EFORMAT);
            CU_ASSERT_EQUAL(err.offset, 37);
            CU_ASSERT_STRING_EQUAL(err.what, "task 37");
        }
}

static void cancelling_stops_the_pool(void)
{
    struct task_counts c = {.failing_tasks = {TASKS, TASKS, TASKS}, .cancelling_task = 3};
    ckpt_error err = {0};
    CU_ASSERT_EQUAL(run_pool(&c, 1, &err), CKPT_ECANCELLED);
    CU_ASSERT_EQUAL(atomic_load(&c.nruns), 4); /* tasks 0 to 3 */
    struct task_counts by_four_threads = {.failing_tasks = {TASKS, TASKS, TASKS}, .cancelling_task = 3};
    CU_ASSERT_EQUAL(run_pool(&by_four_threads, 4, &err), CKPT_ECANCELLED);
}

static void the_number_of_threads_is_limited(void)
{
    CU_ASSERT(pool_threads(0) >= 1 && pool_threads(0) <= 4);
    CU_ASSERT_EQUAL(pool_threads(7), 7);
    CU_ASSERT(pool_threads(4000000000u) <= 256);
}

/* ---- several threads read a file of 40 tensors; they do so only because each tensor has 256 KiB */

enum { TENSORS = 40, TENSOR_BYTES = 256 * 1024 };

static ckpt_file *open_tensors(unsigned char *data)
{
    static char header[TENSORS * 80];
    size_t n = 0;
    for (int i = 0; i < TENSORS; i++)
        n += (size_t)snprintf(header + n, sizeof header - n,
                              "%s\"r%d\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[%d,%d]}",
                              i ? "," : "{", i, TENSOR_BYTES, i * TENSOR_BYTES, (i + 1) * TENSOR_BYTES);
    (void)snprintf(header + n, sizeof header - n, "}");
    uint32_t x = 1;
    for (size_t i = 0; i < (size_t)TENSORS * TENSOR_BYTES; i++) {
        x = x * 1664525u + 1013904223u;
        data[i] = (unsigned char)(x >> 24);
    }
    return open_safetensors(header, (const char *)data, (size_t)TENSORS * TENSOR_BYTES);
}

static void digests_do_not_depend_on_threads(void)
{
    unsigned char *data = malloc((size_t)TENSORS * TENSOR_BYTES);
    ckpt_file *f = open_tensors(data);
    uint8_t digests_by_one[TENSORS * CKPT_DIGEST_MAX], digests_by_several[TENSORS * CKPT_DIGEST_MAX];
    ckpt_work how = {.struct_size = sizeof how, .threads = 1};
    CU_ASSERT_EQUAL(ckpt_digest_tensors(f, CKPT_XXH3, &how, digests_by_one, NULL), CKPT_OK);
    for (how.threads = 2; how.threads <= 7; how.threads++) {
        memset(digests_by_several, 0, sizeof digests_by_several);
        CU_ASSERT_EQUAL(ckpt_digest_tensors(f, CKPT_XXH3, &how, digests_by_several, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(memcmp(digests_by_one, digests_by_several, sizeof digests_by_one), 0);
    }
    uint8_t digest[CKPT_DIGEST_MAX];
    CU_ASSERT_EQUAL(ckpt_digest_tensor(f, TENSORS - 1, CKPT_XXH3, digest, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(memcmp(digest, digests_by_one + (TENSORS - 1) * CKPT_DIGEST_MAX, sizeof digest), 0);
    close_open_files();
    free(data);
}

/* What the callbacks below do with the tensors, and which tensors were reported. */
struct reports {
    size_t next;         /* index of the tensor that must be reported next */
    size_t stop_before;  /* index of the tensor before which reporting stops; 0: none */
    size_t failing_from; /* index of the first tensor that fails */
    bool out_of_order;   /* a tensor was reported out of order */
};

static ckpt_status process_tensor(void *user, size_t i, struct parallel_context *s, ckpt_error *err)
{
    const struct reports *o = user;
    if (i >= o->failing_from)
        return fail(err, CKPT_EFORMAT, i, "tensor %zu", i);
    (void)parallel_advance(s, 1);
    return CKPT_OK;
}

static int report_tensor(void *user, size_t i)
{
    struct reports *o = user;
    o->out_of_order |= i != o->next++;
    return o->next == o->stop_before;
}

static void tensors_are_reported_in_order(void)
{
    unsigned char *data = malloc((size_t)TENSORS * TENSOR_BYTES);
    ckpt_file *f = open_tensors(data);
    struct parallel_item items[TENSORS];
    for (uint32_t i = 0; i < TENSORS; i++)
        items[i] = (struct parallel_item){.file = f, .row = i};
    for (unsigned threads = 1; threads <= 7; threads++) {
        struct reports all = {.failing_from = TENSORS}, stopped = {.stop_before = 5, .failing_from = TENSORS},
                       failed = {.failing_from = 23};
        struct parallel_job s = {.items = items,
                                 .n = TENSORS,
                                 .threads = threads,
                                 .process = process_tensor,
                                 .report = report_tensor,
                                 .user = &all};
        ckpt_error err;
        CU_ASSERT_EQUAL(parallel_run(&s, &err), CKPT_OK);
        CU_ASSERT(all.next == TENSORS && !all.out_of_order);
        s.user = &stopped;
        CU_ASSERT_EQUAL(parallel_run(&s, &err), CKPT_ECANCELLED);
        CU_ASSERT(stopped.next == 5 && !stopped.out_of_order);
        s.user = &failed;
        CU_ASSERT_EQUAL(parallel_run(&s, &err), CKPT_EFORMAT);
        CU_ASSERT(failed.next == 23 && !failed.out_of_order && err.offset == 23);
    }
    close_open_files();
    free(data);
}

void suite_pool(void)
{
    UNIT(each_task_runs_once);
    UNIT(the_first_failure_is_reported);
    UNIT(cancelling_stops_the_pool);
    UNIT(the_number_of_threads_is_limited);
    UNIT(digests_do_not_depend_on_threads);
    UNIT(tensors_are_reported_in_order);
}
