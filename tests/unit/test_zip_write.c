/* Archives written: aligned, sound for our own reader, the same every time. */
#include <stdlib.h>

#include "codec/zip.h"
#include "codec/zip_write.h"
#include "unit.h"

static sink *make(uint32_t align, size_t big, ckpt_error *err)
{
    sink *out = NULL;
    zip_writer *w = NULL;
    char *bytes = calloc(1, big ? big : 1);
    CU_ASSERT_EQUAL_FATAL(sink_mem(1 << 24, &out, err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(zip_writer_new(out, "archive", align, &w, err), CKPT_OK);
    CU_ASSERT_EQUAL(zip_writer_member(w, "data.pkl", STR_LIT("a pickle"), err), CKPT_OK);
    CU_ASSERT_EQUAL(zip_writer_begin(w, "data/0", big, err), CKPT_OK);
    CU_ASSERT_EQUAL(zip_writer_put(w, bytes, big / 2, err), CKPT_OK);
    CU_ASSERT_EQUAL(zip_writer_put(w, bytes, big - big / 2, err), CKPT_OK);
    CU_ASSERT_EQUAL(zip_writer_member(w, "data/1", STR_LIT(""), err), CKPT_OK);
    CU_ASSERT_EQUAL(zip_writer_member(w, "version", STR_LIT("3\n"), err), CKPT_OK);
    CU_ASSERT_EQUAL(zip_writer_finish(w, NULL, NULL, err), CKPT_OK);
    zip_writer_free(w);
    free(bytes);
    return out;
}

/* layout - the size of an archive of these. */
static bool layout(const char *top, uint32_t align, size_t n, const size_t *lens, const uint64_t *sizes,
                   const uint64_t *likes, uint64_t *total)
{
    struct zip_layout l = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++)
        ok = zip_layout_member(&l, top, align, lens[i], sizes[i], likes ? likes[i] : CKPT_NO_OFFSET);
    return ok && zip_layout_size(&l, total);
}

static void tell(const void *user, size_t i, struct zip_spot *spot)
{
    *spot = ((const struct zip_spot *)user)[i];
}

static void check(uint32_t align, size_t big)
{
    static const char *const names[] = {"archive/data.pkl", "archive/data/0", "archive/data/1",
                                        "archive/version"};
    static const size_t lens[] = {8, 6, 6, 7};
    uint64_t sizes[] = {8, big, 0, 2}, total = 0;
    ckpt_error err;
    sink *out = make(align, big, &err);
    ckpt_str view = sink_mem_view(out), text;
    CU_ASSERT(layout("archive", align, 4, lens, sizes, NULL, &total));
    CU_ASSERT_EQUAL(total, view.len);
    source *src = source_mem(view.ptr, view.len, 0);
    arena *a = arena_new(1 << 24);
    zip *z = NULL;
    CU_ASSERT_EQUAL_FATAL(zip_open(src, a, &z, &err), CKPT_OK);
    CU_ASSERT(z->n == 4 && z->shift == 0 && z->end == view.len);
    for (size_t i = 0; i < z->n; i++) {
        CU_ASSERT(str_is(z->entries[i].name, names[i]));
        CU_ASSERT_EQUAL(z->entries[i].usize, sizes[i]);
        CU_ASSERT_EQUAL(zip_load(z, i, 1 << 24, &text, &err), CKPT_OK);
        CU_ASSERT_EQUAL(zip_data(z, i, &err), CKPT_OK);
        CU_ASSERT_EQUAL(z->entries[i].data % align, 0);
    }
    zip_close(z);
    arena_free(a);
    source_unref(src);
    sink_abort(out);
}

static void aligns_every_payload(void)
{
    check(64, 5);
    check(1, 5);
    check(4096, 100);
    check(64, 0);
}

static void patches_the_crc_of_large_members(void)
{
    check(64, 300000);
    check(64, 256 * 1024);
    check(64, 256 * 1024 + 1);
}

static void gives_the_same_bytes_again(void)
{
    ckpt_error err;
    sink *a = make(64, 1000, &err), *b = make(64, 1000, &err);
    CU_ASSERT(str_eq(sink_mem_view(a), sink_mem_view(b)));
    sink_abort(a);
    sink_abort(b);
}

static void holds_members_to_their_size(void)
{
    sink *out = NULL;
    zip_writer *w = NULL;
    ckpt_error err;
    CU_ASSERT_EQUAL_FATAL(sink_mem(1 << 20, &out, &err), CKPT_OK);
    CU_ASSERT_EQUAL(zip_writer_new(out, "archive", 3, &w, &err), CKPT_EUSAGE);
    CU_ASSERT_EQUAL_FATAL(zip_writer_new(out, "archive", 64, &w, &err), CKPT_OK);
    CU_ASSERT_EQUAL(zip_writer_begin(w, "data/0", 4, &err), CKPT_OK);
    CU_ASSERT_EQUAL(zip_writer_put(w, "12345", 5, &err), CKPT_EUSAGE);
    CU_ASSERT_EQUAL(zip_writer_put(w, "123", 3, &err), CKPT_OK);
    CU_ASSERT_EQUAL(zip_writer_finish(w, NULL, NULL, &err), CKPT_EUSAGE);
    CU_ASSERT_EQUAL(zip_writer_begin(w, "data/1", 4, &err), CKPT_EUSAGE);
    CU_ASSERT_EQUAL(zip_writer_put(w, "4", 1, &err), CKPT_OK);
    CU_ASSERT_EQUAL(zip_writer_put(w, "5", 1, &err), CKPT_EUSAGE);
    zip_writer_free(w);
    sink_abort(out);
}

/* Beyond 4 GiB only the arithmetic is cheap to test: a member that large takes
 * 20 bytes more in its header and in the directory, one behind it 12 there. */
static void counts_zip64_fields(void)
{
    static const size_t lens[] = {6, 6};
    uint64_t small[] = {0xFFFFFFFE, 0}, wide[] = {0xFFFFFFFF, 0}, a = 0, b = 0;
    CU_ASSERT(layout("archive", 1, 1, lens, small, NULL, &a) &&
              layout("archive", 1, 1, lens, wide, NULL, &b));
    CU_ASSERT_EQUAL(b - a, 1 + 20 + 20);
    CU_ASSERT(layout("archive", 1, 2, lens, wide, NULL, &a));
    CU_ASSERT_EQUAL(a - b, 30 + 14 + 4 + 46 + 14 + 12);
    uint64_t huge[] = {UINT64_MAX - 100, 0};
    CU_ASSERT(!layout("archive", 64, 2, lens, huge, NULL, &a));
}

/* A large payload lies in its page as it lay in the file it comes from; a small one, or
 * one from an odd place, where the alignment wants it. */
static void places_like_those_they_come_from(void)
{
    static const uint64_t likes[] = {4096 * 5 + 640, CKPT_NO_OFFSET, 100, 64 * 7, 0};
    static const uint64_t sizes[] = {ZIP_CLONE_LEAST, 3u << 20, 2u << 20, 5000, 1u << 20};
    size_t lens[5];
    struct zip_spot spots[5];
    uint64_t total;
    sink *out;
    zip_writer *w;
    CU_ASSERT_EQUAL_FATAL(sink_mem(16u << 20, &out, NULL), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(zip_writer_new(out, "archive", 64, &w, NULL), CKPT_OK);
    for (size_t i = 0; i < 5; i++) {
        const char name[2] = {(char)('a' + i), 0};
        struct zip_spot spot = {.size = sizes[i], .like = likes[i]}, again;
        buf header;
        buf_init(&header, 65536);
        lens[i] = 1;
        (void)snprintf(spot.name, sizeof spot.name, "%s", name);
        CU_ASSERT_EQUAL(zip_writer_skip(w, &spot, NULL), CKPT_OK);
        again = spot;
        again.data = 0;
        CU_ASSERT(zip_spot_place(w, &again) && again.data == spot.data);
        spots[i] = spot;
        CU_ASSERT_EQUAL(spot.data % 64, 0);
        bool near = spot.data - spot.header < 30 + 9 + 4 + 64;
        bool alike = spot.data % SINK_PAGE == likes[i] % SINK_PAGE;
        CU_ASSERT(i == 0 || i == 4 ? alike : near);
        CU_ASSERT_EQUAL(zip_spot_header(w, &spot, &header, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(header.len, spot.data - spot.header);
        buf_free(&header);
    }
    CU_ASSERT_EQUAL(zip_writer_finish(w, tell, spots, NULL), CKPT_OK);
    CU_ASSERT(layout("archive", 64, 5, lens, sizes, likes, &total) && total == sink_tell(out));
    CU_ASSERT(!sink_clone(out, 0, 0, 0, SINK_PAGE)); /* memory has no blocks to share */
    zip_writer_free(w);
    sink_abort(out);
}

void suite_zip_write(void)
{
    UNIT(aligns_every_payload);
    UNIT(patches_the_crc_of_large_members);
    UNIT(gives_the_same_bytes_again);
    UNIT(holds_members_to_their_size);
    UNIT(counts_zip64_fields);
    UNIT(places_like_those_they_come_from);
}
