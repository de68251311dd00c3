/* ckpt_open_with() reads the same tensors from a path, from memory and from callbacks, reports callbacks that
 * fail at any read, and can be cancelled at each call of progress. */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

#include "unit.h"

/* A file that is read by callbacks. */
struct callback_file {
    unsigned char *data;
    size_t size;
    size_t max_read;    /* number of bytes that a call returns at most; 0: no limit */
    uint64_t ncalls;    /* number of calls of read_at so far */
    uint64_t fail_at;   /* the call that fails, counted from 1; 0: none */
    int64_t failure;    /* result of that call; INT64_MAX: one more than the number of bytes requested */
    uint64_t failed_at; /* offset that was passed to that call */
    unsigned ncloses;   /* number of calls of close */
};

static bool load_callback_file(struct callback_file *b, const char *path)
{
    FILE *in = fopen(path, "rb");
    *b = (struct callback_file){0};
    if (!in || fseek(in, 0, SEEK_END) != 0)
        return false;
    b->size = (size_t)ftell(in);
    b->data = malloc(b->size + 1);
    rewind(in);
    bool is_complete = b->data && fread(b->data, 1, b->size, in) == b->size;
    fclose(in);
    return is_complete;
}

static int64_t read_bytes(void *user, uint64_t offset, void *buf, size_t n)
{
    struct callback_file *b = user;
    CU_ASSERT_FATAL(n > 0 && offset <= b->size && n <= b->size - offset);
    if (++b->ncalls == b->fail_at) {
        b->failed_at = offset;
        return b->failure == INT64_MAX ? (int64_t)n + 1 : b->failure;
    }
    if (b->max_read && n > b->max_read)
        n = b->max_read;
    memcpy(buf, b->data + offset, n);
    return (int64_t)n;
}

static void count_close(void *user) { ((struct callback_file *)user)->ncloses++; }

static ckpt_callbacks callbacks_of(struct callback_file *b)
{
    ckpt_callbacks callbacks = CKPT_INIT(ckpt_callbacks);
    callbacks.size = b->size;
    callbacks.read_at = read_bytes;
    callbacks.close = count_close;
    callbacks.user = b;
    return callbacks;
}

static ckpt_status digest_all(ckpt_file *f, uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err)
{
    uint8_t *tensor_digests = calloc((size_t)ckpt_tensor_count(f) + 1, CKPT_DIGEST_MAX);
    ckpt_work one_thread = {.struct_size = sizeof one_thread, .threads = 1};
    ckpt_status st = ckpt_digest_tensors(f, CKPT_XXH3, &one_thread, tensor_digests, err);
    if (st == CKPT_OK)
        st = ckpt_digest_file(f, CKPT_XXH3, tensor_digests, out, err);
    free(tensor_digests);
    return st;
}

/* open_and_digest - opens PATH with O and reads all tensors; returns the status, and the digest in OUT. */
static ckpt_status open_and_digest(const char *path, const ckpt_open_options *o, uint8_t out[CKPT_DIGEST_MAX],
                                   ckpt_error *err)
{
    ckpt_file *f = NULL;
    memset(out, 0, CKPT_DIGEST_MAX);
    ckpt_status st = ckpt_open_with(path, o, &f, err);
    if (st == CKPT_OK)
        st = digest_all(f, out, err);
    ckpt_close(f);
    return st;
}

/* ------------------------------------------------------------------ callbacks */

static unsigned tried_count,
    opened_count; /* numbers of corpus files that were tried, and that could be opened */

