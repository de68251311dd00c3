/* Reading zip archives: those of torch open; inconsistent headers are refused with the name of the member. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/crc32.h"
#include "codec/zip.h"
#include "unit.h"

/* ------------------------------------------------------------- test archives */

/* An archive that is being written. */
struct archive {
    buf bytes, directory;
    unsigned n; /* entries */
};

/* A member, whose local header and central header may disagree. */
struct member {
    const char *name, *local_name;
    uint16_t method, local_method, flags, local_flags; /* local ones of 0: the same as central */
    int csize, usize;                                  /* added to the true sizes in the central header */
    int offset;                                        /* added to the true offset of the local header */
    bool no_crc, bad_local_crc;
};

static void archive_init(struct archive *m)
{
    buf_init(&m->bytes, 1 << 24);
    buf_init(&m->directory, 1 << 24);
    m->n = 0;
}

static void archive_free(struct archive *m)
{
    buf_free(&m->bytes);
    buf_free(&m->directory);
}

static void put_header_fields(buf *b, const struct member *l, uint16_t flags, uint32_t crc, uint32_t csize,
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

static void add_member(struct archive *m, const struct member *l, const char *payload)
{
    uint32_t size = (uint32_t)strlen(payload), at = (uint32_t)m->bytes.len;
    uint32_t crc = l->no_crc ? 0 : crc32_update(0, payload, size);
    const char *local = l->local_name ? l->local_name : l->name;
    buf_u32le(&m->bytes, 0x04034B50);
    put_header_fields(&m->bytes, l, l->local_flags ? l->local_flags : l->flags,
                      l->bad_local_crc ? crc ^ 1 : crc, size, size, local);
    buf_text(&m->bytes, local);
    buf_text(&m->bytes, payload);
    if (l->local_method)
        m->bytes.data[at + 8] = (unsigned char)l->local_method;
    buf_u32le(&m->directory, 0x02014B50);
    buf_u16le(&m->directory, 20);
    put_header_fields(&m->directory, l, l->flags, crc, size + (uint32_t)l->csize, size + (uint32_t)l->usize,
                      l->name);
    for (int i = 0; i < 10; i++)
        buf_byte(&m->directory, 0);
    buf_u32le(&m->directory, at + (uint32_t)l->offset);
    buf_text(&m->directory, l->name);
    m->n++;
}

/* finish_archive - appends the central directory, and an end record with MORE_ENTRIES added to the number of
 * entries and MORE_SIZE to the size of the central directory. */
static void finish_archive(struct archive *m, int more_entries, int more_size)
{
    uint32_t at = (uint32_t)m->bytes.len;
    buf_put(&m->bytes, m->directory.data, m->directory.len);
    buf_u32le(&m->bytes, 0x06054B50);
    buf_u32le(&m->bytes, 0);
    buf_u16le(&m->bytes, (uint16_t)(m->n + (unsigned)more_entries));
    buf_u16le(&m->bytes, (uint16_t)(m->n + (unsigned)more_entries));
    buf_u32le(&m->bytes, (uint32_t)m->directory.len + (uint32_t)more_size);
    buf_u32le(&m->bytes, at);
    buf_u16le(&m->bytes, 0);
}

/* An archive that was opened, in memory that ends at an unmapped page. */
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

static struct opened open_archive(struct archive *m) { return open_bytes(m->bytes.data, m->bytes.len); }

/* load_all - reads every member, and returns the first failure. */
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

/* open_with_member - opens an archive of two members with L between them, and reads all; MORE_ENTRIES and
 * MORE_SIZE are as for finish_archive. */
static ckpt_status open_with_member(const struct member *l, int more_entries, int more_size, ckpt_error *err)
{
    struct archive m;
    archive_init(&m);
    add_member(&m, &(struct member){.name = "a/first"}, "one");
    add_member(&m, l, "two two two");
    add_member(&m, &(struct member){.name = "a/third"}, "three");
    finish_archive(&m, more_entries, more_size);
    struct opened o = open_archive(&m);
    ckpt_status st = o.st == CKPT_OK ? load_all(&o) : o.st;
    *err = o.err;
    close_opened(&o);
    archive_free(&m);
    return st;
}

static void check_refused(const struct member *l, ckpt_status want, const char *words)
{
    ckpt_error err = {0};
    CU_ASSERT_EQUAL(open_with_member(l, 0, 0, &err), want);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, words));
    if (!strstr(err.what, words))
        printf("  found: %s: %s\n", err.where, err.what);
}

