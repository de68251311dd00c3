/* Writing zip archives: payloads are aligned, our reader reads them, and the bytes are the same each time. */
#include <stdlib.h>

#include "codec/zip.h"
#include "codec/zip_header.h"
#include "codec/zip_write.h"
#include "base/cursor.h"
#include "io/sink.h"
#include "unit.h"

static sink *write_archive(size_t payload_size, ckpt_error *err)
{
    sink *out = NULL;
    zip_writer *w = NULL;
    char *bytes = calloc(1, payload_size ? payload_size : 1);
    CU_ASSERT_EQUAL_FATAL(sink_mem(1 << 24, NULL, &out, err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(zip_writer_new(out, "archive", &w, err), CKPT_OK);
    CU_ASSERT_EQUAL(zip_writer_write_member(w, "data.pkl", STR_LIT("a pickle"), err), CKPT_OK);
    CU_ASSERT_EQUAL(zip_writer_write_member(w, "data/0", str_of(bytes, payload_size), err), CKPT_OK);
    CU_ASSERT_EQUAL(zip_writer_write_member(w, "data/1", STR_LIT(""), err), CKPT_OK);
    CU_ASSERT_EQUAL(zip_writer_write_member(w, "version", STR_LIT("3\n"), err), CKPT_OK);
    CU_ASSERT_EQUAL(zip_writer_finish(w, NULL, NULL, err), CKPT_OK);
    zip_writer_free(w);
    free(bytes);
    return out;
}

/* compute_size - sets *TOTAL to the size of an archive of N members in FOLDER, which have these NAME_LENS,
 * SIZES and, unless it is NULL, SOURCE_OFFSETS (of their payloads in the source). False: the size does not
 * fit 64 bits. */
static bool compute_size(const char *folder, size_t n, const size_t *name_lens, const uint64_t *sizes,
                         const uint64_t *source_offsets, uint64_t *total)
{
    struct zip_layout layout = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++)
        ok = zip_layout_add_member(&layout, folder, name_lens[i], sizes[i],
                                   source_offsets ? source_offsets[i] : CKPT_NO_OFFSET);
    return ok && zip_layout_get_size(&layout, total);
}

static void copy_reserved(const void *user, size_t i, struct zip_output_member *member)
{
    *member = ((const struct zip_output_member *)user)[i];
}

static void check_archive(size_t payload_size)
{
    static const char *const names[] = {"archive/data.pkl", "archive/data/0", "archive/data/1",
                                        "archive/version"};
    static const size_t name_lens[] = {8, 6, 6, 7};
    uint64_t sizes[] = {8, payload_size, 0, 2}, total = 0;
    ckpt_error err;
    sink *out = write_archive(payload_size, &err);
    ckpt_str view = sink_mem_view(out), text;
    CU_ASSERT(compute_size("archive", 4, name_lens, sizes, NULL, &total));
    CU_ASSERT_EQUAL(total, view.len);
    source *src = source_mem(view.ptr, view.len, 0);
    arena *a = arena_new(1 << 24);
    zip *z = NULL;
    CU_ASSERT_EQUAL_FATAL(zip_open(src, a, &z, &err), CKPT_OK);
    CU_ASSERT(z->n == 4 && z->prefix_size == 0 && z->archive_end == view.len);
    for (size_t i = 0; i < z->n; i++) {
        CU_ASSERT(str_is(z->entries[i].name, names[i]));
        CU_ASSERT_EQUAL(z->entries[i].usize, sizes[i]);
        CU_ASSERT_EQUAL(zip_load_member(z, i, 1 << 24, &text, &err), CKPT_OK);
        CU_ASSERT_EQUAL(zip_locate_payload(z, i, &err), CKPT_OK);
        CU_ASSERT_EQUAL(z->entries[i].data_offset % 64, 0);
    }
    zip_close(z);
    arena_free(a);
    source_unref(src);
    sink_abort(out);
}

static void payloads_of_any_size_are_aligned_to_64_bytes(void)
{
    check_archive(5);
    check_archive(100);
    check_archive(0);
}

static void equal_members_give_equal_archives(void)
{
    ckpt_error err;
    sink *a = write_archive(1000, &err), *b = write_archive(1000, &err);
    CU_ASSERT(str_eq(sink_mem_view(a), sink_mem_view(b)));
    sink_abort(a);
    sink_abort(b);
}

/* A member of 4 GiB - 1 or more has 20 bytes more in its local header, which moves the aligned payload by 64,
 * and 20 more in the central directory. A member after it has 12 bytes more in the central directory. */
static void zip64_fields_are_part_of_the_computed_size(void)
{
    static const size_t name_lens[] = {6, 6};
    uint64_t small[] = {0xFFFFFFFE, 0}, large[] = {0xFFFFFFFF, 0}, huge[] = {UINT64_MAX - 100, 0};
    uint64_t size_of_small = 0, size_of_large = 0, size_of_two = 0, unused;
    CU_ASSERT(compute_size("archive", 1, name_lens, small, NULL, &size_of_small) &&
              compute_size("archive", 1, name_lens, large, NULL, &size_of_large));
    CU_ASSERT_EQUAL(size_of_large - size_of_small, 1 + 64 + 20); /* 1: the payload is larger by one byte */
    CU_ASSERT(compute_size("archive", 2, name_lens, large, NULL, &size_of_two));
    /* The first payload ends 1 byte before a multiple of 64, and the second local header takes 64 bytes. The
     * second central header has 46 bytes, the name archive/NNNNNN and a zip64 field. */
    CU_ASSERT_EQUAL(size_of_two - size_of_large, 1 + 64 + 46 + 14 + 12);
    CU_ASSERT(!compute_size("archive", 2, name_lens, huge, NULL, &unused));
}

/* A large payload gets the same offset within a page as in its source, so that it can be cloned. A small
 * payload, or one at an unaligned offset, gets only the usual alignment. */
static void large_payloads_keep_their_offset_within_a_page(void)
{
    static const uint64_t source_offsets[] = {4096 * 5 + 640, CKPT_NO_OFFSET, 100, 64 * 7, 0};
    static const uint64_t sizes[] = {SINK_CLONE_LEAST, 3u << 20, 2u << 20, 5000, 1u << 20};
    size_t name_lens[5];
    struct zip_output_member members[5];
    uint64_t total;
    sink *out;
    zip_writer *w;
    CU_ASSERT_EQUAL_FATAL(sink_mem(16u << 20, NULL, &out, NULL), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(zip_writer_new(out, "archive", &w, NULL), CKPT_OK);
    for (size_t i = 0; i < 5; i++) {
        const char name[2] = {(char)('a' + i), 0};
        struct zip_output_member member = {.size = sizes[i], .source_offset = source_offsets[i]};
        buf header;
        buf_init(&header, 65536);
        name_lens[i] = 1;
        (void)snprintf(member.name, sizeof member.name, "%s", name);
        CU_ASSERT_EQUAL(zip_writer_reserve_member(w, &member, NULL), CKPT_OK);
        members[i] = member;
        CU_ASSERT_EQUAL(member.data_offset % 64, 0);
        bool has_only_usual_padding = member.data_offset - member.header_offset <
                                      ZIP_LOCAL_SIZE + strlen("archive/a") + ZIP_PAD_FIELD + 64;
        bool has_offset_of_source = member.data_offset % SINK_PAGE == source_offsets[i] % SINK_PAGE;
        bool is_large_and_aligned = sizes[i] >= SINK_CLONE_LEAST && source_offsets[i] % 64 == 0;
        CU_ASSERT(is_large_and_aligned ? has_offset_of_source : has_only_usual_padding);
        CU_ASSERT_EQUAL(zip_put_output_header(w, &member, &header, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(header.len, member.data_offset - member.header_offset);
        buf_free(&header);
    }
    CU_ASSERT_EQUAL(zip_writer_finish(w, copy_reserved, members, NULL), CKPT_OK);
    CU_ASSERT(compute_size("archive", 5, name_lens, sizes, source_offsets, &total) &&
              total == sink_tell(out));
    CU_ASSERT(!sink_clone(out, 0, 0, 0, SINK_PAGE)); /* memory cannot be cloned */
    zip_writer_free(w);
    sink_abort(out);
}

/* A sink for archives of any size. It keeps only the bytes that were written after the last skip. */
struct endless_sink {
    sink sink;
    buf tail_bytes;
    uint64_t tail_offset; /* the offset of the first of these bytes in the archive */
};

static ckpt_status endless_write(sink *s, const void *bytes, size_t n, ckpt_error *err)
{
    struct endless_sink *e = (struct endless_sink *)s;
    (void)err;
    if (e->tail_offset + e->tail_bytes.len != s->len) {
        e->tail_offset = s->len;
        e->tail_bytes.len = 0;
    }
    buf_put(&e->tail_bytes, bytes, n);
    return CKPT_OK;
}

static ckpt_status endless_skip(sink *s, uint64_t n, ckpt_error *err)
{
    (void)s;
    (void)n;
    (void)err;
    return CKPT_OK;
}

static const struct sink_ops endless_ops = {.write = endless_write, .skip = endless_skip};

/* Writes an archive of 11 GiB without its payloads. The sizes of both members need a zip64 field, and so does
 * the offset of the second. */
static void zip64_fields_have_the_sizes_and_offsets(void)
{
    static const unsigned char field_of_three_numbers[] = {1, 0, 24, 0}; /* id 1, 24 bytes */
    struct zip_output_member members[2] = {
        {.name = "first", .size = (uint64_t)5 << 30, .source_offset = CKPT_NO_OFFSET, .crc = 7},
        {.name = "second", .size = (uint64_t)6 << 30, .source_offset = 100, .crc = 8}};
    struct endless_sink e = {.sink = {.ops = &endless_ops}};
    zip_writer *w;
    buf header;
    ckpt_error err;
    buf_init(&e.tail_bytes, 1 << 20);
    buf_init(&header, 1 << 20);
    CU_ASSERT_EQUAL_FATAL(zip_writer_new(&e.sink, "a", &w, &err), CKPT_OK);
    for (int i = 0; i < 2; i++) {
        header.len = 0;
        CU_ASSERT_EQUAL(zip_writer_reserve_member(w, &members[i], &err), CKPT_OK);
        CU_ASSERT_EQUAL(zip_put_output_header(w, &members[i], &header, &err), CKPT_OK);
        CU_ASSERT(header.len == members[i].data_offset - members[i].header_offset &&
                  members[i].data_offset % 64 == 0);
        /* The field "version needed" is that of zip64, and both sizes are 2^32 - 1. The first extra field is
         * the zip64 field, which has both sizes. */
        CU_ASSERT(header.data[4] == ZIP_VERSION_ZIP64 &&
                  memcmp(header.data + 18, "\xff\xff\xff\xff\xff\xff\xff\xff", 8) == 0);
        const unsigned char *field = header.data + ZIP_LOCAL_SIZE + strlen("a/") + strlen(members[i].name);
        CU_ASSERT(memcmp(field, "\1\0\20\0", 4) == 0);                     /* id 1, 16 bytes */
        CU_ASSERT(memcmp(field + 4, field + 12, 8) == 0 && field[8] == 1); /* two equal sizes >= 2^32 */
    }
    CU_ASSERT_EQUAL(zip_writer_write_member(w, "tail", STR_LIT("bytes"), &err), CKPT_OK);
    uint64_t tail = members[1].data_offset + members[1].size;
    CU_ASSERT_EQUAL(zip_writer_finish(w, copy_reserved, members, &err), CKPT_OK);
    CU_ASSERT_EQUAL(e.tail_offset, tail);
    /* A name and a zip64 field follow each central header. The field of "a/first" has two numbers, that of
     * "a/second" has three: the last is the offset of the local header. */
    enum {
        FIRST_NAME = sizeof "a/first" - 1,
        SECOND_NAME = sizeof "a/second" - 1,
        FIELD_HEADER = 4, /* bytes of the id and the length of an extra field */
        FIRST_HEADER = ZIP_CENTRAL_SIZE + FIRST_NAME + FIELD_HEADER + 2 * 8,
        SECOND_HEADER = ZIP_CENTRAL_SIZE + SECOND_NAME + FIELD_HEADER + 3 * 8
    };
    size_t directory = 0;
    while (directory + 4 < e.tail_bytes.len && memcmp(e.tail_bytes.data + directory, "PK\1\2", 4) != 0)
        directory++;
    CU_ASSERT_FATAL(directory + FIRST_HEADER + SECOND_HEADER < e.tail_bytes.len);
    const unsigned char *second = e.tail_bytes.data + directory + FIRST_HEADER,
                        *field = second + ZIP_CENTRAL_SIZE + SECOND_NAME;
    CU_ASSERT(memcmp(second, "PK\1\2", 4) == 0 && second[6] == ZIP_VERSION_ZIP64);
    CU_ASSERT(second[ZIP_CENTRAL_CRC] == 8);
    CU_ASSERT(memcmp(second + 42, "\xff\xff\xff\xff", 4) == 0); /* the offset is saturated */
    CU_ASSERT(memcmp(field, field_of_three_numbers, 4) == 0);
    CU_ASSERT_EQUAL(load_u64le(field + FIELD_HEADER + 2 * 8), members[1].header_offset);
    zip_writer_free(w);
    buf_free(&e.tail_bytes);
    buf_free(&header);
}

static void names_and_offsets_too_large_for_an_archive_are_refused(void)
{
    static char name[70000]; /* the length of a name has 16 bits */
    struct endless_sink e = {.sink = {.ops = &endless_ops}};
    struct zip_output_member member = {.name = "n", .size = 1, .source_offset = CKPT_NO_OFFSET};
    zip_writer *w;
    ckpt_error err;
    memset(name, 'n', sizeof name - 1);
    buf_init(&e.tail_bytes, 1 << 20);
    CU_ASSERT_EQUAL_FATAL(zip_writer_new(&e.sink, "a", &w, &err), CKPT_OK);
    CU_ASSERT_EQUAL(zip_writer_write_member(w, name, STR_LIT("x"), &err), CKPT_ELIMIT);
    e.sink.len = UINT64_MAX - 10;
    CU_ASSERT_EQUAL(zip_writer_write_member(w, "n", STR_LIT("x"), &err), CKPT_ELIMIT);
    CU_ASSERT_EQUAL(zip_writer_reserve_member(w, &member, &err), CKPT_ELIMIT);
    CU_ASSERT(strstr(err.what, "\"n\" does not fit into a zip archive") != NULL);
    e.sink.len = UINT64_MAX - 36; /* the header fits, but not the name */
    CU_ASSERT_EQUAL(zip_writer_write_member(w, "name", STR_LIT("x"), &err), CKPT_ELIMIT);
    zip_writer_free(w);
    zip_writer_free(NULL);
    buf_free(&e.tail_bytes);
}

void suite_zip_write(void)
{
    UNIT(payloads_of_any_size_are_aligned_to_64_bytes);
    UNIT(equal_members_give_equal_archives);
    UNIT(zip64_fields_are_part_of_the_computed_size);
    UNIT(large_payloads_keep_their_offset_within_a_page);
    UNIT(zip64_fields_have_the_sizes_and_offsets);
    UNIT(names_and_offsets_too_large_for_an_archive_are_refused);
}
