/* Salvaging zip archives without a central directory, by local headers and data descriptors. */
#include "base/buf.h"
#include "base/crc32.h"
#include "codec/zip.h"
#include "unit.h"

#define DESCRIPTOR 8u /* the flag for CRC and sizes after the payload */

/* A local header with its payload, and what is wrong in them. */
struct record {
    const char *name, *payload;
    uint16_t flags, method;
    uint32_t crc_off;          /* is added to the CRC-32 */
    int csize_off;             /* is added to the stored size */
    bool zip64, no_descriptor; /* the descriptor has 8-byte sizes, or is missing */
    uint16_t name_off;         /* is added to the length of the name */
    bool crc_none;             /* the CRC-32 is 0 */
    bool deflated;             /* in one stored block */
};

static void put_record(buf *b, const struct record *r)
{
    uint32_t n = (uint32_t)strlen(r->payload), stored = n + (r->deflated ? 5 : 0);
    uint32_t crc = r->crc_none ? 0 : crc32_update(0, r->payload, n) + r->crc_off;
    bool later = r->flags & DESCRIPTOR;
    buf_u32le(b, 0x04034B50);
    buf_u16le(b, 10);
    buf_u16le(b, r->flags);
    buf_u16le(b, r->deflated ? 8 : r->method);
    buf_u32le(b, 0);
    buf_u32le(b, later ? 0 : crc);
    buf_u32le(b, later ? 0 : stored + (uint32_t)r->csize_off);
    buf_u32le(b, later ? 0 : n);
    buf_u16le(b, (uint16_t)(strlen(r->name) + r->name_off));
    buf_u16le(b, 0);
    buf_text(b, r->name);
    if (r->deflated) {
        buf_byte(b, 1);
        buf_u16le(b, (uint16_t)n);
        buf_u16le(b, (uint16_t)~n);
    }
    buf_text(b, r->payload);
    if (!later || r->no_descriptor)
        return;
    buf_u32le(b, 0x08074B50);
    buf_u32le(b, crc);
    for (int i = 0; i < 2; i++) {
        uint32_t size = i ? n : stored + (uint32_t)r->csize_off;
        buf_u32le(b, size);
        if (r->zip64)
            buf_u32le(b, 0);
    }
}

/* The result of salvaging an archive. */
struct salvaged {
    unsigned char *bytes;
    size_t size;
    source *src;
    arena *a;
    zip *z;
    ckpt_status st;
    ckpt_error err;
};

static struct salvaged salvage(const buf *b)
{
    struct salvaged s = {.bytes = unit_guard(b->data, b->len), .size = b->len, .a = arena_new(1 << 24)};
    s.src = source_mem(s.bytes, b->len, 0);
    s.st = zip_salvage(s.src, s.a, &s.z, &s.err);
    return s;
}

static void close_salvaged(struct salvaged *s)
{
    zip_close(s->z);
    source_unref(s->src);
    arena_free(s->a);
    unit_guard_free(s->bytes, s->size);
}

static struct salvaged salvage_records(const struct record *r, size_t n)
{
    buf b;
    buf_init(&b, 1 << 20);
    for (size_t i = 0; i < n; i++)
        put_record(&b, &r[i]);
    struct salvaged s = salvage(&b);
    buf_free(&b);
    CU_ASSERT_EQUAL_FATAL(s.st, CKPT_OK);
    return s;
}

/* entry_is - returns whether entry NAME is intact and holds TEXT. */
static bool entry_is(struct salvaged *s, const char *name, const char *text)
{
    int64_t i = zip_find(s->z, str_c(name));
    source *m = NULL;
    char got[64] = {0};
    if (i < 0 || zip_open_member(s->z, (size_t)i, &m, NULL) != CKPT_OK)
        return false;
    bool is = m->size == strlen(text) && source_read(m, 0, got, strlen(text), NULL) == CKPT_OK;
    source_unref(m);
    return is && strcmp(got, text) == 0;
}

