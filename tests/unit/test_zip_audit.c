/* Auditing zip archives with one flaw each, which must be reported with offsets and values. */
#include <stdio.h>

#include "base/buf.h"
#include "base/crc32.h"
#include "codec/zip_audit.h"
#include "codec/zip_header.h"
#include "unit.h"

/* Changes to an archive of the members "a" (AAAA) and "b" (BBBB). A field that is 0 changes nothing. */
struct archive_changes {
    const char *name, *second_name;      /* the names of the members, instead of a and b */
    ckpt_str local_extra, central_extra; /* extra fields of the first member */
    const char *comment;                 /* the comment of the first entry */
    ckpt_str end_comment;                /* the comment of the archive */
    const char *before_archive, *between_members, *before_directory, *after_archive; /* bytes to insert */
    const char *descriptor;   /* the data descriptor of the first member; "": a correct one; NULL: none */
    bool descriptor64;        /* the correct descriptor has sizes of 8 bytes */
    bool descriptor_unsigned; /* the correct descriptor has no signature */
    unsigned at, width;       /* WIDTH bytes at offset AT of the archive become VALUE */
    uint64_t value;
};

/* Offsets in the archive without changes. */
enum { LOCAL_A = 0, LOCAL_B = 35, CENTRAL_A = 70, CENTRAL_B = 117, END = 164, ARCHIVE_SIZE = 186 };
/* Offsets of fields in a central header. */
enum {
    FLAGS = 8,
    METHOD = 10,
    TIME = 12,
    CRC = 16,
    CSIZE = 20,
    USIZE = 24,
    NAME_LENGTH = 28,
    EXTRA_LENGTH = 30,
    COMMENT_LENGTH = 32,
    DISK = 34,
    ATTRIBUTES = 38,
    LOCAL_OFFSET = 42
};

/* member_name - returns the name of the first member (I is 0) or of the second (1). */
static const char *member_name(const struct archive_changes *o, int i)
{
    const char *changed = i ? o->second_name : o->name;
    return changed ? changed : i ? "b" : "a";
}

/* put_header - appends fields of a header of member I (0 or 1), beginning with the version needed: if LOCAL,
 * all of the local header; otherwise those of the central header before the offset of the local header. */
static void put_header(buf *b, const struct archive_changes *o, int i, ckpt_str extra, bool local)
{
    const char *name = member_name(o, i);
    bool descriptor = !i && o->descriptor;
    buf_u16le(b, ZIP_VERSION);
    buf_u16le(b, descriptor ? ZIP_FLAG_DESCRIPTOR : 0);
    buf_u16le(b, ZIP_STORED);
    buf_u32le(b, 0); /* time and date */
    buf_u32le(b, descriptor && local ? 0 : crc32_update(0, i ? "BBBB" : "AAAA", 4));
    buf_u32le(b, descriptor && local ? 0 : 4);
    buf_u32le(b, descriptor && local ? 0 : 4);
    buf_u16le(b, (uint16_t)strlen(name));
    buf_u16le(b, (uint16_t)extra.len);
    if (!local) {
        buf_u16le(b, (uint16_t)(!i && o->comment ? strlen(o->comment) : 0));
        buf_put(b, "\0\0\0\0\0\0\0", 8); /* disk and attributes */
    }
}

static void put_descriptor(buf *b, const struct archive_changes *o)
{
    if (!o->descriptor)
        return;
    if (o->descriptor[0]) {
        buf_put_cstr(b, o->descriptor);
        return;
    }
    if (!o->descriptor_unsigned)
        buf_u32le(b, ZIP_DESCRIPTOR);
    buf_u32le(b, crc32_update(0, "AAAA", 4));
    for (int k = 0; k < 2; k++) { /* both sizes */
        buf_u32le(b, 4);
        if (o->descriptor64)
            buf_u32le(b, 0);
    }
}

static void put_optional_text(buf *b, const char *text) { buf_put_cstr(b, text ? text : ""); }

