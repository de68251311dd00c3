/* Large tensors are read in chunks: the results do not depend on the number of threads, and cover all values
 * of every chunk. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/crc32.h"
#include "core/parallel_rows.h"
#include "small_files.h"
#include "unit.h"

#define CHUNK_FLOATS (PARALLEL_CHUNK_BYTES / 4)
#define FLOATS       (CHUNK_FLOATS + 70001u) /* floats of a full chunk and a part of another */

static const unsigned thread_counts[] = {1, 2, 4, 7};

/* make_numbers - returns numbers of both signs, which the caller frees. The largest and the smallest number
 * are next to the border of the chunks, and the last is NaN. */
static float *make_numbers(void)
{
    float *numbers = malloc((size_t)FLOATS * sizeof *numbers);
    for (uint32_t i = 0; i < FLOATS; i++)
        numbers[i] = (float)(i * 2654435761u >> 8) * 0x1p-24f - 0.5f;
    numbers[CHUNK_FLOATS - 1] = 7;
    numbers[CHUNK_FLOATS] = -9;
    numbers[FLOATS - 1] = (float)NAN;
    return numbers;
}

static ckpt_file *open_numbers(const float *numbers)
{
    return open_one_tensor("w", "F32", FLOATS, numbers, (size_t)4 * FLOATS);
}

static void statistics_do_not_depend_on_threads(void)
{
    float *numbers = make_numbers();
    ckpt_file *f = open_numbers(numbers);
    ckpt_stats of_one_thread = CKPT_INIT(ckpt_stats), s = CKPT_INIT(ckpt_stats);
    long double sum = 0;
    uint32_t row = 0;
    for (uint32_t i = 0; i + 1 < FLOATS; i++)
        sum += (long double)numbers[i];
    for (size_t i = 0; i < 4; i++) {
        ckpt_work how = {.struct_size = sizeof how, .threads = thread_counts[i]};
        memset(&s, 0, sizeof s);
        s.struct_size = sizeof s;
        CU_ASSERT_EQUAL(ckpt_stat(f, &row, 1, &how, &s, NULL), CKPT_OK);
        of_one_thread = i ? of_one_thread : s;
        CU_ASSERT_EQUAL(memcmp(&s, &of_one_thread, sizeof s), 0);
    }
    CU_ASSERT(s.nan == 1 && s.inf == 0 && s.finite == FLOATS - 1 && s.min == -9 && s.max == 7);
    CU_ASSERT(fabsl((long double)s.mean * (FLOATS - 1) - sum) < 1e-4L);
    CU_ASSERT(s.sampled >= 4000 && s.sampled <= 4096);
    close_open_files();
    free(numbers);
}

/* A negated tensor is split into the same chunks, so its mean is negated without a rounding error. */
static void negated_rows_have_the_same_chunks(void)
{
    float *numbers = make_numbers();
    ckpt_file *f = open_numbers(numbers);
    ckpt_stats before = CKPT_INIT(ckpt_stats), negated = CKPT_INIT(ckpt_stats);
    uint32_t row = 0;
    CU_ASSERT_EQUAL(ckpt_stat(f, &row, 1, NULL, &before, NULL), CKPT_OK);
    struct row r = table_row(&f->table, 0);
    r.t.neg = true;
    CU_ASSERT_FATAL(table_replace_row(&f->table, 0, &r));
    CU_ASSERT_EQUAL(ckpt_stat(f, &row, 1, NULL, &negated, NULL), CKPT_OK);
    CU_ASSERT(negated.mean == -before.mean && negated.std == before.std && negated.norm == before.norm &&
              negated.max == 9);
    close_open_files();
    free(numbers);
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
    float *numbers = make_numbers();
    ckpt_file *a = open_numbers(numbers);
    numbers[3] = numbers[3] + 1;
    numbers[CHUNK_FLOATS - 1] = 8;
    numbers[CHUNK_FLOATS + 5] = 20;
    ckpt_file *b = open_numbers(numbers);
    ckpt_diff_event of_one_thread;
    for (size_t i = 0; i < 4; i++) {
        ckpt_diff_options o = {.struct_size = sizeof o, .threads = thread_counts[i]};
        memset(&event, 0, sizeof event);
        CU_ASSERT_EQUAL(ckpt_diff(a, b, &o, record_row_event, NULL, NULL, NULL), CKPT_OK);
        of_one_thread = i ? of_one_thread : event;
        CU_ASSERT(event.differing == 3 && event.max_abs == of_one_thread.max_abs &&
                  event.max_rel == of_one_thread.max_rel);
        CU_ASSERT_EQUAL(memcmp(&event.mean_abs, &of_one_thread.mean_abs, sizeof event.mean_abs), 0);
    }
    CU_ASSERT(event.max_abs > 19.4 && event.max_abs < 20.6);
    close_open_files();
    free(numbers);
}

/* The CRC-32 of the storage is computed from the CRC-32s of the chunks. */
static void checksums_of_chunks_are_combined(void)
{
    float *numbers = make_numbers();
    ckpt_file *f = open_numbers(numbers);
    struct storage *storage = &f->table.storages[table_storage_of(&f->table, 0)];
    ckpt_stats s = CKPT_INIT(ckpt_stats);
    ckpt_error err;
    uint32_t row = 0;
    storage->has_crc = true;
    unit_to_host_order(numbers, FLOATS, sizeof *numbers); /* to the byte order of the file */
    storage->crc = crc32_update(0, numbers, (size_t)4 * FLOATS);
    for (size_t i = 0; i < 8; i++) { /* four times with the right checksum, four times with a wrong one */
        bool is_wrong = i >= 4;
        ckpt_work how = {.struct_size = sizeof how, .threads = thread_counts[i % 4]};
        ckpt_diff_options o = {.struct_size = sizeof o, .threads = thread_counts[i % 4]};
        ckpt_status want = is_wrong ? CKPT_ECHECKSUM : CKPT_OK;
        if (i == 4)
            storage->crc ^= 1;
        storage->crc_checked = false;
        CU_ASSERT_EQUAL(ckpt_stat(f, &row, 1, &how, &s, &err), want);
        CU_ASSERT_EQUAL(storage->crc_checked, !is_wrong);
        CU_ASSERT(!is_wrong || strcmp(err.where, "w") == 0);
        storage->crc_checked = false;
        CU_ASSERT_EQUAL(ckpt_diff(f, f, &o, NULL, NULL, NULL, &err), want);
        CU_ASSERT_EQUAL(storage->crc_checked, !is_wrong);
        CU_ASSERT(!is_wrong || strcmp(err.where, "w") == 0);
    }
    close_open_files();
    free(numbers);
}

static int cancel_after_start(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    (void)total;
    return done > 0;
}

static void reading_can_be_cancelled(void)
{
    float *numbers = make_numbers();
    ckpt_file *f = open_numbers(numbers);
    ckpt_stats s = CKPT_INIT(ckpt_stats);
    uint32_t row = 0;
    for (size_t i = 0; i < 4; i++) {
        ckpt_work how = {
            .struct_size = sizeof how, .threads = thread_counts[i], .progress = cancel_after_start};
        CU_ASSERT_EQUAL(ckpt_stat(f, &row, 1, &how, &s, NULL), CKPT_ECANCELLED);
    }
    close_open_files();
    free(numbers);
}

void suite_parallel_rows(void)
{
    UNIT(statistics_do_not_depend_on_threads);
    UNIT(negated_rows_have_the_same_chunks);
    UNIT(differences_do_not_depend_on_threads);
    UNIT(checksums_of_chunks_are_combined);
    UNIT(reading_can_be_cancelled);
}
