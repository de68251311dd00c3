/*
 * zip_write.c - a stored zip64 archive, front to back.
 *
 * Member, as torch/csrc's PyTorchStreamWriter aligns it (readers that map the
 * file count on it), but with sizes and CRC where the standard wants them:
 *   0   30  local header: needed 10 (45 with zip64), flags 0, method 0,
 *           1980-01-01 00:00:00, CRC-32, sizes
 *   30      name
 *           extra 0001: two 64-bit sizes, when they do not fit 32 bits
 *           extra 4246 "FB": as many 'Z' as bring the payload to the alignment
 *           payload
 * Behind the members: directory, zip64 end record and locator (always, as torch
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

#define LOCAL         30u
#define CENTRAL       46u
#define ENDS          (56u + 20u + 22u)
#define HELD          (256u * 1024u)
#define DATE_1980     0x0021u
#define FULL32        0xFFFFFFFFu
#define MAX_DIRECTORY (SIZE_MAX / 2)
#define DIRECTORY_PIECE (64u * 1024u)

struct zip_writer {
    sink *out;
    buf top; /* "archive/" */
    uint32_t align;
    buf name; /* of the member at hand, with top */
    buf held; /* its header, and its payload while it is small */
    uint64_t header, size, left;
    uint32_t crc;
    bool open, hold;
    buf directory;     /* without those that were skipped … */
    size_t skipped, where; /* … which are so many, and stand at this byte of it */
    uint64_t members;
};

/* Where a member's parts lie, and how its sizes are said. */
struct place {
    uint64_t data;
    uint16_t extra; /* bytes of both extra fields in the local header */
    uint16_t pad;
    bool wide; /* its sizes need zip64 */
};

static bool place_at(uint64_t header, size_t name, uint64_t size, uint32_t align, uint64_t like,
                     struct place *p)
{
    bool clone = size >= ZIP_CLONE_LEAST && like != CKPT_NO_OFFSET && SINK_PAGE % align == 0;
    clone = clone && like % align == 0;
    uint64_t data, unit = clone ? SINK_PAGE : align, rest = clone ? like % SINK_PAGE : 0;
    p->wide = size >= FULL32;
    uint64_t fixed = LOCAL + 4u + (p->wide ? 20u : 0u);
    if (!checked_add(header, fixed, &data) || !checked_add(data, name, &data))
        return false;
    p->pad = (uint16_t)((unit + rest - data % unit) % unit);
    p->extra = (uint16_t)(p->pad + 4u + (p->wide ? 20u : 0u));
    return checked_add(data, p->pad, &p->data);
}

static size_t central_size(size_t name, uint64_t size, uint64_t header)
{
    size_t extra = (size >= FULL32 ? 16u : 0u) + (header >= FULL32 ? 8u : 0u);
    return CENTRAL + name + (extra ? extra + 4u : 0u);
}

bool zip_layout_member(struct zip_layout *l, const char *top, uint32_t align, size_t name, uint64_t size,
                       uint64_t like)
{
    struct place p;
    uint64_t header = l->at;
    name += strlen(top) + 1;
    return place_at(header, name, size, align, like, &p) &&
           checked_add(l->directory, central_size(name, size, header), &l->directory) &&
           checked_add(p.data, size, &l->at);
}

