/* pool.h - runs independent tasks on several threads, with the outcome of one thread: of
 * all failures, the one that a single thread would have met first is reported. */
#ifndef IO_POOL_H
#define IO_POOL_H

#include "base/error.h"

struct pool;

struct pool_job {
    size_t n;               /* tasks, in the order in which one thread would run them */
    const uint64_t *weight; /* of each, such as its bytes … */
    uint64_t (*weigh)(void *user, size_t i); /* … or where that is NULL */
    unsigned threads;       /* by pool_threads */
    /* task - number I, on thread number WORKER < THREADS; 0: the one that called pool_run. */
    ckpt_status (*task)(void *user, struct pool *p, size_t i, unsigned worker, ckpt_error *err);
    /* idle - on the calling thread while it waits for the others, about ten times
     * a second; may stop them by pool_cancel. NULL: nothing to do. */
    void (*idle)(void *user, struct pool *p);
    void *user;
};

/* pool_threads - returns how many threads to use when WANTED are asked for: 0 means as many as there are
 * processors, but at most 4: more did not read faster. */
unsigned pool_threads(unsigned wanted);
/* pool_run - runs all tasks. Each thread starts with consecutive tasks, so that files
 * are read in long runs, and then steals from the others. ERR is never NULL. */
ckpt_status pool_run(const struct pool_job *job, ckpt_error *err);
/* pool_stopped - has an earlier task than I failed, or was the job cancelled? */
bool pool_stopped(const struct pool *p, size_t i);
/* pool_cancel - starts no further task: pool_run returns CKPT_ECANCELLED. */
void pool_cancel(struct pool *p);

#endif
