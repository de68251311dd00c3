/* Streams of unknown size are inflated. Several gzip members are one stream. Truncated and damaged streams,
 * and streams that need a dictionary, are refused with the offset. The streams here consist of stored
 * blocks. */
#include "base/buf.h"
#include "base/crc32.h"
#include "codec/inflate.h"
#include "unit.h"

static void put_stored(buf *b, ckpt_str text)
{
    buf_byte(b, 1); /* a stored block, marked as the last */
    buf_u16le(b, (uint16_t)text.len);
    buf_u16le(b, (uint16_t)~text.len);
    buf_put_str(b, text);
}

static void put_gzip(buf *b, ckpt_str text)
{
    buf_put(b, "\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
    put_stored(b, text);
    buf_u32le(b, crc32_update(0, text.ptr, text.len));
    buf_u32le(b, (uint32_t)text.len);
}

/* The result of unpack: the status, the numbers of bytes read and written, and the first 63 bytes written. */
struct inflated {
    ckpt_status st;
    ckpt_error err;
    uint64_t used, size;
    char text[64];
};

/* unpack - inflates B from byte SKIP on, to at most MAX bytes. */
static struct inflated unpack(const buf *b, enum inflate_kind kind, size_t skip, uint64_t max)
{
    struct inflated u = {0};
    unsigned char *bytes = unit_guard(b->data, b->len);
    source *src = source_mem(bytes, b->len, 0);
    spool *written = spool_new(max);
    u.st = inflate_into(src, skip, b->len - skip, kind, written, &u.used, &u.err);
    u.size = spool_size(written);
    source *out = spool_source(written);
    CU_ASSERT_EQUAL(source_read(out, 0, u.text, u.size < 63 ? (size_t)u.size : 63, NULL), CKPT_OK);
    source_unref(out);
    source_unref(src);
    unit_guard_free(bytes, b->len);
    return u;
}

static void streams_are_inflated(void)
{
    buf b;
    buf_init(&b, 1 << 16);
    buf_put_cstr(&b, "before");
    put_stored(&b, STR_LIT("bare"));
    buf_put_cstr(&b, "after");
    struct inflated u = unpack(&b, INFLATE_RAW, 6, 100);
    CU_ASSERT(u.st == CKPT_OK && u.used == 5 + strlen("bare") && strcmp(u.text, "bare") == 0);
    b.len = 0;
    buf_put(&b, "\x78\x01", 2);
    put_stored(&b, STR_LIT("zlib"));
    buf_put(&b, "\x04\x64\x01\xb2", 4); /* Adler-32 of "zlib" */
    u = unpack(&b, INFLATE_ZLIB, 0, 100);
    CU_ASSERT(u.st == CKPT_OK && u.used == b.len && strcmp(u.text, "zlib") == 0);
    b.data[b.len - 1] ^= 1;
    u = unpack(&b, INFLATE_ZLIB, 0, 100);
    CU_ASSERT(u.st == CKPT_EFORMAT && u.err.offset == b.len && strstr(u.err.what, "incorrect data check"));
    buf_free(&b);
}

/* Bytes after a gzip member belong to the stream only if they are a gzip member, too. */
static void gzip_members_are_joined(void)
{
    static const struct {
        const char *suffix;
        const char *text;
    } cases[] = {
        {"", "one"},
        {"short", "one"},
        {"something else of 18 bytes or more", "one"},
        {"\x1fsomething else of 18 bytes or more", "one"},
    };
    buf b;
    buf_init(&b, 1 << 16);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        b.len = 0;
        put_gzip(&b, STR_LIT("one"));
        uint64_t member_size = b.len;
        buf_put_cstr(&b, cases[i].suffix);
        struct inflated u = unpack(&b, INFLATE_GZIP, 0, 100);
        CU_ASSERT(u.st == CKPT_OK && u.used == member_size && strcmp(u.text, cases[i].text) == 0);
    }
    b.len = 0;
    put_gzip(&b, STR_LIT("one"));
    put_gzip(&b, STR_LIT(" two"));
    struct inflated u = unpack(&b, INFLATE_GZIP, 0, 100);
    CU_ASSERT(u.st == CKPT_OK && u.used == b.len && strcmp(u.text, "one two") == 0);
    u = unpack(&b, INFLATE_GZIP, 0, 5);
    CU_ASSERT(u.st == CKPT_ELIMIT && u.size <= 5);
    b.data[b.len - 17] = 7; /* an invalid block type in the second member */
    u = unpack(&b, INFLATE_GZIP, 0, 100);
    CU_ASSERT(u.st == CKPT_EFORMAT && strncmp(u.text, "one", 3) == 0);
    buf_free(&b);
}

