/* Compressed blocks are read as the bytes that they decode to, in any order, by several threads, with little
 * memory; what decodes to another size is refused where it is stored. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "codec/inflate.h"
#include "core/pieces.h"
#include "io/block_cache.h"
#include "io/pool.h"
#include "unit.h"

#define MOST 256u

static uint32_t seed = 1;

static uint32_t random_below(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
}

/* Blocks in memory, as they are stored and decoded. */
static struct {
    struct block block[MOST];
    size_t n;
    buf stored, want;
    source *file, *src;
    block_cache *cache;
    atomic_uint decoded; /* how often one was */
} x;

/* ---------------------------------------------------------------------------- codecs */

/* decode_runs - 0xFF ends early and well, 0xFE is damaged, else: COUNT (4) BYTE (1). */
static ckpt_status decode_runs(void *user, source *stored, spool *to, ckpt_error *err)
{
    unsigned char run[5], block[4096];
    CU_ASSERT_PTR_EQUAL(user, &x);
    atomic_fetch_add(&x.decoded, 1);
    for (uint64_t at = 0; at + 5 <= stored->size; at += 5) {
        CKPT_TRY(source_read(stored, at, run, 5, err));
        uint64_t n = (uint64_t)run[0] | (uint64_t)run[1] << 8 | (uint64_t)run[2] << 16;
        memset(block, run[4], n < sizeof block ? (size_t)n : sizeof block);
        if (run[3] == 0xFE)
            return fail(err, CKPT_EFORMAT, source_pos(stored, at), "{a run} that is {=no run}");
        for (uint64_t part; n; n -= part) {
            part = n < sizeof block ? n : sizeof block;
            CKPT_TRY(spool_write(to, block, (size_t)part, err));
        }
    }
    return CKPT_OK;
}

static ckpt_status decode_deflated(void *user, source *stored, spool *to, ckpt_error *err)
{
    uint64_t used;
    (void)user;
    atomic_fetch_add(&x.decoded, 1);
    return inflate_into(stored, 0, stored->size, INFLATE_RAW, to, &used, err);
}

static const struct block_decoder runs = {"runs", decode_runs, &x},
                                  deflated = {"deflate", decode_deflated, NULL};

/* -------------------------------------------------------------------------- samples */

static void begin(uint64_t in_memory, uint64_t in_file)
{
    memset(&x, 0, sizeof x);
    buf_init(&x.stored, 1u << 30);
    buf_init(&x.want, 1u << 30);
    x.cache = block_cache_new(in_memory, in_file);
}

static struct block *add(uint64_t stored, uint64_t size)
{
    struct block *b = &x.block[x.n++];
    CU_ASSERT_FATAL(x.n <= MOST);
    *b = (struct block){.offset = x.stored.len - stored, .stored = stored, .size = size};
    return b;
}

static void put_run(uint32_t n, unsigned char byte)
{
    buf_u32le(&x.stored, n);
    buf_byte(&x.stored, byte);
    for (uint32_t i = 0; i < n; i++)
        buf_byte(&x.want, byte);
}

/* add_runs - a block of SIZE bytes. */
static struct block *add_runs(uint32_t size)
{
    size_t before = x.stored.len;
    for (uint32_t left = size, n; left; left -= n) {
        n = 1 + random_below(left);
        put_run(n, (unsigned char)random_below(256));
    }
    return add(x.stored.len - before, size);
}

/* add_deflated - the same in stored blocks, which need no compressor. */
static void add_deflated(uint32_t size)
{
    size_t before = x.stored.len;
    for (uint32_t left = size, n = 1; n || left; left -= n) {
        n = left < 60000 ? left : 60000;
        buf_byte(&x.stored, n == 0);
        buf_u16le(&x.stored, (uint16_t)n);
        buf_u16le(&x.stored, (uint16_t)~n);
        for (uint32_t i = 0; i < n; i++) {
            unsigned char byte = (unsigned char)random_below(256);
            buf_byte(&x.stored, byte);
            buf_byte(&x.want, byte);
        }
    }
    (void)add(x.stored.len - before, size);
}

static ckpt_status make(const struct block_decoder *d, ckpt_error *err)
{
    x.file = source_mem(x.stored.data, x.stored.len, 1000);
    for (size_t i = 0; i < x.n; i++)
        x.block[i].src = x.file;
    return source_blocks(x.cache, x.block, x.n, d, &x.src, err);
}

static void finish(void)
{
    source_unref(x.src);
    CU_ASSERT_EQUAL(x.file->refs, 1);
    source_unref(x.file);
    block_cache_unref(x.cache);
    buf_free(&x.stored);
    buf_free(&x.want);
}

static bool right(source *src, uint64_t from, size_t n)
{
    unsigned char *got = malloc(n + 1);
    bool ok = source_read(src, from, got, n, NULL) == CKPT_OK &&
              (n == 0 || memcmp(got, x.want.data + from, n) == 0);
    free(got);
    return ok;
}

