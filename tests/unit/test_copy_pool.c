/* With any number of threads, the copy pool writes the same bytes, and a stopped write leaves no file. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32.h"
#include "base/cursor.h"
#include "core/copy_pool.h"
#include "core/parallel_rows.h"
#include "io/buffered_writer.h"
#include "small_files.h"
#include "unit.h"

#define LARGE_FLOATS                                                                                         \
    (PARALLEL_CHUNK_BYTES / 4 + 3001u) /* number of floats of the large tensor, which has two chunks */
#define SMALL_TENSORS 1500u            /* number of small tensors, of 3 to 4000 floats */

static const unsigned thread_counts[] = {1, 2, 4, 7};

static size_t small_tensor_floats(size_t i) { return 3 + i * i % 3998; }

/* open_many_tensors - opens a file of one large tensor between many small ones. */
static ckpt_file *open_many_tensors(void)
{
    static char header[SMALL_TENSORS * 96];
    size_t total = 0, len = 0;
    header[len++] = '{';
    for (size_t i = 0; i <= SMALL_TENSORS; i++) {
        size_t nfloats = i == SMALL_TENSORS / 2 ? LARGE_FLOATS : small_tensor_floats(i);
        len += (size_t)snprintf(header + len, sizeof header - len,
                                "\"t.%zu\":{\"dtype\":\"F32\",\"shape\":[%zu],\"data_offsets\":[%zu,%zu]},",
                                i, nfloats, 4 * total, 4 * (total + nfloats));
        total += nfloats;
    }
    header[len - 1] = '}';
    float *x = malloc(4 * total);
    for (uint32_t i = 0; i < total; i++)
        x[i] = (float)(i * 2654435761u >> 8) * 0x1p-20f - 3;
    ckpt_file *f = open_safetensors(header, x, 4 * total);
    free(x);
    return f;
}

static unsigned char *read_file(const char *path, size_t *n)
{
    struct stat st;
    FILE *f = fopen(path, "rb");
    if (!f || fstat(fileno(f), &st) != 0)
        return NULL;
    unsigned char *bytes = malloc((size_t)st.st_size);
    *n = fread(bytes, 1, (size_t)st.st_size, f);
    fclose(f);
    return bytes;
}

static char folder[] = "/tmp/ckpt-copy-XXXXXX";
static char path[64];

static ckpt_status write_file(ckpt_file *f, const char *format, bool cast, ckpt_write_options o)
{
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    ckpt_plan *p = plan_of(f);
    if (cast)
        CU_ASSERT_EQUAL(ckpt_plan_cast(p, NULL, CKPT_DT_BF16, NULL), CKPT_OK);
    o.format = format;
    o.force = o.no_sync = true;
    ckpt_status st = ckpt_plan_write(p, path, &o, &r, NULL);
    ckpt_plan_free(p);
    return st;
}