/* check_same_result - checks that PATH gives the same result by its name, from memory and by callbacks. */
static int check_same_result(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    struct callback_file b;
    uint8_t path_digest[CKPT_DIGEST_MAX], memory_digest[CKPT_DIGEST_MAX], callbacks_digest[CKPT_DIGEST_MAX];
    ckpt_error path_err, memory_err, callbacks_err;
    (void)walk;
    if (type != FTW_F || st->st_size > 100000 || !load_callback_file(&b, path))
        return 0;
    b.max_read = (size_t)(st->st_size % 3) * 100; /* no limit, 100 or 200 bytes, depending on the file */
    ckpt_callbacks callbacks = callbacks_of(&b);
    const ckpt_open_options from_memory = {.struct_size = sizeof from_memory, .data = b.data, .size = b.size},
                            from_callbacks = {.struct_size = sizeof from_callbacks, .callbacks = &callbacks};
    ckpt_status path_status = open_and_digest(path, NULL, path_digest, &path_err),
                memory_status = open_and_digest(path, &from_memory, memory_digest, &memory_err);
    ckpt_status callbacks_status = open_and_digest(path, &from_callbacks, callbacks_digest, &callbacks_err);
    bool same_text = path_status == CKPT_OK || strcmp(path_err.what, callbacks_err.what) == 0;
    if (path_status != callbacks_status || memory_status != callbacks_status || !same_text)
        fprintf(stderr, "%s gives %s by path, %s from memory, %s by callbacks\n", path,
                ckpt_status_name(path_status), ckpt_status_name(memory_status),
                ckpt_status_name(callbacks_status));
    CU_ASSERT_EQUAL(path_status, callbacks_status);
    tried_count++;
    opened_count += path_status == CKPT_OK;
    CU_ASSERT_EQUAL(path_status, memory_status);
    CU_ASSERT(path_status == CKPT_OK || (same_text && path_err.offset == callbacks_err.offset));
    CU_ASSERT(memcmp(path_digest, callbacks_digest, CKPT_DIGEST_MAX) == 0);
    CU_ASSERT(memcmp(path_digest, memory_digest, CKPT_DIGEST_MAX) == 0);
    free(b.data);
    return 0;
}

static void callbacks_give_the_same_result_as_a_path(void)
{
    CU_ASSERT_EQUAL(nftw(unit_corpus_path("torch"), check_same_result, 16, FTW_PHYS), 0);
    CU_ASSERT_EQUAL(nftw(unit_corpus_path("vectors"), check_same_result, 16, FTW_PHYS), 0);
    CU_ASSERT(opened_count > 300 && tried_count > opened_count);
}

static const char *const samples[] = {
    "torch/badexp/01_ok.pt",           "torch/legexp/a_plain.pt",
    "torch/legexp/t_tar.pt",           "torch/t215/export_bf16.pt2",
    "torch/t215/torch_package.pt",     "torch/t10/torchscript_trace.pt",
    "torch/t110/torchscript_trace.pt", "torch/t215/dist/dcp_hf_consolidated/model-00001-of-00002.safetensors",
};
#define NSAMPLES (sizeof samples / sizeof *samples)

/* convert - opens PATH with O, casts the tensors whose names have an "e", and writes all to OUT as FORMAT. */
static ckpt_status convert(const char *path, const ckpt_open_options *o, const char *out, const char *format)
{
    ckpt_file *f;
    ckpt_plan *p = NULL;
    const ckpt_write_options w = {.struct_size = sizeof w, .force = 1, .no_sync = 1, .format = format};
    CU_ASSERT_EQUAL_FATAL(ckpt_open_with(path, o, &f, NULL), CKPT_OK);
    ckpt_status st = ckpt_plan_new(f, &p, NULL);
    ckpt_close(f);
    if (st == CKPT_OK)
        st = ckpt_plan_cast(p, "*e*", CKPT_DT_BF16, NULL);
    if (st == CKPT_OK || st == CKPT_ENOTFOUND)
        st = ckpt_plan_write(p, out, &w, NULL, NULL);
    ckpt_plan_free(p);
    return st;
}

