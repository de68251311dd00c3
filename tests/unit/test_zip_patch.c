/* Replacing and adding members of a zip archive in place. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crc32.h"
#include "base/cursor.h"
#include "codec/zip_header.h"
#include "codec/zip_patch.h"
#include "codec/zip_write.h"
#include "unit.h"

/* The form of a test archive, which has the members a/pkl ("old pickle") and a/data ("numbers"). */
struct archive_form {
    bool descriptors; /* a data descriptor follows each payload */
    bool signature;   /* each data descriptor begins with its signature */
    bool no_crc;      /* each CRC-32 is 0 */
    bool zip64;       /* the archive ends in zip64 records */
    int crc_error;    /* a number added to the CRC-32 of each descriptor */
    const char *before_archive, *before_end_record, *after_archive; /* bytes to insert */
};

/* put_member - appends the local header, the payload and the descriptor of a member to B, and its central
 * header to DIRECTORY. */
static void put_member(buf *b, buf *directory, const struct archive_form *form, const char *name,
                       const char *payload)
{
    uint32_t offset = (uint32_t)b->len, size = (uint32_t)strlen(payload);
    uint32_t crc = form->no_crc ? 0 : crc32_update(0, payload, size);
    uint16_t flags = form->descriptors ? ZIP_FLAG_DESCRIPTOR : 0;
    buf_u32le(b, ZIP_LOCAL);
    buf_u32le(directory, ZIP_CENTRAL);
    buf_u16le(directory, ZIP_VERSION);              /* made by */
    for (int central = 0; central < 2; central++) { /* the fields that both headers have */
        buf *header = central ? directory : b;
        bool has_sizes = central || !form->descriptors;
        buf_u16le(header, ZIP_VERSION);
        buf_u16le(header, flags);
        buf_u16le(header, 0); /* stored */
        buf_u32le(header, 0); /* time and date */
        buf_u32le(header, has_sizes ? crc : 0);
        buf_u32le(header, has_sizes ? size : 0);
        buf_u32le(header, has_sizes ? size : 0);
        buf_u16le(header, (uint16_t)strlen(name));
        buf_u16le(header, 0); /* no extra field */
    }
    buf_put_cstr(b, name);
    buf_put_cstr(b, payload);
    if (form->descriptors) {
        if (form->signature)
            buf_u32le(b, ZIP_DESCRIPTOR);
        buf_u32le(b, crc + (uint32_t)form->crc_error);
        buf_u32le(b, size);
        buf_u32le(b, size);
    }
    for (int k = 0; k < 10; k++) /* no comment, disk 0, no attributes */
        buf_byte(directory, 0);
    buf_u32le(directory, offset);
    buf_put_cstr(directory, name);
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
    buf_put_cstr(b, form->before_end_record ? form->before_end_record : "");
    if (form->zip64) {
        zip_put_ends(b, &(struct zip_end_record){.entries = 2, .size = size, .offset = offset}, b->len);
    } else {
        buf_u32le(b, ZIP_END);
        buf_u32le(b, 0); /* this disk, and the disk of the directory */
        buf_u16le(b, 2); /* entries on this disk, and in all */
        buf_u16le(b, 2);
        buf_u32le(b, size);
        buf_u32le(b, offset);
        buf_u16le(b, 0); /* length of the comment */
    }
    buf_put_cstr(b, form->after_archive ? form->after_archive : "");
    buf_free(&directory);
}

/* An archive, patches for it, and the patched archive. */
struct edit {
    buf bytes;
    arena *arena;
    source *src, *patched_src;
    zip *zip, *patched_zip;
    struct patches patches;
    ckpt_status status;
    ckpt_error err;
};

static struct edit open_archive(const struct archive_form *form)
{
    struct edit e = {.arena = arena_new(1 << 24)};
    buf archive;
    build_archive(&archive, form);
    buf_init(&e.bytes, 1 << 20);
    buf_put_cstr(&e.bytes, form->before_archive ? form->before_archive : "");
    buf_put(&e.bytes, archive.data, archive.len);
    buf_free(&archive);
    e.src = source_mem(e.bytes.data, e.bytes.len, 0);
    e.status = zip_open(e.src, e.arena, &e.zip, &e.err);
    CU_ASSERT_EQUAL_FATAL(e.status, CKPT_OK);
    return e;
}

static void open_patched(struct edit *e)
{
    CU_ASSERT_EQUAL_FATAL(e->status, CKPT_OK);
    e->patched_src = source_patched(e->src, &e->patches);
    CU_ASSERT_PTR_NOT_NULL_FATAL(e->patched_src);
    CU_ASSERT_EQUAL_FATAL(zip_open(e->patched_src, e->arena, &e->patched_zip, &e->err), CKPT_OK);
}

static void close_edit(struct edit *e)
{
    zip_close(e->patched_zip);
    zip_close(e->zip);
    source_unref(e->patched_src);
    source_unref(e->src);
    arena_free(e->arena);
    buf_free(&e->bytes);
}

