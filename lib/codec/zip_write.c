/*
 * zip_write.c - a stored zip64 archive, front to back.
 *
 * Member, as torch/csrc's PyTorchStreamWriter aligns it (readers that map the
 * file count on it), but with sizes and CRC where the standard wants them:
 *   local header: flags 0, stored, 1980-01-01 00:00:00, CRC-32, sizes
 *   name
 *   zip64 extra field: the sizes, when they do not fit 32 bits
 *   extra field 4246 "FB": as many 'Z' as bring the payload to the alignment
 *   payload
 * After the members: directory, zip64 end record and locator (always, as torch
 * has them), end record. The same members give the same bytes on any day.
 *
 * A payload of more than 256 KiB is written as it comes and its CRC patched
 * into the header afterwards; smaller ones wait in memory and are written once.
 */
#include "codec/zip_write.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/crc32.h"
#include "base/store.h"
#include "codec/zip_header.h"

#define HELD            (256u * 1024u)
#define MAX_DIRECTORY   (SIZE_MAX / 2)
#define DIRECTORY_PIECE (64u * 1024u)

struct zip_writer {
    sink *out;
    buf top; /* "archive/" */
    uint32_t align;
    buf name; /* of the member at hand, with top */
    buf held; /* its header, and its payload while it is small */
    struct zip_spot spot; /* of that member, but for its name; … */
    uint64_t left;        /* … so many of its bytes are still to come */
    bool open, hold;
    buf directory;     /* without those that were skipped … */
    size_t skipped, where; /* … which are so many, and stand at this byte of it */
    uint64_t members;
};

static struct zip_header header_of(const struct zip_spot *s)
{
    return (struct zip_header){.made_by = 45,
                               .time = ZIP_1980,
                               .crc = s->crc,
                               .csize = s->size,
                               .usize = s->size,
                               .offset = s->header};
}

/* fixed_length - of the local header of S without name and filling. */
static uint64_t fixed_length(const struct zip_spot *s)
{
    struct zip_header h = header_of(s);
    h.offset = 0;
    return ZIP_LOCAL_SIZE + ZIP_PAD_FIELD + zip64_length(&h);
}

/* place_payload - finds s->data; NAME is how long the name is. False: beyond 2^64. */
static bool place_payload(struct zip_spot *s, size_t name, uint32_t align)
{
    bool clone = s->size >= SINK_CLONE_LEAST && s->like != CKPT_NO_OFFSET && SINK_PAGE % align == 0;
    clone = clone && s->like % align == 0;
    uint64_t data, unit = clone ? SINK_PAGE : align, rest = clone ? s->like % SINK_PAGE : 0;
    return checked_add(s->header, fixed_length(s), &data) && checked_add(data, name, &data) &&
           checked_add(data, (unit + rest - data % unit) % unit, &s->data);
}

bool zip_layout_member(struct zip_layout *l, const char *top, uint32_t align, size_t name, uint64_t size,
                       uint64_t like)
{
    struct zip_spot s = {.size = size, .like = like, .header = l->at};
    struct zip_header h = header_of(&s);
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
    buf_init(&z->top, 65535);
    buf_init(&z->name, 65535);
    buf_init(&z->held, HELD + 65536 * 3);
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
    buf_free(&w->held);
    buf_free(&w->directory);
    free(w);
}

/* put_local - the local header of S, filled up to s->data; the CRC may come later. */
static void put_local(buf *b, ckpt_str name, const struct zip_spot *s)
{
    struct zip_header h = header_of(s);
    uint64_t pad = s->data - s->header - fixed_length(s) - name.len; /* bounded: place_payload added them */
    h.crc = 0;
    zip_put_local(b, &h, name, (uint16_t)pad);
}

static void put_central(buf *b, ckpt_str name, const struct zip_spot *s)
{
    struct zip_header h = header_of(s);
    zip_put_central(b, &h, name);
}

/* close_member - the payload is complete: the directory learns of it. */
static ckpt_status close_member(zip_writer *w, ckpt_error *err)
{
    unsigned char crc[4];
    store_u32le(crc, w->spot.crc);
    if (w->hold) {
        memcpy(w->held.data + ZIP_LOCAL_CRC, crc, 4);
        CKPT_TRY(sink_write(w->out, w->held.data, w->held.len, err));
    } else {
        CKPT_TRY(sink_patch(w->out, w->spot.header + ZIP_LOCAL_CRC, crc, 4, err));
    }
    put_central(&w->directory, buf_view(&w->name), &w->spot);
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
    buf_free(&w->held);
    w->spot = (struct zip_spot){.size = size, .like = CKPT_NO_OFFSET, .header = sink_tell(w->out)};
    if (w->name.no_memory)
        return fail_memory(err);
    if (!buf_ok(&w->name) || !place_payload(&w->spot, w->name.len, w->align))
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "\"%s\" does not fit into a zip archive", name);
    put_local(&w->held, buf_view(&w->name), &w->spot);
    if (!buf_ok(&w->held))
        return fail_memory(err);
    w->left = size;
    w->open = true;
    w->hold = size <= HELD;
    if (!w->hold)
        CKPT_TRY(sink_write(w->out, w->held.data, w->held.len, err));
    return size ? CKPT_OK : close_member(w, err);
}

