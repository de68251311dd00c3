/* Reading large deflated members, here of stored blocks, at any offset. libzip is used only if it finds the
 * same member as our reader. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/crc32.h"
#include "codec/zip_inflate.h"
#include "unit.h"

#define LARGE 400000u /* too large to be inflated at once */
#define BLOCK 50000u

static unsigned char byte_at(size_t i) { return (unsigned char)(i * 7 + (i >> 8)); }

static void put_entry(buf *b, uint32_t crc, uint32_t csize, uint32_t usize)
{
    buf_u16le(b, 20);
    buf_u16le(b, 0);
    buf_u16le(b, 8);
    buf_u32le(b, 0);
    buf_u32le(b, crc);
    buf_u32le(b, csize);
    buf_u32le(b, usize);
    buf_u16le(b, 1);
    buf_u16le(b, 0);
}

/* put_archive - appends an archive of one member "m" of LARGE bytes, whose header has the size DECLARED. */
static void put_archive(buf *b, uint32_t declared)
{
    buf bytes, packed;
    buf_init(b, 1 << 20);
    buf_init(&bytes, 1 << 20);
    buf_init(&packed, 1 << 20);
    for (size_t i = 0; i < LARGE; i++)
        buf_byte(&bytes, byte_at(i));
    for (size_t at = 0; at < LARGE; at += BLOCK) {
        buf_byte(&packed, at + BLOCK == LARGE);
        buf_u16le(&packed, BLOCK);
        buf_u16le(&packed, (uint16_t)~BLOCK);
        buf_put(&packed, bytes.data + at, BLOCK);
    }
    uint32_t crc = crc32_update(0, bytes.data, LARGE), n = (uint32_t)packed.len;
    buf_u32le(b, 0x04034B50);
    put_entry(b, crc, n, declared);
    buf_text(b, "m");
    buf_str(b, buf_view(&packed));
    uint32_t at = (uint32_t)b->len;
    buf_u32le(b, 0x02014B50);
    buf_u16le(b, 20);
    put_entry(b, crc, n, declared);
    for (int i = 0; i < 14; i++)
        buf_byte(b, 0);
    buf_text(b, "m");
    uint32_t size = (uint32_t)b->len - at;
    buf_u32le(b, 0x06054B50);
    buf_u32le(b, 0);
    buf_u16le(b, 1);
    buf_u16le(b, 1);
    buf_u32le(b, size);
    buf_u32le(b, at);
    buf_u16le(b, 0);
    buf_free(&bytes);
    buf_free(&packed);
}

/* An archive whose member M was opened. */
struct opened {
    buf b;
    inflater *f;
    source *m;
    ckpt_error err;
};

static struct opened open_member(uint32_t declared)
{
    struct opened o = {.f = NULL};
    put_archive(&o.b, declared);
    CU_ASSERT_EQUAL_FATAL(inflater_open(source_mem(o.b.data, o.b.len, 0), &o.f, &o.err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(inflater_open_member(o.f, 0, STR_LIT("m"), declared, 31, &o.m, &o.err), CKPT_OK);
    return o;
}

static void close_member(struct opened *o)
{
    source_unref(o->m);
    inflater_close(o->f);
    buf_free(&o->b);
}

static void members_are_read_at_any_offset(void)
{
    static const struct {
        size_t at, n;
    } reads[] = {{300000, 10}, {0, 10},        {10, 5},           {100, 200000},
                 {200100, 1},  {LARGE - 1, 1}, {LARGE - 10, 5},   {LARGE - 10, 10},
                 {0, LARGE},   {1, 65536 + 5}, {LARGE - 5000, 0}, {5, 1}};
    struct opened o = open_member(LARGE);
    unsigned char *got = malloc(LARGE);
    for (size_t i = 0; got && i < sizeof reads / sizeof *reads; i++) {
        size_t wrong = 0;
        CU_ASSERT_EQUAL(source_read(o.m, reads[i].at, got, reads[i].n, &o.err), CKPT_OK);
        for (size_t k = 0; k < reads[i].n; k++)
            wrong += got[k] != byte_at(reads[i].at + k);
        CU_ASSERT_EQUAL(wrong, 0);
    }
    free(got);
    close_member(&o);
}

/* The stream has one byte more than the central directory declares, or one less. */
static void wrong_sizes_are_refused(void)
{
    static const struct {
        uint32_t declared;
    } cases[] = {{LARGE - 1}, {LARGE + 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct opened o = open_member(cases[i].declared);
        unsigned char one;
        CU_ASSERT_EQUAL(source_read(o.m, cases[i].declared - 1, &one, 1, &o.err), CKPT_EFORMAT);
        CU_ASSERT(o.err.offset == 31 && strstr(o.err.what, "its deflated bytes ") != NULL);
        CU_ASSERT_EQUAL(source_read(o.m, 5, &one, 1, &o.err), CKPT_OK); /* but its beginning can be read */
        CU_ASSERT_EQUAL(one, byte_at(5));
        close_member(&o);
    }
}

static void libzip_must_find_the_same_member(void)
{
    struct opened o = open_member(LARGE);
    source *m = NULL;
    static const struct {
        size_t index;
        ckpt_str name;
        uint64_t size;
    } cases[] = {{1, {"m", 1}, LARGE}, {0, {"n", 1}, LARGE}, {0, {"m", 1}, LARGE - 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CU_ASSERT_EQUAL(
            inflater_open_member(o.f, cases[i].index, cases[i].name, cases[i].size, 31, &m, &o.err),
            CKPT_EFORMAT);
        CU_ASSERT(o.err.offset == 31 && strstr(o.err.what, "readers would disagree") != NULL &&
                  strncmp(o.err.where, cases[i].name.ptr, 1) == 0);
    }
    inflater *f = NULL;
    CU_ASSERT_EQUAL(inflater_open(source_mem("no archive", 10, 0), &f, &o.err), CKPT_EFORMAT);
    CU_ASSERT(o.err.offset == 0 && strstr(o.err.what, "libzip finds no sound archive, ") != NULL && !f);
    close_member(&o);
}

void suite_zip_inflate(void)
{
    UNIT(members_are_read_at_any_offset);
    UNIT(wrong_sizes_are_refused);
    UNIT(libzip_must_find_the_same_member);
}
