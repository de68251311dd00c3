/* Archives without a directory: each record as far as its own header and descriptor vouch for it. */
#include "base/buf.h"
#include "base/crc32.h"
#include "codec/zip.h"
#include "codec/zip_salvage.h"
#include "unit.h"

#define LATER 8u /* flag: CRC and sizes stand behind the payload */

/* A record, and how it lies. */
struct record {
    const char *name, *payload;
    uint16_t flags, method;
    uint32_t crc_off;  /* added to the CRC-32 */
    int csize_off;     /* added to the stored size */
    bool wide, no_end; /* a descriptor of 8-byte sizes; or none */
    uint16_t name_off; /* added to the length of the name */
    bool crc_none;
    bool packed; /* deflated, as one stored block */
};

static void put(buf *b, const struct record *r)
{
    uint32_t n = (uint32_t)strlen(r->payload), stored = n + (r->packed ? 5 : 0);
    uint32_t crc = r->crc_none ? 0 : crc32_update(0, r->payload, n) + r->crc_off;
    bool later = r->flags & LATER;
    buf_u32le(b, 0x04034B50);
    buf_u16le(b, 10);
    buf_u16le(b, r->flags);
    buf_u16le(b, r->packed ? 8 : r->method);
    buf_u32le(b, 0);
    buf_u32le(b, later ? 0 : crc);
    buf_u32le(b, later ? 0 : stored + (uint32_t)r->csize_off);
    buf_u32le(b, later ? 0 : n);
    buf_u16le(b, (uint16_t)(strlen(r->name) + r->name_off));
    buf_u16le(b, 0);
    buf_text(b, r->name);
    if (r->packed) {
        buf_byte(b, 1);
        buf_u16le(b, (uint16_t)n);
        buf_u16le(b, (uint16_t)~n);
    }
    buf_text(b, r->payload);
    if (!later || r->no_end)
        return;
    buf_u32le(b, 0x08074B50);
    buf_u32le(b, crc);
    for (int i = 0; i < 2; i++) {
        uint32_t size = i ? n : stored + (uint32_t)r->csize_off;
        buf_u32le(b, size);
        if (r->wide)
            buf_u32le(b, 0);
    }
}

struct saved {
    unsigned char *bytes;
    size_t size;
    source *src;
    arena *a;
    zip *z;
    ckpt_status st;
    ckpt_error err;
};

static struct saved save(const buf *b)
{
    struct saved s = {.bytes = unit_guard(b->data, b->len), .size = b->len, .a = arena_new(1 << 24)};
    s.src = source_mem(s.bytes, b->len, 0);
    s.st = zip_salvage(s.src, s.a, &s.z, &s.err);
    return s;
}

static void drop(struct saved *s)
{
    zip_close(s->z);
    source_unref(s->src);
    arena_free(s->a);
    unit_guard_free(s->bytes, s->size);
}

static struct saved save_all(const struct record *r, size_t n)
{
    buf b;
    buf_init(&b, 1 << 20);
    for (size_t i = 0; i < n; i++)
        put(&b, &r[i]);
    struct saved s = save(&b);
    buf_free(&b);
    CU_ASSERT_EQUAL_FATAL(s.st, CKPT_OK);
    return s;
}

/* holds - entry NAME is whole and is TEXT. */
static bool holds(struct saved *s, const char *name, const char *text)
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

/* lost - entry NAME is refused, and WHY is said. */
static bool lost(struct saved *s, const char *name, const char *why)
{
    int64_t i = zip_find(s->z, str_c(name));
    source *m = NULL;
    ckpt_error err = {0};
    if (i < 0 || !s->z->entries[i].fault || zip_open_member(s->z, (size_t)i, &m, &err) == CKPT_OK)
        return false;
    return strstr(s->z->entries[i].fault, why) && strstr(err.what, why);
}

static void finds_what_is_whole(void)
{
    static const struct record r[] = {
        {.name = "a/plain", .payload = "its sizes stand in front"},
        {.name = "a/narrow", .payload = "and behind", .flags = LATER},
        {.name = "a/wide", .payload = "behind, in eight bytes", .flags = LATER, .wide = true},
        {.name = "a/PK\7\10name", .payload = "a mark in the name", .flags = LATER},
        {.name = "a/marks", .payload = "PK\7\10 in the payload, and P alone, PK\3", .flags = LATER},
        {.name = "a/unsummed", .payload = "no CRC-32", .crc_none = true},
        {.name = "a/empty", .payload = ""},
        {.name = "a/packed", .payload = "deflated", .packed = true},
        {.name = "a/packed2", .payload = "and PK\7\10 again", .packed = true, .flags = LATER},
        {.name = "a/packed3", .payload = "wide", .packed = true, .flags = LATER, .wide = true},
        {.name = "a/hidden", .payload = "not encrypted", .flags = LATER | 1},
    };
    struct saved s = save_all(r, sizeof r / sizeof *r);
    CU_ASSERT_EQUAL(s.z->n, sizeof r / sizeof *r);
    for (size_t i = 0; i < sizeof r / sizeof *r; i++)
        CU_ASSERT(holds(&s, r[i].name, r[i].payload));
    CU_ASSERT(s.z->entries[5].crc_unknown && !s.z->entries[0].crc_unknown);
    drop(&s);
}

