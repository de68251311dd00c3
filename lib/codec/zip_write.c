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

static struct zip_header make_header(const struct zip_output_member *s)
{
    return (struct zip_header){.made_by = ZIP_VERSION_ZIP64,
                               .time = ZIP_1980,
                               .crc = s->crc,
                               .csize = s->size,
                               .usize = s->size,
                               .offset = s->header_offset};
}

/* set_payload_offset - sets s->data_offset, for a member whose name has NAME_LEN bytes, to an aligned offset.
 * False: it exceeds 2^64. */
static bool set_payload_offset(struct zip_output_member *s, size_t name_len)
{
    bool can_clone = s->size >= SINK_CLONE_LEAST && s->source_offset != CKPT_NO_OFFSET &&
                     s->source_offset % PAYLOAD_ALIGN == 0;
    uint64_t unit = can_clone ? SINK_PAGE : PAYLOAD_ALIGN;
    uint64_t remainder = can_clone ? s->source_offset % SINK_PAGE : 0;
    uint64_t header_end;
    struct zip_header h = make_header(s);
    return checked_add(s->header_offset, zip_output_local_size(&h, name_len), &header_end) &&
           checked_add(header_end, (unit + remainder - header_end % unit) % unit, &s->data_offset);
}

bool zip_layout_add_member(struct zip_layout *l, const char *top, size_t name_len, uint64_t size,
                           uint64_t source_offset)
{
    struct zip_output_member s = {
        .size = size, .source_offset = source_offset, .header_offset = l->members_size};
    struct zip_header h = make_header(&s);
    size_t full_name_len = strlen(top) + 1 + name_len;
    uint64_t central_size = ZIP_CENTRAL_SIZE + full_name_len + zip64_length(&h);
    return set_payload_offset(&s, full_name_len) &&
           checked_add(l->directory_size, central_size, &l->directory_size) &&
           checked_add(s.data_offset, size, &l->members_size);
}

bool zip_layout_get_size(const struct zip_layout *l, uint64_t *total)
{
    uint64_t end;
    return checked_add(l->members_size, l->directory_size, &end) && checked_add(end, ZIP_ENDS_SIZE, total);
}

ckpt_status zip_writer_new(sink *out, const char *top, zip_writer **w, ckpt_error *err)
{
    zip_writer *z = calloc(1, sizeof *z);
    CKPT_TRY_ALLOC(z, err);
    z->out = out;
    z->top_folder = str_c(top);
    buf_init(&z->headers, MAX_DIRECTORY);
    buf_init(&z->directory, MAX_DIRECTORY);
    *w = z;
    return CKPT_OK;
}

void zip_writer_free(zip_writer *w)
{
    if (!w)
        return;
    buf_free(&w->headers);
    buf_free(&w->directory);
    free(w);
}

/* make_full_name - returns "TOP/NAME" of S in ROOM. */
static ckpt_str make_full_name(const zip_writer *w, const struct zip_output_member *s,
                               char room[2 * ZIP_NAME])
{
    size_t n = strlen(s->name);
    memcpy(room, w->top_folder.ptr, w->top_folder.len);
    room[w->top_folder.len] = '/';
    memcpy(room + w->top_folder.len + 1, s->name, n);
    return str_of(room, w->top_folder.len + 1 + n);
}

/* append_local - appends the local header of S, with padding up to the payload. */
static void append_local(const zip_writer *w, const struct zip_output_member *s, buf *b)
{
    char room[2 * ZIP_NAME];
    ckpt_str name = make_full_name(w, s, room);
    struct zip_header h = make_header(s);
    /* set_payload_offset made data_offset the largest of the three */
    uint64_t pad = s->data_offset - s->header_offset - zip_output_local_size(&h, name.len);
    zip_put_local(b, &h, name, (uint16_t)pad);
}

static void append_central(const zip_writer *w, const struct zip_output_member *s, buf *b)
{
    char room[2 * ZIP_NAME];
    struct zip_header h = make_header(s);
    zip_put_central(b, &h, make_full_name(w, s, room));
}

/* locate_payload - sets member->data_offset, which depends on its header_offset and name. False: it exceeds
 * 2^64. */