/* ---------------------------------------------------------------------- tests */

static void reads_a_consistent_archive(void)
{
    ckpt_error err = {0};
    CU_ASSERT_EQUAL(open_with_member(&(struct member){.name = "a/second"}, 0, 0, &err), CKPT_OK);
}

static void refuses_inconsistent_headers(void)
{
    check_refused(&(struct member){.name = "a/s", .local_name = "a/t"}, CKPT_EFORMAT,
                  "local header calls it");
    check_refused(&(struct member){.name = "a/s", .local_name = "a/longer"}, CKPT_EFORMAT,
                  "local header calls it");
    check_refused(&(struct member){.name = "a/s", .local_method = 8}, CKPT_EFORMAT, "the method is 8");
    check_refused(&(struct member){.name = "a/s", .usize = 1}, CKPT_EFORMAT, "its sizes are 11 and 12");
    check_refused(&(struct member){.name = "a/s", .usize = 5, .csize = 5}, CKPT_EFORMAT, "overlap");
    check_refused(&(struct member){.name = "a/s", .usize = -1, .csize = -1}, CKPT_EFORMAT,
                  "size is 11 in its local header");
    check_refused(&(struct member){.name = "a/s", .usize = 0x7fffffff, .csize = 0x7fffffff}, CKPT_EFORMAT,
                  "overlap");
    check_refused(&(struct member){.name = "a/s", .offset = 0x7fffffff}, CKPT_EFORMAT, "do not fit between");
    check_refused(&(struct member){.name = "a/s", .offset = -1}, CKPT_EFORMAT, "overlap");
    check_refused(&(struct member){.name = "a/s", .method = 8, .usize = 40000}, CKPT_EFORMAT,
                  "cannot inflate to 40011 bytes");
    check_refused(&(struct member){.name = "a/s", .bad_local_crc = true}, CKPT_EFORMAT, "CRC-32 is");
    check_refused(&(struct member){.name = "a/s", .flags = 0, .local_flags = 1}, CKPT_EFORMAT,
                  "is it encrypted?");
}

static void refuses_unsupported_and_damaged_members(void)
{
    check_refused(&(struct member){.name = "a/s", .flags = 1}, CKPT_EUNSUPPORTED, "encrypted");
    check_refused(&(struct member){.name = "a/s", .flags = 0x20}, CKPT_EUNSUPPORTED, "patch");
    check_refused(&(struct member){.name = "a/s", .method = 14}, CKPT_EUNSUPPORTED, "LZMA");
    check_refused(&(struct member){.name = "a/s", .method = 8}, CKPT_EFORMAT, "deflated bytes");
    check_refused(&(struct member){.name = "a/s", .no_crc = true}, CKPT_ECHECKSUM, "CRC-32");
}

static void refuses_wrong_counts_and_sizes_of_the_directory(void)
{
    ckpt_error err = {0};
    CU_ASSERT_EQUAL(open_with_member(&(struct member){.name = "a/s"}, 1, 0, &err), CKPT_EFORMAT);
    CU_ASSERT_EQUAL(open_with_member(&(struct member){.name = "a/s"}, 1000, 0, &err), CKPT_EFORMAT);
    CU_ASSERT_EQUAL(open_with_member(&(struct member){.name = "a/s"}, 0, 1, &err), CKPT_EFORMAT);
    CU_ASSERT_EQUAL(open_with_member(&(struct member){.name = "a/s"}, 0, -46, &err), CKPT_EFORMAT);
}

static void refuses_more_entries_than_counted(void)
{
    struct archive m;
    archive_init(&m);
    add_member(&m, &(struct member){.name = "a/x"}, "1");
    add_member(&m, &(struct member){.name = "a/y"}, "2");
    finish_archive(&m, -1, 0);
    struct opened o = open_archive(&m);
    CU_ASSERT_EQUAL(o.st, CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(o.err.what, "49 more bytes after the entries that are counted, 1"));
    close_opened(&o);
    archive_free(&m);
}

static void two_entries_for_one_payload_overlap(void)
{
    struct archive m;
    archive_init(&m);
    add_member(&m, &(struct member){.name = "a/x"}, "payload");
    add_member(&m, &(struct member){.name = "a/x", .offset = -(30 + 3 + 7)}, "payload");
    finish_archive(&m, 0, 0);
    struct opened o = open_archive(&m);
    CU_ASSERT_EQUAL(o.st, CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(o.err.what, "overlap"));
    close_opened(&o);
    archive_free(&m);
}

