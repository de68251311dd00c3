/* extract_pairs.c - see extract_pairs.h. The difference of one pair at a time is in memory, on each thread,
 * in float64. What is computed goes to a spool, which is a temporary file if it is large; where it is there
 * depends on the threads, but not what it is. */
#include "op/extract_pairs.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/computed_source.h"
#include "core/number.h"
#include "core/row_source.h"
#include "core/svd.h"
#include "io/pool.h"
#include "io/spool.h"

enum { CHUNK = 32768 };    /* numbers read at a time */
#define MANY_BYTES 0x1p+23 /* to compare on several threads */
#define MANY_STEPS 0x1p+23 /* to compute on several threads: of a matrix of about 200 x 200 */
#define LEAST 0x1p-24 /* smaller values, by the largest, change little if the pair is rounded to float32 */

struct run {
    const struct extract_job *job;
    atomic_ullong done; /* bytes, or steps that stand for them */
    atomic_bool is_stopped;
    struct conversion rounding;
    pthread_mutex_t lock; /* of SPOOLED */
    spool *spooled;
    double bytes_per_step; /* of the progress */
};

/* The two tensors of a pair while they are read. */
struct reading {
    source *base, *tuned;
    ckpt_dtype base_dtype, tuned_dtype;
    double *numbers; /* CHUNK of the base, then as many of the tuned model */
};

/* ------------------------------------------------------------------------------ reading */

static ckpt_dtype dtype_of(const ckpt_file *f, uint32_t row)
{
    return (ckpt_dtype)table_dtype_of(&f->table, row);
}

static ckpt_status begin_reading(const struct run *run, const struct extract_pair *pair,
                                 struct reading *reading, ckpt_error *err)
{
    *reading = (struct reading){.base = row_source(run->job->base, pair->base),
                                .tuned = row_source(run->job->tuned, pair->tuned),
                                .base_dtype = dtype_of(run->job->base, pair->base),
                                .tuned_dtype = dtype_of(run->job->tuned, pair->tuned),
                                .numbers = malloc(2 * CHUNK * sizeof(double))};
    return reading->base && reading->tuned && reading->numbers ? CKPT_OK : fail_memory(err);
}

static void end_reading(struct reading *reading)
{
    source_unref(reading->base);
    source_unref(reading->tuned);
    free(reading->numbers);
}

/* name_model - adds PATH to ERR if ST, of reading from its file, is an error. */
static ckpt_status name_model(ckpt_status st, const ckpt_file *f, ckpt_error *err)
{
    return name_file_if_failed(st, f->path, err);
}

/* read_both - reads COUNT numbers of both models from FIRST on. */
static ckpt_status read_both(const struct run *run, const struct reading *reading, uint64_t first,
                             size_t count, ckpt_error *err)
{
    CKPT_TRY(name_model(read_numbers(reading->base, reading->base_dtype, first, count, reading->numbers, err),
                        run->job->base, err));
    return name_model(
        read_numbers(reading->tuned, reading->tuned_dtype, first, count, reading->numbers + CHUNK, err),
        run->job->tuned, err);
}

/* report - calls the progress callback, on the thread that called the library. */
static void report(void *user, struct pool *pool)
{
    struct run *run = user;
    const struct extract_job *job = run->job;
    uint64_t done = size_add(job->before, atomic_load(&run->done));
    if (!job->progress || job->progress(job->user, done < job->total ? done : job->total, job->total) == 0)
        return;
    atomic_store(&run->is_stopped, true);
    pool_cancel(pool);
}

/* ---------------------------------------------------------------------------- comparing */

static uint64_t elements_of(const struct run *run, const struct extract_pair *pair)
{
    return table_elements_of(&run->job->tuned->table, pair->tuned);
}

/* compare_numbers - sets *DIFFERS to whether the tensors have different numbers, and pair->is_finite. */
static ckpt_status compare_numbers(const struct run *run, struct extract_pair *pair,
                                   const struct reading *reading, bool *differs, ckpt_error *err)
{
    const uint64_t all = elements_of(run, pair);
    const double *base = reading->numbers, *tuned = reading->numbers + CHUNK;
    for (uint64_t first = 0; first < all && !atomic_load(&run->is_stopped); first += CHUNK) {
        const size_t count = all - first < CHUNK ? (size_t)(all - first) : CHUNK;
        CKPT_TRY(read_both(run, reading, first, count, err));
        for (size_t i = 0; i < count; i++) {
            if (tuned[i] == base[i] || (isnan(tuned[i]) && isnan(base[i])))
                continue;
            *differs = true;
            pair->is_finite = pair->is_finite && isfinite(tuned[i] - base[i]);
        }
    }
    return CKPT_OK;
}

