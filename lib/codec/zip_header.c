/* zip_header.c - see zip_header.h, which has the layouts. */
#include "codec/zip_header.h"

#define FULL16    0xFFFFu
#define FULL32    0xFFFFFFFFu
#define PAD_FIELD 0x4246u /* "FB", the id that torch uses */

/* parse_common - parses the fields that both headers have, from the version needed to the length of the extra
 * fields. */
static struct zip_header parse_common(const unsigned char *bytes, uint32_t signature)
{
    return (struct zip_header){.signature = signature,
                               .needed = load_u16le(bytes),
                               .flags = load_u16le(bytes + 2),
                               .method = load_u16le(bytes + 4),
                               .time = load_u32le(bytes + 6),
                               .crc = load_u32le(bytes + 10),
                               .csize = load_u32le(bytes + 14),
                               .usize = load_u32le(bytes + 18),
                               .name_len = load_u16le(bytes + 22),
                               .extra_len = load_u16le(bytes + 24)};
}

struct zip_header zip_parse_local(const unsigned char bytes[ZIP_LOCAL_SIZE])
{
    return parse_common(bytes + 4, load_u32le(bytes));
}

struct zip_header zip_parse_central(const unsigned char bytes[ZIP_CENTRAL_SIZE])
{
    struct zip_header h = parse_common(bytes + 6, load_u32le(bytes));
    h.made_by = load_u16le(bytes + 4);
    h.comment_len = load_u16le(bytes + 32);
    h.disk = load_u16le(bytes + 34);
    h.attributes = load_u32le(bytes + 38);
    h.offset = load_u32le(bytes + 42);
    return h;
}

ckpt_status zip_read_local(source *src, uint64_t at, struct zip_header *header, ckpt_error *err)
{
    unsigned char b[ZIP_LOCAL_SIZE];
    CKPT_TRY(source_read(src, at, b, sizeof b, err));
    *header = zip_parse_local(b);
    return CKPT_OK;
}

bool zip_has_signature(source *src, uint64_t at, uint32_t signature)
{
    ckpt_error ignored;
    unsigned char b[4];
    return source_read(src, at, b, sizeof b, &ignored) == CKPT_OK && load_u32le(b) == signature;
}

bool zip64_resolve(struct zip_header *header, cursor extra, size_t *unused)
{
    bool no_usize = header->usize == FULL32, no_csize = header->csize == FULL32,
         no_offset = header->offset == FULL32;
    while (extra.left >= 4) {
        uint16_t id = cursor_u16(&extra), n = cursor_u16(&extra);
        cursor field = cursor_sub(&extra, n);
        if (extra.bad)
            return !no_usize && !no_csize && !no_offset;
        if (id != ZIP_FIELD_ZIP64)
            continue;
        header->usize = no_usize ? cursor_u64(&field) : header->usize;
        header->csize = no_csize ? cursor_u64(&field) : header->csize;
        header->offset = no_offset ? cursor_u64(&field) : header->offset;
        if (unused)
            *unused = field.left;
        return !field.bad;
    }
    return true;
}

static uint32_t saturate_u32(uint64_t number) { return number < FULL32 ? (uint32_t)number : FULL32; }

uint16_t zip64_length(const struct zip_header *header)
{
    int n = (header->usize >= FULL32) + (header->csize >= FULL32) + (header->offset >= FULL32);
    return (uint16_t)(n ? 4 + 8 * n : 0);
}

/* put_common - writes what parse_common parses. EXTRA is the number of bytes in the extra fields. */
static void put_common(buf *out, const struct zip_header *header, size_t name_len, uint32_t extra)
{
    buf_u16le(out, zip64_length(header) ? ZIP_VERSION_ZIP64 : ZIP_VERSION);
    buf_u16le(out, header->flags);
    buf_u16le(out, header->method);
    buf_u32le(out, header->time);
    buf_u32le(out, header->crc);
    buf_u32le(out, saturate_u32(header->csize));
    buf_u32le(out, saturate_u32(header->usize));
    buf_u16le(out, (uint16_t)name_len);
    buf_u16le(out, (uint16_t)extra);
}

static void put_zip64(buf *out, const struct zip_header *header)
{
    const uint64_t values[] = {header->usize, header->csize, header->offset};
    if (!zip64_length(header))
        return;
    buf_u16le(out, ZIP_FIELD_ZIP64);
    buf_u16le(out, (uint16_t)(zip64_length(header) - 4));
    for (size_t i = 0; i < 3; i++)
        if (values[i] >= FULL32)
            buf_u64le(out, values[i]);
}

size_t zip_output_local_size(const struct zip_header *header, size_t name_len)
{
    const struct zip_header sizes = {.csize = header->csize, .usize = header->usize};
    return ZIP_LOCAL_SIZE + name_len + zip64_length(&sizes) + ZIP_PAD_FIELD;
}