static void check_no_difference(const char *path, const ckpt_open_options *o)
{
    ckpt_file *a, *b;
    ckpt_diff_totals totals = CKPT_INIT(ckpt_diff_totals);
    CU_ASSERT_EQUAL_FATAL(ckpt_open(path, NULL, &a, NULL), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_open_with(path, o, &b, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_diff(a, b, NULL, NULL, NULL, &totals, NULL), CKPT_OK);
    CU_ASSERT(totals.same == ckpt_tensor_count(a) && totals.changed + totals.only_a + totals.only_b == 0);
    ckpt_close(a);
    ckpt_close(b);
}

static void callbacks_are_compared_and_written(void)
{
    static const char *const formats[] = {"torch-zip", "safetensors"};
    for (size_t i = 0; i < NSAMPLES; i++) {
        struct callback_file b, path_output = {0}, callbacks_output = {0};
        const char *path = unit_corpus_path(samples[i]), *out[2] = {"/tmp/unit-open-a", "/tmp/unit-open-b"};
        CU_ASSERT_FATAL(load_callback_file(&b, path));
        ckpt_callbacks callbacks = callbacks_of(&b);
        const ckpt_open_options o = {.struct_size = sizeof o, .callbacks = &callbacks};
        check_no_difference(path, &o);
        for (int k = 0; k < 2; k++) {
            ckpt_status st = convert(path, NULL, out[0], formats[k]);
            CU_ASSERT_EQUAL(convert(path, &o, out[1], formats[k]), st);
            if (st == CKPT_OK && load_callback_file(&path_output, out[0]) &&
                load_callback_file(&callbacks_output, out[1]))
                CU_ASSERT(path_output.size == callbacks_output.size &&
                          memcmp(path_output.data, callbacks_output.data, path_output.size) == 0);
            free(path_output.data);
            free(callbacks_output.data);
            path_output.data = callbacks_output.data = NULL;
            remove(out[0]);
            remove(out[1]);
        }
        free(b.data);
    }
}

/* check_failures - reads PATH by callbacks and counts the calls of read_at. Then reads PATH once for each of
 * these calls, and lets that call return FAILURE. This must give CKPT_EIO or the same tensors, unless SALVAGE
 * opens what can be read. */
static void check_failures(const char *path, int64_t failure, bool salvage)
{
    struct callback_file b;
    uint8_t expected[CKPT_DIGEST_MAX], got[CKPT_DIGEST_MAX];
    ckpt_error err;
    CU_ASSERT_FATAL(load_callback_file(&b, path));
    ckpt_callbacks callbacks = callbacks_of(&b);
    const ckpt_open_options o = {.struct_size = sizeof o, .callbacks = &callbacks, .salvage = salvage};
    b.failure = failure;
    CU_ASSERT_EQUAL(open_and_digest("callbacks", &o, expected, &err), CKPT_OK);
    CU_ASSERT_EQUAL(b.ncloses, 1);
    for (uint64_t ncalls = b.ncalls, i = 1; i <= ncalls; i++) {
        b.ncalls = b.ncloses = 0;
        b.fail_at = i;
        ckpt_status st = open_and_digest("callbacks", &o, got, &err);
        if (!salvage && st != CKPT_EIO && (st != CKPT_OK || memcmp(expected, got, sizeof got) != 0))
            fprintf(stderr, "%s, call %llu: %s\n", path, (unsigned long long)i, err.what);
        if (st == CKPT_EIO) {
            CU_ASSERT(err.offset >= b.failed_at && err.offset < b.size);
            CU_ASSERT_STRING_EQUAL(err.file, "callbacks");
            bool is_errno = failure < 0 && failure >= -4095;
            CU_ASSERT(!is_errno || err.sys_errno == -failure);
        } else if (!salvage) {
            CU_ASSERT_EQUAL(st, CKPT_OK);
            CU_ASSERT(memcmp(expected, got, sizeof got) == 0);
        }
        CU_ASSERT(b.ncloses == 1 || (b.ncloses == 0 && st != CKPT_OK));
    }
    free(b.data);
}

static void each_failing_read_is_reported(void)
{
    static const int64_t failures[] = {-ENETDOWN, -ENOENT, -ENOMEM, 0, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < NSAMPLES; i++)
        for (size_t k = 0; k < sizeof failures / sizeof *failures; k++) {
            check_failures(unit_corpus_path(samples[i]), failures[k], false);
            if (k == 0)
                check_failures(unit_corpus_path(samples[i]), failures[k], true);
        }
}

static void callbacks_are_closed_with_the_last_plan(void)
{
    struct callback_file b;
    ckpt_file *f;
    ckpt_plan *p;
    CU_ASSERT_FATAL(load_callback_file(&b, unit_corpus_path(samples[0])));
    ckpt_callbacks callbacks = callbacks_of(&b);
    CU_ASSERT_EQUAL_FATAL(ckpt_open_callbacks(&callbacks, "callbacks", NULL, &f, NULL), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &p, NULL), CKPT_OK);
    memset(&callbacks, 0, sizeof callbacks); /* the file keeps a copy of the struct */
    ckpt_close(f);
    CU_ASSERT_EQUAL(b.ncloses, 0);
    ckpt_plan_free(p);
    CU_ASSERT_EQUAL(b.ncloses, 1);
    callbacks = callbacks_of(&b);
    callbacks.close = NULL; /* which is allowed */
    callbacks.serialize = 1;
    CU_ASSERT_EQUAL_FATAL(ckpt_open_callbacks(&callbacks, "callbacks", NULL, &f, NULL), CKPT_OK);
    ckpt_close(f);
    b.ncloses = 0; /* close is not called if opening fails */
    callbacks = callbacks_of(&b);
    callbacks.size = 3; /* too short for any format */
    b.size = 3;
    CU_ASSERT_NOT_EQUAL(ckpt_open_callbacks(&callbacks, "callbacks", NULL, &f, NULL), CKPT_OK);
    CU_ASSERT(b.ncloses == 0 && f == NULL);
    free(b.data);
}