/* member_is - returns whether member NAME of the patched archive has the payload TEXT and the right
 * CRC-32. */
static bool member_is(struct edit *e, const char *name, const char *text)
{
    ckpt_str got;
    int64_t i = zip_find(e->patched_zip, str_c(name));
    return i >= 0 && zip_load_member(e->patched_zip, (size_t)i, 1 << 20, &got, &e->err) == CKPT_OK &&
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
    const struct zip_entry *entry = &e->patched_zip->entries[i];
    if (zip_locate_payload(e->patched_zip, i, &e->err) != CKPT_OK ||
        source_read(e->patched_src, entry->data_offset + entry->csize, b, sizeof b, &e->err) != CKPT_OK)
        return false;
    uint32_t crc = crc32_update(0, text, strlen(text)), first = load_u32le(b), second = load_u32le(b + 4);
    return form->signature ? first == ZIP_DESCRIPTOR && second == crc : first == crc;
}

static void replacing_changes_only_payload_and_checksums(void)
{
    /* the number of patches for each form: 1 for the payload, and 2 for the CRC-32 unless that is 0 */
    static const size_t npatches[] = {3, 3, 3, 1, 3, 3};
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        struct edit e = open_archive(&forms[k]);
        e.status = zip_patch_replace(e.zip, 0, STR_LIT("NEW PICKLE"), &e.patches, &e.err);
        open_patched(&e);
        CU_ASSERT(e.patches.n == npatches[k] && e.patches.new_size == e.bytes.len &&
                  e.patches.old_size == e.bytes.len);
        for (size_t i = 0; i < e.patches.n; i++)
            CU_ASSERT_EQUAL(e.patches.patch[i].bytes.len, e.patches.patch[i].bytes.ptr[0] == 'N' ? 10 : 4);
        CU_ASSERT(member_is(&e, "a/pkl", "NEW PICKLE") && member_is(&e, "a/data", "numbers"));
        CU_ASSERT(e.patched_zip->n == 2 && e.patched_zip->crc_none == forms[k].no_crc);
        CU_ASSERT(!forms[k].descriptors || descriptor_has_crc(&e, 0, &forms[k], "NEW PICKLE"));
        close_edit(&e);
    }
}

static void a_longer_member_is_appended_and_the_old_one_renamed(void)
{
    static const char longer[] = "a pickle that has outgrown its place";
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        struct edit e = open_archive(&forms[k]);
        e.status = zip_patch_append(e.zip, 0, STR_LIT("a/old"), str_c(longer), &e.patches, &e.err);
        open_patched(&e);
        CU_ASSERT(e.patched_zip->n == 3 && e.patches.n == 2 && e.patches.new_size > e.patches.old_size);
        CU_ASSERT(member_is(&e, "a/pkl", longer) && member_is(&e, "a/old", "old pickle"));
        CU_ASSERT(member_is(&e, "a/data", "numbers"));
        CU_ASSERT(e.patched_zip->entries[2].data_offset % 64 == 0 &&
                  e.patched_zip->entries[2].header_offset == e.zip->directory_at);
        CU_ASSERT(e.patched_zip->archive_end == e.patches.new_size && e.patched_zip->prefix_size == 0);
        close_edit(&e);
    }
}

static void archives_with_stray_bytes_or_wrong_descriptors_are_refused(void)
{
    static const struct {
        struct archive_form form;
        const char *reason;
    } refused_forms[] = {
        {{.before_archive = "#!/bin/sh\n"}, "before or after"},
        {{.after_archive = "junk"}, "before or after"},
        {{.before_end_record = "junk"}, "after the central directory"},
        {{.descriptors = true, .signature = true, .crc_error = 1}, "no data descriptor with the CRC-32"},
    };
    for (size_t k = 0; k < sizeof refused_forms / sizeof *refused_forms; k++) {
        struct edit e = open_archive(&refused_forms[k].form);
        e.status = zip_patch_replace(e.zip, 0, STR_LIT("NEW PICKLE"), &e.patches, &e.err);
        CU_ASSERT(e.status == CKPT_EUNSUPPORTED && strstr(e.err.what, refused_forms[k].reason));
        struct patches patches = {0};
        e.status = zip_patch_append(e.zip, 0, STR_LIT("a/old"), STR_LIT("new"), &patches, &e.err);
        /* appending keeps the descriptor, so that its CRC-32 does not matter */
        CU_ASSERT_EQUAL(e.status, refused_forms[k].form.crc_error ? CKPT_OK : CKPT_EUNSUPPORTED);
        close_edit(&e);
    }
    struct edit e = open_archive(&forms[0]);
    e.status = zip_patch_append(e.zip, 0, STR_LIT("another length"), STR_LIT("new"), &e.patches, &e.err);
    CU_ASSERT(e.status == CKPT_ELIMIT && e.patches.n == 0);
    close_edit(&e);
}