/* build_archive - writes an archive of two members with the changes O. */
static void build_archive(buf *b, const struct archive_changes *o)
{
    uint32_t local_offset[2];
    buf_init(b, 1 << 20);
    put_optional_text(b, o->before_archive);
    for (int i = 0; i < 2; i++) {
        local_offset[i] = (uint32_t)b->len;
        buf_u32le(b, ZIP_LOCAL);
        put_header(b, o, i, i ? str_of("", 0) : o->local_extra, true);
        put_optional_text(b, member_name(o, i));
        if (!i)
            buf_put_str(b, o->local_extra);
        put_optional_text(b, i ? "BBBB" : "AAAA");
        if (!i)
            put_descriptor(b, o);
        put_optional_text(b, i ? o->before_directory : o->between_members);
    }
    uint32_t directory = (uint32_t)b->len;
    for (int i = 0; i < 2; i++) {
        buf_u32le(b, ZIP_CENTRAL);
        buf_u16le(b, ZIP_VERSION); /* made by */
        put_header(b, o, i, i ? str_of("", 0) : o->central_extra, false);
        buf_u32le(b, local_offset[i]);
        put_optional_text(b, member_name(o, i));
        if (!i)
            buf_put_str(b, o->central_extra);
        put_optional_text(b, i ? NULL : o->comment);
    }
    uint32_t end = (uint32_t)b->len;
    buf_u32le(b, ZIP_END);
    buf_u32le(b, 0); /* this disk, and the disk of the directory */
    buf_u16le(b, 2); /* entries on this disk, and in all */
    buf_u16le(b, 2);
    buf_u32le(b, end - directory);
    buf_u32le(b, directory);
    buf_u16le(b, (uint16_t)o->end_comment.len);
    buf_put_str(b, o->end_comment);
    put_optional_text(b, o->after_archive);
    for (unsigned k = 0; k < o->width; k++)
        b->data[o->at + k] = (unsigned char)(o->value >> (8 * k));
}

/* The flaws that were reported, each in a line: "member: message value (byte offset)", where a value of 0 is
 * not shown, or "member: what: value (byte offset), other value (byte other offset)". */
struct reported_flaws {
    char lines[4096];
    size_t members_found;
};

static void record_flaw(void *user, const struct zip_flaw *f)
{
    struct reported_flaws *t = user;
    size_t n = strlen(t->lines), left = sizeof t->lines - n;
    unsigned long long at = f->at, other_at = f->other_at, value = f->value, other_value = f->other_value;
    if (!f->message)
        snprintf(t->lines + n, left, "%.*s: %s: %llu (byte %llu), %llu (byte %llu)\n", STR_ARG(f->name),
                 f->what, value, at, other_value, other_at);
    else if (value)
        snprintf(t->lines + n, left, "%.*s: %s %llu (byte %llu)\n", STR_ARG(f->name), f->message, value, at);
    else
        snprintf(t->lines + n, left, "%.*s: %s (byte %llu)\n", STR_ARG(f->name), f->message, at);
}

static struct reported_flaws audit_changed_archive(const struct archive_changes *o)
{
    struct reported_flaws t = {{0}, 0};
    ckpt_error err;
    buf b;
    build_archive(&b, o);
    unsigned char *bytes = unit_guard(b.data, b.len);
    source *src = source_mem(bytes, b.len, 0);
    struct zip_audit z = {.src = src, .a = arena_new(1 << 24), .flaw = record_flaw, .user = &t};
    CU_ASSERT_EQUAL(zip_audit(&z, &err), CKPT_OK);
    t.members_found = z.n;
    arena_free(z.a);
    source_unref(src);
    unit_guard_free(bytes, b.len);
    buf_free(&b);
    return t;
}

/* A changed archive, and the flaw that must be reported: a part of reported_flaws.lines. A line that begins
 * with ": " is about the archive or a member without a name. Byte 70 is CENTRAL_A, 117 CENTRAL_B, 164 END and
 * 186 ARCHIVE_SIZE. */
struct flaw_case {
    struct archive_changes changes;
    const char *line;
};

static void check_flaws(const struct flaw_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct reported_flaws t = audit_changed_archive(&cases[i].changes);
        if (!strstr(t.lines, cases[i].line)) {
            printf("\n    case %zu: not reported: %s\n    but\n%s", i, cases[i].line, t.lines);
            CU_FAIL("a flaw is not reported");
        }
    }
}
#define CHECK_FLAWS(cases) check_flaws(cases, sizeof(cases) / sizeof *(cases))

