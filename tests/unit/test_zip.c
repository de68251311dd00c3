/* Archives: what torch writes opens; what lies is refused by name. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/crc32.h"
#include "codec/zip.h"
#include "unit.h"

/* ------------------------------------------------- archives made to measure */

struct made {
    buf bytes, directory;
    unsigned n;
};

/* One member: what its local header says, and what the directory says of it. */
struct lie {
    const char *name, *local_name;
    uint16_t method, local_method, flags, local_flags; /* local ones: 0 says the same */
    int csize, usize;                                  /* added to the true sizes in the directory */
    int offset;                                        /* added to the true offset */
    bool no_crc, bad_local_crc;
};

static void made_init(struct made *m)
{
    buf_init(&m->bytes, 1 << 24);
    buf_init(&m->directory, 1 << 24);
    m->n = 0;
}

static void made_free(struct made *m)
{
    buf_free(&m->bytes);
    buf_free(&m->directory);
}

static void put_common(buf *b, const struct lie *l, uint16_t flags, uint32_t crc, uint32_t csize,
                       uint32_t usize, const char *name)
{
    buf_u16le(b, 20);
    buf_u16le(b, flags);
    buf_u16le(b, l->method);
    buf_u32le(b, 0);
    buf_u32le(b, crc);
    buf_u32le(b, csize);
    buf_u32le(b, usize);
    buf_u16le(b, (uint16_t)strlen(name));
    buf_u16le(b, 0);
}

static void add(struct made *m, const struct lie *l, const char *payload)
{
    uint32_t size = (uint32_t)strlen(payload), at = (uint32_t)m->bytes.len;
    uint32_t crc = l->no_crc ? 0 : crc32_update(0, payload, size);
    const char *local = l->local_name ? l->local_name : l->name;
    buf_u32le(&m->bytes, 0x04034B50);
    put_common(&m->bytes, l, l->local_flags ? l->local_flags : l->flags, l->bad_local_crc ? crc ^ 1 : crc,
               size, size, local);
    buf_text(&m->bytes, local);
    buf_text(&m->bytes, payload);
    if (l->local_method)
        m->bytes.data[at + 8] = (unsigned char)l->local_method;
    buf_u32le(&m->directory, 0x02014B50);
    buf_u16le(&m->directory, 20);
    put_common(&m->directory, l, l->flags, crc, size + (uint32_t)l->csize, size + (uint32_t)l->usize,
               l->name);
    for (int i = 0; i < 10; i++)
        buf_byte(&m->directory, 0);
    buf_u32le(&m->directory, at + (uint32_t)l->offset);
    buf_text(&m->directory, l->name);
    m->n++;
}

/* finish - directory and end record; N and SIZE may be made to lie. */
static void finish(struct made *m, int n, int size)
{
    uint32_t at = (uint32_t)m->bytes.len;
    buf_put(&m->bytes, m->directory.data, m->directory.len);
    buf_u32le(&m->bytes, 0x06054B50);
    buf_u32le(&m->bytes, 0);
    buf_u16le(&m->bytes, (uint16_t)(m->n + (unsigned)n));
    buf_u16le(&m->bytes, (uint16_t)(m->n + (unsigned)n));
    buf_u32le(&m->bytes, (uint32_t)m->directory.len + (uint32_t)size);
    buf_u32le(&m->bytes, at);
    buf_u16le(&m->bytes, 0);
}

/* An opened archive over guarded bytes. */
struct opened {
    unsigned char *bytes;
    size_t size;
    source *src;
    arena *a;
    zip *z;
    ckpt_error err;
    ckpt_status st;
};

static struct opened open_bytes(const void *bytes, size_t size)
{
    struct opened o = {.bytes = unit_guard(bytes, size), .size = size, .a = arena_new(1 << 26)};
    o.src = source_mem(o.bytes, size, 0);
    o.st = zip_open(o.src, o.a, &o.z, &o.err);
    return o;
}

