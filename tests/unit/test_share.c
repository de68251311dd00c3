/* Operations that several processes share: whatever the number of parts, and in whatever order they were
 * read, the results are those of one process; hostile records are refused. tests/cli/hash/parts.sh and the
 * like test the commands. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/store.h"
#include "op/share.h"
#include "unit.h"

#define MAX_PARTS 64

static ckpt_error err;

static char damaged_path[32]; /* empty: not made yet */

/* The records of all parts. */
static struct {
    buf parts[MAX_PARTS], all;
    uint32_t reading; /* the part that is read */
    bool is_complete; /* all parts are there: nothing is to be read */
    char id[SHARE_ID_TEXT];
    unsigned ncalls;
} records;

static void clear_records(void)
{
    for (size_t i = 0; i < MAX_PARTS; i++)
        buf_free(&records.parts[i]);
    buf_free(&records.all);
    memset(&records, 0, sizeof records);
    for (size_t i = 0; i < MAX_PARTS; i++)
        buf_init(&records.parts[i], SIZE_MAX / 2);
    buf_init(&records.all, SIZE_MAX / 2);
}

static int keep_record(void *user, const char *id, const void *own, size_t own_bytes, const void **all,
                       size_t *all_bytes)
{
    CU_ASSERT(user == &records && strlen(id) == SHARE_ID_TEXT - 1);
    CU_ASSERT(!*records.id || strcmp(records.id, id) == 0);
    snprintf(records.id, sizeof records.id, "%s", id);
    records.ncalls++;
    if (records.is_complete) {
        *all = records.all.data;
        *all_bytes = records.all.len;
        return 0;
    }
    if (!own)
        return 0;
    buf_free(&records.parts[records.reading]);
    buf_put(&records.parts[records.reading], own, own_bytes);
    return 1;
}

static void end_test(void)
{
    clear_records();
    if (*damaged_path)
        CU_ASSERT_EQUAL(unlink(damaged_path), 0);
    *damaged_path = '\0';
}

/* join_records - puts the records of COUNT parts, from number FIRST on, one after the other. */
static void join_records(uint32_t first, uint32_t count)
{
    buf_free(&records.all);
    for (uint32_t i = 0; i < count; i++)
        buf_put_str(&records.all, buf_view(&records.parts[(first + i) % count]));
    records.is_complete = true;
}

/* ------------------------------------------------------------------ operations */

static ckpt_file *open_file(const char *name)
{
    ckpt_file *f = NULL;
    CU_ASSERT_EQUAL_FATAL(ckpt_open(unit_corpus_path(name), NULL, &f, &err), CKPT_OK);
    return f;
}

static ckpt_status run_digests(const ckpt_work *work, buf *out)
{
    ckpt_file *f = open_file("torch/t26/general_checkpoint.tar");
    size_t n = (size_t)ckpt_tensor_count(f) * CKPT_DIGEST_MAX;
    uint8_t *digests = malloc(n + 1);
    ckpt_status st = ckpt_digest_tensors(f, CKPT_XXH3, work, digests, &err);
    buf_put(out, digests, st == CKPT_OK ? n : 0);
    free(digests);
    ckpt_close(f);
    return st;
}

static ckpt_status run_stats(const ckpt_work *work, buf *out)
{
    ckpt_file *f = open_file("torch/t26/general_checkpoint.tar");
    uint32_t n = ckpt_tensor_count(f), *rows = calloc(n + 1, sizeof *rows);
    ckpt_stats *stats = calloc(n + 1, sizeof *stats);
    for (uint32_t i = 0; i < n; i++)
        rows[i] = n - 1 - i;
    stats->struct_size = sizeof *stats;
    ckpt_status st = ckpt_stat(f, rows, n, work, stats, &err);
    buf_put(out, stats, st == CKPT_OK ? n * sizeof *stats : 0);
    free(rows);
    free(stats);
    ckpt_close(f);
    return st;
}

static int put_event(void *user, const ckpt_diff_event *event)
{
    buf_printf(user, "%u %u %.*s %.*s %u %u %llu %.17g %.17g %.17g %.17g %.17g\n", event->what,
               event->within_tolerance, STR_ARG(event->name), STR_ARG(event->other), event->a, event->b,
               (unsigned long long)event->differing, event->max_abs, event->max_rel, event->mean_abs,
               event->rel_l2, event->cosine);
    return 0;
}

static ckpt_status run_diff(const ckpt_work *work, buf *out)
{
    ckpt_file *a = open_file("torch/t26/general_checkpoint.tar"),
              *b = open_file("torch/t26/general_loss_float.tar");
    const ckpt_diff_options o = {.struct_size = sizeof o, .norms = 1, .how = work};
    ckpt_status st = ckpt_diff(a, b, &o, put_event, out, NULL, &err);
    ckpt_close(a);
    ckpt_close(b);
    return st;
}

