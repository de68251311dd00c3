/* tsan.c - reads one file in several threads at once through every function of ckpt.h that permits it, and
 * compares with what a single thread read before. Built with -fsanitize=thread, which reports data races. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tensor.h"

#define NTHREADS 4u
#define ROWS_MAX 64u /* tensors read of each file */

/* What a single thread read. */
struct expected {
    uint32_t nrows;
    uint8_t digest[ROWS_MAX][CKPT_DIGEST_MAX];
    ckpt_status status[ROWS_MAX];              /* of ckpt_digest_tensor() */
    ckpt_status last_element_status[ROWS_MAX]; /* of reading the last element */
    ckpt_stats stats[ROWS_MAX];
    size_t nnotices;
};

struct shared {
    const char *path;
    ckpt_file *f;
    struct expected expected;
    atomic_uint differences;
    pthread_barrier_t begin;
};

struct reader {
    struct shared *s;
    unsigned number; /* of the thread, from 0 */
};

/* check - unless OK, reports that WHAT of tensor ROW differs from what a single thread read. */
static void check(struct shared *s, bool ok, const char *what, uint32_t row)
{
    if (ok)
        return;
    atomic_fetch_add(&s->differences, 1);
    fprintf(stderr, "%s: tensor %" PRIu32 ": %s differs\n", s->path, row, what);
}

static int count_bytes(void *user, const void *bytes, size_t n)
{
    (void)bytes;
    *(uint64_t *)user += n;
    return 0;
}

/* ------------------------------------------------------------ what each thread does */

static void read_row(struct shared *s, uint32_t row)
{
    const ckpt_tensor t = tensor_at(s->f, row);
    unsigned char element[64];
    uint8_t digest[CKPT_DIGEST_MAX];
    uint64_t nread = 0;
    ckpt_status st = ckpt_digest_tensor(s->f, row, CKPT_XXH3, digest, NULL);
    check(s, st == s->expected.status[row], "the status", row);
    check(s, st != CKPT_OK || memcmp(digest, s->expected.digest[row], 16) == 0, "the digest", row);
    st = ckpt_tensor_stream(s->f, row, count_bytes, &nread, NULL);
    check(s, (st == CKPT_OK) == (s->expected.status[row] == CKPT_OK), "the status of its stream", row);
    check(s, st != CKPT_OK || nread == t.nbytes, "the size of its stream", row);
    if (t.has_data && t.elements) {
        st = ckpt_tensor_read(s->f, row, t.elements - 1, 1, element, NULL);
        check(s, st == s->expected.last_element_status[row], "the status of its last element", row);
    }
    const void *borrowed;
    ckpt_str name;
    size_t n;
    if (ckpt_tensor_borrow(s->f, row, &borrowed, &n, NULL) == CKPT_OK)
        check(s, n == t.nbytes, "the size of the borrowed bytes", row);
    check(s, ckpt_tensor_find(s->f, t.name) <= row, "the name", row);
    check(s, ckpt_tensor_name(s->f, row).len == t.name.len, "the length of the name", row);
    check(s, ckpt_tensor_names(s->f, row, 1, &name) == 1 && name.ptr == t.name.ptr, "the name of a range",
          row);
    (void)storage_at(s->f, t.storage);
}

/* check_statistics - compares the statistics of all rows, computed by THREADS threads. */
static void check_statistics(struct shared *s, unsigned threads)
{
    uint32_t rows[ROWS_MAX];
    ckpt_stats stats[ROWS_MAX];
    ckpt_work work = {.struct_size = sizeof work, .threads = threads};
    for (uint32_t i = 0; i < s->expected.nrows; i++)
        rows[i] = i;
    stats[0].struct_size = sizeof *stats;
    if (s->expected.nrows && ckpt_stat(s->f, rows, s->expected.nrows, &work, stats, NULL) == CKPT_OK)
        for (uint32_t i = 0; i < s->expected.nrows; i++)
            check(s,
                  stats[i].numeric == s->expected.stats[i].numeric &&
                      stats[i].finite == s->expected.stats[i].finite,
                  "the statistics", i);
}

static void read_values(const ckpt_file *f)
{
    char text[256], *json;
    size_t n;
    if (ckpt_table_json(f, NULL, &json, &n, NULL) == CKPT_OK)
        ckpt_free(json);
    for (size_t i = 0; i < 100 && ckpt_leaf_at(f, i); i++)
        (void)ckpt_value_text(ckpt_leaf_at(f, i)->value, 10, text, sizeof text);
    for (size_t i = 0; ckpt_notice_at(f, i); i++)
        (void)strlen(ckpt_notice_at(f, i));
}

static void *run_reader(void *user)
{
    const struct reader *r = user;
    struct shared *s = r->s;
    uint32_t n = s->expected.nrows;
    (void)pthread_barrier_wait(&s->begin);
    if (r->number == 0)
        check_statistics(s, 2);
    for (uint32_t i = 0; i < n; i++) { /* threads with even numbers begin with different rows */
        bool reverse = r->number % 2 == 1;
        read_row(s, reverse ? n - 1 - i : (i + r->number) % n);
    }
    read_values(s->f);
    if (r->number == 1)
        check_statistics(s, 1);
    return NULL;
}

/* ------------------------------------------------------------------------------ files */