static void truncated_streams_are_refused(void)
{
    buf b;
    buf_init(&b, 1 << 16);
    put_gzip(&b, STR_LIT("all of it"));
    size_t complete_size = b.len;
    for (b.len = 1; b.len < complete_size; b.len++) {
        struct inflated u = unpack(&b, INFLATE_GZIP, 0, 100);
        CU_ASSERT(u.st == CKPT_ETRUNCATED && u.err.offset == b.len && strstr(u.err.what, "end too early"));
    }
    buf_free(&b);
}

static void damaged_streams_are_refused(void)
{
    buf b;
    buf_init(&b, 1 << 16);
    buf_put(&b, "\x07\0\0\0\0", 5);
    struct inflated u = unpack(&b, INFLATE_RAW, 0, 100);
    CU_ASSERT(u.st == CKPT_EFORMAT && strstr(u.err.what, "broken deflated bytes: invalid block type"));
    b.len = 0;
    buf_put(&b, "\x78\xbb\0\0\0\1\1\0\0\xff\xff", 11); /* FDICT: needs a dictionary */
    u = unpack(&b, INFLATE_ZLIB, 0, 100);
    CU_ASSERT(u.st == CKPT_EFORMAT && strstr(u.err.what, "a dictionary is needed"));
    buf_free(&b);
}

/* The end, size and CRC-32 of a stream of four blocks are found, also if other bytes follow. */
static void streams_are_measured(void)
{
    enum { BLOCKS = 4, BLOCK_SIZE = 50000 };
    static unsigned char inflated[BLOCKS * BLOCK_SIZE];
    buf b;
    buf_init(&b, 1 << 20);
    buf_put_cstr(&b, "before");
    for (size_t i = 0; i < sizeof inflated; i++)
        inflated[i] = (unsigned char)(i * i >> 7);
    for (int i = 0; i < BLOCKS; i++) {
        put_stored(&b, str_of((const char *)inflated + i * BLOCK_SIZE, BLOCK_SIZE));
        b.data[b.len - BLOCK_SIZE - 5] = i == BLOCKS - 1; /* only the last block is marked as the last */
    }
    uint64_t stream_size = b.len - 6, used, size;
    buf_put_cstr(&b, "after");
    source *src = source_mem(b.data, b.len, 0);
    uint32_t crc;
    ckpt_error err;
    CU_ASSERT_EQUAL(inflate_measure(src, 6, b.len - 6, &used, &size, &crc, &err), CKPT_OK);
    CU_ASSERT(used == stream_size && size == sizeof inflated &&
              crc == crc32_update(0, inflated, sizeof inflated));
    CU_ASSERT_EQUAL(inflate_measure(src, 6, stream_size - 1, &used, &size, &crc, &err), CKPT_ETRUNCATED);
    source_unref(src);
    buf_free(&b);
}

void suite_inflate(void)
{
    UNIT(streams_are_inflated);
    UNIT(streams_are_measured);
    UNIT(gzip_members_are_joined);
    UNIT(truncated_streams_are_refused);
    UNIT(damaged_streams_are_refused);
}