/* is_lost - returns whether entry NAME cannot be opened because of WHY. */
static bool is_lost(struct salvaged *s, const char *name, const char *why)
{
    int64_t i = zip_find(s->z, str_c(name));
    source *m = NULL;
    ckpt_error err = {0};
    if (i < 0 || !s->z->entries[i].fault || zip_open_member(s->z, (size_t)i, &m, &err) == CKPT_OK)
        return false;
    return strstr(s->z->entries[i].fault, why) && strstr(err.what, why);
}

static void intact_records_are_found(void)
{
    static const struct record r[] = {
        {.name = "a/sizes", .payload = "sizes before the payload"},
        {.name = "a/narrow", .payload = "sizes after", .flags = DESCRIPTOR},
        {.name = "a/wide", .payload = "sizes after, in 8 bytes", .flags = DESCRIPTOR, .zip64 = true},
        {.name = "a/PK\7\10name", .payload = "a signature in the name", .flags = DESCRIPTOR},
        {.name = "a/signatures", .payload = "PK\7\10 in the payload, and P alone, PK\3", .flags = DESCRIPTOR},
        {.name = "a/unsummed", .payload = "no CRC-32", .crc_none = true},
        {.name = "a/empty", .payload = ""},
        {.name = "a/packed", .payload = "deflated", .deflated = true},
        {.name = "a/packed2", .payload = "and PK\7\10 again", .deflated = true, .flags = DESCRIPTOR},
        {.name = "a/packed3", .payload = "wide", .deflated = true, .flags = DESCRIPTOR, .zip64 = true},
        {.name = "a/hidden", .payload = "not encrypted", .flags = DESCRIPTOR | 1},
    };
    struct salvaged s = salvage_records(r, sizeof r / sizeof *r);
    CU_ASSERT_EQUAL(s.z->n, sizeof r / sizeof *r);
    for (size_t i = 0; i < sizeof r / sizeof *r; i++)
        CU_ASSERT(entry_is(&s, r[i].name, r[i].payload));
    CU_ASSERT(s.z->entries[5].crc_unknown && !s.z->entries[0].crc_unknown);
    close_salvaged(&s);
}

static void damaged_records_are_named(void)
{
    static const struct record r[] = {
        {.name = "broken", .payload = "x", .method = 8},
        {.name = "method", .payload = "x", .method = 9},
        {.name = "packed", .payload = "xyz", .deflated = true, .crc_off = 1},
        {.name = "packed2", .payload = "xyz", .deflated = true, .csize_off = -1},
        {.name = "packed3", .payload = "xyz", .deflated = true, .flags = DESCRIPTOR, .csize_off = 1},
        {.name = "wrong", .payload = "other bytes", .crc_off = 1},
        {.name = "sizes", .payload = "two sizes ", .csize_off = -1},
        {.name = "endless", .payload = "no descriptor", .flags = DESCRIPTOR, .no_descriptor = true},
        {.name = "full", .payload = "x", .csize_off = -2},
        {.name = "cut", .payload = "x", .csize_off = 100000},
    };
    struct salvaged s = salvage_records(r, sizeof r / sizeof *r);
    CU_ASSERT(is_lost(&s, "broken", "its deflated bytes are broken"));
    CU_ASSERT(is_lost(&s, "method", "a method that is not known"));
    CU_ASSERT(is_lost(&s, "packed", "do not have the checksum"));
    CU_ASSERT(is_lost(&s, "packed2", "its deflated bytes are broken"));
    CU_ASSERT(is_lost(&s, "packed3", "its end is unknown"));
    CU_ASSERT(is_lost(&s, "wrong", "do not have the checksum"));
    CU_ASSERT(is_lost(&s, "sizes", "its two sizes differ"));
    CU_ASSERT(is_lost(&s, "endless", "its end is unknown"));
    CU_ASSERT(
        is_lost(&s, "full", "cut off, or its size is damaged")); /* the size is 2^32 - 1, as for zip64 */
    CU_ASSERT(is_lost(&s, "cut", "cut off, or its size is damaged"));
    close_salvaged(&s);
}