static ckpt_status compare_bytes(const struct run *run, const struct reading *reading, bool *differs,
                                 ckpt_error *err)
{
    unsigned char *base = (unsigned char *)reading->numbers, *tuned = base + CHUNK;
    const uint64_t all = reading->base->size;
    *differs = all != reading->tuned->size;
    for (uint64_t off = 0; off < all && !*differs; off += CHUNK) {
        const size_t count = all - off < CHUNK ? (size_t)(all - off) : CHUNK;
        CKPT_TRY(name_model(source_read(reading->base, off, base, count, err), run->job->base, err));
        CKPT_TRY(name_model(source_read(reading->tuned, off, tuned, count, err), run->job->tuned, err));
        *differs = memcmp(base, tuned, count) != 0;
    }
    return CKPT_OK;
}

static bool is_real(ckpt_dtype dt) { return dtype_is_number(dt) && dtype_info(dt)->klass == 'f'; }

static ckpt_status compare(void *user, struct pool *pool, size_t index, unsigned worker, ckpt_error *err)
{
    struct run *run = user;
    struct extract_pair *pair = run->job->pairs[index];
    struct reading reading;
    bool *differs = &run->job->differ[index];
    if (!worker)
        report(run, pool);
    *differs = false;
    pair->is_finite = true;
    ckpt_status st = begin_reading(run, pair, &reading, err);
    if (st == CKPT_OK && is_real(reading.base_dtype) && is_real(reading.tuned_dtype))
        st = compare_numbers(run, pair, &reading, differs, err);
    else if (st == CKPT_OK && reading.base_dtype != reading.tuned_dtype)
        *differs = true;
    else if (st == CKPT_OK)
        st = compare_bytes(run, &reading, differs, err);
    end_reading(&reading);
    atomic_fetch_add(&run->done, extract_bytes(run->job, pair));
    return prefix_where_if_failed(st, pair->name, err);
}

/* ---------------------------------------------------------------------------- computing */

/* read_difference - sets OUT to the tuned model's numbers minus those of the base. */
static ckpt_status read_difference(const struct run *run, const struct extract_pair *pair,
                                   const struct reading *reading, double *out, ckpt_error *err)
{
    const uint64_t all = elements_of(run, pair);
    const double *base = reading->numbers, *tuned = reading->numbers + CHUNK;
    for (uint64_t first = 0; first < all; first += CHUNK) {
        const size_t count = all - first < CHUNK ? (size_t)(all - first) : CHUNK;
        CKPT_TRY(read_both(run, reading, first, count, err));
        for (size_t i = 0; i < count; i++) /* equal infinite numbers have no difference */
            out[first + i] = tuned[i] == base[i] ? 0 : tuned[i] - base[i];
    }
    return CKPT_OK;
}

/* put_numbers - rounds the COUNT NUMBERS, which it overwrites, and appends them to the spool, at *AT. */
static ckpt_status put_numbers(struct run *run, double *numbers, size_t count, uint64_t *at, ckpt_error *err)
{
    const size_t width = dtype_info(run->job->dtype)->block_bytes;
    unsigned char *rounded = malloc(count * width + 1);
    CKPT_TRY_ALLOC(rounded, err);
    ckpt_status st = CKPT_OK;
    if (computed_round(&run->rounding, numbers, count, rounded))
        st = fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                  "a number of the pair is beyond the largest of {%s}\n"
                  "--cast float32 has larger ones",
                  ckpt_dtype_name(run->job->dtype));
    pthread_mutex_lock(&run->lock);
    *at = spool_size(run->spooled);
    CKPT_THEN(st, spool_write(run->spooled, rounded, count * width, err));
    pthread_mutex_unlock(&run->lock);
    free(rounded);
    return st;
}

/* put_transposed - does so with the COUNT vectors of SIZE numbers at VECTORS, as a matrix [SIZE, COUNT]. */
static ckpt_status put_transposed(struct run *run, const double *vectors, size_t count, size_t size,
                                  uint64_t *at, ckpt_error *err)
{
    double *matrix = malloc(count * size * sizeof *matrix + 1);
    CKPT_TRY_ALLOC(matrix, err);
    for (size_t i = 0; i < size; i++)
        for (size_t k = 0; k < count; k++)
            matrix[i * count + k] = vectors[k * size + i];
    ckpt_status st = put_numbers(run, matrix, count * size, at, err);
    free(matrix);
    return st;
}

