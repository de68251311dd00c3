/* Reading zip archives: torch's archives are read; inconsistent headers are refused with the name of the
 * member. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/crc32.h"
#include "codec/zip.h"
#include "codec/zip_header.h"
#include "codec/zip_lzma.h"
#include "unit.h"

/* ------------------------------------------------------------- test archives */

#define LOCAL_USIZE   22 /* offset of the uncompressed size in a local header */
#define CENTRAL_USIZE 24 /* offset of the uncompressed size in a central header */

/* An archive that is being written. */
struct archive {
    buf bytes, directory;
    unsigned members;
};

/* A member. Unless they are 0, local_name, local_method and local_flags are in the local header instead of
 * name, method and flags. */
struct member {
    const char *name, *local_name;
    uint16_t method, local_method, flags, local_flags;
    int add_csize, add_usize; /* numbers added to the true sizes in the central header */
    int add_offset;           /* a number added to the true offset of the local header */
    bool no_crc;              /* the CRC-32 is 0 in both headers */
    bool bad_local_crc;       /* the CRC-32 in the local header is wrong */
};

static void archive_init(struct archive *archive)
{
    buf_init(&archive->bytes, 1 << 24);
    buf_init(&archive->directory, 1 << 24);
    archive->members = 0;
}

static void archive_free(struct archive *archive)
{
    buf_free(&archive->bytes);
    buf_free(&archive->directory);
}

/* put_header_fields - appends the fields that local and central headers have in common. */
static void put_header_fields(buf *b, const struct member *member, uint16_t flags, uint32_t crc,
                              uint32_t csize, uint32_t usize, const char *name)
{
    buf_u16le(b, 20); /* version needed */
    buf_u16le(b, flags);
    buf_u16le(b, member->method);
    buf_u32le(b, 0); /* time and date */
    buf_u32le(b, crc);
    buf_u32le(b, csize);
    buf_u32le(b, usize);
    buf_u16le(b, (uint16_t)strlen(name));
    buf_u16le(b, 0); /* length of the extra field */
}

static void add_member(struct archive *archive, const struct member *member, const char *payload)
{
    uint32_t size = (uint32_t)strlen(payload), header_offset = (uint32_t)archive->bytes.len;
    uint32_t crc = member->no_crc ? 0 : crc32_update(0, payload, size);
    const char *local_name = member->local_name ? member->local_name : member->name;
    buf_u32le(&archive->bytes, ZIP_LOCAL);
    put_header_fields(&archive->bytes, member, member->local_flags ? member->local_flags : member->flags,
                      member->bad_local_crc ? crc ^ 1 : crc, size, size, local_name);
    buf_put_cstr(&archive->bytes, local_name);
    buf_put_cstr(&archive->bytes, payload);
    if (member->local_method)
        archive->bytes.data[header_offset + 8] = (unsigned char)member->local_method;
    buf_u32le(&archive->directory, ZIP_CENTRAL);
    buf_u16le(&archive->directory, 20); /* version made by */
    put_header_fields(&archive->directory, member, member->flags, crc, size + (uint32_t)member->add_csize,
                      size + (uint32_t)member->add_usize, member->name);
    buf_put(&archive->directory, "\0\0\0\0\0\0\0\0\0", 10); /* comment length, disk, attributes */
    buf_u32le(&archive->directory, header_offset + (uint32_t)member->add_offset);
    buf_put_cstr(&archive->directory, member->name);
    archive->members++;
}

/* finish_archive - appends the central directory, and an end record with MORE_ENTRIES added to the number of
 * entries and MORE_SIZE to the size of the central directory. */
static void finish_archive(struct archive *archive, int more_entries, int more_size)
{
    uint32_t directory_offset = (uint32_t)archive->bytes.len;
    buf_put(&archive->bytes, archive->directory.data, archive->directory.len);
    buf_u32le(&archive->bytes, ZIP_END);
    buf_u32le(&archive->bytes, 0); /* this disk, and the disk of the directory */
    buf_u16le(&archive->bytes, (uint16_t)(archive->members + (unsigned)more_entries));
    buf_u16le(&archive->bytes, (uint16_t)(archive->members + (unsigned)more_entries));
    buf_u32le(&archive->bytes, (uint32_t)archive->directory.len + (uint32_t)more_size);
    buf_u32le(&archive->bytes, directory_offset);
    buf_u16le(&archive->bytes, 0); /* length of the comment */
}

/* An archive that was opened, in memory that ends at an unmapped page. */
struct opened_archive {
    unsigned char *bytes;
    size_t size;
    source *src;
    arena *arena;
    zip *zip;
    ckpt_error err;
    ckpt_status status;
};

