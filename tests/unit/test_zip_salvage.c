/* Salvaging zip archives by local headers and data descriptors, mostly without a central directory. */
#include "base/buf.h"
#include "base/crc32.h"
#include "base/store.h"
#include "bytes.h"
#include "codec/zip.h"
#include "codec/zip_header.h"
#include "unit.h"
#include "zipped.h"

/* A local header with its payload, and what is wrong in them. A data descriptor follows the payload if flags
 * has ZIP_FLAG_DESCRIPTOR. */
struct record {
    const char *name, *payload;
    uint16_t flags, method;
    uint32_t add_crc;         /* a number added to the CRC-32 */
    int add_csize;            /* a number added to the stored size */
    uint16_t add_name_length; /* a number added to the length of the name in the header */
    bool zip64;               /* the descriptor has sizes of 8 bytes */
    bool no_descriptor;       /* the descriptor is missing, although the flag is set */
    bool no_crc;              /* the CRC-32 is 0 */
    bool deflated; /* the payload is one deflate block of type "stored", with a header of 5 bytes */
};

static void put_record(buf *b, const struct record *r)
{
    uint32_t usize = (uint32_t)strlen(r->payload);
    uint32_t csize = usize + (r->deflated ? 5 : 0) + (uint32_t)r->add_csize;
    uint32_t crc = r->no_crc ? 0 : crc32_update(0, r->payload, usize) + r->add_crc;
    bool in_descriptor = r->flags & ZIP_FLAG_DESCRIPTOR;
    buf_u32le(b, ZIP_LOCAL);
    buf_u16le(b, ZIP_VERSION);
    buf_u16le(b, r->flags);
    buf_u16le(b, r->deflated ? ZIP_DEFLATED : r->method);
    buf_u32le(b, 0); /* time and date */
    buf_u32le(b, in_descriptor ? 0 : crc);
    buf_u32le(b, in_descriptor ? 0 : csize);
    buf_u32le(b, in_descriptor ? 0 : usize);
    buf_u16le(b, (uint16_t)(strlen(r->name) + r->add_name_length));
    buf_u16le(b, 0); /* length of the extra field */
    buf_put_cstr(b, r->name);
    if (r->deflated) {
        buf_byte(b, 1); /* the last block; it is stored */
        buf_u16le(b, (uint16_t)usize);
        buf_u16le(b, (uint16_t)~usize);
    }
    buf_put_cstr(b, r->payload);
    if (!in_descriptor || r->no_descriptor)
        return;
    buf_u32le(b, ZIP_DESCRIPTOR);
    buf_u32le(b, crc);
    buf_u32le(b, csize);
    if (r->zip64)
        buf_u32le(b, 0); /* the upper half of the size */
    buf_u32le(b, usize);
    if (r->zip64)
        buf_u32le(b, 0);
}

/* The result of salvaging an archive. */
struct salvaged_archive {
    unsigned char *bytes;
    size_t size;
    source *src;
    arena *arena;
    zip *zip;
    ckpt_status status;
    ckpt_error err;
};

static struct salvaged_archive salvage(const buf *b)
{
    struct salvaged_archive s = {
        .bytes = unit_guard(b->data, b->len), .size = b->len, .arena = arena_new(1 << 24)};
    s.src = source_mem(s.bytes, b->len, 0);
    s.status = zip_salvage(s.src, s.arena, &s.zip, &s.err);
    return s;
}

static void close_salvaged(struct salvaged_archive *s)
{
    zip_close(s->zip);
    source_unref(s->src);
    arena_free(s->arena);
    unit_guard_free(s->bytes, s->size);
}

static struct salvaged_archive salvage_records(const struct record *r, size_t n)
{
    buf b;
    buf_init(&b, 1 << 20);
    for (size_t i = 0; i < n; i++)
        put_record(&b, &r[i]);
    struct salvaged_archive s = salvage(&b);
    buf_free(&b);
    CU_ASSERT_EQUAL_FATAL(s.status, CKPT_OK);
    return s;
}

/* entry_is - returns whether entry NAME is intact and holds TEXT. */
static bool entry_is(struct salvaged_archive *s, const char *name, const char *text)
{
    int64_t i = zip_find(s->zip, str_c(name));
    source *member = NULL;
    char got[64] = {0};
    if (i < 0 || zip_open_member(s->zip, (size_t)i, &member, NULL) != CKPT_OK)
        return false;
    bool holds_text = member->size == strlen(text) &&
                      source_read(member, 0, got, strlen(text), NULL) == CKPT_OK;
    source_unref(member);
    return holds_text && strcmp(got, text) == 0;
}

