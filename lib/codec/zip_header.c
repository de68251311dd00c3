/* zip_header.c - see zip_header.h, which has the layouts. */
#include "codec/zip_header.h"

#define FULL16    0xFFFFu
#define FULL32    0xFFFFFFFFu
#define PAD_FIELD 0x4246u /* "FB", the id that torch uses */

/* parse_common - parses the fields that both headers have, from the version needed to the length of the extra
 * fields. */
static struct zip_header parse_common(const unsigned char *b, uint32_t signature)
{
    return (struct zip_header){.signature = signature,
                               .needed = load_u16le(b),
                               .flags = load_u16le(b + 2),
                               .method = load_u16le(b + 4),
                               .time = load_u32le(b + 6),
                               .crc = load_u32le(b + 10),
                               .csize = load_u32le(b + 14),
                               .usize = load_u32le(b + 18),
                               .name_len = load_u16le(b + 22),
                               .extra_len = load_u16le(b + 24)};
}

struct zip_header zip_parse_local(const unsigned char b[ZIP_LOCAL_SIZE])
{
    return parse_common(b + 4, load_u32le(b));
}

struct zip_header zip_parse_central(const unsigned char b[ZIP_CENTRAL_SIZE])
{
    struct zip_header h = parse_common(b + 6, load_u32le(b));
    h.made_by = load_u16le(b + 4);
    h.comment_len = load_u16le(b + 32);
    h.disk = load_u16le(b + 34);
    h.attributes = load_u32le(b + 38);
    h.offset = load_u32le(b + 42);
    return h;
}

ckpt_status zip_read_local(source *src, uint64_t at, struct zip_header *h, ckpt_error *err)
{
    unsigned char b[ZIP_LOCAL_SIZE];
    CKPT_TRY(source_read(src, at, b, sizeof b, err));
    *h = zip_parse_local(b);
    return CKPT_OK;
}

bool zip_has_signature(source *src, uint64_t at, uint32_t signature)
{
    ckpt_error ignored;
    unsigned char b[4];
    return source_read(src, at, b, sizeof b, &ignored) == CKPT_OK && load_u32le(b) == signature;
}

bool zip64_resolve(struct zip_header *h, cursor extra, size_t *unused)
{
    bool no_usize = h->usize == FULL32, no_csize = h->csize == FULL32, no_offset = h->offset == FULL32;
    while (extra.left >= 4) {
        uint16_t id = cursor_u16(&extra), n = cursor_u16(&extra);
        cursor field = cursor_sub(&extra, n);
        if (extra.bad)
            return !no_usize && !no_csize && !no_offset;
        if (id != ZIP_FIELD_ZIP64)
            continue;
        h->usize = no_usize ? cursor_u64(&field) : h->usize;
        h->csize = no_csize ? cursor_u64(&field) : h->csize;
        h->offset = no_offset ? cursor_u64(&field) : h->offset;
        if (unused)
            *unused = field.left;
        return !field.bad;
    }
    return true;
}

static uint32_t saturate_u32(uint64_t v) { return v < FULL32 ? (uint32_t)v : FULL32; }

uint16_t zip64_length(const struct zip_header *h)
{
    int n = (h->usize >= FULL32) + (h->csize >= FULL32) + (h->offset >= FULL32);
    return (uint16_t)(n ? 4 + 8 * n : 0);
}

/* put_common - writes what parse_common parses. EXTRA is the number of bytes in the extra fields. */
static void put_common(buf *b, const struct zip_header *h, size_t name_len, uint32_t extra)
{
    buf_u16le(b, zip64_length(h) ? ZIP_VERSION_ZIP64 : ZIP_VERSION);
    buf_u16le(b, h->flags);
    buf_u16le(b, h->method);
    buf_u32le(b, h->time);
    buf_u32le(b, h->crc);
    buf_u32le(b, saturate_u32(h->csize));
    buf_u32le(b, saturate_u32(h->usize));
    buf_u16le(b, (uint16_t)name_len);
    buf_u16le(b, (uint16_t)extra);
}

static void put_zip64(buf *b, const struct zip_header *h)
{
    const uint64_t values[] = {h->usize, h->csize, h->offset};
    if (!zip64_length(h))
        return;
    buf_u16le(b, ZIP_FIELD_ZIP64);
    buf_u16le(b, (uint16_t)(zip64_length(h) - 4));
    for (size_t i = 0; i < 3; i++)
        if (values[i] >= FULL32)
            buf_u64le(b, values[i]);
}

size_t zip_output_local_size(const struct zip_header *h, size_t name_len)
{
    const struct zip_header sizes = {.csize = h->csize, .usize = h->usize};
    return ZIP_LOCAL_SIZE + name_len + zip64_length(&sizes) + ZIP_PAD_FIELD;
}

