/*
 * zip_write.c - see zip_write.h. A member is aligned as by torch's PyTorchStreamWriter, because readers that
 * map the file rely on it, but has its sizes and CRC in the local header:
 *   local header: flags 0, stored, 1980-01-01 00:00:00, CRC-32, sizes
 *   name
 *   zip64 extra field: the sizes, if they do not fit 32 bits
 *   extra field 4246 "FB": as many 'Z' as align the payload
 *   payload
 * After the members come directory, zip64 end record and locator (always, as torch writes them), end record.
 * The same members always give the same bytes.
 */
#include "codec/zip_write.h"

#include <stdlib.h>

#include "codec/zip_header.h"

#define PAYLOAD_ALIGN   64u
#define MAX_DIRECTORY   (SIZE_MAX / 2)
#define DIRECTORY_CHUNK (64u * 1024u)

struct zip_writer {
    sink *out;
    ckpt_str top_folder;
    buf headers;            /* headers to be written next */
    buf directory;          /* central headers of all but the reserved members */
    size_t nreserved;       /* number of reserved members */
    size_t reserved_offset; /* offset in directory at which their central headers are inserted */
    uint64_t nmembers;
};

static struct zip_header make_header(const struct zip_output_member *member)
{
    struct zip_header header = zip_new_header(member->size, member->crc, member->header_offset);
    header.made_by = ZIP_VERSION_ZIP64;
    return header;
}

/* set_payload_offset - sets member->data_offset, for a member whose name has NAME_LEN bytes, to an aligned
 * offset. False: it exceeds 2^64. */
static bool set_payload_offset(struct zip_output_member *member, size_t name_len)
{
    bool can_clone = member->size >= SINK_CLONE_LEAST && member->source_offset != CKPT_NO_OFFSET &&
                     member->source_offset % PAYLOAD_ALIGN == 0;
    uint64_t unit = can_clone ? SINK_PAGE : PAYLOAD_ALIGN;
    uint64_t remainder = can_clone ? member->source_offset % SINK_PAGE : 0;
    uint64_t header_end;
    struct zip_header h = make_header(member);
    return checked_add(member->header_offset, zip_output_local_size(&h, name_len), &header_end) &&
           checked_add(header_end, (unit + remainder - header_end % unit) % unit, &member->data_offset);
}

bool zip_layout_add_member(struct zip_layout *layout, const char *top, size_t name_len, uint64_t size,
                           uint64_t source_offset)
{
    struct zip_output_member s = {
        .size = size, .source_offset = source_offset, .header_offset = layout->members_size};
    struct zip_header h = make_header(&s);
    size_t full_name_len = strlen(top) + 1 + name_len;
    uint64_t central_size = ZIP_CENTRAL_SIZE + full_name_len + zip64_length(&h);
    return set_payload_offset(&s, full_name_len) &&
           checked_add(layout->directory_size, central_size, &layout->directory_size) &&
           checked_add(s.data_offset, size, &layout->members_size);
}

bool zip_layout_get_size(const struct zip_layout *layout, uint64_t *total)
{
    uint64_t end;
    return checked_add(layout->members_size, layout->directory_size, &end) &&
           checked_add(end, ZIP_ENDS_SIZE, total);
}

ckpt_status zip_writer_new(sink *out, const char *top, zip_writer **writer, ckpt_error *err)
{
    zip_writer *z = calloc(1, sizeof *z);
    CKPT_TRY_ALLOC(z, err);
    z->out = out;
    z->top_folder = str_c(top);
    buf_init(&z->headers, MAX_DIRECTORY);
    buf_init(&z->directory, MAX_DIRECTORY);
    *writer = z;
    return CKPT_OK;
}

void zip_writer_free(zip_writer *writer)
{
    if (!writer)
        return;
    buf_free(&writer->headers);
    buf_free(&writer->directory);
    free(writer);
}

/* make_full_name - returns "TOP/NAME" of MEMBER in ROOM. */
static ckpt_str make_full_name(const zip_writer *writer, const struct zip_output_member *member,
                               char room[2 * ZIP_NAME])
{
    size_t n = strlen(member->name);
    memcpy(room, writer->top_folder.ptr, writer->top_folder.len);
    room[writer->top_folder.len] = '/';
    memcpy(room + writer->top_folder.len + 1, member->name, n);
    return str_of(room, writer->top_folder.len + 1 + n);
}

/* append_local - appends the local header of MEMBER, with padding up to the payload. */
static void append_local(const zip_writer *writer, const struct zip_output_member *member, buf *out)
{
    char room[2 * ZIP_NAME];
    ckpt_str name = make_full_name(writer, member, room);
    struct zip_header h = make_header(member);
    /* set_payload_offset made data_offset the largest of the three */
    uint64_t pad = member->data_offset - member->header_offset - zip_output_local_size(&h, name.len);
    zip_put_local(out, &h, name, (uint16_t)pad);
}