/* is_lost - returns whether entry NAME cannot be opened because of WHY. */
static bool is_lost(struct salvaged_archive *s, const char *name, const char *why)
{
    int64_t i = zip_find(s->zip, str_c(name));
    source *member = NULL;
    ckpt_error err = {0};
    if (i < 0 || !s->zip->entries[i].fault || zip_open_member(s->zip, (size_t)i, &member, &err) == CKPT_OK)
        return false;
    return strstr(s->zip->entries[i].fault, why) && strstr(err.what, why);
}

static void intact_records_are_found(void)
{
    static const struct record r[] = {
        {.name = "a/sizes", .payload = "sizes before the payload"},
        {.name = "a/narrow", .payload = "sizes after", .flags = ZIP_FLAG_DESCRIPTOR},
        {.name = "a/wide", .payload = "sizes after, in 8 bytes", .flags = ZIP_FLAG_DESCRIPTOR, .zip64 = true},
        {.name = "a/PK\7\10name", .payload = "a signature in the name", .flags = ZIP_FLAG_DESCRIPTOR},
        {.name = "a/signatures",
         .payload = "PK\7\10 in the payload, and P alone, PK\3",
         .flags = ZIP_FLAG_DESCRIPTOR},
        {.name = "a/unsummed", .payload = "no CRC-32", .no_crc = true},
        {.name = "a/empty", .payload = ""},
        {.name = "a/packed", .payload = "deflated", .deflated = true},
        {.name = "a/packed2", .payload = "and PK\7\10 again", .deflated = true, .flags = ZIP_FLAG_DESCRIPTOR},
        {.name = "a/packed3",
         .payload = "wide",
         .deflated = true,
         .flags = ZIP_FLAG_DESCRIPTOR,
         .zip64 = true},
        {.name = "a/flagged", .payload = "not encrypted", .flags = ZIP_FLAG_DESCRIPTOR | ZIP_FLAG_ENCRYPTED},
    };
    struct salvaged_archive s = salvage_records(r, sizeof r / sizeof *r);
    CU_ASSERT_EQUAL(s.zip->n, sizeof r / sizeof *r);
    for (size_t i = 0; i < sizeof r / sizeof *r; i++)
        CU_ASSERT(entry_is(&s, r[i].name, r[i].payload));
    CU_ASSERT(s.zip->entries[5].crc_unknown && !s.zip->entries[0].crc_unknown); /* [5] is "a/unsummed" */
    close_salvaged(&s);
}

static void damaged_records_are_lost_with_a_reason(void)
{
    static const struct record r[] = {
        {.name = "broken", .payload = "x", .method = ZIP_DEFLATED},
        {.name = "method", .payload = "x", .method = 9},
        {.name = "packed", .payload = "xyz", .deflated = true, .add_crc = 1},
        {.name = "packed2", .payload = "xyz", .deflated = true, .add_csize = -1},
        {.name = "packed3", .payload = "xyz", .deflated = true, .flags = ZIP_FLAG_DESCRIPTOR, .add_csize = 1},
        {.name = "wrong", .payload = "other bytes", .add_crc = 1},
        {.name = "sizes", .payload = "two sizes ", .add_csize = -1},
        {.name = "endless", .payload = "no descriptor", .flags = ZIP_FLAG_DESCRIPTOR, .no_descriptor = true},
        {.name = "full", .payload = "x", .add_csize = -2},     /* the size is 2^32 - 1, as for zip64 */
        {.name = "long", .payload = "x", .add_csize = 100000}, /* the size reaches beyond the file */
    };
    struct salvaged_archive s = salvage_records(r, sizeof r / sizeof *r);
    CU_ASSERT(is_lost(&s, "broken", "its deflated bytes are broken"));
    CU_ASSERT(is_lost(&s, "method", "by a method that ckpt does not unpack"));
    CU_ASSERT(is_lost(&s, "packed", "do not have the checksum"));
    CU_ASSERT(is_lost(&s, "packed2", "its deflated bytes are broken"));
    CU_ASSERT(is_lost(&s, "packed3", "its end is unknown"));
    CU_ASSERT(is_lost(&s, "wrong", "do not have the checksum"));
    CU_ASSERT(is_lost(&s, "sizes", "its two sizes differ"));
    CU_ASSERT(is_lost(&s, "endless", "its end is unknown"));
    CU_ASSERT(is_lost(&s, "full", "cut off, or its size is damaged"));
    CU_ASSERT(is_lost(&s, "long", "cut off, or its size is damaged"));
    close_salvaged(&s);
}

/* The last record of a truncated file is lost without its descriptor, even if its deflated bytes are
 * complete. */
