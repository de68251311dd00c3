/*
 * zip_patch.c - see zip_patch.h. The layout is in zip_header.h. zip_patch_replace changes the payload, and
 * its CRC-32 in the central header, in the data descriptor, and in the local header if it is not 0 there.
 * zip_patch_append changes the name in the local header, and overwrites the central directory and the end
 * records with the new member, a longer central directory and new end records.
 *
 * Refused: junk before or after the archive, a comment of the archive, anything between central directory and
 * end records, a descriptor that contradicts the central directory.
 */
#include "codec/zip_patch.h"

#include <stdlib.h>

#include "base/store.h"
#include "io/reader.h"

#define PAYLOAD_ALIGN 64u
#define MAX_END       (1u << 30)

/* The central directory, and the entry in it that is to be changed. */
struct directory {
    size_t size;
    size_t header_at; /* offset of the central header of the entry, from the beginning of the directory */
};

/* refuse_in_place - fails because WHY does not allow an edit in place. */
static ckpt_status refuse_in_place(ckpt_error *err, uint64_t at, const char *why)
{
    return fail(err, CKPT_EUNSUPPORTED, at, "%s; it is not edited in place", why);
}

/* measure_directory - sets DIR for entry INDEX: reads all central headers of ARCHIVE from IN. */
static void measure_directory(const zip *archive, reader *in, size_t index, struct directory *dir)
{
    for (size_t k = 0; k < archive->n && in->status == CKPT_OK; k++) {
        size_t at = (size_t)(in->pos - archive->directory_at);
        const unsigned char *b = reader_peek(in, ZIP_CENTRAL_SIZE);
        struct zip_header h = b ? zip_parse_central(b) : (struct zip_header){0};
        (void)reader_skip(in, zip_central_length(&h));
        if (k == index)
            dir->header_at = at;
    }
    dir->size = (size_t)(in->pos - archive->directory_at);
}

/* has_only_end_records - returns true if IN has nothing left but the end records. */
static bool has_only_end_records(reader *in)
{
    uint64_t left = reader_left(in);
    const unsigned char *b = left == ZIP_ENDS_SIZE ? reader_take(in, ZIP_ENDS_SIZE) : NULL;
    if (!b)
        return left == ZIP_END_SIZE;
    struct zip_end_record zip64 = zip64_parse_end(b);
    return zip64.signature == ZIP64_END && zip64.follows == ZIP64_END_SIZE - ZIP64_END_LEAD &&
           zip64_parse_locator(b + ZIP64_END_SIZE).signature == ZIP64_LOCATOR;
}

/* find_central_entry - finds the central header of entry INDEX; fails if anything but end records follows the
 * directory. */
static ckpt_status find_central_entry(zip *archive, size_t index, struct directory *dir, ckpt_error *err)
{
    uint64_t left = archive->src->size - archive->directory_at;
    reader r;
    if (archive->prefix_size || archive->archive_end != archive->src->size)
        return refuse_in_place(err, CKPT_NO_OFFSET, "unreferenced bytes before or after the archive");
    if (left > MAX_END)
        return refuse_in_place(err, archive->directory_at, "the central directory has more than 1 GiB");
    CKPT_TRY(reader_init(&r, archive->src, archive->directory_at, archive->src->size, err));
    measure_directory(archive, &r, index, dir);
    bool is_clean = has_only_end_records(&r);
    ckpt_status st = r.status;
    reader_free(&r);
    if (st != CKPT_OK && st != CKPT_ETRUNCATED)
        return st;
    if (is_clean)
        return CKPT_OK;
    return refuse_in_place(err, archive->directory_at,
                           "more than the end records after the central directory");
}

/* read_directory - reads the COUNT bytes of the central directory to *OUT, which the caller frees. */
static ckpt_status read_directory(zip *archive, size_t count, unsigned char **out, ckpt_error *err)
{
    *out = malloc(count + 1);
    CKPT_TRY_ALLOC(*out, err);
    ckpt_status st = source_read(archive->src, archive->directory_at, *out, count, err);
    if (st != CKPT_OK)
        free(*out);
    return st;
}

static ckpt_status add_patch(struct patches *out, uint64_t at, ckpt_str bytes, ckpt_error *err)
{
    CKPT_TRY_ALLOC(bytes.ptr, err);
    return patches_add(out, at, bytes) ? CKPT_OK : fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "too many patches");
}

static ckpt_str make_u32le(arena *a, uint32_t number)
{
    unsigned char b[4];
    store_u32le(b, number);
    return arena_str(a, str_of((const char *)b, 4));
}