static void append_central(const zip_writer *writer, const struct zip_output_member *member, buf *out)
{
    char room[2 * ZIP_NAME];
    struct zip_header h = make_header(member);
    zip_put_central(out, &h, make_full_name(writer, member, room));
}

/* locate_payload - sets member->data_offset, which depends on its header_offset and name. False: it exceeds
 * 2^64. */
static bool locate_payload(const zip_writer *writer, struct zip_output_member *member)
{
    size_t name_len = writer->top_folder.len + 1 + strlen(member->name);
    return set_payload_offset(member, name_len);
}

/* set_next_offsets - sets both offsets of MEMBER, called NAME, so that it follows what was written. */
static ckpt_status set_next_offsets(zip_writer *writer, struct zip_output_member *member, const char *name,
                                    ckpt_error *err)
{
    member->header_offset = sink_tell(writer->out);
    if (strlen(name) >= sizeof member->name || !locate_payload(writer, member))
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "\"%s\" does not fit into a zip archive", name);
    writer->nmembers++;
    return CKPT_OK;
}

ckpt_status zip_writer_reserve_member(zip_writer *writer, struct zip_output_member *member, ckpt_error *err)
{
    CKPT_TRY(set_next_offsets(writer, member, member->name, err));
    CKPT_TRY(sink_skip(writer->out, member->data_offset - member->header_offset, err));
    CKPT_TRY(sink_skip(writer->out, member->size, err));
    writer->reserved_offset = writer->directory.len;
    writer->nreserved++;
    return CKPT_OK;
}

ckpt_status zip_put_output_header(const zip_writer *writer, const struct zip_output_member *member, buf *out,
                                  ckpt_error *err)
{
    struct zip_output_member located = *member;
    located.crc = 0;
    if (locate_payload(writer, &located))
        append_local(writer, &located, out);
    return buf_ok(out) ? CKPT_OK : fail_memory(err);
}

ckpt_status zip_writer_write_member(zip_writer *writer, const char *name, ckpt_str bytes, ckpt_error *err)
{
    struct zip_output_member member = {
        .size = bytes.len, .source_offset = CKPT_NO_OFFSET, .crc = crc32_update(0, bytes.ptr, bytes.len)};
    memcpy(member.name, name, strnlen(name, sizeof member.name - 1)); /* the last byte stays NUL */
    CKPT_TRY(set_next_offsets(writer, &member, name, err));
    writer->headers.len = 0;
    append_local(writer, &member, &writer->headers);
    append_central(writer, &member, &writer->directory);
    CKPT_TRY_ALLOC(buf_ok(&writer->headers) && buf_ok(&writer->directory), err);
    CKPT_TRY(sink_write(writer->out, writer->headers.data, writer->headers.len, err));
    return sink_write(writer->out, bytes.ptr, bytes.len, err);
}

/* write_reserved_headers - writes the central headers of the reserved members, in chunks. */
static ckpt_status write_reserved_headers(zip_writer *writer, zip_get_output_member *get_reserved,
                                          const void *user, ckpt_error *err)
{
    writer->headers.len = 0;
    for (size_t i = 0; i < writer->nreserved; i++) {
        struct zip_output_member member;
        get_reserved(user, i, &member);
        append_central(writer, &member, &writer->headers);
        CKPT_TRY_ALLOC(buf_ok(&writer->headers), err);
        if (writer->headers.len < DIRECTORY_CHUNK && i + 1 < writer->nreserved)
            continue;
        CKPT_TRY(sink_write(writer->out, writer->headers.data, writer->headers.len, err));
        writer->headers.len = 0;
    }
    return CKPT_OK;
}

static ckpt_status write_directory(zip_writer *writer, zip_get_output_member *get_reserved, const void *user,
                                   ckpt_error *err)
{
    size_t n = writer->directory.len, before = writer->nreserved ? writer->reserved_offset : n;
    CKPT_TRY(sink_write(writer->out, writer->directory.data, before, err));
    CKPT_TRY(write_reserved_headers(writer, get_reserved, user, err));
    return n == before ? CKPT_OK : sink_write(writer->out, writer->directory.data + before, n - before, err);
}

ckpt_status zip_writer_finish(zip_writer *writer, zip_get_output_member *get_reserved, const void *user,
                              ckpt_error *err)
{
    uint64_t dir = sink_tell(writer->out);
    CKPT_TRY(write_directory(writer, get_reserved, user, err));
    uint64_t end = sink_tell(writer->out);
    writer->headers.len = 0;
    zip_put_ends(&writer->headers,
                 &(struct zip_end_record){.entries = writer->nmembers, .size = end - dir, .offset = dir},
                 end);
    CKPT_TRY_ALLOC(buf_ok(&writer->headers), err);
    return sink_write(writer->out, writer->headers.data, writer->headers.len, err);
}