static void deflated_records_need_a_descriptor(void)
{
    buf b;
    buf_init(&b, 1 << 16);
    for (size_t missing_bytes = 0; missing_bytes < 26; missing_bytes++) {
        b.len = 0;
        put_record(
            &b, &(struct record){
                    .name = "last", .payload = "12345678", .flags = ZIP_FLAG_DESCRIPTOR, .deflated = true});
        b.len -= missing_bytes; /* the first 16 of these are the descriptor */
        struct salvaged_archive s = salvage(&b);
        CU_ASSERT_FATAL(s.status == CKPT_OK && s.zip->n == 1);
        CU_ASSERT(missing_bytes ? is_lost(&s, "last", "before its size and checksum")
                                : entry_is(&s, "last", "12345678"));
        close_salvaged(&s);
    }
    buf_free(&b);
}

/* Nothing shows that the last record is complete, because its descriptor is missing. */
static void a_last_record_without_descriptor_is_lost(void)
{
    static const struct record r[] = {
        {.name = "first", .payload = "whole", .flags = ZIP_FLAG_DESCRIPTOR},
        {.name = "last", .payload = "not all", .flags = ZIP_FLAG_DESCRIPTOR, .no_descriptor = true},
    };
    struct salvaged_archive s = salvage_records(r, 2);
    int64_t i = zip_find(s.zip, STR_LIT("last"));
    CU_ASSERT_FATAL(i == 1);
    CU_ASSERT(is_lost(&s, "last", "before its size and checksum"));
    CU_ASSERT(entry_is(&s, "first", "whole"));
    close_salvaged(&s);
}

/* Only a central directory could show which of two records with the same name is valid. */
static void different_records_of_one_name_are_lost(void)
{
    static const struct record r[] = {
        {.name = "equal", .payload = "same"},
        {.name = "equal", .payload = "same", .flags = ZIP_FLAG_DESCRIPTOR},
        {.name = "twice", .payload = "early"},
        {.name = "twice", .payload = "later"},
        {.name = "bad", .payload = "bad", .add_crc = 1},
        {.name = "bad", .payload = "good"},
        {.name = "unsummed", .payload = "one", .no_crc = true},
        {.name = "unsummed", .payload = "one", .no_crc = true},
        {.name = "last", .payload = "x"},
    };
    struct salvaged_archive s = salvage_records(r, sizeof r / sizeof *r);
    CU_ASSERT_EQUAL(s.zip->n, 5);
    CU_ASSERT(entry_is(&s, "equal", "same"));
    CU_ASSERT(is_lost(&s, "twice", "two records have its name"));
    CU_ASSERT(is_lost(&s, "bad", "two records have its name"));
    CU_ASSERT(is_lost(&s, "unsummed", "two records have its name"));
    close_salvaged(&s);
}

/* The payload of a/data/0, a record without a descriptor, is an archive of its own. Its records are not
 * records of the file. */
static void records_of_embedded_archives_are_ignored(void)
{
    static const struct record inner[] = {
        {.name = "a/data.pkl", .payload = "not this", .flags = ZIP_FLAG_DESCRIPTOR},
        {.name = "a/data/0", .payload = "nor this", .flags = ZIP_FLAG_DESCRIPTOR},
        {.name = "a/data/1", .payload = "nor that", .flags = ZIP_FLAG_DESCRIPTOR},
    };
    enum { NOTHING_FOLLOWS, A_RECORD_FOLLOWS, INNER_HAS_NO_DATA_PKL, CASES };
    for (int variant = 0; variant < CASES; variant++) {
        buf b;
        buf_init(&b, 1 << 20);
        put_record(&b,
                   &(struct record){.name = "a/data.pkl", .payload = "this", .flags = ZIP_FLAG_DESCRIPTOR});
        put_record(
            &b, &(struct record){
                    .name = "a/data/0", .payload = "", .flags = ZIP_FLAG_DESCRIPTOR, .no_descriptor = true});
        for (size_t i = variant == INNER_HAS_NO_DATA_PKL; i < 3; i++)
            put_record(&b, &inner[i]);
        if (variant == A_RECORD_FOLLOWS)
            put_record(&b, &(struct record){
                               .name = "a/data/2", .payload = "who knows", .flags = ZIP_FLAG_DESCRIPTOR});
        struct salvaged_archive s = salvage(&b);
        CU_ASSERT_EQUAL_FATAL(s.status, CKPT_OK);
        CU_ASSERT(entry_is(&s, "a/data.pkl", "this"));
        CU_ASSERT(is_lost(&s, "a/data/0", "its end is unknown"));
        CU_ASSERT(zip_find(s.zip, STR_LIT("a/data/1")) < 0 && zip_find(s.zip, STR_LIT("a/data/2")) < 0);
        close_salvaged(&s);
        buf_free(&b);
    }
}

