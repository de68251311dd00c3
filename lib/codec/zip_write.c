/*
 * zip_write.c - writes a stored zip64 archive from front to back.
 *
 * A member, aligned as by torch's PyTorchStreamWriter (readers that map the file
 * rely on it), but with sizes and CRC where the APPNOTE has them:
 *   local header: flags 0, stored, 1980-01-01 00:00:00, CRC-32, sizes
 *   name
 *   zip64 extra field: the sizes, if they do not fit 32 bits
 *   extra field 4246 "FB": as many 'Z' as align the payload
 *   payload
 * After the members: directory, zip64 end record and locator (always, as torch writes
 * them), end record. The same members always give the same bytes.
 *
 * A payload of more than 256 KiB is written as it arrives, and its CRC patched into the
 * header afterwards; a smaller one is collected in memory and written at once.
 */
#include "codec/zip_write.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/crc32.h"
#include "base/store.h"
#include "codec/zip_header.h"

#define MAX_BUFFERED    (256u * 1024u)
#define MAX_DIRECTORY   (SIZE_MAX / 2)
#define DIRECTORY_CHUNK (64u * 1024u)

struct zip_writer {
    sink *out;
    buf top; /* "archive/" */
    uint32_t align;
    buf name;                      /* of the current member, with top */
    buf buffered;                  /* its header, and its payload if that is small */
    struct zip_reserved member;    /* of that member, but for its name; … */
    uint64_t left;                 /* … how many of its bytes are missing */
    bool open, is_buffered;        /* a member is being written; all of it is in BUFFERED */
    buf directory;                 /* central headers, without those of reserved members … */
    size_t nreserved, reserved_at; /* … how many those are, and their offset in it */
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

/* get_fixed_length - the size of the local header of S without name and padding. */
static uint64_t get_fixed_length(const struct zip_reserved *s)
{
    struct zip_header h = make_header(s);
    h.offset = 0;
    return ZIP_LOCAL_SIZE + ZIP_PAD_FIELD + zip64_length(&h);
}

/* place_payload - computes s->data for a name of NAME bytes. False: beyond 2^64. */
static bool place_payload(struct zip_reserved *s, size_t name, uint32_t align)
{
    bool clone = s->size >= SINK_CLONE_LEAST && s->source_offset != CKPT_NO_OFFSET && SINK_PAGE % align == 0;
    clone = clone && s->source_offset % align == 0;
    uint64_t data, unit = clone ? SINK_PAGE : align, rest = clone ? s->source_offset % SINK_PAGE : 0;
    return checked_add(s->header, get_fixed_length(s), &data) && checked_add(data, name, &data) &&
           checked_add(data, (unit + rest - data % unit) % unit, &s->data);
}

bool zip_layout_member(struct zip_layout *l, const char *top, uint32_t align, size_t name, uint64_t size,
                       uint64_t source_offset)
{
    struct zip_reserved s = {.size = size, .source_offset = source_offset, .header = l->at};
    struct zip_header h = make_header(&s);
    name += strlen(top) + 1;
    return place_payload(&s, name, align) &&
           checked_add(l->directory, ZIP_CENTRAL_SIZE + name + zip64_length(&h), &l->directory) &&
           checked_add(s.data, size, &l->at);
}

bool zip_layout_size(const struct zip_layout *l, uint64_t *total)
{
    uint64_t end;
    return checked_add(l->at, l->directory, &end) && checked_add(end, ZIP_ENDS_SIZE, total);
}

ckpt_status zip_writer_new(sink *out, const char *top, uint32_t align, zip_writer **w, ckpt_error *err)
{
    if (align == 0 || align > 32768 || (align & (align - 1)))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "payloads cannot be aligned to %u bytes", align);
    zip_writer *z = calloc(1, sizeof *z);
    if (!z)
        return fail_memory(err);
    z->out = out;
    z->align = align;
    buf_init(&z->top, ZIP_MAX_NAME);
    buf_init(&z->name, ZIP_MAX_NAME);
    buf_init(&z->buffered, MAX_BUFFERED + 65536 * 3);
    buf_init(&z->directory, MAX_DIRECTORY);
    buf_text(&z->top, top);
    buf_byte(&z->top, '/');
    if (!buf_ok(&z->top)) {
        zip_writer_free(z);
        return fail_memory(err);
    }
    *w = z;
    return CKPT_OK;
}