static struct opened_archive open_bytes(const void *bytes, size_t size)
{
    struct opened_archive o = {.bytes = unit_guard(bytes, size), .size = size, .arena = arena_new(1 << 26)};
    o.src = source_mem(o.bytes, size, 0);
    o.status = zip_open(o.src, o.arena, &o.zip, &o.err);
    return o;
}

static void close_opened(struct opened_archive *o)
{
    zip_close(o->status == CKPT_OK ? o->zip : NULL);
    source_unref(o->src);
    arena_free(o->arena);
    unit_guard_free(o->bytes, o->size);
}

static struct opened_archive open_archive(struct archive *archive)
{
    return open_bytes(archive->bytes.data, archive->bytes.len);
}

/* load_all - reads every member, and returns the first failure. */
static ckpt_status load_all(struct opened_archive *o)
{
    ckpt_str text;
    for (size_t i = 0; i < o->zip->n; i++) {
        ckpt_status st = zip_load_member(o->zip, i, 1 << 24, &text, &o->err);
        if (st != CKPT_OK)
            return st;
    }
    return CKPT_OK;
}

/* open_with_member - opens an archive of three members, of which SECOND is the second, and reads all members.
 * MORE_ENTRIES and MORE_SIZE are as for finish_archive. */
static ckpt_status open_with_member(const struct member *second, int more_entries, int more_size,
                                    ckpt_error *err)
{
    struct archive archive;
    archive_init(&archive);
    add_member(&archive, &(struct member){.name = "a/first"}, "one");
    add_member(&archive, second, "two two two");
    add_member(&archive, &(struct member){.name = "a/third"}, "three");
    finish_archive(&archive, more_entries, more_size);
    struct opened_archive o = open_archive(&archive);
    ckpt_status st = o.status == CKPT_OK ? load_all(&o) : o.status;
    *err = o.err;
    close_opened(&o);
    archive_free(&archive);
    return st;
}

static void check_refused(const struct member *second, ckpt_status want, const char *words)
{
    ckpt_error err = {0};
    CU_ASSERT_EQUAL(open_with_member(second, 0, 0, &err), want);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, words));
    if (!strstr(err.what, words))
        printf("  found: %s: %s\n", err.where, err.what);
}

/* ---------------------------------------------------------------------- tests */

static void a_consistent_archive_is_read(void)
{
    ckpt_error err = {0};
    CU_ASSERT_EQUAL(open_with_member(&(struct member){.name = "a/second"}, 0, 0, &err), CKPT_OK);
}

static void inconsistent_headers_are_refused(void)
{
    check_refused(&(struct member){.name = "a/s", .local_name = "a/t"}, CKPT_EFORMAT,
                  "local header calls it");
    check_refused(&(struct member){.name = "a/s", .local_name = "a/longer"}, CKPT_EFORMAT,
                  "local header calls it");
    check_refused(&(struct member){.name = "a/s", .local_method = ZIP_DEFLATED}, CKPT_EFORMAT,
                  "the method is 8");
    check_refused(&(struct member){.name = "a/s", .add_usize = 1}, CKPT_EFORMAT, "its sizes are 11 and 12");
    check_refused(&(struct member){.name = "a/s", .add_usize = 5, .add_csize = 5}, CKPT_EFORMAT, "overlap");
    check_refused(&(struct member){.name = "a/s", .add_usize = -1, .add_csize = -1}, CKPT_EFORMAT,
                  "size is 11 in its local header");
    check_refused(&(struct member){.name = "a/s", .add_usize = 0x7fffffff, .add_csize = 0x7fffffff},
                  CKPT_EFORMAT, "overlap");
    check_refused(&(struct member){.name = "a/s", .add_offset = 0x7fffffff}, CKPT_EFORMAT,
                  "do not fit between");
    check_refused(&(struct member){.name = "a/s", .add_offset = -1}, CKPT_EFORMAT, "overlap");
    check_refused(&(struct member){.name = "a/s", .method = ZIP_DEFLATED, .add_usize = 40000}, CKPT_EFORMAT,
                  "cannot inflate to 40011 bytes");
    check_refused(&(struct member){.name = "a/s", .bad_local_crc = true}, CKPT_EFORMAT, "CRC-32 is");
    check_refused(&(struct member){.name = "a/s", .local_flags = ZIP_FLAG_ENCRYPTED}, CKPT_EFORMAT,
                  "is it encrypted?");
}

