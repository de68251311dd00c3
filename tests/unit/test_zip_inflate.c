/* Reading large deflated members, here of stored blocks, at any offset, also where no directory lists them.
 * If one does, libzip must find the same member as our reader. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/crc32.h"
#include "codec/zip_header.h"
#include "codec/zip_inflate.h"
#include "unit.h"

#define MEMBER_SIZE 400000u /* too large to be inflated at once */
#define BLOCK_SIZE  50000u  /* bytes of the member in a deflate block of type "stored" */
#define DATA_OFFSET 31u     /* the offset of the member's payload, after a local header and the name "m" */

static unsigned char byte_at(size_t i) { return (unsigned char)(i * 7 + (i >> 8)); }

/* put_shared_fields - appends the fields that local and central headers have in common. */
static void put_shared_fields(buf *b, uint32_t crc, uint32_t csize, uint32_t usize)
{
    buf_u16le(b, ZIP_VERSION);
    buf_u16le(b, 0); /* flags */
    buf_u16le(b, ZIP_DEFLATED);
    buf_u32le(b, 0); /* time and date */
    buf_u32le(b, crc);
    buf_u32le(b, csize);
    buf_u32le(b, usize);
    buf_u16le(b, 1); /* length of the name */
    buf_u16le(b, 0); /* length of the extra field */
}

/* put_archive - writes an archive of one member "m" of MEMBER_SIZE bytes. Its headers have the uncompressed
 * size DECLARED_SIZE. */
static void put_archive(buf *b, uint32_t declared_size)
{
    buf bytes, packed;
    buf_init(b, 1 << 20);
    buf_init(&bytes, 1 << 20);
    buf_init(&packed, 1 << 20);
    for (size_t i = 0; i < MEMBER_SIZE; i++)
        buf_byte(&bytes, byte_at(i));
    for (size_t at = 0; at < MEMBER_SIZE; at += BLOCK_SIZE) {
        buf_byte(&packed, at + BLOCK_SIZE == MEMBER_SIZE);
        buf_u16le(&packed, BLOCK_SIZE);
        buf_u16le(&packed, (uint16_t)~BLOCK_SIZE);
        buf_put(&packed, bytes.data + at, BLOCK_SIZE);
    }
    uint32_t crc = crc32_update(0, bytes.data, MEMBER_SIZE), n = (uint32_t)packed.len;
    buf_u32le(b, ZIP_LOCAL);
    put_shared_fields(b, crc, n, declared_size);
    buf_put_cstr(b, "m");
    buf_put_str(b, buf_view(&packed));
    uint32_t directory = (uint32_t)b->len;
    buf_u32le(b, ZIP_CENTRAL);
    buf_u16le(b, ZIP_VERSION); /* made by */
    put_shared_fields(b, crc, n, declared_size);
    for (int i = 0; i < 14; i++)
        buf_byte(b, 0); /* comment length, disk, attributes, and the offset of the local header */
    buf_put_cstr(b, "m");
    uint32_t size = (uint32_t)b->len - directory;
    buf_u32le(b, ZIP_END);
    buf_u32le(b, 0); /* this disk, and the disk of the directory */
    buf_u16le(b, 1); /* entries on this disk, and in all */
    buf_u16le(b, 1);
    buf_u32le(b, size);
    buf_u32le(b, directory);
    buf_u16le(b, 0); /* length of the comment */
    buf_free(&bytes);
    buf_free(&packed);
}

/* An archive and its member, which was opened. */
struct opened_member {
    buf archive;
    inflater *inflater;
    source *src, *member;
    ckpt_error err;
};

/* the_member - returns the only member of O as its headers describe it. */
static struct inflater_member the_member(const struct opened_member *o, uint32_t declared_size)
{
    return (struct inflater_member){.name = STR_LIT("m"),
                                    .size = declared_size,
                                    .src = o->src,
                                    .data = DATA_OFFSET,
                                    .csize = MEMBER_SIZE + MEMBER_SIZE / BLOCK_SIZE * 5,
                                    .is_deflated = true,
                                    .is_listed = true};
}

static struct opened_member open_member(uint32_t declared_size, bool has_directory)
{
    struct opened_member o = {.inflater = NULL};
    put_archive(&o.archive, declared_size);
    o.src = source_mem(o.archive.data, has_directory ? o.archive.len : o.archive.len - 1, 0);
    o.inflater = inflater_new(source_ref(o.src));
    CU_ASSERT_PTR_NOT_NULL_FATAL(o.inflater);
    struct inflater_member m = the_member(&o, declared_size);
    m.is_listed = has_directory;
    CU_ASSERT_EQUAL_FATAL(inflater_open_member(o.inflater, &m, &o.member, &o.err), CKPT_OK);
    return o;
}

static void close_member(struct opened_member *o)
{
    source_unref(o->member);
    inflater_close(o->inflater);
    source_unref(o->src);
    buf_free(&o->archive);
}