/* The last record of a truncated file is intact if its deflated bytes are complete. */
static void deflated_records_need_no_descriptor(void)
{
    buf b;
    buf_init(&b, 1 << 16);
    for (size_t less = 0; less < 10; less++) {
        b.len = 0;
        put_record(&b, &(struct record){
                           .name = "last", .payload = "12345678", .flags = DESCRIPTOR, .deflated = true});
        b.len -= 16 - 2; /* two bytes of the descriptor are left */
        b.len -= less;
        struct salvaged s = salvage(&b);
        CU_ASSERT_FATAL(s.st == CKPT_OK && s.z->n == 1);
        CU_ASSERT(less <= 2 ? entry_is(&s, "last", "12345678") && s.z->entries[0].crc_unknown
                            : is_lost(&s, "last", "its deflated bytes"));
        close_salvaged(&s);
    }
    buf_free(&b);
}

/* The size of the last record is unknown, so it reaches to the end of the file. */
static void the_last_record_of_a_truncated_file_is_kept(void)
{
    static const struct record r[] = {
        {.name = "first", .payload = "whole", .flags = DESCRIPTOR},
        {.name = "last", .payload = "not all", .flags = DESCRIPTOR, .no_descriptor = true},
    };
    struct salvaged s = salvage_records(r, 2);
    int64_t i = zip_find(s.z, STR_LIT("last"));
    CU_ASSERT_FATAL(i == 1);
    CU_ASSERT(s.z->entries[i].crc_unknown && !s.z->entries[i].fault && s.z->entries[i].csize == 7);
    close_salvaged(&s);
}

/* Only the directory determines which of two records with the same name is used. */
static void different_records_of_one_name_are_lost(void)
{
    static const struct record r[] = {
        {.name = "equal", .payload = "same"},
        {.name = "equal", .payload = "same", .flags = DESCRIPTOR},
        {.name = "twice", .payload = "early"},
        {.name = "twice", .payload = "later"},
        {.name = "bad", .payload = "bad", .crc_off = 1},
        {.name = "bad", .payload = "good"},
        {.name = "unsummed", .payload = "one", .crc_none = true},
        {.name = "unsummed", .payload = "one", .crc_none = true},
        {.name = "last", .payload = "x"},
    };
    struct salvaged s = salvage_records(r, sizeof r / sizeof *r);
    CU_ASSERT_EQUAL(s.z->n, 5);
    CU_ASSERT(entry_is(&s, "equal", "same"));
    CU_ASSERT(is_lost(&s, "twice", "two records have its name"));
    CU_ASSERT(is_lost(&s, "bad", "two records have its name"));
    CU_ASSERT(is_lost(&s, "unsummed", "two records have its name"));
    close_salvaged(&s);
}

/* The payload of a record without a descriptor is an archive. Its records are not records of the file. */
static void records_of_embedded_archives_are_ignored(void)
{
    static const struct record inner[] = {
        {.name = "a/data.pkl", .payload = "not this", .flags = DESCRIPTOR},
        {.name = "a/data/0", .payload = "nor this", .flags = DESCRIPTOR},
        {.name = "a/data/1", .payload = "nor that", .flags = DESCRIPTOR},
    };
    for (int followed = 0; followed < 3; followed++) {
        buf b;
        buf_init(&b, 1 << 20);
        put_record(&b, &(struct record){.name = "a/data.pkl", .payload = "this", .flags = DESCRIPTOR});
        put_record(&b, &(struct record){
                           .name = "a/data/0", .payload = "", .flags = DESCRIPTOR, .no_descriptor = true});
        for (size_t i = followed == 2; i < 3; i++)
            put_record(&b, &inner[i]);
        if (followed == 1)
            put_record(&b, &(struct record){.name = "a/data/2", .payload = "who knows", .flags = DESCRIPTOR});
        struct salvaged s = salvage(&b);
        CU_ASSERT_EQUAL_FATAL(s.st, CKPT_OK);
        CU_ASSERT(entry_is(&s, "a/data.pkl", "this"));
        CU_ASSERT(is_lost(&s, "a/data/0", "its end is unknown"));
        CU_ASSERT(zip_find(s.z, STR_LIT("a/data/1")) < 0 && zip_find(s.z, STR_LIT("a/data/2")) < 0);
        close_salvaged(&s);
        buf_free(&b);
    }
}

