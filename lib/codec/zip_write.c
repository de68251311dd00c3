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

#include "base/checked.h"
#include "base/crc32.h"
#include "codec/zip_header.h"

#define PAYLOAD_ALIGN   64u
#define MAX_DIRECTORY   (SIZE_MAX / 2)
#define DIRECTORY_CHUNK (64u * 1024u)

struct zip_writer {
    sink *out;
    ckpt_str top;
    buf headers;                   /* headers to be written next */
    buf directory;                 /* central headers of all but the reserved members */
    size_t nreserved, reserved_at; /* number of reserved members; offset of their headers in directory */
    uint64_t members;
};

static struct zip_header make_header(const struct zip_reserved *s)
{
    return (struct zip_header){.made_by = ZIP_VERSION_ZIP64,
                               .time = ZIP_1980,
                               .crc = s->crc,
                               .csize = s->size,
                               .usize = s->size,
                               .offset = s->header};
}

/* set_payload_offset - sets s->data, for a name of NAME_LEN bytes, to an aligned offset. False: beyond
 * 2^64. */
static bool set_payload_offset(struct zip_reserved *s, size_t name_len)
{
    bool can_clone = s->size >= SINK_CLONE_LEAST && s->source_offset != CKPT_NO_OFFSET &&
                     s->source_offset % PAYLOAD_ALIGN == 0;
    uint64_t data, unit = can_clone ? SINK_PAGE : PAYLOAD_ALIGN,
                   remainder = can_clone ? s->source_offset % SINK_PAGE : 0;
    struct zip_header h = make_header(s);
    return checked_add(s->header, zip_put_local_length(&h, name_len), &data) &&
           checked_add(data, (unit + remainder - data % unit) % unit, &s->data);
}

bool zip_layout_member(struct zip_layout *l, const char *top, size_t name, uint64_t size,
                       uint64_t source_offset)
{
    struct zip_reserved s = {.size = size, .source_offset = source_offset, .header = l->at};
    struct zip_header h = make_header(&s);
    name += strlen(top) + 1;
    return set_payload_offset(&s, name) &&
           checked_add(l->directory, ZIP_CENTRAL_SIZE + name + zip64_length(&h), &l->directory) &&
           checked_add(s.data, size, &l->at);
}

bool zip_layout_size(const struct zip_layout *l, uint64_t *total)
{
    uint64_t end;
    return checked_add(l->at, l->directory, &end) && checked_add(end, ZIP_ENDS_SIZE, total);
}

ckpt_status zip_writer_new(sink *out, const char *top, zip_writer **w, ckpt_error *err)
{
    zip_writer *z = calloc(1, sizeof *z);
    if (!z)
        return fail_memory(err);
    z->out = out;
    z->top = str_c(top);
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
static ckpt_str make_full_name(const zip_writer *w, const struct zip_reserved *s, char room[2 * ZIP_NAME])
{
    size_t n = strlen(s->name);
    memcpy(room, w->top.ptr, w->top.len); /* bounded: both have less than ZIP_NAME bytes */
    room[w->top.len] = '/';
    memcpy(room + w->top.len + 1, s->name, n); /* bounded: likewise */
    return str_of(room, w->top.len + 1 + n);
}

/* append_local - appends the local header of S, padded up to s->data. */
static void append_local(const zip_writer *w, const struct zip_reserved *s, buf *b)
{
    char room[2 * ZIP_NAME];
    ckpt_str name = make_full_name(w, s, room);
    struct zip_header h = make_header(s);
    /* bounded: set_payload_offset added them */
    uint64_t pad = s->data - s->header - zip_put_local_length(&h, name.len);
    zip_put_local(b, &h, name, (uint16_t)pad);
}

static void append_central(const zip_writer *w, const struct zip_reserved *s, buf *b)
{
    char room[2 * ZIP_NAME];
    struct zip_header h = make_header(s);
    zip_put_central(b, &h, make_full_name(w, s, room));
}

/* locate_payload - sets member->data by member->header and its name. False: beyond 2^64. */
static bool locate_payload(const zip_writer *w, struct zip_reserved *member)
{
    return set_payload_offset(member, w->top.len + 1 + strlen(member->name)); /* bounded: both are short */
}

/* set_next_offsets - sets header and data of MEMBER, called NAME, so that it follows what was written. */
static ckpt_status set_next_offsets(zip_writer *w, struct zip_reserved *member, const char *name,
                                    ckpt_error *err)
{
    member->header = sink_tell(w->out);
    if (strlen(name) >= sizeof member->name || !locate_payload(w, member))
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "\"%s\" does not fit into a zip archive", name);
    w->members++;
    return CKPT_OK;
}