static void valid_archives_have_no_flaws(void)
{
    static const struct archive_changes valid[] = {
        {.name = NULL},
        {.name = "folder/.hidden", .second_name = "folder/..name"},
        {.name = "x", .second_name = "a.."},
        {.descriptor = ""},
        {.descriptor = "", .descriptor_unsigned = true},
        {.descriptor = "", .descriptor64 = true},
        {.descriptor = "", .descriptor64 = true, .descriptor_unsigned = true},
    };
    for (size_t i = 0; i < sizeof valid / sizeof *valid; i++) {
        struct reported_flaws t = audit_changed_archive(&valid[i]);
        CU_ASSERT(t.members_found == 2 && !t.lines[0]);
    }
}

static void differences_of_local_and_central_headers_are_reported(void)
{
    static const struct flaw_case cases[] = {
        {{.at = CENTRAL_A + METHOD, .width = 2, .value = 8}, "a: the method: 0 (byte 0), 8 (byte 70)\n"},
        {{.at = CENTRAL_A + FLAGS, .width = 2, .value = 2}, "a: the flags: 0 (byte 0), 2 (byte 70)\n"},
        {{.at = CENTRAL_A + TIME, .width = 4, .value = 7}, "a: the time: 0 (byte 0), 7 (byte 70)\n"},
        {{.at = CENTRAL_A + CRC, .width = 4, .value = 9}, "a: the CRC-32: "},
        {{.at = CENTRAL_A + CSIZE, .width = 4, .value = 3},
         "a: the compressed size: 4 (byte 0), 3 (byte 70)\n"},
        {{.at = CENTRAL_A + CSIZE, .width = 4, .value = 3},
         "a: is stored uncompressed, but its uncompressed size is not its stored size: 4 (byte 70)"},
        {{.at = CENTRAL_A + USIZE, .width = 4, .value = 3}, "a: the size: 4 (byte 0), 3 (byte 70)\n"},
        {{.at = LOCAL_B + ZIP_LOCAL_SIZE, .width = 1, .value = 'c'},
         "b: is called \"c\" by its local header (byte 35)"},
        {{.at = CENTRAL_B + LOCAL_OFFSET, .width = 4, .value = 36},
         "b: has no local header where the central directory records one, at 36 (byte 117)"},
        {{.at = CENTRAL_B + LOCAL_OFFSET, .width = 4, .value = 170},
         "b: has no local header where the central directory records one, at 170 (byte 117)"},
        {{.at = LOCAL_B + 28 /* the length of the extra field */, .width = 2, .value = 60000},
         "b: has no local header where the central directory records one, at 35 (byte 117)"},
        {{.at = CENTRAL_B + CSIZE, .width = 4, .value = 60000},
         "b: ends after the end of the file; its stored size is 60000 (byte 117)"},
        {{.at = END + 8 /* both numbers of entries */, .width = 4, .value = 0x10001},
         ": the number of entries: 1 (byte 164), 2 (byte 70)\n"},
    };
    CHECK_FLAWS(cases);
}

static void unusual_entries_are_reported(void)
{
    static const struct flaw_case cases[] = {
        {{.at = CENTRAL_A + DISK, .width = 2, .value = 2}, "a: is on another disk, number 2 (byte 70)"},
        {{.at = CENTRAL_A + ATTRIBUTES, .width = 4, .value = 0xA1FF0000}, "a: is a symbolic link (byte 70)"},
        {{.comment = "hidden"}, "a: has a comment, which can hide data; its length is 6 (byte 70)"},
        {{.end_comment = {"hidden", 6}},
         ": the archive has a comment, which can hide data; its length is 6 (byte 164)"},
        {{.after_archive = "hidden"}, ": bytes after the archive: 6 (byte 186)"},
        {{.name = "\xff", .at = CENTRAL_A + FLAGS, .width = 2, .value = 0x800},
         "\xff: its name is flagged as UTF-8, but is not valid UTF-8 (byte 70)"},
        {{.at = CENTRAL_B, .width = 1, .value = 'Q'},
         ": the central directory has bytes that belong to no entry: 47 (byte 117)"},
        {{.at = CENTRAL_B + NAME_LENGTH, .width = 2, .value = 60000},
         ": the central directory ends inside an entry (byte 70)"},
        {{.at = CENTRAL_B + EXTRA_LENGTH, .width = 2, .value = 60000},
         ": the central directory ends inside an entry (byte 70)"},
        {{.at = CENTRAL_B + COMMENT_LENGTH, .width = 2, .value = 60000},
         ": the central directory ends inside an entry (byte 70)"},
    };
    CHECK_FLAWS(cases);
}