/* compute_vectors - computes the vectors of the difference MATRIX of PAIR. */
static ckpt_status compute_vectors(struct run *run, struct extract_pair *pair, double *matrix,
                                   ckpt_error *err)
{
    struct svd svd = {.rows = pair->rows,
                      .cols = pair->cols,
                      .matrix = matrix,
                      .rank = pair->rank,
                      .least = run->job->dtype == CKPT_DT_F64 ? SVD_LEAST : LEAST};
    ckpt_status st = svd_compute(&svd, err);
    pair->rank = (uint32_t)svd.rank;
    pair->norm = svd.norm;
    pair->kept = svd.kept;
    double *down = pair->is_transposed ? svd.left : svd.right,
           *up = pair->is_transposed ? svd.right : svd.left;
    const size_t in = pair->is_transposed ? svd.rows : svd.cols,
                 out = pair->is_transposed ? svd.cols : svd.rows;
    CKPT_THEN(st, put_numbers(run, down, svd.rank * in, &pair->down, err));
    CKPT_THEN(st, put_transposed(run, up, svd.rank, out, &pair->up, err));
    svd_free(&svd);
    return st;
}

static uint64_t steps_of(const struct extract_pair *pair)
{
    const uint64_t smaller = pair->rows < pair->cols ? pair->rows : pair->cols;
    return pair->rank ? size_mul(size_mul(pair->rows, pair->cols), smaller) : 1;
}

static ckpt_status compute(void *user, struct pool *pool, size_t index, unsigned worker, ckpt_error *err)
{
    struct run *run = user;
    struct extract_pair *pair = run->job->pairs[index];
    struct reading reading;
    const uint64_t bytes = size_mul(size_mul(pair->rows, pair->cols), sizeof(double));
    double *matrix = bytes < SIZE_MAX ? malloc((size_t)bytes + 1) : NULL;
    if (!worker)
        report(run, pool);
    ckpt_status st = begin_reading(run, pair, &reading, err);
    CKPT_THEN(st, matrix ? CKPT_OK : fail_memory(err));
    CKPT_THEN(st, read_difference(run, pair, &reading, matrix, err));
    end_reading(&reading);
    if (pair->rank)
        CKPT_THEN(st, compute_vectors(run, pair, matrix, err));
    else
        CKPT_THEN(st, put_numbers(run, matrix, pair->rows * pair->cols, &pair->down, err));
    free(matrix);
    atomic_fetch_add(&run->done, (uint64_t)((double)steps_of(pair) * run->bytes_per_step));
    return prefix_where_if_failed(st, pair->name, err);
}

/* --------------------------------------------------------------------------------- jobs */

uint64_t extract_bytes(const struct extract_job *job, const struct extract_pair *pair)
{
    return size_add(table_nbytes_of(&job->base->table, pair->base),
                    table_nbytes_of(&job->tuned->table, pair->tuned));
}

static uint64_t weigh_bytes(void *user, size_t index)
{
    const struct run *run = user;
    return extract_bytes(run->job, run->job->pairs[index]);
}

static uint64_t weigh_steps(void *user, size_t index)
{
    const struct run *run = user;
    return steps_of(run->job->pairs[index]);
}

/* choose_threads - returns how many threads are used for AMOUNT of work: one, if it takes less time than to
 * start others. */
static unsigned choose_threads(const struct extract_job *job, double amount, double least)
{
    return amount < least ? 1 : pool_threads(job->threads);
}

ckpt_status extract_compare(const struct extract_job *job, ckpt_error *err)
{
    struct run run = {.job = job};
    const struct pool_job pool = {.n = job->npairs,
                                  .weigh = weigh_bytes,
                                  .threads = choose_threads(job, (double)job->total, 2 * MANY_BYTES),
                                  .task = compare,
                                  .idle = report,
                                  .user = &run};
    return pool_run(&pool, err);
}

ckpt_status extract_compute(const struct extract_job *job, source **out, ckpt_error *err)
{
    struct run run = {.job = job, .spooled = spool_new(UINT64_MAX)};
    struct pool_job pool = {
        .n = job->npairs, .weigh = weigh_steps, .task = compute, .idle = report, .user = &run};
    double steps = 0;
    *out = NULL;
    CKPT_TRY_ALLOC(run.spooled, err);
    (void)conversion_init_once(&run.rounding, job->dtype); /* the caller has checked the dtype */
    for (size_t i = 0; i < job->npairs; i++)
        steps += (double)steps_of(job->pairs[i]);
    pool.threads = choose_threads(job, steps, MANY_STEPS);
    run.bytes_per_step = (double)(job->total - job->before) / steps;
    pthread_mutex_init(&run.lock, NULL);
    ckpt_status st = pool_run(&pool, err);
    pthread_mutex_destroy(&run.lock);
    if (st != CKPT_OK)
        spool_free(run.spooled);
    else if (!(*out = spool_source(run.spooled)))
        st = fail_memory(err);
    return st;
}