static void check_any_offset(bool has_directory)
{
    static const struct {
        size_t at, size;
    } reads[] = {{300000, 10},
                 {0, 10},
                 {10, 5},
                 {100, 200000},
                 {200100, 1},
                 {MEMBER_SIZE - 1, 1},
                 {MEMBER_SIZE - 10, 5},
                 {MEMBER_SIZE - 10, 10},
                 {0, MEMBER_SIZE},
                 {1, 65536 + 5},
                 {MEMBER_SIZE - 5000, 0},
                 {5, 1}};
    struct opened_member o = open_member(MEMBER_SIZE, has_directory);
    unsigned char *got = malloc(MEMBER_SIZE);
    for (size_t i = 0; got && i < sizeof reads / sizeof *reads; i++) {
        size_t wrong = 0;
        CU_ASSERT_EQUAL(source_read(o.member, reads[i].at, got, reads[i].size, &o.err), CKPT_OK);
        for (size_t k = 0; k < reads[i].size; k++)
            wrong += got[k] != byte_at(reads[i].at + k);
        CU_ASSERT_EQUAL(wrong, 0);
    }
    free(got);
    close_member(&o);
}

static void members_are_read_at_any_offset(void)
{
    check_any_offset(true);
    check_any_offset(false);
}

/* The stream has one byte more than the central directory declares, or one less. Then the last declared byte
 * cannot be read, but the bytes at the beginning can. */
static void wrong_sizes_are_refused(void)
{
    for (int i = 0; i < 4; i++) {
        uint32_t declared_size = i % 2 ? MEMBER_SIZE + 1 : MEMBER_SIZE - 1;
        struct opened_member o = open_member(declared_size, i < 2);
        unsigned char byte;
        CU_ASSERT_EQUAL(source_read(o.member, declared_size - 1, &byte, 1, &o.err), CKPT_EFORMAT);
        CU_ASSERT(o.err.offset == DATA_OFFSET && strstr(o.err.what, "its deflated bytes ") != NULL);
        CU_ASSERT_EQUAL(source_read(o.member, 5, &byte, 1, &o.err), CKPT_OK);
        CU_ASSERT_EQUAL(byte, byte_at(5));
        close_member(&o);
    }
}

/* Bytes before a damaged block are read, the others not. */
static void damaged_blocks_are_refused(void)
{
    struct opened_member o = open_member(MEMBER_SIZE, true);
    unsigned char byte;
    o.archive.data[DATA_OFFSET + 3 * (BLOCK_SIZE + 5)] = 7; /* the type of a block that no encoder writes */
    CU_ASSERT_EQUAL(source_read(o.member, 3 * BLOCK_SIZE - 1, &byte, 1, &o.err), CKPT_OK);
    CU_ASSERT_EQUAL(source_read(o.member, 3 * BLOCK_SIZE, &byte, 1, &o.err), CKPT_EFORMAT);
    CU_ASSERT(o.err.offset == DATA_OFFSET && strstr(o.err.what, "data error (after 150000 of 400000 bytes)"));
    close_member(&o);
}

static void libzip_must_find_the_same_member(void)
{
    struct opened_member o = open_member(MEMBER_SIZE, true);
    source *m = NULL;
    static const struct {
        size_t index;
        ckpt_str name;
        uint64_t size;
    } cases[] = {
        /* the archive has one member, {0, "m", MEMBER_SIZE}; each case differs from it in one value */
        {1, {"m", 1}, MEMBER_SIZE},
        {0, {"n", 1}, MEMBER_SIZE},
        {0, {"m", 1}, MEMBER_SIZE - 1},
    };
    struct inflater_member member;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        member = the_member(&o, MEMBER_SIZE);
        member.index = cases[i].index;
        member.name = cases[i].name;
        member.size = cases[i].size;
        CU_ASSERT_EQUAL(inflater_open_member(o.inflater, &member, &m, &o.err), CKPT_EFORMAT);
        CU_ASSERT(o.err.offset == DATA_OFFSET && strstr(o.err.what, "readers would disagree") != NULL &&
                  strncmp(o.err.where, cases[i].name.ptr, 1) == 0);
    }
    inflater *f = inflater_new(source_mem("no archive", 10, 0));
    CU_ASSERT_EQUAL(inflater_open_member(f, &member, &m, &o.err), CKPT_EFORMAT);
    CU_ASSERT(o.err.offset == 0 && strstr(o.err.what, "libzip finds no sound archive, ") != NULL && !m);
    inflater_close(f);
    close_member(&o);
}

void suite_zip_inflate(void)
{
    UNIT(members_are_read_at_any_offset);
    UNIT(wrong_sizes_are_refused);
    UNIT(damaged_blocks_are_refused);
    UNIT(libzip_must_find_the_same_member);
}
