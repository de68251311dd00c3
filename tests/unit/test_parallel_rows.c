/* Reading large tensors in chunks: results do not depend on the number of threads, and no values of a chunk
 * are lost. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/crc32.h"
#include "core/parallel_rows.h"
#include "flat.h"
#include "unit.h"

#define N (PARALLEL_CHUNK_BYTES / 4 + 70001u) /* floats: a full chunk, and a part of a second one */

static const unsigned threads[] = {1, 2, 4, 7};

/* make_numbers - returns numbers of both signs, which the caller frees. The largest and the smallest are at
 * the border of the chunks, and NaN is at the end. */
static float *make_numbers(void)
{
    float *x = malloc((size_t)N * sizeof *x);
    for (uint32_t i = 0; i < N; i++)
        x[i] = (float)(i * 2654435761u >> 8) * 0x1p-24f - 0.5f;
    x[PARALLEL_CHUNK_BYTES / 4 - 1] = 7;
    x[PARALLEL_CHUNK_BYTES / 4] = -9;
    x[N - 1] = (float)NAN;
    return x;
}

static ckpt_file *open_numbers(const float *x) { return flat_numbers("w", "F32", N, x, (size_t)4 * N); }

static void statistics_do_not_depend_on_threads(void)
{
    float *x = make_numbers();
    ckpt_file *f = open_numbers(x);
    ckpt_stats first = CKPT_INIT(ckpt_stats), s = CKPT_INIT(ckpt_stats);
    long double sum = 0;
    uint32_t row = 0;
    for (uint32_t i = 0; i + 1 < N; i++)
        sum += (long double)x[i];
    for (size_t i = 0; i < 4; i++) {
        ckpt_work how = {.struct_size = sizeof how, .threads = threads[i]};
        memset(&s, 0, sizeof s);
        s.struct_size = sizeof s;
        CU_ASSERT_EQUAL(ckpt_stat(f, &row, 1, &how, &s, NULL), CKPT_OK);
        first = i ? first : s;
        CU_ASSERT_EQUAL(memcmp(&s, &first, sizeof s), 0);
    }
    CU_ASSERT(s.nan == 1 && s.inf == 0 && s.finite == N - 1 && s.min == -9 && s.max == 7);
    CU_ASSERT(fabsl((long double)s.mean * (N - 1) - sum) < 1e-4L);
    CU_ASSERT(s.sampled >= 4000 && s.sampled <= 4096);
    flat_close();
    free(x);
}

/* A negated tensor is split into the same chunks, so its sums are exactly the negated ones. */
static void negated_rows_have_the_same_chunks(void)
{
    float *x = make_numbers();
    ckpt_file *f = open_numbers(x);
    ckpt_stats run = CKPT_INIT(ckpt_stats), view = CKPT_INIT(ckpt_stats);
    uint32_t row = 0;
    CU_ASSERT_EQUAL(ckpt_stat(f, &row, 1, NULL, &run, NULL), CKPT_OK);
    f->table.rows[0].t.neg = true; /* negated after reading */
    CU_ASSERT_EQUAL(ckpt_stat(f, &row, 1, NULL, &view, NULL), CKPT_OK);
    CU_ASSERT(view.mean == -run.mean && view.std == run.std && view.norm == run.norm && view.max == 9);
    flat_close();
    free(x);
}

static ckpt_diff_event event;
static int record_row_event(void *user, const ckpt_diff_event *e)
{
    (void)user;
    event = *e;
    return 0;
}

static void differences_do_not_depend_on_threads(void)
{
    float *x = make_numbers();
    ckpt_file *a = open_numbers(x);
    x[3] = x[3] + 1;
    x[PARALLEL_CHUNK_BYTES / 4 - 1] = 8;
    x[PARALLEL_CHUNK_BYTES / 4 + 5] = 20;
    ckpt_file *b = open_numbers(x);
    ckpt_diff_event first;
    for (size_t i = 0; i < 4; i++) {
        ckpt_diff_options o = {.struct_size = sizeof o, .threads = threads[i]};
        memset(&event, 0, sizeof event);
        CU_ASSERT_EQUAL(ckpt_diff(a, b, &o, record_row_event, NULL, NULL, NULL), CKPT_OK);
        first = i ? first : event;
        CU_ASSERT(event.differing == 3 && event.max_abs == first.max_abs && event.max_rel == first.max_rel);
        CU_ASSERT_EQUAL(memcmp(&event.mean_abs, &first.mean_abs, sizeof event.mean_abs), 0);
    }
    CU_ASSERT(event.max_abs > 19.4 && event.max_abs < 20.6);
    flat_close();
    free(x);
}

/* The CRC-32 of the storage is computed from those of the chunks. */
static void checksums_of_chunks_are_combined(void)
{
    float *x = make_numbers();
    ckpt_file *f = open_numbers(x);
    struct storage *st = &f->table.storages[f->table.rows[0].t.storage];
    ckpt_stats s = CKPT_INIT(ckpt_stats);
    ckpt_error err;
    uint32_t row = 0;
    st->has_crc = true;
    unit_to_host_order(x, N, sizeof *x); /* to the byte order of the file */
    st->crc = crc32_update(0, x, (size_t)4 * N);
    for (size_t i = 0; i < 8; i++) {
        ckpt_work how = {.struct_size = sizeof how, .threads = threads[i % 4]};
        ckpt_diff_options o = {.struct_size = sizeof o, .threads = threads[i % 4]};
        ckpt_status want = i < 4 ? CKPT_OK : CKPT_ECHECKSUM;
        st->crc ^= i == 4;
        st->crc_checked = false;
        CU_ASSERT_EQUAL(ckpt_stat(f, &row, 1, &how, &s, &err), want);
        CU_ASSERT(st->crc_checked == (i < 4) && (i < 4 || strcmp(err.where, "w") == 0));
        st->crc_checked = false;
        CU_ASSERT_EQUAL(ckpt_diff(f, f, &o, NULL, NULL, NULL, &err), want);
        CU_ASSERT(st->crc_checked == (i < 4) && (i < 4 || strcmp(err.where, "w") == 0));
    }
    flat_close();
    free(x);
}

static int cancel_after_start(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    (void)total;
    return done > 0;
}

static void reading_can_be_cancelled(void)
{
    float *x = make_numbers();
    ckpt_file *f = open_numbers(x);
    ckpt_stats s = CKPT_INIT(ckpt_stats);
    uint32_t row = 0;
    for (size_t i = 0; i < 4; i++) {
        ckpt_work how = {.struct_size = sizeof how, .threads = threads[i], .progress = cancel_after_start};
        CU_ASSERT_EQUAL(ckpt_stat(f, &row, 1, &how, &s, NULL), CKPT_ECANCELLED);
    }
    flat_close();
    free(x);
}

void suite_parallel_rows(void)
{
    UNIT(statistics_do_not_depend_on_threads);
    UNIT(negated_rows_have_the_same_chunks);
    UNIT(differences_do_not_depend_on_threads);
    UNIT(checksums_of_chunks_are_combined);
    UNIT(reading_can_be_cancelled);
}