static void close_opened(struct opened *o)
{
    zip_close(o->st == CKPT_OK ? o->z : NULL);
    source_unref(o->src);
    arena_free(o->a);
    unit_guard_free(o->bytes, o->size);
}

static struct opened open_made(struct made *m) { return open_bytes(m->bytes.data, m->bytes.len); }

/* load_all - reads every member; the first failure. */
static ckpt_status load_all(struct opened *o)
{
    ckpt_str text;
    for (size_t i = 0; i < o->z->n; i++) {
        ckpt_status st = zip_load_member(o->z, i, 1 << 24, &text, &o->err);
        if (st != CKPT_OK)
            return st;
    }
    return CKPT_OK;
}

static ckpt_status verdict_of(const struct lie *l, int n, int size, ckpt_error *err)
{
    struct made m;
    made_init(&m);
    add(&m, &(struct lie){.name = "a/first"}, "one");
    add(&m, l, "two two two");
    add(&m, &(struct lie){.name = "a/third"}, "three");
    finish(&m, n, size);
    struct opened o = open_made(&m);
    ckpt_status st = o.st == CKPT_OK ? load_all(&o) : o.st;
    *err = o.err;
    close_opened(&o);
    made_free(&m);
    return st;
}

static void refused(const struct lie *l, ckpt_status want, const char *words)
{
    ckpt_error err = {0};
    CU_ASSERT_EQUAL(verdict_of(l, 0, 0, &err), want);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, words));
    if (!strstr(err.what, words))
        printf("  said: %s: %s\n", err.where, err.what);
}

/* ---------------------------------------------------------------------- tests */

static void reads_what_is_sound(void)
{
    ckpt_error err = {0};
    CU_ASSERT_EQUAL(verdict_of(&(struct lie){.name = "a/second"}, 0, 0, &err), CKPT_OK);
}

static void refuses_members_that_lie(void)
{
    refused(&(struct lie){.name = "a/s", .local_name = "a/t"}, CKPT_EFORMAT, "local header calls it");
    refused(&(struct lie){.name = "a/s", .local_name = "a/longer"}, CKPT_EFORMAT, "local header calls it");
    refused(&(struct lie){.name = "a/s", .local_method = 8}, CKPT_EFORMAT, "the method is 8");
    refused(&(struct lie){.name = "a/s", .usize = 1}, CKPT_EFORMAT, "its sizes are 11 and 12");
    refused(&(struct lie){.name = "a/s", .usize = 5, .csize = 5}, CKPT_EFORMAT, "overlap");
    refused(&(struct lie){.name = "a/s", .usize = -1, .csize = -1}, CKPT_EFORMAT,
            "size is 11 in its local header");
    refused(&(struct lie){.name = "a/s", .usize = 0x7fffffff, .csize = 0x7fffffff}, CKPT_EFORMAT, "overlap");
    refused(&(struct lie){.name = "a/s", .offset = 0x7fffffff}, CKPT_EFORMAT, "do not fit between");
    refused(&(struct lie){.name = "a/s", .offset = -1}, CKPT_EFORMAT, "overlap");
    refused(&(struct lie){.name = "a/s", .method = 8, .usize = 40000}, CKPT_EFORMAT,
            "cannot inflate to 40011 bytes");
    refused(&(struct lie){.name = "a/s", .bad_local_crc = true}, CKPT_EFORMAT, "CRC-32 is");
    refused(&(struct lie){.name = "a/s", .flags = 0, .local_flags = 1}, CKPT_EFORMAT, "is it encrypted?");
}

static void refuses_what_it_cannot_read(void)
{
    refused(&(struct lie){.name = "a/s", .flags = 1}, CKPT_EUNSUPPORTED, "encrypted");
    refused(&(struct lie){.name = "a/s", .flags = 0x20}, CKPT_EUNSUPPORTED, "patch");
    refused(&(struct lie){.name = "a/s", .method = 14}, CKPT_EUNSUPPORTED, "LZMA");
    refused(&(struct lie){.name = "a/s", .method = 8}, CKPT_EFORMAT, "deflated bytes");
    refused(&(struct lie){.name = "a/s", .no_crc = true}, CKPT_ECHECKSUM, "CRC-32");
}