static bool locate_payload(const zip_writer *w, struct zip_output_member *member)
{
    size_t name_len = w->top_folder.len + 1 + strlen(member->name);
    return set_payload_offset(member, name_len);
}

/* set_next_offsets - sets both offsets of MEMBER, called NAME, so that it follows what was written. */
static ckpt_status set_next_offsets(zip_writer *w, struct zip_output_member *member, const char *name,
                                    ckpt_error *err)
{
    member->header_offset = sink_tell(w->out);
    if (strlen(name) >= sizeof member->name || !locate_payload(w, member))
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "\"%s\" does not fit into a zip archive", name);
    w->nmembers++;
    return CKPT_OK;
}

ckpt_status zip_writer_reserve_member(zip_writer *w, struct zip_output_member *member, ckpt_error *err)
{
    CKPT_TRY(set_next_offsets(w, member, member->name, err));
    CKPT_TRY(sink_skip(w->out, member->data_offset - member->header_offset, err));
    CKPT_TRY(sink_skip(w->out, member->size, err));
    w->reserved_offset = w->directory.len;
    w->nreserved++;
    return CKPT_OK;
}

ckpt_status zip_put_output_header(const zip_writer *w, const struct zip_output_member *member, buf *out,
                                  ckpt_error *err)
{
    struct zip_output_member located = *member;
    located.crc = 0;
    if (locate_payload(w, &located))
        append_local(w, &located, out);
    return buf_ok(out) ? CKPT_OK : fail_memory(err);
}

ckpt_status zip_writer_write_member(zip_writer *w, const char *name, ckpt_str bytes, ckpt_error *err)
{
    struct zip_output_member member = {
        .size = bytes.len, .source_offset = CKPT_NO_OFFSET, .crc = crc32_update(0, bytes.ptr, bytes.len)};
    memcpy(member.name, name, strnlen(name, sizeof member.name - 1)); /* the last byte stays NUL */
    CKPT_TRY(set_next_offsets(w, &member, name, err));
    w->headers.len = 0;
    append_local(w, &member, &w->headers);
    append_central(w, &member, &w->directory);
    CKPT_TRY_ALLOC(buf_ok(&w->headers) && buf_ok(&w->directory), err);
    CKPT_TRY(sink_write(w->out, w->headers.data, w->headers.len, err));
    return sink_write(w->out, bytes.ptr, bytes.len, err);
}

/* write_reserved_headers - writes the central headers of the reserved members, in chunks. */
static ckpt_status write_reserved_headers(zip_writer *w, zip_get_output_member *get_reserved,
                                          const void *user, ckpt_error *err)
{
    w->headers.len = 0;
    for (size_t i = 0; i < w->nreserved; i++) {
        struct zip_output_member member;
        get_reserved(user, i, &member);
        append_central(w, &member, &w->headers);
        CKPT_TRY_ALLOC(buf_ok(&w->headers), err);
        if (w->headers.len < DIRECTORY_CHUNK && i + 1 < w->nreserved)
            continue;
        CKPT_TRY(sink_write(w->out, w->headers.data, w->headers.len, err));
        w->headers.len = 0;
    }
    return CKPT_OK;
}

static ckpt_status write_directory(zip_writer *w, zip_get_output_member *get_reserved, const void *user,
                                   ckpt_error *err)
{
    size_t n = w->directory.len, before = w->nreserved ? w->reserved_offset : n;
    CKPT_TRY(sink_write(w->out, w->directory.data, before, err));
    CKPT_TRY(write_reserved_headers(w, get_reserved, user, err));
    return n == before ? CKPT_OK : sink_write(w->out, w->directory.data + before, n - before, err);
}

ckpt_status zip_writer_finish(zip_writer *w, zip_get_output_member *get_reserved, const void *user,
                              ckpt_error *err)
{
    uint64_t directory = sink_tell(w->out);
    CKPT_TRY(write_directory(w, get_reserved, user, err));
    uint64_t end = sink_tell(w->out);
    w->headers.len = 0;
    zip_put_ends(
        &w->headers,
        &(struct zip_end_record){.entries = w->nmembers, .size = end - directory, .offset = directory}, end);
    CKPT_TRY_ALLOC(buf_ok(&w->headers), err);
    return sink_write(w->out, w->headers.data, w->headers.len, err);
}
