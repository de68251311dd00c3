/* Compressed blocks are read in any order, by several threads and with little memory, and a block that
 * decodes to the wrong size is refused. */
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

#define MAX_BLOCKS 256u

static uint32_t seed = 1;

static uint32_t random_below(uint32_t limit)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % limit;
}

/* The compressed blocks of a test. */
static struct {
    struct block blocks[MAX_BLOCKS];
    size_t nblocks;
    buf compressed, want; /* the compressed bytes, and those that they must decode to */
    source *file, *src;   /* COMPRESSED as a source, and the source that decodes it */
    block_cache *cache;
    atomic_uint decode_calls; /* number of calls of a decoder */
} sample;

/* ---------------------------------------------------------------------------- codecs */

/* decode_runs - decodes runs. A run takes five bytes: a count of 24 bits, a byte that is 0xFE if the run is
 * damaged, and the byte to repeat. */
static ckpt_status decode_runs(void *user, source *compressed, spool *out, ckpt_error *err)
{
    unsigned char run[5], chunk[4096];
    CU_ASSERT_PTR_EQUAL(user, &sample);
    atomic_fetch_add(&sample.decode_calls, 1);
    for (uint64_t at = 0; at + 5 <= compressed->size; at += 5) {
        CKPT_TRY(source_read(compressed, at, run, 5, err));
        uint64_t n = (uint64_t)run[0] | (uint64_t)run[1] << 8 | (uint64_t)run[2] << 16;
        memset(chunk, run[4], n < sizeof chunk ? (size_t)n : sizeof chunk);
        if (run[3] == 0xFE)
            return fail(err, CKPT_EFORMAT, source_pos(compressed, at), "a damaged run");
        for (uint64_t length; n; n -= length) {
            length = n < sizeof chunk ? n : sizeof chunk;
            CKPT_TRY(spool_write(out, chunk, (size_t)length, err));
        }
    }
    return CKPT_OK;
}

static ckpt_status decode_deflated(void *user, source *compressed, spool *out, ckpt_error *err)
{
    uint64_t used;
    (void)user;
    atomic_fetch_add(&sample.decode_calls, 1);
    return inflate_into(compressed, 0, compressed->size, INFLATE_RAW, out, &used, err);
}

static const struct block_decoder runs = {"runs", decode_runs, &sample},
                                  deflated = {"deflate", decode_deflated, NULL};

/* -------------------------------------------------------------------------- samples */

/* set_up - begins a sample without blocks. Its cache takes up to MEMORY_BYTES of memory and FILE_BYTES of a
 * temporary file. */
static void set_up(uint64_t memory_bytes, uint64_t file_bytes)
{
    memset(&sample, 0, sizeof sample);
    buf_init(&sample.compressed, 1u << 30);
    buf_init(&sample.want, 1u << 30);
    sample.cache = block_cache_new(memory_bytes, file_bytes);
}

/* add_block - adds a block that decodes to SIZE bytes. Its compressed bytes are the last LENGTH bytes of
 * sample.compressed. */
static struct block *add_block(uint64_t length, uint64_t size)
{
    struct block *b = &sample.blocks[sample.nblocks++];
    CU_ASSERT_FATAL(sample.nblocks <= MAX_BLOCKS);
    *b = (struct block){.offset = sample.compressed.len - length, .stored = length, .size = size};
    return b;
}

static void put_run(uint32_t n, unsigned char byte)
{
    buf_u32le(&sample.compressed, n); /* 24 bits of the count, and a byte 0: the run is not damaged */
    buf_byte(&sample.compressed, byte);
    for (uint32_t i = 0; i < n; i++)
        buf_byte(&sample.want, byte);
}

/* add_runs - adds a block of runs that decodes to SIZE bytes. */
static struct block *add_runs(uint32_t size)
{
    size_t before = sample.compressed.len;
    for (uint32_t left = size, n; left; left -= n) {
        n = 1 + random_below(left);
        put_run(n, (unsigned char)random_below(256));
    }
    return add_block(sample.compressed.len - before, size);
}

/* add_deflated - adds a block that decodes to SIZE bytes. Its compressed bytes are a deflate stream that only
 * has stored blocks, for which the test needs no compressor. */