void zip_writer_free(zip_writer *w)
{
    if (!w)
        return;
    buf_free(&w->top);
    buf_free(&w->name);
    buf_free(&w->buffered);
    buf_free(&w->directory);
    free(w);
}

/* append_local - appends the local header of S, padded up to s->data, with CRC 0, which is patched later. */
static void append_local(buf *b, ckpt_str name, const struct zip_reserved *s)
{
    struct zip_header h = make_header(s);
    uint64_t pad = s->data - s->header - get_fixed_length(s) -
                   name.len; /* bounded: place_payload added them */
    h.crc = 0;
    zip_put_local(b, &h, name, (uint16_t)pad);
}

static void append_central(buf *b, ckpt_str name, const struct zip_reserved *s)
{
    struct zip_header h = make_header(s);
    zip_put_central(b, &h, name);
}

/* close_member - the payload is complete: writes what is buffered and adds the central header. */
static ckpt_status close_member(zip_writer *w, ckpt_error *err)
{
    unsigned char crc[4];
    store_u32le(crc, w->member.crc);
    if (w->is_buffered) {
        memcpy(w->buffered.data + ZIP_LOCAL_CRC, crc, 4);
        CKPT_TRY(sink_write(w->out, w->buffered.data, w->buffered.len, err));
    } else {
        CKPT_TRY(sink_patch(w->out, w->member.header + ZIP_LOCAL_CRC, crc, 4, err));
    }
    append_central(&w->directory, buf_view(&w->name), &w->member);
    w->open = false;
    w->members++;
    return buf_ok(&w->directory) ? CKPT_OK : fail_memory(err);
}

ckpt_status zip_writer_begin(zip_writer *w, const char *name, uint64_t size, ckpt_error *err)
{
    if (w->open)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "\"%s\" begins while %llu bytes of the member before it are missing", name,
                    (unsigned long long)w->left);
    buf_free(&w->name);
    buf_str(&w->name, buf_view(&w->top));
    buf_text(&w->name, name);
    buf_free(&w->buffered);
    w->member = (struct zip_reserved){
        .size = size, .source_offset = CKPT_NO_OFFSET, .header = sink_tell(w->out)};
    if (w->name.no_memory)
        return fail_memory(err);
    if (!buf_ok(&w->name) || !place_payload(&w->member, w->name.len, w->align))
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "\"%s\" does not fit into a zip archive", name);
    append_local(&w->buffered, buf_view(&w->name), &w->member);
    if (!buf_ok(&w->buffered))
        return fail_memory(err);
    w->left = size;
    w->open = true;
    w->is_buffered = size <= MAX_BUFFERED;
    if (!w->is_buffered)
        CKPT_TRY(sink_write(w->out, w->buffered.data, w->buffered.len, err));
    return size ? CKPT_OK : close_member(w, err);
}

bool zip_reserved_locate(const zip_writer *w, struct zip_reserved *member)
{
    return place_payload(member, w->top.len + strlen(member->name), w->align); /* bounded: both are short */
}

ckpt_status zip_writer_reserve(zip_writer *w, struct zip_reserved *member, ckpt_error *err)
{
    member->header = sink_tell(w->out);
    if (w->open || (w->nreserved && w->reserved_at != w->directory.len))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "\"%s\" is skipped apart from the others",
                    member->name);
    if (!zip_reserved_locate(w, member))
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "\"%s\" does not fit into a zip archive", member->name);
    CKPT_TRY(sink_skip(w->out, member->data - member->header, err));
    CKPT_TRY(sink_skip(w->out, member->size, err));
    w->reserved_at = w->directory.len;
    w->nreserved++;
    w->members++;
    return CKPT_OK;
}

