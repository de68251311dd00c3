/* The reader returns the bytes of the source in any order of calls, and no bytes beyond its end. */
#include <stdlib.h>

#include "io/reader.h"
#include "unit.h"

#define SOURCE_SIZE 300000u

static unsigned char *data;
static source *src;

#define FIRST_OFFSET 1000 /* the offset that errors report for the first byte of the source */

/* open_source - opens a source of N bytes, which ends at an unmapped page. */
static void open_source(size_t n)
{
    unsigned char *bytes = malloc(n + 1);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)(i * 31 + i / 256);
    data = unit_guard(bytes, n);
    free(bytes);
    src = source_mem(data, n, FIRST_OFFSET);
}

static void close_source(size_t n)
{
    source_unref(src);
    unit_guard_free(data, n);
}

/* Mixes calls of reader_take, reader_peek and reader_skip with random sizes. */
static void any_order_of_calls_gives_the_bytes(void)
{
    open_source(SOURCE_SIZE);
    uint32_t seed = 1;
    for (int round = 0; round < 50; round++) {
        reader r;
        ckpt_error err;
        uint64_t at = 0;
        CU_ASSERT_FATAL(reader_init(&r, src, 0, SOURCE_SIZE, &err) == CKPT_OK);
        while (r.status == CKPT_OK && at < SOURCE_SIZE) {
            seed = seed * 1664525 + 1013904223;
            size_t n = (seed >> 8) % (seed & 1 ? 100u : READER_WINDOW);
            n = n < SOURCE_SIZE - at ? n : (size_t)(SOURCE_SIZE - at);
            const unsigned char *p = NULL;
            if (seed >> 30 <= 1)
                p = reader_take(&r, n);
            else if (seed >> 30 == 2)
                p = reader_peek(&r, n), reader_skip(&r, n);
            else
                CU_ASSERT(reader_skip(&r, n));
            CU_ASSERT(p == NULL || memcmp(p, data + at, n) == 0);
            at += n;
            CU_ASSERT(r.pos == at && reader_left(&r) == SOURCE_SIZE - at);
        }
        CU_ASSERT(r.status == CKPT_OK);
        reader_free(&r);
    }
    close_source(SOURCE_SIZE);
}

static void numbers_are_little_endian(void)
{
    static const unsigned char b[] = {4, 3, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1};
    source *s = source_mem(b, sizeof b, 0);
    reader r;
    CU_ASSERT_FATAL(reader_init(&r, s, 0, sizeof b, NULL) == CKPT_OK);
    CU_ASSERT(reader_u32(&r) == 0x1020304 && reader_u64(&r) == 0x102030405060708);
    CU_ASSERT(r.status == CKPT_OK && reader_left(&r) == 0);
    CU_ASSERT(reader_u32(&r) == 0 && r.status == CKPT_ETRUNCATED);
    reader_free(&r);
    source_unref(s);
}

static void the_first_error_is_kept(void)
{
    open_source(100);
    reader r;
    ckpt_error err;
    /* ranges that end after the source, or before they begin */
    CU_ASSERT(reader_init(&r, src, 0, 101, &err) == CKPT_ETRUNCATED);
    CU_ASSERT_STRING_EQUAL(err.what, "needs bytes 0 to 101, has 100 bytes");
    reader_free(&r);
    CU_ASSERT(reader_init(&r, src, 90, 80, &err) == CKPT_ETRUNCATED);
    reader_free(&r);
    CU_ASSERT_FATAL(reader_init(&r, src, 10, 20, &err) == CKPT_OK);
    CU_ASSERT(reader_take(&r, 8) && !reader_take(&r, 3));
    CU_ASSERT(r.status == CKPT_ETRUNCATED && err.offset == FIRST_OFFSET + 10 + 8 &&
              strstr(err.what, "needs 3 bytes, 2 are left"));
    CU_ASSERT(!reader_take(&r, 1) && !reader_take(&r, 0) && !reader_skip(&r, 0) && reader_left(&r) == 0);
    reader_free(&r);
    CU_ASSERT_FATAL(reader_init(&r, src, 0, 100, &err) == CKPT_OK);
    CU_ASSERT(!reader_skip(&r, UINT64_MAX) && r.status == CKPT_ETRUNCATED);
    reader_free(&r);
    close_source(100);
}

void suite_reader(void)
{
    UNIT(any_order_of_calls_gives_the_bytes);
    UNIT(numbers_are_little_endian);
    UNIT(the_first_error_is_kept);
}