static void unsupported_and_damaged_members_are_refused(void)
{
    check_refused(&(struct member){.name = "a/s", .flags = ZIP_FLAG_ENCRYPTED}, CKPT_EUNSUPPORTED,
                  "encrypted");
    check_refused(&(struct member){.name = "a/s", .flags = ZIP_FLAG_PATCH}, CKPT_EUNSUPPORTED, "patch");
    check_refused(&(struct member){.name = "a/s", .method = ZIP_LZMA}, CKPT_EUNSUPPORTED, "LZMA");
    check_refused(&(struct member){.name = "a/s", .method = ZIP_DEFLATED}, CKPT_EFORMAT, "deflated bytes");
    check_refused(&(struct member){.name = "a/s", .no_crc = true}, CKPT_ECHECKSUM, "CRC-32");
}

static void wrong_counts_and_sizes_of_the_directory_are_refused(void)
{
    ckpt_error err = {0};
    CU_ASSERT_EQUAL(open_with_member(&(struct member){.name = "a/s"}, 1, 0, &err), CKPT_EFORMAT);
    CU_ASSERT_EQUAL(open_with_member(&(struct member){.name = "a/s"}, 1000, 0, &err), CKPT_EFORMAT);
    CU_ASSERT_EQUAL(open_with_member(&(struct member){.name = "a/s"}, 0, 1, &err), CKPT_EFORMAT);
    CU_ASSERT_EQUAL(open_with_member(&(struct member){.name = "a/s"}, 0, -(int)ZIP_CENTRAL_SIZE, &err),
                    CKPT_EFORMAT);
}

static void more_entries_than_counted_are_refused(void)
{
    struct archive archive;
    archive_init(&archive);
    add_member(&archive, &(struct member){.name = "a/x"}, "1");
    add_member(&archive, &(struct member){.name = "a/y"}, "2");
    finish_archive(&archive, -1, 0);
    struct opened_archive o = open_archive(&archive);
    CU_ASSERT_EQUAL(o.status, CKPT_EFORMAT);
    /* 49 bytes: a central header of 46 and the name "a/y" */
    CU_ASSERT_PTR_NOT_NULL(
        strstr(o.err.what, "49 more bytes follow the entries that the end record counts, 1"));
    close_opened(&o);
    archive_free(&archive);
}

/* The second entry has the offset of the first: add_offset is the negative size of the first member. */
static void two_entries_for_one_payload_overlap(void)
{
    struct archive archive;
    archive_init(&archive);
    add_member(&archive, &(struct member){.name = "a/x"}, "payload");
    add_member(&archive, &(struct member){.name = "a/x", .add_offset = -(int)(ZIP_LOCAL_SIZE + 3 + 7)},
               "payload");
    finish_archive(&archive, 0, 0);
    struct opened_archive o = open_archive(&archive);
    CU_ASSERT_EQUAL(o.status, CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(o.err.what, "overlap"));
    close_opened(&o);
    archive_free(&archive);
}