static int put_finding(void *user, const ckpt_finding *finding)
{
    char line[1400];
    buf_printf(user, "%s %s | %s | %llu %llu\n", finding->id,
               ckpt_error_text(finding->error, line, sizeof line), finding->error->hint,
               (unsigned long long)finding->nan, (unsigned long long)finding->inf);
    return 0;
}

/* make_damaged - makes a file at damaged_path in which bytes of two tensors have changed. */
static void make_damaged(void)
{
    FILE *in = fopen(unit_corpus_path("torch/t26/general_checkpoint.tar"), "rb");
    snprintf(damaged_path, sizeof damaged_path, "/tmp/ckpt-share-XXXXXX");
    int fd = mkstemp(damaged_path);
    CU_ASSERT_FATAL(in && fd >= 0);
    FILE *out = fdopen(fd, "wb");
    ckpt_file *f = open_file("torch/t26/general_checkpoint.tar");
    CU_ASSERT_EQUAL_FATAL(ckpt_file_locate(f, &err), CKPT_OK);
    ckpt_tensor t[2] = {CKPT_INIT(ckpt_tensor), CKPT_INIT(ckpt_tensor)};
    CU_ASSERT_FATAL(ckpt_tensor_at(f, 2, &t[0]) && ckpt_tensor_at(f, 5, &t[1]));
    for (uint64_t at = 0, c; (c = (uint64_t)fgetc(in)) != (uint64_t)EOF; at++)
        fputc((int)(at == t[0].file_offset || at == t[1].file_offset ? c ^ 0x55 : c), out);
    ckpt_close(f);
    fclose(in);
    fclose(out);
}

static ckpt_status run_verify(const ckpt_work *work, buf *out)
{
    if (!*damaged_path)
        make_damaged();
    const ckpt_verify_options o = {.struct_size = sizeof o, .finite = 1, .how = work};
    ckpt_verify_result r = CKPT_INIT(ckpt_verify_result);
    ckpt_status st = ckpt_verify(damaged_path, &o, put_finding, out, &r, &err);
    buf_printf(out, "%llu %llu %llu\n", (unsigned long long)r.findings, (unsigned long long)r.records,
               (unsigned long long)r.read);
    return st;
}

typedef ckpt_status operation(const ckpt_work *work, buf *out);
static operation *const operations[] = {run_digests, run_stats, run_diff, run_verify};
enum { OPERATIONS = sizeof operations / sizeof *operations };

/* run_part - runs OP for part PART of COUNT. */
static ckpt_status run_part(operation *op, uint32_t part, uint32_t count, buf *out)
{
    const ckpt_work work = {.struct_size = sizeof work,
                            .threads = 1,
                            .part = part,
                            .parts = count,
                            .exchange = keep_record,
                            .exchange_user = &records};
    records.reading = part;
    return op(&work, out);
}

/* run_parts - runs OP for all of COUNT parts, in another order than that of their numbers. */
static void run_parts(operation *op, uint32_t count)
{
    buf ignored;
    clear_records();
    buf_init(&ignored, SIZE_MAX / 2);
    for (uint32_t i = 0; i < count; i++)
        CU_ASSERT_EQUAL(run_part(op, i * 37 % count, count, &ignored), CKPT_ECANCELLED); /* 37 is prime */
    CU_ASSERT_EQUAL(records.ncalls, 2 * count);
    buf_free(&ignored);
}

/* ----------------------------------------------------------------------- tests */

static void results_are_those_of_one_process(void)
{
    static const uint32_t counts[] = {1, 2, 5, 64};
    buf expected, out;
    buf_init(&expected, SIZE_MAX / 2);
    buf_init(&out, SIZE_MAX / 2);
    for (size_t i = 0; i < OPERATIONS; i++) {
        CU_ASSERT_EQUAL(operations[i](NULL, &expected), CKPT_OK);
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            run_parts(operations[i], counts[k]);
            join_records(counts[k] / 2, counts[k]);
            CU_ASSERT_EQUAL(run_part(operations[i], 0, counts[k], &out), CKPT_OK);
            CU_ASSERT(expected.len > 100 && str_eq(buf_view(&expected), buf_view(&out)));
            buf_free(&out);
        }
        buf_free(&expected);
    }
    end_test();
}

/* take - runs operation OP of COUNT parts with the records in `records`. */
static ckpt_status take(operation *op, uint32_t count)
{
    buf out;
    buf_init(&out, SIZE_MAX / 2);
    ckpt_status st = run_part(op, 0, count, &out);
    buf_free(&out);
    return st;
}