/* reads_right - all, then any ranges. */
static bool reads_right(void)
{
    bool ok = x.src->size == x.want.len && right(x.src, 0, x.want.len);
    for (int turn = 0; turn < 50 && x.want.len; turn++) {
        uint32_t size = (uint32_t)x.want.len, from = random_below(size), most = turn % 2 ? size : 100,
                 n = random_below(most);
        ok = ok && right(x.src, from, n < size - from ? n : size - from);
    }
    return ok;
}

static void gives_what_was_stored(void)
{
    for (uint32_t turn = 0; turn < 48; turn++) {
        bool memory = turn % 3 == 0;
        begin(memory ? BLOCKS_IN_MEMORY : 20000, memory ? BLOCKS_IN_FILE : turn % 3 == 1 ? 90000 : 5000);
        for (uint32_t n = random_below(40); n; n--) {
            uint32_t size = random_below(5) ? random_below(9000) : random_below(2) ? 0 : random_below(70000);
            if (turn % 2)
                add_deflated(size);
            else
                (void)add_runs(size);
        }
        CU_ASSERT_EQUAL_FATAL(make(turn % 2 ? &deflated : &runs, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(x.decoded, 0);
        CU_ASSERT_FATAL(reads_right());
        CU_ASSERT(!memory || x.decoded <= x.n);
        finish();
    }
}

/* -------------------------------------------------------------------------- refusals */

/* refused - a read of all is, with WHAT, at OFFSET; and again. */
static bool refused(uint64_t offset, const char *what)
{
    ckpt_error err;
    bool ok = true;
    size_t size = (size_t)x.src->size;
    unsigned char *out = malloc(size);
    for (int turn = 0; turn < 2; turn++) {
        ok = ok && source_read(x.src, 0, out, size, &err) == CKPT_EFORMAT && err.offset == offset &&
             strstr(err.what, what);
        if (!ok)
            printf("\n%s at %llu\n", err.what, (unsigned long long)err.offset);
    }
    free(out);
    return ok;
}

static void wrong_sizes(void)
{
    for (int turn = 0; turn < 2; turn++) { /* in memory, in the file */
        uint64_t in_memory = turn ? 10 : BLOCKS_IN_MEMORY;
        begin(in_memory, BLOCKS_IN_FILE);
        (void)add_runs(100);
        add_runs(100)->size = 101;
        uint64_t at = 1000 + x.block[1].offset;
        CU_ASSERT_EQUAL_FATAL(make(&runs, NULL), CKPT_OK);
        CU_ASSERT(refused(at, "a block (runs) decodes to 100 bytes, it must have 101"));
        CU_ASSERT(right(x.src, 0, 100));
        finish();
        begin(in_memory, BLOCKS_IN_FILE); /* 16 MB of 5 bytes: no more than its size is kept */
        put_run(0xFFFFFF, 7);
        (void)add(5, 1000);
        CU_ASSERT_EQUAL_FATAL(make(&runs, NULL), CKPT_OK);
        CU_ASSERT(refused(1000, "a block (runs) decodes to more than 1000 bytes"));
        finish();
        begin(in_memory, BLOCKS_IN_FILE);
        buf_put(&x.stored, "\x03\0\0\xFE\x07", 5);
        (void)add(5, 3);
        CU_ASSERT_EQUAL_FATAL(make(&runs, NULL), CKPT_OK);
        CU_ASSERT(refused(1000, "a run that is no run"));
        finish();
    }
}

static void cut_off(void)
{
    ckpt_error err;
    char byte;
    begin(BLOCKS_IN_MEMORY, BLOCKS_IN_FILE);
    add_deflated(50000);
    x.block[0].stored -= 7;
    CU_ASSERT_EQUAL_FATAL(make(&deflated, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(source_read(x.src, 0, &byte, 1, &err), CKPT_ETRUNCATED);
    CU_ASSERT_EQUAL(err.offset, 1000 + x.block[0].stored);
    source_unref(x.src);
    x.block[0].stored += 8;
    CU_ASSERT_EQUAL(source_blocks(x.cache, x.block, 1, &deflated, &x.src, &err), CKPT_ETRUNCATED);
    CU_ASSERT_STRING_EQUAL(err.what, "block 0 needs 50011 bytes, 50010 are left");
    x.block[0].stored = 10;
    x.block[0].size = UINT64_MAX;
    CU_ASSERT_EQUAL(source_blocks(x.cache, x.block, 1, &deflated, &x.src, &err), CKPT_EFORMAT);
    CU_ASSERT_STRING_EQUAL(err.what, "1 blocks decode to more than 2^63 bytes");
    x.src = NULL;
    finish();
}

/* Without a temporary file, what fits in memory can be read; and nothing else. */
static void no_file(void)
{
    ckpt_error err;
    const char *dir = getenv("TMPDIR");
    char was[4096] = "", byte;
    snprintf(was, sizeof was, "%s", dir ? dir : "");
    setenv("TMPDIR", "/nowhere/at/all", 1);
    begin(20000, BLOCKS_IN_FILE);
    for (int i = 0; i < 9; i++)
        (void)add_runs(10000);
    (void)add_runs(10001);
    CU_ASSERT_EQUAL_FATAL(make(&runs, NULL), CKPT_OK);
    for (uint64_t i = 0; i < 18; i++)
        CU_ASSERT(right(x.src, i * 10000 % 90000 + 10, 100));
    CU_ASSERT_EQUAL(x.decoded, 18);
    CU_ASSERT_EQUAL(source_read(x.src, 90000, &byte, 1, &err) == CKPT_OK, false);
    CU_ASSERT(strstr(err.hint, "TMPDIR") != NULL);
    finish();
    if (dir)
        setenv("TMPDIR", was, 1);
    else
        unsetenv("TMPDIR");
}

/* --------------------------------------------------------------------------- threads */

static ckpt_status read_somewhere(void *user, struct pool *p, size_t i, unsigned worker, ckpt_error *err)
{
    source *const *two = user;
    uint64_t from = i * 7919 * 613 % x.want.len, n = i * 31 % 30000;
    (void)p;
    (void)worker;
    (void)err;
    return right(two[i % 2], from, (size_t)(n < x.want.len - from ? n : x.want.len - from)) ? CKPT_OK
                                                                                            : CKPT_EFORMAT;
}

static uint64_t same_weight(void *user, size_t i)
{
    (void)user;
    (void)i;
    return 1;
}

static void by_four_threads(void)
{
    for (int turn = 0; turn < 4; turn++) {
        ckpt_error err;
        begin(turn % 2 ? 30000 : 60000, turn % 3 ? 100000 : 10000);
        for (int i = 0; i < 100; i++)
            (void)add_runs(random_below(i % 10 ? 8000 : 40000));
        CU_ASSERT_EQUAL_FATAL(make(&runs, NULL), CKPT_OK);
        struct block again[MOST]; /* another tensor of the same cache */
        source *two[2] = {x.src, NULL};
        memcpy(again, x.block, sizeof again);
        CU_ASSERT_EQUAL_FATAL(source_blocks(x.cache, again, x.n, &runs, &two[1], &err), CKPT_OK);
        struct pool_job job = {
            .n = 1500, .weigh = same_weight, .threads = 4, .task = read_somewhere, .user = two};
        CU_ASSERT_EQUAL(pool_run(&job, &err), CKPT_OK);
        source_unref(two[1]);
        finish();
    }
}

/* ----------------------------------------------------------------------------- columns */

/* resident - KiB of memory that this process has; 0: not known. */
static unsigned long resident(void)
{
    unsigned long all, now = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%lu %lu", &all, &now) != 2)
        now = 0;
    if (f)
        fclose(f);
    return now * (unsigned long)sysconf(_SC_PAGESIZE) / 1024;
}

/* 64 MB in columns, read row by row: each block is decoded once, and memory is that of the cache. */
static void columns_are_decoded_once(void)
{
    enum { N = 64, ROWS = 8192, WIDTH = 128 };
    static uint64_t offset[N][2];
    static const uint64_t shape[2] = {ROWS, N * WIDTH}, size[2] = {ROWS, WIDTH};
    static struct piece piece[N];
    static unsigned char out[1 << 20];
    arena *a = arena_new(1 << 20);
    source *src = NULL;
    uint64_t at;
    unsigned long before = 0, most = 0, now;
    bool ok = true;
    begin(BLOCKS_IN_MEMORY, BLOCKS_IN_FILE);
    for (uint32_t i = 0; i < N; i++) {
        buf_u32le(&x.stored, ROWS * WIDTH);
        buf_byte(&x.stored, (uint8_t)i);
        (void)add(5, ROWS * WIDTH);
    }
    CU_ASSERT_EQUAL_FATAL(make(&runs, NULL), CKPT_OK);
    for (uint32_t i = 0; i < N; i++) {
        offset[i][1] = i * WIDTH;
        piece[i] = (struct piece){.offset = offset[i], .size = size, .src = x.src, .at = x.block[i].start};
    }
    struct pieces p = {.shape = shape, .ndim = 2, .width = 1, .piece = piece, .n = N};
    CU_ASSERT_EQUAL_FATAL(pieces_source(a, &p, &src, &at, NULL), CKPT_OK);
    before = resident();
    for (uint64_t from = 0; from < src->size; from += sizeof out) {
        ok = ok && source_read(src, at + from, out, sizeof out, NULL) == CKPT_OK;
        for (size_t i = 0; i < sizeof out; i += 61)
            ok = ok && out[i] == i / WIDTH % N;
        now = resident();
        most = now > most ? now : most;
    }
    CU_ASSERT(ok);
    CU_ASSERT_EQUAL(x.decoded, N);
    CU_ASSERT(!unit_timed() || most - before < 16 * 1024); /* where no sanitizer needs more */
    source_unref(src);
    arena_free(a);
    finish();
}

void suite_blocks(void)
{
    UNIT(gives_what_was_stored);
    UNIT(wrong_sizes);
    UNIT(cut_off);
    UNIT(no_file);
    UNIT(by_four_threads);
    UNIT(columns_are_decoded_once);
}