static void more_patches_than_a_list_holds_are_refused(void)
{
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
        for (size_t room = 0; room < 4; room++) { /* patches that still fit into the list */
            struct edit e = open_archive(&forms[k]);
            e.patches.n = PATCHES_MAX - room;
            e.status = zip_patch_replace(e.zip, 0, STR_LIT("NEW PICKLE"), &e.patches, &e.err);
            bool fits = room >= (forms[k].no_crc ? 1u : 3u);
            CU_ASSERT(fits ? e.status == CKPT_OK : e.status == CKPT_EUSAGE && strstr(e.err.what, "too many"));
            e.patches.n = PATCHES_MAX - room;
            e.status = zip_patch_append(e.zip, 0, STR_LIT("a/old"), STR_LIT("new"), &e.patches, &e.err);
            CU_ASSERT_EQUAL(e.status, room < 2 ? CKPT_EUSAGE : CKPT_OK);
            close_edit(&e);
        }
}

static void check_replace_refused(struct edit *e, const char *reason)
{
    struct patches patches = {0};
    e->status = zip_patch_replace(e->zip, 0, STR_LIT("NEW PICKLE"), &patches, &e->err);
    CU_ASSERT(e->status == CKPT_EUNSUPPORTED && strstr(e->err.what, reason));
}

static void archives_that_differ_from_what_was_opened_are_refused(void)
{
    struct edit e = open_archive(&forms[1]);
    e.zip->n += 5;
    check_replace_refused(&e, "after the central directory");
    e.zip->n -= 5;
    CU_ASSERT_EQUAL(zip_locate_payload(e.zip, 0, &e.err), CKPT_OK);
    e.zip->entries[0].next_at = e.zip->entries[0].data_offset + e.zip->entries[0].csize + 15;
    check_replace_refused(&e, "no data descriptor with the CRC-32"); /* its last byte is missing */
    struct patches patches = {0};
    e.status = zip_patch_append(e.zip, 0, STR_LIT("a/old"), str_of("", 0xFFFFFFFFu), &patches, &e.err);
    CU_ASSERT_EQUAL(e.status, CKPT_ELIMIT); /* the payload is too long for a header without zip64 */
    close_edit(&e);
    /* 76 bytes, as many as a zip64 end record and its locator have */
    e = open_archive(&(struct archive_form){.before_end_record = "0123456789012345678901234567890123456789"
                                                                 "012345678901234567890123456789012345"});
    check_replace_refused(&e, "after the central directory");
    close_edit(&e);
    e = open_archive(&(struct archive_form){.zip64 = true});
    unsigned char *end = e.bytes.data + e.bytes.len - ZIP_ENDS_SIZE;
    end[4]++; /* the size of the zip64 end record */
    check_replace_refused(&e, "after the central directory");
    end[4]--;
    end[ZIP64_END_SIZE]++; /* the locator's signature */
    check_replace_refused(&e, "after the central directory");
    end[ZIP64_END_SIZE]--;
    close_edit(&e);
}

/* open_sparse_archive - returns a file descriptor of a sparse file: the zip64 archive, with its central
 * directory moved by 5 GiB. */
static int open_sparse_archive(void)
{
    static const uint64_t gap = 5ull << 30;
    struct edit e = open_archive(&(struct archive_form){.zip64 = true});
    int fd = memfd_create("far", MFD_CLOEXEC);
    uint64_t offset = e.zip->directory_at, size = e.bytes.len - offset - ZIP_ENDS_SIZE;
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

static void members_are_appended_beyond_4_gib(void)
{
    char path[64];
    int fd = open_sparse_archive();
    struct edit e = {.arena = arena_new(1 << 24)};
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CU_ASSERT_EQUAL_FATAL(source_file_open(path, &e.src, &e.err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(zip_open(e.src, e.arena, &e.zip, &e.err), CKPT_OK);
    e.status = zip_patch_append(e.zip, 0, STR_LIT("a/old"), STR_LIT("far"), &e.patches, &e.err);
    open_patched(&e);
    CU_ASSERT(member_is(&e, "a/pkl", "far") && member_is(&e, "a/old", "old pickle"));
    CU_ASSERT(e.patched_zip->entries[2].header_offset == e.zip->directory_at &&
              e.zip->directory_at > 5ull << 30);
    close_edit(&e);
    close(fd);
}

void suite_zip_patch(void)
{
    UNIT(replacing_changes_only_payload_and_checksums);
    UNIT(a_longer_member_is_appended_and_the_old_one_renamed);
    UNIT(archives_with_stray_bytes_or_wrong_descriptors_are_refused);
    UNIT(more_patches_than_a_list_holds_are_refused);
    UNIT(archives_that_differ_from_what_was_opened_are_refused);
    UNIT(members_are_appended_beyond_4_gib);
}
