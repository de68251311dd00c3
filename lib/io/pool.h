/* pool.h - runs independent tasks on several threads, with the same result as one thread: of all failures,
 * the one that a single thread would have met first is reported. */
#pragma once

#include "base/error.h"

struct pool;

struct pool_job {
    size_t n;                                /* number of tasks; one thread would run them from 0 on */
    uint64_t (*weigh)(void *user, size_t i); /* returns the weight of task I, such as its bytes */
    unsigned threads;                        /* as pool_threads returned it */
    /* task - runs task I on thread WORKER < THREADS; 0 is the thread that called pool_run. */
    ckpt_status (*task)(void *user, struct pool *p, size_t i, unsigned worker, ckpt_error *err);
    /* idle - is called on the calling thread while it waits, about ten times a second; may call pool_cancel.
     * NULL: nothing to do. */
    void (*idle)(void *user, struct pool *p);
    void *user;
};

/* pool_threads - returns how many threads to use if WANTED are asked for; 0: one per processor, at most 4,
 * because more were not faster. */
unsigned pool_threads(unsigned wanted);
/* pool_run - runs all tasks. Each thread starts with consecutive tasks, so that files are read in long runs,
 * and then takes tasks from the others. ERR is never NULL. */
ckpt_status pool_run(const struct pool_job *job, ckpt_error *err);
/* pool_task_stopped - returns true if a task before task INDEX failed, or the job was cancelled. */
bool pool_task_stopped(const struct pool *pool, size_t index);
/* pool_cancel - makes pool_run start no further task, and return CKPT_ECANCELLED unless a task failed. */
void pool_cancel(struct pool *pool);
