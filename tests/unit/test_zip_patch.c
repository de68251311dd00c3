/* Replacing and adding members of a zip archive in place. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crc32.h"
#include "base/cursor.h"
#include "codec/zip_patch.h"
#include "codec/zip_write.h"
#include "unit.h"

#define END_RECORDS (56 + 20 + 22) /* zip64 end record, its locator, end record */

/* The form of a test archive, which has the members a/pkl ("old pickle") and a/data ("numbers"). */
struct archive_form {
    bool descriptors, signature;          /* data descriptors follow the payloads, with their signature */
    bool no_crc;                          /* each CRC-32 is 0 */
    bool zip64;                           /* ends in zip64 records */
    int crc_error;                        /* is added to the CRC-32 of each descriptor */
    const char *before, *between, *after; /* bytes around the archive, and before its end record */
};

/* put_member - appends the local header, the payload and the descriptor of a member to B, and its central
 * header to DIRECTORY. */
static void put_member(buf *b, buf *directory, const struct archive_form *form, const char *name,
                       const char *payload)
{
    uint32_t offset = (uint32_t)b->len, size = (uint32_t)strlen(payload);
    uint32_t crc = form->no_crc ? 0 : crc32_update(0, payload, size);
    uint16_t flags = form->descriptors ? 8 : 0;
    buf_u32le(b, 0x04034B50);
    buf_u32le(directory, 0x02014B50);
    buf_u16le(directory, 20);
    for (int central = 0; central < 2; central++) { /* the fields that both headers have */
        buf *header = central ? directory : b;
        bool has_sizes = central || !form->descriptors;
        buf_u16le(header, 20);
        buf_u16le(header, flags);
        buf_u16le(header, 0); /* stored */
        buf_u32le(header, 0); /* time and date */
        buf_u32le(header, has_sizes ? crc : 0);
        buf_u32le(header, has_sizes ? size : 0);
        buf_u32le(header, has_sizes ? size : 0);
        buf_u16le(header, (uint16_t)strlen(name));
        buf_u16le(header, 0); /* no extra field */
    }
    buf_text(b, name);
    buf_text(b, payload);
    if (form->descriptors) {
        if (form->signature)
            buf_u32le(b, 0x08074B50);
        buf_u32le(b, crc + (uint32_t)form->crc_error);
        buf_u32le(b, size);
        buf_u32le(b, size);
    }
    for (int k = 0; k < 10; k++) /* no comment, disk 0, no attributes */
        buf_byte(directory, 0);
    buf_u32le(directory, offset);
    buf_text(directory, name);
}

static void build_archive(buf *b, const struct archive_form *form)
{
    buf directory;
    buf_init(b, 1 << 20);
    buf_init(&directory, 1 << 20);
    put_member(b, &directory, form, "a/pkl", "old pickle");
    put_member(b, &directory, form, "a/data", "numbers");
    uint32_t offset = (uint32_t)b->len, size = (uint32_t)directory.len;
    buf_put(b, directory.data, directory.len);
    buf_text(b, form->between ? form->between : "");
    if (form->zip64) {
        zip_put_ends(b, &(struct zip_end_record){.entries = 2, .size = size, .offset = offset}, b->len);
    } else {
        buf_u32le(b, 0x06054B50);
        buf_u32le(b, 0);
        buf_u16le(b, 2);
        buf_u16le(b, 2);
        buf_u32le(b, size);
        buf_u32le(b, offset);
        buf_u16le(b, 0);
    }
    buf_text(b, form->after ? form->after : "");
    buf_free(&directory);
}

/* An archive, patches for it, and the patched archive. */
struct edit {
    buf bytes;
    arena *a;
    source *src, *patched_src;
    zip *z, *patched;
    struct patches list;
    ckpt_status st;
    ckpt_error err;
};

static struct edit open_archive(const struct archive_form *form)
{
    struct edit e = {.a = arena_new(1 << 24)};
    buf archive;
    build_archive(&archive, form);
    buf_init(&e.bytes, 1 << 20);
    buf_text(&e.bytes, form->before ? form->before : "");
    buf_put(&e.bytes, archive.data, archive.len);
    buf_free(&archive);
    e.src = source_mem(e.bytes.data, e.bytes.len, 0);
    e.st = zip_open(e.src, e.a, &e.z, &e.err);
    CU_ASSERT_EQUAL_FATAL(e.st, CKPT_OK);
    return e;
}

static void open_patched(struct edit *e)
{
    CU_ASSERT_EQUAL_FATAL(e->st, CKPT_OK);
    e->patched_src = source_patched(e->src, &e->list);
    CU_ASSERT_PTR_NOT_NULL_FATAL(e->patched_src);
    CU_ASSERT_EQUAL_FATAL(zip_open(e->patched_src, e->a, &e->patched, &e->err), CKPT_OK);
}

static void close_edit(struct edit *e)
{
    zip_close(e->patched);
    zip_close(e->z);
    source_unref(e->patched_src);
    source_unref(e->src);
    arena_free(e->a);
    buf_free(&e->bytes);
}

