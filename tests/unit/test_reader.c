/* The reader: the same bytes whatever the window does, and nothing past the end. */
#include <stdlib.h>

#include "io/reader.h"
#include "unit.h"

#define N 300000u

static unsigned char *data;
static source *src;

static void begin(size_t n)
{
    unsigned char *b = malloc(n + 1);
    for (size_t i = 0; i < n; i++)
        b[i] = (unsigned char)(i * 31 + i / 256);
    data = unit_guard(b, n);
    free(b);
    src = source_mem(data, n, 1000);
}

static void finish(size_t n)
{
    source_unref(src);
    unit_guard_free(data, n);
}

/* Takes, copies, skips and numbers of every size, in an order that a small
 * generator chooses; each is held against the bytes themselves. */
static void any_order_gives_the_bytes(void)
{
    begin(N);
    unsigned char *out = malloc(N);
    uint32_t seed = 1;
    for (int round = 0; round < 50; round++) {
        reader r;
        ckpt_error err;
        uint64_t at = 0;
        CU_ASSERT_FATAL(reader_init(&r, src, 0, N, &err) == CKPT_OK);
        while (r.status == CKPT_OK && at < N) {
            seed = seed * 1664525 + 1013904223;
            size_t n = (seed >> 8) % (seed & 1 ? 100u : READER_WINDOW);
            n = n < N - at ? n : (size_t)(N - at);
            const unsigned char *p = out;
            if (seed >> 30 == 0)
                p = reader_take(&r, n);
            else if (seed >> 30 == 1)
                CU_ASSERT(reader_copy(&r, out, n))
            else if (seed >> 30 == 2)
                p = reader_peek(&r, n), reader_skip(&r, n);
            else if (reader_skip(&r, n))
                p = NULL;
            CU_ASSERT(p == NULL || memcmp(p, data + at, n) == 0);
            at += n;
            CU_ASSERT(r.pos == at && reader_left(&r) == N - at);
        }
        CU_ASSERT(r.status == CKPT_OK);
        reader_free(&r);
    }
    free(out);
    finish(N);
}

static void numbers_are_little_endian(void)
{
    static const unsigned char b[] = {1, 2, 1, 4, 3, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1};
    source *s = source_mem(b, sizeof b, 0);
    reader r;
    CU_ASSERT_FATAL(reader_init(&r, s, 0, sizeof b, NULL) == CKPT_OK);
    CU_ASSERT(reader_u8(&r) == 1 && reader_u16(&r) == 0x102);
    CU_ASSERT(reader_u32(&r) == 0x1020304 && reader_u64(&r) == 0x102030405060708);
    CU_ASSERT(r.status == CKPT_OK && reader_left(&r) == 0);
    CU_ASSERT(reader_u8(&r) == 0 && r.status == CKPT_ETRUNCATED);
    reader_free(&r);
    source_unref(s);
}

static void end_latches(void)
{
    begin(100);
    reader r;
    ckpt_error err;
    CU_ASSERT(reader_init(&r, src, 0, 101, &err) == CKPT_ETRUNCATED);
    reader_free(&r);
    CU_ASSERT(reader_init(&r, src, 90, 80, &err) == CKPT_ETRUNCATED);
    reader_free(&r);
    CU_ASSERT_FATAL(reader_init(&r, src, 10, 20, &err) == CKPT_OK);
    CU_ASSERT(reader_take(&r, 8) && !reader_take(&r, 3));
    CU_ASSERT(r.status == CKPT_ETRUNCATED && err.offset == 1018 &&
              strstr(err.what, "needs 3 bytes, 2 are left"));
    CU_ASSERT(!reader_take(&r, 1) && !reader_take(&r, 0) && !reader_skip(&r, 0) && reader_left(&r) == 0);
    CU_ASSERT(!reader_copy(&r, NULL, 0) && reader_line(&r, 10).ptr == NULL);
    reader_free(&r);
    CU_ASSERT_FATAL(reader_init(&r, src, 0, 100, &err) == CKPT_OK);
    CU_ASSERT(!reader_skip(&r, UINT64_MAX) && r.status == CKPT_ETRUNCATED);
    reader_free(&r);
    finish(100);
}

static void lines_end_at_newlines(void)
{
    size_t n = 200000;
    char *text = malloc(n);
    for (size_t i = 0; i < n; i++)
        text[i] = i % 97 == 96 ? '\n' : 'x';
    unsigned char *b = unit_guard(text, n);
    free(text);
    source *s = source_mem(b, n, 0);
    reader r;
    ckpt_error err;
    CU_ASSERT_FATAL(reader_init(&r, s, 0, n, &err) == CKPT_OK);
    for (size_t i = 0; i < n / 97; i++) {
        ckpt_str l = reader_line(&r, i % 2 ? 96 : READER_WINDOW - 1);
        CU_ASSERT(l.len == 96 && l.ptr[0] == 'x' && l.ptr[95] == 'x');
    }
    CU_ASSERT(reader_left(&r) == n % 97);
    CU_ASSERT(reader_line(&r, 1000).ptr == NULL && r.status == CKPT_ETRUNCATED);
    reader_free(&r);
    CU_ASSERT_FATAL(reader_init(&r, s, 0, n, &err) == CKPT_OK);
    CU_ASSERT(reader_line(&r, 95).ptr == NULL && r.status == CKPT_EFORMAT);
    reader_free(&r);
    source_unref(s);
    unit_guard_free(b, n);
}

void suite_reader(void)
{
    UNIT(any_order_gives_the_bytes);
    UNIT(numbers_are_little_endian);
    UNIT(end_latches);
    UNIT(lines_end_at_newlines);
}
