/* pool.c - see pool.h. */
#include "io/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define MOST_THREADS 256u
#define USUAL_MOST   4u
#define IDLE_NS      100000000L

/* Tasks that one thread has before it: [next, end). */
struct share {
    size_t next, end;
};

struct pool {
    const struct pool_job *job;
    struct share shares[MOST_THREADS];
    unsigned threads, busy;
    pthread_mutex_t lock; /* shares, busy, err */
    pthread_cond_t quiet; /* a thread has nothing left to do */
    atomic_size_t failed; /* lowest task that failed; SIZE_MAX: none */
    atomic_bool cancelled;
    ckpt_error *err; /* of that task */
};

struct worker {
    struct pool *p;
    unsigned number;
};

unsigned pool_threads(unsigned wanted)
{
    cpu_set_t set;
    if (wanted)
        return wanted < MOST_THREADS ? wanted : MOST_THREADS;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < 1 ? 1 : (unsigned)n < USUAL_MOST ? (unsigned)n : USUAL_MOST;
}

bool pool_stopped(const struct pool *p, size_t i)
{
    return atomic_load_explicit(&p->cancelled, memory_order_relaxed) ||
           i > atomic_load_explicit(&p->failed, memory_order_relaxed);
}

void pool_cancel(struct pool *p) { atomic_store(&p->cancelled, true); }

static double weight_of(const struct pool_job *j, size_t i)
{
    return (double)(j->weight ? j->weight[i] : j->weigh(j->user, i));
}

/* deal - neighbours to each thread, so that all have about the same weight. */
static void deal(struct pool *p)
{
    const struct pool_job *j = p->job;
    double total = 0, sum = 0, next = j->n ? weight_of(j, 0) : 0;
    size_t at = 0;
    for (size_t i = 0; i < j->n; i++)
        total += weight_of(j, i);
    for (unsigned w = 0; w < p->threads; w++) {
        p->shares[w].next = at;
        double upto = total * (w + 1) / p->threads;
        while (at < j->n && (w + 1 == p->threads || sum + next / 2 <= upto)) {
            sum += next;
            next = ++at < j->n ? weight_of(j, at) : 0;
        }
        p->shares[w].end = at;
    }
}

/* help - takes half of what the thread with the most tasks has left. */
static bool help(struct pool *p, struct share *mine)
{
    struct share *most = mine;
    for (unsigned w = 0; w < p->threads; w++)
        if (p->shares[w].end - p->shares[w].next > most->end - most->next)
            most = &p->shares[w];
    size_t left = most->end - most->next;
    if (left == 0)
        return false;
    mine->end = most->end;
    most->end -= (left + 1) / 2;
    mine->next = most->end;
    return true;
}

static bool take(struct pool *p, unsigned number, size_t *task)
{
    pthread_mutex_lock(&p->lock);
    struct share *mine = &p->shares[number];
    bool any = mine->next < mine->end || help(p, mine);
    if (any)
        *task = mine->next++;
    pthread_mutex_unlock(&p->lock);
    return any;
}

static void note_failure(struct pool *p, size_t task, const ckpt_error *err)
{
    pthread_mutex_lock(&p->lock);
    if (task < atomic_load(&p->failed)) {
        atomic_store(&p->failed, task);
        *p->err = *err;
    }
    pthread_mutex_unlock(&p->lock);
}

static void work(struct pool *p, unsigned number)
{
    size_t task;
    while (take(p, number, &task)) {
        ckpt_error err = {.offset = CKPT_NO_OFFSET};
        if (pool_stopped(p, task))
            continue;
        ckpt_status st = p->job->task(p->job->user, p, task, number, &err);
        err.status = st;
        if (st != CKPT_OK && !pool_stopped(p, task))
            note_failure(p, task, &err);
    }
}

static void *helper(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->p;
    work(p, w->number);
    pthread_mutex_lock(&p->lock);
    p->busy--;
    pthread_cond_signal(&p->quiet);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* start - a thread that no signal is delivered to: they are for the caller's own. */
static bool start(struct worker *w, pthread_t *thread)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    bool ok = pthread_create(thread, NULL, helper, w) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return ok;
}

static void wait_for_helpers(struct pool *p)
{
    pthread_mutex_lock(&p->lock);
    while (p->busy) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += IDLE_NS;
        if (until.tv_nsec >= 1000000000L) {
            until.tv_nsec -= 1000000000L;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&p->quiet, &p->lock, &until);
        if (!p->job->idle)
            continue;
        pthread_mutex_unlock(&p->lock);
        p->job->idle(p->job->user, p);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
}

/* run_threads - the calling thread is worker 0; one that cannot be started leaves
 * its share to the others. */
static void run_threads(struct pool *p)
{
    pthread_t ids[MOST_THREADS];
    struct worker workers[MOST_THREADS];
    unsigned started = 0;
    p->busy = p->threads - 1;
    for (unsigned w = 1; w < p->threads; w++) {
        workers[w] = (struct worker){p, w};
        if (start(&workers[w], &ids[started])) {
            started++;
            continue;
        }
        pthread_mutex_lock(&p->lock);
        p->busy--;
        pthread_mutex_unlock(&p->lock);
    }
    work(p, 0);
    wait_for_helpers(p);
    for (unsigned w = 0; w < started; w++)
        pthread_join(ids[w], NULL);
}

ckpt_status pool_run(const struct pool_job *job, ckpt_error *err)
{
    struct pool *p = calloc(1, sizeof *p);
    if (!p)
        return fail_memory(err);
    p->job = job;
    p->err = err;
    p->threads = job->n < job->threads ? (unsigned)job->n : job->threads;
    p->threads = p->threads ? p->threads : 1;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->quiet, NULL);
    atomic_init(&p->failed, SIZE_MAX);
    atomic_init(&p->cancelled, false);
    deal(p);
    run_threads(p);
    ckpt_status st = CKPT_OK;
    if (atomic_load(&p->failed) != SIZE_MAX)
        st = err->status;
    else if (atomic_load(&p->cancelled))
        st = fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
    pthread_cond_destroy(&p->quiet);
    pthread_mutex_destroy(&p->lock);
    free(p);
    return st;
}