static void duplicate_names_are_flagged(void)
{
    struct archive m;
    archive_init(&m);
    add_member(&m, &(struct member){.name = "a/x"}, "1");
    add_member(&m, &(struct member){.name = "a/y"}, "2");
    add_member(&m, &(struct member){.name = "a/x"}, "3");
    finish_archive(&m, 0, 0);
    struct opened o = open_archive(&m);
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
    archive_free(&m);
}

static void finds_an_archive_between_other_bytes(void)
{
    struct archive m;
    buf b;
    archive_init(&m);
    add_member(&m, &(struct member){.name = "a/x"}, "inside");
    finish_archive(&m, 0, 0);
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
    /* If the bytes before it begin as an archive, the outer archive is truncated. */
    memcpy(b.data, "PK\3\4", 4);
    o = open_bytes(b.data, b.len);
    CU_ASSERT_EQUAL(o.st, CKPT_ETRUNCATED);
    close_opened(&o);
    buf_free(&b);
    archive_free(&m);
}

/* The offset in the end record leads to one directory, the size to a different one. */
static void refuses_two_directories(void)
{
    struct archive m;
    archive_init(&m);
    add_member(&m, &(struct member){.name = "a/x"}, "inside");
    size_t at = m.bytes.len;
    buf_put(&m.bytes, m.directory.data, m.directory.len);
    finish_archive(&m, 0, 0);
    m.bytes.data[m.bytes.len - 6] = (unsigned char)at; /* the offset of the first copy */
    struct opened o = open_archive(&m);
    CU_ASSERT_EQUAL(o.st, CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(o.err.what, "two central directories"));
    close_opened(&o);
    archive_free(&m);
}

static void reads_every_cut_and_flip_safely(void)
{
    struct archive m;
    archive_init(&m);
    add_member(&m, &(struct member){.name = "a/x"}, "inside");
    add_member(&m, &(struct member){.name = "a/y", .flags = 8}, "");
    finish_archive(&m, 0, 0);
    for (size_t n = 0; n < m.bytes.len; n++) {
        struct opened o = open_bytes(m.bytes.data, n);
        CU_ASSERT_EQUAL(o.st, CKPT_ETRUNCATED);
        close_opened(&o);
    }
    for (size_t i = 0; i < m.bytes.len; i++)
        for (int bit = 0; bit < 8; bit++) {
            m.bytes.data[i] ^= (unsigned char)(1 << bit);
            struct opened o = open_archive(&m);
            if (o.st == CKPT_OK)
                (void)load_all(&o);
            close_opened(&o);
            m.bytes.data[i] ^= (unsigned char)(1 << bit);
        }
    archive_free(&m);
}

static unsigned char *read_file(const char *path, size_t *size)
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
        unsigned char *bytes = read_file(unit_corpus(below), &size);
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

static void payloads_are_located_on_request(void)
{
    size_t size;
    unsigned char *bytes = read_file(unit_corpus("torch/exp/40_miniz_full.pt"), &size);
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

static void inflates_in_any_order(void)
{
    size_t size;
    unsigned char *bytes = read_file(unit_corpus("torch/exp/06_deflate_all.pt"), &size);
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

/* check_wrong_size - checks that an archive whose headers give the first member BY bytes too many is refused
 * with WORDS. */
static void check_wrong_size(int by, const char *words)
{
    size_t size;
    ckpt_str text;
    unsigned char *bytes = read_file(unit_corpus("torch/exp/06_deflate_all.pt"), &size);
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

static void refuses_a_wrong_uncompressed_size(void)
{
    check_wrong_size(-1, "more than the central directory records");
    check_wrong_size(1, "end too early");
}

void suite_zip(void)
{
    UNIT(reads_a_consistent_archive);
    UNIT(refuses_inconsistent_headers);
    UNIT(refuses_unsupported_and_damaged_members);
    UNIT(refuses_wrong_counts_and_sizes_of_the_directory);
    UNIT(refuses_more_entries_than_counted);
    UNIT(two_entries_for_one_payload_overlap);
    UNIT(duplicate_names_are_flagged);
    UNIT(finds_an_archive_between_other_bytes);
    UNIT(refuses_two_directories);
    UNIT(reads_every_cut_and_flip_safely);
    UNIT(reads_torch_archives);
    UNIT(payloads_are_located_on_request);
    UNIT(inflates_in_any_order);
    UNIT(refuses_a_wrong_uncompressed_size);
}