/* member_is - returns whether member NAME of the patched archive has the payload TEXT and the right
 * CRC-32. */
static bool member_is(struct edit *e, const char *name, const char *text)
{
    ckpt_str got;
    int64_t i = zip_find(e->patched, str_c(name));
    return i >= 0 && zip_load_member(e->patched, (size_t)i, 1 << 20, &got, &e->err) == CKPT_OK &&
           str_is(got, text);
}

static const struct archive_form forms[] = {
    {0},
    {.descriptors = true, .signature = true},
    {.descriptors = true},
    {.no_crc = true},
    {.zip64 = true},
    {.zip64 = true, .descriptors = true, .signature = true},
};

/* descriptor_has_crc - returns whether the data descriptor of entry I has the CRC-32 of TEXT. */
static bool descriptor_has_crc(struct edit *e, size_t i, const struct archive_form *form, const char *text)
{
    unsigned char b[8];
    const struct zip_entry *entry = &e->patched->entries[i];
    if (zip_locate_payload(e->patched, i, &e->err) != CKPT_OK ||
        source_read(e->patched_src, entry->data + entry->csize, b, sizeof b, &e->err) != CKPT_OK)
        return false;
    uint32_t crc = crc32_update(0, text, strlen(text)), first = load_u32le(b), second = load_u32le(b + 4);
    return form->signature ? first == 0x08074B50 && second == crc : first == crc;
}

static void replacing_changes_only_payload_and_checksums(void)
{
    static const size_t npatches[] = {3, 3, 3, 1, 3, 3}; /* the payload and two CRCs, unless they are 0 */
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        struct edit e = open_archive(&forms[k]);
        e.st = zip_patch_replace(e.z, 0, STR_LIT("NEW PICKLE"), &e.list, &e.err);
        open_patched(&e);
        CU_ASSERT(e.list.n == npatches[k] && e.list.new_size == e.bytes.len &&
                  e.list.old_size == e.bytes.len);
        for (size_t i = 0; i < e.list.n; i++)
            CU_ASSERT_EQUAL(e.list.at[i].bytes.len, e.list.at[i].bytes.ptr[0] == 'N' ? 10 : 4);
        CU_ASSERT(member_is(&e, "a/pkl", "NEW PICKLE") && member_is(&e, "a/data", "numbers"));
        CU_ASSERT(e.patched->n == 2 && e.patched->crc_none == forms[k].no_crc);
        CU_ASSERT(!forms[k].descriptors || descriptor_has_crc(&e, 0, &forms[k], "NEW PICKLE"));
        close_edit(&e);
    }
}

static void a_longer_member_is_appended_and_the_old_one_renamed(void)
{
    static const char longer[] = "a pickle that has outgrown its place";
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        struct edit e = open_archive(&forms[k]);
        e.st = zip_patch_append(e.z, 0, STR_LIT("a/old"), str_c(longer), &e.list, &e.err);
        open_patched(&e);
        CU_ASSERT(e.patched->n == 3 && e.list.n == 2 && e.list.new_size > e.list.old_size);
        CU_ASSERT(member_is(&e, "a/pkl", longer) && member_is(&e, "a/old", "old pickle"));
        CU_ASSERT(member_is(&e, "a/data", "numbers"));
        CU_ASSERT(e.patched->entries[2].data % 64 == 0 && e.patched->entries[2].header == e.z->directory);
        CU_ASSERT(e.patched->end == e.list.new_size && e.patched->shift == 0);
        close_edit(&e);
    }
}

static void refuses_stray_bytes_and_wrong_descriptors(void)
{
    static const struct {
        struct archive_form form;
        const char *reason;
    } refused_forms[] = {
        {{.before = "#!/bin/sh\n"}, "before or after"},
        {{.after = "junk"}, "before or after"},
        {{.between = "junk"}, "after the central directory"},
        {{.descriptors = true, .signature = true, .crc_error = 1}, "another CRC-32"},
    };
    for (size_t k = 0; k < sizeof refused_forms / sizeof *refused_forms; k++) {
        struct edit e = open_archive(&refused_forms[k].form);
        e.st = zip_patch_replace(e.z, 0, STR_LIT("NEW PICKLE"), &e.list, &e.err);
        CU_ASSERT(e.st == CKPT_EUNSUPPORTED && strstr(e.err.what, refused_forms[k].reason));
        struct patches list = {0};
        e.st = zip_patch_append(e.z, 0, STR_LIT("a/old"), STR_LIT("new"), &list, &e.err);
        CU_ASSERT(e.st == CKPT_EUNSUPPORTED ||
                  refused_forms[k].form.crc_error); /* appending keeps the descriptor */
        close_edit(&e);
    }
    struct edit e = open_archive(&forms[0]);
    e.st = zip_patch_append(e.z, 0, STR_LIT("another length"), STR_LIT("new"), &e.list, &e.err);
    CU_ASSERT(e.st == CKPT_ELIMIT && e.list.n == 0);
    close_edit(&e);
}