/* How a file is read: by its path, or by callbacks. */
struct callback_file {
    FILE *stream;                     /* what the callbacks read; NULL: the file is read by its path */
    bool serialize;                   /* ckpt_callbacks.serialize: one callback at a time */
    atomic_uint ninside, ninside_max; /* threads in a callback: now, and at most */
};

static int64_t read_callback(void *user, uint64_t offset, void *buf, size_t n)
{
    struct callback_file *b = user;
    unsigned ninside = atomic_fetch_add(&b->ninside, 1) + 1;
    unsigned max = atomic_load(&b->ninside_max);
    while (ninside > max && !atomic_compare_exchange_weak(&b->ninside_max, &max, ninside))
        ;
    int64_t got = (int64_t)pread(fileno(b->stream), buf, n, (off_t)offset);
    atomic_fetch_sub(&b->ninside, 1);
    return got;
}

/* open_file - opens PATH; if B has a stream, by callbacks that read it. */
static ckpt_file *open_file(const char *path, struct callback_file *b)
{
    ckpt_file *f;
    ckpt_error err;
    char line[1024];
    ckpt_callbacks callbacks = CKPT_INIT(ckpt_callbacks);
    ckpt_open_options opts = CKPT_INIT(ckpt_open_options);
    if (b->stream && fseek(b->stream, 0, SEEK_END) == 0) {
        callbacks.size = (uint64_t)ftell(b->stream);
        callbacks.read_at = read_callback;
        callbacks.user = b;
        callbacks.serialize = b->serialize;
        opts.callbacks = &callbacks;
    }
    if (ckpt_open_with(path, &opts, &f, &err) != CKPT_OK) {
        fprintf(stderr, "%s\n", ckpt_error_text(&err, line, sizeof line));
        return NULL;
    }
    ckpt_file_ignore_crc(f, true); /* a wrong CRC gives a notice instead of an error */
    return f;
}

/* read_alone - reads the file in one thread into S->expected. Opens the file and closes it again, because a
 * ckpt_file caches what was read: the threads must begin with an empty cache. */
static bool read_alone(struct shared *s)
{
    struct callback_file no_callbacks = {0};
    unsigned char element[64];
    ckpt_work one_thread = {.struct_size = sizeof one_thread, .threads = 1};
    ckpt_file *f = open_file(s->path, &no_callbacks);
    if (!f)
        return false;
    s->expected.nrows = ckpt_tensor_count(f) < ROWS_MAX ? ckpt_tensor_count(f) : ROWS_MAX;
    s->expected.stats[0].struct_size = sizeof(ckpt_stats);
    for (uint32_t i = 0; i < s->expected.nrows; i++) {
        s->expected.status[i] = ckpt_digest_tensor(f, i, CKPT_XXH3, s->expected.digest[i], NULL);
        s->expected.stats[i].struct_size = sizeof(ckpt_stats);
        if (ckpt_stat(f, &i, 1, &one_thread, &s->expected.stats[i], NULL) != CKPT_OK)
            s->expected.stats[i].numeric = 0;
        const ckpt_tensor t = tensor_at(f, i);
        s->expected.last_element_status[i] = t.has_data && t.elements
                                                 ? ckpt_tensor_read(f, i, t.elements - 1, 1, element, NULL)
                                                 : CKPT_OK;
    }
    while (ckpt_notice_at(f, s->expected.nnotices))
        s->expected.nnotices++;
    ckpt_close(f);
    return true;
}

/* read_together - reads the open file in NTHREADS threads at the same time. */
static void read_together(struct shared *s)
{
    pthread_t ids[NTHREADS];
    struct reader readers[NTHREADS];
    unsigned started = 0;
    size_t nnotices = 0;
    if (pthread_barrier_init(&s->begin, NULL, NTHREADS) != 0)
        exit(2);
    for (; started < NTHREADS; started++) {
        readers[started] = (struct reader){s, started};
        if (pthread_create(&ids[started], NULL, run_reader, &readers[started]) != 0)
            exit(2);
    }
    for (unsigned i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    while (ckpt_notice_at(s->f, nnotices))
        nnotices++;
    check(s, nnotices == s->expected.nnotices, "the number of notices", 0);
    pthread_barrier_destroy(&s->begin);
}

/* check_file - reads PATH in several threads: by its path, by concurrent callbacks and by serialized ones.
 * Returns whether all results were equal. */
static bool check_file(const char *path)
{
    enum { BY_PATH, BY_CALLBACKS, BY_SERIALIZED_CALLBACKS };
    struct shared s = {.path = path};
    if (!read_alone(&s))
        return false;
    for (int way = BY_PATH; way <= BY_SERIALIZED_CALLBACKS; way++) {
        struct callback_file b = {.stream = way == BY_PATH ? NULL : fopen(path, "rb"),
                                  .serialize = way == BY_SERIALIZED_CALLBACKS};
        if ((s.f = open_file(path, &b)) == NULL)
            return false;
        read_together(&s);
        check(&s, !b.serialize || b.ninside_max <= 1, "the number of callbacks at a time", 0);
        ckpt_close(s.f);
        if (b.stream)
            fclose(b.stream);
    }
    return atomic_load(&s.differences) == 0;
}

int main(int argc, char **argv)
{
    unsigned failed = 0;
    for (int i = 1; i < argc; i++) {
        bool ok = check_file(argv[i]);
        if (!ok)
            printf("FAILED %s\n", argv[i]);
        failed += !ok;
    }
    printf("tsan: %u passed, %u failed\n", (unsigned)(argc - 1) - failed, failed);
    return failed != 0;
}
