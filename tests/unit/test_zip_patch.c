/* Members of archives replaced and added where the archive stands: what changes,
 * what does not, what is refused. */
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

/* How an archive of a/pkl ("old pickle") and a/data ("numbers") is made. */
struct how {
    bool later, mark; /* a descriptor behind each payload; with its mark */
    bool no_crc;      /* none recorded */
    bool wide;        /* zip64 end records */
    int bad;          /* added to the CRC-32 of the descriptor */
    const char *before, *between, *behind;
};

static void put_entry(buf *b, buf *dir, const struct how *h, const char *name, const char *payload)
{
    uint32_t at = (uint32_t)b->len, n = (uint32_t)strlen(payload);
    uint32_t crc = h->no_crc ? 0 : crc32_update(0, payload, n);
    uint16_t flags = h->later ? 8 : 0;
    buf_u32le(b, 0x04034B50);
    buf_u32le(dir, 0x02014B50);
    buf_u16le(dir, 20);
    for (int k = 0; k < 2; k++) {
        buf *to = k ? dir : b;
        bool here = k || !h->later;
        buf_u16le(to, 20);
        buf_u16le(to, flags);
        buf_u16le(to, 0);
        buf_u32le(to, 0);
        buf_u32le(to, here ? crc : 0);
        buf_u32le(to, here ? n : 0);
        buf_u32le(to, here ? n : 0);
        buf_u16le(to, (uint16_t)strlen(name));
        buf_u16le(to, 0);
    }
    buf_text(b, name);
    buf_text(b, payload);
    if (h->later) {
        if (h->mark)
            buf_u32le(b, 0x08074B50);
        buf_u32le(b, crc + (uint32_t)h->bad);
        buf_u32le(b, n);
        buf_u32le(b, n);
    }
    for (int k = 0; k < 10; k++)
        buf_byte(dir, 0);
    buf_u32le(dir, at);
    buf_text(dir, name);
}

static void make(buf *b, const struct how *h)
{
    buf dir;
    buf_init(b, 1 << 20);
    buf_init(&dir, 1 << 20);
    put_entry(b, &dir, h, "a/pkl", "old pickle");
    put_entry(b, &dir, h, "a/data", "numbers");
    uint32_t at = (uint32_t)b->len, n = (uint32_t)dir.len;
    buf_put(b, dir.data, dir.len);
    buf_text(b, h->between ? h->between : "");
    if (h->wide) {
        zip_put_ends(b, &(struct zip_end_record){.entries = 2, .size = n, .offset = at}, b->len);
    } else {
        buf_u32le(b, 0x06054B50);
        buf_u32le(b, 0);
        buf_u16le(b, 2);
        buf_u16le(b, 2);
        buf_u32le(b, n);
        buf_u32le(b, at);
        buf_u16le(b, 0);
    }
    buf_text(b, h->behind ? h->behind : "");
    buf_free(&dir);
}

/* An archive, patches for it, and what it is with them. */
struct edit {
    buf bytes;
    arena *a;
    source *src, *after;
    zip *z, *y;
    struct patches list;
    ckpt_status st;
    ckpt_error err;
};

static struct edit open_made(const struct how *h)
{
    struct edit e = {.a = arena_new(1 << 24)};
    buf own;
    make(&own, h);
    buf_init(&e.bytes, 1 << 20);
    buf_text(&e.bytes, h->before ? h->before : "");
    buf_put(&e.bytes, own.data, own.len);
    buf_free(&own);
    e.src = source_mem(e.bytes.data, e.bytes.len, 0);
    e.st = zip_open(e.src, e.a, &e.z, &e.err);
    CU_ASSERT_EQUAL_FATAL(e.st, CKPT_OK);
    return e;
}

static void reopen(struct edit *e)
{
    CU_ASSERT_EQUAL_FATAL(e->st, CKPT_OK);
    e->after = source_patched(e->src, &e->list);
    CU_ASSERT_PTR_NOT_NULL_FATAL(e->after);
    CU_ASSERT_EQUAL_FATAL(zip_open(e->after, e->a, &e->y, &e->err), CKPT_OK);
}

static void close_edit(struct edit *e)
{
    zip_close(e->y);
    zip_close(e->z);
    source_unref(e->after);
    source_unref(e->src);
    arena_free(e->a);
    buf_free(&e->bytes);
}

/* holds - member NAME of the edited archive is TEXT, with the right checksum. */
static bool holds(struct edit *e, const char *name, const char *text)
{
    ckpt_str got;
    int64_t i = zip_find(e->y, str_c(name));
    return i >= 0 && zip_load_member(e->y, (size_t)i, 1 << 20, &got, &e->err) == CKPT_OK && str_is(got, text);
}