static void names_what_is_not(void)
{
    static const struct record r[] = {
        {.name = "broken", .payload = "x", .method = 8},
        {.name = "method", .payload = "x", .method = 9},
        {.name = "packed", .payload = "xyz", .packed = true, .crc_off = 1},
        {.name = "packed2", .payload = "xyz", .packed = true, .csize_off = -1},
        {.name = "packed3", .payload = "xyz", .packed = true, .flags = LATER, .csize_off = 1},
        {.name = "wrong", .payload = "other bytes", .crc_off = 1},
        {.name = "sizes", .payload = "two sizes ", .csize_off = -1},
        {.name = "endless", .payload = "no descriptor", .flags = LATER, .no_end = true},
        {.name = "full", .payload = "x", .csize_off = -2},
        {.name = "cut", .payload = "x", .csize_off = 100000},
    };
    struct saved s = save_all(r, sizeof r / sizeof *r);
    CU_ASSERT(lost(&s, "broken", "its deflated bytes are broken"));
    CU_ASSERT(lost(&s, "method", "a method that is not known"));
    CU_ASSERT(lost(&s, "packed", "do not have the checksum"));
    CU_ASSERT(lost(&s, "packed2", "its deflated bytes are broken"));
    CU_ASSERT(lost(&s, "packed3", "its end is unknown"));
    CU_ASSERT(lost(&s, "wrong", "do not have the checksum"));
    CU_ASSERT(lost(&s, "sizes", "its two sizes differ"));
    CU_ASSERT(lost(&s, "endless", "its end is unknown"));
    CU_ASSERT(lost(&s, "full", "cut off, or its size is damaged")); /* 2^32 - 1: says zip64, which is gone */
    CU_ASSERT(lost(&s, "cut", "cut off, or its size is damaged"));
    drop(&s);
}

/* Deflated bytes tell their own end, which is all that is needed of the last record of a cut file. */
static void knows_where_deflated_bytes_end(void)
{
    buf b;
    buf_init(&b, 1 << 16);
    for (size_t less = 0; less < 10; less++) {
        b.len = 0;
        put(&b, &(struct record){.name = "last", .payload = "12345678", .flags = LATER, .packed = true});
        b.len -= 16 - 2; /* of the descriptor two bytes are left */
        b.len -= less;
        struct saved s = save(&b);
        CU_ASSERT_FATAL(s.st == CKPT_OK && s.z->n == 1);
        CU_ASSERT(less <= 2 ? holds(&s, "last", "12345678") && s.z->entries[0].crc_unknown
                            : lost(&s, "last", "its deflated bytes"));
        drop(&s);
    }
    buf_free(&b);
}

/* The last record of a cut file goes on to its end: nobody knows how long it was. */
static void keeps_the_last_one_open(void)
{
    static const struct record r[] = {
        {.name = "first", .payload = "whole", .flags = LATER},
        {.name = "last", .payload = "not all", .flags = LATER, .no_end = true},
    };
    struct saved s = save_all(r, 2);
    int64_t i = zip_find(s.z, STR_LIT("last"));
    CU_ASSERT_FATAL(i == 1);
    CU_ASSERT(s.z->entries[i].crc_unknown && !s.z->entries[i].fault && s.z->entries[i].csize == 7);
    drop(&s);
}

/* Of two records of one name only the directory can tell which one counts; equal ones need no telling. */
static void takes_none_of_two_that_differ(void)
{
    static const struct record r[] = {
        {.name = "equal", .payload = "same"},
        {.name = "equal", .payload = "same", .flags = LATER},
        {.name = "twice", .payload = "early"},
        {.name = "twice", .payload = "later"},
        {.name = "bad", .payload = "bad", .crc_off = 1},
        {.name = "bad", .payload = "good"},
        {.name = "unsummed", .payload = "one", .crc_none = true},
        {.name = "unsummed", .payload = "one", .crc_none = true},
        {.name = "last", .payload = "x"},
    };
    struct saved s = save_all(r, sizeof r / sizeof *r);
    CU_ASSERT_EQUAL(s.z->n, 5);
    CU_ASSERT(holds(&s, "equal", "same"));
    CU_ASSERT(lost(&s, "twice", "two records have its name"));
    CU_ASSERT(lost(&s, "bad", "two records have its name"));
    CU_ASSERT(lost(&s, "unsummed", "two records have its name"));
    drop(&s);
}