#define EIGHT_ZEROS "\0\0\0\0\0\0\0\0"
/* The comment of the archive is an end record of 22 bytes, followed by "." as the comment of that record. One
 * of the two records is taken for the archive's. The other is reported if it leads to a central directory, or
 * records no entries. */
static void second_end_records_are_reported(void)
{
    static const struct flaw_case cases[] = {
        /* the length of its comment, 1, is right, so it is taken for the archive's */
        {{.end_comment = {"PK\5\6" EIGHT_ZEROS EIGHT_ZEROS "\1\0.", 23}},
         ": is a second end record; the archive's is at byte 186 (byte 164)"},
        /* the length of its comment, 7, is wrong. It has one entry, 47 bytes at offset 70: the central header
         * of "a". */
        {{.end_comment = {"PK\5\6\0\0\0\0\1\0\1\0\x2f\0\0\0\x46\0\0\0\7\0.", 23}},
         ": is a second end record; the archive's is at byte 164 (byte 186)"},
    };
    /* offset 35 is that of a local header; offset 65535 is beyond the file */
    static const struct archive_changes without_directory[] = {
        {.end_comment = {"PK\5\6\0\0\0\0\1\0\1\0\x2f\0\0\0\x23\0\0\0\7\0.", 23}},
        {.end_comment = {"PK\5\6\0\0\0\0\1\0\1\0\x2f\0\0\0\xff\xff\0\0\7\0.", 23}},
    };
    CHECK_FLAWS(cases);
    for (size_t i = 0; i < 2; i++) {
        struct reported_flaws t = audit_changed_archive(&without_directory[i]);
        CU_ASSERT(!strstr(t.lines, "second"));
    }
}

static void unsafe_names_are_reported(void)
{
    static const struct flaw_case cases[] = {
        {{.name = "/etc"}, "/etc: is an absolute path"},
        {{.name = "\\x"}, "\\x: is an absolute path"},
        {{.name = "c:x"}, "c:x: is an absolute path"},
        {{.name = ".."}, "..: leads out of its folder"},
        {{.name = "a/../b"}, "a/../b: leads out of its folder"},
        {{.name = "a\\..\\b"}, "a\\..\\b: leads out of its folder"},
        {{.name = "a\x1b"}, "a\x1b: has a control character"},
        {{.name = "a\x7f"}, "a\x7f: has a control character"},
        {{.name = ""}, ": has no name"},
        {{.name = "b"}, "b: has the name of another member, whose header is at 70 (byte 117)"},
        {{.name = "B"},
         "b: has the name of another member, but for case or slashes, whose header is at 70 (byte 117)"},
        {{.name = "x/y", .second_name = "X\\y"},
         "X\\y: has the name of another member, but for case or slashes"},
    };
    CHECK_FLAWS(cases);
}

/* An extra field has an id, a length and bytes. The id 0x7075 is that of a name in UTF-8, and 1 that of
 * zip64. */
static void malformed_extra_fields_are_reported(void)
{
    static const struct flaw_case cases[] = {
        {{.central_extra = {"\x75\x70\1\0x", 5}}, "a: has another name in an extra field"},
        {{.local_extra = {"\x75\x70\1\0x", 5}},
         "a: has another name in an extra field, which some readers prefer (byte 0)"},
        {{.central_extra = {"\2\0\5\0x", 5}},
         "a: bytes of an extra field beyond the end of its header: 4 (byte 70)"},
        {{.central_extra = {"\1\0\5\0x", 5}},
         "a: bytes of an extra field beyond the end of its header: 4 (byte 70)"},
        {{.central_extra = {"\2\0\0\0xyz", 7}}, "a: bytes after the last extra field: 3 (byte 70)"},
        {{.central_extra = {"\1\0\3\0xyz", 7}}, "a: unused bytes in a zip64 field: 3 (byte 70)"},
    };
    static const struct archive_changes zip64_disk_number_only = {.central_extra = {"\1\0\4\0\0\0\0\0", 8}};
    CHECK_FLAWS(cases);
    struct reported_flaws t = audit_changed_archive(&zip64_disk_number_only);
    CU_ASSERT(!t.lines[0]);
}