static void add_deflated(uint32_t size)
{
    size_t before = sample.compressed.len;
    for (uint32_t left = size, n = 1; n || left; left -= n) {
        n = left < 60000 ? left : 60000;
        buf_byte(&sample.compressed, n == 0); /* BTYPE 0, and BFINAL: set in the last one, which is empty */
        buf_u16le(&sample.compressed, (uint16_t)n);
        buf_u16le(&sample.compressed, (uint16_t)~n);
        for (uint32_t i = 0; i < n; i++) {
            unsigned char byte = (unsigned char)random_below(256);
            buf_byte(&sample.compressed, byte);
            buf_byte(&sample.want, byte);
        }
    }
    (void)add_block(sample.compressed.len - before, size);
}

enum { FIRST_OFFSET = 1000 }; /* the offset that errors report for the first compressed byte */

static ckpt_status open_blocks(const struct block_decoder *d, ckpt_error *err)
{
    sample.file = source_mem(sample.compressed.data, sample.compressed.len, FIRST_OFFSET);
    for (size_t i = 0; i < sample.nblocks; i++)
        sample.blocks[i].src = sample.file;
    return source_blocks(sample.cache, sample.blocks, sample.nblocks, d, &sample.src, err);
}

static void tear_down(void)
{
    source_unref(sample.src);
    CU_ASSERT_EQUAL(sample.file->refs, 1);
    source_unref(sample.file);
    block_cache_unref(sample.cache);
    buf_free(&sample.compressed);
    buf_free(&sample.want);
}

static bool range_is_correct(source *src, uint64_t from, size_t n)
{
    unsigned char *got = malloc(n + 1);
    bool ok = source_read(src, from, got, n, NULL) == CKPT_OK &&
              (n == 0 || memcmp(got, sample.want.data + from, n) == 0);
    free(got);
    return ok;
}

/* all_bytes_are_correct - returns true if all bytes, and random ranges, are read as expected. */
static bool all_bytes_are_correct(void)
{
    bool ok = sample.src->size == sample.want.len && range_is_correct(sample.src, 0, sample.want.len);
    for (int turn = 0; turn < 50 && sample.want.len; turn++) {
        uint32_t size = (uint32_t)sample.want.len, from = random_below(size),
                 max_length = turn % 2 ? size : 100, n = random_below(max_length);
        ok = ok && range_is_correct(sample.src, from, n < size - from ? n : size - from);
    }
    return ok;
}

/* Each of two codecs with each of three caches: one that holds all blocks in memory, and two with little
 * memory and a temporary file. */