/* make_full_name - sets OUT to TOP and the name. */
static bool make_full_name(const zip_writer *w, const struct zip_reserved *member, buf *out)
{
    out->len = 0;
    buf_str(out, buf_view(&w->top));
    buf_text(out, member->name);
    return buf_ok(out);
}

ckpt_status zip_reserved_put_header(const zip_writer *w, const struct zip_reserved *member, buf *out,
                                    ckpt_error *err)
{
    struct zip_reserved placed = *member;
    buf full_name;
    buf_init(&full_name, ZIP_MAX_NAME);
    bool ok = make_full_name(w, member, &full_name) && zip_reserved_locate(w, &placed);
    if (ok)
        append_local(out, buf_view(&full_name), &placed);
    buf_free(&full_name);
    return ok && buf_ok(out) ? CKPT_OK : fail_memory(err);
}

ckpt_status zip_writer_put(zip_writer *w, const void *bytes, size_t n, ckpt_error *err)
{
    if (!w->open || n > w->left) {
        if (n == 0)
            return CKPT_OK;
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "%zu bytes more than the member was to have", n);
    }
    w->member.crc = crc32_update(w->member.crc, bytes, n);
    if (w->is_buffered)
        buf_put(&w->buffered, bytes, n);
    else
        CKPT_TRY(sink_write(w->out, bytes, n, err));
    if (!buf_ok(&w->buffered))
        return fail_memory(err);
    w->left -= n;
    return w->left ? CKPT_OK : close_member(w, err);
}

ckpt_status zip_writer_member(zip_writer *w, const char *name, ckpt_str bytes, ckpt_error *err)
{
    CKPT_TRY(zip_writer_begin(w, name, bytes.len, err));
    return zip_writer_put(w, bytes.ptr, bytes.len, err);
}

/* write_reserved_headers - writes the central headers of reserved members, in chunks. */
static ckpt_status write_reserved_headers(zip_writer *w, zip_get_reserved *get_reserved, const void *user,
                                          ckpt_error *err)
{
    buf_free(&w->buffered);
    for (size_t i = 0; i < w->nreserved; i++) {
        struct zip_reserved member;
        get_reserved(user, i, &member);
        if (make_full_name(w, &member, &w->name))
            append_central(&w->buffered, buf_view(&w->name), &member);
        if (!buf_ok(&w->name) || !buf_ok(&w->buffered))
            return fail_memory(err);
        if (w->buffered.len < DIRECTORY_CHUNK && i + 1 < w->nreserved)
            continue;
        CKPT_TRY(sink_write(w->out, w->buffered.data, w->buffered.len, err));
        w->buffered.len = 0;
    }
    return CKPT_OK;
}

static ckpt_status write_directory(zip_writer *w, zip_get_reserved *get_reserved, const void *user,
                                   ckpt_error *err)
{
    size_t n = w->directory.len, before = w->nreserved ? w->reserved_at : n;
    if (before)
        CKPT_TRY(sink_write(w->out, w->directory.data, before, err));
    if (w->nreserved)
        CKPT_TRY(write_reserved_headers(w, get_reserved, user, err));
    return n > before ? sink_write(w->out, w->directory.data + before, n - before, err) : CKPT_OK;
}

ckpt_status zip_writer_finish(zip_writer *w, zip_get_reserved *get_reserved, const void *user,
                              ckpt_error *err)
{
    if (w->open)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "the archive ends while %llu bytes of a member are missing", (unsigned long long)w->left);
    uint64_t at = sink_tell(w->out);
    CKPT_TRY(write_directory(w, get_reserved, user, err));
    uint64_t end = sink_tell(w->out);
    buf_free(&w->buffered);
    zip_put_ends(&w->buffered,
                 &(struct zip_end_record){.entries = w->members, .size = end - at, .offset = at}, end);
    if (!buf_ok(&w->buffered))
        return fail_memory(err);
    return sink_write(w->out, w->buffered.data, w->buffered.len, err);
}