/* check_values - checks that the file at PATH holds the tensors of F, rounded to bfloat16 if CAST. */
static void check_values(ckpt_file *f, bool cast)
{
    ckpt_file *reopened = NULL;
    ckpt_diff_totals t = CKPT_INIT(ckpt_diff_totals);
    CU_ASSERT_EQUAL_FATAL(ckpt_open(path, NULL, &reopened, NULL), CKPT_OK);
    ckpt_diff_options o = {.struct_size = sizeof o, .rtol = cast ? 0x1p-8 : 0};
    CU_ASSERT_EQUAL(ckpt_diff(f, reopened, &o, NULL, NULL, &t, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(cast ? t.changed : t.same, SMALL_TENSORS + 1);
    CU_ASSERT(t.only_a + t.only_b == 0);
    ckpt_close(reopened);
}

static void any_number_of_threads_writes_the_same_bytes(void)
{
    ckpt_file *f = open_many_tensors();
    for (unsigned turn = 0; turn < 4; turn++) {
        const char *format = turn & 1 ? "torch-zip" : "safetensors";
        bool cast = turn & 2;
        unsigned char *first_bytes = NULL;
        size_t n = 0, first_size = 0;
        for (size_t i = 0; i < 4; i++) {
            ckpt_write_options o = {.struct_size = sizeof o, .threads = thread_counts[i]};
            CU_ASSERT_EQUAL(write_file(f, format, cast, o), CKPT_OK);
            unsigned char *bytes = read_file(path, &n);
            if (i == 0) {
                first_bytes = bytes;
                first_size = n;
                check_values(f, cast);
                continue;
            }
            CU_ASSERT(n == first_size && memcmp(bytes, first_bytes, n) == 0);
            free(bytes);
        }
        free(first_bytes);
    }
    unlink(path);
    close_open_files();
}

static int stop_after_a_third(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    return done > total / 3;
}

static void a_stopped_write_leaves_no_file(void)
{
    ckpt_file *f = open_many_tensors();
    for (size_t i = 0; i < 8; i++) {
        ckpt_write_options o = {
            .struct_size = sizeof o, .threads = thread_counts[i % 4], .progress = stop_after_a_third};
        CU_ASSERT_EQUAL(write_file(f, i < 4 ? "torch-zip" : "safetensors", i & 1, o), CKPT_ECANCELLED);
        CU_ASSERT(access(path, F_OK) != 0);
    }
    CU_ASSERT_EQUAL(rmdir(folder), 0); /* fails if a temporary file was left */
    close_open_files();
}

static uint64_t reported_bytes, reported_total;
static int record_progress(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    CU_ASSERT_FATAL(done >= reported_bytes && done <= total);
    reported_bytes = done;
    reported_total = total;
    return 0;
}

static void progress_never_decreases(void)
{
    ckpt_file *f = open_many_tensors();
    for (int cast = 0; cast < 2; cast++) {
        ckpt_write_options o = {
            .struct_size = sizeof o, .threads = 2, .progress = record_progress, .dry_run = false};
        reported_bytes = 0;
        CU_ASSERT_EQUAL(write_file(f, "safetensors", cast, o), CKPT_OK);
        CU_ASSERT(reported_bytes > 0 && reported_total > 0);
    }
    unlink(path);
    close_open_files();
}

/* Two buffered writers write the halves of a file. Each puts pieces that begin with up to four zeros, which
 * it patches at once. It also patches bytes that it has flushed before. */
static void buffered_writers_write_one_file(void)
{
    enum { N = 1 << 20 };
    sink *s;
    struct buffered_writer writers[2];
    unsigned char *want = malloc(N);
    for (size_t i = 0; i < N; i++)
        want[i] = (unsigned char)(i * 31 >> 3);
    CU_ASSERT_EQUAL_FATAL(sink_mem(N, NULL, &s, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(sink_skip(s, N, NULL), CKPT_OK);
    CU_ASSERT(buffered_open(&writers[0], s, NULL) == CKPT_OK &&
              buffered_open(&writers[1], s, NULL) == CKPT_OK);
    for (size_t half = 0; half < 2; half++) {
        CU_ASSERT_EQUAL(buffered_seek(&writers[half], half * N / 2, NULL), CKPT_OK);
        for (size_t at = half * N / 2, end = at + N / 2, n = 1; at < end; at += n, n = n * 5 % 70001 + 1) {
            n = n < end - at ? n : end - at;
            CU_ASSERT_EQUAL(buffered_put(&writers[half], "\0\0\0\0", n < 4 ? n : 4, NULL), CKPT_OK);
            if (n > 4)
                CU_ASSERT_EQUAL(buffered_put(&writers[half], want + at + 4, n - 4, NULL), CKPT_OK);
            CU_ASSERT_EQUAL(buffered_patch(&writers[half], at, want + at, n < 4 ? n : 4, NULL), CKPT_OK);
            if (at > half * N / 2 + 300000) /* these bytes are flushed already */
                CU_ASSERT_EQUAL(buffered_patch(&writers[half], at - 300000, want + at - 300000, 9, NULL),
                                CKPT_OK);
        }
        CU_ASSERT_EQUAL(buffered_flush(&writers[half], NULL), CKPT_OK);
        buffered_close(&writers[half]);
    }
    CU_ASSERT_EQUAL(memcmp(sink_mem_view(s).ptr, want, N), 0);
    sink_abort(s);
    free(want);
}

/* --------------------------------------------------- copies without a file format */

#define HEADER 8u /* size of the header of an item: "HEAD" and the CRC-32 of the item's bytes */

/* The items that copy all tensors of F; the last tensor is the first in the sink. Either all items are
 * storages, or all are tensors, and then every other tensor is cast to bfloat16. */
struct layout {
    ckpt_file *f;
    struct copy_item items[SMALL_TENSORS + 1];
    uint64_t size;
};

static void set_layout(struct layout *l, bool storages)
{
    l->size = 0;
    for (uint32_t i = SMALL_TENSORS + 1; i-- > 0;) {
        const ckpt_tensor t = table_tensor(&l->f->table, i);
        bool cast = !storages && i % 2;
        l->items[i] = (struct copy_item){.row = i,
                                         .storage = storages ? &l->f->table.storages[t.storage] : NULL,
                                         .from = CKPT_DT_F32,
                                         .to = cast ? CKPT_DT_BF16 : CKPT_DT_F32,
                                         .offset = l->size + HEADER,
                                         .crc_offset = l->size + HEADER - 4};
        l->size += HEADER + t.nbytes / (cast ? 2 : 1);
    }
}

static struct copy_item get_item(const void *user, size_t i)
{
    return ((const struct layout *)user)->items[i];
}

static ckpt_status put_header(const void *user, size_t i, buf *out, ckpt_error *err)
{
    (void)user, (void)i, (void)err;
    buf_put(out, "HEAD\0\0\0", HEADER);
    return CKPT_OK;
}

static bool item_is_written(const struct layout *l, uint32_t i, const unsigned char *written,
                            uint32_t reported_crc)
{
    const ckpt_tensor t = table_tensor(&l->f->table, i);
    const struct copy_item *x = &l->items[i];
    size_t n = (size_t)t.nbytes;
    unsigned char *want = malloc(n), *bf16 = malloc(n);
    bool same = stream_read(&l->f->table, i, 0, t.elements, want, NULL) == CKPT_OK;
    struct conversion c;
    struct convert_tally tally = {0};
    if (x->from != x->to && conversion_init(&c, x->from, x->to)) {
        convert_run(&c, want, n / 4, bf16, &tally);
        memcpy(want, bf16, n /= 2);
    }
    uint32_t crc = crc32_update(0, want, n);
    same = same && memcmp(written + x->offset, want, n) == 0 && reported_crc == crc &&
           memcmp(written + x->offset - HEADER, "HEAD", 4) == 0 && load_u32le(written + x->crc_offset) == crc;
    free(want);
    free(bf16);
    return same;
}

static void items_are_copied_with_headers_and_checksums(void)
{
    static struct layout l;
    static uint32_t crcs[SMALL_TENSORS + 1];
    l.f = open_many_tensors();
    for (size_t i = 0; i < 4; i++) {
        sink *out = NULL;
        ckpt_write_options o = {.threads = thread_counts[i], .progress = record_progress};
        set_layout(&l, i & 1);
        reported_bytes = 0;
        CU_ASSERT_EQUAL_FATAL(sink_mem((size_t)l.size, NULL, &out, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(sink_skip(out, l.size, NULL), CKPT_OK);
        const struct copy_job job = {.file = l.f,
                                     .out = out,
                                     .n = SMALL_TENSORS + 1,
                                     .get_item = get_item,
                                     .put_header = put_header,
                                     .user = &l,
                                     .crcs = crcs,
                                     .nbytes = l.size - HEADER * (SMALL_TENSORS + 1),
                                     .options = &o};
        CU_ASSERT_EQUAL(copy_items(&job, NULL), CKPT_OK);
        CU_ASSERT(reported_bytes > 0 && reported_total == job.nbytes);
        const unsigned char *written = (const unsigned char *)sink_mem_view(out).ptr;
        size_t wrong = 0;
        for (uint32_t k = 0; k <= SMALL_TENSORS; k++)
            wrong += !item_is_written(&l, k, written, crcs[k]);
        CU_ASSERT_EQUAL(wrong, 0);
        sink_abort(out);
    }
    close_open_files();
}

static struct copy_item get_only_item(const void *user, size_t i)
{
    (void)i;
    return *(const struct copy_item *)user;
}

static ckpt_status copy_one(ckpt_file *f, const struct copy_item *x, uint64_t size)
{
    sink *out = NULL;
    ckpt_write_options o = {.threads = 3};
    CU_ASSERT_EQUAL_FATAL(sink_mem((size_t)size, NULL, &out, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(sink_skip(out, size, NULL), CKPT_OK);
    const struct copy_job job = {
        .file = f, .out = out, .n = 1, .get_item = get_only_item, .user = x, .nbytes = size, .options = &o};
    ckpt_error err = {0};
    ckpt_status st = copy_items(&job, &err);
    CU_ASSERT(st == CKPT_OK || strcmp(err.where, x->storage ? "" : "item name") == 0);
    sink_abort(out);
    return st;
}

static void wrong_checksums_are_reported(void)
{
    static const uint32_t rows[] = {SMALL_TENSORS / 2,
                                    3}; /* a tensor of several chunks, and a tensor of one */
    ckpt_file *f = open_many_tensors();
    for (size_t i = 0; i < 8; i++) {
        const ckpt_tensor t = table_tensor(&f->table, rows[i & 1]);
        struct storage *s = &f->table.storages[t.storage];
        const struct copy_item x = {.row = rows[i & 1],
                                    .storage = i & 2 ? s : NULL,
                                    .name = i & 2 ? str_of("", 0) : STR_LIT("item name")};
        unsigned char *bytes = malloc((size_t)t.nbytes);
        CU_ASSERT_EQUAL(stream_read(&f->table, x.row, 0, t.elements, bytes, NULL), CKPT_OK);
        s->has_crc = true;
        s->crc_checked = false;
        s->crc = crc32_update(0, bytes, (size_t)t.nbytes) ^ (i < 4 ? 0 : 1);
        CU_ASSERT_EQUAL(copy_one(f, &x, t.nbytes), i < 4 ? CKPT_OK : CKPT_ECHECKSUM);
        free(bytes);
    }
    close_open_files();
}

/* copy_ranges - copies elements [0, CUT) of row X->row to OUT, then the others, with THREADS threads; sets
 * CRCS to the checksums of the stored bytes of both. */
static void copy_ranges(ckpt_file *f, struct copy_item x, uint64_t cut, unsigned threads, sink *out,
                        uint32_t crcs[2])
{
    ckpt_write_options o = {.threads = threads};
    uint64_t elements = x.storage ? x.storage->nbytes : table_elements_of(&f->table, x.row);
    for (size_t half = 0; half < 2; half++) {
        x.first = half ? cut : 0;
        x.count = half ? elements - cut : cut;
        const struct copy_job job = {.file = f,
                                     .out = out,
                                     .n = 1,
                                     .get_item = get_only_item,
                                     .user = &x,
                                     .stored_crcs = &crcs[half],
                                     .nbytes = 1,
                                     .options = &o};
        CU_ASSERT_EQUAL(copy_items(&job, NULL), CKPT_OK);
    }
}

/* A tensor, as it is and cast, and a storage, each as two ranges: the second begins in a chunk, and has
 * another chunk's end in it. */
static void ranges_of_items_are_copied(void)
{
    static const uint64_t cuts[] = {1, 3000, LARGE_FLOATS - 3001, LARGE_FLOATS - 1};
    ckpt_file *f = open_many_tensors();
    const uint32_t row = SMALL_TENSORS / 2;
    struct storage *s = &f->table.storages[table_storage_of(&f->table, row)];
    const size_t n = (size_t)s->nbytes;
    unsigned char *want[2] = {malloc(n), malloc(n)};
    struct conversion c;
    struct convert_tally tally = {0};
    CU_ASSERT_EQUAL(stream_read(&f->table, row, 0, LARGE_FLOATS, want[0], NULL), CKPT_OK);
    CU_ASSERT(conversion_init(&c, CKPT_DT_F32, CKPT_DT_BF16));
    convert_run(&c, want[0], LARGE_FLOATS, want[1], &tally);
    s->has_crc = true;
    s->crc = crc32_update(0, want[0], n) ^ 1; /* wrong, but for the caller to compare */
    for (size_t i = 0; i < 12; i++) {
        sink *out = NULL;
        uint32_t crcs[2] = {0, 0};
        bool cast = i < 4;
        const struct copy_item x = {.row = row,
                                    .storage = i < 8 ? NULL : s,
                                    .from = CKPT_DT_F32,
                                    .to = cast ? CKPT_DT_BF16 : CKPT_DT_F32};
        uint64_t cut = cuts[i % 4] * (x.storage ? 4 : 1);
        CU_ASSERT_EQUAL_FATAL(sink_mem(n, NULL, &out, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(sink_skip(out, cast ? n / 2 : n, NULL), CKPT_OK);
        copy_ranges(f, x, cut, thread_counts[i % 4], out, crcs);
        CU_ASSERT_EQUAL(memcmp(sink_mem_view(out).ptr, want[cast], cast ? n / 2 : n), 0);
        uint64_t second = n - cut * (x.storage ? 1 : 4);
        CU_ASSERT_EQUAL(crc_combine(CRC_32, crcs[0], crcs[1], second), s->crc ^ 1);
        sink_abort(out);
    }
    free(want[0]);
    free(want[1]);
    close_open_files();
}

static void the_end_of_a_file_is_copied(void)
{
    ckpt_file *f = open_many_tensors();
    size_t n = (size_t)f->src->size - 7;
    unsigned char *want = malloc(n);
    CU_ASSERT_EQUAL(source_read(f->src, 7, want, n, NULL), CKPT_OK);
    for (size_t i = 0; i < 4; i++) {
        sink *out = NULL;
        ckpt_write_options o = {.threads = thread_counts[i], .progress = i < 3 ? NULL : stop_after_a_third};
        CU_ASSERT_EQUAL_FATAL(sink_mem(n + 5, NULL, &out, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(sink_write(out, "begin", 5, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(copy_file_tail(f, 7, out, &o, NULL), i < 3 ? CKPT_OK : CKPT_ECANCELLED);
        CU_ASSERT(i == 3 || memcmp(sink_mem_view(out).ptr, "begin", 5) == 0);
        CU_ASSERT(i == 3 || memcmp(sink_mem_view(out).ptr + 5, want, n) == 0);
        sink_abort(out);
    }
    free(want);
    close_open_files();
}

void suite_copy_pool(void)
{
    if (!mkdtemp(folder))
        return;
    snprintf(path, sizeof path, "%s/out", folder);
    UNIT(buffered_writers_write_one_file);
    UNIT(items_are_copied_with_headers_and_checksums);
    UNIT(wrong_checksums_are_reported);
    UNIT(ranges_of_items_are_copied);
    UNIT(the_end_of_a_file_is_copied);
    UNIT(any_number_of_threads_writes_the_same_bytes);
    UNIT(progress_never_decreases);
    UNIT(a_stopped_write_leaves_no_file);
}