static void refuses_more_patches_than_a_list_holds(void)
{
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
        for (size_t room = 0; room < 4; room++) { /* for so many patches */
            struct edit e = open_archive(&forms[k]);
            e.list.n = PATCHES_MAX - room;
            e.st = zip_patch_replace(e.z, 0, STR_LIT("NEW PICKLE"), &e.list, &e.err);
            bool fits = room >= (forms[k].no_crc ? 1u : 3u);
            CU_ASSERT(fits ? e.st == CKPT_OK : e.st == CKPT_EUSAGE && strstr(e.err.what, "too many"));
            e.list.n = PATCHES_MAX - room;
            e.st = zip_patch_append(e.z, 0, STR_LIT("a/old"), STR_LIT("new"), &e.list, &e.err);
            CU_ASSERT_EQUAL(e.st, room < 2 ? CKPT_EUSAGE : CKPT_OK);
            close_edit(&e);
        }
}

static void check_replace_refused(struct edit *e, const char *reason)
{
    struct patches list = {0};
    e->st = zip_patch_replace(e->z, 0, STR_LIT("NEW PICKLE"), &list, &e->err);
    CU_ASSERT(e->st == CKPT_EUNSUPPORTED && strstr(e->err.what, reason));
}

static void refuses_an_archive_that_differs_from_what_was_opened(void)
{
    struct edit e = open_archive(&forms[1]);
    e.z->n += 5;
    check_replace_refused(&e, "after the central directory");
    e.z->n -= 5;
    CU_ASSERT_EQUAL(zip_locate_payload(e.z, 0, &e.err), CKPT_OK);
    e.z->entries[0].limit = e.z->entries[0].data + e.z->entries[0].csize + 7;
    check_replace_refused(&e, "the data descriptor of its pickle is missing");
    struct patches list = {0};
    e.st = zip_patch_append(e.z, 0, STR_LIT("a/old"), str_of("", 0xFFFFFFFFu), &list, &e.err);
    CU_ASSERT_EQUAL(e.st, CKPT_ELIMIT);
    close_edit(&e);
    e = open_archive(&(struct archive_form){.between = "0123456789012345678901234567890123456789"
                                                       "012345678901234567890123456789012345"});
    check_replace_refused(&e, "after the central directory"); /* as long as the zip64 end records */
    close_edit(&e);
    e = open_archive(&forms[4]);
    unsigned char *end = e.bytes.data + e.bytes.len - END_RECORDS;
    end[4]++; /* the size of the record */
    check_replace_refused(&e, "after the central directory");
    end[4]--;
    end[56]++; /* the locator's signature */
    check_replace_refused(&e, "after the central directory");
    end[56]--;
    close_edit(&e);
}

/* open_sparse_archive - returns the descriptor of a sparse file: the zip64 archive, with its directory moved
 * by 5 GiB. */
static int open_sparse_archive(void)
{
    static const uint64_t gap = 5ull << 30;
    struct edit e = open_archive(&(struct archive_form){.zip64 = true});
    int fd = memfd_create("far", MFD_CLOEXEC);
    uint64_t offset = e.z->directory, size = e.bytes.len - offset - END_RECORDS;
    buf ends;
    buf_init(&ends, 4096);
    buf_put(&ends, e.bytes.data + offset, (size_t)size);
    zip_put_ends(&ends, &(struct zip_end_record){.entries = 2, .size = size, .offset = offset + gap},
                 offset + gap + size);
    bool ok = fd >= 0 && pwrite(fd, e.bytes.data, (size_t)offset, 0) == (ssize_t)offset &&
              pwrite(fd, ends.data, ends.len, (off_t)(offset + gap)) == (ssize_t)ends.len;
    CU_ASSERT_FATAL(ok);
    buf_free(&ends);
    close_edit(&e);
    return fd;
}

static void appends_beyond_four_gigabytes(void)
{
    char path[64];
    int fd = open_sparse_archive();
    struct edit e = {.a = arena_new(1 << 24)};
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CU_ASSERT_EQUAL_FATAL(source_file_open(path, &e.src, &e.err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(zip_open(e.src, e.a, &e.z, &e.err), CKPT_OK);
    e.st = zip_patch_append(e.z, 0, STR_LIT("a/old"), STR_LIT("far"), &e.list, &e.err);
    open_patched(&e);
    CU_ASSERT(member_is(&e, "a/pkl", "far") && member_is(&e, "a/old", "old pickle"));
    CU_ASSERT(e.patched->entries[2].header == e.z->directory && e.z->directory > 5ull << 30);
    close_edit(&e);
    close(fd);
}

void suite_zip_patch(void)
{
    UNIT(replacing_changes_only_payload_and_checksums);
    UNIT(a_longer_member_is_appended_and_the_old_one_renamed);
    UNIT(refuses_stray_bytes_and_wrong_descriptors);
    UNIT(refuses_more_patches_than_a_list_holds);
    UNIT(refuses_an_archive_that_differs_from_what_was_opened);
    UNIT(appends_beyond_four_gigabytes);
}