static void malformed_headers_are_skipped(void)
{
    buf b;
    buf_init(&b, 1 << 20);
    put_record(&b, &(struct record){.name = "", .payload = "nameless"});
    put_record(&b, &(struct record){.name = "whole", .payload = "bytes"});
    put_record(&b, &(struct record){.name = "long", .payload = "", .add_name_length = 60000});
    buf_put_cstr(&b, "PK\3\4 no room"); /* a signature without a header */
    struct salvaged_archive s = salvage(&b);
    CU_ASSERT_FATAL(s.status == CKPT_OK);
    CU_ASSERT(s.zip->n == 1 && entry_is(&s, "whole", "bytes"));
    close_salvaged(&s);
    b.len = 0;
    put_record(&b, &(struct record){.name = "open", .payload = "x", .flags = ZIP_FLAG_DESCRIPTOR});
    b.len -= 2; /* truncates the descriptor */
    s = salvage(&b);
    CU_ASSERT(s.status == CKPT_OK && s.zip->n == 1 && s.zip->entries[0].crc_unknown);
    close_salvaged(&s);
    b.len = 3; /* too short for a signature */
    s = salvage(&b);
    CU_ASSERT(s.status == CKPT_OK && s.zip->n == 0);
    close_salvaged(&s);
    buf_free(&b);
}

/* At most 4096 signatures of descriptors are checked in a payload, so that the time stays linear. Here, the
 * descriptor with the right sizes is the 4096th or, if BEYOND, the 4097th. */
static void the_search_for_a_descriptor_is_limited(void)
{
    for (int beyond = 0; beyond < 2; beyond++) {
        buf b;
        buf_init(&b, 1 << 24);
        put_record(&b,
                   &(struct record){
                       .name = "open", .payload = "", .flags = ZIP_FLAG_DESCRIPTOR, .no_descriptor = true});
        size_t payload = b.len;
        for (int i = 0; i < 4095 + beyond; i++)
            buf_put_cstr(&b, "PK\7\10 and other bytes ");
        uint32_t n = (uint32_t)(b.len - payload), crc = crc32_update(0, b.data + payload, n);
        buf_u32le(&b, ZIP_DESCRIPTOR);
        buf_u32le(&b, crc);
        buf_u32le(&b, n);
        buf_u32le(&b, n);
        struct salvaged_archive s = salvage(&b);
        CU_ASSERT_FATAL(s.status == CKPT_OK && s.zip->n == 1);
        CU_ASSERT_EQUAL(s.zip->entries[0].crc_unknown, beyond == 1);
        close_salvaged(&s);
        buf_free(&b);
    }
}

/* Each of the many records has a size that covers all records after it. */
static void reading_overlapping_records_is_limited(void)
{
    enum { MANY = 20000, RECORD_SIZE = ZIP_LOCAL_SIZE + 6 /* bytes of "claims" */ };
    buf b;
    buf_init(&b, 1 << 24);
    for (int i = 0; i < MANY; i++)
        put_record(&b, &(struct record){.name = "claims",
                                        .payload = "",
                                        .add_crc = 1,
                                        .add_csize = (MANY - i - 1) * RECORD_SIZE});
    struct salvaged_archive s = salvage(&b);
    CU_ASSERT_FATAL(s.status == CKPT_OK && s.zip->n == 1);
    CU_ASSERT(is_lost(&s, "claims", "two sizes differ"));
    close_salvaged(&s);
    buf_free(&b);
}

/* No deflate stream begins with 0xff, and there is no CRC-32. After the payload of 8 bytes there is room for
 * a descriptor, but none is there. */
static void the_payload_stays_where_the_local_header_puts_it(void)
{
    static const struct member m = {.name = "a",
                                    .bytes = CONSTANT("\xff not deflated, and without any descriptor"),
                                    .method = ZIP_DEFLATED,
                                    .usize = 8};
    const size_t data = ZIP_LOCAL_SIZE + 1;
    buf b;
    buf_init(&b, 1 << 16);
    zip_put(&b, &m, 1, 0);
    store_u32le(b.data + 18, 8); /* the compressed size, in the local header and in the central directory */
    store_u32le(b.data + data + m.bytes.len + 20, 8);
    struct salvaged_archive s = salvage(&b);
    CU_ASSERT_FATAL(s.status == CKPT_OK && s.zip->n == 1);
    CU_ASSERT(is_lost(&s, "a", "do not have the checksum"));
    CU_ASSERT(s.zip->entries[0].is_located && s.zip->entries[0].data_offset == data);
    close_salvaged(&s);
    buf_free(&b);
}

void suite_zip_salvage(void)
{
    UNIT(intact_records_are_found);
    UNIT(damaged_records_are_lost_with_a_reason);
    UNIT(deflated_records_need_a_descriptor);
    UNIT(a_last_record_without_descriptor_is_lost);
    UNIT(different_records_of_one_name_are_lost);
    UNIT(records_of_embedded_archives_are_ignored);
    UNIT(malformed_headers_are_skipped);
    UNIT(the_search_for_a_descriptor_is_limited);
    UNIT(reading_overlapping_records_is_limited);
    UNIT(the_payload_stays_where_the_local_header_puts_it);
}
