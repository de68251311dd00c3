/* pool.c - see pool.h. */
#include "io/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define MAX_THREADS         256u
#define DEFAULT_MAX_THREADS 4u
#define IDLE_INTERVAL_NS    100000000L
#define STACK_SIZE          1048576u /* bytes of a thread; musl's default is 131072 */

/* The tasks that one thread has left: [next, end). */
struct share {
    size_t next, end;
};

struct pool {
    const struct pool_job *job;
    struct share shares[MAX_THREADS];
    unsigned threads, busy_threads;
    pthread_mutex_t lock;       /* protects shares, busy_threads, err */
    pthread_cond_t thread_done; /* signalled when a thread has run out of tasks */
    atomic_size_t first_failed; /* lowest task that failed; SIZE_MAX: none */
    atomic_bool cancelled;
    ckpt_error *err; /* the error of the task FIRST_FAILED */
};

struct worker {
    struct pool *pool;
    unsigned number;
};

unsigned pool_threads(unsigned wanted)
{
    cpu_set_t set;
    if (wanted)
        return wanted < MAX_THREADS ? wanted : MAX_THREADS;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < 1 ? 1 : (unsigned)n < DEFAULT_MAX_THREADS ? (unsigned)n : DEFAULT_MAX_THREADS;
}

bool pool_task_stopped(const struct pool *pool, size_t index)
{
    return atomic_load_explicit(&pool->cancelled, memory_order_relaxed) ||
           index > atomic_load_explicit(&pool->first_failed, memory_order_relaxed);
}

void pool_cancel(struct pool *pool) { atomic_store(&pool->cancelled, true); }

static double get_weight(const struct pool_job *job, size_t index)
{
    return (double)job->weigh(job->user, index);
}

/* assign_shares - gives each thread a run of consecutive tasks of about the same total weight. */
static void assign_shares(struct pool *pool)
{
    const struct pool_job *j = pool->job;
    double total = 0, assigned = 0, weight = j->n ? get_weight(j, 0) : 0;
    size_t task = 0; /* the next to assign; WEIGHT is its weight */
    for (size_t i = 0; i < j->n; i++)
        total += get_weight(j, i);
    for (unsigned w = 0; w < pool->threads; w++) {
        pool->shares[w].next = task;
        double target = total * (w + 1) / pool->threads;
        while (task < j->n && (w + 1 == pool->threads || assigned + weight / 2 <= target)) {
            assigned += weight;
            weight = ++task < j->n ? get_weight(j, task) : 0;
        }
        pool->shares[w].end = task;
    }
}

/* steal_tasks - moves to MINE half of the tasks of the thread that has most left; false: none has any. */
static bool steal_tasks(struct pool *pool, struct share *mine)
{
    struct share *fullest = mine;
    for (unsigned w = 0; w < pool->threads; w++)
        if (pool->shares[w].end - pool->shares[w].next > fullest->end - fullest->next)
            fullest = &pool->shares[w];
    size_t left = fullest->end - fullest->next;
    if (left == 0)
        return false;
    mine->end = fullest->end;
    fullest->end -= (left + 1) / 2;
    mine->next = fullest->end;
    return true;
}

static bool take_task(struct pool *pool, unsigned worker, size_t *task)
{
    pthread_mutex_lock(&pool->lock);
    struct share *mine = &pool->shares[worker];
    bool has_task = mine->next < mine->end || steal_tasks(pool, mine);
    if (has_task)
        *task = mine->next++;
    pthread_mutex_unlock(&pool->lock);
    return has_task;
}

static void note_failure(struct pool *pool, size_t task, const ckpt_error *err)
{
    pthread_mutex_lock(&pool->lock);
    if (task < atomic_load(&pool->first_failed)) {
        atomic_store(&pool->first_failed, task);
        *pool->err = *err;
    }
    pthread_mutex_unlock(&pool->lock);
}

static void run_tasks(struct pool *pool, unsigned worker)
{
    size_t task;
    ckpt_error err;
    while (take_task(pool, worker, &task)) {
        err = (ckpt_error){.offset = CKPT_NO_OFFSET};
        if (pool_task_stopped(pool, task))
            continue;
        ckpt_status st = pool->job->task(pool->job->user, pool, task, worker, &err);
        err.status = st;
        if (st != CKPT_OK && !pool_task_stopped(pool, task))
            note_failure(pool, task, &err);
    }
}

static void *run_worker(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;
    run_tasks(p, w->number);
    pthread_mutex_lock(&p->lock);
    p->busy_threads--;
    pthread_cond_signal(&p->thread_done);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* start_thread - starts a thread with all signals blocked, so that other threads of the program get them. */
static bool start_thread(struct worker *worker, pthread_t *thread)
{
    sigset_t all, old;
    pthread_attr_t with;
    if (pthread_attr_init(&with) != 0)
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    bool ok = pthread_attr_setstacksize(&with, STACK_SIZE) == 0 &&
              pthread_create(thread, &with, run_worker, worker) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_attr_destroy(&with);
    return ok;
}

static void wait_for_workers(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    while (pool->busy_threads) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += IDLE_INTERVAL_NS;
        if (until.tv_nsec >= 1000000000L) {
            until.tv_nsec -= 1000000000L;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&pool->thread_done, &pool->lock, &until);
        if (!pool->job->idle)
            continue;
        pthread_mutex_unlock(&pool->lock);
        pool->job->idle(pool->job->user, pool);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
}

/* run_threads - runs all tasks; the caller is worker 0. If a thread cannot start, others take its share. */
static void run_threads(struct pool *pool)
{
    pthread_t ids[MAX_THREADS];
    struct worker workers[MAX_THREADS];
    unsigned started = 0;
    pool->busy_threads = pool->threads - 1;
    for (unsigned w = 1; w < pool->threads; w++) {
        workers[w] = (struct worker){pool, w};
        if (start_thread(&workers[w], &ids[started])) {
            started++;
            continue;
        }
        pthread_mutex_lock(&pool->lock);
        pool->busy_threads--;
        pthread_mutex_unlock(&pool->lock);
    }
    run_tasks(pool, 0);
    wait_for_workers(pool);
    for (unsigned w = 0; w < started; w++)
        pthread_join(ids[w], NULL);
}

ckpt_status pool_run(const struct pool_job *job, ckpt_error *err)
{
    struct pool *p = calloc(1, sizeof *p);
    CKPT_TRY_ALLOC(p, err);
    p->job = job;
    p->err = err;
    p->threads = job->n < job->threads ? (unsigned)job->n : job->threads;
    p->threads = p->threads ? p->threads : 1;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->thread_done, NULL);
    atomic_init(&p->first_failed, SIZE_MAX);
    atomic_init(&p->cancelled, false);
    assign_shares(p);
    run_threads(p);
    ckpt_status st = CKPT_OK;
    if (atomic_load(&p->first_failed) != SIZE_MAX)
        st = err->status;
    else if (atomic_load(&p->cancelled))
        st = fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
    pthread_cond_destroy(&p->thread_done);
    pthread_mutex_destroy(&p->lock);
    free(p);
    return st;
}