void zip_put_local(buf *out, const struct zip_header *header, ckpt_str name, uint16_t pad)
{
    struct zip_header h = *header;
    h.offset = 0;
    buf_u32le(out, ZIP_LOCAL);
    put_common(out, &h, name.len, zip64_length(&h) + ZIP_PAD_FIELD + pad);
    buf_put_str(out, name);
    put_zip64(out, &h);
    buf_u16le(out, PAD_FIELD);
    buf_u16le(out, pad);
    unsigned char *fill = buf_extend(out, pad);
    if (fill)
        memset(fill, 'Z', pad);
}

void zip_put_central(buf *out, const struct zip_header *header, ckpt_str name)
{
    buf_u32le(out, ZIP_CENTRAL);
    buf_u16le(out, header->made_by);
    put_common(out, header, name.len, zip64_length(header));
    buf_u16le(out, 0); /* comment */
    buf_u16le(out, header->disk);
    buf_u16le(out, 0); /* internal attributes */
    buf_u32le(out, header->attributes);
    buf_u32le(out, saturate_u32(header->offset));
    buf_put_str(out, name);
    put_zip64(out, header);
}

bool zip_parse_descriptor(const unsigned char *bytes, size_t nbytes, unsigned form,
                          struct zip_descriptor *descriptor)
{
    cursor c = cursor_of(bytes, nbytes, 0);
    bool wide = form & ZIP_WIDE, fits = !(form & ZIP_SIGNED) || cursor_u32(&c) == ZIP_DESCRIPTOR;
    descriptor->crc = cursor_u32(&c);
    descriptor->csize = wide ? cursor_u64(&c) : cursor_u32(&c);
    descriptor->usize = wide ? cursor_u64(&c) : cursor_u32(&c);
    descriptor->length = (uint32_t)c.pos;
    return fits && !c.bad;
}

void zip_put_descriptor(buf *out, uint32_t crc, uint32_t csize, uint32_t usize)
{
    buf_u32le(out, ZIP_DESCRIPTOR);
    buf_u32le(out, crc);
    buf_u32le(out, csize);
    buf_u32le(out, usize);
}

struct zip_end_record zip_parse_end(const unsigned char bytes[ZIP_END_SIZE])
{
    return (struct zip_end_record){.signature = load_u32le(bytes),
                                   .disk = load_u16le(bytes + 4),
                                   .directory_disk = load_u16le(bytes + 6),
                                   .disk_entries = load_u16le(bytes + 8),
                                   .entries = load_u16le(bytes + 10),
                                   .size = load_u32le(bytes + 12),
                                   .offset = load_u32le(bytes + 16),
                                   .comment_len = load_u16le(bytes + 20)};
}

struct zip_end_record zip64_parse_end(const unsigned char bytes[ZIP64_END_SIZE])
{
    return (struct zip_end_record){.signature = load_u32le(bytes),
                                   .follows = load_u64le(bytes + 4),
                                   .disk = load_u32le(bytes + 16),
                                   .directory_disk = load_u32le(bytes + 20),
                                   .disk_entries = load_u64le(bytes + 24),
                                   .entries = load_u64le(bytes + 32),
                                   .size = load_u64le(bytes + 40),
                                   .offset = load_u64le(bytes + 48)};
}

struct zip64_locator zip64_parse_locator(const unsigned char bytes[ZIP64_LOCATOR_SIZE])
{
    return (struct zip64_locator){.signature = load_u32le(bytes),
                                  .disk = load_u32le(bytes + 4),
                                  .offset = load_u64le(bytes + 8),
                                  .disks = load_u32le(bytes + 16)};
}

void zip_put_end(buf *out, const struct zip_end_record *record)
{
    uint16_t entries = record->entries < FULL16 ? (uint16_t)record->entries : FULL16;
    buf_u32le(out, ZIP_END);
    buf_u32le(out, 0); /* both disks */
    buf_u16le(out, entries);
    buf_u16le(out, entries);
    buf_u32le(out, saturate_u32(record->size));
    buf_u32le(out, saturate_u32(record->offset));
    buf_u16le(out, 0); /* comment */
}

void zip_put_ends(buf *out, const struct zip_end_record *record, uint64_t at)
{
    buf_u32le(out, ZIP64_END);
    buf_u64le(out, ZIP64_END_SIZE - ZIP64_END_LEAD);
    buf_u16le(out, ZIP_VERSION_ZIP64);
    buf_u16le(out, ZIP_VERSION_ZIP64);
    buf_u64le(out, 0); /* both disks */
    buf_u64le(out, record->entries);
    buf_u64le(out, record->entries);
    buf_u64le(out, record->size);
    buf_u64le(out, record->offset);
    buf_u32le(out, ZIP64_LOCATOR);
    buf_u32le(out, 0);
    buf_u64le(out, at);
    buf_u32le(out, 1);
    zip_put_end(out, record);
}