static void refuses_directories_that_lie(void)
{
    ckpt_error err = {0};
    CU_ASSERT_EQUAL(verdict_of(&(struct lie){.name = "a/s"}, 1, 0, &err), CKPT_EFORMAT);
    CU_ASSERT_EQUAL(verdict_of(&(struct lie){.name = "a/s"}, 1000, 0, &err), CKPT_EFORMAT);
    CU_ASSERT_EQUAL(verdict_of(&(struct lie){.name = "a/s"}, 0, 1, &err), CKPT_EFORMAT);
    CU_ASSERT_EQUAL(verdict_of(&(struct lie){.name = "a/s"}, 0, -46, &err), CKPT_EFORMAT);
}

static void refuses_entries_behind_those_counted(void)
{
    struct made m;
    made_init(&m);
    add(&m, &(struct lie){.name = "a/x"}, "1");
    add(&m, &(struct lie){.name = "a/y"}, "2");
    finish(&m, -1, 0);
    struct opened o = open_made(&m);
    CU_ASSERT_EQUAL(o.st, CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(o.err.what, "49 more bytes after the entries that are counted, 1"));
    close_opened(&o);
    made_free(&m);
}

static void two_entries_for_one_payload_overlap(void)
{
    struct made m;
    made_init(&m);
    add(&m, &(struct lie){.name = "a/x"}, "payload");
    add(&m, &(struct lie){.name = "a/x", .offset = -(30 + 3 + 7)}, "payload");
    finish(&m, 0, 0);
    struct opened o = open_made(&m);
    CU_ASSERT_EQUAL(o.st, CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(o.err.what, "overlap"));
    close_opened(&o);
    made_free(&m);
}