/* Skips a signature without a header, names that are too long or empty, and a truncated descriptor. */
static void malformed_headers_are_skipped(void)
{
    buf b;
    buf_init(&b, 1 << 20);
    put_record(&b, &(struct record){.name = "", .payload = "nameless"});
    put_record(&b, &(struct record){.name = "whole", .payload = "bytes"});
    put_record(&b, &(struct record){.name = "long", .payload = "", .name_off = 60000});
    buf_text(&b, "PK\3\4 no room");
    struct salvaged s = salvage(&b);
    CU_ASSERT_FATAL(s.st == CKPT_OK);
    CU_ASSERT(s.z->n == 1 && entry_is(&s, "whole", "bytes"));
    close_salvaged(&s);
    b.len = 0;
    put_record(&b, &(struct record){.name = "open", .payload = "x", .flags = DESCRIPTOR});
    b.len -= 2;
    s = salvage(&b);
    CU_ASSERT(s.st == CKPT_OK && s.z->n == 1 && s.z->entries[0].crc_unknown);
    close_salvaged(&s);
    b.len = 3; /* too short for a signature */
    s = salvage(&b);
    CU_ASSERT(s.st == CKPT_OK && s.z->n == 0);
    close_salvaged(&s);
    buf_free(&b);
}

/* At most 4096 descriptors with wrong sizes are read, so that the time stays linear. */
static void the_search_for_a_descriptor_is_limited(void)
{
    for (int beyond = 0; beyond < 2; beyond++) {
        buf b;
        buf_init(&b, 1 << 24);
        put_record(&b, &(struct record){
                           .name = "marked", .payload = "", .flags = DESCRIPTOR, .no_descriptor = true});
        size_t from = b.len;
        for (int i = 0; i < 4095 + beyond; i++)
            buf_text(&b, "PK\7\10 says nothing ");
        uint32_t n = (uint32_t)(b.len - from), crc = crc32_update(0, b.data + from, n);
        buf_u32le(&b, 0x08074B50);
        buf_u32le(&b, crc);
        buf_u32le(&b, n);
        buf_u32le(&b, n);
        struct salvaged s = salvage(&b);
        CU_ASSERT_FATAL(s.st == CKPT_OK && s.z->n == 1);
        CU_ASSERT_EQUAL(s.z->entries[0].crc_unknown, beyond == 1);
        close_salvaged(&s);
        buf_free(&b);
    }
}

/* Each of the many damaged records reaches to the end of the file. */
static void reading_overlapping_records_is_limited(void)
{
    enum { MANY = 20000 };
    buf b;
    buf_init(&b, 1 << 24);
    for (int i = 0; i < MANY; i++)
        put_record(&b, &(struct record){
                           .name = "claims", .payload = "", .crc_off = 1, .csize_off = (MANY - i - 1) * 36});
    struct salvaged s = salvage(&b);
    CU_ASSERT_FATAL(s.st == CKPT_OK && s.z->n == 1);
    CU_ASSERT(is_lost(&s, "claims", "two sizes differ"));
    close_salvaged(&s);
    buf_free(&b);
}

void suite_zip_salvage(void)
{
    UNIT(intact_records_are_found);
    UNIT(damaged_records_are_named);
    UNIT(deflated_records_need_no_descriptor);
    UNIT(the_last_record_of_a_truncated_file_is_kept);
    UNIT(different_records_of_one_name_are_lost);
    UNIT(records_of_embedded_archives_are_ignored);
    UNIT(malformed_headers_are_skipped);
    UNIT(the_search_for_a_descriptor_is_limited);
    UNIT(reading_overlapping_records_is_limited);
}