static void names_are_found_and_duplicates_flagged(void)
{
    struct archive archive;
    archive_init(&archive);
    add_member(&archive, &(struct member){.name = "a/x"}, "1");
    add_member(&archive, &(struct member){.name = "a/y"}, "2");
    add_member(&archive, &(struct member){.name = "a/x"}, "3");
    finish_archive(&archive, 0, 0);
    struct opened_archive o = open_archive(&archive);
    CU_ASSERT_EQUAL_FATAL(o.status, CKPT_OK);
    CU_ASSERT(o.zip->entries[0].duplicate && !o.zip->entries[1].duplicate && o.zip->entries[2].duplicate);
    CU_ASSERT_EQUAL(zip_find(o.zip, STR_LIT("a/x")), 0);
    CU_ASSERT_EQUAL(zip_find(o.zip, STR_LIT("A/Y")), -1);
    zip_free_names(o.zip); /* from here on, zip_find searches without an index of names */
    CU_ASSERT_EQUAL(zip_find(o.zip, STR_LIT("a/x")), 0);
    CU_ASSERT_EQUAL(zip_find(o.zip, STR_LIT("A/Y")), -1);
    CU_ASSERT_EQUAL(zip_index_case_folded(o.zip, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(zip_find_case_folded(o.zip, STR_LIT(""), STR_LIT("A/Y")), 1);
    CU_ASSERT_EQUAL(zip_find_case_folded(o.zip, STR_LIT("a/"), STR_LIT("y")), 1);
    CU_ASSERT_EQUAL(zip_find_case_folded(o.zip, STR_LIT(""), STR_LIT("a/z")), -1);
    CU_ASSERT_EQUAL(zip_find_case_folded(o.zip, STR_LIT("a/y"), STR_LIT("y")), -1);
    CU_ASSERT_EQUAL(zip_find_case_folded(o.zip, STR_LIT("a/yyy"), STR_LIT("")), -1);
    close_opened(&o);
    archive_free(&archive);
}

static void an_archive_between_other_bytes_is_found(void)
{
    struct archive archive;
    buf b;
    archive_init(&archive);
    add_member(&archive, &(struct member){.name = "a/x"}, "inside");
    finish_archive(&archive, 0, 0);
    buf_init(&b, 1 << 20);
    buf_put_cstr(&b, "JUNKJUNK");
    buf_put_str(&b, buf_view(&archive.bytes));
    for (int i = 0; i < 70000; i++) /* longer than a comment can be */
        buf_byte(&b, 'j');
    struct opened_archive o = open_bytes(b.data, b.len);
    CU_ASSERT_EQUAL_FATAL(o.status, CKPT_OK);
    CU_ASSERT_EQUAL(o.zip->prefix_size, 8);
    CU_ASSERT_EQUAL(o.zip->archive_end, 8 + archive.bytes.len);
    CU_ASSERT_EQUAL(load_all(&o), CKPT_OK);
    close_opened(&o);
    /* Now the file begins with the signature of a local header, so it is taken for a truncated archive. */
    memcpy(b.data, "PK\3\4", 4);
    o = open_bytes(b.data, b.len);
    CU_ASSERT_EQUAL(o.status, CKPT_ETRUNCATED);
    close_opened(&o);
    buf_free(&b);
    archive_free(&archive);
}

/* The central directory is there twice: the end record has the offset of the first copy, and follows the
 * second. */
static void two_directories_are_refused(void)
{
    struct archive archive;
    archive_init(&archive);
    add_member(&archive, &(struct member){.name = "a/x"}, "inside");
    size_t at = archive.bytes.len;
    buf_put(&archive.bytes, archive.directory.data, archive.directory.len);
    finish_archive(&archive, 0, 0);
    archive.bytes.data[archive.bytes.len - 6] = (unsigned char)at; /* the offset of the first copy */
    struct opened_archive o = open_archive(&archive);
    CU_ASSERT_EQUAL(o.status, CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(o.err.what, "two central directories"));
    close_opened(&o);
    archive_free(&archive);
}

static void every_truncation_and_changed_bit_is_read_safely(void)
{
    struct archive archive;
    archive_init(&archive);
    add_member(&archive, &(struct member){.name = "a/x"}, "inside");
    add_member(&archive, &(struct member){.name = "a/y", .flags = ZIP_FLAG_DESCRIPTOR}, "");
    finish_archive(&archive, 0, 0);
    for (size_t n = 0; n < archive.bytes.len; n++) {
        struct opened_archive o = open_bytes(archive.bytes.data, n);
        CU_ASSERT_EQUAL(o.status, CKPT_ETRUNCATED);
        close_opened(&o);
    }
    for (size_t i = 0; i < archive.bytes.len; i++)
        for (int bit = 0; bit < 8; bit++) {
            archive.bytes.data[i] ^= (unsigned char)(1 << bit);
            struct opened_archive o = open_archive(&archive);
            if (o.status == CKPT_OK)
                (void)load_all(&o);
            close_opened(&o);
            archive.bytes.data[i] ^= (unsigned char)(1 << bit);
        }
    archive_free(&archive);
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

static void archives_of_torch_are_read(void)
{
    static const char *const files[] = {"01_pyzip_stored",  "04_deflate_pkl",        "06_deflate_all",
                                        "28_trailing_junk", "32_infozip_r",          "40_miniz_full",
                                        "43_no_crc",        "45_dd_noalign_noeocd64"};
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        char corpus_file[128];
        size_t size;
        snprintf(corpus_file, sizeof corpus_file, "torch/exp/%s.pt", files[k]);
        unsigned char *bytes = read_file(unit_corpus_path(corpus_file), &size);
        struct opened_archive o = open_bytes(bytes, size);
        CU_ASSERT_EQUAL_FATAL(o.status, CKPT_OK);
        CU_ASSERT_EQUAL(load_all(&o), CKPT_OK);
        int64_t i = zip_find(o.zip, STR_LIT("archive/data/0"));
        ckpt_str text = {0};
        CU_ASSERT_FATAL(i >= 0);
        CU_ASSERT_EQUAL(zip_load_member(o.zip, (size_t)i, 100, &text, &o.err), CKPT_OK);
        /* the floats 1 and 2, and two more */
        CU_ASSERT(text.len == 16 && memcmp(text.ptr, "\0\0\x80\x3f\0\0\0\x40", 8) == 0);
        CU_ASSERT_EQUAL(zip_load_member(o.zip, (size_t)i, 15, &text, &o.err), CKPT_ELIMIT);
        close_opened(&o);
        free(bytes);
    }
}

static void payloads_are_located_on_request(void)
{
    size_t size;
    unsigned char *bytes = read_file(unit_corpus_path("torch/exp/40_miniz_full.pt"), &size);
    struct opened_archive o = open_bytes(bytes, size);
    source *s;
    CU_ASSERT_EQUAL_FATAL(o.status, CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(zip_open_member(o.zip, 2, &s, &o.err), CKPT_OK);
    CU_ASSERT_EQUAL(source_pos(s, 0), CKPT_NO_OFFSET);
    CU_ASSERT_EQUAL(source_locate(s, &o.err), CKPT_OK);
    CU_ASSERT(source_pos(s, 0) % 64 == 0 && memcmp(bytes + source_pos(s, 0), "\0\0\x80\x3f", 4) == 0);
    source_unref(s);
    close_opened(&o);
    free(bytes);
}

static void deflated_bytes_are_read_in_any_order(void)
{
    size_t size;
    unsigned char *bytes = read_file(unit_corpus_path("torch/exp/06_deflate_all.pt"), &size);
    struct opened_archive o = open_bytes(bytes, size);
    source *s;
    unsigned char member_bytes[4096], byte;
    CU_ASSERT_EQUAL_FATAL(o.status, CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(zip_open_member(o.zip, 0, &s, &o.err), CKPT_OK);
    CU_ASSERT_FATAL(s->size <= sizeof member_bytes);
    CU_ASSERT_EQUAL(source_read(s, 0, member_bytes, (size_t)s->size, &o.err), CKPT_OK);
    for (uint64_t i = s->size; i-- > 0;)
        CU_ASSERT(source_read(s, i, &byte, 1, &o.err) == CKPT_OK && byte == member_bytes[i]);
    CU_ASSERT_EQUAL(source_read(s, s->size, &byte, 1, &o.err), CKPT_ETRUNCATED);
    source_unref(s);
    close_opened(&o);
    free(bytes);
}

/* check_wrong_size - adds BY to the uncompressed size in both headers of the first member, and checks that
 * reading the member fails with WORDS. */
static void check_wrong_size(int by, const char *words)
{
    size_t size;
    ckpt_str text;
    unsigned char *bytes = read_file(unit_corpus_path("torch/exp/06_deflate_all.pt"), &size);
    struct opened_archive o = open_bytes(bytes, size);
    CU_ASSERT_EQUAL_FATAL(o.status, CKPT_OK);
    uint64_t local = o.zip->entries[0].header_offset, central = o.zip->directory_at;
    close_opened(&o);
    bytes[local + LOCAL_USIZE] = (unsigned char)(bytes[local + LOCAL_USIZE] + by);
    bytes[central + CENTRAL_USIZE] = (unsigned char)(bytes[central + CENTRAL_USIZE] + by);
    o = open_bytes(bytes, size);
    CU_ASSERT_EQUAL_FATAL(o.status, CKPT_OK);
    CU_ASSERT_EQUAL(zip_load_member(o.zip, 0, 1 << 20, &text, &o.err), CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(o.err.what, words));
    close_opened(&o);
    free(bytes);
}

static void a_wrong_uncompressed_size_is_refused(void)
{
    check_wrong_size(-1, "more than the central directory records");
    check_wrong_size(1, "end too early");
}

void suite_zip(void)
{
    UNIT(a_consistent_archive_is_read);
    UNIT(inconsistent_headers_are_refused);
    UNIT(unsupported_and_damaged_members_are_refused);
    UNIT(wrong_counts_and_sizes_of_the_directory_are_refused);
    UNIT(more_entries_than_counted_are_refused);
    UNIT(two_entries_for_one_payload_overlap);
    UNIT(names_are_found_and_duplicates_flagged);
    UNIT(an_archive_between_other_bytes_is_found);
    UNIT(two_directories_are_refused);
    UNIT(every_truncation_and_changed_bit_is_read_safely);
    UNIT(archives_of_torch_are_read);
    UNIT(payloads_are_located_on_request);
    UNIT(deflated_bytes_are_read_in_any_order);
    UNIT(a_wrong_uncompressed_size_is_refused);
}