ckpt_status zip_writer_reserve(zip_writer *w, struct zip_reserved *member, ckpt_error *err)
{
    CKPT_TRY(set_next_offsets(w, member, member->name, err));
    CKPT_TRY(sink_skip(w->out, member->data - member->header, err));
    CKPT_TRY(sink_skip(w->out, member->size, err));
    w->reserved_at = w->directory.len;
    w->nreserved++;
    return CKPT_OK;
}

ckpt_status zip_reserved_put_header(const zip_writer *w, const struct zip_reserved *member, buf *out,
                                    ckpt_error *err)
{
    struct zip_reserved located = *member;
    located.crc = 0;
    if (locate_payload(w, &located))
        append_local(w, &located, out);
    return buf_ok(out) ? CKPT_OK : fail_memory(err);
}

ckpt_status zip_writer_member(zip_writer *w, const char *name, ckpt_str bytes, ckpt_error *err)
{
    struct zip_reserved member = {
        .size = bytes.len, .source_offset = CKPT_NO_OFFSET, .crc = crc32_update(0, bytes.ptr, bytes.len)};
    memcpy(member.name, name, strnlen(name, sizeof member.name - 1)); /* bounded: the last one stays NUL */
    CKPT_TRY(set_next_offsets(w, &member, name, err));
    w->headers.len = 0;
    append_local(w, &member, &w->headers);
    append_central(w, &member, &w->directory);
    if (!buf_ok(&w->headers) || !buf_ok(&w->directory))
        return fail_memory(err);
    CKPT_TRY(sink_write(w->out, w->headers.data, w->headers.len, err));
    return sink_write(w->out, bytes.ptr, bytes.len, err);
}

/* write_reserved_headers - writes the central headers of reserved members, in chunks. */
static ckpt_status write_reserved_headers(zip_writer *w, zip_get_reserved *get_reserved, const void *user,
                                          ckpt_error *err)
{
    w->headers.len = 0;
    for (size_t i = 0; i < w->nreserved; i++) {
        struct zip_reserved member;
        get_reserved(user, i, &member);
        append_central(w, &member, &w->headers);
        if (!buf_ok(&w->headers))
            return fail_memory(err);
        if (w->headers.len < DIRECTORY_CHUNK && i + 1 < w->nreserved)
            continue;
        CKPT_TRY(sink_write(w->out, w->headers.data, w->headers.len, err));
        w->headers.len = 0;
    }
    return CKPT_OK;
}

static ckpt_status write_directory(zip_writer *w, zip_get_reserved *get_reserved, const void *user,
                                   ckpt_error *err)
{
    size_t n = w->directory.len, before = w->nreserved ? w->reserved_at : n;
    CKPT_TRY(sink_write(w->out, w->directory.data, before, err));
    CKPT_TRY(write_reserved_headers(w, get_reserved, user, err));
    return sink_write(w->out, w->directory.data + before, n - before, err);
}

ckpt_status zip_writer_finish(zip_writer *w, zip_get_reserved *get_reserved, const void *user,
                              ckpt_error *err)
{
    uint64_t at = sink_tell(w->out);
    CKPT_TRY(write_directory(w, get_reserved, user, err));
    uint64_t end = sink_tell(w->out);
    w->headers.len = 0;
    zip_put_ends(&w->headers, &(struct zip_end_record){.entries = w->members, .size = end - at, .offset = at},
                 end);
    if (!buf_ok(&w->headers))
        return fail_memory(err);
    return sink_write(w->out, w->headers.data, w->headers.len, err);
}