/* An archive within the payload that the file was cut in, or whose end is damaged: its records are not those
 * of the file, whatever they are called. */
static void leaves_archives_in_payloads_alone(void)
{
    static const struct record inner[] = {
        {.name = "a/data.pkl", .payload = "not this", .flags = LATER},
        {.name = "a/data/0", .payload = "nor this", .flags = LATER},
        {.name = "a/data/1", .payload = "nor that", .flags = LATER},
    };
    for (int followed = 0; followed < 3; followed++) {
        buf b;
        buf_init(&b, 1 << 20);
        put(&b, &(struct record){.name = "a/data.pkl", .payload = "this", .flags = LATER});
        put(&b, &(struct record){.name = "a/data/0", .payload = "", .flags = LATER, .no_end = true});
        for (size_t i = followed == 2; i < 3; i++)
            put(&b, &inner[i]);
        if (followed == 1)
            put(&b, &(struct record){.name = "a/data/2", .payload = "who knows", .flags = LATER});
        struct saved s = save(&b);
        CU_ASSERT_EQUAL_FATAL(s.st, CKPT_OK);
        CU_ASSERT(holds(&s, "a/data.pkl", "this"));
        CU_ASSERT(lost(&s, "a/data/0", "its end is unknown"));
        CU_ASSERT(zip_find(s.z, STR_LIT("a/data/1")) < 0 && zip_find(s.z, STR_LIT("a/data/2")) < 0);
        drop(&s);
        buf_free(&b);
    }
}

/* Marks that are none: no room for a header, a name longer than the file, no name, a descriptor cut off. */
static void passes_false_marks(void)
{
    buf b;
    buf_init(&b, 1 << 20);
    put(&b, &(struct record){.name = "", .payload = "nameless"});
    put(&b, &(struct record){.name = "whole", .payload = "bytes"});
    put(&b, &(struct record){.name = "long", .payload = "", .name_off = 60000});
    buf_text(&b, "PK\3\4 no room");
    struct saved s = save(&b);
    CU_ASSERT_FATAL(s.st == CKPT_OK);
    CU_ASSERT(s.z->n == 1 && holds(&s, "whole", "bytes"));
    drop(&s);
    b.len = 0;
    put(&b, &(struct record){.name = "open", .payload = "x", .flags = LATER});
    b.len -= 2;
    s = save(&b);
    CU_ASSERT(s.st == CKPT_OK && s.z->n == 1 && s.z->entries[0].crc_unknown);
    drop(&s);
    b.len = 3; /* too short for any mark */
    s = save(&b);
    CU_ASSERT(s.st == CKPT_OK && s.z->n == 0);
    drop(&s);
    buf_free(&b);
}

/* So many descriptors that state other sizes are looked at, no more: the time stays linear. */
static void looks_ahead_so_far(void)
{
    for (int beyond = 0; beyond < 2; beyond++) {
        buf b;
        buf_init(&b, 1 << 24);
        put(&b, &(struct record){.name = "marked", .payload = "", .flags = LATER, .no_end = true});
        size_t from = b.len;
        for (int i = 0; i < 4095 + beyond; i++)
            buf_text(&b, "PK\7\10 says nothing ");
        uint32_t n = (uint32_t)(b.len - from), crc = crc32_update(0, b.data + from, n);
        buf_u32le(&b, 0x08074B50);
        buf_u32le(&b, crc);
        buf_u32le(&b, n);
        buf_u32le(&b, n);
        struct saved s = save(&b);
        CU_ASSERT_FATAL(s.st == CKPT_OK && s.z->n == 1);
        CU_ASSERT_EQUAL(s.z->entries[0].crc_unknown, beyond == 1);
        drop(&s);
        buf_free(&b);
    }
}

/* Records that all claim the rest of the file, none of them whole: what is read of them has a limit. */
static void does_not_look_in_vain_for_ever(void)
{
    enum { MANY = 20000 };
    buf b;
    buf_init(&b, 1 << 24);
    for (int i = 0; i < MANY; i++)
        put(&b, &(struct record){
                    .name = "claims", .payload = "", .crc_off = 1, .csize_off = (MANY - i - 1) * 36});
    struct saved s = save(&b);
    CU_ASSERT_FATAL(s.st == CKPT_OK && s.z->n == 1);
    CU_ASSERT(lost(&s, "claims", "two sizes differ"));
    drop(&s);
    buf_free(&b);
}

void suite_zip_salvage(void)
{
    UNIT(finds_what_is_whole);
    UNIT(names_what_is_not);
    UNIT(knows_where_deflated_bytes_end);
    UNIT(keeps_the_last_one_open);
    UNIT(takes_none_of_two_that_differ);
    UNIT(leaves_archives_in_payloads_alone);
    UNIT(passes_false_marks);
    UNIT(looks_ahead_so_far);
    UNIT(does_not_look_in_vain_for_ever);
}