static void parts_missing_or_twice_are_refused(void)
{
    for (size_t i = 0; i < OPERATIONS; i++) {
        run_parts(operations[i], 5);
        join_records(0, 4);
        CU_ASSERT_EQUAL(take(operations[i], 5), CKPT_EFORMAT);
        join_records(0, 5);
        buf_put_str(&records.all, buf_view(&records.parts[3]));
        CU_ASSERT_EQUAL(take(operations[i], 5), CKPT_EFORMAT);
        join_records(0, 5);
        CU_ASSERT_EQUAL(take(operations[i], 4), CKPT_EFORMAT);
        join_records(0, 5);
        CU_ASSERT_EQUAL(take(operations[i], 5), CKPT_OK);
    }
    end_test();
}

static void records_of_other_operations_are_refused(void)
{
    run_parts(run_digests, 1);
    join_records(0, 1);
    *records.id = '\0';
    CU_ASSERT_EQUAL(take(run_stats, 1), CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "plan"));
    end_test();
}

/* sign_again - makes the digest of the only record in `records` right, as an attacker would. */
static void sign_again(void)
{
    uint8_t digest[CKPT_DIGEST_MAX];
    CU_ASSERT_EQUAL(digest_xxh3(records.all.data, records.all.len - 16, digest, &err), CKPT_OK);
    memcpy(records.all.data + records.all.len - 16, digest, 16);
}

/* Any byte of a record is changed: with the old digest, that is refused; with a new one, it is refused or the
 * results are others, but nothing is read out of bounds. */
static void edited_records_are_refused(void)
{
    for (size_t i = 0; i < OPERATIONS; i++) {
        run_parts(operations[i], 1);
        join_records(0, 1);
        for (size_t at = 0; at < records.all.len; at += 1 + at / 64) {
            records.all.data[at] ^= 0x81;
            CU_ASSERT_EQUAL(take(operations[i], 1), CKPT_EFORMAT);
            sign_again();
            ckpt_status st = take(operations[i], 1);
            CU_ASSERT(st == CKPT_OK || st == CKPT_EFORMAT);
            records.all.data[at] ^= 0x81;
            sign_again();
        }
        for (size_t len = 0; len < records.all.len; len += 1 + len / 16) {
            size_t all = records.all.len;
            records.all.len = len;
            CU_ASSERT_EQUAL(take(operations[i], 1), CKPT_EFORMAT);
            records.all.len = all;
        }
    }
    end_test();
}

/* The fields of a record as share.h describes them: each is set to what cannot be. */
static void impossible_results_are_refused(void)
{
    enum { RESULTS = 64, INDEX = RESULTS + 8, LENGTH = RESULTS + 12, FIRST = RESULTS + 16 };
    static const struct {
        size_t at;
        uint64_t number;
    } edits[] = {{RESULTS, 0},        {RESULTS, UINT64_MAX}, {INDEX, 1},
                 {INDEX, UINT32_MAX}, {LENGTH, 0},           {LENGTH, UINT32_MAX}};
    run_parts(run_stats, 1);
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        join_records(0, 1);
        unsigned char *at = records.all.data + edits[i].at;
        if (edits[i].at == RESULTS)
            store_u64le(at, edits[i].number);
        else
            store_u32le(at, (uint32_t)edits[i].number);
        sign_again();
        CU_ASSERT_EQUAL(take(run_stats, 1), CKPT_EFORMAT);
    }
    join_records(0, 1);
    store_u64le(records.all.data + FIRST, UINT64_MAX); /* more finite numbers than there are */
    sign_again();
    CU_ASSERT_EQUAL(take(run_stats, 1), CKPT_EFORMAT);
    end_test();
}

static int set_nothing(void *user, const char *id, const void *own, size_t own_bytes, const void **all,
                       size_t *all_bytes)
{
    (void)user, (void)id, (void)own, (void)own_bytes, (void)all, (void)all_bytes;
    return 0;
}

static void wrong_work_is_refused(void)
{
    static const ckpt_work wrong[] = {
        {.struct_size = sizeof *wrong, .parts = 2},
        {.struct_size = sizeof *wrong, .part = 2, .parts = 2, .exchange = set_nothing},
        {.struct_size = sizeof *wrong, .parts = 65537, .exchange = set_nothing},
        {.struct_size = sizeof *wrong, .parts = 2, .exchange = set_nothing},
    };
    for (size_t i = 0; i < OPERATIONS; i++)
        for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
            buf out;
            buf_init(&out, SIZE_MAX / 2);
            CU_ASSERT_EQUAL(operations[i](&wrong[k], &out), CKPT_EUSAGE);
            buf_free(&out);
        }
    end_test();
}

void suite_share(void)
{
    UNIT(results_are_those_of_one_process);
    UNIT(parts_missing_or_twice_are_refused);
    UNIT(records_of_other_operations_are_refused);
    UNIT(edited_records_are_refused);
    UNIT(impossible_results_are_refused);
    UNIT(wrong_work_is_refused);
}