static const struct how kinds[] = {
    {0},
    {.later = true, .mark = true},
    {.later = true},
    {.no_crc = true},
    {.wide = true},
    {.wide = true, .later = true, .mark = true},
};

/* descriptor_says - the CRC-32 of TEXT stands behind the payload of entry I. */
static bool descriptor_says(struct edit *e, size_t i, const struct how *h, const char *text)
{
    unsigned char b[8];
    const struct zip_entry *x = &e->y->entries[i];
    if (zip_locate_payload(e->y, i, &e->err) != CKPT_OK ||
        source_read(e->after, x->data + x->csize, b, sizeof b, &e->err) != CKPT_OK)
        return false;
    uint32_t crc = crc32_update(0, text, strlen(text)), first = load_u32le(b), second = load_u32le(b + 4);
    return h->mark ? first == 0x08074B50 && second == crc : first == crc;
}

static void only_payload_and_checksums_are_replaced(void)
{
    static const size_t places[] = {3, 3, 3, 1, 3, 3};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct edit e = open_made(&kinds[k]);
        e.st = zip_patch_replace(e.z, 0, STR_LIT("NEW PICKLE"), &e.list, &e.err);
        reopen(&e);
        CU_ASSERT(e.list.n == places[k] && e.list.new_size == e.bytes.len && e.list.old_size == e.bytes.len);
        for (size_t i = 0; i < e.list.n; i++)
            CU_ASSERT_EQUAL(e.list.at[i].bytes.len, e.list.at[i].bytes.ptr[0] == 'N' ? 10 : 4);
        CU_ASSERT(holds(&e, "a/pkl", "NEW PICKLE") && holds(&e, "a/data", "numbers"));
        CU_ASSERT(e.y->n == 2 && e.y->crc_none == kinds[k].no_crc);
        CU_ASSERT(!kinds[k].later || descriptor_says(&e, 0, &kinds[k], "NEW PICKLE"));
        close_edit(&e);
    }
}

static void a_longer_one_is_added_and_the_old_one_kept(void)
{
    static const char longer[] = "a pickle that has outgrown its place";
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct edit e = open_made(&kinds[k]);
        e.st = zip_patch_append(e.z, 0, STR_LIT("a/old"), str_c(longer), &e.list, &e.err);
        reopen(&e);
        CU_ASSERT(e.y->n == 3 && e.list.n == 2 && e.list.new_size > e.list.old_size);
        CU_ASSERT(holds(&e, "a/pkl", longer) && holds(&e, "a/old", "old pickle"));
        CU_ASSERT(holds(&e, "a/data", "numbers"));
        CU_ASSERT(e.y->entries[2].data % 64 == 0 && e.y->entries[2].header == e.z->directory);
        CU_ASSERT(e.y->end == e.list.new_size && e.y->shift == 0);
        close_edit(&e);
    }
}

static void what_is_not_clean_is_refused(void)
{
    static const struct {
        struct how how;
        const char *why;
    } dirty[] = {
        {{.before = "#!/bin/sh\n"}, "before or after"},
        {{.behind = "junk"}, "before or after"},
        {{.between = "junk"}, "after the directory"},
        {{.later = true, .mark = true, .bad = 1}, "another CRC-32"},
    };
    for (size_t k = 0; k < sizeof dirty / sizeof *dirty; k++) {
        struct edit e = open_made(&dirty[k].how);
        e.st = zip_patch_replace(e.z, 0, STR_LIT("NEW PICKLE"), &e.list, &e.err);
        CU_ASSERT(e.st == CKPT_EUNSUPPORTED && strstr(e.err.what, dirty[k].why));
        struct patches list = {0};
        e.st = zip_patch_append(e.z, 0, STR_LIT("a/old"), STR_LIT("new"), &list, &e.err);
        CU_ASSERT(e.st == CKPT_EUNSUPPORTED || dirty[k].how.bad); /* its descriptor stays as it is */
        close_edit(&e);
    }
    struct edit e = open_made(&kinds[0]);
    e.st = zip_patch_append(e.z, 0, STR_LIT("another length"), STR_LIT("new"), &e.list, &e.err);
    CU_ASSERT(e.st == CKPT_ELIMIT && e.list.n == 0);
    close_edit(&e);
}