bool zip_spot_place(const zip_writer *w, struct zip_spot *spot)
{
    return place_payload(spot, w->top.len + strlen(spot->name), w->align); /* bounded: both are short */
}

ckpt_status zip_writer_skip(zip_writer *w, struct zip_spot *spot, ckpt_error *err)
{
    spot->header = sink_tell(w->out);
    if (w->open || (w->skipped && w->where != w->directory.len))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "\"%s\" is skipped apart from the others", spot->name);
    if (!zip_spot_place(w, spot))
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "\"%s\" does not fit into a zip archive", spot->name);
    CKPT_TRY(sink_skip(w->out, spot->data - spot->header, err));
    CKPT_TRY(sink_skip(w->out, spot->size, err));
    w->where = w->directory.len;
    w->skipped++;
    w->members++;
    return CKPT_OK;
}

/* whole_name - with TOP, in OUT. */
static bool whole_name(const zip_writer *w, const struct zip_spot *spot, buf *out)
{
    out->len = 0;
    buf_str(out, buf_view(&w->top));
    buf_text(out, spot->name);
    return buf_ok(out);
}

ckpt_status zip_spot_header(const zip_writer *w, const struct zip_spot *spot, buf *out, ckpt_error *err)
{
    struct zip_spot placed = *spot;
    buf whole;
    buf_init(&whole, 65535);
    bool ok = whole_name(w, spot, &whole) && zip_spot_place(w, &placed);
    if (ok)
        put_local(out, buf_view(&whole), &placed);
    buf_free(&whole);
    return ok && buf_ok(out) ? CKPT_OK : fail_memory(err);
}

ckpt_status zip_writer_put(zip_writer *w, const void *bytes, size_t n, ckpt_error *err)
{
    if (!w->open || n > w->left) {
        if (n == 0)
            return CKPT_OK;
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "%zu bytes more than the member was to have", n);
    }
    w->spot.crc = crc32_update(w->spot.crc, bytes, n);
    if (w->hold)
        buf_put(&w->held, bytes, n);
    else
        CKPT_TRY(sink_write(w->out, bytes, n, err));
    if (!buf_ok(&w->held))
        return fail_memory(err);
    w->left -= n;
    return w->left ? CKPT_OK : close_member(w, err);
}

ckpt_status zip_writer_member(zip_writer *w, const char *name, ckpt_str bytes, ckpt_error *err)
{
    CKPT_TRY(zip_writer_begin(w, name, bytes.len, err));
    return zip_writer_put(w, bytes.ptr, bytes.len, err);
}

uint32_t zip_writer_crc(const zip_writer *w) { return w->spot.crc; }

/* put_skipped - their records, in pieces. */
static ckpt_status put_skipped(zip_writer *w, zip_tell *tell, const void *user, ckpt_error *err)
{
    buf_free(&w->held);
    for (size_t i = 0; i < w->skipped; i++) {
        struct zip_spot spot;
        tell(user, i, &spot);
        if (whole_name(w, &spot, &w->name))
            put_central(&w->held, buf_view(&w->name), &spot);
        if (!buf_ok(&w->name) || !buf_ok(&w->held))
            return fail_memory(err);
        if (w->held.len < DIRECTORY_PIECE && i + 1 < w->skipped)
            continue;
        CKPT_TRY(sink_write(w->out, w->held.data, w->held.len, err));
        w->held.len = 0;
    }
    return CKPT_OK;
}

static ckpt_status put_directory(zip_writer *w, zip_tell *tell, const void *user, ckpt_error *err)
{
    size_t n = w->directory.len, before = w->skipped ? w->where : n;
    if (before)
        CKPT_TRY(sink_write(w->out, w->directory.data, before, err));
    if (w->skipped)
        CKPT_TRY(put_skipped(w, tell, user, err));
    return n > before ? sink_write(w->out, w->directory.data + before, n - before, err) : CKPT_OK;
}

ckpt_status zip_writer_finish(zip_writer *w, zip_tell *tell, const void *user, ckpt_error *err)
{
    if (w->open)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "the archive ends while %llu bytes of a member are missing", (unsigned long long)w->left);
    uint64_t at = sink_tell(w->out);
    CKPT_TRY(put_directory(w, tell, user, err));
    uint64_t end = sink_tell(w->out);
    buf_free(&w->held);
    zip_put_ends(&w->held, &(struct zip_end_record){.entries = w->members, .size = end - at, .offset = at},
                 end);
    if (!buf_ok(&w->held))
        return fail_memory(err);
    return sink_write(w->out, w->held.data, w->held.len, err);
}