static void names_twice_are_marked(void)
{
    struct made m;
    made_init(&m);
    add(&m, &(struct lie){.name = "a/x"}, "1");
    add(&m, &(struct lie){.name = "a/y"}, "2");
    add(&m, &(struct lie){.name = "a/x"}, "3");
    finish(&m, 0, 0);
    struct opened o = open_made(&m);
    CU_ASSERT_EQUAL_FATAL(o.st, CKPT_OK);
    CU_ASSERT(o.z->entries[0].duplicate && !o.z->entries[1].duplicate && o.z->entries[2].duplicate);
    CU_ASSERT_EQUAL(zip_find(o.z, STR_LIT("a/x")), 0);
    CU_ASSERT_EQUAL(zip_find(o.z, STR_LIT("A/Y")), -1);
    zip_free_names(o.z);
    CU_ASSERT_EQUAL(zip_find(o.z, STR_LIT("a/x")), 0);
    CU_ASSERT_EQUAL(zip_find(o.z, STR_LIT("A/Y")), -1);
    CU_ASSERT_EQUAL(zip_index_case_folded(o.z, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(zip_find_case_folded(o.z, STR_LIT(""), STR_LIT("A/Y")), 1);
    CU_ASSERT_EQUAL(zip_find_case_folded(o.z, STR_LIT("a/"), STR_LIT("y")), 1);
    CU_ASSERT_EQUAL(zip_find_case_folded(o.z, STR_LIT(""), STR_LIT("a/z")), -1);
    CU_ASSERT_EQUAL(zip_find_case_folded(o.z, STR_LIT("a/y"), STR_LIT("y")), -1);
    CU_ASSERT_EQUAL(zip_find_case_folded(o.z, STR_LIT("a/yyy"), STR_LIT("")), -1);
    close_opened(&o);
    made_free(&m);
}

static void junk_around_it_shows(void)
{
    struct made m;
    buf b;
    made_init(&m);
    add(&m, &(struct lie){.name = "a/x"}, "inside");
    finish(&m, 0, 0);
    buf_init(&b, 1 << 20);
    buf_text(&b, "JUNKJUNK");
    buf_str(&b, buf_view(&m.bytes));
    for (int i = 0; i < 70000; i++)
        buf_byte(&b, 'j');
    struct opened o = open_bytes(b.data, b.len);
    CU_ASSERT_EQUAL_FATAL(o.st, CKPT_OK);
    CU_ASSERT_EQUAL(o.z->shift, 8);
    CU_ASSERT_EQUAL(o.z->end, 8 + m.bytes.len);
    CU_ASSERT_EQUAL(load_all(&o), CKPT_OK);
    close_opened(&o);
    /* The same behind the start of an archive is not junk: the outer one is cut. */
    memcpy(b.data, "PK\3\4", 4);
    o = open_bytes(b.data, b.len);
    CU_ASSERT_EQUAL(o.st, CKPT_ETRUNCATED);
    close_opened(&o);
    buf_free(&b);
    made_free(&m);
}

/* The size of the directory and its offset may each lead to one. */
static void refuses_two_directories(void)
{
    struct made m;
    made_init(&m);
    add(&m, &(struct lie){.name = "a/x"}, "inside");
    size_t at = m.bytes.len;
    buf_put(&m.bytes, m.directory.data, m.directory.len);
    finish(&m, 0, 0);
    m.bytes.data[m.bytes.len - 6] = (unsigned char)at; /* the offset: of the first copy */
    struct opened o = open_made(&m);
    CU_ASSERT_EQUAL(o.st, CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(o.err.what, "two directories"));
    close_opened(&o);
    made_free(&m);
}

static void every_cut_and_every_flip(void)
{
    struct made m;
    made_init(&m);
    add(&m, &(struct lie){.name = "a/x"}, "inside");
    add(&m, &(struct lie){.name = "a/y", .flags = 8}, "");
    finish(&m, 0, 0);
    for (size_t n = 0; n < m.bytes.len; n++) {
        struct opened o = open_bytes(m.bytes.data, n);
        CU_ASSERT_EQUAL(o.st, CKPT_ETRUNCATED);
        close_opened(&o);
    }
    for (size_t i = 0; i < m.bytes.len; i++)
        for (int bit = 0; bit < 8; bit++) {
            m.bytes.data[i] ^= (unsigned char)(1 << bit);
            struct opened o = open_made(&m);
            if (o.st == CKPT_OK)
                (void)load_all(&o);
            close_opened(&o);
            m.bytes.data[i] ^= (unsigned char)(1 << bit);
        }
    made_free(&m);
}

static unsigned char *slurp(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    unsigned char *bytes = malloc(1 << 20);
    *size = f && bytes ? fread(bytes, 1, 1 << 20, f) : 0;
    if (f)
        (void)fclose(f);
    return bytes;
}

static void reads_torch_archives(void)
{
    static const char *const files[] = {"01_pyzip_stored",  "04_deflate_pkl",        "06_deflate_all",
                                        "28_trailing_junk", "32_infozip_r",          "40_miniz_full",
                                        "43_no_crc",        "45_dd_noalign_noeocd64"};
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        char below[128];
        size_t size;
        snprintf(below, sizeof below, "torch/exp/%s.pt", files[k]);
        unsigned char *bytes = slurp(unit_corpus(below), &size);
        struct opened o = open_bytes(bytes, size);
        CU_ASSERT_EQUAL_FATAL(o.st, CKPT_OK);
        CU_ASSERT_EQUAL(load_all(&o), CKPT_OK);
        int64_t i = zip_find(o.z, STR_LIT("archive/data/0"));
        ckpt_str text = {0};
        CU_ASSERT_FATAL(i >= 0);
        CU_ASSERT_EQUAL(zip_load_member(o.z, (size_t)i, 100, &text, &o.err), CKPT_OK);
        CU_ASSERT(text.len == 16 && memcmp(text.ptr, "\0\0\x80\x3f\0\0\0\x40", 8) == 0);
        CU_ASSERT_EQUAL(zip_load_member(o.z, (size_t)i, 15, &text, &o.err), CKPT_ELIMIT);
        close_opened(&o);
        free(bytes);
    }
}

static void offsets_come_when_asked_for(void)
{
    size_t size;
    unsigned char *bytes = slurp(unit_corpus("torch/exp/40_miniz_full.pt"), &size);
    struct opened o = open_bytes(bytes, size);
    source *s;
    CU_ASSERT_EQUAL_FATAL(o.st, CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(zip_open_member(o.z, 2, &s, &o.err), CKPT_OK);
    CU_ASSERT_EQUAL(source_pos(s, 0), CKPT_NO_OFFSET);
    CU_ASSERT_EQUAL(source_locate(s, &o.err), CKPT_OK);
    CU_ASSERT(source_pos(s, 0) % 64 == 0 && memcmp(bytes + source_pos(s, 0), "\0\0\x80\x3f", 4) == 0);
    source_unref(s);
    close_opened(&o);
    free(bytes);
}

static void inflates_forward_and_back(void)
{
    size_t size;
    unsigned char *bytes = slurp(unit_corpus("torch/exp/06_deflate_all.pt"), &size);
    struct opened o = open_bytes(bytes, size);
    source *s;
    unsigned char whole[4096], one;
    CU_ASSERT_EQUAL_FATAL(o.st, CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(zip_open_member(o.z, 0, &s, &o.err), CKPT_OK);
    CU_ASSERT_FATAL(s->size <= sizeof whole);
    CU_ASSERT_EQUAL(source_read(s, 0, whole, (size_t)s->size, &o.err), CKPT_OK);
    for (uint64_t i = s->size; i-- > 0;)
        CU_ASSERT(source_read(s, i, &one, 1, &o.err) == CKPT_OK && one == whole[i]);
    CU_ASSERT_EQUAL(source_read(s, s->size, &one, 1, &o.err), CKPT_ETRUNCATED);
    source_unref(s);
    close_opened(&o);
    free(bytes);
}

/* resized - the first member of that archive, said to be BY bytes larger. */
static void resized(int by, const char *words)
{
    size_t size;
    ckpt_str text;
    unsigned char *bytes = slurp(unit_corpus("torch/exp/06_deflate_all.pt"), &size);
    struct opened o = open_bytes(bytes, size);
    CU_ASSERT_EQUAL_FATAL(o.st, CKPT_OK);
    uint64_t local = o.z->entries[0].header, central = o.z->directory;
    close_opened(&o);
    bytes[local + 22] = (unsigned char)(bytes[local + 22] + by);
    bytes[central + 24] = (unsigned char)(bytes[central + 24] + by);
    o = open_bytes(bytes, size);
    CU_ASSERT_EQUAL_FATAL(o.st, CKPT_OK);
    CU_ASSERT_EQUAL(zip_load_member(o.z, 0, 1 << 20, &text, &o.err), CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(o.err.what, words));
    close_opened(&o);
    free(bytes);
}

static void inflates_what_was_said_and_no_more(void)
{
    resized(-1, "more than the directory says");
    resized(1, "end too early");
}

void suite_zip(void)
{
    UNIT(reads_what_is_sound);
    UNIT(refuses_members_that_lie);
    UNIT(refuses_what_it_cannot_read);
    UNIT(refuses_directories_that_lie);
    UNIT(refuses_entries_behind_those_counted);
    UNIT(two_entries_for_one_payload_overlap);
    UNIT(names_twice_are_marked);
    UNIT(junk_around_it_shows);
    UNIT(refuses_two_directories);
    UNIT(every_cut_and_every_flip);
    UNIT(reads_torch_archives);
    UNIT(offsets_come_when_asked_for);
    UNIT(inflates_forward_and_back);
    UNIT(inflates_what_was_said_and_no_more);
}