/* Each number that is 0xffffffff in the entry is read from the zip64 field. */
static void zip64_fields_are_read(void)
{
    static const struct archive_changes changes[] = {
        /* The field has the id 1 and 8 bytes: the size 4 in the first case, the compressed size 4 in the
         * second, and the offset 0 in the third. */
        {.central_extra = {"\1\0\10\0\4\0\0\0\0\0\0\0", 12},
         .at = CENTRAL_A + USIZE,
         .width = 4,
         .value = UINT32_MAX},
        {.central_extra = {"\1\0\10\0\4\0\0\0\0\0\0\0", 12},
         .at = CENTRAL_A + CSIZE,
         .width = 4,
         .value = UINT32_MAX},
        {.central_extra = {"\1\0\10\0\0\0\0\0\0\0\0\0", 12},
         .at = CENTRAL_A + LOCAL_OFFSET,
         .width = 4,
         .value = UINT32_MAX},
    };
    for (size_t i = 0; i < 3; i++) {
        struct reported_flaws t = audit_changed_archive(&changes[i]);
        CU_ASSERT(!t.lines[0]);
    }
}

static void bytes_between_members_are_reported(void)
{
    static const struct flaw_case cases[] = {
        {{.before_archive = "before"}, ": bytes before the first member: 6 (byte 0)"},
        {{.between_members = "between"}, ": bytes that belong to no member: 7 (byte 35)"},
        {{.before_directory = "last"}, ": bytes that belong to no member: 4 (byte 70)"},
        {{.before_directory = "more bytes than a header has, without a signature"},
         ": bytes that belong to no member: "},
        {{.at = CENTRAL_B + LOCAL_OFFSET, .width = 4, .value = 0},
         "overlaps the previous member, which ends at"},
        {{.descriptor = "xxxxxxxxxxxxxxxx"},
         "a: no data descriptor follows, although bit 3 of the flags is set"},
        {{.descriptor = "PK\7\10xxxxxxxxxxxx"}, "a: the CRC-32 in the data descriptor"},
        {{.descriptor = "PK\7\10\xf1\x08\x0d\x9bxxxxxxxx"}, "a: the data descriptor states other sizes"},
    };
    CHECK_FLAWS(cases);
}

/* check_unlisted - checks that a member is found in a file without a central directory: bytes that only begin
 * like a header, then the local header and the payload. Unless HAS_SIZE, the size was in a data descriptor,
 * which is cut off. */
static void check_unlisted(bool has_size)
{
    buf archive, file;
    struct reported_flaws t = {{0}, 0};
    ckpt_error err;
    build_archive(&archive, &(struct archive_changes){.name = "hidden", .descriptor = has_size ? NULL : ""});
    archive.len = 40; /* the first local header with its name and 4 bytes of payload */
    buf_init(&file, 1 << 20);
    buf_put_cstr(&file, "PK\3\4 begins like a header, and goes on with words");
    uint64_t at = file.len;
    buf_put_str(&file, buf_view(&archive));
    source *src = source_mem(file.data, file.len, 0);
    struct zip_audit z = {.src = src, .a = arena_new(1 << 24), .flaw = record_flaw, .user = &t};
    CU_ASSERT_EQUAL(zip_audit(&z, &err), CKPT_OK);
    char line[100];
    snprintf(line, sizeof line,
             "hidden: is not listed in the central directory; its stored size is 4 (byte %d)", (int)at);
    CU_ASSERT(strstr(t.lines, line) != NULL);
    CU_ASSERT_FATAL(z.n == 1);
    CU_ASSERT(str_is(z.views[0].name, "hidden") && z.views[0].data_offset == at + 36 && z.views[0].reachable);
    arena_free(z.a);
    source_unref(src);
    buf_free(&file);
    buf_free(&archive);
}

static void members_that_are_not_listed_are_found(void)
{
    check_unlisted(true);
    check_unlisted(false);
}

void suite_zip_audit(void)
{
    UNIT(valid_archives_have_no_flaws);
    UNIT(differences_of_local_and_central_headers_are_reported);
    UNIT(unusual_entries_are_reported);
    UNIT(second_end_records_are_reported);
    UNIT(unsafe_names_are_reported);
    UNIT(malformed_extra_fields_are_reported);
    UNIT(zip64_fields_are_read);
    UNIT(bytes_between_members_are_reported);
    UNIT(members_that_are_not_listed_are_found);
}