/* --------------------------------------------------------------------- scanning */

static struct callback_file *scanned_file;

/* check_unread - is called when the file is open: nothing was read of it. */
static int check_unread(void *user)
{
    (void)user;
    CU_ASSERT_EQUAL(scanned_file->ncalls, 0);
    return 0;
}

/* check_scan - checks that PATH gives the same result by its name and by callbacks, which are not closed;
 * and that the scan fails, with CKPT_EIO, whichever read does. */
static void check_scan(const char *path)
{
    struct callback_file b;
    ckpt_error err;
    ckpt_scan_result by_path = CKPT_INIT(ckpt_scan_result), result = by_path;
    ckpt_scan_options o = {.struct_size = sizeof o, .sha256 = 1};
    CU_ASSERT_FATAL(load_callback_file(&b, path));
    CU_ASSERT_EQUAL(ckpt_scan(path, &o, NULL, NULL, &by_path, &err), CKPT_OK);
    ckpt_callbacks callbacks = callbacks_of(&b);
    o.callbacks = &callbacks;
    o.opened = check_unread;
    scanned_file = &b;
    CU_ASSERT_EQUAL(ckpt_scan(path, &o, NULL, NULL, &result, &err), CKPT_OK);
    CU_ASSERT(memcmp(&by_path, &result, sizeof result) == 0);
    b.failure = -ENETDOWN;
    for (uint64_t ncalls = b.ncalls, i = 1; i <= ncalls; i++) {
        b.ncalls = 0;
        b.fail_at = i;
        ckpt_status st = ckpt_scan("name", &o, NULL, NULL, &result, &err);
        if (st != CKPT_EIO)
            fprintf(stderr, "%s, call %llu: %s\n", path, (unsigned long long)i, ckpt_status_name(st));
        CU_ASSERT_EQUAL(st, CKPT_EIO);
        CU_ASSERT(strncmp(err.file, "name", 4) == 0); /* or "name!MEMBER" */
    }
    CU_ASSERT_EQUAL(b.ncloses, 0);
    free(b.data);
}

static void scans_read_by_callbacks(void)
{
    static const char *const more[] = {"containers/macos.zip", "compressed/tiny.safetensors.bz2",
                                       "keras/hdf5/array_pages.h5", "gguf/align128.gguf"};
    for (size_t i = 0; i < NSAMPLES; i++)
        check_scan(unit_corpus_path(samples[i]));
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        check_scan(unit_corpus_path(more[i]));
}