/* Each patch that finds no room in the list is told. */
static void more_patches_than_a_list_holds(void)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t room = 0; room < 4; room++) {
            struct edit e = open_made(&kinds[k]);
            e.list.n = PATCHES_MAX - room;
            e.st = zip_patch_replace(e.z, 0, STR_LIT("NEW PICKLE"), &e.list, &e.err);
            bool fits = room >= (kinds[k].no_crc ? 1u : 3u);
            CU_ASSERT(fits ? e.st == CKPT_OK : e.st == CKPT_EUSAGE && strstr(e.err.what, "too many"));
            e.list.n = PATCHES_MAX - room;
            e.st = zip_patch_append(e.z, 0, STR_LIT("a/old"), STR_LIT("new"), &e.list, &e.err);
            CU_ASSERT_EQUAL(e.st, room < 2 ? CKPT_EUSAGE : CKPT_OK);
            close_edit(&e);
        }
}

/* refused - what was found when the archive was opened is not what is there. */
static void refused(struct edit *e, const char *why)
{
    struct patches list = {0};
    e->st = zip_patch_replace(e->z, 0, STR_LIT("NEW PICKLE"), &list, &e->err);
    CU_ASSERT(e->st == CKPT_EUNSUPPORTED && strstr(e->err.what, why));
}

static void what_is_not_there_any_more_is_refused(void)
{
    struct edit e = open_made(&kinds[1]);
    e.z->n += 5;
    refused(&e, "after the directory");
    e.z->n -= 5;
    CU_ASSERT_EQUAL(zip_locate_payload(e.z, 0, &e.err), CKPT_OK);
    e.z->entries[0].limit = e.z->entries[0].data + e.z->entries[0].csize + 7;
    refused(&e, "the data descriptor of its pickle is missing");
    struct patches list = {0};
    e.st = zip_patch_append(e.z, 0, STR_LIT("a/old"), str_of("", 0xFFFFFFFFu), &list, &e.err);
    CU_ASSERT_EQUAL(e.st, CKPT_ELIMIT);
    close_edit(&e);
    e = open_made(&(struct how){.between = "0123456789012345678901234567890123456789"
                                           "012345678901234567890123456789012345"});
    refused(&e, "after the directory"); /* as long as wide end records */
    close_edit(&e);
    e = open_made(&kinds[4]);
    unsigned char *end = e.bytes.data + e.bytes.len - 98;
    end[4]++;
    refused(&e, "after the directory");
    end[4]--;
    end[56]++;
    refused(&e, "after the directory");
    end[56]--;
    close_edit(&e);
}

/* The same archive, its directory 5 GiB further on in a file with a hole. */
static int far_away(void)
{
    static const uint64_t gap = 5ull << 30;
    struct edit e = open_made(&(struct how){.wide = true});
    int fd = memfd_create("far", MFD_CLOEXEC);
    uint64_t at = e.z->directory, size = e.bytes.len - at - 98;
    buf ends;
    buf_init(&ends, 4096);
    buf_put(&ends, e.bytes.data + at, (size_t)size);
    zip_put_ends(&ends, &(struct zip_end_record){.entries = 2, .size = size, .offset = at + gap},
                 at + gap + size);
    bool ok = fd >= 0 && pwrite(fd, e.bytes.data, (size_t)at, 0) == (ssize_t)at &&
              pwrite(fd, ends.data, ends.len, (off_t)(at + gap)) == (ssize_t)ends.len;
    CU_ASSERT_FATAL(ok);
    buf_free(&ends);
    close_edit(&e);
    return fd;
}

static void beyond_four_gigabytes(void)
{
    char path[64];
    int fd = far_away();
    struct edit e = {.a = arena_new(1 << 24)};
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CU_ASSERT_EQUAL_FATAL(source_file_open(path, &e.src, &e.err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(zip_open(e.src, e.a, &e.z, &e.err), CKPT_OK);
    e.st = zip_patch_append(e.z, 0, STR_LIT("a/old"), STR_LIT("far"), &e.list, &e.err);
    reopen(&e);
    CU_ASSERT(holds(&e, "a/pkl", "far") && holds(&e, "a/old", "old pickle"));
    CU_ASSERT(e.y->entries[2].header == e.z->directory && e.z->directory > 5ull << 30);
    close_edit(&e);
    close(fd);
}

void suite_zip_patch(void)
{
    UNIT(only_payload_and_checksums_are_replaced);
    UNIT(a_longer_one_is_added_and_the_old_one_kept);
    UNIT(what_is_not_clean_is_refused);
    UNIT(more_patches_than_a_list_holds);
    UNIT(what_is_not_there_any_more_is_refused);
    UNIT(beyond_four_gigabytes);
}