void zip_put_local(buf *b, const struct zip_header *header, ckpt_str name, uint16_t pad)
{
    struct zip_header h = *header;
    h.offset = 0;
    buf_u32le(b, ZIP_LOCAL);
    put_common(b, &h, name.len, zip64_length(&h) + ZIP_PAD_FIELD + pad);
    buf_put_str(b, name);
    put_zip64(b, &h);
    buf_u16le(b, PAD_FIELD);
    buf_u16le(b, pad);
    unsigned char *fill = buf_extend(b, pad);
    if (fill)
        memset(fill, 'Z', pad);
}

void zip_put_central(buf *b, const struct zip_header *h, ckpt_str name)
{
    buf_u32le(b, ZIP_CENTRAL);
    buf_u16le(b, h->made_by);
    put_common(b, h, name.len, zip64_length(h));
    buf_u16le(b, 0); /* comment */
    buf_u16le(b, h->disk);
    buf_u16le(b, 0); /* internal attributes */
    buf_u32le(b, h->attributes);
    buf_u32le(b, saturate_u32(h->offset));
    buf_put_str(b, name);
    put_zip64(b, h);
}

bool zip_parse_descriptor(const unsigned char *b, size_t n, unsigned form, struct zip_descriptor *d)
{
    cursor c = cursor_of(b, n, 0);
    bool wide = form & ZIP_WIDE, fits = !(form & ZIP_SIGNED) || cursor_u32(&c) == ZIP_DESCRIPTOR;
    d->crc = cursor_u32(&c);
    d->csize = wide ? cursor_u64(&c) : cursor_u32(&c);
    d->usize = wide ? cursor_u64(&c) : cursor_u32(&c);
    d->length = (uint32_t)c.pos;
    return fits && !c.bad;
}

void zip_put_descriptor(buf *b, uint32_t crc, uint32_t csize, uint32_t usize)
{
    buf_u32le(b, ZIP_DESCRIPTOR);
    buf_u32le(b, crc);
    buf_u32le(b, csize);
    buf_u32le(b, usize);
}

struct zip_end_record zip_parse_end(const unsigned char b[ZIP_END_SIZE])
{
    return (struct zip_end_record){.signature = load_u32le(b),
                                   .disk = load_u16le(b + 4),
                                   .directory_disk = load_u16le(b + 6),
                                   .disk_entries = load_u16le(b + 8),
                                   .entries = load_u16le(b + 10),
                                   .size = load_u32le(b + 12),
                                   .offset = load_u32le(b + 16),
                                   .comment_len = load_u16le(b + 20)};
}

struct zip_end_record zip64_parse_end(const unsigned char b[ZIP64_END_SIZE])
{
    return (struct zip_end_record){.signature = load_u32le(b),
                                   .follows = load_u64le(b + 4),
                                   .disk = load_u32le(b + 16),
                                   .directory_disk = load_u32le(b + 20),
                                   .disk_entries = load_u64le(b + 24),
                                   .entries = load_u64le(b + 32),
                                   .size = load_u64le(b + 40),
                                   .offset = load_u64le(b + 48)};
}

struct zip64_locator zip64_parse_locator(const unsigned char b[ZIP64_LOCATOR_SIZE])
{
    return (struct zip64_locator){.signature = load_u32le(b),
                                  .disk = load_u32le(b + 4),
                                  .offset = load_u64le(b + 8),
                                  .disks = load_u32le(b + 16)};
}

void zip_put_end(buf *b, const struct zip_end_record *r)
{
    uint16_t entries = r->entries < FULL16 ? (uint16_t)r->entries : FULL16;
    buf_u32le(b, ZIP_END);
    buf_u32le(b, 0); /* both disks */
    buf_u16le(b, entries);
    buf_u16le(b, entries);
    buf_u32le(b, saturate_u32(r->size));
    buf_u32le(b, saturate_u32(r->offset));
    buf_u16le(b, 0); /* comment */
}

void zip_put_ends(buf *b, const struct zip_end_record *r, uint64_t at)
{
    buf_u32le(b, ZIP64_END);
    buf_u64le(b, ZIP64_END_SIZE - ZIP64_END_LEAD);
    buf_u16le(b, ZIP_VERSION_ZIP64);
    buf_u16le(b, ZIP_VERSION_ZIP64);
    buf_u64le(b, 0); /* both disks */
    buf_u64le(b, r->entries);
    buf_u64le(b, r->entries);
    buf_u64le(b, r->size);
    buf_u64le(b, r->offset);
    buf_u32le(b, ZIP64_LOCATOR);
    buf_u32le(b, 0);
    buf_u64le(b, at);
    buf_u32le(b, 1);
    zip_put_end(b, r);
}