static void blocks_are_decoded(void)
{
    for (uint32_t turn = 0; turn < 48; turn++) {
        bool in_memory = turn % 3 == 0;
        set_up(in_memory ? BLOCKS_IN_MEMORY : 20000, in_memory       ? BLOCKS_IN_FILE
                                                     : turn % 3 == 1 ? 90000
                                                                     : 5000);
        for (uint32_t n = random_below(40); n; n--) {
            uint32_t size = random_below(5) ? random_below(9000) : random_below(2) ? 0 : random_below(70000);
            if (turn % 2)
                add_deflated(size);
            else
                (void)add_runs(size);
        }
        CU_ASSERT_EQUAL_FATAL(open_blocks(turn % 2 ? &deflated : &runs, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(sample.decode_calls, 0);
        CU_ASSERT_FATAL(all_bytes_are_correct());
        CU_ASSERT(!in_memory || sample.decode_calls <= sample.nblocks);
        tear_down();
    }
}

/* -------------------------------------------------------------------------- refusals */

/* both_reads_fail - reads all bytes twice. Returns true if both reads fail at OFFSET, with WHAT in the
 * message. */
static bool both_reads_fail(uint64_t offset, const char *what)
{
    ckpt_error err;
    bool ok = true;
    size_t size = (size_t)sample.src->size;
    unsigned char *out = malloc(size);
    for (int turn = 0; turn < 2; turn++) {
        ok = ok && source_read(sample.src, 0, out, size, &err) == CKPT_EFORMAT && err.offset == offset &&
             strstr(err.what, what);
        if (!ok)
            printf("\n%s at %llu\n", err.what, (unsigned long long)err.offset);
    }
    free(out);
    return ok;
}

static void blocks_of_wrong_size_are_refused(void)
{
    for (int turn = 0; turn < 2; turn++) { /* cached in memory, then in a file */
        uint64_t memory_bytes = turn ? 10 : BLOCKS_IN_MEMORY;
        set_up(memory_bytes, BLOCKS_IN_FILE);
        (void)add_runs(100);
        add_runs(100)->size = 101;
        uint64_t at = FIRST_OFFSET + sample.blocks[1].offset;
        CU_ASSERT_EQUAL_FATAL(open_blocks(&runs, NULL), CKPT_OK);
        CU_ASSERT(both_reads_fail(at, "a block (runs) decodes to 100 bytes, it must have 101"));
        CU_ASSERT(range_is_correct(sample.src, 0, 100));
        tear_down();
        set_up(memory_bytes, BLOCKS_IN_FILE);
        put_run(0xFFFFFF, 7); /* 5 bytes that decode to almost 16 MiB */
        (void)add_block(5, 1000);
        CU_ASSERT_EQUAL_FATAL(open_blocks(&runs, NULL), CKPT_OK);
        CU_ASSERT(both_reads_fail(FIRST_OFFSET, "a block (runs) decodes to more than 1000 bytes"));
        tear_down();
        set_up(memory_bytes, BLOCKS_IN_FILE);
        buf_put(&sample.compressed, "\x03\0\0\xFE\x07", 5); /* a run marked as damaged */
        (void)add_block(5, 3);
        CU_ASSERT_EQUAL_FATAL(open_blocks(&runs, NULL), CKPT_OK);
        CU_ASSERT(both_reads_fail(FIRST_OFFSET, "a damaged run"));
        tear_down();
    }
}

static void truncated_and_too_large_blocks_are_refused(void)
{
    ckpt_error err;
    char byte;
    set_up(BLOCKS_IN_MEMORY, BLOCKS_IN_FILE);
    add_deflated(50000);
    sample.blocks[0].stored -= 7;
    CU_ASSERT_EQUAL_FATAL(open_blocks(&deflated, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(source_read(sample.src, 0, &byte, 1, &err), CKPT_ETRUNCATED);
    CU_ASSERT_EQUAL(err.offset, FIRST_OFFSET + sample.blocks[0].stored);
    source_unref(sample.src);
    sample.blocks[0].stored += 8; /* one byte more than there is */
    CU_ASSERT_EQUAL(source_blocks(sample.cache, sample.blocks, 1, &deflated, &sample.src, &err),
                    CKPT_ETRUNCATED);
    CU_ASSERT_STRING_EQUAL(err.what, "block 0 needs 50011 bytes, 50010 are left");
    sample.blocks[0].stored = 10; /* all stored bytes exist, but the decoded size is too large */
    sample.blocks[0].size = UINT64_MAX;
    CU_ASSERT_EQUAL(source_blocks(sample.cache, sample.blocks, 1, &deflated, &sample.src, &err),
                    CKPT_EFORMAT);
    CU_ASSERT_STRING_EQUAL(err.what, "1 blocks decode to more than 2^63 bytes");
    sample.src = NULL;
    tear_down();
}

static void without_a_temporary_file_only_small_blocks_are_read(void)
{
    ckpt_error err;
    const char *dir = getenv("TMPDIR");
    char old_tmpdir[4096] = "", byte;
    snprintf(old_tmpdir, sizeof old_tmpdir, "%s", dir ? dir : "");
    setenv("TMPDIR", "/nowhere/at/all", 1);
    set_up(20000, BLOCKS_IN_FILE);
    for (int i = 0; i < 9; i++)
        (void)add_runs(10000);
    (void)add_runs(10001); /* more than half of the cache's memory: it must go to the file */
    CU_ASSERT_EQUAL_FATAL(open_blocks(&runs, NULL), CKPT_OK);
    for (uint64_t i = 0; i < 18; i++)
        CU_ASSERT(range_is_correct(sample.src, i * 10000 % 90000 + 10, 100));
    CU_ASSERT_EQUAL(sample.decode_calls, 18); /* 9 blocks, each decoded again for its second read */
    CU_ASSERT_NOT_EQUAL(source_read(sample.src, 90000, &byte, 1, &err), CKPT_OK);
    CU_ASSERT(strstr(err.hint, "TMPDIR") != NULL);
    tear_down();
    if (dir)
        setenv("TMPDIR", old_tmpdir, 1);
    else
        unsetenv("TMPDIR");
}

/* --------------------------------------------------------------------------- threads */

static ckpt_status read_some_range(void *user, struct pool *p, size_t i, unsigned worker, ckpt_error *err)
{
    source *const *sources = user;
    uint64_t from = i * 7919 * 613 % sample.want.len, n = i * 31 % 30000;
    (void)p;
    (void)worker;
    (void)err;
    return range_is_correct(sources[i % 2], from,
                            (size_t)(n < sample.want.len - from ? n : sample.want.len - from))
               ? CKPT_OK
               : CKPT_EFORMAT;
}

static uint64_t equal_weight(void *user, size_t i)
{
    (void)user;
    (void)i;
    return 1;
}

static void threads_read_blocks(void)
{
    for (int turn = 0; turn < 4; turn++) {
        ckpt_error err;
        set_up(turn % 2 ? 30000 : 60000, turn % 3 ? 100000 : 10000);
        for (int i = 0; i < 100; i++)
            (void)add_runs(random_below(i % 10 ? 8000 : 40000));
        CU_ASSERT_EQUAL_FATAL(open_blocks(&runs, NULL), CKPT_OK);
        struct block second_blocks[MAX_BLOCKS]; /* the same blocks, as those of a second tensor */
        source *sources[2] = {sample.src, NULL};
        memcpy(second_blocks, sample.blocks, sizeof second_blocks);
        CU_ASSERT_EQUAL_FATAL(
            source_blocks(sample.cache, second_blocks, sample.nblocks, &runs, &sources[1], &err), CKPT_OK);
        struct pool_job job = {
            .n = 1500, .weigh = equal_weight, .threads = 4, .task = read_some_range, .user = sources};
        CU_ASSERT_EQUAL(pool_run(&job, &err), CKPT_OK);
        source_unref(sources[1]);
        tear_down();
    }
}

/* ----------------------------------------------------------------------------- columns */

/* resident_kib - returns the resident memory of this process in KiB, or 0 if it is not known. */
static unsigned long resident_kib(void)
{
    unsigned long total, resident = 0; /* pages */
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%lu %lu", &total, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return resident * (unsigned long)sysconf(_SC_PAGESIZE) / 1024;
}

/* A tensor of 64 MiB is read from its first row to its last, 1 MiB at a time. Each of its blocks holds 128
 * columns, so each read needs all blocks, but each block is decoded only once. Resident memory grows by less
 * than 16 MiB. */
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
    unsigned long kib_before = 0, max_kib = 0, kib_now;
    bool ok = true;
    set_up(BLOCKS_IN_MEMORY, BLOCKS_IN_FILE);
    for (uint32_t i = 0; i < N; i++) {
        buf_u32le(&sample.compressed, ROWS * WIDTH);
        buf_byte(&sample.compressed, (uint8_t)i);
        (void)add_block(5, ROWS * WIDTH);
    }
    CU_ASSERT_EQUAL_FATAL(open_blocks(&runs, NULL), CKPT_OK);
    for (uint32_t i = 0; i < N; i++) {
        offset[i][1] = i * WIDTH;
        piece[i] = (struct piece){
            .offset = offset[i], .size = size, .src = sample.src, .at = sample.blocks[i].start};
    }
    struct pieces p = {.shape = shape, .ndim = 2, .width = 1, .piece = piece, .n = N};
    CU_ASSERT_EQUAL_FATAL(pieces_source(a, &p, &src, &at, NULL), CKPT_OK);
    kib_before = resident_kib();
    for (uint64_t from = 0; from < src->size; from += sizeof out) {
        ok = ok && source_read(src, at + from, out, sizeof out, NULL) == CKPT_OK;
        for (size_t i = 0; i < sizeof out; i += 61)
            ok = ok && out[i] == i / WIDTH % N;
        kib_now = resident_kib();
        max_kib = kib_now > max_kib ? kib_now : max_kib;
    }
    CU_ASSERT(ok);
    CU_ASSERT_EQUAL(sample.decode_calls, N);
    CU_ASSERT(!unit_measures_memory() || max_kib - kib_before < 16 * 1024);
    source_unref(src);
    arena_free(a);
    tear_down();
}

void suite_blocks(void)
{
    UNIT(blocks_are_decoded);
    UNIT(blocks_of_wrong_size_are_refused);
    UNIT(truncated_and_too_large_blocks_are_refused);
    UNIT(without_a_temporary_file_only_small_blocks_are_read);
    UNIT(threads_read_blocks);
    UNIT(columns_are_decoded_once);
}