bool zip_layout_size(const struct zip_layout *l, uint64_t *total)
{
    uint64_t end;
    return checked_add(l->at, l->directory, &end) && checked_add(end, ENDS, total);
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

/* put_local - the local header and its extra fields; the CRC may come later. */
static void put_local(buf *b, ckpt_str name, uint64_t size, uint32_t crc, const struct place *p)
{
    buf_u32le(b, 0x04034B50);
    buf_u16le(b, p->wide ? 45 : 10);
    buf_u16le(b, 0);
    buf_u16le(b, 0);
    buf_u16le(b, 0);
    buf_u16le(b, DATE_1980);
    buf_u32le(b, crc);
    buf_u32le(b, p->wide ? FULL32 : (uint32_t)size);
    buf_u32le(b, p->wide ? FULL32 : (uint32_t)size);
    buf_u16le(b, (uint16_t)name.len);
    buf_u16le(b, p->extra);
    buf_str(b, name);
    if (p->wide) {
        buf_u16le(b, 1);
        buf_u16le(b, 16);
        buf_u64le(b, size);
        buf_u64le(b, size);
    }
    buf_u16le(b, 0x4246);
    buf_u16le(b, p->pad);
    for (uint16_t i = 0; i < p->pad; i++)
        buf_byte(b, 'Z');
}

static void put_central(buf *b, ckpt_str name, uint64_t size, uint32_t crc, uint64_t header)
{
    bool wide = size >= FULL32, far = header >= FULL32;
    buf_u32le(b, 0x02014B50);
    buf_u16le(b, 45);
    buf_u16le(b, wide || far ? 45 : 10);
    buf_u16le(b, 0);
    buf_u16le(b, 0);
    buf_u16le(b, 0);
    buf_u16le(b, DATE_1980);
    buf_u32le(b, crc);
    buf_u32le(b, wide ? FULL32 : (uint32_t)size);
    buf_u32le(b, wide ? FULL32 : (uint32_t)size);
    buf_u16le(b, (uint16_t)name.len);
    buf_u16le(b, (uint16_t)(central_size(0, size, header) - CENTRAL));
    for (int i = 0; i < 10; i++) /* comment, disk, attributes */
        buf_byte(b, 0);
    buf_u32le(b, far ? FULL32 : (uint32_t)header);
    buf_str(b, name);
    if (wide || far) {
        buf_u16le(b, 1);
        buf_u16le(b, (uint16_t)((wide ? 16 : 0) + (far ? 8 : 0)));
    }
    if (wide) {
        buf_u64le(b, size);
        buf_u64le(b, size);
    }
    if (far)
        buf_u64le(b, header);
}

/* close_member - the payload is complete: the directory learns of it. */
static ckpt_status close_member(zip_writer *w, ckpt_error *err)
{
    unsigned char crc[4];
    store_u32le(crc, w->crc);
    if (w->hold) {
        memcpy(w->held.data + 14, crc, 4);
        CKPT_TRY(sink_write(w->out, w->held.data, w->held.len, err));
    } else {
        CKPT_TRY(sink_patch(w->out, w->header + 14, crc, 4, err));
    }
    put_central(&w->directory, buf_view(&w->name), w->size, w->crc, w->header);
    w->open = false;
    w->members++;
    return buf_ok(&w->directory) ? CKPT_OK : fail_memory(err);
}

ckpt_status zip_writer_begin(zip_writer *w, const char *name, uint64_t size, ckpt_error *err)
{
    struct place p;
    if (w->open)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "\"%s\" begins while %llu bytes of the member before it are missing", name,
                    (unsigned long long)w->left);
    buf_free(&w->name);
    buf_str(&w->name, buf_view(&w->top));
    buf_text(&w->name, name);
    buf_free(&w->held);
    w->header = sink_tell(w->out);
    if (w->name.no_memory)
        return fail_memory(err);
    if (!buf_ok(&w->name) || !place_at(w->header, w->name.len, size, w->align, CKPT_NO_OFFSET, &p))
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "\"%s\" does not fit into a zip archive", name);
    put_local(&w->held, buf_view(&w->name), size, 0, &p);
    if (!buf_ok(&w->held))
        return fail_memory(err);
    w->size = w->left = size;
    w->crc = 0;
    w->open = true;
    w->hold = size <= HELD;
    if (!w->hold)
        CKPT_TRY(sink_write(w->out, w->held.data, w->held.len, err));
    return size ? CKPT_OK : close_member(w, err);
}

/* place_spot - where SPOT's payload lies behind its header. */
static bool place_spot(const zip_writer *w, const struct zip_spot *spot, struct place *p)
{
    size_t name = w->top.len + strlen(spot->name); /* bounded: both are short */
    return place_at(spot->header, name, spot->size, w->align, spot->like, p);
}

bool zip_spot_place(const zip_writer *w, struct zip_spot *spot)
{
    struct place p;
    bool ok = place_spot(w, spot, &p);
    spot->data = ok ? p.data : 0;
    return ok;
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
    struct place p;
    buf whole;
    buf_init(&whole, 65535);
    bool ok = whole_name(w, spot, &whole) && place_spot(w, spot, &p);
    if (ok)
        put_local(out, buf_view(&whole), spot->size, 0, &p);
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
    w->crc = crc32_update(w->crc, bytes, n);
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

uint32_t zip_writer_crc(const zip_writer *w) { return w->crc; }

void zip_put_ends(buf *b, uint64_t members, uint64_t at, uint64_t size, uint64_t end)
{
    buf_u32le(b, 0x06064B50);
    buf_u64le(b, 44);
    buf_u16le(b, 45);
    buf_u16le(b, 45);
    buf_u64le(b, 0);
    buf_u64le(b, members);
    buf_u64le(b, members);
    buf_u64le(b, size);
    buf_u64le(b, at);
    buf_u32le(b, 0x07064B50);
    buf_u32le(b, 0);
    buf_u64le(b, end);
    buf_u32le(b, 1);
    buf_u32le(b, 0x06054B50);
    buf_u32le(b, 0);
    buf_u16le(b, members >= 0xFFFF ? 0xFFFF : (uint16_t)members);
    buf_u16le(b, members >= 0xFFFF ? 0xFFFF : (uint16_t)members);
    buf_u32le(b, size >= FULL32 ? FULL32 : (uint32_t)size);
    buf_u32le(b, at >= FULL32 ? FULL32 : (uint32_t)at);
    buf_u16le(b, 0);
}

/* put_skipped - their records, in pieces. */
static ckpt_status put_skipped(zip_writer *w, zip_tell *tell, const void *user, ckpt_error *err)
{
    buf_free(&w->held);
    for (size_t i = 0; i < w->skipped; i++) {
        struct zip_spot spot;
        tell(user, i, &spot);
        if (whole_name(w, &spot, &w->name))
            put_central(&w->held, buf_view(&w->name), spot.size, spot.crc, spot.header);
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
    zip_put_ends(&w->held, w->members, at, end - at, end);
    if (!buf_ok(&w->held))
        return fail_memory(err);
    return sink_write(w->out, w->held.data, w->held.len, err);
}