/* What a .metadata lists is next to it, where nothing is looked for: so not all was scanned. */
static void scans_of_callbacks_need_what_is_next_to_them(void)
{
    struct callback_file b;
    ckpt_scan_result result = CKPT_INIT(ckpt_scan_result);
    const char *path = unit_corpus_path("torch/t215/dist/dcp_multi/.metadata");
    CU_ASSERT_FATAL(load_callback_file(&b, path));
    CU_ASSERT_EQUAL(ckpt_scan(path, NULL, NULL, NULL, &result, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(result.found[CKPT_SCAN_INCOMPLETE], 0);
    ckpt_callbacks callbacks = callbacks_of(&b);
    const ckpt_scan_options o = {.struct_size = sizeof o, .callbacks = &callbacks};
    CU_ASSERT_EQUAL(ckpt_scan(path, &o, NULL, NULL, &result, NULL), CKPT_OK);
    CU_ASSERT(result.found[CKPT_SCAN_INCOMPLETE] > 0);
    free(b.data);
}

/* ------------------------------------------------------- progress and cancelling */

struct watcher {
    uint64_t ncalls;      /* number of calls of progress so far */
    uint64_t stop_at;     /* the call that cancels, counted from 1; 0: none */
    uint64_t done, total; /* arguments of the last call */
};

static int watch_progress(void *user, uint64_t done, uint64_t total)
{
    struct watcher *w = user;
    CU_ASSERT(done >= w->done && total >= w->total && done <= total);
    w->done = done;
    w->total = total;
    return ++w->ncalls == w->stop_at;
}

/* check_cancelling - opens PATH with O, whose progress function gets W as its argument, and counts the calls
 * of that function. Then opens PATH once for each of these calls, and lets that call cancel. */
static void check_cancelling(const char *path, const ckpt_open_options *o, struct watcher *w)
{
    ckpt_file *f = NULL;
    ckpt_error err;
    *w = (struct watcher){0};
    CU_ASSERT_EQUAL_FATAL(ckpt_open_with(path, o, &f, &err), CKPT_OK);
    ckpt_close(f);
    CU_ASSERT(w->ncalls > 0 && w->done > 0);
    for (uint64_t ncalls = w->ncalls, i = 1; i <= ncalls; i++) {
        *w = (struct watcher){.stop_at = i};
        ckpt_status st = ckpt_open_with(path, o, &f, &err);
        CU_ASSERT_EQUAL(st, CKPT_ECANCELLED);
        CU_ASSERT_EQUAL(w->ncalls, i); /* progress is not called again after it cancelled */
        CU_ASSERT(st != CKPT_ECANCELLED || f == NULL);
        CU_ASSERT(err.status == CKPT_ECANCELLED && strcmp(err.what, "stopped on request") == 0);
        if (st == CKPT_OK)
            ckpt_close(f);
    }
}

static void opening_can_be_cancelled(void)
{
    for (size_t i = 0; i < NSAMPLES; i++) {
        struct callback_file b;
        struct watcher w;
        const char *path = unit_corpus_path(samples[i]);
        CU_ASSERT_FATAL(load_callback_file(&b, path));
        ckpt_callbacks callbacks = callbacks_of(&b);
        for (unsigned turn = 0; turn < 6;
             turn++) { /* by path, from memory, by callbacks; each without and with salvage */
            ckpt_open_options o = {
                .struct_size = sizeof o, .salvage = turn & 1, .progress = watch_progress, .user = &w};
            if (turn / 2 == 1) {
                o.data = b.data;
                o.size = b.size;
            } else if (turn / 2 == 2) {
                o.callbacks = &callbacks;
            }
            check_cancelling(path, &o, &w);
        }
        free(b.data);
    }
}

static int keep_first_total(void *user, uint64_t done, uint64_t total)
{
    struct watcher *w = user;
    (void)done;
    w->total = w->ncalls++ ? w->total : total;
    return 0;
}

static void salvage_reports_all_bytes_as_the_first_total(void)
{
    for (size_t i = 0; i < NSAMPLES; i++) {
        struct watcher w = {0};
        ckpt_file *f;
        const ckpt_open_options o = {
            .struct_size = sizeof o, .salvage = 1, .progress = keep_first_total, .user = &w};
        CU_ASSERT_EQUAL_FATAL(ckpt_open_with(unit_corpus_path(samples[i]), &o, &f, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(w.total, ckpt_file_bytes(f));
        ckpt_close(f);
    }
}

static void opening_a_set_of_shards_can_be_cancelled(void)
{
    struct watcher w;
    const ckpt_open_options o = {.struct_size = sizeof o, .progress = watch_progress, .user = &w},
                            salvage = {.struct_size = sizeof o,
                                       .salvage = 1,
                                       .progress = watch_progress,
                                       .user = &w};
    const char *index = unit_corpus_path("torch/t215/eco/hf_gpt2_sharded/model.safetensors.index.json");
    check_cancelling(index, &o, &w);
    check_cancelling(index, &salvage, &w);
    check_cancelling(unit_corpus_path("torch/t215/eco/hub_bin_sharded"), &o, &w);
}

/* What watches the opening of an archive is gone when its tensors are read. */
static void reading_a_member_later_reports_nothing(void)
{
    static const char *const archives[] = {"containers/shards.zip", "containers/stored.zip"};
    for (size_t i = 0; i < sizeof archives / sizeof *archives; i++) {
        struct watcher w = {0};
        unsigned char first[16];
        ckpt_file *f;
        const ckpt_open_options o = {.struct_size = sizeof o, .progress = watch_progress, .user = &w};
        CU_ASSERT_EQUAL_FATAL(ckpt_open_with(unit_corpus_path(archives[i]), &o, &f, NULL), CKPT_OK);
        uint64_t ncalls = w.ncalls;
        for (uint32_t row = 0; row < ckpt_tensor_count(f); row++)
            CU_ASSERT_EQUAL(ckpt_tensor_read(f, row, 0, 1, first, NULL), CKPT_OK);
        CU_ASSERT(ncalls && w.ncalls == ncalls);
        ckpt_close(f);
    }
}

/* --------------------------------------------------------------------- options */

static void options_are_applied_or_refused(void)
{
    static const char list[] = "a.weight\nb.bias\n";
    ckpt_file *f;
    struct callback_file b = {.data = (unsigned char *)(uintptr_t)list, .size = sizeof list - 1};
    ckpt_callbacks callbacks = callbacks_of(&b);
    ckpt_open_options o = {.struct_size = sizeof o, .names = 1, .data = list, .size = sizeof list - 1};
    CU_ASSERT_EQUAL_FATAL(ckpt_open_with("list", &o, &f, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_tensor_count(f), 2);
    ckpt_close(f);
    o.callbacks = &callbacks;
    CU_ASSERT_EQUAL(ckpt_open_with("list", &o, &f, NULL), CKPT_EUSAGE); /* both data and callbacks */
    o.data = NULL;
    CU_ASSERT_EQUAL_FATAL(ckpt_open_with("list", &o, &f, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_tensor_count(f), 2);
    ckpt_close(f);
    CU_ASSERT_EQUAL(b.ncloses, 1);
    o.salvage = 1;
    CU_ASSERT_EQUAL(ckpt_open_with("list", &o, &f, NULL), CKPT_EUSAGE); /* both names and salvage */
    o.salvage = 0;
    callbacks.read_at = NULL;
    CU_ASSERT_EQUAL(ckpt_open_with("list", &o, &f, NULL), CKPT_EUSAGE);
    callbacks.struct_size = 0;
    CU_ASSERT_EQUAL(ckpt_open_with("list", &o, &f, NULL), CKPT_EUSAGE);
}

void suite_open(void)
{
    UNIT(callbacks_give_the_same_result_as_a_path);
    UNIT(callbacks_are_compared_and_written);
    UNIT(each_failing_read_is_reported);
    UNIT(callbacks_are_closed_with_the_last_plan);
    UNIT(scans_read_by_callbacks);
    UNIT(scans_of_callbacks_need_what_is_next_to_them);
    UNIT(opening_can_be_cancelled);
    UNIT(salvage_reports_all_bytes_as_the_first_total);
    UNIT(opening_a_set_of_shards_can_be_cancelled);
    UNIT(reading_a_member_later_reports_nothing);
    UNIT(options_are_applied_or_refused);
}