/* find_descriptor_crc - sets *AT to the offset of the CRC-32 in the data descriptor of ENTRY. */
static ckpt_status find_descriptor_crc(zip *archive, const struct zip_entry *entry, uint64_t *at,
                                       ckpt_error *err)
{
    unsigned char b[ZIP_DESCRIPTOR_SIZE];
    struct zip_descriptor d;
    uint64_t end = entry->data_offset + entry->csize; /* zip_locate_payload compared it with next_at */
    size_t n = entry->next_at - end < sizeof b ? (size_t)(entry->next_at - end) : sizeof b;
    CKPT_TRY(source_read(archive->src, end, b, n, err));
    bool is_signed = zip_parse_descriptor(b, n, ZIP_SIGNED, &d) && d.crc == entry->crc;
    *at = is_signed ? end + ZIP_DESCRIPTOR_CRC : end;
    if (is_signed || (zip_parse_descriptor(b, n, 0, &d) && d.crc == entry->crc))
        return CKPT_OK;
    return refuse_in_place(err, end, "no data descriptor with the CRC-32 of its pickle");
}

ckpt_status zip_patch_replace(zip *archive, size_t index, ckpt_str bytes, struct patches *out,
                              ckpt_error *err)
{
    const struct zip_entry *e = &archive->entries[index];
    struct directory d = {0};
    struct zip_header local;
    uint64_t at = 0;
    CKPT_TRY(zip_locate_payload(archive, index, err));
    CKPT_TRY(find_central_entry(archive, index, &d, err));
    CKPT_TRY(zip_read_local(archive->src, e->header_offset, &local, err));
    ckpt_str crc = make_u32le(archive->a, crc32_update(0, bytes.ptr, bytes.len));
    bool has_crc = !archive->crc_none, local_has_crc = has_crc && local.crc == e->crc && e->crc;
    out->old_size = out->new_size = archive->src->size;
    if (local_has_crc)
        CKPT_TRY(add_patch(out, e->header_offset + ZIP_LOCAL_CRC, crc, err));
    CKPT_TRY(add_patch(out, e->data_offset, bytes, err));
    if (has_crc && (local.flags & ZIP_FLAG_DESCRIPTOR)) {
        CKPT_TRY(find_descriptor_crc(archive, e, &at, err));
        CKPT_TRY(add_patch(out, at, crc, err));
    }
    if (has_crc) /* the header is in the central directory */
        CKPT_TRY(add_patch(out, archive->directory_at + d.header_at + ZIP_CENTRAL_CRC, crc, err));
    return CKPT_OK;
}

/* load_payload - returns the payload of entry INDEX; .ptr NULL: it is not intact. */
static ckpt_str load_payload(zip *archive, size_t index)
{
    ckpt_error ignored;
    ckpt_str bytes = {0};
    return zip_load_member(archive, index, archive->src->size, &bytes, &ignored) == CKPT_OK ? bytes
                                                                                            : str_of(NULL, 0);
}

static bool are_same_patches(const struct patches *left, const struct patches *right)
{
    bool same = left->n == right->n;
    for (size_t k = 0; same && k < left->n; k++)
        same = left->patch[k].offset == right->patch[k].offset &&
               str_eq(left->patch[k].bytes, right->patch[k].bytes);
    return same;
}

/* local_headers_match - returns true if the local headers of all members of ARCHIVE match the central
 * directory. */
static bool local_headers_match(zip *archive)
{
    ckpt_error ignored;
    bool match = true;
    zip_locate_all(archive);
    for (size_t k = 0; match && k < archive->n; k++)
        match = zip_locate_payload(archive, k, &ignored) == CKPT_OK;
    return match;
}

/* undoes_append - returns true if UNDO restores the name of entry INDEX and everything after the members. In
 * NOW, only the last three letters of the name may be different. */
static bool undoes_append(zip *archive, size_t index, source *now, const struct patches *undo)
{
    ckpt_error ignored;
    const struct zip_entry *e = &archive->entries[index];
    struct directory d = {0};
    const struct patch *name_patch = &undo->patch[0], *tail = &undo->patch[1];
    char current[65536];
    size_t stem = e->name.len > 3 ? e->name.len - 3 : 0;
    /* the header was read; a name has 16 bits of length */
    return undo->n == 2 && undo->old_size > undo->new_size &&
           find_central_entry(archive, index, &d, &ignored) == CKPT_OK &&
           name_patch->offset == e->header_offset + ZIP_LOCAL_SIZE && str_eq(name_patch->bytes, e->name) &&
           tail->offset == archive->directory_at &&
           tail->bytes.len == undo->new_size - archive->directory_at &&
           source_read(now, name_patch->offset, current, stem, &ignored) == CKPT_OK &&
           memcmp(current, e->name.ptr, stem) == 0;
}

bool zip_patch_undoes(zip *archive, size_t index, source *now, const struct patches *undo)
{
    ckpt_error ignored;
    struct patches made = {0};
    ckpt_str bytes = load_payload(archive, index);
    if (!bytes.ptr || !local_headers_match(archive))
        return false;
    if (undo->old_size == undo->new_size)
        return zip_patch_replace(archive, index, bytes, &made, &ignored) == CKPT_OK &&
               are_same_patches(&made, undo);
    return undoes_append(archive, index, now, undo);
}

bool zip_patch_is_consistent(zip *archive, size_t index)
{
    ckpt_error ignored;
    struct patches made = {0};
    ckpt_str bytes = load_payload(archive, index);
    return bytes.ptr && !archive->crc_none && local_headers_match(archive) &&
           zip_patch_replace(archive, index, bytes, &made, &ignored) == CKPT_OK;
}

/* append_member - appends to OUT the local header HEADER, the payload BYTES, and a data descriptor if the
 * flags of HEADER require one. OUT will begin at archive->directory_at of the file. */
static void append_member(const zip *archive, struct zip_header header, ckpt_str name, ckpt_str bytes,
                          buf *out)
{
    uint64_t data = archive->directory_at + ZIP_LOCAL_SIZE + name.len + ZIP_PAD_FIELD;
    bool has_descriptor = header.flags & ZIP_FLAG_DESCRIPTOR;
    uint32_t crc = header.crc, size = (uint32_t)header.csize;
    if (has_descriptor)
        header.crc = 0, header.csize = header.usize = 0;
    zip_put_local(out, &header, name, (uint16_t)((PAYLOAD_ALIGN - data % PAYLOAD_ALIGN) % PAYLOAD_ALIGN));
    buf_put_str(out, bytes);
    if (has_descriptor)
        zip_put_descriptor(out, crc, size, size);
}

ckpt_status zip_patch_append(zip *archive, size_t index, ckpt_str new_name, ckpt_str bytes,
                             struct patches *out, ckpt_error *err)
{
    const struct zip_entry *e = &archive->entries[index];
    struct directory d = {0};
    unsigned char *old_directory;
    buf b;
    CKPT_TRY(zip_locate_payload(archive, index, err));
    if (bytes.len >= UINT32_MAX || new_name.len != e->name.len)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "a pickle of %zu bytes is not added in place",
                    bytes.len);
    CKPT_TRY(find_central_entry(archive, index, &d, err));
    CKPT_TRY(read_directory(archive, d.size, &old_directory, err));
    struct zip_header h = {.made_by = archive->directory_at < UINT32_MAX ? ZIP_VERSION : ZIP_VERSION_ZIP64,
                           .flags = e->flags & (ZIP_FLAG_DESCRIPTOR | ZIP_FLAG_UTF8),
                           .time = ZIP_1980,
                           .crc = archive->crc_none ? 0 : crc32_update(0, bytes.ptr, bytes.len),
                           .csize = bytes.len,
                           .usize = bytes.len,
                           .offset = archive->directory_at};
    buf_init(&b, SIZE_MAX / 2);
    append_member(archive, h, e->name, bytes, &b);
    size_t name_at = d.header_at + ZIP_CENTRAL_SIZE; /* the header is in the central directory */
    uint64_t new_directory_at = archive->directory_at + b.len;
    buf_put(&b, old_directory, name_at);
    buf_put_str(&b, new_name);
    size_t name_end = name_at + new_name.len;
    buf_put(&b, old_directory + name_end, d.size - name_end);
    free(old_directory);
    zip_put_central(&b, &h, e->name);
    uint64_t ends_at = archive->directory_at + b.len;
    struct zip_end_record ends = {
        .entries = (uint64_t)archive->n + 1, .size = ends_at - new_directory_at, .offset = new_directory_at};
    zip_put_ends(&b, &ends, ends_at);
    ckpt_str appended = buf_ok(&b) ? arena_str(archive->a, buf_view(&b)) : str_of(NULL, 0);
    buf_free(&b);
    out->old_size = archive->src->size;
    CKPT_TRY(add_patch(out, e->header_offset + ZIP_LOCAL_SIZE, arena_str(archive->a, new_name), err));
    CKPT_TRY(add_patch(out, archive->directory_at, appended, err));
    out->new_size = archive->directory_at + appended.len;
    return CKPT_OK;
}
